// levels/page/views/open_blocks.cpp -- opening the blocks of views, and pages in them.
#include "levels/page/views/open_blocks.h"

#include <sys/mman.h>

#include <algorithm>

#include "platform/assert.h"
#include "platform/fault_handler.h"
#include "platform/page_tables.h"

namespace tmh::page {

using storage::page_index;

namespace {

// Accessible but for guards. False: closed, as it was.
bool open_guarded(std::byte *begin, std::uint64_t bytes) noexcept {
  if (mprotect(begin, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  if (platform::guard_install(begin, bytes)) return true;
  mprotect(begin, bytes, PROT_NONE);
  return false;
}

}  // namespace

// Does a guard take something there? What stands in for a page, of which a query's may be read
// alone; or the page, where its block is open page by page.
bool OpenBlocks::is_in_use(const View &view, std::uint64_t index) const noexcept {
  const LocalPage &l = view.pages[index];
  if ((l.lists & kStandsIn) != 0) return true;
  return view.open_blocks.base()[index / View::kBlockPages] == View::kPageByPage &&
         !views_.is_closed(l) && l.state != PageState::kGuarded;
}

// Behind the unused pages from `first` on; at most `end`.
std::uint64_t OpenBlocks::end_of_unused(const View &view, std::uint64_t first,
                                        std::uint64_t end) const noexcept {
  if (!views_.any_stands_in() && !views_.any_protected()) return end;
  while (first < end && !is_in_use(view, first)) ++first;
  return first;
}

// Accessible but for guards. False: as they were. REQUIRES: none of them is open, but for some page
// by page. What is in use stays as it is.
bool OpenBlocks::open(View &view, std::uint64_t first, std::uint64_t behind) noexcept {
  TMH_ASSERT(first < behind);
  TMH_ASSERT(first * View::kBlockPages < view.bytes / kPageBytes);
  const std::uint64_t begin = first * View::kBlockPages;
  const std::uint64_t end = std::min(behind * View::kBlockPages, view.bytes / kPageBytes);
  std::uint64_t at = begin;
  while (at < end) {
    const std::uint64_t unused_end = end_of_unused(view, at, end);
    if (unused_end != at &&
        !open_guarded(view.base + at * kPageBytes, (unused_end - at) * kPageBytes))
      break;
    at = unused_end + 1;
  }
  if (at < end) {
    for (std::uint64_t opened = begin; opened < at;) {
      const std::uint64_t unused_end = end_of_unused(view, opened, at);
      mprotect(view.base + opened * kPageBytes, (unused_end - opened) * kPageBytes, PROT_NONE);
      opened = unused_end + 1;
    }
    return false;
  }
  std::fill(view.open_blocks.base() + first, view.open_blocks.base() + behind, View::kAllOfIt);
  return true;
}

// With everything up to the next open block it becomes one area with that, where vm.max_map_count
// allows no area more (not so with one that is open page by page). Where none is open: with the
// view's beginning, which takes one area, or with all of it, which takes none. The guards of a
// block take a page of page table.
bool OpenBlocks::open_without_area(View &view, std::uint64_t block) noexcept {
  TMH_ASSERT(block * View::kBlockPages < view.bytes / kPageBytes);
  const std::byte *const is_open = view.open_blocks.base();
  const std::uint64_t count = (view.bytes / kPageBytes + View::kBlockPages - 1) / View::kBlockPages;
  for (std::uint64_t distance = 1; distance < count; ++distance) {
    if (block >= distance && is_open[block - distance] == View::kAllOfIt)
      return open(view, block - distance + 1, block + 1);
    if (block + distance < count && is_open[block + distance] == View::kAllOfIt)
      return open(view, block, block + distance);
  }
  return open(view, 0, block + 1) || open(view, 0, count);
}

// The page's block becomes accessible but for guards, the pages themselves altogether. Blocks,
// because the number of areas is limited.
void OpenBlocks::open_pages(View &view, PageId page, std::uint64_t page_count) noexcept {
  TMH_ASSERT(page_count > 0);
  TMH_ASSERT(page_count <= View::kBlockPages);
  TMH_ASSERT(static_cast<std::uint64_t>(page_index(page)) % View::kBlockPages + page_count <=
             View::kBlockPages);
  TMH_ASSERT(storage::segment_number(page) == view.segment);
  const std::uint64_t block = static_cast<std::uint64_t>(page_index(page)) / View::kBlockPages;
  std::byte &is_open = view.open_blocks.base()[block];
  if (is_open == std::byte{0} && !open(view, block, block + 1) && !open_without_area(view, block)) {
    is_open = View::kPageByPage;
    views_.note_protected();
  }
  const auto open_pages = [&] { return views_.unguard(page, page_count); };
  // Among open pages they take no area.
  const auto open_around = [&] {
    return open(view, block, block + 1) || open_without_area(view, block);
  };
  if (!open_pages() && !(is_open == View::kPageByPage && open_around() && open_pages()))
    platform::write_sentence("tmh: mprotect refused a page (vm.max_map_count) at",
                             reinterpret_cast<std::uintptr_t>(views_.address_of(page)));
}

// The pages behind the segment's end, when all of a view has been made accessible: those that it
// grows by belong to the level below, and change under a query, which cannot fail. Without that
// level what others commit there is not home before the snapshot may see it.
bool OpenBlocks::close_tail(const View &view, std::uint64_t usable) const noexcept {
  return views_.has_lower() &&
         memory_.segment(view.segment).home.close_tail(view.base, usable * kPageBytes);
}

}  // namespace tmh::page
