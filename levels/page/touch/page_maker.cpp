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
  const DomainLock::Held held = ours_.lock.take(DomainLock::Context::kHandler);
  step(Step::kTouchLocked);
  const bool is_home_right = !ours_.has_lower || take_from_below(held, page);
  const bool versioned = !is_home_right || differs(held, page);
  if (versioned && (*twin = mine_.twins.take()) != 0)
    read_snapshot(held, page, mine_.twins.data(*twin));
  // A guard may go although there are versions, of later snapshots. Should the page then not be
  // touched, only the log says that it must be guarded again.
  if (!versioned && ours_.memory.meta_to_read(page).newest.load(std::memory_order_relaxed) != 0)
    snapshot_.must_follow();
  return versioned;
}

bool PageMaker::differs(const DomainLock::Held &held, PageId page) const noexcept {
  if (mine_.instance.reads_past())
    return ours_.tree.differs_in_past(held, page, mine_.instance.past, snapshot_.at());
  return ours_.tree.has_version(held, page, snapshot_.at());
}

// REQUIRES, with a level below: the page was taken from it.
void PageMaker::read_snapshot(const DomainLock::Held &held, PageId page, std::byte *to) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(to != nullptr);
  if (mine_.instance.reads_past()) return ours_.tree.read_past(held, page, mine_.instance.past, to);
  if (ours_.recaller->take(held, page) <= snapshot_.line()) {
    ours_.tree.read(held, page, snapshot_.at(), ~LineMask{0}, to);
    return;
  }
  // Below it was changed after our snapshot. It had no versions then, and all that it has now are
  // newer.
  ours_.memory.read_home(page, to);
  ours_.recaller->as_of(held, page, snapshot_.line(), to);
  mine_.touches.note_undone(page);
  mine_.instance.has_read_behind = true;
}

void PageMaker::install(PageId page, std::uint32_t twin) noexcept {
  TMH_ASSERT(mine_.views.local(page).twin == 0);
  std::byte *to = mine_.views.address_of(page);
  if (twin != 0 && !is_home_loadable(ours_.memory, page)) {
    // Copying the page would load it first.
    if (const Errc why = ours_.memory.segment(storage::segment_number(page))
                             .home.allocate_blocks(storage::page_offset(page), kPageBytes);
        why != Errc::kOk) {
      stand_ins_.put(page, mine_.twins.data(twin), why);
      mine_.twins.give_back(twin);
      return;
    }
  }
  if (twin == 0) {  // no memory: fails, and sees its snapshot until it ends
    mine_.instance.fail(AbortCause::kNoSpace, Errc::kOutOfMemory);
    const DomainLock::Held held = ours_.lock.take(DomainLock::Context::kHandler);
    read_snapshot(held, page, to);
  } else {
    // 1 us less than a page fault, which would do as well
    (void)platform::populate(to, kPageBytes, true);
    std::memcpy(to, mine_.twins.data(twin), kPageBytes);
    mine_.views.local(page).twin = twin;
  }
  mine_.touches.list(page, PageState::kPrivate);
}

// False: what the snapshot reads there is gone from home; only undo words know it.
bool PageMaker::take_from_below(const DomainLock::Held &held, PageId page) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(ours_.has_lower);
  const std::uint64_t newest = ours_.recaller->take(held, page);
  mine_.residents.add(page, &mine_.views.local(page));
  if (newest <= snapshot_.line() || (snapshot_.extend(held) && newest <= snapshot_.line()))
    return true;
  if (!mine_.instance.is_query && !mine_.instance.has_failed())
    mine_.instance.fail(AbortCause::kValidation);
  return false;
}

}  // namespace tmh::page
