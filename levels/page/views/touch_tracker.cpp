// levels/page/views/touch_tracker.cpp -- collecting and classifying first touches.
#include "levels/page/views/touch_tracker.h"

#include <algorithm>

#include "observe/probes.h"
#include "platform/assert.h"

namespace tmh::page {

using platform::PageKind;
using storage::Count;
using storage::page_id;
using storage::PageIndex;

void TouchTracker::list(PageId page, PageState state) noexcept {
  TMH_ASSERT(state != PageState::kAbsent && state != PageState::kGuarded);
  LocalPage &l = views_.local(page);
  if (l.state == PageState::kClean) l.unchanged_compares = 0;  // it is stored to
  kept_.note(page, &l, state);
  keeping_.first_touch();
  observe::probe::first_touch(static_cast<std::uint64_t>(page),
                              state == PageState::kPrivate ? 1 : 0);
  l.lists &= static_cast<std::uint8_t>(~kWrittenElsewhere);
}

void TouchTracker::collect_ring(platform::FaultRing &ring) noexcept {
  const bool is_gone = !ring.is_open();  // the thread ends, and its instance has been left to it
  std::uint64_t found = 0;
  const bool complete = !is_gone && ring.drain([&](std::uintptr_t address) {
    const View *view = views_.find(address);
    if (view == nullptr) return;
    const PageId page =
        page_id(view->segment,
                PageIndex{(address - reinterpret_cast<std::uintptr_t>(view->base)) / kPageBytes});
    LocalPage &l = views_.local(page);
    if ((l.lists & kInFresh) != 0 || l.state == PageState::kPrivate) return;
    ++found;
    if (l.state == PageState::kClean) {  // it was mapped, so this is a store
      list(page, PageState::kPrivate);
      return;
    }
    l.lists |= kInFresh;
    fresh_.push(page);
  });
  instance_.own.add(Count::kFaultsKernel, found);
  classify(fresh_);
  if (!complete) {
    // More faults than the ring holds, or no ring. The page tables know what was stored to, but
    // not what was read and reclaimed since.
    instance_.has_read_everything = true;
    scan_views();
  }
}

void TouchTracker::collect_blocks() noexcept {
  kept_.visit_blocks([&](PageId first, std::uint64_t listed) {
    const std::uint32_t segment = storage::segment_number(first);
    // with what the segment has grown by since
    const bool is_whole = listed * kPageBytes == views_.of(segment).bytes;
    const std::uint64_t count =
        is_whole ? memory_.segment_size(segment).load(std::memory_order_acquire) / kPageBytes
                 : listed;
    for (std::uint64_t j = 0; j < count; ++j) {
      const PageId page{static_cast<std::uint64_t>(first) + j};
      const PageState state = views_.local(page).state;
      if (state == PageState::kFile || (is_whole && state == PageState::kAbsent)) fresh_.push(page);
    }
  });
  // The blocks stay until the views are reset: later stores of this instance must be found
  // again
  classify(fresh_);
}

// Asks the page tables which of `list` (sorted here) are private copies by now.
void TouchTracker::classify(PageList &list) noexcept {
  if (list.size() > 1) std::sort(list.begin(), list.end());
  constexpr std::size_t kRunMax = 512;
  PageKind kinds[kRunMax];
  for (std::size_t i = 0; i < list.size();) {
    std::size_t run = 1;
    while (i + run < list.size() && run < kRunMax &&
           static_cast<std::uint64_t>(list[i + run]) == static_cast<std::uint64_t>(list[i]) + run)
      ++run;
    const bool readable = tracking_.page_map().read(
        reinterpret_cast<std::uintptr_t>(views_.address_of(list[i])), run, kinds);
    for (std::size_t j = 0; j < run; ++j) {
      TMH_ASSERT(views_.is_mapped(list[i + j]));
      views_.local(list[i + j]).lists &= static_cast<std::uint8_t>(~kInFresh);
      // private when in doubt: it is then compared
      note(list[i + j], readable ? kinds[j] : PageKind::kPrivate);
    }
    i += run;
  }
  list.clear();
}

// The ring overflowed (32,768 faults): the page tables know.
void TouchTracker::scan_views() noexcept {
  for (const std::uint32_t segment : views_.mapped()) {
    const View &view = views_.of(segment);
    struct Scan {
      TouchTracker &tracker;
      const View &view;
    } scan{*this, view};
    const auto visit = [](void *context, const platform::PageMap::Run &run) {
      auto &[tracker, scanned] = *static_cast<Scan *>(context);
      const std::uint64_t first =
          (run.begin - reinterpret_cast<std::uintptr_t>(scanned.base)) / kPageBytes;
      for (std::size_t i = 0; i < run.page_count; ++i)
        tracker.note(page_id(scanned.segment, PageIndex{first + i}), run.kind);
    };
    if (!tracking_.page_map().scan(reinterpret_cast<std::uintptr_t>(view.base), view.bytes, visit,
                                   &scan))
      instance_.fail(AbortCause::kNoSpace, Errc::kTrackingUnavailable);
  }
}

void TouchTracker::note(PageId page, PageKind kind) noexcept {
  LocalPage &l = views_.local(page);
  if (l.state == PageState::kPrivate || l.state == PageState::kGuarded) return;
  // Only of a scan: page tables do not say here whether it was stored to.
  if (l.state == PageState::kClean) kind = PageKind::kPrivate;
  if (views_.is_closed(l)) {
    // Its guard, which page tables tell as something swapped out; behind the end of the file there
    // are such pages, too.
    if (tracking_.is_silent() || kind == PageKind::kAbsent) return;
    // Where all of a view is open, and its segment has grown, it was not taken from the level below
    // first. The next attempt will.
    undone_.push(page);
    if (!instance_.is_query) instance_.fail(AbortCause::kValidation);
    return;
  }
  // kAbsent here: touched, and reclaimed since. It was read, so it belongs to the read set.
  if (kind == PageKind::kPrivate && keeps_copies()) copied_.push(page);
  list(page, kind == PageKind::kPrivate ? PageState::kPrivate : PageState::kFile);
}

// A guard stands where the page was dropped already.
void TouchTracker::drop_all_undone() noexcept {
  for (const PageId page : undone_)
    if (views_.local(page).state != PageState::kGuarded) views_.drop_page(page);
  undone_.clear();
}

void TouchTracker::forget_own() noexcept {
  (void)thread_ring().drain([](std::uintptr_t) {});
}

void TouchTracker::discard_outside() noexcept {
  const bool complete = thread_ring().drain([&](std::uintptr_t address) {
    const View *view = views_.find(address);
    if (view == nullptr) return;
    const PageId page =
        page_id(view->segment,
                PageIndex{(address - reinterpret_cast<std::uintptr_t>(view->base)) / kPageBytes});
    const PageState known = views_.local(page).state;
    if (known == PageState::kAbsent || known == PageState::kFile || known == PageState::kClean)
      views_.drop_page(page);
  });
  if (complete) return;
  scan_views();  // more faults than the ring holds, of which some may be ours
  views_.drop_all();
}

void TouchTracker::populate(PageId first, std::uint64_t page_count, bool is_write) noexcept {
  TMH_ASSERT(page_count > 0);
  // then the touches will fault
  if (!platform::populate(views_.address_of(first), page_count * kPageBytes, is_write)) return;
  for (std::uint64_t i = 0; i < page_count; ++i)
    list(PageId{static_cast<std::uint64_t>(first) + i},
         is_write ? PageState::kPrivate : PageState::kFile);
}

}  // namespace tmh::page
