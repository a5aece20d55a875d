// compat/libitm/private_ranges.cpp -- ranges that overlap or touch become one.
#include "compat/libitm/private_ranges.h"

namespace tmh::itm {

void PrivateRanges::insert(Range range) {
  TMH_ASSERT(range.begin < range.end);
  const std::uintptr_t first = range.begin / kLineBytes, last = (range.end - 1) / kLineBytes;
  if (last - first >= 63) {
    filter_ = ~0ull;
  } else {
    for (std::uintptr_t line = first; line <= last; ++line) filter_ |= 1ull << (line % 64);
  }
  auto from = std::lower_bound(
      ranges_.begin(), ranges_.end(), range.begin,
      [](const Range &each, std::uintptr_t address) { return each.end < address; });
  auto to = from;
  for (; to != ranges_.end() && to->begin <= range.end; ++to) {
    range.begin = std::min(range.begin, to->begin);
    range.end = std::max(range.end, to->end);
  }
  if (from == to) {
    ranges_.insert(from, range);
    return;
  }
  *from = range;
  ranges_.erase(std::next(from), to);
}

void PrivateRanges::keep(std::size_t size) {
  TMH_ASSERT(size <= added_.size());
  if (size == added_.size()) return;
  added_.resize(size);
  recent_ = {};
  ranges_.clear();
  filter_ = 0;
  for (const Range &range : added_) insert(range);
}

}  // namespace tmh::itm
