// bench/support/stats.h -- summaries of repeated measurements, and the hash that a bench prints of
// its results.
// Shape: medians and MADs: one preempted run must not move the number that is reported. Means and
//        quantiles are for latencies of single transactions, where the rare slow one is what is
//        asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/workloads/random.hpp"

namespace tmh::bench {

struct Summary {
  double median = 0, mad = 0, min = 0, max = 0;  // in the unit of the samples
  std::size_t run_count = 0;
};

// MAD: median of the absolute deviations from the median, not scaled to a standard deviation.
[[nodiscard]] Summary summarize(std::vector<double> samples);

// Of pairs that were measured next to each other (same round): noise that lasts longer than a round
// cancels out.
// REQUIRES: both lists have the same length.
[[nodiscard]] Summary summarize_ratio(const std::vector<double> &numerators,
                                      const std::vector<double> &denominators);

// What quantile `q` of [0, 1] of the samples stays at or below (nearest rank): 0.99 of 1,000
// samples is the 990th. 0 of none.
[[nodiscard]] double quantile(std::vector<double> samples, double q);

[[nodiscard]] double mean(const std::vector<double> &samples) noexcept;  // 0 of none
[[nodiscard]] double standard_deviation(const std::vector<double> &samples) noexcept;

// FNV-1a, folded value by value; a result hash that does not depend on the machine.
class ResultHash {
 public:
  void add(std::uint64_t value) noexcept {
    for (int byte = 0; byte < 8; ++byte) {
      hash_ = (hash_ ^ ((value >> (8 * byte)) & 0xffU)) * 0x100000001b3ULL;
    }
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

using workloads::Random;

}  // namespace tmh::bench
