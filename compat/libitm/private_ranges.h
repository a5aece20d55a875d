// compat/libitm/private_ranges.h -- memory that only the running transaction knows: blocks that it
// has allocated, and locals that the compiled code logs and then stores to without a barrier.
// Why:       the compiler mixes plain accesses to them with barriers in functions that it calls. So
//            a store of a barrier must go to memory at once, too; a log of new values would hide
//            one from the other.
// Shape:     disjoint ranges in order, and a filter of 64 bits that most addresses do not pass.
// Contexts:  one thread's. NOT async-signal-safe: add() may allocate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "platform/assert.h"
#include "storage/page_id.h"

namespace tmh::itm {

class PrivateRanges {
 public:
  void clear() noexcept {
    if (filter_ == 0) [[likely]]
      return;
    ranges_.clear();
    added_.clear();
    recent_ = {};
    filter_ = 0;
  }
  // Throws std::bad_alloc.
  void add(std::uintptr_t begin, std::size_t bytes) {
    if (bytes == 0) return;
    TMH_ASSERT(begin + bytes > begin);
    added_.push_back({begin, begin + bytes});
    insert(added_.back());
  }
  // How many were added; keep(size()) takes back what came after.
  [[nodiscard]] std::size_t size() const noexcept { return added_.size(); }
  void keep(std::size_t size);

  // Are these bytes all in one of them?
  [[nodiscard]] bool has(std::uintptr_t at, std::size_t bytes) noexcept {
    if (at - recent_.begin < recent_.end - recent_.begin && bytes <= recent_.end - at) return true;
    if (filter_ == 0) return false;
    const auto next = std::upper_bound(
        ranges_.begin(), ranges_.end(), at,
        [](std::uintptr_t address, const Range &range) { return address < range.begin; });
    if (next == ranges_.begin() || std::prev(next)->end < at + bytes) return false;
    recent_ = *std::prev(next);
    return true;
  }
  // Is a byte of this line in one of them? may_: true may be wrong.
  [[nodiscard]] bool may_meet_line(std::uintptr_t line_begin) const noexcept {
    return (filter_ >> (line_begin / kLineBytes % 64) & 1) != 0;
  }
  [[nodiscard]] bool meets_line(std::uintptr_t line_begin) const noexcept {
    if (!may_meet_line(line_begin)) [[likely]]
      return false;
    bool is_private = false;
    return first_part(line_begin, kLineBytes, &is_private) != kLineBytes || is_private;
  }
  // Of these lines, too. May say so where none does. REQUIRES: bytes is not 0.
  [[nodiscard]] bool may_meet(std::uintptr_t at, std::size_t bytes) const noexcept {
    TMH_ASSERT(bytes != 0);
    if (filter_ == 0) [[likely]]
      return false;
    const std::uintptr_t first = at / kLineBytes, last = (at + bytes - 1) / kLineBytes;
    if (last - first >= 63) return true;
    for (std::uintptr_t line = first; line <= last; ++line)
      if (meets_line(line * kLineBytes)) return true;
    return false;
  }
  // How many of the bytes from `at` are all private, or all not. REQUIRES: bytes is not 0.
  [[nodiscard]] std::size_t first_part(std::uintptr_t at, std::size_t bytes,
                                       bool *is_private) const noexcept {
    TMH_ASSERT(bytes != 0);
    const auto next = std::upper_bound(
        ranges_.begin(), ranges_.end(), at,
        [](std::uintptr_t address, const Range &range) { return address < range.begin; });
    *is_private = next != ranges_.begin() && at < std::prev(next)->end;
    if (*is_private) return std::min(bytes, std::prev(next)->end - at);
    return next == ranges_.end() ? bytes : std::min(bytes, next->begin - at);
  }

 private:
  struct Range {
    std::uintptr_t begin = 0, end = 0;
  };
  void insert(Range range);

  std::vector<Range> ranges_, added_;
  Range recent_;              // lies in one of ranges_, or is empty
  std::uint64_t filter_ = 0;  // bit n: a line with number n modulo 64 may be met
};

}  // namespace tmh::itm
