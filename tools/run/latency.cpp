// tools/run/latency.cpp -- quantiles of all workers' samples.
#include "tools/run/latency.h"

#include <algorithm>
#include <utility>

#include "platform/assert.h"

namespace tmh::tools {

LatencySummary summarize(const std::vector<const LatencySamples *> &workers) {
  LatencySummary summary;
  std::vector<std::pair<std::uint64_t, double>> samples;  // ns, operations that it stands for
  double total = 0;
  for (const LatencySamples *worker : workers) {
    TMH_ASSERT(worker != nullptr);
    const std::uint64_t seen = worker->seen.load(std::memory_order_acquire);
    const std::uint64_t kept = std::min(seen, LatencySamples::kKeptMax);
    summary.operations += seen;
    summary.max_ns = std::max(summary.max_ns, worker->max_ns.load(std::memory_order_relaxed));
    for (std::uint64_t i = 0; i < kept; ++i)
      samples.emplace_back(worker->kept[i].load(std::memory_order_relaxed),
                           static_cast<double>(seen) / static_cast<double>(kept));
    total += static_cast<double>(seen);
  }
  summary.samples = samples.size();
  std::sort(samples.begin(), samples.end());
  const std::pair<double, std::uint64_t *> wanted[] = {{0.5, &summary.p50_ns},
                                                       {0.9, &summary.p90_ns},
                                                       {0.99, &summary.p99_ns},
                                                       {0.999, &summary.p999_ns}};
  double below = 0;
  std::size_t next = 0;
  for (const auto &[ns, weight] : samples) {
    below += weight;
    // Half an operation: sums of weights need not be exact.
    for (; next < std::size(wanted) && below >= wanted[next].first * total - 0.5; ++next)
      *wanted[next].second = ns;
  }
  for (; next < std::size(wanted); ++next) *wanted[next].second = summary.max_ns;
  return summary;
}

}  // namespace tmh::tools
