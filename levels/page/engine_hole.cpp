// levels/page/engine_hole.cpp -- touches of pages that have no disk block and get none: the
// instance goes on, on memory that stands in for them.
// Invariant: what stands in is state(s) of the page, as engine.h asks of every page; nothing of it
//            outlives the instance.
// Reaches (in the handler): lseek, fallocate, mmap, mprotect; write and abort where memory has run
// out, too. None takes a lock of user space.
// Source:    DESIGN D6 (a full disk is an error, never SIGBUS).
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
// level below. False: it may be.
bool Engine::stands_in_for_closed(PageId page) noexcept {
  if (!views_.is_closed(views_.local(page)) || (views_.local(page).lists & kStandsIn) != 0)
    return false;
  for (;;) {
    const Errc why = lower_->prepare(page);
    if (why == Errc::kOk) return false;
    if (!lower_->read_unchanged(page, unchanged_) && why == Errc::kDiskFull) continue;
    stand_in(page, unchanged_, why);
    return true;
  }
}

// `content`, null: zeros, is state(s) of the page. The instance cannot use the page itself: it goes
// on with what it would have read there, so that it sees its snapshot until it ends. An update
// FAILs; a query needs no more.
void Engine::stand_in(PageId page, const std::byte *content, Errc why) noexcept {
  std::byte *at = views_.address_of(page);
  if (platform::map_when_touched(at, kPageBytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0,
                                 views_.key()) == MAP_FAILED) {
    platform::write_sentence("tmh: no disk block for a page, and no memory instead of it, at",
                             reinterpret_cast<std::uintptr_t>(at));
    std::abort();
  }
  if (content != nullptr) std::memcpy(at, content, kPageBytes);
  if (query_) mprotect(at, kPageBytes, PROT_READ);
  LocalPage &l = views_.local(page);
  l.lists |= kStandsIn;
  l.state = PageState::kPrivate;
  lists_.standing_in.push(page);
  keeping_.first_touch();
  if (!query_) fail_instance(AbortCause::kNoSpace, why);
}

// At the end of the instance: the page is as if never touched.
void Engine::stand_down(PageId page) noexcept {
  LocalPage &l = views_.local(page);
  views_.map_anew(page);
  lists_.twins.give_back(l.twin);
  l.twin = 0;
  l.state = PageState::kAbsent;
  l.lists &= static_cast<std::uint8_t>(~kStandsIn);
  if (views_.opens_silently(page) && (views_.is_closed(l) || needs_versions(page)))
    views_.guard(page);
}

}  // namespace tmh::page
