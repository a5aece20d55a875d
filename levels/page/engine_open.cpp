// levels/page/engine_open.cpp -- making pages of a view accessible: one by one, in blocks that
// follow the kernel's limit of areas, ahead of their touch.
// Contexts:  the handler, as engine_touch.cpp's head says.
// Source:    thesis, appendix A.1 item 4 (escalation to larger ranges).
#include <sys/mman.h>

#include <algorithm>

#include "levels/page/engine.h"

namespace tmh::page {

using storage::page_id;
using storage::page_index;
using storage::PageIndex;

namespace {

void protect(std::byte *begin, std::uint64_t bytes, int protection, std::uint64_t *calls,
             bool *refused) noexcept {
  ++*calls;
  if (mprotect(begin, bytes, protection) != 0) *refused = true;
}

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
bool Engine::is_in_use(const View &view, std::uint64_t index) const noexcept {
  const LocalPage &l = view.pages[index];
  if ((l.lists & kStandsIn) != 0) return true;
  return view.open_blocks.base()[index / kBlockPages] == kPageByPage && !is_closed(l) &&
         l.state != PageState::kGuarded;
}

// Behind the pages from `first` on that nobody uses; at most `end`.
std::uint64_t Engine::end_of_unused(const View &view, std::uint64_t first,
                                    std::uint64_t end) const noexcept {
  if (standing_in_.empty() && !any_protected_) return end;
  while (first < end && !is_in_use(view, first)) ++first;
  return first;
}

// Accessible but for guards. False: as they were. REQUIRES: none of them is open, but for some page
// by page. What is in use stays as it is.
bool Engine::open_blocks(View &view, std::uint64_t first, std::uint64_t behind) noexcept {
  const std::uint64_t begin = first * kBlockPages;
  const std::uint64_t end = std::min(behind * kBlockPages, view.bytes / kPageBytes);
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
  std::fill(view.open_blocks.base() + first, view.open_blocks.base() + behind, kAllOfIt);
  return true;
}

// With everything up to the next open block it becomes one area with that, where vm.max_map_count
// allows no area more (not so with one that is open page by page). Where none is open: with the
// view's beginning, which takes one area, or with all of it, which takes none. The guards of a
// block take a page of page table.
bool Engine::open_block_without_area(View &view, std::uint64_t block) noexcept {
  const std::byte *const is_open = view.open_blocks.base();
  const std::uint64_t count = (view.bytes / kPageBytes + kBlockPages - 1) / kBlockPages;
  for (std::uint64_t distance = 1; distance < count; ++distance) {
    if (block >= distance && is_open[block - distance] == kAllOfIt)
      return open_blocks(view, block - distance + 1, block + 1);
    if (block + distance < count && is_open[block + distance] == kAllOfIt)
      return open_blocks(view, block, block + distance);
  }
  return open_blocks(view, 0, block + 1) || open_blocks(view, 0, count);
}

void Engine::remove_guards(PageId first, std::uint64_t page_count) noexcept {
  if (platform::guard_remove(address_of(first), page_count * kPageBytes)) return;
  for (std::uint64_t i = 0; i < page_count; ++i)
    map_anew(PageId{static_cast<std::uint64_t>(first) + i});
}

// The page's block becomes accessible but for guards, the pages themselves altogether. Blocks,
// because the number of areas is limited. REQUIRES: the pages lie in one block.
void Engine::open_closed(View &view, PageId page, std::uint64_t page_count) noexcept {
  const std::uint64_t block = static_cast<std::uint64_t>(page_index(page)) / kBlockPages;
  std::byte &is_open = view.open_blocks.base()[block];
  if (is_open == std::byte{0} && !open_blocks(view, block, block + 1) &&
      !open_block_without_area(view, block)) {
    is_open = kPageByPage;
    any_protected_ = true;
  }
  const auto open_pages = [&] {
    remove_guards(page, page_count);
    return !any_protected_ ||
           mprotect(address_of(page), page_count * kPageBytes, PROT_READ | PROT_WRITE) == 0;
  };
  // Among open pages they take no area.
  const auto open_around = [&] {
    return open_blocks(view, block, block + 1) || open_block_without_area(view, block);
  };
  if (!open_pages() && !(is_open == kPageByPage && open_around() && open_pages()))
    platform::write_sentence("tmh: mprotect refused a page (vm.max_map_count) at",
                             reinterpret_cast<std::uintptr_t>(address_of(page)));
}

// The last page that take_ahead() will look at: blocks come in larger pieces than it takes pages.
// Where there is no room it takes fewer.
void Engine::prepare_ahead(const View &view, PageId page) noexcept {
  const std::uint64_t usable =
      memory_.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  const std::uint64_t last = static_cast<std::uint64_t>(page_index(page)) + 2 * ahead_;
  if (ahead_ != 0 && last < usable) (void)lower_->prepare(page_id(view.segment, PageIndex{last}));
}

// An instance that touches one closed page after another pays a signal for each.
// When they follow each other in memory it takes a run of pages at once, which doubles as long as
// they do; only such as the snapshot reads in home. They are not in the read set before they are
// touched: the kernel lists that.
void Engine::take_ahead(const DomainLock::Held &held, View &view, PageId page) noexcept {
  const auto number = [](PageId of) { return static_cast<std::uint64_t>(of); };
  const bool follows = page > ahead_last_ && number(page) <= number(ahead_end_) + kAheadGap;
  ahead_ = follows && !gives_way_ ? std::clamp(2 * ahead_, kAheadMin, kAheadMax) : 0;
  const auto index = static_cast<std::uint64_t>(page_index(page));
  const std::uint64_t usable =
      memory_.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  const std::uint64_t end =
      std::min({index + 1 + ahead_, usable, (index / kBlockPages + 1) * kBlockPages});
  ahead_last_ = page;
  ahead_end_ = PageId{number(page) + std::max(end, index + 1) - index};
  std::uint64_t run = 0;  // pages in front of `each` that are taken and not open yet
  const auto open_run = [&](std::uint64_t each) {
    if (run != 0) open_closed(view, page_id(view.segment, PageIndex{each - run}), run);
    run = 0;
  };
  for (std::uint64_t i = index + 1; i < end && !failed_; ++i) {
    const PageId each = page_id(view.segment, PageIndex{i});
    LocalPage &l = local(each);
    const bool is_free =
        is_closed(l) && (l.state == PageState::kAbsent || l.state == PageState::kGuarded) &&
        !tree_.has_version(held, each, snapshot_) && lower_->take_ahead(held, each, line_snapshot_);
    if (!is_free) {
      open_run(i);
      continue;
    }
    if ((l.lists & kInResident) == 0) resident_.push(each);
    l.lists |= kResident | kInResident;
    l.state = PageState::kAbsent;
    // As in read_versions(): its newer versions need not be the first ones that it has had since
    // the snapshot.
    if (memory_.meta_to_read(each).newest.load(std::memory_order_relaxed) != 0)
      follow_needed_ = true;
    ++run;
  }
  open_run(end);
}

void Engine::touch_guarded(View &view, PageId page) noexcept {
  if (stands_in_for_closed(page)) return;
  std::uint32_t twin = 0;
  const bool was_closed = is_closed(local(page));
  const bool versioned = read_versions(page, &twin);
  if (has_lower_) {
    open_closed(view, page, 1);
    if (was_closed && !versioned) {
      prepare_ahead(view, page);
      const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
      take_ahead(held, view, page);
    }
  } else {
    remove_guards(page, 1);
    if (any_protected_) mprotect(address_of(page), kPageBytes, PROT_READ | PROT_WRITE);
  }
  if (versioned)
    make_private(page, twin);
  else
    // home is right: the kernel maps it and lists the fault
    local(page).state = PageState::kAbsent;
}

bool Engine::open_page(View &view, PageId page, bool is_write) noexcept {
  if (stands_in_for_closed(page)) return true;
  LocalPage &l = local(page);
  std::byte *at = address_of(page);
  bool refused = false;
  std::uint32_t twin = 0;
  if (l.state == PageState::kAbsent && (is_closed(l) || needs_versions(page)) &&
      read_versions(page, &twin)) {
    protect(at, kPageBytes, PROT_READ | PROT_WRITE, &protections_, &refused);
    if (!refused) {
      make_private(page, twin);
      if (eager() && !is_write) {  // the first store must still be seen
        protect(at, kPageBytes, PROT_READ, &protections_, &refused);
        l.state = PageState::kReadOnly;
      }
    } else {
      twins_.give_back(twin);
    }
  }
  if (l.state == PageState::kAbsent || (is_write && l.state != PageState::kPrivate)) {
    protect(at, kPageBytes, is_write ? PROT_READ | PROT_WRITE : PROT_READ, &protections_, &refused);
    if (!refused) list_as(page, is_write ? PageState::kPrivate : PageState::kFile);
  }
  if (!refused) return true;
  // vm.max_map_count is nearer than we thought: larger blocks from here on
  protections_ = std::max(protections_, kLargeBlocksAfter);
  return open_block(view, page);
}

// Thesis, appendix A.1 item 4: under vm.max_map_count an instance that scatters over many pages
// goes on in larger ranges. The limit is 65,530 areas; an isolated page costs two. 12,288 single
// pages and 2 x 6,144 blocks use 49,152 of them; blocks of 16 MiB then merge. Engines of other
// threads have their share of the areas.
std::uint64_t Engine::block_pages() const noexcept {
  const std::uint64_t protections = protections_ * engines_here_.load(std::memory_order_relaxed);
  if (protections < kBlocksAfter) return 1;
  if (protections < kMediumBlocksAfter) return 16;
  if (protections < kLargeBlocksAfter) return 256;
  return 4096;
}

// A query's stores to what stands in for a page must be seen: nobody compares that at the end.
void Engine::protect_stand_ins() noexcept {
  for (const PageId page : standing_in_) mprotect(address_of(page), kPageBytes, PROT_READ);
}

// The pages behind the segment's end, when all of a view has been made accessible: those that it
// grows by belong to the level below, and change under a query, which cannot fail. Without that
// level what others commit there is not home before the snapshot may see it.
bool Engine::close_tail(const View &view, std::uint64_t usable) const noexcept {
  return has_lower_ &&
         memory_.segment(view.segment).home.close_tail(view.base, usable * kPageBytes);
}

// False: not even the whole view can be opened.
bool Engine::open_block(View &view, PageId page) noexcept {
  const std::uint64_t usable =
      memory_.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  std::uint64_t count_max = block_pages(), first = 0, count = 0;
  bool is_whole = false, is_tail_open = false;
  for (;; count_max *= 16) {
    is_whole = count_max * kPageBytes >= view.bytes;
    first = is_whole ? 0 : static_cast<std::uint64_t>(page_index(page)) & ~(count_max - 1);
    count = std::max<std::uint64_t>(1, std::min(count_max, usable > first ? usable - first : 1));
    bool refused = false;
    // Whole views have no borders inside an area, so that nobody can run out of areas.
    protect(view.base + first * kPageBytes, is_whole ? view.bytes : count * kPageBytes,
            PROT_READ | PROT_WRITE, &protections_, &refused);
    is_tail_open =
        !refused && is_whole && usable * kPageBytes < view.bytes && !close_tail(view, usable);
    if (!refused) break;
    if (!is_whole) continue;
    platform::write_sentence(
        "tmh: the kernel lets no page be opened, for want of areas (vm.max_map_count) or memory "
        "(vm.overcommit_memory) "
        "at",
        reinterpret_cast<std::uintptr_t>(address_of(page)));
    return false;
  }
  if (is_tail_open) read_everything_ = true;  // what the segment grows by is seen by nobody then
  if (query_) protect_stand_ins();
  const PageId first_page = page_id(view.segment, PageIndex{first});
  register_access(first_page, count, true);  // stores inside the block will not be seen one by one
  for (std::uint64_t i = 0; i < count; ++i) {
    const PageId each = page_id(view.segment, PageIndex{first + i});
    LocalPage &l = local(each);
    std::uint32_t twin = 0;
    if (stands_in_for_closed(each)) continue;
    if (l.state == PageState::kAbsent && (is_closed(l) || needs_versions(each)) &&
        read_versions(each, &twin))
      make_private(each, twin);
    if (l.state == PageState::kReadOnly) list_as(each, PageState::kPrivate);
    if (l.state == PageState::kAbsent) list_as(each, PageState::kFile);
  }
  blocks_.push(first_page);
  blocks_.push(PageId{is_tail_open ? view.bytes / kPageBytes : count});
  return true;
}

}  // namespace tmh::page
