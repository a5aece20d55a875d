// observe/latency_sampler.h -- which attempts are timed: so few that it costs about 1 % at most,
// and so that they stand for all.
// Shape:     a Sampler per thread and kind of attempt. The gap to the next timed attempt is random,
//            uniform in [1, 2 * period - 1]: programs that do the same in turns are sampled fairly.
//            The period follows the distance of attempts: 1 (each) where they are 13 us apart or
//            more, kPeriodMax for the most frequent. A timed attempt counts as `period` of them.
// Measured:  timing an attempt and recording it costs 25 ns in a virtual machine: per 13 us 0.2 %,
//            and of instances of 25 ns, the smallest, one in 256 costs 0.4 % (one in 64: 1.6 %).
//            All: level 2 248 ns became 272, level 1 66 became 91.
// Contexts:  not between XBEGIN and XEND.
// Source:    Sequential Random Sampling (gaps instead of a coin for each).
#pragma once

#include <algorithm>
#include <cstdint>

#include <tmh/lab.hpp>
#include <tmh/options.hpp>

#include "platform/assert.h"
#include "platform/ticks.h"

namespace tmh::observe {

// The beginning of an attempt. count 0: it is not timed.
struct Timed {
  std::uint64_t begin_ticks = 0;
  std::uint32_t count = 0;  // attempts that it stands for
};

class Sampler {
 public:
  static constexpr std::uint32_t kPeriodMax = 256;
  static constexpr std::uint64_t kGapTicks = 1u << 15;  // 8 to 16 us on processors of today

  [[nodiscard]] Timed next() noexcept { return --left_ != 0 ? Timed{} : fire(platform::ticks()); }
  // Pure but for the state: for tests.
  [[nodiscard]] Timed fire(std::uint64_t now_ticks) noexcept {
    const Timed timed{now_ticks, period_};
    TMH_ASSERT(period_ >= 1 && period_ <= kPeriodMax);
    const std::uint64_t passed = std::max<std::uint64_t>(1, now_ticks - last_ticks_);
    last_ticks_ = now_ticks;
    const std::uint64_t wanted = kGapTicks * gap_ / passed;
    // By a factor of two at most: one long pause is no reason to time everything.
    const std::uint64_t next =
        std::clamp<std::uint64_t>(wanted, period_ / 2, 2 * std::uint64_t{period_});
    period_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(next, 1, kPeriodMax));
    // Knuth's; of quality above
    random_ = random_ * 6364136223846793005ull + 1442695040888963407ull;
    gap_ = 1 + static_cast<std::uint32_t>((random_ >> 32) * (2 * period_ - 1) >> 32);
    TMH_ASSERT(gap_ >= 1 && gap_ < 2 * period_);
    left_ = gap_;
    return timed;
  }
  [[nodiscard]] bool is_due() const noexcept { return left_ == 1; }  // will next() time?
  // As next(), which will not. REQUIRES: !is_due().
  void skip() noexcept {
    TMH_ASSERT(!is_due());
    --left_;
  }

 private:
  std::uint32_t left_ = 1, period_ = 1, gap_ = 1;
  std::uint64_t last_ticks_ = 0, random_ = 0x9e37'79b9'7f4a'7c15ull;
};

// One each, so that what is seldom is not lost among what is frequent.
enum class SampledKind : std::uint8_t { kLines, kPages, kQueries };

// An attempt begins, in the thread that has these samplers (one for each SampledKind).
[[nodiscard]] inline Timed start_timing(Latency how, Sampler (&samplers)[3],
                                        SampledKind kind) noexcept {
  if (how == lab::kEachAttempt) return {platform::ticks(), 1};
  return samplers[static_cast<std::size_t>(kind)].next();
}
// It has ended.
[[nodiscard]] inline std::uint64_t timed_ns(const Timed &timed) noexcept {
  TMH_ASSERT(timed.count != 0);
  const std::uint64_t now = platform::ticks();
  return now > timed.begin_ticks ? platform::ns_of_ticks(now - timed.begin_ticks) : 0;
}

}  // namespace tmh::observe
