// compat/libitm/thread.cpp -- begin, commit, rollback and restart of a thread's transactions; the
// long ways of their accesses.
#include "compat/libitm/thread.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "compat/libitm/exceptions.h"
#include "compat/libitm/process.h"
#include "compat/libitm/thread_inline.h"
#include "compat/libitm/way_back.h"
#include "levels/line/rtm.h"
#include "platform/assert.h"

namespace tmh::itm {

constinit thread_local Thread *this_thread = nullptr;

namespace {

// Then a transaction runs alone. Level 1 lets one that fails so often as kPriorityAttempts commit
// first; what still fails meets plain stores of the program, or more threads than processors.
constexpr std::uint32_t kAttemptsMax = 64;
// In method pages; an attempt costs more.
constexpr std::uint32_t kAttemptsOfPagesMax = 16;

// A transaction in hardware that aborts so often runs in software; one that does not fit, or that a
// system call has ended, at once.
constexpr std::uint32_t kHardwareAttempts = 4;

constexpr std::uint64_t kIncarnation = 1;  // of participants: the process is the only one

// What the compiled code says of a transaction that `lines` can run: of these, the first alone.
constexpr std::uint32_t kLinesProperties = kHasInstrumented | kGoesIrrevocable | kOmitsAfterWrite;

pthread_key_t thread_key;

void end_thread(void *thread) {
  auto *const own = static_cast<Thread *>(thread);
  if (own->is_inside()) die("a thread ends in a transaction");
  this_thread = nullptr;
  own->retire();
}

[[noreturn]] void leave_body(line::SoftwareThread &) { this_thread->restart(); }
void leave_pages() { this_thread->restart(); }
void go_irrevocable_on_pages() { this_thread->go_irrevocable(); }
void die_on_pages() { this_thread->forget(); }

std::atomic<std::uint64_t> next_id{kNoTransactionId + 1};

}  // namespace

void Thread::make_key() noexcept {
  if (pthread_key_create(&thread_key, end_thread) != 0)
    die("there is no key for the data of threads left");
}

Thread &Thread::make_self() {
  Process &process = Process::self();
  if (process.pages != nullptr)
    process.pages->set_functions(leave_pages, go_irrevocable_on_pages, die_on_pages);
  // A slot keeps its thread object for the next thread: others may ask it to move on at any time.
  Gate::Slot *const slot = process.has_lines ? process.gate.take_slot() : nullptr;
  Thread *thread = slot == nullptr ? nullptr : static_cast<Thread *>(slot->owner);
  if (thread == nullptr) thread = new (std::nothrow) Thread(process, slot);
  if (thread == nullptr || pthread_setspecific(thread_key, thread) != 0)
    die("no memory for a thread's transactions");
  thread->attach();
  this_thread = thread;
  return *thread;
}

Thread::Thread(Process &process, Gate::Slot *slot)
    : lines(process.memory, process.releaser, leave_body), process_(process), slot_(slot) {}

void Thread::attach() noexcept {
  uncaught_exceptions_ = uncaught_exceptions();
  if (slot_ == nullptr) return;
  has_lines_ = lines.attach(0, kIncarnation) == Errc::kOk;
  lines.show_snapshot_at(&slot_->snapshot);
  slot_->owner = this;
  slot_->window_bytes.store(&lines.bytes, std::memory_order_release);  // pairs with Gate::ask()
}

void Thread::retire() noexcept {
  if (has_lines_) lines.detach();
  if (slot_ == nullptr) {
    delete this;
  } else {
    Gate::give_back(*slot_);
  }
}

std::uint64_t Thread::id() {
  if (depth_ == 0) return kNoTransactionId;
  std::uint64_t &id = depth_ == 1 ? id_ : nested_ids_[depth_ - 2];
  if (id == 0) id = next_id.fetch_add(1, std::memory_order_relaxed);  // unique, no order
  return id;
}

bool Thread::can_run_lines() const noexcept {
  return has_lines_ && !wants_alone_ && (properties_ & kLinesProperties) == kHasInstrumented;
}

// Which code a transaction runs that needs no rollback of its own. What is cancelled inside of it
// can be undone in the code with barriers alone.
std::uint32_t Thread::path(std::uint32_t properties) const noexcept {
  const bool may_be_plain = (mode_ == Mode::kAlone && (properties & kHasNoAbort) != 0) ||
                            mode_ == Mode::kHardware ||
                            (mode_ == Mode::kPages && process_.pages->finds_effects()) ||
                            (properties & kHasInstrumented) == 0;
  return may_be_plain && (properties & kHasUninstrumented) != 0 ? kRunUninstrumented
                                                                : kRunInstrumented;
}

namespace {

// Word by word: they were just stored so, and a larger load would wait for that.
void copy_registers(const Registers &from, Registers *to) noexcept {
  const auto &words = reinterpret_cast<const volatile std::uintptr_t(&)[8]>(from);
  auto &out = reinterpret_cast<std::uintptr_t(&)[8]>(*to);
  for (std::size_t i = 0; i < 8; ++i) out[i] = words[i];
}

}  // namespace

// The thread is inside.
[[gnu::always_inline]] inline void Thread::begin_lines_inside() {
  lines.begin_at_once(attempt_);
  if (slot_->snapshot.load(std::memory_order_relaxed) != lines.rv)  // this thread's
    Gate::move_on(*slot_, lines.rv);
  mode_ = Mode::kLines;
}

std::uint32_t Thread::begin(std::uint32_t properties, const Registers &registers) {
  if (depth_ != 0 || (properties & kLogsForUndo) != 0) [[unlikely]]
    return begin_nested(properties, registers);
  const bool is_usual = process_.method == Method::kLines && has_lines_ &&
                        (properties & kLinesProperties) == kHasInstrumented;
  if (is_usual) [[likely]]
    lines.let_go_first_briefly();
  // Before the stores below: its locked instruction waits for those that came before.
  const bool is_in = is_usual && process_.gate.try_enter(*slot_, process_.memory.state().clock);
  properties_ = properties;
  attempt_ = 0;
  wants_alone_ = wants_irrevocable_ = false;
  copy_registers(registers, &outer_.registers);
  outer_.uncaught = *uncaught_exceptions_;
  if (is_in) [[likely]] {
    depth_ = 1;
    id_ = 0;
    begin_lines_inside();
    return kRunInstrumented | kSaveLive;
  }
  if (process_.method == Method::kRtm && (properties & kHasNoAbort) != 0)
    if (const std::uint32_t path = begin_hardware(); path != 0) return path;
  return begin_outer(false);
}

[[gnu::noinline]] std::uint32_t Thread::begin_outer(bool is_restart) {
  depth_ = 1;
  id_ = 0;
  if (process_.pages != nullptr) [[unlikely]]
    return begin_pages(is_restart);
  if (!can_run_lines()) [[unlikely]]
    return begin_alone() | (is_restart ? kRestoreLive : 0);
  begin_lines();
  return kRunInstrumented | kSaveLive | (is_restart ? kRestoreLive : 0);
}

void Thread::begin_lines() {
  if (attempt_ != 0) [[unlikely]]
    lines.wait_to_begin_again(attempt_);
  lines.let_go_first_briefly();
  // Before the first load: what runs in hardware without barriers aborts now.
  if (process_.method == Method::kRtm) [[unlikely]]
    process_.gate.enter_software();
  while (!process_.gate.try_enter(*slot_, process_.memory.state().clock)) [[unlikely]] {
      lines.give_way();  // who is alone waits for those that wait for this one
      process_.gate.wait_until_nobody_is_alone();
    }
  begin_lines_inside();
}

// The thread's part of what others know of its transaction in software.
[[gnu::always_inline]] inline void Thread::end_lines() noexcept {
  Gate::leave(*slot_);
  if (process_.method == Method::kRtm) [[unlikely]]
    process_.gate.leave_software();
}

// 0: it runs in software. Returns twice: after an abort memory is as it was, this frame, too.
std::uint32_t Thread::begin_hardware() {
  const bool may_be_plain = (properties_ & kHasUninstrumented) != 0;
  if (!can_run_lines()) return 0;
  lines.shut();
  for (std::uint32_t attempt = 0; attempt < kHardwareAttempts; ++attempt) {
    if (process_.gate.is_anyone_alone()) process_.gate.wait_until_nobody_is_alone();
    const bool is_beside = !may_be_plain || process_.gate.has_software();
    const std::uint32_t status = line::rtm_begin();
    if (status == line::kRtmStarted) {
      // Both words are in the read set from here on: who changes them aborts this transaction.
      if (process_.gate.is_anyone_alone()) line::rtm_abort(line::AbortCode::kExclusiveHeld);
      if (!is_beside && process_.gate.has_software()) line::rtm_abort(line::AbortCode::kUpperRuns);
      mode_ = is_beside ? Mode::kHardwareBeside : Mode::kHardware;
      depth_ = 1;
      id_ = 0;
      return is_beside ? kRunInstrumented : kRunUninstrumented;
    }
    auto &totals = process_.totals;
    const bool is_explicit = (status & line::kStatusExplicit) != 0;
    ((status & line::kStatusConflict) != 0   ? totals.hardware_conflicts
     : (status & line::kStatusCapacity) != 0 ? totals.hardware_capacity
                                             : totals.hardware_other)
        .fetch_add(1, std::memory_order_relaxed);
    if (is_explicit ? (status >> 24) == static_cast<std::uint32_t>(line::AbortCode::kNeedsPages)
                    : (status & line::kStatusRetry) == 0)
      return 0;
  }
  return 0;
}

void Thread::commit_hardware() {
  std::uint64_t stamp = 0;
  if (!stored_words_.empty()) {
    // As a software commit, but at one instant. relaxed, all: the processor publishes them at once.
    std::atomic<std::uint64_t> &clock = process_.memory.state().clock;
    stamp = clock.load(std::memory_order_relaxed) + 1;
    clock.store(stamp, std::memory_order_relaxed);
    for (line::LineWord *const word : stored_words_) word->store(stamp, std::memory_order_relaxed);
    stored_words_.clear();
  }
  lines.context().add(line::LineCount::kHardwareCommits, 1);
  line::rtm_end();
  if (stamp != 0) {
    process_.gate.wait_for_readers(slot_, stamp);
  } else if (mode_ == Mode::kHardwareBeside) {
    // acquire: what it has read was committed before
    process_.gate.wait_for_older(slot_,
                                 process_.memory.state().clock.load(std::memory_order_acquire));
  }
}

// In mode kHardwareBeside. A line that a commit in software has locked is half written.
void Thread::look_at_words(std::uintptr_t at, std::size_t bytes, bool is_store) {
  if (mode_ != Mode::kHardwareBeside || bytes == 0) return;
  for (std::uintptr_t line = at / kLineBytes; line <= (at + bytes - 1) / kLineBytes; ++line) {
    line::LineWord *const word = process_.memory.segment(0).word_at(line * kLineBytes);
    if (line::is_locked(word->load(std::memory_order_relaxed)))
      line::rtm_abort(line::AbortCode::kUpperHolds);
    if (is_store && (stored_words_.empty() || stored_words_.back() != word))
      stored_words_.push_back(word);
  }
}

std::uint32_t Thread::begin_alone() {
  be_alone();
  process_.totals.alone.fetch_add(1, std::memory_order_relaxed);
  lines.shut();
  has_traces_ = true;
  is_irrevocable_ = wants_irrevocable_ || (properties_ & kHasNoAbort) != 0;
  mode_ = is_irrevocable_ ? Mode::kAlone : Mode::kAloneUndo;
  if (is_irrevocable_) note_irrevocable();
  return path(properties_) | (is_irrevocable_ ? 0 : kSaveLive);
}

std::uint32_t Thread::begin_nested(std::uint32_t properties, const Registers &registers) {
  if (keeps_stores() && ((properties & kHasInstrumented) == 0 ||
                         (properties & (kGoesIrrevocable | kOmitsAfterWrite)) != 0))
    go_irrevocable();
  if ((properties & kLogsForUndo) != 0) die("code that logs for undo is not supported");
  const bool has_no_abort = (properties & kHasNoAbort) != 0;
  if (is_in_hardware() &&
      (!has_no_abort || (path(properties) == kRunInstrumented && mode_ == Mode::kHardware)))
    line::rtm_abort(line::AbortCode::kNeedsPages);
  has_traces_ = true;
  nested_ids_.push_back(0);
  ++depth_;
  if (has_no_abort) return path(properties);
  if ((properties & kHasInstrumented) == 0 && mode_ != Mode::kPages)
    die("a nested transaction cannot be cancelled");
  if (mode_ == Mode::kAlone) mode_ = Mode::kAloneUndo;
  Point &point = nested_.emplace_back();
  point.registers = registers;
  point.depth = depth_;
  point.undo = undo_.size();
  point.privates = privates_.size();
  point.allocated = allocated_.size();
  point.freed = freed_.size();
  point.on_commit = on_commit_.size();
  point.on_undo = on_undo_.size();
  point.exceptions = exceptions_.size();
  point.thrown = thrown_.size();
  point.kept = kept_.size();
  point.caught = caught_;
  point.uncaught = *uncaught_exceptions_;
  if (mode_ == Mode::kLines) point.lines = lines.mark();
  if (mode_ == Mode::kPages) process_.pages->mark(registers.stack);
  return path(properties) | kSaveLive;
}

void Thread::commit() {
  TMH_ASSERT(depth_ != 0);
  if (depth_ != 1) [[unlikely]]
    return commit_nested();
  if (mode_ == Mode::kLines) [[likely]] {
    if (!lines.try_commit()) [[unlikely]]
      restart();
    end_lines();
    lines.has_stored() ? process_.gate.wait_for_readers(slot_, lines.rv)
                       : process_.gate.wait_for_older(slot_, lines.rv);
  } else if (is_in_hardware()) {
    commit_hardware();
  } else if (mode_ == Mode::kPages) {
    commit_pages();
  } else {
    end_alone();
  }
  end_attempt();
  if (has_traces_) [[unlikely]]
    run_effects();
}

[[gnu::noinline]] void Thread::commit_nested() {
  if (!nested_.empty() && nested_.back().depth == depth_) {
    if (mode_ == Mode::kLines) lines.drop_mark(nested_.back().lines);
    nested_.pop_back();
    if (mode_ == Mode::kPages) process_.pages->drop_mark();
    nested_when_irrevocable_ = std::min(nested_when_irrevocable_, nested_.size());
    if (is_irrevocable_ && nested_.empty()) {
      mode_ = Mode::kAlone;
      undo_.clear();
    }
  }
  nested_ids_.pop_back();
  --depth_;
}

// Of a transaction that has committed: gives memory back, calls the program's actions.
void Thread::run_effects() {
  // An action may run transactions.
  std::vector<Call> freed, actions;
  freed.swap(freed_);
  actions.swap(on_commit_);
  allocated_.clear();
  on_undo_.clear();
  std::vector<std::exception_ptr> kept;  // destroyed at the end: that runs the program's code
  kept.swap(kept_);
  forget_traces();
  for (const Call &each : freed) each.action(each.argument);
  for (const Call &each : actions) each.action(each.argument);
  // The room is used again, unless an action's transactions have got some.
  freed.clear();
  if (freed_.capacity() == 0) freed_.swap(freed);
}

// The thread is outside.
inline void Thread::end_attempt() noexcept {
  mode_ = Mode::kOutside;
  depth_ = 0;
  is_irrevocable_ = false;
}

void Thread::forget() noexcept {
  end_attempt();
  is_alone_on_pages_ = false;
  on_commit_.clear();
  on_undo_.clear();
  forget_traces();
}

void Thread::forget_traces() noexcept {
  has_traces_ = false;
  nested_when_irrevocable_ = 0;
  nested_.clear();
  nested_ids_.clear();
  undo_.clear();
  privates_.clear();
  exceptions_.clear();
  thrown_.clear();
  kept_.clear();
  caught_ = 0;
}

// In mode kPages memory is as it was, the runtime's part of this thread, too.
void Thread::undo_memory(const Point &point) noexcept {
  if (mode_ == Mode::kLines && point.depth != 0) lines.roll_back_to(point.lines);
  undo_.roll_back(point.undo, point.registers.stack);
  if (mode_ != Mode::kPages) roll_back_exceptions(point);
  on_commit_.resize(point.on_commit);
  freed_.resize(point.freed);
  privates_.keep(point.privates);
}

// The calls that a rollback makes, newest first: undo actions, then memory given back. They may run
// transactions, which use what they are taken from.
std::vector<Thread::Call> Thread::take_undo_calls(std::size_t on_undo, std::size_t allocated) {
  std::vector<Call> calls(on_undo_.rbegin(),
                          on_undo_.rend() - static_cast<std::ptrdiff_t>(on_undo));
  calls.insert(calls.end(), allocated_.rbegin(),
               allocated_.rend() - static_cast<std::ptrdiff_t>(allocated));
  on_undo_.resize(on_undo);
  allocated_.resize(allocated);
  return calls;
}

// The whole transaction; the thread is outside afterwards.
void Thread::roll_back() {
  if (mode_ == Mode::kPages) process_.pages->roll_back();
  undo_memory(outer_);
  const std::vector<Call> calls = take_undo_calls(0, 0);
  mode_ == Mode::kLines ? end_lines() : end_alone();
  end_attempt();
  forget_traces();
  if (calls.empty()) return;
  // Their transactions are others.
  const Registers registers = outer_.registers;
  const std::uint32_t properties = properties_, attempt = attempt_, uncaught = outer_.uncaught;
  const bool wants_alone = wants_alone_, wants_irrevocable = wants_irrevocable_;
  for (const Call &each : calls) each.action(each.argument);
  outer_.registers = registers;
  outer_.uncaught = uncaught;
  properties_ = properties;
  attempt_ = attempt;
  wants_alone_ = wants_alone;
  wants_irrevocable_ = wants_irrevocable;
}

// The innermost begin that may be cancelled alone.
Registers Thread::roll_back_nested() {
  const Point point = std::move(nested_.back());
  nested_.pop_back();
  if (mode_ == Mode::kPages) process_.pages->roll_back_to_mark();
  undo_memory(point);
  depth_ = point.depth - 1;
  nested_ids_.resize(depth_ - 1);
  if (is_irrevocable_ && nested_.empty()) mode_ = Mode::kAlone;
  const std::vector<Call> calls = take_undo_calls(point.on_undo, point.allocated);
  for (const Call &each : calls) each.action(each.argument);
  return point.registers;
}

void Thread::roll_back_exceptions(const Point &point) noexcept {
  while (exceptions_.size() > point.exceptions) {
    free_exception(exceptions_.back());
    exceptions_.pop_back();
  }
  if (caught_ > point.caught) end_catches(caught_ - point.caught);
  caught_ = point.caught;
  while (kept_.size() > point.kept) {
    drop_exception(kept_.back());
    kept_.pop_back();
  }
  while (thrown_.size() > point.thrown) {
    delete_thrown(thrown_.back());
    thrown_.pop_back();
  }
  *uncaught_exceptions_ = point.uncaught;
}

// What rolls back runs below the stack pointer of the begin that it goes back to: it stores to the
// bytes above, and g++ calls a commit, the last that its function does, with the function's own
// frame gone.
[[gnu::noinline]] void Thread::leave(const Registers &registers, void (*way)(void *thread)) {
  if (reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) >= registers.stack)
    tmh_itm_call_below(registers.stack, way, this);
  way(this);
  __builtin_unreachable();
}

