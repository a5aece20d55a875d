// bench/support/stats.cpp -- summaries of repeated measurements.
#include "bench/support/stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

double median_of(std::vector<double> &samples) {
  TMH_ASSERT(!samples.empty());
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  Summary summary;
  summary.run_count = samples.size();
  if (samples.empty()) return summary;
  const auto [least, greatest] = std::minmax_element(samples.begin(), samples.end());
  summary.min = *least;
  summary.max = *greatest;
  summary.median = median_of(samples);
  for (double &sample : samples) sample = std::abs(sample - summary.median);
  summary.mad = median_of(samples);
  return summary;
}

Summary summarize_ratio(const std::vector<double> &numerators,
                        const std::vector<double> &denominators) {
  TMH_ASSERT(numerators.size() == denominators.size());
  std::vector<double> ratios;
  ratios.reserve(numerators.size());
  for (std::size_t i = 0; i < numerators.size(); ++i) {
    if (denominators[i] > 0) ratios.push_back(numerators[i] / denominators[i]);
  }
  return summarize(std::move(ratios));
}

double quantile(std::vector<double> samples, double q) {
  TMH_ASSERT(q >= 0 && q <= 1);
  if (samples.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(samples.size())));
  const auto nth =
      samples.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(samples.begin(), nth, samples.end());
  return *nth;
}

double mean(const std::vector<double> &samples) noexcept {
  if (samples.empty()) return 0;
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double standard_deviation(const std::vector<double> &samples) noexcept {
  if (samples.size() < 2) return 0;
  const double middle = mean(samples);
  double squares = 0;
  for (const double sample : samples) squares += (sample - middle) * (sample - middle);
  return std::sqrt(squares / static_cast<double>(samples.size() - 1));
}

}  // namespace tmh::bench
