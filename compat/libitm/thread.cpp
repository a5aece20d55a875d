// compat/libitm/thread.cpp -- begin, commit, rollback and restart of a thread's transactions.
#include "compat/libitm/thread.h"

#include <pthread.h>

#include <atomic>
#include <new>
#include <vector>

#include "compat/libitm/way_back.h"
#include "platform/assert.h"

namespace tmh::itm {

constinit thread_local Thread *this_thread = nullptr;

namespace {

// What the compiled code says of a transaction that level 1 can run: of these, the first alone.
constexpr std::uint32_t kLinesProperties = kHasInstrumented | kGoesIrrevocable | kOmitsAfterWrite;

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

}  // namespace

Thread &Thread::make_self() {
  Process &process = Process::self();
  process.end_thread = end_thread;
  if (process.pages != nullptr)
    process.pages->set_functions(leave_pages, go_irrevocable_on_pages, die_on_pages);
  // A slot keeps its thread object for the next thread: others may ask it to move on at any time.
  Gate::Slot *const slot = process.has_lines ? process.gate.take_slot() : nullptr;
  Thread *thread = slot == nullptr ? nullptr : static_cast<Thread *>(slot->owner);
  if (thread == nullptr) thread = new (std::nothrow) Thread(process, slot);
  if (thread == nullptr || pthread_setspecific(process.thread_key, thread) != 0)
    die("no memory for a thread's transactions");
  TMH_ASSERT(!thread->is_inside() && thread->accesses.lines().slot() == slot);
  thread->exceptions_.attach();
  thread->accesses.lines().attach(thread);
  this_thread = thread;
  return *thread;
}

Thread::Thread(Process &process, Gate::Slot *slot)
    : accesses(process, slot, leave_body), process_(process) {}

void Thread::retire() noexcept {
  if (!accesses.lines().detach()) delete this;
}

bool Thread::can_run_lines() const noexcept {
  return accesses.lines().is_usable() && !wanted_.is_alone &&
         (wanted_.properties & kLinesProperties) == kHasInstrumented;
}

// Which code a transaction runs that needs no rollback of its own. What is cancelled inside of it
// can be undone in the code with barriers alone.
std::uint32_t Thread::path(std::uint32_t properties) const noexcept {
  const bool may_be_plain =
      (properties & kHasInstrumented) == 0 || accesses.may_run_plain(properties);
  return may_be_plain && (properties & kHasUninstrumented) != 0 ? kRunUninstrumented
                                                                : kRunInstrumented;
}

namespace {

// Word by word: they were just stored so, and a larger load would wait for that.
void copy_registers(const Registers &from, Registers *to) noexcept {
  const auto &words = reinterpret_cast<const volatile std::uintptr_t(&)[8]>(from);
  auto &out = reinterpret_cast<std::uintptr_t(&)[8]>(*to);
  static_assert(sizeof words == sizeof from);
  for (std::size_t i = 0; i < 8; ++i) out[i] = words[i];
}

}  // namespace

std::uint32_t Thread::begin(std::uint32_t properties, const Registers &registers) {
  if (is_inside() || (properties & kLogsForUndo) != 0) [[unlikely]]
    return begin_nested(properties, registers);
  LinesMethod &lines = accesses.lines();
  const bool is_usual = process_.method == Method::kLines && lines.is_usable() &&
                        (properties & kLinesProperties) == kHasInstrumented;
  // Before the stores below: its locked instruction waits for those that came before.
  const bool is_in = is_usual && lines.try_enter();
  wanted_ = {.properties = properties};
  Point &outer = nesting_.outer();
  copy_registers(registers, &outer.registers);
  outer.exceptions.uncaught = exceptions_.uncaught();
  if (is_in) [[likely]] {
    nesting_.begin();
    accesses.begin_lines_inside(outer.registers.stack);
    return kRunInstrumented | kSaveLive;
  }
  if (process_.method == Method::kRtm && (properties & kHasNoAbort) != 0 && can_run_lines()) {
    const std::uint32_t path = accesses.begin_hardware(outer.registers.stack, properties);
    if (path != 0) {
      nesting_.begin();
      return path;
    }
  }
  return begin_outer(false);
}

[[gnu::noinline]] std::uint32_t Thread::begin_outer(bool is_restart) {
  nesting_.begin();
  const std::uint32_t restored = is_restart ? kRestoreLive : 0;
  if (process_.pages != nullptr) [[unlikely]]
    return begin_pages() | restored;
  if (!can_run_lines()) [[unlikely]]
    return begin_alone() | restored;
  accesses.begin_lines(nesting_.outer().registers.stack, wanted_.attempt);
  return kRunInstrumented | kSaveLive | restored;
}

std::uint32_t Thread::begin_pages() {
  const std::uintptr_t stack = nesting_.outer().registers.stack;
  accesses.check_stack(stack);
  wanted_.is_irrevocable |= (wanted_.properties & kGoesIrrevocable) != 0;
  if (wanted_.is_irrevocable) return begin_alone();
  accesses.begin_pages(stack, wanted_.attempt, wanted_.properties, wanted_.is_alone);
  return path(wanted_.properties) | kSaveLive;
}

std::uint32_t Thread::begin_alone() {
  const bool is_for_good = wanted_.is_irrevocable || (wanted_.properties & kHasNoAbort) != 0;
  accesses.begin_alone(nesting_.outer().registers.stack, is_for_good);
  has_traces_ = true;
  if (is_for_good) nesting_.note_irrevocable();
  return path(wanted_.properties) | (is_for_good ? 0 : kSaveLive);
}

std::uint32_t Thread::begin_nested(std::uint32_t properties, const Registers &registers) {
  const bool has_barriers = (properties & kHasInstrumented) != 0;
  if (accesses.keeps_stores() &&
      (!has_barriers || (properties & (kGoesIrrevocable | kOmitsAfterWrite)) != 0))
    go_irrevocable();
  if ((properties & kLogsForUndo) != 0) die("code that logs for undo is not supported");
  accesses.open(properties);
  has_traces_ = true;
  nesting_.open();
  if ((properties & kHasNoAbort) != 0) return path(properties);
  if (!has_barriers && !accesses.undoes_plain_code())
    die("a nested transaction cannot be cancelled");
  Point &point = nesting_.add_point();
  point.registers = registers;
  point.actions = actions_.mark();
  point.exceptions = exceptions_.mark();
  point.accesses = accesses.mark(registers.stack);
  return path(properties) | kSaveLive;
}

void Thread::commit() {
  TMH_ASSERT(is_inside());
  if (nesting_.depth() != 1) [[unlikely]]
    return commit_nested();
  if (!accesses.commit()) [[unlikely]]
    restart();
  nesting_.end();
  if (has_traces_) [[unlikely]]
    run_effects();
}

[[gnu::noinline]] void Thread::commit_nested() {
  if (nesting_.is_at_point()) {
    const Point point = nesting_.take_point();
    accesses.drop_mark(point.accesses, nesting_.inner_stack());
    if (is_irrevocable() && !nesting_.has_points()) accesses.keep_no_more();
  }
  nesting_.close();
}

// Of a transaction that has committed: gives memory back, calls the program's actions.
void Thread::run_effects() {
  TMH_ASSERT(!is_inside());
  // An action may run transactions.
  Actions::Effects effects = actions_.take_effects();
  // Destroyed at the end: that runs the program's code.
  const std::vector<std::exception_ptr> kept = exceptions_.take_kept();
  forget_traces();
  actions_.run(&effects);
}

void Thread::forget() noexcept {
  nesting_.end();
  accesses.forget_pages();
  actions_.forget_actions();
  forget_traces();
}

void Thread::forget_traces() noexcept {
  has_traces_ = false;
  nesting_.forget();
  accesses.forget();
  exceptions_.forget();
}

// The whole transaction; the thread is outside afterwards.
void Thread::roll_back() {
  const Point outer = nesting_.outer();
  accesses.roll_back(outer.registers.stack);
  if (!accesses.restores_runtime()) exceptions_.roll_back(outer.exceptions);
  const std::vector<Actions::Call> calls = actions_.take_undone(outer.actions);
  accesses.leave();
  nesting_.end();
  forget_traces();
  if (calls.empty()) return;
  // Their transactions are others.
  const Wanted wanted = wanted_;
  for (const Actions::Call &each : calls) each.action(each.argument);
  nesting_.outer() = outer;
  wanted_ = wanted;
}

// The innermost begin that may be cancelled alone.
Registers Thread::roll_back_nested() {
  const Point point = nesting_.roll_back();
  accesses.roll_back_to(point.accesses, point.registers.stack, nesting_.inner_stack());
  if (!accesses.restores_runtime()) exceptions_.roll_back(point.exceptions);
  if (is_irrevocable() && !nesting_.has_points()) accesses.keep_no_more();
  const std::vector<Actions::Call> calls = actions_.take_undone(point.actions);
  for (const Actions::Call &each : calls) each.action(each.argument);
  return point.registers;
}

// What rolls back runs below the stack pointer of the begin that it goes back to: it stores to the
// bytes above, and g++ calls a commit, the last that its function does, with the function's own
// frame gone.
[[gnu::noinline]] void Thread::leave(const Registers &registers, void (*way)(void *thread)) {
  TMH_ASSERT(registers.stack != 0);
  if (reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) >= registers.stack)
    tmh_itm_call_below(registers.stack, way, this);
  way(this);
  __builtin_unreachable();
}

