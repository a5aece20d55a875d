// compat/libdb/server/counters.h -- what a server has done.
// Sharing:   workers' threads, relaxed: each number is right by itself.
#pragma once

#include <tp/server.h>

#include <atomic>
#include <cstdint>

namespace tmh::db::server {

struct Counters {
  std::atomic<std::uint64_t> clients{0}, refused{0}, requests{0}, operations{0}, transactions{0},
      rolled_back{0}, deaths{0}, malformed{0};

  static void add(std::atomic<std::uint64_t> &counter) noexcept {
    counter.fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] tp_server_counters read() const noexcept {
    const auto of = [](const std::atomic<std::uint64_t> &counter) {
      return counter.load(std::memory_order_relaxed);
    };
    return {of(clients),      of(refused),     of(requests), of(operations),
            of(transactions), of(rolled_back), of(deaths),   of(malformed)};
  }
};

}  // namespace tmh::db::server
