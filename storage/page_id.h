// storage/page_id.h -- names of pages and lines: (segment, index), never an address
// (docs/design.md 12).
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/options.hpp>

namespace tmh::storage {

// Entries of the segment table in the control file.
inline constexpr std::uint32_t kSegmentsMax = 256;
inline constexpr std::uint64_t kSegmentBytesMax = 1ull << 40;  // 1 TiB
inline constexpr std::size_t kLinesPerPage = kPageBytes / kLineBytes;
static_assert(kLinesPerPage == 64, "a line mask is one 64-bit word");

// Segment number in the upper 24 bits, page index in the lower 40.
enum class PageId : std::uint64_t {};
enum class PageIndex : std::uint64_t {};

[[nodiscard]] constexpr PageId page_id(std::uint32_t segment, PageIndex index) noexcept {
  return PageId{(std::uint64_t{segment} << 40) | static_cast<std::uint64_t>(index)};
}
[[nodiscard]] constexpr std::uint32_t segment_number(PageId page) noexcept {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(page) >> 40);
}
[[nodiscard]] constexpr PageIndex page_index(PageId page) noexcept {
  return PageIndex{static_cast<std::uint64_t>(page) & ((1ull << 40) - 1)};
}
[[nodiscard]] constexpr std::uint64_t page_offset(PageId page) noexcept {
  return static_cast<std::uint64_t>(page_index(page)) * kPageBytes;
}

// Bit i: line i of a page.
using LineMask = std::uint64_t;

}  // namespace tmh::storage