void Thread::abort(std::uint32_t reason) {
  if (is_in_hardware()) line::rtm_abort(line::AbortCode::kNeedsPages);
  if (reason == kUserRetry) restart();
  if ((reason & ~kOuterAbort) != kUserAbort) die("a transaction ends for an unknown reason");
  if (depth_ == 0) die("a cancel outside of a transaction");
  const bool is_nested = (reason & kOuterAbort) == 0 && !nested_.empty();
  if (!is_nested && (properties_ & kHasNoAbort) != 0)
    die("a transaction is cancelled whose begin said that it is not");
  if (is_irrevocable_ && (!is_nested || nested_.size() <= nested_when_irrevocable_))
    die("an irrevocable transaction is cancelled");
  process_.totals.cancelled.fetch_add(1, std::memory_order_relaxed);
  if (process_.pages != nullptr) process_.pages->count_cancel();
  is_nested ? leave(nested_.back().registers, leave_nested)
            : leave(outer_.registers, leave_cancelled);
}

namespace {

// The jump destroys nothing of this frame.
[[noreturn]] void go_back(const Registers &registers, std::uint32_t result) {
  Registers to = registers;
  to.next_instruction = way_back(registers.next_instruction, result);
  tmh_itm_go_back(&to, result);
}

}  // namespace

