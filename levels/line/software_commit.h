// levels/line/software_commit.h -- the end of an instance that wrote: from line-lock to
// line-unlock, with the numbers and rings that this takes.
// Shape:     one for a thread, as its WriteSet and Rivals, which it uses.
// Invariant: between line-lock and line-unlock the thread takes no lock and waits for nobody beyond
//            a bounded spin.
// Owner death: what a dead thread leaves between two steps is what recovery.cpp expects: `writes[0
//            .. lines)` with their words before, and the status that says whether they are to be
//            written back or given back.
// Contexts:  one thread's. NOT async-signal-safe; not inside RTM.
// Source:    hierarchy/PROTOCOL.md, "Level 1: one instance", which names the steps; TL2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "levels/line/abort_status.h"
#include "levels/line/commit_record.h"
#include "levels/line/line_memory.h"
#include "levels/line/releaser.h"
#include "levels/line/rivals.h"
#include "levels/line/undo_ring.h"
#include "levels/line/write_set.h"

namespace tmh::line {

class SoftwareCommit {
 public:
  // What the instance has read, and at which snapshot.
  struct Reads {
    std::span<const LineWord *const> words;
    std::uint64_t rv;
  };

  // REQUIRES: all outlive it. redo_log: durable domains, else null.
  SoftwareCommit(LineMemory &memory, Releaser &releaser, WriteSet &writes, Rivals &rivals,
                 LogReserver *redo_log) noexcept
      : memory_(memory),
        releaser_(releaser),
        writes_(writes),
        rivals_(rivals),
        redo_(memory, redo_log) {}
  void attach(std::uint32_t context) noexcept;

  // Commits the writes. After an abort no line is locked, and no store of the instance is visible.
  [[nodiscard]] Ending run(const Reads &reads, Insists insists) noexcept;
  // Of the last run() that committed.
  [[nodiscard]] std::uint64_t stamp() const noexcept { return stamp_; }
  // Number of the last instance that came to PENDING.
  [[nodiscard]] std::uint64_t instance() const noexcept { return instance_; }
  [[nodiscard]] CommitRecord &redo() noexcept { return redo_; }
  [[nodiscard]] const CommitRecord &redo() const noexcept { return redo_; }

 private:
  template <class Redo>
  [[nodiscard]] Ending publish(Redo &redo, const Reads &reads, Insists insists) noexcept;
  template <class Redo>
  void write_back(Redo &redo) noexcept;
  [[nodiscard]] Ending lock_lines(Insists insists) noexcept;
  [[nodiscard]] AbortCause lock_line(std::size_t index) noexcept;
  [[nodiscard]] AbortCause lock_line_in_use(std::size_t index, std::uint64_t seen) noexcept;
  [[nodiscard]] bool take_line(std::size_t index, std::uint64_t *seen) noexcept;
  void release_lines(std::size_t count) noexcept;
  void unlock_lines() noexcept;
  [[nodiscard]] bool is_valid(const Reads &reads) const noexcept;
  [[nodiscard]] Ending pass_commit_point(const Reads &reads, bool is_pinned) noexcept;

  LineMemory &memory_;
  Releaser &releaser_;
  WriteSet &writes_;
  Rivals &rivals_;
  CommitRecord redo_;
  UndoRing undo_;
  LineContextV1 *context_ = nullptr;
  std::uint32_t number_ = 0;
  std::uint64_t instance_ = 0, stamp_ = 0;
};

// What an instance that needs a page does about the answer of the level above, other than kGranted.
[[nodiscard]] constexpr Ending refused_by(ReleaseAnswer answer) noexcept {
  return answer == ReleaseAnswer::kBusy
             ? Ending{AbortCause::kCrossLevel, AbortStatus{kStatusConflict | kStatusRetry}}
             : Ending{AbortCause::kCrossLevel};
}

}  // namespace tmh::line
