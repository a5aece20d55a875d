// levels/line/software_commit.cpp -- a commit, step by step as hierarchy/exchange/PROTOCOL.md names
// them.
#include "levels/line/software_commit.h"

#include <bit>

#include "levels/line/commit_steps.h"
#include "levels/line/software.h"
#include "levels/line/validation.h"
#include "observe/planted.h"
#include "observe/probes.h"
#include "observe/steps.h"
#include "platform/assert.h"

namespace tmh::line {

using observe::is_planted;
using observe::Planted;
using observe::Step;
using observe::step_if;

namespace {

// Pauses of 40 to 140 cycles: a commit of a few lines takes 0.1 to 1 us. A committer, which others
// wait for, spins less than a reader.
constexpr std::uint32_t kCommitterSpinRounds = 32;
// Then a page that goes to and fro counts as busy.
constexpr std::uint32_t kAsksPerCommit = 4;

// An instance of a thousand lines finds the words, the log and home in no cache near, and each on
// another page.
constexpr std::size_t kFetchedAhead = 8;
void fetch_to_store(const void *at) noexcept { __builtin_prefetch(at, 1); }

// Stores the bytes of one 8-byte word that the mask names. The line is locked: no other thread
// stores there. Not inline: most words are written whole.
[[gnu::noinline]] void store_masked(std::byte *home, std::uint64_t value,
                                    std::uint64_t byte_mask) noexcept {
  TMH_ASSERT(byte_mask != 0 && byte_mask < 0xff);
  std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t *>(home));
  const std::uint64_t bits = spread_byte_mask(byte_mask);
  // relaxed: only this thread stores here while the line is locked
  value = (word.load(std::memory_order_relaxed) & ~bits) | (value & bits);
  word.store(value, std::memory_order_release);  // pairs with the acquire in detail::line_load_by()
}

// As write_back_line().
inline void store_line(const LineWrite &entry, std::byte *home) noexcept {
  TMH_ASSERT(home != nullptr);
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(home) % kLineBytes == 0);
  if (entry.mask == ~0ull) {  // most lines of a large instance
    for (std::size_t word = 0; word < kLineBytes / 8; ++word)
      // release: as in store_masked()
      std::atomic_ref<std::uint64_t>(reinterpret_cast<std::uint64_t *>(home)[word])
          .store(entry.data[word], std::memory_order_release);
    return;
  }
  for (std::uint64_t left = entry.mask; left != 0;) {
    const std::size_t word = static_cast<std::size_t>(std::countr_zero(left)) / 8;
    const std::uint64_t byte_mask = left >> (8 * word) & 0xff;
    if (byte_mask == 0xff) [[likely]]
      // release: as in store_masked()
      std::atomic_ref<std::uint64_t>(reinterpret_cast<std::uint64_t *>(home)[word])
          .store(entry.data[word], std::memory_order_release);
    else
      store_masked(home + 8 * word, entry.data[word], byte_mask);
    left &= ~(0xffull << (8 * word));
  }
}

}  // namespace

void write_back_line(const LineWrite &entry, std::byte *home) noexcept { store_line(entry, home); }

void SoftwareCommit::attach(std::uint32_t context) noexcept {
  TMH_ASSERT(context < kContextsMax);
  number_ = context;
  context_ = &memory_.context(context);
  state_ = &memory_.state();
  // relaxed: acquired with the context; from now on this thread alone moves it on.
  instance_ = number_of(context_->status.load(std::memory_order_relaxed));
  pins_ = releaser_.pins();
  redo_.attach(context);
  undo_.attach(memory_, context);
}

// From line-lock to line-unlock, in the order of commit_in_order().
template <bool kFew, class Redo>
class SoftwareCommit::Steps {
 public:
  Steps(SoftwareCommit &commit, Redo &redo, const SoftwareThread &thread) noexcept
      : commit_(commit), redo_(redo), thread_(thread) {}

  [[nodiscard]] inline Ending lock() noexcept {
    const Ending ending = commit_.lock_lines<kFew>(thread_);
    if (!ending.is_abort()) step_if<!kFew>(Step::kLineLock);
    return ending;
  }

