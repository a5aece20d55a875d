// tools/shared_lines.h -- level 1 of a hybrid domain as a process sees it that does not join: its
// counters, and which level has which page.
// Invariant: as domain_files.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/control.h"
#include "tools/shared_counters.h"

namespace tmh::tools {

// Adds level 1's totals to `out`, and to its participants what their threads have counted.
// incarnations: as read_latencies().
// Errors: kForeignVersion, kPermission, kIo. Not hybrid, or being made: nothing.
void read_line_counters(const std::string &folder, const std::vector<std::uint64_t> &incarnations,
                        SharedCounters *out);

// What level 2 knows of a page, or of several: the foremost that one of them is in.
enum class PageSight : std::uint8_t {
  kUntouched,  // '.': nobody has committed to it
  kLines,      // 'L': level 1 has it
  kIdle,       // 'N': level 2's, nobody uses it
  // 'v': the same, and some committed version is not home yet, because a snapshot may read an older
  // one
  kVersioned,
  kHardware,  // 'H': level 1 has it, in hardware
  kRead,      // 'R': level 2's, and a running query may use it
  kWritten,   // 'W': the same of a running update
};
inline constexpr std::size_t kPageSights = 7;
static_assert(kPageSights == static_cast<std::size_t>(PageSight::kWritten) + 1);
[[nodiscard]] char letter_of(PageSight sight) noexcept;

struct SegmentSight {
  std::uint32_t number = 0;
  std::string name;
  std::uint64_t pages = 0;
  std::uint64_t looked_at = 0;               // fewer than `pages` where it is large
  std::uint64_t pages_in[kPageSights] = {};  // of those
  // A letter for each of at most `cells` equal groups of pages.
  std::string map;
};
// running: of the participants, by slot: 0 none, 1 a query, 2 an update.
[[nodiscard]] std::vector<SegmentSight> read_pages(const std::string &folder,
                                                   const storage::ControlFile &control,
                                                   const std::vector<std::uint8_t> &running,
                                                   std::uint32_t cells);

}  // namespace tmh::tools