namespace {

// The jump destroys nothing of this frame.
[[noreturn]] void go_back(const Registers &registers, std::uint32_t result) {
  Registers to = registers;
  to.next_instruction = way_back(registers.next_instruction, result);
  tmh_itm_go_back(&to, result);
}

}  // namespace

void Thread::abort(std::uint32_t reason) {
  accesses.abort_hardware(line::AbortCode::kNeedsPages);
  if (reason == kUserRetry) restart();
  if ((reason & ~kOuterAbort) != kUserAbort) die("a transaction ends for an unknown reason");
  if (!is_inside()) die("a cancel outside of a transaction");
  const bool is_nested = (reason & kOuterAbort) == 0 && nesting_.has_points();
  if (!is_nested && (wanted_.properties & kHasNoAbort) != 0)
    die("a transaction is cancelled whose begin said that it is not");
  if (is_irrevocable() && (!is_nested || nesting_.is_point_irrevocable()))
    die("an irrevocable transaction is cancelled");
  process_.totals.cancelled.fetch_add(1, std::memory_order_relaxed);
  if (process_.pages != nullptr) process_.pages->count_cancel();
  if (is_nested)
    leave(nesting_.innermost().registers, [](void *thread) {
      go_back(static_cast<Thread *>(thread)->roll_back_nested(), kAborted | kRestoreLive);
    });
  leave(nesting_.outer().registers, [](void *thread) {
    auto *const own = static_cast<Thread *>(thread);
    own->roll_back();
    go_back(own->nesting_.outer().registers, kAborted | kRestoreLive);
  });
}

