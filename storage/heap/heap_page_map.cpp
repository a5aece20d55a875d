// storage/heap/heap_page_map.cpp -- see heap_page_map.h.
#include "storage/heap/heap_page_map.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::storage {
namespace {

constexpr std::uint32_t zone_of(std::uint32_t page) noexcept { return page / kZonePages; }
constexpr std::uint32_t zone_begin(std::uint32_t zone_index) noexcept {
  return zone_index * kZonePages;
}

std::uint64_t taken_word(const LeafV1 &leaf, std::uint32_t word) noexcept {
  return leaf.low[word] | leaf.high[word];
}

// First page in [from, limit) whose word has its bit set; limit when there is none. word(i) yields
// the bits of 64 pages.
template <class Word>
std::uint32_t find_from(std::uint32_t from, std::uint32_t limit, Word word) noexcept {
  while (from < limit) {
    const std::uint64_t rest = word(from / 64) >> (from % 64);
    if (rest != 0)
      return std::min(from + static_cast<std::uint32_t>(std::countr_zero(rest)), limit);
    from = (from / 64 + 1) * 64;
  }
  return limit;
}
std::uint32_t next_taken(const LeafV1 &leaf, std::uint32_t from, std::uint32_t limit) noexcept {
  return find_from(from, limit, [&](std::uint32_t word) { return taken_word(leaf, word); });
}
std::uint32_t next_free(const LeafV1 &leaf, std::uint32_t from, std::uint32_t limit) noexcept {
  return find_from(from, limit, [&](std::uint32_t word) { return ~taken_word(leaf, word); });
}
std::uint32_t next_other(const LeafV1 &leaf, std::uint32_t from, std::uint32_t limit,
                         PageState same) noexcept {
  const std::uint64_t low = (static_cast<unsigned>(same) & 1U) != 0 ? ~std::uint64_t{0} : 0;
  const std::uint64_t high = (static_cast<unsigned>(same) & 2U) != 0 ? ~std::uint64_t{0} : 0;
  return find_from(from, limit, [&](std::uint32_t word) {
    return (leaf.low[word] ^ low) | (leaf.high[word] ^ high);
  });
}

// One behind the last taken page below `limit`; 0 when all are free.
std::uint32_t end_of_taken(const LeafV1 &leaf, std::uint32_t limit) noexcept {
  TMH_ASSERT(limit <= kZonePages);
  while (limit > 0) {
    const std::uint32_t word = (limit - 1) / 64;
    const std::uint32_t bits = limit - word * 64;  // 1 to 64 of this word count
    const std::uint64_t taken = taken_word(leaf, word) << (64 - bits);
    if (taken != 0) return limit - static_cast<std::uint32_t>(std::countl_zero(taken));
    limit = word * 64;
  }
  return 0;
}

void fill_bits(std::uint64_t *words, std::uint32_t from, std::uint32_t count, bool value) noexcept {
  TMH_ASSERT(from + count <= kZonePages);
  while (count > 0) {
    const std::uint32_t shift = from % 64;
    const std::uint32_t bits = std::min(64 - shift, count);
    const std::uint64_t mask = (bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1)
                               << shift;
    if (value) {
      words[from / 64] |= mask;
    } else {
      words[from / 64] &= ~mask;
    }
    from += bits;
    count -= bits;
  }
}

}  // namespace

Errc PageMap::check_top() const noexcept {
  const bool valid = map_->magic == kMapMagic && map_->top_page >= raw(kFirstRunPage) &&
                     map_->top_page <= pages_.page_count;
  return valid ? Errc::kOk : Errc::kCorrupt;
}

// Tables may lie in the fixed pages, so only the segment's end bounds them.
const ZoneV1 *PageMap::zone(std::uint32_t zone_index) const noexcept {
  const std::uint32_t directory = map_->directories[zone_index / kZonesPerDirectory];
  if (directory == 0 || directory >= pages_.page_count) return nullptr;
  return pages_.at<ZoneV1>(HeapPage{directory}) + zone_index % kZonesPerDirectory;
}

