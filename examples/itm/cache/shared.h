// examples/itm/cache/shared.h -- what all workers of a server have in common.
// Shape:     made before the threads start, and outlives them.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <string>

#include "examples/itm/cache/clock.h"
#include "examples/itm/cache/statistics.h"
#include "examples/itm/cache/store.h"

namespace cache {

// The last one whose text protocol has what this server has: later ones have meta commands, too.
inline constexpr const char *kServerVersion = "1.5.22-tmh";

struct Shared {
  Store *store = nullptr;
  std::uint64_t memory_bytes = 0;
  bool allows_faults = false;
  Clock clock;
  // One for each worker, and one for the thread that accepts.
  std::deque<Statistics> statistics;
  // Threads of workers that died; of the crew that have begun. Relaxed: numbers of their own.
  std::atomic<std::uint64_t> deaths{0}, begun{0};
};

// Calls told(name, value) for each line of `stats WHAT`; `what` may be empty. False: no such
// statistics.
[[nodiscard]] bool tell_statistics(
    Shared &shared, std::string_view what,
    const std::function<void(const std::string &, const std::string &)> &told);

}  // namespace cache