void Thread::leave_nested(void *thread) {
  go_back(static_cast<Thread *>(thread)->roll_back_nested(), kAborted | kRestoreLive);
}

void Thread::leave_cancelled(void *thread) {
  auto *const own = static_cast<Thread *>(thread);
  if (own->mode_ == Mode::kLines) own->lines.abandon();
  own->roll_back();
  go_back(own->outer_.registers, kAborted | kRestoreLive);
}

void Thread::restart() {
  if (is_in_hardware()) line::rtm_abort(line::AbortCode::kRetry);
  if (is_irrevocable_) die("an irrevocable transaction cannot begin again");
  leave(outer_.registers, leave_to_restart);
}

void Thread::leave_to_restart(void *thread) {
  auto *const own = static_cast<Thread *>(thread);
  own->note_failed_attempt();
  own->roll_back();
  const std::uint32_t result = own->begin_outer(true);
  go_back(own->outer_.registers, result);
}

void Thread::note_failed_attempt() noexcept {
  if (mode_ == Mode::kAloneUndo) return;  // the program wants it to begin again
  if (mode_ == Mode::kLines && lines.is_running()) lines.abandon();
  if (++attempt_ < (mode_ == Mode::kLines ? kAttemptsMax : kAttemptsOfPagesMax)) return;
  if (!wants_alone_) process_.totals.for_attempts.fetch_add(1, std::memory_order_relaxed);
  wants_alone_ = true;
}

