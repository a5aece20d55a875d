// examples/itm/cache/shared.h -- what all workers of a server have in common.
// Shape:     made before the threads start, and outlives them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "examples/itm/cache/clock.h"
#include "examples/itm/cache/statistics.h"
#include "examples/itm/cache/store.h"

namespace cache {

// The last one whose text protocol has what this server has: later ones have meta commands, too.
inline constexpr const char *kServerVersion = "1.5.22-tmh";

// How many threads of the crew have begun.
class Beginnings {
 public:
  void add() {
    const std::scoped_lock lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void wait_for(std::uint64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ = 0;
};

struct Shared {
  Store *store = nullptr;
  std::uint64_t memory_bytes = 0;
  bool allows_faults = false;
  Clock clock;
  // One for each worker, and one for the thread that accepts.
  std::deque<Statistics> statistics;
  // Threads of workers that died. Relaxed: a number of its own.
  std::atomic<std::uint64_t> deaths{0};
  Beginnings begun;
};

// Calls told(name, value) for each line of `stats WHAT`; `what` may be empty. False: no such
// statistics.
[[nodiscard]] bool tell_statistics(
    Shared &shared, std::string_view what,
    const std::function<void(const std::string &, const std::string &)> &told);

}  // namespace cache