  inline void prepare() noexcept {
    if (is_planted(Planted::kStampLate)) {
      const std::uint64_t next = clock().load(std::memory_order_seq_cst) + 1;
      if (!commit_.is_valid(thread_, next)) early_ending_ = AbortCause::kValidation;
      step_if<!kFew>(Step::kLineValidate);
    }
    redo_.encode(commit_.writes_, Redo::now_ns());
    if constexpr (Redo::kWrites) step_if<!kFew>(Step::kLineRedo);
    redo_.announce();
  }

  [[nodiscard]] std::atomic<std::uint64_t> &clock() const noexcept { return commit_.state_->clock; }

  inline void note_stamp(std::uint64_t stamp) noexcept {
    // relaxed: published by COMMITTED
    commit_.context_->stamp.store(stamp, std::memory_order_relaxed);
    redo_.stamp(stamp);
    step_if<!kFew>(Step::kLineStamp);
  }

  // Validates, saves the words under the writes, and moves the status to COMMITTED, unless another
  // instance has failed this one.
  [[nodiscard]] inline Ending pass_commit_point(std::uint64_t stamp) noexcept {
    const bool is_pinned =
        commit_.pins_.any(std::memory_order_seq_cst) && !is_planted(Planted::kNoUndoWords);
    if (early_ending_.is_abort()) return early_ending_;
    if (!is_planted(Planted::kStampLate)) {
      const bool is_stale =
          !commit_.is_valid(thread_, stamp) && !is_planted(Planted::kLineNoValidation);
      step_if<!kFew>(Step::kLineValidate);
      if (is_stale) return AbortCause::kValidation;
    }
    if (is_pinned)
      if (const Ending ending =
              commit_.undo_.save(commit_.writes_, stamp, commit_.releaser_.oldest_line_pin());
          ending.is_abort())
        return ending;
    step_if<!kFew>(Step::kLineSave);
    // A local: behind an atomic store a member is loaded again.
    const std::uint64_t instance = commit_.instance_;
    std::uint64_t pending = status_word(instance, State::kPending);
    // release: pairs with the acquire of recovery, which needs the stamp and the undo words.
    // relaxed on failure: FAILED publishes nothing.
    if (!commit_.context_->status.compare_exchange_strong(
            pending, status_word(instance, State::kCommitted), std::memory_order_release,
            std::memory_order_relaxed))
      return AbortCause::kConflictOther;
    step_if<!kFew>(Step::kLineCommitPoint);
    return {};
  }

  inline void give_back() noexcept { commit_.release_lines(commit_.writes_.size()); }

  inline void write_back(std::uint64_t stamp) noexcept {
    redo_.show();
    if constexpr (Redo::kWrites) step_if<!kFew>(Step::kLineRedoShown);
    if (is_planted(Planted::kLineUnlockFirst)) {
      commit_.unlock_lines(stamp);
      step_if<!kFew>(Step::kLineUnlock);
    }
    const std::span<const WriteSet::Target> targets = commit_.writes_.targets();
    const std::span<LineWrite> entries = commit_.writes_.entries();
    std::size_t i = 0;
    do {
      if (!kFew && i + kFetchedAhead < targets.size())
        fetch_to_store(targets[i + kFetchedAhead].home);
      store_line(entries[i], targets[i].home);
    } while (++i != targets.size());
    step_if<!kFew>(Step::kLineWriteBack);
  }

  inline void unlock(std::uint64_t stamp) noexcept {
    commit_.unlock_lines(stamp);
    step_if<!kFew>(Step::kLineUnlock);
  }

  // To IDLE.
  inline void end() noexcept {
    // Before IDLE: COMMITTED and not counted, recovery counts it.
    LineContextV1 &context = *commit_.context_;
    context.add(LineCount::kCommits, 1);
    step_if<!kFew>(Step::kLineCounted);
    redo_.keep();
    // release: a reader of IDLE may not see an earlier word of these lines
    context.status.store(status_word(commit_.instance_, State::kIdle), std::memory_order_release);
    redo_.end();
    commit_.state_->changed.notify();
  }