void Thread::restart() {
  TMH_ASSERT(is_inside());
  accesses.abort_hardware(line::AbortCode::kRetry);
  if (is_irrevocable()) die("an irrevocable transaction cannot begin again");
  leave(nesting_.outer().registers, [](void *thread) {
    auto *const own = static_cast<Thread *>(thread);
    own->note_failed_attempt();
    own->roll_back();
    const std::uint32_t result = own->begin_outer(true);
    go_back(own->nesting_.outer().registers, result);
  });
}

void Thread::note_failed_attempt() noexcept {
  const std::uint32_t most = accesses.attempts_max();
  if (most == 0) return;  // the program wants it to begin again
  if (++wanted_.attempt < most) return;
  if (!wanted_.is_alone) process_.totals.for_attempts.fetch_add(1, std::memory_order_relaxed);
  wanted_.is_alone = true;
}

void Thread::go_irrevocable() {
  if (is_irrevocable()) return;
  accesses.abort_hardware(line::AbortCode::kNeedsPages);
  process_.totals.irrevocable.fetch_add(1, std::memory_order_relaxed);
  wanted_.is_alone = wanted_.is_irrevocable = true;  // if it must begin again
  if (!accesses.go_alone(nesting_.has_points())) restart();
  nesting_.note_irrevocable();
  has_traces_ = true;
  actions_.forget_on_undo();
}

void Thread::log_local(const void *at, std::size_t bytes) {
  if (!accesses.keeps_stores()) return;
  has_traces_ = true;
  accesses.log_local(at, bytes);
}

void Thread::note_allocated(void *memory, std::size_t bytes, Action release) {
  if (!accesses.keeps_stores() || memory == nullptr) return;
  has_traces_ = true;
  actions_.add_allocated(memory, release);
  accesses.note_private(memory, bytes);
}

void Thread::note_freed(void *memory, Action release) {
  if (memory == nullptr) return;
  if (accesses.frees_at_once()) return release(memory);
  has_traces_ = true;
  actions_.add_freed(memory, release);
}

void Thread::add_commit_action(Action action, void *argument) {
  has_traces_ = true;
  actions_.add_on_commit(action, argument);
}

void Thread::add_undo_action(Action action, void *argument) {
  has_traces_ = true;
  actions_.add_on_undo(action, argument);
}

void Thread::note_exception(void *object, std::size_t bytes) {
  if (!accesses.keeps_stores()) return;
  has_traces_ = true;
  exceptions_.add_allocated(object);
  accesses.note_private(object, bytes);
}

void Thread::note_thrown(void *object) {
  const bool is_kept = accesses.keeps_stores();
  has_traces_ |= is_kept;
  exceptions_.note_thrown(object, is_kept);
}

void Thread::note_caught(const void *object) noexcept {
  if (accesses.restores_runtime()) return;
  has_traces_ = true;
  exceptions_.note_caught(object);
}

void Thread::keep_caught() {
  if (!accesses.keeps_stores()) return;
  has_traces_ = true;
  exceptions_.keep_caught();
}

}  // namespace tmh::itm
