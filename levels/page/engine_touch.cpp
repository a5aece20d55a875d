// levels/page/engine_touch.cpp -- first touches: by SIGSEGV (signal tracking, guarded pages) or
// found in the fault ring at end. Reaches (in the handler): SharedLock (atomics, futex),
// ConsistencyTree::has_version/read/repair, AccessTable, /proc reads of
//            platform::alive (open, read, close, kill), fallocate and lseek where blocks are asked
//            for, stand_ins.cpp's, mprotect, madvise, mmap-free lists and twins.
//            None takes a user-space lock that this thread could hold: the engine never touches an
//            inaccessible page itself.
// Source:    thesis, sections 3.1 (figure 3-1) and 3.3.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "levels/page/engine.h"
#include "levels/page/engine_thread.h"
#include "levels/page/lines.h"
#include "platform/disk.h"
#include "platform/probes.h"
#include "platform/steps.h"

namespace tmh::page {

using platform::PageKind;
using platform::Step;
using platform::step;
using platform::StrayCause;
using storage::Count;
using storage::page_id;
using storage::page_index;
using storage::PageIndex;

platform::FaultAnswer Engine::on_fault(void *context, const platform::Fault &fault) noexcept {
  View &view = *static_cast<View *>(context);
  Engine *engine = view.engine;
  if (platform::fork_generation() != engine->fork_generation_) {
    report_stray(view, fault, StrayCause::kForkedChild);
    return platform::FaultAnswer::kForeign;
  }
  if (engine_thread.running != engine) {
    report_stray(view, fault, StrayCause::kOutside);
    return platform::FaultAnswer::kForeign;
  }
  if (fault.has_no_right) {
    report_stray(view, fault,
                 engine->instance_.is_query && fault.is_write ? StrayCause::kStoreInQuery
                                                              : StrayCause::kSignalHandler);
    return platform::FaultAnswer::kForeign;
  }
  const platform::OpenKey open(engine->views_.key());  // a handler begins without access
  const std::uint64_t index =
      (fault.address - reinterpret_cast<std::uintptr_t>(view.base)) / kPageBytes;
  if (engine->instance_.is_query && fault.is_write && engine->instance_.query_wrote == 0)
    engine->instance_.query_wrote = fault.address;
  engine->self().add(Count::kFaultsSignal, 1);
  const PageId page = page_id(view.segment, PageIndex{index});
  const bool is_open = fault.has_no_block ? engine->stand_ins_.touch_hole(view, page)
                                          : engine->touch(view, page, fault.is_write);
  if (!is_open && fault.has_no_block) report_stray(view, fault, StrayCause::kBehindEnd);
  return is_open ? platform::FaultAnswer::kRetry : platform::FaultAnswer::kForeign;
}

void Engine::report_stray(const View &view, const platform::Fault &fault,
                          StrayCause cause) noexcept {
  const std::uint64_t offset = fault.address - reinterpret_cast<std::uintptr_t>(view.base);
  platform::report({cause, fault.is_write, fault.address, view.name.c_str(), offset});
}

// False: the page is open already as far as this engine knows, so the fault has another cause.
bool Engine::touch(View &view, PageId page, bool is_write) noexcept {
  step(Step::kTouchStart);
  LocalPage &l = views_.local(page);
  if ((l.lists & kStandsIn) != 0)  // a query's, which stores: the end tells
    return is_write && instance_.is_query &&
           mprotect(views_.address_of(page), kPageBytes, PROT_READ | PROT_WRITE) == 0;
  if (silent()) {
    if (l.state != PageState::kGuarded && !views_.is_closed(l)) return false;
    touch_guarded(view, page);
    step(Step::kTouchDone);
    return true;
  }
  if (l.state == PageState::kPrivate || (l.state != PageState::kAbsent && !is_write)) return false;
  bool is_open = true;
  if (views_.block_pages() > 1) {
    is_open = open_block(view, page);
  } else {
    register_access(page, 1, is_write);
    is_open = open_page(view, page, is_write);
  }
  step(Step::kTouchDone);
  return is_open;
}

// Eager detection (thesis 3.3, step 2). A FAILED instance goes on without registering: nobody fails
// because of it.
void Engine::register_access(PageId first, std::uint64_t page_count, bool is_write) noexcept {
  if (!eager() || instance_.is_query || instance_.is_failed) return;
  for (std::uint64_t i = 0; i < page_count; ++i)  // not under the lock; there it says why not
    (void)memory_.reserve_meta(PageId{static_cast<std::uint64_t>(first) + i});
  const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
  step(Step::kTouchLocked);
  storage::Participant &own = self();
  if (own.failed_instance.load(std::memory_order_relaxed) == instance_.number) {
    instance_.fail(AbortCause::kConflictOther);
  } else if (!snapshot_.move_to_present(held)) {
    instance_.fail(AbortCause::kValidation);
  } else {
    for (std::uint64_t i = 0; i < page_count && !instance_.is_failed; ++i) {
      const PageId page{static_cast<std::uint64_t>(first) + i};
      switch (accesses_.add(held, page, is_write, instance_.policy)) {
        case Touch::kGranted:
          break;
        case Touch::kSelfFailed:
          platform::probe::conflict(platform::probe::kPages, static_cast<std::uint64_t>(page));
          instance_.fail(AbortCause::kConflictSelf);
          break;
        case Touch::kNoSpace:
          instance_.fail(AbortCause::kNoSpace, accesses_.error());
          break;
      }
    }
  }
  step(Step::kTouchRegistered);
}

// True when home is not what the snapshot reads: *twin then holds the page, unless there is no twin
// left. Nothing but reading happens under the lock: a system call or a page fault there would keep
// everybody's commits waiting.
bool Engine::read_versions(PageId page, std::uint32_t *twin) noexcept {
  const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
  step(Step::kTouchLocked);
  const bool is_home_right = !has_lower_ || take_from_below(held, page);
  const bool versioned = !is_home_right || tree_.has_version(held, page, snapshot_.at());
  if (versioned && (*twin = lists_.twins.take()) != 0)
    read_snapshot(held, page, lists_.twins.data(*twin));
  // A guard may go although there are versions, of later snapshots. Should the page then not be
  // touched, only the log says that it must be guarded again.
  if (!versioned && memory_.meta_to_read(page).newest.load(std::memory_order_relaxed) != 0)
    snapshot_.must_follow();
  return versioned;
}

// REQUIRES, with a level below: the page was taken from it.
void Engine::read_snapshot(const DomainLock::Held &held, PageId page, std::byte *to) noexcept {
  if (lower_->take(held, page) <= snapshot_.line()) {
    tree_.read(held, page, snapshot_.at(), ~LineMask{0}, to);
    return;
  }
  // Below it was changed after our snapshot. It had no versions then, and all that it has now are
  // newer.
  memory_.read_home(page, to);
  lower_->as_of(held, page, snapshot_.line(), to);
  lists_.undone.push(page);
  instance_.has_read_behind = true;
}

// The page becomes this process's own copy of state(snapshot), which `twin` holds. REQUIRES:
// writable mapping.
void Engine::make_private(PageId page, std::uint32_t twin) noexcept {
  std::byte *to = views_.address_of(page);
  const storage::Home &home = memory_.segment(storage::segment_number(page)).home;
  if (twin != 0 && home.loads_take_blocks() &&
      !home.has_data(storage::page_offset(page), kPageBytes)) {
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

// False: what the snapshot reads there is gone from home; only undo words know
// it.
bool Engine::take_from_below(const DomainLock::Held &held, PageId page) noexcept {
  const std::uint64_t newest = lower_->take(held, page);
  LocalPage &l = views_.local(page);
  if ((l.lists & kInResident) == 0) lists_.resident.push(page);
  l.lists |= kResident | kInResident;
  if (newest <= snapshot_.line() || (snapshot_.extend(held) && newest <= snapshot_.line()))
    return true;
  if (!instance_.is_query && !instance_.is_failed) instance_.fail(AbortCause::kValidation);
  return false;
}

bool Engine::advice_helps(PageState state, bool is_write) const noexcept {
  switch (state) {
    case PageState::kAbsent:
    case PageState::kGuarded:
      return true;
    case PageState::kFile:
    case PageState::kReadOnly:
      return is_write;
    case PageState::kPrivate:
      break;
  }
  return false;
}

bool Engine::advise(std::uintptr_t begin, std::uint64_t bytes, bool is_write) noexcept {
  const View *found = views_.find(begin);
  if (found == nullptr) return false;
  View &view = views_.of(found->segment);
  const std::uint64_t offset = begin - reinterpret_cast<std::uintptr_t>(view.base);
  std::uint64_t index = offset / kPageBytes;
  // The common case first: one page that is open already.
  if (offset % kPageBytes + bytes <= kPageBytes && !advice_helps(view.pages[index].state, is_write))
    return true;
  if (bytes == 0 || (instance_.is_query && is_write)) return true;
  // a query's view is read-only to the program, not to the engine
  const platform::OpenKey open(views_.key());
  const std::uint64_t usable =
      memory_.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  const std::uint64_t end = std::min(usable, (offset + bytes - 1) / kPageBytes + 1);
  while (index < end) {
    const PageState state = view.pages[index].state;
    const PageId page = page_id(view.segment, PageIndex{index});
    if (!advice_helps(state, is_write)) {
      ++index;
    } else if (!silent() || state == PageState::kGuarded || views_.is_closed(view.pages[index])) {
      (void)touch(view, page, is_write);
      ++index;
    } else {
      std::uint64_t count = 1;
      while (index + count < end && view.pages[index + count].state != PageState::kGuarded &&
             !views_.is_closed(view.pages[index + count]) &&
             advice_helps(view.pages[index + count].state, is_write))
        ++count;
      touches_.populate(page, count, is_write);
      index += count;
    }
  }
  return true;
}

}  // namespace tmh::page
