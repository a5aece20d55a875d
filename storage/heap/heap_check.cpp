// storage/heap/heap_check.cpp -- see heap_check.h.
#include "storage/heap/heap_check.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <string_view>

#include "platform/try.h"
#include "storage/heap/heap.h"
#include "storage/heap/heap_layout.h"
#include "storage/heap/heap_page_map.h"
#include "storage/heap/heap_roots.h"

namespace tmh::storage {
namespace {

// Every byte equals the one before, and the first is zero: as fast as memcmp(), for most of a
// heap's own pages are zeros.
bool all_zero(const void *bytes, std::size_t count) noexcept {
  const auto *at = static_cast<const unsigned char *>(bytes);
  return count == 0 || (at[0] == 0 && std::memcmp(at, at + 1, count - 1) == 0);
}

// What the address-order pass found, to be compared with what headers and lists claim.
struct Found {
  std::uint64_t large_pages = 0, reserved_pages = 0;
  std::uint64_t partial_slabs = 0, cached_pages = 0, chunk_pages = 0, root_pages = 0;
};

class Checker {
 public:
  Checker(const std::byte *base, std::uint64_t size_bytes, HeapCensus *census) noexcept
      // HeapPages serves writers too; nothing is written here.
      : pages_(const_cast<std::byte *>(base), size_bytes),
        map_(pages_),
        header_(pages_.at<MapHeaderV1>(kMapPage)),
        census_(*census) {}

  bool run() noexcept {
    return fixed_pages() && tables() && arenas() && page_order() && lists() && roots() &&
           found_.large_pages == header_->large_pages &&
           found_.reserved_pages == header_->reserved_pages;
  }

 private:
  bool fixed_pages() const noexcept {
    const auto *first = pages_.at<std::byte>(HeapPage{0});
    const auto *map = pages_.at<std::byte>(kMapPage);
    return all_zero(first + sizeof(HeaderV1), kPageBytes - sizeof(HeaderV1)) &&
           all_zero(map + sizeof(MapHeaderV1), kPageBytes - sizeof(MapHeaderV1)) &&
           all_zero(header_->reserved_zero, sizeof header_->reserved_zero) &&
           map_.check_top() == Errc::kOk;
  }

  // Directories and leaves exist from the front on, in ascending pages, and say what the bits and
  // top_page demand.
  bool tables() noexcept {
    if (header_->directories[0] != raw(kFirstDirectoryPage)) return false;
    const std::uint32_t last_used = (header_->top_page - 1) / kZonePages;
    std::uint32_t last_table = raw(kFirstDirectoryPage);
    zone_count_ = 0;
    bool ended = false;
    for (std::uint32_t d = 0; d < kDirectoryCount; ++d) {
      const std::uint32_t directory = header_->directories[d];
      if (directory == 0) {
        ended = true;
        continue;
      }
      if (ended || directory >= header_->top_page || (d != 0 && directory <= last_table))
        return false;
      last_table = directory;
      for (std::uint32_t z = d * kZonesPerDirectory; z < (d + 1) * kZonesPerDirectory; ++z) {
        const ZoneV1 *summary = map_.zone(z);
        if (summary->leaf_page == 0) {
          ended = true;
          if (!all_zero(summary, sizeof *summary)) return false;
          continue;
        }
        if (ended || summary->leaf_page >= header_->top_page || summary->leaf_page <= last_table)
          return false;
        // Only the first two are fixed pages.
        last_table = std::max(summary->leaf_page, raw(kFirstRunPage) - 1);
        zone_count_ = z + 1;
        const ZoneV1 expected = map_.summarize(z);
        if (std::memcmp(&expected, summary, sizeof expected) != 0 || !free_above_top(z))
          return false;
      }
    }
    return zone_count_ > last_used && map_.zone(0)->leaf_page == raw(kFirstLeafPage);
  }

  bool free_above_top(std::uint32_t z) const noexcept {
    const std::uint32_t end = (z + 1) * kZonePages;
    const std::uint32_t begin = std::max(z * kZonePages, header_->top_page);
    return begin >= end || map_.end_of_same(begin, end, PageState::kFree) == end;
  }

