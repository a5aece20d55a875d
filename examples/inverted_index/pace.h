// examples/inverted_index/pace.h -- how often progress is looked at, and when a kill comes.
#pragma once

#include <time.h>

#include <cstdint>

namespace inverted_index {

// While kills are due, so often that few units pass between two looks; later only to draw it.
inline constexpr int kTickMs = 1;
inline constexpr int kIdleTickMs = 50;

// Kills come a random moment after the look at progress, so that they do not follow the
// supervisor's own queries.
template <class Random>
void wait_before_kill(Random &random) {
  constexpr std::uint64_t kDelayNsMax = 500'000;
  const timespec delay{0, static_cast<long>(random() % kDelayNsMax)};
  ::nanosleep(&delay, nullptr);
}

}  // namespace inverted_index