void Thread::go_irrevocable() {
  if (is_irrevocable_) return;
  if (is_in_hardware()) line::rtm_abort(line::AbortCode::kNeedsPages);
  process_.totals.irrevocable.fetch_add(1, std::memory_order_relaxed);
  if (mode_ == Mode::kLines) {
    wants_alone_ = wants_irrevocable_ = true;  // if it must begin again
    lines.give_way();                          // those that it is going to wait for may wait for it
    if (!process_.gate.try_be_alone(this, slot_)) restart();
    // A commit of what has only read does not look whether that is still so.
    if (!lines.extend() || !lines.try_commit()) {
      end_alone();
      restart();
    }
    end_lines();
    lines.shut();
  }
  if (mode_ == Mode::kPages) {
    wants_alone_ = wants_irrevocable_ = true;
    if (!process_.pages->go_alone()) restart();
  }
  is_irrevocable_ = true;
  has_traces_ = true;
  nested_when_irrevocable_ = nested_.size();
  undo_.clear();
  on_undo_.clear();
  mode_ = nested_.empty() ? Mode::kAlone : Mode::kAloneUndo;
  note_irrevocable();
}

void Thread::note_allocated(void *memory, std::size_t bytes, Action release) {
  if (!keeps_stores() || memory == nullptr) return;
  has_traces_ = true;
  allocated_.push_back({release, memory});
  if (mode_ == Mode::kLines) make_private(reinterpret_cast<std::uintptr_t>(memory), bytes);
}

