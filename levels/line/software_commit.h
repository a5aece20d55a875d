// levels/line/software_commit.h -- the end of an instance that wrote: from line-lock to
// line-unlock, with the numbers and rings that this takes.
// Shape:     one for a thread. It holds the instance's writes, to which the thread adds until the
//            commit; by value, as an instance of a few lines notices each pointer on the way.
// Invariant: between line-lock and line-unlock the thread takes no lock and waits for no other
//            thread beyond a bounded spin.
// Owner death: what a dead thread leaves between two steps is what recovery.cpp expects: `writes[0
//            .. lines)` with their words before, and the status that says whether they are to be
//            written back or given back.
// Contexts:  one thread's. NOT async-signal-safe; inside RTM what says so.
// Source:    hierarchy/exchange/PROTOCOL.md, "Level 1: one instance", which names the steps; TL2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "levels/line/abort_status.h"
#include "levels/line/commit_record.h"
#include "levels/line/line_memory.h"
#include "levels/line/releaser.h"
#include "levels/line/rivals.h"
#include "levels/line/undo_ring.h"
#include "levels/line/write_set.h"

namespace tmh::line {

class SoftwareThread;

class SoftwareCommit {
 public:
  // REQUIRES: all outlive it. redo_log: durable domains, else null. Throws std::bad_alloc.
  SoftwareCommit(LineMemory &memory, Releaser &releaser, Rivals &rivals, LogReserver *redo_log)
      : memory_(memory),
        releaser_(releaser),
        rivals_(rivals),
        writes_(redo_log != nullptr),
        redo_(memory, redo_log) {}
  void attach(std::uint32_t context) noexcept;

  [[nodiscard]] WriteSet &writes() noexcept { return writes_; }
  [[nodiscard]] const WriteSet &writes() const noexcept { return writes_; }
  // Commits the writes of this thread's instance. After an abort no line is locked, and no store of
  // the instance is visible.
  [[nodiscard]] inline Ending run(const SoftwareThread &thread) noexcept;
  // The same in RTM. Before; false: the log or a ring has no room, or the log has failed. Inside:
  // aborts where run() would wait or fail. Behind XEND: what that makes others do.
  [[nodiscard]] bool prepare_in_rtm() noexcept;
  void run_in_rtm() noexcept;
  void tell_others() noexcept;
  // The stamp that run() or run_in_rtm() has drawn last. One that has failed draws, too.
  [[nodiscard]] std::uint64_t stamp() const noexcept {
    return context_->stamp.load(std::memory_order_relaxed);  // stored by this thread
  }
  // Number of the last instance that came to PENDING.
  [[nodiscard]] std::uint64_t instance() const noexcept { return instance_; }
  // As Releaser::ask(), counted.
  [[nodiscard]] ReleaseAnswer ask_for(storage::PageId page, Insists insists) noexcept {
    const ReleaseAnswer answer = releaser_.ask(page, insists);
    if (answer == ReleaseAnswer::kGranted) ++granted_;
    return answer;
  }
  // Pages that the level above has given to this thread since the last call.
  [[nodiscard]] std::uint32_t take_granted() noexcept {
    return granted_ == 0 ? 0 : std::exchange(granted_, 0);
  }
  [[nodiscard]] CommitRecord &redo() noexcept { return redo_; }
  [[nodiscard]] const CommitRecord &redo() const noexcept { return redo_; }

 private:
  // kFew: the writes are few, and no thread may watch the steps, see observe::step_if().
  template <bool kFew, class Redo>
  [[nodiscard]] Ending run_with(Redo &redo, const SoftwareThread &thread) noexcept;
  [[nodiscard]] Ending run_any(const SoftwareThread &thread) noexcept;
  template <bool kFew, class Redo>
  class Steps;
  template <bool kFew>
  [[nodiscard]] Ending lock_lines(const SoftwareThread &thread) noexcept;
  template <bool kFew>
  [[nodiscard]] AbortCause lock_each(std::size_t *locked) noexcept;
  [[nodiscard]] Ending lock_lines_again(std::size_t locked, AbortCause cause,
                                        Insists insists) noexcept;
  [[nodiscard]] Ending ask_for_line(std::size_t locked, AbortCause cause, std::uint32_t asked,
                                    Insists insists) noexcept;
  template <bool kFew>
  [[nodiscard]] AbortCause lock_line(LineWord &word, std::size_t number) noexcept;
  [[nodiscard]] AbortCause lock_line_in_use(LineWord &word, std::size_t number,
                                            std::uint64_t seen) noexcept;
  template <bool kFew>
  [[nodiscard]] bool take_line(LineWord &word, std::size_t number, std::uint64_t *seen) noexcept;
  void release_lines(std::size_t count) noexcept;
  inline void unlock_lines(std::uint64_t stamp) noexcept;
  [[nodiscard]] inline bool is_valid(const SoftwareThread &thread,
                                     std::uint64_t stamp) const noexcept;
  [[nodiscard]] bool are_unchanged(const SoftwareThread &thread) const noexcept;

  LineMemory &memory_;
  Releaser &releaser_;
  Rivals &rivals_;
  storage::Pins pins_;
  WriteSet writes_;
  CommitRecord redo_;
  UndoRing undo_;
  LineContextV1 *context_ = nullptr;
  LineStateV1 *state_ = nullptr;
  std::uint32_t number_ = 0;
  std::uint32_t granted_ = 0;
  std::uint64_t instance_ = 0;
};

// What an instance that needs a page does about the answer of the level above, other than kGranted.
[[nodiscard]] constexpr Ending refused_by(ReleaseAnswer answer) noexcept {
  return answer == ReleaseAnswer::kBusy
             ? Ending{AbortCause::kCrossLevel, AbortStatus{kStatusConflict | kStatusRetry}}
             : Ending{AbortCause::kCrossLevel};
}

}  // namespace tmh::line
