// levels/page/touch/stand_ins.cpp -- memory in the place of pages that the instance cannot, or will
// not, use.
#include "levels/page/touch/stand_ins.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "platform/assert.h"
#include "platform/fault_handler.h"

namespace tmh::page {

// The file has a hole there, and loads take blocks (tmpfs): the disk is full. False: beyond the
// segment, or the file has been cut, or the disk is broken.
bool StandIns::touch_hole(const View &view, PageId page) noexcept {
  storage::Home &home = ours_.memory.segment(view.segment).home;
  const std::uint64_t offset = storage::page_offset(page);
  if (offset >= ours_.memory.segment_size(view.segment).load(std::memory_order_acquire))
    return false;
  if (home.is_cut(offset)) return false;
  if (!home.is_loadable(offset)) {
    const Errc why = home.allocate_blocks(offset, kPageBytes);
    if (why != Errc::kOk) {
      put_around(page, nullptr, why);
      return true;
    }
  }
  // There is room again, or others had it before: once more, but not for ever.
  return std::exchange(hole_, page) != page;
}

bool StandIns::put_for_closed(PageId page) noexcept {
  if (!mine_.views.is_closed(mine_.views.local(page)) ||
      (mine_.views.local(page).lists & kStandsIn) != 0)
    return false;
  for (;;) {
    const Errc why = ours_.recaller->prepare(page);
    if (why == Errc::kOk) return stands_aside(page);
    if (!ours_.recaller->read_unchanged(page, unchanged_) && why == Errc::kDiskFull) continue;
    put_around(page, unchanged_, why);
    return true;
  }
}

// An isolated page costs two areas of the address space. A process has 65,530, and tracking by
// signals takes up to 49,152. So an instance that has scattered over many pages gets larger ranges.
std::uint64_t StandIns::range_pages() const noexcept {
  constexpr std::uint32_t kRangesOfASize = 2048;
  constexpr std::uint32_t kSizes = 4;
  return 1ull << (4 * std::min(ranges_ / kRangesOfASize, kSizes - 1));
}

// Of an absent page that is not closed: has the instance been there, unnoticed so far? In doubt it
// has.
bool StandIns::may_be_touched(PageId page) const noexcept {
  if (!mine_.tracking.is_silent()) return false;
  const auto at = reinterpret_cast<std::uintptr_t>(mine_.views.address_of(page));
  platform::PageKind kind{};
  return !mine_.tracking.page_map().read(at, 1, &kind) || kind != platform::PageKind::kAbsent;
}

// No process has stored there as far as the snapshot reads, and the instance has not been there.
bool StandIns::is_untouched_hole(PageId page) noexcept {
  const LocalPage &l = mine_.views.local(page);
  return l.state == PageState::kAbsent && (l.lists & kStandsIn) == 0 &&
         !ours_.tree.may_have_version(page) &&
         (mine_.views.is_closed(l) ? ours_.recaller->read_unchanged(page, beside_)
                                   : !may_be_touched(page));
}

// With its neighbours, where all of them are holes.
void StandIns::put_around(PageId page, const std::byte *content, Errc why) noexcept {
  const std::uint32_t segment = storage::segment_number(page);
  const auto index = static_cast<std::uint64_t>(storage::page_index(page));
  const std::uint64_t usable =
      ours_.memory.segment_size(segment).load(std::memory_order_acquire) / kPageBytes;
  const auto at = [segment](std::uint64_t i) {
    return storage::page_id(segment, storage::PageIndex{i});
  };
  for (std::uint64_t count = range_pages(); count > 1; count /= 16) {
    const std::uint64_t first = index / count * count;
    const std::uint64_t behind = std::min(first + count, usable);
    if (index >= behind || ours_.memory.segment(segment).home.has_data(
                               first * kPageBytes, (behind - first) * kPageBytes))
      continue;
    std::uint64_t i = first;
    while (i < behind && (i == index || is_untouched_hole(at(i)))) ++i;
    if (i == behind) return put_range(at(first), behind - first, nullptr, why);
  }
  put(page, content, why);
}

// Instance::gives_way: the level below uses the page. The instance reads it as of its snapshot,
// takes nothing, and FAILs.
bool StandIns::stands_aside(PageId page) noexcept {
  if (!mine_.instance.gives_way || mine_.instance.is_irrevocable || pages_.size() >= kAsideMax)
    return false;
  {
    const DomainLock::Held held = ours_.lock.take(DomainLock::Context::kHandler);
    if (!ours_.recaller->read_beside(held, page, snapshot_.line(), unchanged_)) return false;
  }
  put(page, unchanged_, Errc::kOk);
  return true;
}

void StandIns::put_range(PageId first, std::uint64_t count, const std::byte *content,
                         Errc why) noexcept {
  TMH_ASSERT(count == 1 || content == nullptr);
  std::byte *const at = mine_.views.address_of(first);
  const std::uint64_t bytes = count * kPageBytes;
  if (platform::map_when_touched(at, bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0,
                                 mine_.views.key()) == MAP_FAILED) {
    platform::write_sentence("tmh: no disk block for a page, and no memory instead of it, at",
                             reinterpret_cast<std::uintptr_t>(at));
    std::abort();
  }
  ++ranges_;
  mine_.views.note_stand_ins(true);
  if (content != nullptr) std::memcpy(at, content, kPageBytes);
  if (mine_.instance.is_query) mprotect(at, bytes, PROT_READ);
  for (std::uint64_t i = 0; i < count; ++i) {
    const PageId page{static_cast<std::uint64_t>(first) + i};
    LocalPage &l = mine_.views.local(page);
    TMH_ASSERT((l.lists & kStandsIn) == 0);
    l.lists |= kStandsIn;
    l.state = PageState::kPrivate;
    pages_.push(page);
  }
  mine_.keeping.first_touch();
  if (mine_.instance.is_query) return;
  mine_.instance.fail(why == Errc::kOk ? AbortCause::kCrossLevel : AbortCause::kNoSpace, why);
}

// A query's stores to what stands in for a page must be seen: the end does not
// compare that.
void StandIns::protect(PageId first, std::uint64_t count) noexcept {
  for (const PageId page : pages_)
    if (page >= first &&
        static_cast<std::uint64_t>(page) - static_cast<std::uint64_t>(first) < count)
      mprotect(mine_.views.address_of(page), kPageBytes, PROT_READ);
}

void StandIns::remove(PageId page) noexcept {
  TMH_ASSERT((mine_.views.local(page).lists & kStandsIn) != 0);
  LocalPage &l = mine_.views.local(page);
  mine_.views.map_anew(page);
  mine_.twins.give_back(l.twin);
  l.twin = 0;
  l.state = PageState::kAbsent;
  l.lists &= static_cast<std::uint8_t>(~kStandsIn);
  if (mine_.views.opens_silently(page) &&
      (mine_.views.is_closed(l) || ours_.tree.may_have_version(page)))
    mine_.views.guard(page);
}

void StandIns::remove_them() noexcept {
  for (const PageId page : pages_) remove(page);
  pages_.clear();
  mine_.views.note_stand_ins(false);
}

}  // namespace tmh::page
