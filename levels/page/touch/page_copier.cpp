// levels/page/touch/page_copier.cpp -- one page after the other, under the domain lock.
#include "levels/page/touch/page_copier.h"

#include <algorithm>
#include <cstring>

#include "observe/planted.h"
#include "platform/assert.h"

namespace tmh::page {

Errc PageCopier::copy(std::uintptr_t from, std::uint64_t bytes, std::byte *to) noexcept {
  TMH_ASSERT(mine_.instance.is_running && to != nullptr);
  const View *view = mine_.views.find(from);
  if (view == nullptr) return Errc::kNotMapped;
  const std::uint64_t size =
      ours_.memory.segment_size(view->segment).load(std::memory_order_acquire);
  std::uint64_t offset = from - reinterpret_cast<std::uintptr_t>(view->base);
  if (bytes > size || offset > size - bytes) return Errc::kNotMapped;
  while (bytes > 0) {
    const std::uint64_t in_page = offset % kPageBytes;
    const std::uint64_t part = std::min(bytes, kPageBytes - in_page);
    const PageId page = storage::page_id(view->segment, storage::PageIndex{offset / kPageBytes});
    const bool is_copied = mine_.instance.is_query && !is_open(page) && copy_page(page);
    std::memcpy(to, (is_copied ? page_ : mine_.views.address_of(page)) + in_page, part);
    offset += part;
    to += part;
    bytes -= part;
  }
  return Errc::kOk;
}

// What the view shows is state(snapshot), and a load of it takes nothing from others.
bool PageCopier::is_open(PageId page) const noexcept {
  const PageState shown = mine_.views.local(page).state;
  return shown != PageState::kAbsent && shown != PageState::kGuarded;
}

bool PageCopier::copy_page(PageId page) noexcept {
  if (!is_home_loadable(ours_.memory, page) || ours_.recaller->prepare(page) != Errc::kOk)
    return false;
  // What is not in memory comes before the lock is taken.
  ours_.memory.read_home(page, page_);
  const DomainLock::Held held = ours_.lock.take();
  if (mine_.instance.reads_past()) {
    ours_.tree.read_past(held, page, mine_.instance.past, page_);
    return true;
  }
  std::uint64_t newest = 0;
  if (ours_.recaller->is_above(held, page, &newest)) {
    if (newest <= snapshot_.line()) {
      ours_.tree.read(held, page, snapshot_.at(), ~LineMask{0}, page_);
    } else {
      // As PageMaker: what versions it has are newer than the snapshot.
      ours_.memory.read_home(page, page_);
      ours_.recaller->as_of(held, page, snapshot_.line(), page_);
    }
  } else if (!ours_.recaller->read_beside(held, page, snapshot_.line(), page_) &&
             !ours_.recaller->read_unchanged(page, page_)) {
    return false;
  }
  if (!observe::is_planted(observe::Planted::kCopyMovesOn)) mine_.instance.has_read_behind = true;
  return true;
}

}  // namespace tmh::page
