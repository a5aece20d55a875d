// levels/page/touch/read_set.h -- what a running instance has read or written so far, of which
// segments.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "storage/control.h"
#include "storage/page_id.h"

namespace tmh::page {

using SegmentSet = std::bitset<storage::kSegmentsMax>;

struct ReadSet {
  static constexpr std::size_t kPagesMax = 16;

  // In modes that keep pages mapped only when none was mapped at the begin.
  bool is_exact = false;
  SegmentSet segments;
  std::array<storage::PageId, kPagesMax> pages{};
  // More than kPagesMax: too many to list.
  std::size_t page_count = 0;
  // With a level below: releases so far. None of these pages is among them, for the instance runs
  // yet; later they may go down, and come back changed and without a stamp.
  std::uint64_t announcements = 0;
  // Memory stood in for a page without a block. Then that may have stayed with the level below,
  // where commits move the level's own clock alone.
  bool has_stand_ins = false;
  std::uint64_t line_snapshot = 0;
};

}  // namespace tmh::page
