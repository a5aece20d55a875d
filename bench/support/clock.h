// bench/support/clock.h -- the one clock of all benches.
#pragma once

#include <chrono>
#include <cstdint>

namespace tmh::bench {

// CLOCK_MONOTONIC: the same in all processes of one machine, so a start taken in one process and a
// finish taken in another may be subtracted.
[[nodiscard]] inline std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace tmh::bench