 private:
  SoftwareCommit &commit_;
  Redo &redo_;
  const SoftwareThread &thread_;
  Ending early_ending_;  // of a planted fault alone
};

// From PENDING to IDLE.
template <bool kFew, class Redo>
[[gnu::always_inline]] inline Ending SoftwareCommit::run_with(
    Redo &redo, const SoftwareThread &thread) noexcept {
  LineContextV1 &context = *context_;
  // relaxed, both: published by the status
  context.age.store(rivals_.age(), std::memory_order_relaxed);
  context.lines.store(writes_.size(), std::memory_order_relaxed);
  // release: a thread that sees PENDING sees age and lines
  context.status.store(status_word(++instance_, State::kPending), std::memory_order_release);
  const Ending ending = commit_in_order(Steps<kFew, Redo>(*this, redo, thread));
  if (ending.is_abort()) [[unlikely]]
    // release: recovery that sees IDLE sees the lines free
    context_->status.store(status_word(instance_, State::kIdle), std::memory_order_release);
  if (undo_.is_short()) [[unlikely]]
    undo_.allocate_ahead();
  return ending;
}

[[gnu::always_inline]] inline Ending SoftwareCommit::run(const SoftwareThread &thread) noexcept {
  TMH_ASSERT(context_ != nullptr);
  TMH_ASSERT(!writes_.empty() && writes_.size() <= kWritesMax);
  if (!writes_.is_few() || redo_.is_on() || observe::are_steps_watched()) [[unlikely]]
    return run_any(thread);
  NoRedo no_redo;
  return run_with<true>(no_redo, thread);
}

[[gnu::noinline]] Ending SoftwareCommit::run_any(const SoftwareThread &thread) noexcept {
  NoRedo no_redo;
  if (!redo_.is_on()) return run_with<false>(no_redo, thread);
  if (const AbortCause cause = redo_.plan(writes_); cause != AbortCause::kNone) return cause;
  const Ending ending = run_with<false>(redo_, thread);
  if (ending.is_abort()) redo_.forget();
  return ending;
}

// release: pairs with the acquire of the thread that reads or locks the line next
inline void SoftwareCommit::unlock_lines(std::uint64_t stamp) noexcept {
  for (const WriteSet::Target &target : writes_.targets())
    target.word->store(stamp, std::memory_order_release);
}

template <bool kFew>
inline Ending SoftwareCommit::lock_lines(const SoftwareThread &thread) noexcept {
  std::size_t locked = 0;
  const AbortCause cause = lock_each<kFew>(&locked);
  if (cause == AbortCause::kNone) [[likely]]
    return {};
  return lock_lines_again(locked, cause, thread.insists());
}

// kNone: all lines are locked; else the first *locked ones.
template <bool kFew>
inline AbortCause SoftwareCommit::lock_each(std::size_t *locked) noexcept {
  const std::span<const WriteSet::Target> targets = writes_.targets();
  const std::span<LineWrite> entries = writes_.entries();
  std::size_t i = 0;
  do {
    if (const AbortCause cause = lock_line<kFew>(*targets[i].word, i); cause != AbortCause::kNone)
        [[unlikely]] {
      *locked = i;
      return cause;
    }
    if (kFew || i + 1 + kFetchedAhead >= targets.size()) continue;
    fetch_to_store(targets[i + 1 + kFetchedAhead].word);
    fetch_to_store(&entries[i + 1 + kFetchedAhead].before);
  } while (++i != targets.size());
  return AbortCause::kNone;
}

// The line behind the first `locked` ones is not to be had at once, because of `cause`.
[[gnu::noinline]] Ending SoftwareCommit::lock_lines_again(std::size_t locked, AbortCause cause,
                                                          Insists insists) noexcept {
  for (std::uint32_t asked = 0; cause != AbortCause::kNone; ++asked) {
    if (const Ending ending = ask_for_line(locked, cause, asked, insists); ending.is_abort())
      return ending;
    cause = lock_each<false>(&locked);
  }
  return {};
}

