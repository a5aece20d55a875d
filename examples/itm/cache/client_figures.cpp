#include "examples/itm/cache/client_figures.h"

#include <algorithm>
#include <bit>

namespace cache {

void Durations::add(std::uint64_t ns) {
  const auto bits = static_cast<unsigned>(std::bit_width(ns));
  const unsigned shift = bits > kStepBits + 1 ? bits - kStepBits - 1 : 0;
  ++counts_[std::size_t{shift} * kSteps + (ns >> shift)];
  ++count_;
  max_ = std::max(max_, ns);
}

Durations &Durations::operator+=(const Durations &other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  return *this;
}

std::uint64_t Durations::at(double part) const {
  const double wanted = part * static_cast<double>(count_);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (counts_[i] == 0 || static_cast<double>(seen) < wanted) continue;
    // Steps below 2 * kSteps have no shift; later ones are in the upper half of their row.
    const std::size_t shift = i < 2 * kSteps ? 0 : i / kSteps - 1;
    return std::min(max_, ((i - shift * kSteps + 1) << shift) - 1);
  }
  return max_;
}

Figures &Figures::operator+=(const Figures &other) {
  latencies += other.latencies;
  operations += other.operations;
  hits += other.hits;
  misses += other.misses;
  stored += other.stored;
  errors += other.errors;
  disconnects += other.disconnects;
  faults += other.faults;
  recovery_ns_max = std::max(recovery_ns_max, other.recovery_ns_max);
  torn += other.torn;
  outdated += other.outdated;
  lost += other.lost;
  note(other.problem);
  return *this;
}

}  // namespace cache
