// levels/line/software_commit.cpp -- the end of an instance that wrote, step by step as
// hierarchy/PROTOCOL.md names them.
// Invariant: what a dead thread leaves between two steps is what recovery.cpp expects: `writes[0 ..
//            lines)` with their words before, and the status that says whether they are to be
//            written back or given back.
#include <bit>

#include "levels/line/software.h"
#include "observe/planted.h"
#include "platform/probes.h"
#include "platform/steps.h"

namespace tmh::line {

using observe::is_planted;
using observe::Planted;
using platform::Step;
using platform::step;

namespace {

// An instance of a thousand lines finds the words, the log and home in no cache near, and each on
// another page; of a few, nothing is fetched.
constexpr std::size_t kFetchedAhead = 8;
void fetch_to_store(const void *at) noexcept { __builtin_prefetch(at, 1); }

// Stores the bytes of one 8-byte word that the mask names. REQUIRES: the line is locked, so nobody
// else stores there.
void store_masked(std::byte *home, std::uint64_t value, std::uint64_t byte_mask) noexcept {
  std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t *>(home));
  if (byte_mask != 0xff) {
    const std::uint64_t bits = spread_byte_mask(byte_mask);
    // relaxed: only this thread stores here while the line is locked
    value = (word.load(std::memory_order_relaxed) & ~bits) | (value & bits);
  }
  word.store(value, std::memory_order_release);  // pairs with the acquire in detail::line_load()
}

}  // namespace

void write_back_line(const LineWrite &entry, std::byte *home) noexcept {
  for (std::uint64_t left = entry.mask; left != 0;) {
    const auto word = static_cast<unsigned>(std::countr_zero(left)) / 8;
    const std::uint64_t byte_mask = left >> (8 * word) & 0xff;
    store_masked(home + 8 * word, entry.data[word], byte_mask);
    left &= ~(0xffull << (8 * word));
  }
}

// What a commit does for the redo log, between the protocol's steps: nothing, in a volatile domain.
struct SoftwareThread::NoRedo {
  [[nodiscard]] AbortCause plan() const noexcept { return AbortCause::kNone; }
  void encode() const noexcept {}
  void note_stamp() const noexcept {}
  void show() const noexcept {}
  void hand_over() const noexcept {}
  void land() const noexcept {}
  void give_up() const noexcept {}
};

// Durable domains (hierarchy/PROTOCOL.md, "Durable domains").
struct SoftwareThread::Redo {
  SoftwareThread &thread;
  LineContextV1 &context;

  // Holding no line.
  [[nodiscard]] AbortCause plan() const noexcept { return thread.plan_redo(); }
  // With all lines locked, before the stamp.
  void encode() const noexcept {
    thread.encode_redo();
    step(Step::kLineRedo);
    // seq_cst: before the stamp; the log's writer loads the clock and then this word (redo.h)
    context.in_flight.store(kStamping, std::memory_order_seq_cst);
  }
  void note_stamp() const noexcept {
    reinterpret_cast<RedoHeader *>(context.redo + thread.redo_at_ % kRedoBytes)->stamp =
        thread.stamp_;
    // Later commits need not be waited for any more.
    context.in_flight.store(thread.stamp_, std::memory_order_release);
  }
  // Behind the commit point.
  void show() const noexcept {
    // release: pairs with gather_redo()
    context.redo_head.store(thread.redo_at_ + thread.redo_bytes_, std::memory_order_release);
    step(Step::kLineRedoShown);
  }
  // Before IDLE. The room is the record's now, and the log's writer gives it back.
  void hand_over() const noexcept {
    // relaxed: published by IDLE
    context.redo_reserved.store(0, std::memory_order_relaxed);
  }
  // release: a checkpoint that sees it sees home
  void land() const noexcept { context.in_flight.store(0, std::memory_order_release); }
  // Aborted.
  void give_up() const noexcept {
    // release: who sees it sees IDLE
    context.in_flight.store(0, std::memory_order_release);
    // Before: nobody gives it back twice.
    context.redo_reserved.store(0, std::memory_order_relaxed);
    thread.redo_log_->give_back(thread.redo_reserved_);
  }
};

