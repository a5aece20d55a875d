// platform/ticks.cpp -- see ticks.h.
#include "platform/ticks.h"

#include <algorithm>
#include <atomic>

#include "platform/process.h"

namespace tmh::platform {

namespace {

// Both clocks at one moment.
struct Moment {
  std::uint64_t ticks, ns;
};

// A read during which the thread was interrupted is not one moment: the quickest of a few is.
Moment now() noexcept {
  constexpr int kTries = 4;
  Moment best{};
  std::uint64_t best_took = ~0ull;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = ticks();
    const std::uint64_t ns = monotonic_ns();
    const std::uint64_t took = ticks() - before;
    if (took >= best_took) continue;
    best_took = took;
    best = {before + took / 2, ns};
  }
  return best;
}

const Moment start = now();
constexpr std::uint64_t kSettledNs = 10'000'000;  // 50 ns of error in it are 5 ppm
constexpr std::uint64_t kFirstNs = 50'000;        // a tenth of a percent
static_assert(kFirstNs < kSettledNs);
std::atomic<std::uint64_t> settled_rate{0};  // ns per tick, 32 bits behind the point

std::uint64_t measure_rate() noexcept {
  Moment at = now();
  while (at.ns - start.ns < kFirstNs) at = now();
  const std::uint64_t passed = std::max<std::uint64_t>(1, at.ticks - start.ticks);
  const auto found = static_cast<std::uint64_t>(static_cast<double>(at.ns - start.ns) *
                                                4294967296.0 / static_cast<double>(passed));
  // Not in constructors of static objects that come before `start`.
  if (start.ns != 0 && at.ns - start.ns >= kSettledNs)
    settled_rate.store(found, std::memory_order_relaxed);
  return found;
}

std::uint64_t rate() noexcept {
  const std::uint64_t known = settled_rate.load(std::memory_order_relaxed);
  return known != 0 ? known : measure_rate();
}

}  // namespace

std::uint64_t ns_of_ticks(std::uint64_t difference) noexcept {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(difference) * rate() >> 32);
}

}  // namespace tmh::platform
