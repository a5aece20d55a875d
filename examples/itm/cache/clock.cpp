#include "examples/itm/cache/clock.h"

#include <ctime>

#include <algorithm>

namespace cache {

namespace {

constexpr std::int64_t kRelativeMax = std::int64_t{60} * 60 * 24 * 30;
// An end that has always passed.
constexpr Seconds kLongAgo = 1;

std::int64_t seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec;
}

}  // namespace

Clock::Clock() : steady_to_unix_(seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_MONOTONIC)) {
  started_ = now();
}

Seconds Clock::now() const {
  const std::int64_t now = seconds_of(CLOCK_MONOTONIC_COARSE) + steady_to_unix_;
  return static_cast<Seconds>(now) + ahead_.load(std::memory_order_relaxed);
}

Seconds Clock::end_of(std::int64_t client_time) const {
  if (client_time == 0) return kNever;
  if (client_time < 0) return kLongAgo;
  if (client_time <= kRelativeMax) return now() + static_cast<Seconds>(client_time);
  return static_cast<Seconds>(std::min<std::int64_t>(client_time, UINT32_MAX));
}

Seconds Clock::flush_time_of(std::int64_t client_time) const {
  return client_time <= 0 ? now() : end_of(client_time);
}

}  // namespace cache
