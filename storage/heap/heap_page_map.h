// storage/heap/heap_page_map.h -- which pages of a heap are free, in a large run, or reserved for
// it and its arenas.
// Shape:     2 bits per page in leaves, one summary per leaf (heap_layout.h). First fit by
//            summaries: a leaf is read only when the run is in it, or ends in it.
// Invariant: (1) free pages below top_page are coalesced by construction: a run is nothing but its
//            bits.
//            (2) the page below top_page is not free; pages from top_page on are free.
//            (3) directories and leaves lie in ascending order of the zones that they describe,
//                each below every page taken after it. heap_check() relies on it to tell them from
//                runs.
// Sharing, contexts, hostile bytes: as heap.h. An error leaves everything as it was, kCorrupt
// excepted.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/error.hpp>

#include "storage/heap/heap_layout.h"

namespace tmh::storage {

// The mapped bytes as pages. Indexes that come from these bytes pass has() before at().
struct HeapPages {
  std::byte *base;
  std::uint32_t page_count;

  HeapPages(std::byte *base_address, std::uint64_t size_bytes) noexcept
      : base(base_address),
        page_count(static_cast<std::uint32_t>(
            size_bytes / kPageBytes < kHeapPagesMax ? size_bytes / kPageBytes : kHeapPagesMax)) {}

  template <class T>
  [[nodiscard]] T *at(HeapPage page) const noexcept {
    return reinterpret_cast<T *>(base + std::uint64_t{raw(page)} * kPageBytes);
  }
  // True when [page, page + count) may hold runs.
  [[nodiscard]] bool has(HeapPage page, std::uint32_t count = 1) const noexcept {
    return raw(page) >= raw(kFirstRunPage) && raw(page) <= page_count &&
           count <= page_count - raw(page);
  }
  // The header of the run that begins at `page`; null when there is none of this kind.
  [[nodiscard]] RunHeaderV1 *run(HeapPage page, RunKind kind) const noexcept {
    if (!has(page)) return nullptr;
    auto *header = at<RunHeaderV1>(page);
    return header->magic == kRunMagic + raw(page) && header->kind == kind ? header : nullptr;
  }
};

enum class RunUse : std::uint8_t { kLarge = 1, kReserved = 2 };

class PageMap {
 public:
  explicit PageMap(const HeapPages &pages) noexcept
      : pages_(pages), map_(pages.at<MapHeaderV1>(kMapPage)) {}

  // First fit below top_page. Errors: kSegmentFull, kCorrupt.
  [[nodiscard]] Errc take(std::uint32_t page_count, RunUse use, HeapPage *first) noexcept;
  // From top_page on, with the tables that the new zones need. kSegmentFull sets *pages_needed: the
  // size at which it would have worked.
  [[nodiscard]] Errc extend(std::uint32_t page_count, RunUse use, HeapPage *first,
                            std::uint64_t *pages_needed) noexcept;
  // Gives back a part of what was taken for arenas, or a whole large run. Needs no memory. Errors:
  // kCorrupt.
  [[nodiscard]] Errc release(HeapPage first, std::uint32_t page_count, RunUse use) noexcept;
  // Length of the large run that begins at `first`. Errors: kBadFree when none does, kCorrupt.
  [[nodiscard]] Errc large_run_pages(HeapPage first, std::uint32_t *page_count) const noexcept;

  // For heap_check() and this class. kCorrupt unless top_page lies in the segment.
  [[nodiscard]] Errc check_top() const noexcept;
  [[nodiscard]] const ZoneV1 *zone(std::uint32_t zone_index) const noexcept;  // null: no directory
  // Null: none, or outside the segment.
  [[nodiscard]] const LeafV1 *leaf(std::uint32_t zone_index) const noexcept;
  // The summary that the leaf's bits and top_page demand.
  [[nodiscard]] ZoneV1 summarize(std::uint32_t zone_index) const noexcept;
  // First page in [first, limit) that is not in state `same`; where a leaf is missing, the zone's
  // first page.
  [[nodiscard]] std::uint32_t end_of_same(std::uint32_t first, std::uint32_t limit,
                                          PageState same) const noexcept;
  [[nodiscard]] static PageState state(const LeafV1 &leaf, std::uint32_t index) noexcept;

 private:
  [[nodiscard]] std::uint32_t zone_limit(std::uint32_t zone_index) const noexcept;
  [[nodiscard]] Errc find_fit(std::uint32_t page_count, std::uint32_t *first) const noexcept;
  [[nodiscard]] Errc check_range(std::uint32_t first, std::uint32_t page_count,
                                 PageState expected) const noexcept;
  [[nodiscard]] std::uint32_t missing_tables(std::uint32_t first_zone,
                                             std::uint32_t last_zone) const noexcept;
  void add_tables(std::uint32_t first_zone, std::uint32_t last_zone,
                  std::uint32_t first_page) noexcept;
  void mark(std::uint32_t first, std::uint32_t page_count, PageState state) noexcept;
  void mark_used(std::uint32_t first, std::uint32_t page_count, RunUse use) noexcept;
  void refresh(std::uint32_t first_page, std::uint32_t end_page) noexcept;
  void trim() noexcept;

  HeapPages pages_;
  MapHeaderV1 *map_;
};

}  // namespace tmh::storage
