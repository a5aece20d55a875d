#include "examples/itm/cache/statistics.h"

namespace cache {

const std::array<const char *, kCounters> kCounterNames = {
    "cmd_get",      "cmd_set",       "cmd_flush",      "cmd_touch",
    "get_hits",     "get_misses",
    "delete_misses", "delete_hits",
    "incr_misses",  "incr_hits",     "decr_misses",    "decr_hits",
    "cas_misses",   "cas_hits",      "cas_badval",
    "touch_hits",   "touch_misses",
    "bytes_read",   "bytes_written", "total_items",
    "total_connections", "curr_connections",
};

void Statistics::clear() {
  for (std::size_t i = 0; i < kCounters; ++i)
    if (static_cast<Counter>(i) != Counter::kConnectionsOpen)
      values_[i].store(0, std::memory_order_relaxed);
}

}  // namespace cache
