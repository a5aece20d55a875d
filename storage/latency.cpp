// storage/latency.cpp -- tmh::Histogram, and taking a histogram page apart.
#include <tmh/latency.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

#include "storage/latency.h"

namespace tmh {

namespace {
constexpr unsigned kLinearBits = std::bit_width(Histogram::kLinear) - 1;
constexpr unsigned kPerOctaveBits = std::bit_width(Histogram::kPerOctave) - 1;
}  // namespace

std::size_t Histogram::bucket_of(std::uint64_t ns) noexcept {
  const std::uint64_t units = ns / kUnitNs;
  if (units < kLinear) return static_cast<std::size_t>(units);
  const auto exponent = static_cast<unsigned>(std::bit_width(units)) - 1;  // at least kLinearBits
  const std::size_t in_octave = (units >> (exponent - kPerOctaveBits)) - kPerOctave;
  return std::min(kBuckets - 1, kLinear + (exponent - kLinearBits) * kPerOctave + in_octave);
}

std::uint64_t Histogram::last_ns(std::size_t bucket) noexcept {
  if (bucket >= kBuckets - 1) return ~0ull;
  if (bucket < kLinear) return (bucket + 1) * kUnitNs - 1;
  const std::size_t octave = (bucket - kLinear) / kPerOctave,
                    in_octave = (bucket - kLinear) % kPerOctave;
  const std::uint64_t next_units = (kPerOctave + in_octave + 1)
                                   << (octave + kLinearBits - kPerOctaveBits);
  return next_units * kUnitNs - 1;
}

void Histogram::add(std::uint64_t ns, std::uint64_t count) noexcept {
  if (count == 0) return;
  add_bucket(bucket_of(ns), count);
  add_totals(ns * count, ns);
}

void Histogram::add_bucket(std::size_t bucket, std::uint64_t count) noexcept {
  counts_[std::min(bucket, kBuckets - 1)] += count;
}

void Histogram::add_totals(std::uint64_t sum_ns, std::uint64_t max_ns) noexcept {
  sum_ns_ += sum_ns;
  max_ns_ = std::max(max_ns_, max_ns);
}

Histogram &Histogram::operator+=(const Histogram &other) noexcept {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  add_totals(other.sum_ns_, other.max_ns_);
  return *this;
}

Histogram Histogram::since(const Histogram &before) const noexcept {
  Histogram fresh;
  // What shrank was counted anew meanwhile.
  const auto grown = [](std::uint64_t now, std::uint64_t then) {
    return now > then ? now - then : 0;
  };
  for (std::size_t i = 0; i < kBuckets; ++i)
    fresh.counts_[i] = grown(counts_[i], before.counts_[i]);
  fresh.add_totals(grown(sum_ns_, before.sum_ns_), max_ns_);
  return fresh;
}

std::uint64_t Histogram::count() const noexcept {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts_) sum += count;
  return sum;
}

double Histogram::mean_ns() const noexcept {
  const std::uint64_t all = count();
  return all == 0 ? 0 : static_cast<double>(sum_ns_) / static_cast<double>(all);
}

std::uint64_t Histogram::quantile_ns(double fraction) const noexcept {
  const std::uint64_t all = count();
  if (all == 0) return 0;
  const double wanted = std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(all));
  // A count beyond 2^53 is rounded up to more than there are.
  const std::uint64_t rank = wanted >= static_cast<double>(all)
                                 ? all
                                 : std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
  std::uint64_t passed = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    if (counts_[i] >= rank - passed) return std::min(last_ns(i), max_ns_);
    passed += counts_[i];
  }
  return max_ns_;
}

const char *to_string(LatencyLevel level) noexcept {
  switch (level) {
    case LatencyLevel::kLines:
      return "lines";
    case LatencyLevel::kHardware:
      return "rtm";
    case LatencyLevel::kPages:
      return "pages";
    case LatencyLevel::kQueries:
      return "queries";
    case LatencyLevel::kLog:
      return "log";
  }
  return "invalid";
}

namespace storage {

void HistogramV1::raise_max(std::uint64_t ns) noexcept {
  std::uint64_t longest = max_ns.load(std::memory_order_relaxed);
  while (longest < ns && !max_ns.compare_exchange_weak(longest, ns, std::memory_order_relaxed)) {
  }
}

void HistogramV1::add(std::uint64_t ns, std::uint64_t count) noexcept {
  // relaxed, all: totals order nothing
  counts[Histogram::bucket_of(ns)].fetch_add(count, std::memory_order_relaxed);
  sum_ns.fetch_add(ns * count, std::memory_order_relaxed);
  raise_max(ns);
}

void HistogramV1::move_to(HistogramV1 &other) noexcept {
  // Each word is taken before it is added: a reaper that dies in between loses one bucket, and
  // counts none twice.
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i)
    if (const std::uint64_t count = counts[i].exchange(0, std::memory_order_relaxed); count != 0)
      other.counts[i].fetch_add(count, std::memory_order_relaxed);
  other.sum_ns.fetch_add(sum_ns.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
  const std::uint64_t longest = max_ns.exchange(0, std::memory_order_relaxed);
  if (other.max_ns.load(std::memory_order_relaxed) < longest)
    other.max_ns.store(longest, std::memory_order_relaxed);
}

Histogram HistogramV1::read() const noexcept {
  Histogram out;
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i)
    out.add_bucket(i, counts[i].load(std::memory_order_relaxed));
  out.add_totals(sum_ns.load(std::memory_order_relaxed), max_ns.load(std::memory_order_relaxed));
  return out;
}

std::string name_of(const LatencySiteV1 &site) {
  // Acquire: pairs with LatencyTable::site().
  if (site.state.load(std::memory_order_acquire) != kSiteNamed) return {};
  return {site.name, std::find(std::begin(site.name), std::end(site.name), '\0')};
}

void add_series(const std::vector<std::uint64_t> &incarnations, const SeriesName &name,
                std::uint64_t owner, const std::string &site, const Histogram &histogram,
                std::vector<LatencySeries> *all) {
  const std::uint64_t slot = name.owner - 1;
  const bool is_here =
      slot < incarnations.size() && incarnations[slot] != 0 && incarnations[slot] == owner;
  const std::uint32_t of = is_here ? static_cast<std::uint32_t>(slot) : LatencySeries::kGone;
  const auto same = std::find_if(all->begin(), all->end(), [&](const LatencySeries &one) {
    return one.slot == of && one.level == name.level && one.outcome == name.outcome &&
           one.site == site;
  });
  if (same == all->end())
    all->push_back({of, site, name.level, name.outcome, histogram});
  else
    same->histogram += histogram;
}

}  // namespace storage

}  // namespace tmh
