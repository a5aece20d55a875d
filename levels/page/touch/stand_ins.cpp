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
  storage::Home &home = memory_.segment(view.segment).home;
  const std::uint64_t offset = storage::page_offset(page);
  if (offset >= memory_.segment_size(view.segment).load(std::memory_order_acquire)) return false;
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
  if (!views_.is_closed(views_.local(page)) || (views_.local(page).lists & kStandsIn) != 0)
    return false;
  for (;;) {
    const Errc why = recaller_->prepare(page);
    if (why == Errc::kOk) return stands_aside(page);
    if (!recaller_->read_unchanged(page, unchanged_) && why == Errc::kDiskFull) continue;
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
  if (!tracking_.is_silent()) return false;
  const auto at = reinterpret_cast<std::uintptr_t>(views_.address_of(page));
  platform::PageKind kind{};
  return !tracking_.page_map().read(at, 1, &kind) || kind != platform::PageKind::kAbsent;
}

// No process has stored there as far as the snapshot reads, and the instance has not been there.
bool StandIns::is_untouched_hole(PageId page) noexcept {
  const LocalPage &l = views_.local(page);
  return l.state == PageState::kAbsent && (l.lists & kStandsIn) == 0 &&
         !tree_.may_have_version(page) &&
         (views_.is_closed(l) ? recaller_->read_unchanged(page, beside_) : !may_be_touched(page));
}

// With its neighbours, where all of them are holes.
void StandIns::put_around(PageId page, const std::byte *content, Errc why) noexcept {
  const std::uint32_t segment = storage::segment_number(page);
  const auto index = static_cast<std::uint64_t>(storage::page_index(page));
  const std::uint64_t usable =
      memory_.segment_size(segment).load(std::memory_order_acquire) / kPageBytes;
  const auto at = [segment](std::uint64_t i) {
    return storage::page_id(segment, storage::PageIndex{i});
  };
  for (std::uint64_t count = range_pages(); count > 1; count /= 16) {
    const std::uint64_t first = index / count * count;
    const std::uint64_t behind = std::min(first + count, usable);
    if (index >= behind ||
        memory_.segment(segment).home.has_data(first * kPageBytes, (behind - first) * kPageBytes))
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
  if (!instance_.gives_way || instance_.is_irrevocable || lists_.standing_in.size() >= kAsideMax)
    return false;
  {
    const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
    if (!recaller_->read_beside(held, page, snapshot_.line(), unchanged_)) return false;
  }
  put(page, unchanged_, Errc::kOk);
  return true;
}

void StandIns::put_range(PageId first, std::uint64_t count, const std::byte *content,
                         Errc why) noexcept {
  TMH_ASSERT(count == 1 || content == nullptr);
  std::byte *const at = views_.address_of(first);
  const std::uint64_t bytes = count * kPageBytes;
  if (platform::map_when_touched(at, bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0,
                                 views_.key()) == MAP_FAILED) {
    platform::write_sentence("tmh: no disk block for a page, and no memory instead of it, at",
                             reinterpret_cast<std::uintptr_t>(at));
    std::abort();
  }
  ++ranges_;
  if (content != nullptr) std::memcpy(at, content, kPageBytes);
  if (instance_.is_query) mprotect(at, bytes, PROT_READ);
  for (std::uint64_t i = 0; i < count; ++i) {
    const PageId page{static_cast<std::uint64_t>(first) + i};
    LocalPage &l = views_.local(page);
    TMH_ASSERT((l.lists & kStandsIn) == 0);
    l.lists |= kStandsIn;
    l.state = PageState::kPrivate;
    lists_.standing_in.push(page);
  }
  keeping_.first_touch();
  if (instance_.is_query) return;
  instance_.fail(why == Errc::kOk ? AbortCause::kCrossLevel : AbortCause::kNoSpace, why);
}

// A query's stores to what stands in for a page must be seen: the end does not
// compare that.
void StandIns::protect(PageId first, std::uint64_t count) noexcept {
  for (const PageId page : lists_.standing_in)
    if (page >= first &&
        static_cast<std::uint64_t>(page) - static_cast<std::uint64_t>(first) < count)
      mprotect(views_.address_of(page), kPageBytes, PROT_READ);
}

void StandIns::remove(PageId page) noexcept {
  TMH_ASSERT((views_.local(page).lists & kStandsIn) != 0);
  LocalPage &l = views_.local(page);
  views_.map_anew(page);
  lists_.twins.give_back(l.twin);
  l.twin = 0;
  l.state = PageState::kAbsent;
  l.lists &= static_cast<std::uint8_t>(~kStandsIn);
  if (views_.opens_silently(page) && (views_.is_closed(l) || tree_.may_have_version(page)))
    views_.guard(page);
}

void StandIns::remove_them() noexcept {
  for (const PageId page : lists_.standing_in) remove(page);
  lists_.standing_in.clear();
}

}  // namespace tmh::page
