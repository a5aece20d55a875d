// tools/top_view.h -- what tmh top shows, as lines of text: pure, so that it can be tested on
// made-up samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/lock_totals.h"
#include "tools/shared_counters.h"
#include "tools/shared_lines.h"

namespace tmh::tools {

struct TopSample {
  std::uint64_t time_ns = 0;       // since the epoch
  std::uint64_t monotonic_ns = 0;  // for rates
  std::string durability, detection;
  SharedCounters shared;
  LockTotals locks;
  std::vector<SegmentSight> segments;
};

enum class TopSort : std::uint8_t { kCommits, kAborts, kAge, kPid };
[[nodiscard]] const char *name_of(TopSort sort) noexcept;
[[nodiscard]] TopSort after(TopSort sort) noexcept;  // the next one, round and round

struct TopLook {
  std::string folder;
  std::uint32_t columns = 80;
  std::uint32_t rows = 0;  // 0: as many as it takes
  TopSort sort = TopSort::kCommits;
  bool is_paused = false;
  bool has_keys = false;  // a line says which
};

// Lines without their ends, each at most `columns` characters of printable ASCII, at most `rows`.
// Rates and latencies are of the time between the two samples; when the domain was opened anew in
// between, of what there is since.
[[nodiscard]] std::vector<std::string> top_lines(const TopSample &before, const TopSample &now,
                                                 const TopLook &look);

// "0", "3.2", "980", "12.3k", "1.20M": five characters at most.
[[nodiscard]] std::string rate_text(double per_second);

}  // namespace tmh::tools