  PageState state(std::uint32_t page) const noexcept {
    return PageMap::state(*map_.leaf(page / kZonePages), page % kZonePages);
  }

  const ArenaV1 *arena(std::uint32_t index) const noexcept {
    return pages_.at<ArenaV1>(kFirstArenaPage + index);
  }

  bool arenas() noexcept {
    for (std::uint32_t index = 0; index < kArenaCount; ++index) {
      const ArenaV1 *a = arena(index);
      if (!all_zero(a->reserved_zero, sizeof a->reserved_zero) ||
          !all_zero(a + 1, kPageBytes - sizeof *a))
        return false;
      if (a->chunk_pages != 0 &&
          (!std::has_single_bit(a->chunk_pages) || a->chunk_pages < 16 || a->chunk_pages > 256)) {
        return false;
      }
      const bool no_chunk = a->chunk_next == 0 && a->chunk_end == 0;
      if (!no_chunk && (a->chunk_next < raw(kFirstRunPage) || a->chunk_end < a->chunk_next ||
                        a->chunk_end > header_->top_page)) {
        return false;
      }
      if (a->cached_head[0] != 0 ||
          !all_zero(a->cached_head + kMediumPagesMax + 1,
                    (kCacheBinCount - kMediumPagesMax - 1) * sizeof a->cached_head[0])) {
        return false;
      }
      if (!all_zero(a->partial_head + kClassCount,
                    (kClassCountMax - kClassCount) * sizeof a->partial_head[0]))
        return false;
    }
    return true;
  }

  // End of the unused part of an arena's chunk that begins at `page`; 0 when none does.
  std::uint32_t chunk_rest_end(std::uint32_t page) const noexcept {
    for (std::uint32_t index = 0; index < kArenaCount; ++index) {
      if (arena(index)->chunk_next == page && arena(index)->chunk_end != page)
        return arena(index)->chunk_end;
    }
    return 0;
  }

  // The next directory or leaf in address order, from the table cursor on; top_page when there is
  // none.
  std::uint32_t next_table() const noexcept {
    if (cursor_zone_ >= zone_count_) return header_->top_page;
    const bool directory_first = cursor_zone_ % kZonesPerDirectory == 0 && !cursor_past_directory_;
    return directory_first ? header_->directories[cursor_zone_ / kZonesPerDirectory]
                           : map_.zone(cursor_zone_)->leaf_page;
  }
  void pass_table() noexcept {
    if (cursor_zone_ % kZonesPerDirectory == 0 && !cursor_past_directory_) {
      cursor_past_directory_ = true;
    } else {
      ++cursor_zone_;
      cursor_past_directory_ = false;
    }
  }

  bool page_order() noexcept {
    const std::uint32_t top = header_->top_page;
    std::uint32_t page = 0;
    for (; page < raw(kFirstRunPage); ++page) {
      if (state(page) != PageState::kReserved) return false;
      if (page == next_table()) pass_table();
    }
    while (page < top) {
      std::uint32_t length = 1;
      switch (state(page)) {
        case PageState::kFree:
          if (page == top - 1) return false;  // trimmed
          break;
        case PageState::kLargeFirst:
          length = map_.end_of_same(page + 1, top, PageState::kLargeMore) - page;
          found_.large_pages += length;
          ++census_.large_runs;
          census_.large_bytes += std::uint64_t{length} * kPageBytes;
          break;
        case PageState::kLargeMore:
          return false;  // without a first page
        case PageState::kReserved:
          if (!reserved_run(page, &length)) return false;
          break;
      }
      if (next_table() < page + length) return false;  // a table under something else
      page += length;
    }
    found_.reserved_pages += raw(kFirstRunPage);
    return next_table() == top;
  }