const LeafV1 *PageMap::leaf(std::uint32_t zone_index) const noexcept {
  const ZoneV1 *summary = zone(zone_index);
  if (summary == nullptr || summary->leaf_page == 0 || summary->leaf_page >= pages_.page_count)
    return nullptr;
  return pages_.at<LeafV1>(HeapPage{summary->leaf_page});
}

PageState PageMap::state(const LeafV1 &leaf, std::uint32_t index) noexcept {
  TMH_ASSERT(index < kZonePages);
  const auto low = (leaf.low[index / 64] >> (index % 64)) & 1;
  const auto high = (leaf.high[index / 64] >> (index % 64)) & 1;
  return static_cast<PageState>(low + 2 * high);
}

// How many pages of the zone lie below top_page.
std::uint32_t PageMap::zone_limit(std::uint32_t zone_index) const noexcept {
  const std::uint32_t begin = zone_begin(zone_index);
  return map_->top_page <= begin ? 0 : std::min(map_->top_page - begin, kZonePages);
}

ZoneV1 PageMap::summarize(std::uint32_t zone_index) const noexcept {
  TMH_ASSERT(leaf(zone_index) != nullptr);
  ZoneV1 summary{};
  summary.leaf_page = zone(zone_index)->leaf_page;
  const LeafV1 &bits = *leaf(zone_index);
  const std::uint32_t limit = zone_limit(zone_index);
  std::uint32_t longest = 0;
  for (std::uint32_t at = 0; at < limit;) {
    const std::uint32_t first = next_free(bits, at, limit);
    const std::uint32_t end = next_taken(bits, first, limit);
    const std::uint32_t free_pages = end - first;
    if (first == 0) summary.prefix_pages = static_cast<std::uint16_t>(free_pages);
    if (end == limit) summary.suffix_pages = static_cast<std::uint16_t>(free_pages);
    longest = std::max(longest, free_pages);
    summary.free_pages += free_pages;
    at = end;
  }
  summary.longest_pages = static_cast<std::uint16_t>(longest);
  return summary;
}

Errc PageMap::find_fit(std::uint32_t page_count, std::uint32_t *first) const noexcept {
  std::uint64_t carried = 0;  // free pages that end where this zone begins
  for (std::uint32_t z = 0; z <= zone_of(map_->top_page - 1); ++z) {
    const ZoneV1 *summary = zone(z);
    const LeafV1 *bits = leaf(z);
    if (bits == nullptr || summary->prefix_pages > kZonePages) return Errc::kCorrupt;
    if (carried + summary->prefix_pages >= page_count) {
      // A summary that lies could place the run before the first page.
      if (carried > zone_begin(z)) return Errc::kCorrupt;
      *first = zone_begin(z) - static_cast<std::uint32_t>(carried);
      return Errc::kOk;
    }
    if (summary->longest_pages >= page_count) {
      const std::uint32_t limit = zone_limit(z);
      for (std::uint32_t at = next_free(*bits, 0, limit); at < limit;) {
        const std::uint32_t end = next_taken(*bits, at, limit);
        if (end - at >= page_count) {
          *first = zone_begin(z) + at;
          return Errc::kOk;
        }
        at = next_free(*bits, end, limit);
      }
      return Errc::kCorrupt;
    }
    carried = summary->prefix_pages == kZonePages ? carried + kZonePages : summary->suffix_pages;
  }
  return Errc::kSegmentFull;
}

std::uint32_t PageMap::end_of_same(std::uint32_t first, std::uint32_t limit,
                                   PageState same) const noexcept {
  while (first < limit) {
    const std::uint32_t begin = zone_begin(zone_of(first));
    const LeafV1 *bits = leaf(zone_of(first));
    if (bits == nullptr) return first;
    const std::uint32_t end = std::min(limit - begin, kZonePages);
    const std::uint32_t other = next_other(*bits, first - begin, end, same);
    first = begin + other;
    if (other != end) return first;
  }
  return limit;
}

