// levels/page/touch/page_maker.cpp -- making pages of home and versions.
#include "levels/page/touch/page_maker.h"

#include <cstring>

#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/page_tables.h"

namespace tmh::page {

using observe::Step;
using observe::step;

// Nothing but reading happens under the lock: a system call or a page fault there would keep
// all commits waiting.
bool PageMaker::make(PageId page, std::uint32_t *twin) noexcept {
  const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
  step(Step::kTouchLocked);
  const bool is_home_right = !has_lower_ || take_from_below(held, page);
  const bool versioned = !is_home_right || differs(held, page);
  if (versioned && (*twin = lists_.twins.take()) != 0)
    read_snapshot(held, page, lists_.twins.data(*twin));
  // A guard may go although there are versions, of later snapshots. Should the page then not be
  // touched, only the log says that it must be guarded again.
  if (!versioned && memory_.meta_to_read(page).newest.load(std::memory_order_relaxed) != 0)
    snapshot_.must_follow();
  return versioned;
}

bool PageMaker::differs(const DomainLock::Held &held, PageId page) const noexcept {
  if (instance_.reads_past())
    return tree_.differs_in_past(held, page, instance_.past, snapshot_.at());
  return tree_.has_version(held, page, snapshot_.at());
}

// REQUIRES, with a level below: the page was taken from it.
void PageMaker::read_snapshot(const DomainLock::Held &held, PageId page, std::byte *to) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(to != nullptr);
  if (instance_.reads_past()) return tree_.read_past(held, page, instance_.past, to);
  if (recaller_->take(held, page) <= snapshot_.line()) {
    tree_.read(held, page, snapshot_.at(), ~LineMask{0}, to);
    return;
  }
  // Below it was changed after our snapshot. It had no versions then, and all that it has now are
  // newer.
  memory_.read_home(page, to);
  recaller_->as_of(held, page, snapshot_.line(), to);
  lists_.undone.push(page);
  instance_.has_read_behind = true;
}

void PageMaker::install(PageId page, std::uint32_t twin) noexcept {
  TMH_ASSERT(views_.local(page).twin == 0);
  std::byte *to = views_.address_of(page);
  if (twin != 0 && !is_home_loadable(memory_, page)) {
    // Copying the page would load it first.
    if (const Errc why = memory_.segment(storage::segment_number(page))
                             .home.allocate_blocks(storage::page_offset(page), kPageBytes);
        why != Errc::kOk) {
      stand_ins_.put(page, lists_.twins.data(twin), why);
      lists_.twins.give_back(twin);
      return;
    }
  }
  if (twin == 0) {  // no memory: fails, and sees its snapshot until it ends
    instance_.fail(AbortCause::kNoSpace, Errc::kOutOfMemory);
    const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
    read_snapshot(held, page, to);
  } else {
    // 1 us less than a page fault, which would do as well
    (void)platform::populate(to, kPageBytes, true);
    std::memcpy(to, lists_.twins.data(twin), kPageBytes);
    views_.local(page).twin = twin;
  }
  touches_.list(page, PageState::kPrivate);
}

// False: what the snapshot reads there is gone from home; only undo words know it.
bool PageMaker::take_from_below(const DomainLock::Held &held, PageId page) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(has_lower_);
  const std::uint64_t newest = recaller_->take(held, page);
  LocalPage &l = views_.local(page);
  if ((l.lists & kInResident) == 0) lists_.resident.push(page);
  l.lists |= kResident | kInResident;
  if (newest <= snapshot_.line() || (snapshot_.extend(held) && newest <= snapshot_.line()))
    return true;
  if (!instance_.is_query && !instance_.is_failed) instance_.fail(AbortCause::kValidation);
  return false;
}

}  // namespace tmh::page