Status SoftwareThread::commit() noexcept {
  if (is_doomed_ || !writes_.empty()) return commit_writes();
  stamp_ = rv;
  context_->add(LineCount::kCommits, 1);
  platform::probe::commit(platform::probe::kLines, stamp_, 0);
  finish();
  return Status::kCommitted;
}

Status SoftwareThread::commit_writes() noexcept {
  if (is_doomed_) return end_aborted(cause_);
  LineStateV1 &state = memory_.state();
  // acquire: pairs with give_turn()
  if (state.turn.load(std::memory_order_acquire) != 0 && !has_turn_) [[unlikely]]
    wait_for_turn();
  if (redo_log_ != nullptr) [[unlikely]]
    return commit_with(Redo{*this, *context_}, state);
  return commit_with(NoRedo{}, state);
}

template <class RedoPolicy>
Status SoftwareThread::commit_with(const RedoPolicy &redo, LineStateV1 &state) noexcept {
  if (const AbortCause cause = redo.plan(); cause != AbortCause::kNone) return end_aborted(cause);
  context_->age.store(age_, std::memory_order_relaxed);  // relaxed, both: published by the status
  context_->lines.store(writes_.size(), std::memory_order_relaxed);
  // release: who sees PENDING sees age and lines
  context_->status.store(status_word(++instance_, State::kPending), std::memory_order_release);
  const AbortCause cause = publish(redo, state);
  if (cause != AbortCause::kNone) {
    // release: recovery that sees IDLE sees the lines free
    context_->status.store(status_word(instance_, State::kIdle), std::memory_order_release);
    redo.give_up();
    return end_aborted(cause);
  }
  platform::probe::commit(platform::probe::kLines, stamp_, writes_.size());
  finish();
  return Status::kCommitted;
}

// From line-lock to line-unlock. After anything but kNone no line is locked.
template <class RedoPolicy>
AbortCause SoftwareThread::publish(const RedoPolicy &redo, LineStateV1 &state) noexcept {
  if (const AbortCause cause = lock_lines(); cause != AbortCause::kNone) return cause;
  step(Step::kLineLock);
  AbortCause cause = AbortCause::kNone;
  if (is_planted(Planted::kStampLate)) {
    stamp_ = state.clock.load(std::memory_order_seq_cst) + 1;
    cause = validate();
  }
  redo.encode();
  // seq_cst: after the locks and before the look for pins. An instance above stores its pin, then
  // reads this clock: one of us sees the other.
  stamp_ = state.clock.fetch_add(1, std::memory_order_seq_cst) + 1;
  context_->stamp.store(stamp_, std::memory_order_relaxed);  // relaxed: published by COMMITTED
  redo.note_stamp();
  step(Step::kLineStamp);
  const bool is_pinned = upper_.any_pin() && !is_planted(Planted::kNoUndoWords);
  if (!is_planted(Planted::kStampLate)) cause = validate();
  if (cause == AbortCause::kNone && is_pinned) cause = save_undo();
  step(Step::kLineSave);
  if (cause == AbortCause::kNone) cause = decide_commit();
  if (cause != AbortCause::kNone) {
    release_lines(writes_.size());
    return cause;
  }
  step(Step::kLineCommitPoint);
  redo.show();
  if (is_planted(Planted::kLineUnlockFirst)) unlock_lines();
  write_back();
  unlock_lines();
  // Before IDLE: COMMITTED and not counted, recovery counts it.
  context_->add(LineCount::kCommits, 1);
  step(Step::kLineCounted);
  redo.hand_over();
  // release: a reader of IDLE may not see an earlier word of our lines
  context_->status.store(status_word(instance_, State::kIdle), std::memory_order_release);
  redo.land();
  state.changed.notify();
  return AbortCause::kNone;
}

inline AbortCause SoftwareThread::validate() noexcept {
  const bool is_valid = is_valid_at_commit() || is_planted(Planted::kLineNoValidation);
  step(Step::kLineValidate);
  return is_valid ? AbortCause::kNone : AbortCause::kValidation;
}