// Every page of the range is in this state (kLargeFirst stands for a whole large run: first page,
// then kLargeMore, then another state).
Errc PageMap::check_range(std::uint32_t first, std::uint32_t page_count,
                          PageState expected) const noexcept {
  if (first < raw(kFirstRunPage) || first > map_->top_page || page_count > map_->top_page - first)
    return Errc::kCorrupt;
  const std::uint32_t end = first + page_count;
  if (expected != PageState::kLargeFirst) {
    return end_of_same(first, end, expected) == end ? Errc::kOk : Errc::kCorrupt;
  }
  std::uint32_t run_pages = 0;
  return large_run_pages(HeapPage{first}, &run_pages) == Errc::kOk && run_pages == page_count
             ? Errc::kOk
             : Errc::kCorrupt;
}

// REQUIRES: the leaves of the range exist.
void PageMap::mark(std::uint32_t first, std::uint32_t page_count, PageState to) noexcept {
  while (page_count > 0) {
    const std::uint32_t z = zone_of(first);
    auto *bits = const_cast<LeafV1 *>(leaf(z));  // const only where leaf() serves heap_check()
    const std::uint32_t count = std::min(page_count, zone_begin(z) + kZonePages - first);
    TMH_ASSERT(bits != nullptr && count > 0);
    fill_bits(bits->low, first % kZonePages, count, (static_cast<unsigned>(to) & 1U) != 0);
    fill_bits(bits->high, first % kZonePages, count, (static_cast<unsigned>(to) & 2U) != 0);
    first += count;
    page_count -= count;
  }
}

void PageMap::mark_used(std::uint32_t first, std::uint32_t page_count, RunUse use) noexcept {
  if (use == RunUse::kReserved) {
    mark(first, page_count, PageState::kReserved);
    map_->reserved_pages += page_count;
  } else {
    mark(first, 1, PageState::kLargeFirst);
    mark(first + 1, page_count - 1, PageState::kLargeMore);
    map_->large_pages += page_count;
  }
}

// Brings the summaries of all zones that touch [first_page, end_page) up to date.
void PageMap::refresh(std::uint32_t first_page, std::uint32_t end_page) noexcept {
  TMH_ASSERT(first_page < end_page);
  for (std::uint32_t z = zone_of(first_page); z <= zone_of(end_page - 1); ++z) {
    // Null: damaged, trim() stopped there.
    if (leaf(z) != nullptr) *const_cast<ZoneV1 *>(zone(z)) = summarize(z);
  }
}

Errc PageMap::take(std::uint32_t page_count, RunUse use, HeapPage *first) noexcept {
  TMH_ASSERT(page_count > 0);
  TMH_TRY(check_top());
  std::uint32_t found = 0;
  TMH_TRY(find_fit(page_count, &found));
  TMH_TRY(check_range(found, page_count, PageState::kFree));
  mark_used(found, page_count, use);
  refresh(found, found + page_count);
  *first = HeapPage{found};
  return Errc::kOk;
}

std::uint32_t PageMap::missing_tables(std::uint32_t first_zone,
                                      std::uint32_t last_zone) const noexcept {
  std::uint32_t missing = 0;
  for (std::uint32_t z = first_zone; z <= last_zone; ++z) {
    const bool no_directory = map_->directories[z / kZonesPerDirectory] == 0;
    if (no_directory && (z == first_zone || z % kZonesPerDirectory == 0)) ++missing;
    const ZoneV1 *summary = zone(z);
    if (no_directory || (summary != nullptr && summary->leaf_page == 0)) ++missing;
  }
  return missing;
}

// In the order of zones, a directory before its first leaf: Invariant (3).
void PageMap::add_tables(std::uint32_t first_zone, std::uint32_t last_zone,
                         std::uint32_t first_page) noexcept {
  const auto next_table = [&] {
    // The page may have been used before.
    std::memset(pages_.at<std::byte>(HeapPage{first_page}), 0, kPageBytes);
    return first_page++;
  };
  for (std::uint32_t z = first_zone; z <= last_zone; ++z) {
    auto &directory = map_->directories[z / kZonesPerDirectory];
    if (directory == 0) directory = next_table();
    auto *summary = const_cast<ZoneV1 *>(zone(z));
    if (summary->leaf_page == 0) summary->leaf_page = next_table();
  }
}