// The line behind the first `locked` ones is not to be had. No ending: all are to be locked anew.
Ending SoftwareCommit::ask_for_line(std::size_t locked, AbortCause cause, std::uint32_t asked,
                                    Insists insists) noexcept {
  release_lines(locked);
  TMH_ASSERT(locked < writes_.size());
  if (cause != AbortCause::kCrossLevel) return cause;
  // Holding nothing again. After kGranted the lines are locked anew: what was read of the page
  // makes validation fail, what was only written does not matter. A page that goes to and fro is
  // the policy's to decide, after an abort.
  const ReleaseAnswer answer = asked < kAsksPerCommit
                                   ? ask_for(page_of(writes_.entry(locked).at), insists)
                                   : ReleaseAnswer::kBusy;
  return answer == ReleaseAnswer::kGranted ? Ending{} : refused_by(answer);
}

// False: the word is another one by now, *seen.
template <bool kFew>
inline bool SoftwareCommit::take_line(LineWord &word, std::size_t number,
                                      std::uint64_t *seen) noexcept {
  TMH_ASSERT(is_free(*seen));
  // Relaxed: published by the lock.
  writes_.entry(number).before.store(*seen, std::memory_order_relaxed);
  step_if<!kFew>(Step::kGapLineBefore);
  // acquire: pairs with line-unlock of the last committer to the line. release: recovery finds
  // `before` by the lock.
  return word.compare_exchange_strong(*seen, locked_by(number_, static_cast<std::uint32_t>(number)),
                                      std::memory_order_acq_rel, std::memory_order_relaxed);
}

// kCrossLevel: the line is in U.
template <bool kFew>
inline AbortCause SoftwareCommit::lock_line(LineWord &word, std::size_t number) noexcept {
  // Relaxed: the CAS decides.
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  if (is_free(seen) && take_line<kFew>(word, number, &seen)) [[likely]]
    return AbortCause::kNone;
  return lock_line_in_use(word, number, seen);
}

AbortCause SoftwareCommit::lock_line_in_use(LineWord &word, std::size_t number,
                                            std::uint64_t seen) noexcept {
  bool is_decided = false;
  for (;;) {
    if (is_upper(seen)) return AbortCause::kCrossLevel;
    if (!is_locked(seen)) {
      if (take_line<false>(word, number, &seen)) return AbortCause::kNone;
      continue;
    }
    if (!spin_until_changed(word, seen, kCommitterSpinRounds)) {
      if (is_decided || rivals_.decide(word, seen) == Rivals::Met::kFailSelf) {
        rivals_.wait_at_begin(word, seen);  // holding nothing
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
void SoftwareCommit::release_lines(std::size_t count) noexcept {
  TMH_ASSERT(count <= writes_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t before = writes_.entry(i).before.load(std::memory_order_relaxed);
    // Pairs with the acquire of the next one.
    writes_.target(i).word->store(before, std::memory_order_release);
  }
}

inline bool SoftwareCommit::is_valid(const SoftwareThread &thread,
                                     std::uint64_t stamp) const noexcept {
  return is_next(stamp, thread.rv) || are_unchanged(thread);
}

[[gnu::noinline]] bool SoftwareCommit::are_unchanged(const SoftwareThread &thread) const noexcept {
  return find_changed(thread.reads(), thread.rv, number_, [&](std::uint32_t entry) {
           // relaxed: stored by this thread
           return writes_.entry(entry).before.load(std::memory_order_relaxed);
         }) == nullptr;
}

// Not in software.cpp: here the compiler makes one function of it and run().
Status SoftwareThread::commit_writes() noexcept {
  TMH_ASSERT(is_doomed_ || !commit_.writes().empty());
  if (is_doomed_) return end_aborted(ending_);
  priority_.let_go_first(number_);
  if (const Ending ending = commit_.run(*this); ending.is_abort()) return end_aborted(ending);
  rv = commit_.stamp();
  observe::probe::commit(observe::probe::kLines, rv, commit_.writes().size());
  finish();
  return Status::kCommitted;
}

}  // namespace tmh::line
