// levels/page/views/segment_views.cpp -- mapping views; guarding, opening and dropping their pages.
#include "levels/page/views/segment_views.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"

namespace tmh::page {

using storage::page_id;
using storage::page_index;
using storage::PageIndex;

Views::Views(SharedState &memory, TrackingChoice &tracking, KeptPages &kept,
             ResidentPages &residents, Twins &twins)
    : memory_(memory),
      tracking_(tracking),
      kept_(kept),
      residents_(residents),
      twins_(twins),
      key_(memory.view_key()),
      views_(std::make_unique<View[]>(storage::kSegmentsMax)) {
  mapped_.reserve(storage::kSegmentsMax);  // add() has nowhere to throw to
}

Views::~Views() {
  while (!mapped_.empty()) remove(mapped_.back());
}

Errc Views::add(std::uint32_t segment, Placement placement, const Faults &faults,
                std::byte **out) noexcept {
  TMH_ASSERT(segment < storage::kSegmentsMax);
  TMH_ASSERT(views_[segment].base == nullptr);
  TMH_ASSERT(faults.context != nullptr && faults.function != nullptr);
  const storage::SegmentRecordV1 &record = memory_.control().segments[segment];
  View &view = views_[segment];
  view.touches = faults.context;
  view.segment = segment;
  try {
    view.name = record.name;
  } catch (const std::bad_alloc &) {
    return platform::fail_for_memory("the name of a view");
  }
  view.bytes = record.max_bytes;
  if (const Errc error =
          view.pages_memory.reserve(record.max_bytes / kPageBytes * sizeof(LocalPage));
      error != Errc::kOk)
    return error;
  view.pages = reinterpret_cast<LocalPage *>(view.pages_memory.base());
  if (has_lower_)
    if (const Errc error =
            view.open_blocks.reserve(record.max_bytes / kPageBytes / View::kBlockPages + 1);
        error != Errc::kOk)
      return error;
  std::byte *base = nullptr;
  const std::uintptr_t address = placement == Placement::kCommon ? record.address : 0;
  // For open_block(), that it may open all but what others will make of the view.
  const std::uint64_t tail_at = !tracking_.is_silent() && has_lower_
                                    ? memory_.segment_size(segment).load(std::memory_order_acquire)
                                    : record.max_bytes;
  if (const Errc error = memory_.segment(segment).home.map_view(
          address, tracking_.is_silent() && !has_lower_, &base, tail_at);
      error != Errc::kOk)
    return error;
  Errc error = tracking_.is_silent() ? tracking_.store_faults().add(base, view.bytes) : Errc::kOk;
  if (error == Errc::kOk)
    error = platform::publish_fault_range(reinterpret_cast<std::uintptr_t>(base), view.bytes,
                                          faults.function, &view, view.name.c_str());
  if (error != Errc::kOk) {
    memory_.segment(segment).home.unmap_view(base);
    view.pages_memory.release();
    return error;
  }
  view.base = base;
  mapped_.push_back(segment);
  TMH_ASSERT(mapped_.size() <= storage::kSegmentsMax);
  index_.add(view);
  *out = base;
  return Errc::kOk;
}

void Views::remove(std::uint32_t segment) noexcept {
  TMH_ASSERT(segment < storage::kSegmentsMax);
  TMH_ASSERT(views_[segment].base != nullptr);
  View &view = views_[segment];
  drop_all();
  lose_all(segment);
  index_.remove(view);
  platform::withdraw_fault_range(reinterpret_cast<std::uintptr_t>(view.base));
  memory_.segment(segment).home.unmap_view(view.base);
  view.base = nullptr;
  view.pages = nullptr;
  view.pages_memory.release();
  view.open_blocks.release();
  std::erase(mapped_, segment);
}

Errc Views::remap() noexcept {
  for (const std::uint32_t segment : mapped_) {
    const View &view = views_[segment];
    if (const Errc error = memory_.segment(segment).home.map_view_again(view.base);
        error != Errc::kOk)
      return error;
    if (!tracking_.is_silent()) continue;
    if (const Errc error = tracking_.store_faults().add(view.base, view.bytes); error != Errc::kOk)
      return error;
  }
  return Errc::kOk;
}

void Views::vacate() noexcept {
  for (const PageList *list : {&kept_.pages(), &residents_.pages()}) {
    for (const PageId page : *list) {
      LocalPage &l = local(page);
      twins_.give_back(l.twin);
      l = LocalPage{PageState::kAbsent, 0, static_cast<std::uint8_t>(l.lists & kHasBlocks), 0, 0};
    }
  }
  kept_.clear();
  residents_.clear();
  twins_.forget();
  areas_.reset();
  any_protected_ = any_armed_ = false;
  for (const std::uint32_t segment : mapped_) views_[segment].open_blocks.forget_from(0);
}

// The next touch must come to us. Where the kernel refuses a guard (no memory for page tables),
// protection does it.
void Views::guard(PageId page) noexcept {
  std::byte *at = address_of(page);
  if (!platform::guard_install(at, kPageBytes)) {
    discard(page, 1);
    mprotect(at, kPageBytes, PROT_NONE);
    any_protected_ = true;
  }
  local(page).state = PageState::kGuarded;
}

// Pages whose newest content is not home yet must not be mapped silently.
void Views::guard_pending(const DomainLock::Held &held, std::uint32_t segment) noexcept {
  TMH_ASSERT(held.is_valid());
  const std::uint32_t owners = memory_.participants_high();
  for (std::uint32_t owner = 0; owner < owners; ++owner) {
    for (Slot slot = memory_.participant(owner).versions.oldest; slot != 0;
         slot = memory_.version(slot).list_newer) {
      const PageId page{memory_.version(slot).page};
      if (!is_mapped(page) || (segment != kAllSegments && storage::segment_number(page) != segment))
        continue;
      if (local(page).state == PageState::kAbsent) guard(page);
    }
  }
}

// The level below has the page, or may have it: the next touch must ask.
void Views::lose(PageId page) noexcept {
  LocalPage &l = local(page);
  if ((l.lists & kResident) == 0) return;
  l.lists &= static_cast<std::uint8_t>(~kResident);
  if (l.state == PageState::kGuarded) return;
  drop_page(page);
  if (tracking_.is_silent() && l.state == PageState::kAbsent) guard(page);
}

void Views::lose_all(std::uint32_t segment) noexcept {
  residents_.retain([&](PageId page) {
    if (segment != kAllSegments && storage::segment_number(page) != segment) return true;
    lose(page);
    local(page).lists &= static_cast<std::uint8_t>(~kInResident);
    return false;
  });
}

// What neighbouring pages hold goes; all else about them stays.
void Views::discard(PageId first, std::uint64_t page_count) noexcept {
  TMH_ASSERT(page_count > 0);
  if (platform::drop(address_of(first), page_count * kPageBytes)) return;
  for (std::uint64_t i = 0; i < page_count; ++i)
    map_anew(PageId{static_cast<std::uint64_t>(first) + i});
}

// May a touch of the page, when it is absent and not guarded, go unnoticed until the instance ends?
bool Views::opens_silently(PageId page) const noexcept {
  const View &view = views_[storage::segment_number(page)];
  const std::uint64_t block =
      static_cast<std::uint64_t>(storage::page_index(page)) / View::kBlockPages;
  return tracking_.is_silent() && (!has_lower_ || view.open_blocks.base()[block] != std::byte{0});
}

// What cannot be watched goes.
void Views::arm(PageId first, std::uint64_t page_count) noexcept {
  TMH_ASSERT(tracking_.is_silent());
  any_armed_ = true;
  if (!tracking_.store_faults().arm(address_of(first), page_count * kPageBytes))
    drop_run(first, page_count);
}

// Absent pages become kClean; home's, too, are mapped for stores. Where that fails they are absent.
void Views::copy_clean(PageId first, std::uint64_t page_count) noexcept {
  if (!platform::populate(address_of(first), page_count * kPageBytes, true)) {
    drop_run(first, page_count);
    return;
  }
  (void)platform::populate(memory_.home(first), page_count * kPageBytes, true);
  for (std::uint64_t i = 0; i < page_count; ++i) {
    const PageId page{static_cast<std::uint64_t>(first) + i};
    kept_.note(page, &local(page), PageState::kClean);
  }
  arm(first, page_count);
}

// REQUIRES: they are about to be dropped.
void Views::disarm(PageId first, std::uint64_t page_count) noexcept {
  if (tracking_.store_faults().disarm(address_of(first), page_count * kPageBytes)) return;
  for (std::uint64_t i = 0; i < page_count; ++i)
    map_anew(PageId{static_cast<std::uint64_t>(first) + i});
}

// Whatever is there goes, guards too; the next touch maps home's page, or comes to us.
void Views::map_anew(PageId page) noexcept {
  const storage::Home &home = memory_.segment(storage::segment_number(page)).home;
  std::byte *const at = address_of(page);
  if (home.map_pages_again(at, storage::page_offset(page), kPageBytes, opens_silently(page)) &&
      (!tracking_.is_silent() || tracking_.store_faults().add(at, kPageBytes) == Errc::kOk))
    return;
  platform::write_sentence("tmh: a page cannot be mapped again at",
                           reinterpret_cast<std::uintptr_t>(at));
  std::abort();
}

void Views::remove_guards(PageId first, std::uint64_t page_count) noexcept {
  TMH_ASSERT(page_count > 0);
  if (platform::guard_remove(address_of(first), page_count * kPageBytes)) return;
  for (std::uint64_t i = 0; i < page_count; ++i)
    map_anew(PageId{static_cast<std::uint64_t>(first) + i});
}

// Neighbouring pages are as if never touched. Needs no lock: versions it does not see here are
// stamped later than the next pull's start.
void Views::drop_run(PageId first, std::uint64_t page_count) noexcept {
  TMH_ASSERT(page_count > 0);
  std::byte *at = address_of(first);
  const auto versioned = [&](PageId page) {
    return memory_.meta_to_read(page).newest.load(std::memory_order_acquire) != 0;
  };
  for (std::uint64_t i = 0; any_armed_ && i < page_count; ++i) {
    if (local(PageId{static_cast<std::uint64_t>(first) + i}).state != PageState::kClean) continue;
    disarm(first, page_count);
    break;
  }
  const bool guard_drops = tracking_.is_silent() && page_count == 1 && versioned(first);
  if (!guard_drops) discard(first, page_count);
  if (!tracking_.is_silent()) {
    // Closing pages among open ones makes areas, of which there may be no more (vm.max_map_count):
    // then all of the view is closed before anybody touches it again, or the touch, and what is
    // stored, would go unnoticed.
    if (mprotect(at, page_count * kPageBytes, PROT_NONE) != 0) is_left_open_ = true;
    areas_.note_protection();
  }
  for (std::uint64_t i = 0; i < page_count; ++i) {
    const PageId page{static_cast<std::uint64_t>(first) + i};
    LocalPage &l = local(page);
    twins_.give_back(l.twin);
    l.twin = 0;
    l.unchanged_compares = 0;
    if (is_own_copy(l.state) && (l.lists & kStandsIn) == 0) kept_.note_dropped_copy();
    l.state = PageState::kAbsent;
    if (guard_drops || (tracking_.is_silent() && versioned(page))) guard(page);
  }
}

// All kept pages of all views. Two system calls per view however many pages: everything else in a
// view is absent or guarded, and guards survive MADV_DONTNEED.
void Views::drop_all() noexcept {
  constexpr std::size_t kOneByOne = 4;
  if (kept_.pages().size() <= kOneByOne && !kept_.has_blocks() && tracking_.is_silent()) {
    for (const PageId page : kept_.pages()) {
      if (local(page).state != PageState::kAbsent && local(page).state != PageState::kGuarded)
        drop_page(page);
      local(page).lists &= kLasting;
    }
  } else if (!kept_.pages().empty()) {
    drop_spans();
  }
  kept_.clear();
  twins_.forget();
  areas_.reset();
  any_armed_ = false;
}

// The same, and nothing of a view stays accessible. Whole views: that makes areas fewer, never
// more.
void Views::close_all() noexcept {
  drop_all();
  for (const std::uint32_t segment : mapped_) {
    View &view = views_[segment];
    if (mprotect(view.base, view.bytes, PROT_NONE) != 0)
      (void)memory_.segment(segment).home.map_view_again(view.base);
  }
  is_left_open_ = false;
}

void Views::drop_spans() noexcept {
  for (const std::uint32_t segment : mapped_) {
    std::uint64_t low = ~0ull, high = 0;
    for (const PageId page : kept_.pages()) {
      if (storage::segment_number(page) != segment) continue;
      low = std::min(low, static_cast<std::uint64_t>(page_index(page)));
      high = std::max(high, static_cast<std::uint64_t>(page_index(page)));
    }
    if (low > high) continue;
    std::byte *at = views_[segment].base + low * kPageBytes;
    if (any_armed_) disarm(page_id(segment, PageIndex{low}), high - low + 1);
    if (!platform::drop(at, (high - low + 1) * kPageBytes)) {
      for (const PageId page : kept_.pages()) {
        const PageState state = local(page).state;
        if (storage::segment_number(page) == segment && state != PageState::kAbsent &&
            state != PageState::kGuarded)
          map_anew(page);
      }
    }
    if (!tracking_.is_silent())
      // whole: the pieces become one area again
      mprotect(views_[segment].base, views_[segment].bytes, PROT_NONE);
  }
  for (const PageId page : kept_.pages()) {
    LocalPage &l = local(page);
    twins_.give_back(l.twin);
    const bool was_guarded = l.state == PageState::kGuarded;
    l = LocalPage{PageState::kAbsent, 0, static_cast<std::uint8_t>(l.lists & kLasting),
                  l.written_epoch, 0};
    if (was_guarded)
      l.state = PageState::kGuarded;
    else if (tracking_.is_silent() &&
             memory_.meta_to_read(page).newest.load(std::memory_order_acquire) != 0)
      guard(page);
  }
}

bool Views::protect(std::byte *begin, std::uint64_t bytes, int protection) noexcept {
  TMH_ASSERT(bytes > 0 && bytes % kPageBytes == 0);
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(begin) % kPageBytes == 0);
  areas_.note_protection();
  return mprotect(begin, bytes, protection) == 0;
}

bool Views::unguard(PageId first, std::uint64_t page_count) noexcept {
  remove_guards(first, page_count);
  return !any_protected_ ||
         mprotect(address_of(first), page_count * kPageBytes, PROT_READ | PROT_WRITE) == 0;
}

}  // namespace tmh::page
