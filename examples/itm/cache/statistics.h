// examples/itm/cache/statistics.h -- what a worker has done.
// Sharing:   each worker counts for itself; any thread may read. A counter is a single number that
//            orders nothing: relaxed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace cache {

enum class Counter : std::uint8_t {
  kGets,
  kSets,
  kFlushes,
  kTouches,
  kGetHits,
  kGetMisses,
  kDeleteMisses,
  kDeleteHits,
  kIncrMisses,
  kIncrHits,
  kDecrMisses,
  kDecrHits,
  kCasMisses,
  kCasHits,
  kCasMismatches,
  kTouchHits,
  kTouchMisses,
  kBytesRead,
  kBytesWritten,
  kNewItems,
  // On the store; attempts: restarts included.
  kTransactions,
  kAttempts,
  kConnections,
  // No name: clients are told how many are open.
  kConnectionsEnded,
};
inline constexpr std::size_t kCounters = 24;
// As memcached's protocol spells them, all but the last.
extern const std::array<const char *, kCounters - 1> kCounterNames;

class alignas(128) Statistics {
 public:
  // Only the worker's thread.
  void add(Counter counter, std::uint64_t times = 1) {
    auto &value = values_[static_cast<std::size_t>(counter)];
    value.store(value.load(std::memory_order_relaxed) + times, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t value(Counter counter) const {
    return values_[static_cast<std::size_t>(counter)].load(std::memory_order_relaxed);
  }
  // `stats reset`, by any thread: what the worker counts meanwhile may stay.
  void clear();

 private:
  std::array<std::atomic<std::uint64_t>, kCounters> values_{};
};

}  // namespace cache
