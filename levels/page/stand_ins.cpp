// levels/page/stand_ins.cpp -- memory in the place of pages that the instance cannot, or will not,
// use.
#include "levels/page/stand_ins.h"

#include <sys/mman.h>

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
      put(page, nullptr, why);
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
    put(page, unchanged_, why);
    return true;
  }
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

void StandIns::put(PageId page, const std::byte *content, Errc why) noexcept {
  TMH_ASSERT((views_.local(page).lists & kStandsIn) == 0);
  std::byte *at = views_.address_of(page);
  if (platform::map_when_touched(at, kPageBytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0,
                                 views_.key()) == MAP_FAILED) {
    platform::write_sentence("tmh: no disk block for a page, and no memory instead of it, at",
                             reinterpret_cast<std::uintptr_t>(at));
    std::abort();
  }
  if (content != nullptr) std::memcpy(at, content, kPageBytes);
  if (instance_.is_query) mprotect(at, kPageBytes, PROT_READ);
  LocalPage &l = views_.local(page);
  l.lists |= kStandsIn;
  l.state = PageState::kPrivate;
  lists_.standing_in.push(page);
  keeping_.first_touch();
  if (instance_.is_query) return;
  instance_.fail(why == Errc::kOk ? AbortCause::kCrossLevel : AbortCause::kNoSpace, why);
}

// A query's stores to what stands in for a page must be seen: the end does not
// compare that.
void StandIns::protect() noexcept {
  for (const PageId page : lists_.standing_in)
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