Errc PageMap::extend(std::uint32_t page_count, RunUse use, HeapPage *first,
                     std::uint64_t *pages_needed) noexcept {
  TMH_ASSERT(page_count > 0);
  TMH_TRY(check_top());
  const std::uint32_t top = map_->top_page;
  // The tables' pages push the run's end up, which may need another table: repeat until it does
  // not.
  std::uint32_t table_count = 0;
  std::uint64_t end = 0;
  for (;;) {
    end = std::uint64_t{top} + table_count + page_count;
    *pages_needed = end;
    if (end > kHeapPagesMax) return Errc::kSegmentFull;
    const std::uint32_t missing =
        missing_tables(zone_of(top), zone_of(static_cast<std::uint32_t>(end) - 1));
    if (missing <= table_count) break;
    table_count = missing;
  }
  if (end > pages_.page_count) return Errc::kSegmentFull;
  const std::uint32_t last_zone = zone_of(static_cast<std::uint32_t>(end) - 1);
  for (std::uint32_t z = zone_of(top); z <= last_zone;
       ++z) {  // tables that exist must be usable before one byte changes
    const bool absent = map_->directories[z / kZonesPerDirectory] == 0;
    const ZoneV1 *summary = absent ? nullptr : zone(z);
    if (!absent && (summary == nullptr || (summary->leaf_page != 0 && leaf(z) == nullptr)))
      return Errc::kCorrupt;
  }
  add_tables(zone_of(top), last_zone, top);
  mark_used(top, table_count, RunUse::kReserved);
  mark_used(top + table_count, page_count, use);
  map_->top_page = static_cast<std::uint32_t>(end);
  refresh(top, static_cast<std::uint32_t>(end));
  *first = HeapPage{top + table_count};
  return Errc::kOk;
}

// Lowers top_page over the free pages below it, so that the next extension starts there: Invariant
// (2).
void PageMap::trim() noexcept {
  std::uint32_t top = map_->top_page;
  while (top > raw(kFirstRunPage)) {
    const std::uint32_t z = zone_of(top - 1);
    const LeafV1 *bits = leaf(z);
    if (bits == nullptr) break;  // damaged; the summaries still agree with top_page
    const std::uint32_t end = zone_begin(z) + end_of_taken(*bits, top - zone_begin(z));
    if (end == top) break;
    top = end;
    if (end != zone_begin(z)) break;
  }
  map_->top_page = std::max(top, raw(kFirstRunPage));
}

Errc PageMap::release(HeapPage first, std::uint32_t page_count, RunUse use) noexcept {
  TMH_TRY(check_top());
  const bool large = use == RunUse::kLarge;
  const auto expected = large ? PageState::kLargeFirst : PageState::kReserved;
  auto &total = large ? map_->large_pages : map_->reserved_pages;
  if (page_count == 0 || total < page_count) return Errc::kCorrupt;
  TMH_TRY(check_range(raw(first), page_count, expected));
  const std::uint32_t end = raw(first) + page_count;
  mark(raw(first), page_count, PageState::kFree);
  total -= page_count;
  if (end == map_->top_page) trim();
  refresh(std::min(raw(first), map_->top_page - 1), end);
  return Errc::kOk;
}

Errc PageMap::large_run_pages(HeapPage first, std::uint32_t *page_count) const noexcept {
  TMH_TRY(check_top());
  if (raw(first) < raw(kFirstRunPage) || raw(first) >= map_->top_page) return Errc::kBadFree;
  const LeafV1 *bits = leaf(zone_of(raw(first)));
  if (bits == nullptr) return Errc::kCorrupt;
  if (state(*bits, raw(first) % kZonePages) != PageState::kLargeFirst) return Errc::kBadFree;
  *page_count = end_of_same(raw(first) + 1, map_->top_page, PageState::kLargeMore) - raw(first);
  return Errc::kOk;
}

}  // namespace tmh::storage