// The commit point.
inline AbortCause SoftwareThread::decide_commit() noexcept {
  std::uint64_t pending = status_word(instance_, State::kPending);
  // release: pairs with the acquire of recovery, which needs the stamp and the undo words.
  // relaxed on failure: FAILED publishes nothing.
  const bool is_committed = context_->status.compare_exchange_strong(
      pending, status_word(instance_, State::kCommitted), std::memory_order_release,
      std::memory_order_relaxed);
  return is_committed ? AbortCause::kNone : AbortCause::kConflictOther;
}

inline void SoftwareThread::write_back() noexcept {
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (i + kFetchedAhead < writes_.size()) fetch_to_store(writes_[i + kFetchedAhead].home);
    write_back_line(context_->writes[i], writes_[i].home);
  }
  step(Step::kLineWriteBack);
}

inline void SoftwareThread::unlock_lines() noexcept {
  // release: pairs with the acquire of whoever reads or locks the line next
  for (const LocalWrite &write : writes_) write.word->store(stamp_, std::memory_order_release);
  step(Step::kLineUnlock);
}

AbortCause SoftwareThread::lock_lines() noexcept {
  for (std::uint32_t asked = 0;; ++asked) {
    std::size_t locked = 0;
    AbortCause cause = AbortCause::kNone;
    while (locked < writes_.size() && (cause = lock_line(locked)) == AbortCause::kNone) {
      if (++locked + kFetchedAhead >= writes_.size()) continue;
      fetch_to_store(writes_[locked + kFetchedAhead].word);
      fetch_to_store(&context_->writes[locked + kFetchedAhead].before);
    }
    if (cause == AbortCause::kNone) return cause;
    release_lines(locked);
    if (cause != AbortCause::kCrossLevel) return cause;
    // Holding nothing again. After kGranted the lines are locked anew: what was read of the page
    // makes validation fail, what was only written does not matter. A page that goes to and fro is
    // the policy's to decide, after an abort.
    const UpperAnswer answer = asked < kAsksPerCommit
                                   ? upper_.ask(page_of(context_->writes[locked].at), insists())
                                   : UpperAnswer::kBusy;
    if (answer == UpperAnswer::kGranted) continue;
    refuse(answer);
    return AbortCause::kCrossLevel;
  }
}

// REQUIRES: *seen is neither locked nor U. False: the word is another one by now, *seen.
inline bool SoftwareThread::take_line(std::size_t index, std::uint64_t *seen) noexcept {
  // Relaxed: published by the lock.
  context_->writes[index].before.store(*seen, std::memory_order_relaxed);
  step(Step::kGapLineBefore);
  // acquire: pairs with line-unlock of whoever wrote the line last. release: recovery finds
  // `before` by the lock.
  return writes_[index].word->compare_exchange_strong(
      *seen, locked_by(number_), std::memory_order_acq_rel, std::memory_order_relaxed);
}

// kCrossLevel: the line is in U.
inline AbortCause SoftwareThread::lock_line(std::size_t index) noexcept {
  // Relaxed: the CAS decides.
  std::uint64_t seen = writes_[index].word->load(std::memory_order_relaxed);
  if (!is_locked(seen) && !is_upper(seen) && take_line(index, &seen)) [[likely]]
    return AbortCause::kNone;
  return lock_line_in_use(index, seen);
}

AbortCause SoftwareThread::lock_line_in_use(std::size_t index, std::uint64_t seen) noexcept {
  const LineWord &word = *writes_[index].word;
  bool is_decided = false;
  for (;;) {
    if (is_upper(seen)) return AbortCause::kCrossLevel;
    if (!is_locked(seen)) {
      if (take_line(index, &seen)) return AbortCause::kNone;
      continue;
    }
    if (!spin_until_changed(word, seen, kCommitSpinRounds)) {
      if (is_decided || decide(word, seen) == Met::kFailSelf) {
        wait_at_begin(word, seen);  // holding nothing
        return AbortCause::kConflictSelf;
      }
      is_decided = true;
    }
    // relaxed: FAILED publishes nothing
    if (context_->status.load(std::memory_order_relaxed) != status_word(instance_, State::kPending))
      return AbortCause::kConflictOther;
    seen = word.load(std::memory_order_relaxed);
  }
}

