// levels/page/engine_hole.cpp -- touches of pages that have no disk block and get none, or that the
// instance leaves to the level below: it goes on, on memory that stands in for them.
// Invariant: what stands in is state(s) of the page, as engine.h asks of every page; nothing of it
//            outlives the instance.
// Reaches (in the handler): lseek, fallocate, mmap, mprotect; write and abort where memory has run
// out, too. None takes a lock of user space.
// Source:    docs/design.md D6 (a full disk is an error, never SIGBUS).
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "levels/page/engine.h"

namespace tmh::page {

// The file has a hole there, and loads take blocks (tmpfs): the disk is full. False: beyond the
// segment, or the disk is broken.
bool Engine::touch_hole(View &view, PageId page) noexcept {
  storage::Home &home = memory_.segment(view.segment).home;
  const std::uint64_t offset = storage::page_offset(page);
  if (offset >= memory_.segment_size(view.segment).load(std::memory_order_acquire)) return false;
  if (!home.has_data(offset, kPageBytes)) {
    const Errc why = home.allocate_blocks(offset, kPageBytes);
    if (why != Errc::kOk) {
      stand_in(page, nullptr, why);
      return true;
    }
  }
  // There is room again, or others had it before: once more, but not for ever.
  return std::exchange(hole_, page) != page;
}

// The page has no block for what says whose it is, and gets none, so it cannot be taken from the
// level below; or the instance gives way there. False: it is to be taken.
bool Engine::stands_in_for_closed(PageId page) noexcept {
  if (!is_closed(local(page)) || (local(page).lists & kStandsIn) != 0) return false;
  for (;;) {
    const Errc why = lower_->prepare(page);
    if (why == Errc::kOk) return stands_aside(page);
    if (!lower_->read_unchanged(page, unchanged_) && why == Errc::kDiskFull) continue;
    stand_in(page, unchanged_, why);
    return true;
  }
}

// give_way(): the level below uses the page. The instance reads it as of its snapshot, takes
// nothing, and FAILs.
bool Engine::stands_aside(PageId page) noexcept {
  if (!gives_way_ || irrevocable_ || standing_in_.size() >= kAsideMax) return false;
  {
    const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
    if (!lower_->read_beside(held, page, line_snapshot_, unchanged_)) return false;
  }
  stand_in(page, unchanged_, Errc::kOk);
  return true;
}

// `content`, null: zeros, is state(s) of the page. The instance cannot use the page itself: it goes
// on with what it would have read there, so that it sees its snapshot until it ends. An update
// FAILs; a query needs no more.
void Engine::stand_in(PageId page, const std::byte *content, Errc why) noexcept {
  std::byte *at = address_of(page);
  if (platform::map_when_touched(at, kPageBytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0,
                                 key_) == MAP_FAILED) {
    platform::write_sentence("tmh: no disk block for a page, and no memory instead of it, at",
                             reinterpret_cast<std::uintptr_t>(at));
    std::abort();
  }
  if (content != nullptr) std::memcpy(at, content, kPageBytes);
  if (query_) mprotect(at, kPageBytes, PROT_READ);
  LocalPage &l = local(page);
  l.lists |= kStandsIn;
  l.state = PageState::kPrivate;
  standing_in_.push(page);
  steady_ends_ = 0;
  if (query_) return;
  fail_instance(why == Errc::kOk ? AbortCause::kCrossLevel : AbortCause::kNoSpace, why);
}

// At the end of the instance: the page is as if never touched.
void Engine::stand_down(PageId page) noexcept {
  LocalPage &l = local(page);
  map_anew(page);
  twins_.give_back(l.twin);
  l.twin = 0;
  l.state = PageState::kAbsent;
  l.lists &= static_cast<std::uint8_t>(~kStandsIn);
  if (opens_silently(page) && (is_closed(l) || needs_versions(page))) guard(page);
}

// May a touch of the page, when it is absent and not guarded, go unnoticed until the instance ends?
bool Engine::opens_silently(PageId page) const noexcept {
  const View &view = views_[storage::segment_number(page)];
  const std::uint64_t block = static_cast<std::uint64_t>(storage::page_index(page)) / kBlockPages;
  return silent() && (!has_lower_ || view.open_blocks.base()[block] != std::byte{0});
}

// Whatever is there goes, guards too; the next touch maps home's page, or comes to us.
void Engine::map_anew(PageId page) noexcept {
  const storage::Home &home = memory_.segment(storage::segment_number(page)).home;
  std::byte *const at = address_of(page);
  if (home.map_pages_again(at, storage::page_offset(page), kPageBytes, opens_silently(page)) &&
      (!silent() || fault_around_.switch_off(at, kPageBytes) == Errc::kOk))
    return;
  platform::write_sentence("tmh: a page cannot be mapped again at",
                           reinterpret_cast<std::uintptr_t>(at));
  std::abort();
}

}  // namespace tmh::page
