// tools/run/latency.h -- how long operations took: exact samples, kept in memory that processes
// share.
// Shape:     per worker a uniform sample of kept_max of its latencies (Vitter's algorithm R); all
//            of them as long as there are no more. The largest one is kept apart, so that it is
//            exact.
// Sharing:   written by one thread; read by others when it has ended, or died: every value there is
//            one that was measured.
// Source:    Random Sampling with a Reservoir, algorithm R.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "examples/workloads/random.hpp"

namespace tmh::tools {

struct LatencySamples {
  // 8 MiB: at p99.9 a thousand samples lie above
  static constexpr std::uint64_t kKeptMax = 1u << 20;
  static_assert(kKeptMax * sizeof(std::atomic<std::uint64_t>) == 8u << 20);
  std::atomic<std::uint64_t> seen;
  std::atomic<std::uint64_t> max_ns;
  std::atomic<std::uint64_t> kept[kKeptMax];

  void add(std::uint64_t ns, workloads::Random &random) noexcept {
    constexpr auto relaxed = std::memory_order_relaxed;  // read after the writer's end
    const std::uint64_t before = seen.load(relaxed);
    if (before < kKeptMax) {
      kept[before].store(ns, relaxed);
    } else if (const std::uint64_t place = random.below(before + 1); place < kKeptMax) {
      kept[place].store(ns, relaxed);
    }
    if (ns > max_ns.load(relaxed)) max_ns.store(ns, relaxed);
    seen.store(before + 1, relaxed);
  }
};

struct LatencySummary {
  std::uint64_t operations = 0;
  std::uint64_t samples = 0;  // fewer than operations: a sample of them
  std::uint64_t p50_ns = 0, p90_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;
};
// Of several workers: their samples are weighted by what each stands for.
[[nodiscard]] LatencySummary summarize(const std::vector<const LatencySamples *> &workers);

}  // namespace tmh::tools