  bool reserved_run(std::uint32_t page, std::uint32_t *length) noexcept {
    if (page == next_table()) {
      pass_table();
    } else if (const std::uint32_t end = chunk_rest_end(page); end != 0) {
      *length = end - page;
      found_.chunk_pages += *length;
    } else {
      const auto *run = pages_.at<RunHeaderV1>(HeapPage{page});
      if (run->magic != kRunMagic + page || run->page_count == 0 ||
          run->page_count > kMediumPagesMax)
        return false;
      if (run->page_count > header_->top_page - page || !run_header(HeapPage{page}, *run))
        return false;
      *length = run->page_count;
    }
    found_.reserved_pages += *length;
    return map_.end_of_same(page, page + *length, PageState::kReserved) == page + *length;
  }

  bool run_header(HeapPage page, const RunHeaderV1 &run) noexcept {
    const bool no_list = run.previous_page == 0 && run.owner == 0;
    const bool no_slab = run.class_index == 0 && run.live_count == 0;
    const bool no_blocks = no_slab && all_zero(run.taken, sizeof run.taken);
    switch (run.kind) {
      case RunKind::kNone:
        return false;
      case RunKind::kSlab:
        return slab(page, run);
      case RunKind::kMedium:
        ++census_.medium_blocks;
        census_.medium_bytes += std::uint64_t{run.page_count} * kPageBytes;
        return no_list && no_slab && run.next_page == 0 && medium_sizes_agree(run);
      case RunKind::kCached:
        found_.cached_pages += run.page_count;
        return no_list && no_blocks && run.block_offset == 0;
      case RunKind::kRoots:
        ++found_.root_pages;
        return no_list && no_blocks && run.block_offset == 0 && run.page_count == 1;
    }
    return false;
  }

  static bool medium_sizes_agree(const RunHeaderV1 &run) noexcept {
    const std::uint64_t bytes = run.taken[0];
    return std::has_single_bit(run.block_offset) && run.block_offset >= kRunHeaderBytes &&
           run.block_offset <= kMediumAlignmentMax && bytes != 0 && bytes <= kMediumBytesMax &&
           (run.block_offset + bytes + kPageBytes - 1) / kPageBytes == run.page_count &&
           all_zero(run.taken + 1, sizeof run.taken - sizeof run.taken[0]);
  }

  bool slab(HeapPage page, const RunHeaderV1 &run) noexcept {
    if (run.class_index >= kClassCount || run.page_count != 1 || run.block_offset != 0)
      return false;
    const std::uint32_t block_count = class_block_count(run.class_index);
    std::uint32_t taken = 0;
    for (const auto word : run.taken) taken += static_cast<std::uint32_t>(std::popcount(word));
    for (std::uint32_t block = block_count; block < 256; ++block) {
      if (((run.taken[block / 64] >> (block % 64)) & 1) != 0) return false;
    }
    if (taken != run.live_count || (run.owner == 0) != (taken == block_count)) return false;
    ++census_.slabs;
    census_.small_blocks += taken;
    census_.small_bytes += std::uint64_t{taken} * kClassBytes[run.class_index];
    if (run.owner == 0) return run.next_page == 0 && run.previous_page == 0;
    ++found_.partial_slabs;
    if (run.owner > kArenaCount) return false;
    return arena(run.owner - 1)->partial_head[run.class_index] == raw(page) ||
           linked_from_previous(page, run);
  }

  bool linked_from_previous(HeapPage page, const RunHeaderV1 &run) const noexcept {
    const RunHeaderV1 *previous = pages_.run(HeapPage{run.previous_page}, RunKind::kSlab);
    return previous != nullptr && previous->next_page == raw(page) &&
           previous->owner == run.owner && previous->class_index == run.class_index;
  }

