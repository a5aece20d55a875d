// storage/latency.h -- latency histograms as all participants share them.
// Shape:     tmh.latency: LatencyHeaderV1 (identity, names of sites, keys), then kSeriesMax pages
//            HistogramV1, sparse; page i belongs to key i.
//            Rebuildable: made anew by the first participant.
// Invariant: (1) a page with key 0 is empty. (2) A key that is not 0 does not change but under the
//            folder lock, when its participant has gone. (3) Two pages may have keys that differ in
//            nothing: a reader adds them up.
// Ordering:  keys are stored (release) after HistogramV1::owner, sites' states after their names;
//            readers acquire. Counts are relaxed.
// Sharing:   all threads of a participant add to its pages (fetch_add). What a participant leaves
//            is added to the pages of kGone by the next one in its slot, or by itself when it
//            closes.
// Contexts:  HistogramV1::add(): async-signal-safe; not in RTM (it would abort others). Reading:
//            everywhere.
// Source:    docs/design.md 9 and D8.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <tmh/instance.hpp>
#include <tmh/latency.hpp>

#include "storage/participants.h"

namespace tmh::storage {

inline constexpr std::uint64_t kLatencyMagic = 0x3130'5441'4c48'4d54ull;  // "TMHLAT01"
// Changes with every change of what is in this file.
inline constexpr std::uint32_t kLatencyVersion = 1;
inline constexpr std::size_t kSitesMax = 256;  // 0: of no site
// 32 MiB, sparse: 64 participants with 32 pages each, say
inline constexpr std::size_t kSeriesMax = 8192;

// Whose times are on a page: slot + 1 (kGoneOwner: of those that have left), site, level and
// outcome. 0: of no series.
enum class SeriesKey : std::uint64_t {};
inline constexpr std::uint64_t kGoneOwner = kParticipantsMax + 1;
// A page that is being made: its owner is not stored yet.
inline constexpr std::uint64_t kSeriesMaking = 1ull << 63;
[[nodiscard]] constexpr SeriesKey series_key(std::uint64_t owner, std::uint32_t site,
                                             LatencyLevel level, AbortCause outcome) noexcept {
  return SeriesKey{owner << 32 | std::uint64_t{site} << 16 |
                   std::uint64_t{static_cast<std::uint8_t>(level)} << 8 |
                   static_cast<std::uint8_t>(outcome)};
}

struct SeriesName {
  std::uint64_t owner;
  std::uint32_t site;
  LatencyLevel level;
  AbortCause outcome;
};
// Of bytes that may be anything. False: of no series, or of one that is being made.
[[nodiscard]] constexpr bool parse_key(std::uint64_t word, SeriesName *out) noexcept {
  const std::uint64_t level = word >> 8 & 0xff, outcome = word & 0xff, site = word >> 16 & 0xffff;
  out->owner = word >> 32;
  out->site = static_cast<std::uint32_t>(site);
  out->level = static_cast<LatencyLevel>(level);
  out->outcome = static_cast<AbortCause>(outcome);
  return out->owner != 0 && out->owner <= kGoneOwner && site < kSitesMax && level != 0 &&
         level < kLatencyLevelCount && outcome < kAbortCauseCount;
}

inline constexpr std::uint32_t kSiteNaming = 1, kSiteNamed = 2;
struct LatencySiteV1 {
  std::atomic<std::uint32_t> state;  //  0  0 free, kSiteNaming, kSiteNamed
  char name[60];                     //  4  cut off where it is longer
};
static_assert(sizeof(LatencySiteV1) == 64 && offsetof(LatencySiteV1, name) == 4);
// Empty: has none.
[[nodiscard]] std::string name_of(const LatencySiteV1 &site);

struct alignas(4096) LatencyHeaderV1 {
  std::uint64_t magic;                          //     0
  std::uint32_t version;                        //     8
  std::uint32_t header_bytes;                   //    12
  char boot_id[40];                             //    16
  std::atomic<std::uint64_t> refused;           //    56  kinds of times for which there was no page
  std::uint64_t reserved_zero[504];             //    64
  LatencySiteV1 sites[kSitesMax];               //  4096
  std::atomic<std::uint64_t> keys[kSeriesMax];  // 20480
};
static_assert(sizeof(LatencyHeaderV1) == 4096 + 64 * kSitesMax + 8 * kSeriesMax &&
              offsetof(LatencyHeaderV1, sites) == 4096 && offsetof(LatencyHeaderV1, keys) == 20480);

struct alignas(4096) HistogramV1 {
  std::atomic<std::uint64_t> owner;                        //    0  incarnation of its participant
  std::atomic<std::uint64_t> sum_ns;                       //    8
  std::atomic<std::uint64_t> max_ns;                       //   16
  std::uint64_t reserved_zero[5];                          //   24
  std::atomic<std::uint64_t> counts[Histogram::kBuckets];  // 64
  std::uint64_t reserved2_zero[8];                         // 4032

  void add(std::uint64_t ns, std::uint64_t count) noexcept;
  // REQUIRES: no other thread adds here.
  void move_to(HistogramV1 &other) noexcept;
  [[nodiscard]] Histogram read() const noexcept;

 private:
  void raise_max(std::uint64_t ns) noexcept;
};
static_assert(sizeof(HistogramV1) == 4096 && offsetof(HistogramV1, counts) == 64 &&
              offsetof(HistogramV1, reserved2_zero) == 4032);
static_assert(std::is_standard_layout_v<LatencyHeaderV1> && std::is_standard_layout_v<HistogramV1>);

// Adds what was on a page to the series that it belongs to. incarnations: of the living
// participants, by slot; 0: none.
void add_series(const std::vector<std::uint64_t> &incarnations, const SeriesName &name,
                std::uint64_t owner, const std::string &site, const Histogram &histogram,
                std::vector<LatencySeries> *all);

inline constexpr std::uint64_t kLatencyBytes =
    sizeof(LatencyHeaderV1) + kSeriesMax * sizeof(HistogramV1);
[[nodiscard]] inline std::string latency_path(const std::string &folder) {
  return folder + "/tmh.latency";
}

}  // namespace tmh::storage
