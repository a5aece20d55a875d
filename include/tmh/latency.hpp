// include/tmh/latency.hpp -- how long instances take: histograms per participant, site, level and
// outcome (Domain::latencies()).
// Shape:     log-linear buckets, as HdrHistogram has them: below kLinear units one per unit, above
//            it kPerOctave for each power of two.
// Units:     nanoseconds; buckets count in units of kUnitNs.
// Contexts:  plain values; usable everywhere, by every layer.
// Source:    HdrHistogram; docs/design.md 9. We differ: one fixed shape, so that a
//            histogram is a page of shared memory and any two can be added.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tmh/instance.hpp>

namespace tmh {

class Histogram {
 public:
  static constexpr std::uint64_t kUnitNs = 4;    // a time-stamp counter is read in 10 to 20 ns
  static constexpr std::size_t kPerOctave = 16;  // so a bucket is at most 1/16 wide
  static constexpr std::size_t kLinear = 32;     // up to 128 ns
  // Up to 2^36 ns = 69 s; what is longer is in the last one.
  static constexpr std::size_t kBuckets = 496;
  static_assert(kLinear == 2 * kPerOctave && (kBuckets - kLinear) % kPerOctave == 0);

  [[nodiscard]] static std::size_t bucket_of(std::uint64_t ns) noexcept;
  // The longest time in a bucket; of the last one, all there are.
  [[nodiscard]] static std::uint64_t last_ns(std::size_t bucket) noexcept;

  // count: how many such times; of a sample, how many it stands for.
  void add(std::uint64_t ns, std::uint64_t count = 1) noexcept;
  // Of a bucket as somebody else counted it.
  void add_bucket(std::size_t bucket, std::uint64_t count) noexcept;
  void add_totals(std::uint64_t sum_ns, std::uint64_t max_ns) noexcept;
  Histogram &operator+=(const Histogram &other) noexcept;
  // What came since `before`, an earlier state of the same histogram; max_ns(): of all.
  [[nodiscard]] Histogram since(const Histogram &before) const noexcept;

  [[nodiscard]] std::uint64_t count() const noexcept;
  [[nodiscard]] std::uint64_t count_in(std::size_t bucket) const noexcept {
    return counts_[bucket];
  }
  [[nodiscard]] std::uint64_t sum_ns() const noexcept { return sum_ns_; }
  // Of those that were timed.
  [[nodiscard]] std::uint64_t max_ns() const noexcept { return max_ns_; }
  [[nodiscard]] double mean_ns() const noexcept;
  // At least so long took `fraction` (0 to 1) of all, and at most 1/16, or 4 ns, longer than
  // exactly that; never beyond max_ns(). 0: empty.
  [[nodiscard]] std::uint64_t quantile_ns(double fraction) const noexcept;

 private:
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t sum_ns_ = 0, max_ns_ = 0;
};

// What ran an attempt; and the waits of durable domains.
enum class LatencyLevel : std::uint8_t {
  kLines = 1,     // level 1 in software
  kHardware = 2,  // level 1 in RTM
  kPages = 3,     // level 2
  kQueries = 4,   // level 2, queries
  // Durable writes of the log, each of them; a strict instance's own time contains its wait for
  // one.
  kLog = 5,
};
inline constexpr std::size_t kLatencyLevelCount = 6;
// "lines", "rtm", "pages", "queries", "log"
[[nodiscard]] const char *to_string(LatencyLevel level) noexcept;

// One axis each: sum what you are not interested in.
struct LatencySeries {
  // Participant (of all its threads); kGone: of all that have left, or died.
  std::uint32_t slot = 0;
  std::string site;  // empty: of no site, or of one without a name
  LatencyLevel level = LatencyLevel::kPages;
  AbortCause outcome = AbortCause::kNone;  // kNone: committed
  Histogram histogram;
  static constexpr std::uint32_t kGone = ~0u;
};

}  // namespace tmh