// Gives the first `count` lines back as they were.
void SoftwareThread::release_lines(std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t before = context_->writes[i].before.load(std::memory_order_relaxed);
    // Pairs with the acquire of the next one.
    writes_[i].word->store(before, std::memory_order_release);
  }
}

bool SoftwareThread::is_valid_at_commit() const noexcept {
  // Nobody has stamped since: nothing that was read can have changed.
  if (stamp_ == rv + 1) return true;
  for (const LineWord *const word : reads()) {
    // acquire: keeps the look behind line-stamp, after which whoever overwrites the line stamps
    const std::uint64_t now = word->load(std::memory_order_acquire);
    if (now <= rv) continue;
    if (now != locked_by(number_)) return false;
    const std::uint32_t index = write_index_.find(reinterpret_cast<std::uintptr_t>(word));
    // relaxed: stored by this thread
    if (context_->writes[index].before.load(std::memory_order_relaxed) > rv) return false;
  }
  return true;
}

// The words under the writes, for snapshots above that began before this stamp. A ring without room
// aborts: what is in it that some line pin precedes may not be overwritten. That ends with the
// snapshot, so the status says that another try may succeed.
AbortCause SoftwareThread::save_undo() noexcept {
  if (!undo_allocated_ && memory_.allocate_undo(number_) != Errc::kOk) return AbortCause::kNoSpace;
  undo_allocated_ = true;
  // Relaxed: this thread's.
  std::uint64_t head = context_->undo_head.load(std::memory_order_relaxed);
  if (!has_undo_room(head)) {
    doom(AbortCause::kCapacity);
    status_ = AbortStatus{kStatusCapacity | kStatusRetry};
    return AbortCause::kCapacity;
  }
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    const LineWrite &entry = context_->writes[i];
    for (std::uint64_t word = 0; word < kLineBytes / 8; ++word) {
      if ((entry.mask >> (8 * word) & 0xff) == 0) continue;
      UndoWord &undo = context_->undo[head++ % kUndoWords];
      const Where at{static_cast<std::uint64_t>(entry.at) + 8 * word};
      const std::atomic_ref<std::uint64_t> home(
          *reinterpret_cast<std::uint64_t *>(writes_[i].home + 8 * word));
      undo.stamp.store(0, std::memory_order_relaxed);
      // Release, all three: a reader that sees one of these sees the stamp's 0, or a later stamp,
      // when it looks again.
      undo.at.store(at, std::memory_order_release);
      // Relaxed: the line is locked.
      undo.value.store(home.load(std::memory_order_relaxed), std::memory_order_release);
      undo.stamp.store(stamp_, std::memory_order_release);
    }
  }
  // release: who sees the head sees the words below it
  context_->undo_head.store(head, std::memory_order_release);
  return AbortCause::kNone;
}

// Stamps only grow along the ring, so the last word to be overwritten speaks for all.
bool SoftwareThread::has_undo_room(std::uint64_t head) const noexcept {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    const std::uint64_t mask = context_->writes[i].mask;
    for (std::uint64_t word = 0; word < kLineBytes / 8; ++word)
      count += (mask >> (8 * word) & 0xff) != 0 ? 1u : 0u;
  }
  if (count > kUndoWords) return false;
  // relaxed: this thread's
  return context_->undo[(head + count - 1) % kUndoWords].stamp.load(std::memory_order_relaxed) <=
         upper_.oldest_line_pin();
}

Status SoftwareThread::end_aborted(AbortCause cause) noexcept {
  if (!is_doomed_) doom(cause);
  context_->add(
      line_abort_count(is_planted(Planted::kAbortMiscounted) ? AbortCause::kQueryWrote : cause_),
      1);
  finish();
  return Status::kAborted;
}

}  // namespace tmh::line
