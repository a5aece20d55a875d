// levels/line/rivals.h -- lines locked by another thread: which instance gives way, and how long a
// thread waits.
// Shape:     a commit locks its lines for a fraction of a microsecond, so a short spin ends nearly
//            every meeting. What it does not end is decided by the conflict policy; a holder that
//            is not running, or dead, is reported to the level above.
// Contexts:  one thread's. Everything that waits REQUIRES that the thread holds no line word.
// Source:    hierarchy/exchange/PROTOCOL.md, "Level 1: one instance".
#pragma once

#include <cstdint>

#include <tmh/options.hpp>

#include "levels/line/line_memory.h"
#include "levels/line/releaser.h"
#include "platform/set_if_other.h"

namespace tmh::line {

inline constexpr std::uint32_t kRoundsPerLook = 32;  // pauses between two looks at the clock: 1 us
// PROTOCOL.md, "recall": a committer that runs is long done
inline constexpr std::uint64_t kSuspectNs = 1'000'000;

// False: the word is still `seen` after so many pauses.
[[nodiscard]] bool spin_until_changed(const LineWord &word, std::uint64_t seen,
                                      std::uint32_t rounds) noexcept;

class Rivals {
 public:
  enum class Met : std::uint8_t { kGone, kFailSelf };

  Rivals(LineMemory &memory, Releaser &releaser) noexcept : memory_(memory), releaser_(releaser) {}

  // Of the instance whose attempt begins. Smaller: its first attempt began at an older snapshot. So
  // it began earlier, unless its thread had kept that snapshot; each commit gives the thread a new
  // one.
  [[nodiscard]] std::uint64_t age() const noexcept { return age_; }
  // An attempt begins at snapshot `rv`. Ages are unique as a context is one thread's and retries
  // keep theirs; the order of begins needs no shared counter.
  void begin(const Policy &policy, bool is_first, std::uint64_t rv,
             std::uint32_t context) noexcept {
    platform::set_if_other(conflict_, policy.conflict);
    if (is_first || !policy.keep_age) [[likely]]
      age_ = rv << 16 | context;
    platform::set_if_other(blocked_on_, {});
  }
  // The line that made the attempt before let go. Not one of an earlier instance, which went on at
  // the level above; nor one that has been unmapped since.
  void wait_for_blocker() noexcept;
  void forget_blocker() noexcept { blocked_on_ = nullptr; }
  // The next attempt of this instance waits for this word first.
  void wait_at_begin(const LineWord &word, std::uint64_t seen) noexcept;

  // The line is locked by another. kGone: this instance does not give way; the other has been
  // failed, is past its commit point, or has let go.
  [[nodiscard]] Met decide(const LineWord &word, std::uint64_t seen) noexcept;
  // False: it gave up.
  [[nodiscard]] bool wait_until_changed(const LineWord &word, std::uint64_t seen) noexcept;
  // The context's owner does not go on: does it live?
  void suspect(std::uint32_t context) noexcept;

 private:
  LineMemory &memory_;
  Releaser &releaser_;
  ConflictPolicy conflict_{};
  std::uint64_t age_ = 0;
  // A locked line that made the commit let go,
  const LineWord *blocked_on_ = nullptr;
  // its word then, and LineMemory::removals().
  std::uint64_t blocked_seen_ = 0, blocked_removals_ = 0;
};

}  // namespace tmh::line
