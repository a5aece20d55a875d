// tools/shared_latency.cpp -- see shared_latency.h.
#include "tools/shared_latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "platform/assert.h"
#include "storage/latency.h"
#include "tools/failure.h"
#include "tools/print.h"
#include "tools/shared_counters.h"
#include "tools/shared_file.h"

namespace tmh::tools {

using storage::HistogramV1;
using storage::LatencyHeaderV1;

namespace {

std::string site_name(const std::vector<std::byte> &header, std::uint32_t site) {
  TMH_ASSERT(header.size() >= sizeof(LatencyHeaderV1));
  const std::byte *record =
      header.data() + offsetof(LatencyHeaderV1, sites) + site * sizeof(storage::LatencySiteV1);
  if (field<std::uint32_t>(record, offsetof(storage::LatencySiteV1, state)) != storage::kSiteNamed)
    return {};
  const auto name = field<std::array<char, sizeof storage::LatencySiteV1::name>>(
      record, offsetof(storage::LatencySiteV1, name));
  return printable({name.begin(), std::find(name.begin(), name.end(), '\0')});
}

std::string row(const std::string &name, const Histogram &histogram) {
  std::string out = fmt::format("{:<28} {:>12}", name, histogram.count());
  for (const double fraction : {0.5, 0.9, 0.99, 0.999})
    out += fmt::format(" {:>8}", ns_text(histogram.quantile_ns(fraction)));
  return out + fmt::format(" {:>8}\n", ns_text(histogram.max_ns()));
}

}  // namespace

Histogram histogram_of(const std::vector<std::byte> &page) {
  static_assert(sizeof(HistogramV1::counts) == 8 * Histogram::kBuckets);
  TMH_ASSERT(page.size() >= sizeof(HistogramV1));
  Histogram out;
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i)
    out.add_bucket(i, field<std::uint64_t>(page.data(), offsetof(HistogramV1, counts) + 8 * i));
  out.add_totals(field<std::uint64_t>(page.data(), offsetof(HistogramV1, sum_ns)),
                 field<std::uint64_t>(page.data(), offsetof(HistogramV1, max_ns)));
  return out;
}

std::vector<LatencySeries> read_latencies(const std::string &folder,
                                          const std::vector<std::uint64_t> &incarnations,
                                          std::uint64_t *refused) {
  static_assert(sizeof(LatencyHeaderV1::keys) == 8 * storage::kSeriesMax);
  TMH_ASSERT(refused != nullptr);
  std::vector<LatencySeries> all;
  const std::string path = storage::latency_path(folder);
  const platform::FileDescriptor file = open_shared(path);
  if (!file) return all;
  const std::vector<std::byte> header = read_at(file, path, 0, sizeof(LatencyHeaderV1));
  if (header.size() < sizeof(LatencyHeaderV1)) return all;  // being made
  const auto magic = field<std::uint64_t>(header.data(), offsetof(LatencyHeaderV1, magic));
  if (magic == 0) return all;
  if (magic != storage::kLatencyMagic ||
      field<std::uint32_t>(header.data(), offsetof(LatencyHeaderV1, version)) !=
          storage::kLatencyVersion ||
      field<std::uint32_t>(header.data(), offsetof(LatencyHeaderV1, header_bytes)) !=
          sizeof(LatencyHeaderV1))
    refuse(Errc::kForeignVersion, path + " is of another version, or damaged");
  *refused = field<std::uint64_t>(header.data(), offsetof(LatencyHeaderV1, refused));
  for (std::size_t i = 0; i < storage::kSeriesMax; ++i) {
    storage::SeriesName name{};
    if (!storage::parse_key(
            field<std::uint64_t>(header.data(), offsetof(LatencyHeaderV1, keys) + 8 * i), &name))
      continue;
    const std::vector<std::byte> page =
        read_at(file, path, sizeof(LatencyHeaderV1) + i * sizeof(HistogramV1), sizeof(HistogramV1));
    if (page.size() < sizeof(HistogramV1)) break;  // cut short
    storage::add_series(incarnations, name,
                        field<std::uint64_t>(page.data(), offsetof(HistogramV1, owner)),
                        site_name(header, name.site), histogram_of(page), &all);
  }
  return all;
}

Histogram sum_of(const std::vector<LatencySeries> &all,
                 const std::function<bool(const LatencySeries &)> &wanted) {
  TMH_ASSERT(wanted != nullptr);
  Histogram sum;
  for (const LatencySeries &one : all)
    if (wanted(one)) sum += one.histogram;
  return sum;
}

Json latency_json(const Histogram &histogram) {
  return {{"count", histogram.count()},
          {"mean_ns", static_cast<std::uint64_t>(histogram.mean_ns())},
          {"p50_ns", histogram.quantile_ns(0.5)},
          {"p90_ns", histogram.quantile_ns(0.9)},
          {"p99_ns", histogram.quantile_ns(0.99)},
          {"p999_ns", histogram.quantile_ns(0.999)},
          {"max_ns", histogram.max_ns()}};
}

std::string latency_table_text(const std::vector<LatencySeries> &all, const Histogram &lock_waits) {
  std::map<std::pair<LatencyLevel, AbortCause>, Histogram> sums;
  std::map<std::pair<std::string, LatencyLevel>, Histogram> sites;
  for (const LatencySeries &one : all) {
    sums[{one.level, one.outcome}] += one.histogram;
    if (!one.site.empty() && one.outcome == AbortCause::kNone)
      sites[{one.site, one.level}] += one.histogram;
  }
  if (sums.empty() && lock_waits.count() == 0) return {};
  std::string out =
      fmt::format("{:<28} {:>12} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "latency of attempts", "count",
                  "p50", "p90", "p99", "p99.9", "max");
  for (const auto &[which, histogram] : sums) {
    const std::string outcome = which.second == AbortCause::kNone
                                    ? "committed"
                                    : fmt::format("aborted: {}", cause_name(which.second));
    out += row(fmt::format("  {}, {}", to_string(which.first), outcome), histogram);
  }
  if (lock_waits.count() != 0) out += row("  locks, waits", lock_waits);
  for (const auto &[which, histogram] : sites)
    out += row(fmt::format("  site '{}', {}", which.first, to_string(which.second)), histogram);
  return out;
}

std::string ns_text(std::uint64_t ns) {
  constexpr const char *kUnits[] = {"ns", "us", "ms", "s"};
  auto value = static_cast<double>(ns);
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

}  // namespace tmh::tools
