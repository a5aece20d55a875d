// levels/page/views/keep_policy.h -- how long pages stay mapped after the instance that touched
// them: kept pages cost no fault again, but are a superset of what later instances read.
// Shape:     plain counters of one engine. The decisions are pure; the engine drops the pages.
// Contexts:  first_touch(): async-signal-safe. Everything else: at the end of an instance.
// Source:    docs/mechanisms.md, "Ways to find first touches".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "platform/assert.h"

namespace tmh::page {

class KeepPolicy {
 public:
  // Comparing a kept page costs 0.07 us, copying it again after a drop 2 us: after 30 useless
  // comparisons dropping was the better choice.
  static constexpr std::uint8_t kUselessComparesMax = 30;
  // Where it is not dropped but watched, storing to it again costs 2.6 us, and a page of such an
  // instance is one of thousands.
  static constexpr std::uint8_t kUselessComparesClean = 10;
  // A page that is kept only because its version is not home yet goes after so many: then it mostly
  // is.
  static constexpr std::uint8_t kPendingCompares = 4;

  // Bringing a copy to the present costs a fault inside the kernel and arming, 2 us; a copy that
  // goes in vain comes back by a signal and two copies, 12 to 16 us: after so many replays without
  // a store of its own dropping was the better choice. Fewer make pages that two write in turns
  // slower, more keep what others go on writing (docs/measurements.md, "The page cache").
  static constexpr std::uint8_t kReplaysMax = 8;
  // kClean pages, in LocalPage::unchanged_compares: the Evictor's hand has passed since the last
  // own store.
  static constexpr std::uint8_t kHandMark = 0x80;
  [[nodiscard]] static constexpr std::uint8_t replays(std::uint8_t unchanged) noexcept {
    return static_cast<std::uint8_t>(unchanged & ~kHandMark);
  }
  // One more.
  [[nodiscard]] static constexpr std::uint8_t replayed(std::uint8_t unchanged) noexcept {
    return replays(unchanged) == kReplaysMax ? unchanged : static_cast<std::uint8_t>(unchanged + 1);
  }

  // Coarse time in ends of instances, 1 to 255, wrapping.
  [[nodiscard]] static constexpr std::uint8_t epoch(std::uint64_t instance) noexcept {
    return static_cast<std::uint8_t>(instance / 16 % 255 + 1);
  }
  // Was a page that was last written in epoch `before` (0: never) written again soon?
  [[nodiscard]] static constexpr bool is_hot(std::uint8_t before, std::uint8_t now) noexcept {
    return before != 0 && static_cast<std::uint8_t>(now - before) <= 2;
  }

  // A page was touched that was not mapped.
  void first_touch() noexcept { steady_ends_ = 0; }
  // The last instances touched no page for the first time.
  [[nodiscard]] bool is_steady() const noexcept { return steady_ends_ >= kSteadyEnds; }

  enum class End : std::uint8_t { kQuiet, kConflict };
  // At each end of an instance. True: drop all kept pages now. many_areas: keeping them brings the
  // process near the kernel's limit of areas.
  [[nodiscard]] bool drops_at(End end, std::size_t kept, std::size_t written,
                              bool many_areas) noexcept {
    TMH_ASSERT(keep_period_ >= 1 && keep_period_ <= kKeepPeriodMax);
    const bool conflicted = end == End::kConflict;
    ++quiet_ends_;
    if (steady_ends_ < kSteadyEnds) ++steady_ends_;
    if (conflicted) {
      keep_period_ = std::max<std::uint64_t>(1, keep_period_ / 2);
      calm_commits_ = 0;
    } else if (++calm_commits_ == kCalmCommits) {
      keep_period_ = std::min(kKeepPeriodMax, keep_period_ * 2);
      calm_commits_ = 0;
    }
    const bool too_many = kept > kKeptPagesMax || written > kPrivatePagesMax || many_areas;
    if (!conflicted && !too_many && quiet_ends_ < keep_period_) return false;
    quiet_ends_ = 0;
    return true;
  }

 private:
  // Beyond these, keeping pages costs more memory and comparisons than it saves faults.
  static constexpr std::size_t kKeptPagesMax = 16384, kPrivatePagesMax = 4096;
  // Kept pages are a superset of what is read. The period after which they are dropped halves at
  // each conflict (1: exact) and doubles after this many quiet commits; 65,536 bounds how long a
  // page that is no longer used can cause false conflicts.
  static constexpr std::uint32_t kCalmCommits = 64;
  static constexpr std::uint64_t kKeepPeriodMax = 1u << 16;
  // One may be chance; a short hot phase should gain, too.
  static constexpr std::uint32_t kSteadyEnds = 2;

  // In a row, without a first touch.
  std::uint32_t steady_ends_ = 0;
  std::uint32_t calm_commits_ = 0;
  // Since the last drop of kept pages.
  std::uint64_t quiet_ends_ = 0;
  std::uint64_t keep_period_ = 1024;
};

}  // namespace tmh::page