  // Along the links of every list; ends because each list may not hold more than there is in all.
  bool lists() const noexcept {
    std::uint64_t partial_slabs = 0;
    std::uint64_t cached_pages = 0;
    std::uint64_t chunk_pages = 0;
    for (std::uint32_t index = 0; index < kArenaCount; ++index) {
      const ArenaV1 *a = arena(index);
      chunk_pages += a->chunk_end - a->chunk_next;
      for (std::uint32_t c = 0; c < kClassCount; ++c) {
        for (std::uint32_t at = a->partial_head[c]; at != 0;) {
          const RunHeaderV1 *run = pages_.run(HeapPage{at}, RunKind::kSlab);
          if (run == nullptr || run->owner != index + 1 || run->class_index != c) return false;
          if (++partial_slabs > found_.partial_slabs) return false;
          at = run->next_page;
        }
      }
      std::uint64_t cached_here = 0;
      for (std::uint32_t length = 1; length <= kMediumPagesMax; ++length) {
        for (std::uint32_t at = a->cached_head[length]; at != 0;) {
          const RunHeaderV1 *run = pages_.run(HeapPage{at}, RunKind::kCached);
          if (run == nullptr || run->page_count != length) return false;
          cached_here += length;
          if (cached_here > found_.cached_pages) return false;
          at = run->next_page;
        }
      }
      if (cached_here != a->cached_pages) return false;
      cached_pages += cached_here;
    }
    return partial_slabs == found_.partial_slabs && cached_pages == found_.cached_pages &&
           chunk_pages == found_.chunk_pages;
  }

  bool roots() noexcept {
    std::uint64_t added_pages = 0;
    for (std::uint32_t chain = 0; chain < kRootChainCount; ++chain) {
      const auto *page = pages_.at<RootPageV1>(kFirstRootPage + chain);
      RunHeaderV1 head = page->header;
      head.next_page = 0;
      if (!all_zero(&head, sizeof head)) return false;
      for (;;) {
        const bool full = root_entries(*page, chain);
        if (!full && (!unused_after_last(*page) || page->header.next_page != 0)) return false;
        if (page->header.next_page == 0) break;
        if (pages_.run(HeapPage{page->header.next_page}, RunKind::kRoots) == nullptr) return false;
        if (++added_pages > found_.root_pages) return false;
        page = pages_.at<RootPageV1>(HeapPage{page->header.next_page});
      }
    }
    return added_pages == found_.root_pages;
  }

  // Counts the entries from the front that are right; true when that is all of the page.
  bool root_entries(const RootPageV1 &page, std::uint32_t chain) noexcept {
    used_roots_ = 0;
    for (const RootV1 &root : page.roots) {
      const auto *end = std::find(std::begin(root.name), std::end(root.name), '\0');
      if (end == root.name || end == std::end(root.name)) return false;
      const std::string_view name(root.name, static_cast<std::size_t>(end - root.name));
      if (root_chain_of(name) != chain ||
          !all_zero(end, static_cast<std::size_t>(std::end(root.name) - end)))
        return false;
      ++used_roots_;
      ++census_.roots;
    }
    return true;
  }
  bool unused_after_last(const RootPageV1 &page) const noexcept {
    return all_zero(page.roots + used_roots_, (kRootsPerPage - used_roots_) * sizeof(RootV1));
  }

  HeapPages pages_;
  PageMap map_;
  const MapHeaderV1 *header_;
  HeapCensus &census_;
  Found found_;
  std::uint32_t zone_count_ = 0;  // zones that have a leaf
  std::uint32_t cursor_zone_ = 0;
  bool cursor_past_directory_ = false;
  std::uint32_t used_roots_ = 0;
};

}  // namespace

Errc heap_check(const std::byte *base, std::uint64_t size_bytes, HeapCensus *census) noexcept {
  TMH_TRY(heap_verify(base, size_bytes));
  const HeapPages pages(const_cast<std::byte *>(base), size_bytes);
  const auto *map = pages.at<MapHeaderV1>(kMapPage);
  if (map->magic == kMapMagic && map->top_page > pages.page_count && map->top_page <= kHeapPagesMax)
    return Errc::kShortFile;
  HeapCensus counted;
  if (!Checker(base, size_bytes, &counted).run()) return Errc::kCorrupt;
  if (census != nullptr) *census = counted;
  return Errc::kOk;
}

}  // namespace tmh::storage