// Stores to these bytes need no lock. Their lines, which may have others, are never the newest.
void Thread::make_private(std::uintptr_t begin, std::size_t bytes) {
  if (bytes == 0) return;
  privates_.add(begin, bytes);
  lines.leave_newest();
}

void Thread::note_freed(void *memory, Action release) {
  if (memory == nullptr) return;
  if (mode_ == Mode::kAlone || mode_ == Mode::kPages) return release(memory);
  has_traces_ = true;
  freed_.push_back({release, memory});
}

void Thread::note_exception(void *object, std::size_t bytes) {
  if (!keeps_stores()) return;
  has_traces_ = true;
  exceptions_.push_back(object);
  if (mode_ == Mode::kLines) make_private(reinterpret_cast<std::uintptr_t>(object), bytes);
}

void Thread::note_exception_freed(void *object) {
  if (mode_ == Mode::kAlone || mode_ == Mode::kOutside || mode_ == Mode::kPages)
    return free_exception(object);
  has_traces_ = true;
  freed_.push_back({free_exception, object});
}

void Thread::note_thrown(void *object) noexcept {
  exceptions_.erase(std::remove(exceptions_.begin(), exceptions_.end(), object), exceptions_.end());
  if (!keeps_stores()) return;
  has_traces_ = true;
  thrown_.push_back(object);
}

void Thread::note_caught(const void *object) noexcept {
  if (mode_ == Mode::kPages) return;
  has_traces_ = true;
  thrown_.erase(std::remove(thrown_.begin(), thrown_.end(), object), thrown_.end());
  ++caught_;
}

void Thread::keep_caught() {
  if (!keeps_stores()) return;
  has_traces_ = true;
  kept_.push_back(std::current_exception());
}

}  // namespace tmh::itm
