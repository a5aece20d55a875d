// examples/itm/cache/clock.h -- the server's clock: seconds since 1970.
// Shape:     set from the system's clock at the start, then as steady as the time since boot: a
//            step of the system's clock neither ends items nor keeps them.
// Sharing:   by all threads.
#pragma once

#include <atomic>
#include <cstdint>

#include "examples/itm/cache/store.h"

namespace cache {

class Clock {
 public:
  Clock();
  [[nodiscard]] Seconds now() const;
  [[nodiscard]] Seconds started() const { return started_; }
  // For tests: time passes at once.
  void advance(Seconds seconds) { ahead_.fetch_add(seconds, std::memory_order_relaxed); }
  // An item's end, from what a client says: 0: none; less than 0: at once; up to 30 days: from
  // now on; else since 1970.
  [[nodiscard]] Seconds end_of(std::int64_t client_time) const;
  // The time a client means by the argument of flush_all: 0 or less is at once.
  [[nodiscard]] Seconds flush_time_of(std::int64_t client_time) const;

 private:
  std::int64_t steady_to_unix_;
  Seconds started_ = 0;
  std::atomic<Seconds> ahead_{0};  // relaxed: a number of its own
};

}  // namespace cache
