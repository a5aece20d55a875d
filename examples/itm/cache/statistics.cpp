#include "examples/itm/cache/statistics.h"

namespace cache {

const std::array<const char *, kCounters - 1> kCounterNames = {
    "cmd_get",       "cmd_set",     "cmd_flush",    "cmd_touch",  "get_hits",          "get_misses",
    "delete_misses", "delete_hits", "incr_misses",  "incr_hits",  "decr_misses",       "decr_hits",
    "cas_misses",    "cas_hits",    "cas_badval",   "touch_hits", "touch_misses",      "bytes_read",
    "bytes_written", "total_items", "transactions", "attempts",   "total_connections",
};

void Statistics::clear() {
  // How many connections are open must stay right.
  for (std::size_t i = 0; i < static_cast<std::size_t>(Counter::kConnections); ++i)
    values_[i].store(0, std::memory_order_relaxed);
}

}  // namespace cache
