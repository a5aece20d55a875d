// levels/page/engine_touch.cpp -- first touches: by SIGSEGV (signal tracking, guarded pages) or
// found in the fault ring at end. Reaches (in the handler): SharedLock (atomics, futex),
// ConsistencyTree::has_version/read/repair, AccessTable, /proc reads of
//            platform::alive (open, read, close, kill), fallocate and lseek where blocks are asked
//            for, engine_hole.cpp's, mprotect, madvise, mmap-free lists and twins.
//            None takes a user-space lock that this thread could hold: the engine never touches an
//            inaccessible page itself.
// Source:    thesis, sections 3.1 (figure 3-1) and 3.3.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "levels/page/engine.h"
#include "levels/page/engine_thread.h"
#include "levels/page/lines.h"
#include "observe/planted.h"
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
    report_stray(
        view, fault,
        engine->query_ && fault.is_write ? StrayCause::kStoreInQuery : StrayCause::kSignalHandler);
    return platform::FaultAnswer::kForeign;
  }
  const platform::OpenKey open(engine->key_);  // a handler begins without access
  const std::uint64_t index =
      (fault.address - reinterpret_cast<std::uintptr_t>(view.base)) / kPageBytes;
  if (engine->query_ && fault.is_write && engine->query_wrote_ == 0)
    engine->query_wrote_ = fault.address;
  engine->self().add(Count::kFaultsSignal, 1);
  const PageId page = page_id(view.segment, PageIndex{index});
  const bool is_open = fault.has_no_block ? engine->touch_hole(view, page)
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
  LocalPage &l = local(page);
  if ((l.lists & kStandsIn) != 0)  // a query's, which stores: the end tells
    return is_write && query_ &&
           mprotect(address_of(page), kPageBytes, PROT_READ | PROT_WRITE) == 0;
  if (silent()) {
    if (l.state != PageState::kGuarded && !is_closed(l)) return false;
    touch_guarded(view, page);
    step(Step::kTouchDone);
    return true;
  }
  if (l.state == PageState::kPrivate || (l.state != PageState::kAbsent && !is_write)) return false;
  bool is_open = true;
  if (block_pages() > 1) {
    is_open = open_block(view, page);
  } else {
    register_access(page, 1, is_write);
    is_open = open_page(view, page, is_write);
  }
  step(Step::kTouchDone);
  return is_open;
}

void Engine::list_as(PageId page, PageState state) noexcept {
  LocalPage &l = local(page);
  l.state = state;
  steady_ends_ = 0;
  if ((l.lists & kInKept) == 0) kept_.push(page);
  platform::probe::first_touch(static_cast<std::uint64_t>(page),
                               state == PageState::kPrivate ? 1 : 0);
  l.lists = static_cast<std::uint8_t>((l.lists | kInKept) & ~kWrittenElsewhere);
  if (state == PageState::kPrivate) {
    if ((l.lists & kInPrivate) == 0) private_.push(page);
    l.lists |= kInPrivate;
  }
}

// Eager detection (thesis 3.3, step 2). A FAILED instance goes on without registering: nobody fails
// because of it.
void Engine::register_access(PageId first, std::uint64_t page_count, bool is_write) noexcept {
  if (!eager() || query_ || failed_) return;
  for (std::uint64_t i = 0; i < page_count; ++i)  // not under the lock; there it says why not
    (void)memory_.reserve_meta(PageId{static_cast<std::uint64_t>(first) + i});
  const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
  step(Step::kTouchLocked);
  storage::Participant &own = self();
  if (own.failed_instance.load(std::memory_order_relaxed) == instance_) {
    fail_instance(AbortCause::kConflictOther);
  } else if (knows_too_little(held) || !may_see_now(held)) {
    fail_instance(AbortCause::kValidation);
  } else {
    // The instance moves below the last committed node (thesis 3.3, step 4): by Invariant 3 nothing
    // that it has touched was committed since, so its snapshot can be the present one. A pin that
    // moves forward never uncovers a home that changed.
    snapshot_ = memory_.state().clock.load(std::memory_order_relaxed);
    own.pin.store(snapshot_, std::memory_order_seq_cst);
    for (std::uint64_t i = 0; i < page_count && !failed_; ++i) {
      const PageId page{static_cast<std::uint64_t>(first) + i};
      switch (accesses_.add(held, page, is_write, policy_)) {
        case Touch::kGranted:
          break;
        case Touch::kSelfFailed:
          platform::probe::conflict(platform::probe::kPages, static_cast<std::uint64_t>(page));
          fail_instance(AbortCause::kConflictSelf);
          break;
        case Touch::kNoSpace:
          fail_instance(AbortCause::kNoSpace, accesses_.error());
          break;
      }
    }
  }
  step(Step::kTouchRegistered);
}

// The first reason stays.
void Engine::fail_instance(AbortCause cause, Errc error) noexcept {
  if (failed_ && failed_cause_ == AbortCause::kNoSpace) return;
  failed_ = true;
  failed_cause_ = cause;
  failed_error_ = error;
  // others ignore its accesses from now on
  self().failed_instance.store(instance_, std::memory_order_relaxed);
}

bool Engine::needs_versions(PageId page) const noexcept {
  // Without the lock: 0 is final for this snapshot, because versions stamped <= snapshot only ever
  // disappear into home. acquire: pairs with the release in unlink(), so that home's lines are
  // seen.
  const bool has_version = memory_.meta_to_read(page).newest.load(std::memory_order_acquire) != 0;
  step(Step::kGapTouchLooked);
  return has_version;
}

// True when home is not what the snapshot reads: *twin then holds the page, unless there is no twin
// left. Nothing but reading happens under the lock: a system call or a page fault there would keep
// everybody's commits waiting.
bool Engine::read_versions(PageId page, std::uint32_t *twin) noexcept {
  const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
  step(Step::kTouchLocked);
  const bool is_home_right = !has_lower_ || take_from_below(held, page);
  const bool versioned = !is_home_right || tree_.has_version(held, page, snapshot_);
  if (versioned && (*twin = twins_.take()) != 0) read_snapshot(held, page, twins_.data(*twin));
  // A guard may go although there are versions, of later snapshots. Should the page then not be
  // touched, only the log says that it must be guarded again.
  if (!versioned && memory_.meta_to_read(page).newest.load(std::memory_order_relaxed) != 0)
    follow_needed_ = true;
  return versioned;
}

// REQUIRES, with a level below: the page was taken from it.
void Engine::read_snapshot(const DomainLock::Held &held, PageId page, std::byte *to) noexcept {
  if (lower_->take(held, page) <= line_snapshot_) {
    tree_.read(held, page, snapshot_, ~LineMask{0}, to);
    return;
  }
  // Below it was changed after our snapshot. It had no versions then, and all that it has now are
  // newer.
  memory_.read_home(page, to);
  lower_->as_of(held, page, line_snapshot_, to);
  undone_.push(page);
  read_behind_ = true;
}

// The page becomes this process's own copy of state(snapshot), which `twin` holds. REQUIRES:
// writable mapping.
void Engine::make_private(PageId page, std::uint32_t twin) noexcept {
  std::byte *to = address_of(page);
  const storage::Home &home = memory_.segment(storage::segment_number(page)).home;
  if (twin != 0 && home.loads_take_blocks() &&
      !home.has_data(storage::page_offset(page), kPageBytes)) {
    // Copying the page would load it first.
    if (const Errc why = memory_.segment(storage::segment_number(page))
                             .home.allocate_blocks(storage::page_offset(page), kPageBytes);
        why != Errc::kOk) {
      stand_in(page, twins_.data(twin), why);
      twins_.give_back(twin);
      return;
    }
  }
  if (twin == 0) {  // no memory: fails, and sees its snapshot until it ends
    fail_instance(AbortCause::kNoSpace, Errc::kOutOfMemory);
    const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
    read_snapshot(held, page, to);
  } else {
    // 1 us less than a page fault, which would do as well
    (void)platform::populate(to, kPageBytes, true);
    std::memcpy(to, twins_.data(twin), kPageBytes);
    local(page).twin = twin;
  }
  list_as(page, PageState::kPrivate);
}

// With a level below: has this process no right to map the page yet?
bool Engine::is_closed(const LocalPage &page) const noexcept {
  return has_lower_ && (page.lists & kResident) == 0;
}

// False: what the snapshot reads there is gone from home; only undo words know
// it.
bool Engine::take_from_below(const DomainLock::Held &held, PageId page) noexcept {
  const std::uint64_t newest = lower_->take(held, page);
  LocalPage &l = local(page);
  if ((l.lists & kInResident) == 0) resident_.push(page);
  l.lists |= kResident | kInResident;
  if (newest <= line_snapshot_ || (extend(held) && newest <= line_snapshot_)) return true;
  if (!query_ && !failed_) fail_instance(AbortCause::kValidation);
  return false;
}

// Has a segment been made since the instance began? A pointer into it may be in
// what has been committed since, and who looks behind each begin what there is (libxac, for its
// heap) has not mapped it: so no snapshot moves on past that. Not of an irrevocable instance, whose
// snapshot must move on; nobody else commits at level 2.
bool Engine::knows_too_little(const DomainLock::Held &held) const noexcept {
  TMH_ASSERT(held.is_valid());
  if (irrevocable_ || memory_.segment_generation() == known_generation_) return false;
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    const bool is_there = storage::is_used(memory_.control().segments[i]);
    if (is_there && !known_.test(i) && views_[i].base == nullptr) return true;
  }
  return false;
}

// A begin waits for the log; here nobody can.
bool Engine::may_see_now(const DomainLock::Held &held) const noexcept {
  TMH_ASSERT(held.is_valid());
  return !reads_durable_only_ || irrevocable_ ||
         log_->durable_clock() >= memory_.state().clock.load(std::memory_order_relaxed);
}

// Nothing that the instance touched was committed since its snapshot: then it
// may as well have begun now.
bool Engine::extend(const DomainLock::Held &held) noexcept {
  DomainState &state = memory_.state();
  // What stands in for a page is its state at this snapshot, and nothing tells of later commits to
  // it; as of what only undo words know.
  if (failed_ || resync_needed_ || !standing_in_.empty() || read_behind_) return false;
  if (knows_too_little(held) || !may_see_now(held)) return false;
  // Eager: every touch has moved the snapshot to its present, past commits that the log since begin
  // still tells of. Bringing what they wrote once more would overwrite this instance's stores; and
  // what it has not touched is inaccessible.
  if (!eager() && state.clock.load(std::memory_order_relaxed) != snapshot_) {
    collect_touched();
    // Beyond kFollowMax pull() starts again, which an instance that has stored something does not
    // survive.
    const bool in_log =
        state.log_head.load(std::memory_order_relaxed) - synced_position_ <= kFollowMax;
    const bool valid = is_valid(held) && (in_log || irrevocable_);
    failed_cause_ = AbortCause::kNone;
    if (!valid) return false;
    if (!in_log)
      follow_releases(held);
    else if (!observe::is_planted(observe::Planted::kExtendNoFollow))
      pull(held);
    if (is_left_open_) return false;  // a later touch there would go unnoticed
  }
  failed_cause_ = AbortCause::kNone;
  snapshot_ = state.clock.load(std::memory_order_relaxed);
  // forward: it never uncovers a home that changed
  self().pin.store(snapshot_, std::memory_order_seq_cst);
  if (!has_lower_) return true;
  // What is durable of both levels is one cut, too: the log has them in one order.
  line_snapshot_ = reads_durable_only_ && !irrevocable_ ? log_->durable_line() : lower_->clock();
  self().line_pin.store(line_snapshot_, std::memory_order_release);
  return true;
}

const View *Engine::view_of(std::uintptr_t address) noexcept {
  if (address - last_begin_ < last_bytes_) return last_view_;
  for (const std::uint32_t segment : mapped_) {
    const View &view = views_[segment];
    if (address - reinterpret_cast<std::uintptr_t>(view.base) >= view.bytes) continue;
    last_begin_ = reinterpret_cast<std::uintptr_t>(view.base);
    last_bytes_ = view.bytes;
    last_view_ = &view;
    return last_view_;
  }
  return nullptr;
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
  const View *found = view_of(begin);
  if (found == nullptr) return false;
  View &view = views_[found->segment];
  const std::uint64_t offset = begin - reinterpret_cast<std::uintptr_t>(view.base);
  std::uint64_t index = offset / kPageBytes;
  // The common case first: one page that is open already.
  if (offset % kPageBytes + bytes <= kPageBytes && !advice_helps(view.pages[index].state, is_write))
    return true;
  if (bytes == 0 || (query_ && is_write)) return true;
  // a query's view is read-only to the program, not to the engine
  const platform::OpenKey open(key_);
  const std::uint64_t usable =
      memory_.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  const std::uint64_t end = std::min(usable, (offset + bytes - 1) / kPageBytes + 1);
  while (index < end) {
    const PageState state = view.pages[index].state;
    const PageId page = page_id(view.segment, PageIndex{index});
    if (!advice_helps(state, is_write)) {
      ++index;
    } else if (!silent() || state == PageState::kGuarded || is_closed(view.pages[index])) {
      (void)touch(view, page, is_write);
      ++index;
    } else {
      std::uint64_t count = 1;
      while (index + count < end && view.pages[index + count].state != PageState::kGuarded &&
             !is_closed(view.pages[index + count]) &&
             advice_helps(view.pages[index + count].state, is_write))
        ++count;
      populate(page, count, is_write);
      index += count;
    }
  }
  return true;
}

// Kernel tracking: one system call instead of a fault per page. The kernel does not list these
// faults, so they are noted here.
void Engine::populate(PageId first, std::uint64_t page_count, bool is_write) noexcept {
  // then the touches will fault
  if (!platform::populate(address_of(first), page_count * kPageBytes, is_write)) return;
  for (std::uint64_t i = 0; i < page_count; ++i)
    list_as(PageId{static_cast<std::uint64_t>(first) + i},
            is_write ? PageState::kPrivate : PageState::kFile);
}

void Engine::note_page(PageId page, PageKind kind) noexcept {
  LocalPage &l = local(page);
  if (l.state == PageState::kPrivate || l.state == PageState::kGuarded) return;
  if (is_closed(l)) {
    // Its guard, which page tables tell as something swapped out; behind the end of the file there
    // are such pages, too.
    if (silent() || kind == PageKind::kAbsent) return;
    // Where all of a view is open, and its segment has grown, nobody took it from the level below
    // first. The next attempt will.
    undone_.push(page);
    if (!query_) fail_instance(AbortCause::kValidation);
    return;
  }
  // kAbsent here: touched, and reclaimed since. It was read, so it belongs to the read set.
  list_as(page, kind == PageKind::kPrivate ? PageState::kPrivate : PageState::kFile);
}

// Asks the page tables which of `list` (sorted here) are private copies by now.
void Engine::classify(PageList &list) noexcept {
  if (list.size() > 1) std::sort(list.begin(), list.end());
  constexpr std::size_t kRunMax = 512;
  PageKind kinds[kRunMax];
  for (std::size_t i = 0; i < list.size();) {
    std::size_t run = 1;
    while (i + run < list.size() && run < kRunMax &&
           static_cast<std::uint64_t>(list[i + run]) == static_cast<std::uint64_t>(list[i]) + run)
      ++run;
    const bool readable =
        page_map_.read(reinterpret_cast<std::uintptr_t>(address_of(list[i])), run, kinds);
    for (std::size_t j = 0; j < run; ++j) {
      local(list[i + j]).lists &= static_cast<std::uint8_t>(~kInFresh);
      // private when in doubt: it is then compared
      note_page(list[i + j], readable ? kinds[j] : PageKind::kPrivate);
    }
    i += run;
  }
  list.clear();
}

void Engine::collect_touched() noexcept {
  if (silent()) {
    platform::FaultRing &ring = thread_ring();
    const bool is_gone = !ring.is_open();  // the thread ends, and its instance has been left to it
    if (!is_gone && ring.empty()) return;
    std::uint64_t found = 0;
    const bool complete = !is_gone && ring.drain([&](std::uintptr_t address) {
      const View *view = view_of(address);
      if (view == nullptr) return;
      const PageId page =
          page_id(view->segment,
                  PageIndex{(address - reinterpret_cast<std::uintptr_t>(view->base)) / kPageBytes});
      LocalPage &l = local(page);
      if ((l.lists & kInFresh) != 0 || l.state == PageState::kPrivate) return;
      l.lists |= kInFresh;
      fresh_.push(page);
      ++found;
    });
    self().add(Count::kFaultsKernel, found);
    classify(fresh_);
    if (!complete) {
      // More faults than the ring holds, or no ring. The page tables know what was stored to, but
      // not what was read and reclaimed since.
      read_everything_ = true;
      scan_views();
    }
    return;
  }
  for (std::size_t i = 0; i + 1 < blocks_.size(); i += 2) {
    const std::uint32_t segment = storage::segment_number(blocks_[i]);
    const auto listed = static_cast<std::uint64_t>(blocks_[i + 1]);
    // with what the segment has grown by since
    const bool is_whole = listed * kPageBytes == views_[segment].bytes;
    const std::uint64_t count =
        is_whole ? memory_.segment_size(segment).load(std::memory_order_acquire) / kPageBytes
                 : listed;
    for (std::uint64_t j = 0; j < count; ++j) {
      const PageId page{static_cast<std::uint64_t>(blocks_[i]) + j};
      const PageState state = local(page).state;
      if (state == PageState::kFile || (is_whole && state == PageState::kAbsent)) fresh_.push(page);
    }
  }
  // blocks_ stays until the views are reset: later stores of this instance must be found again
  classify(fresh_);
}

// The ring overflowed (32,768 faults): the page tables know.
void Engine::scan_views() noexcept {
  for (const std::uint32_t segment : mapped_) {
    View &view = views_[segment];
    const auto visit = [](void *context, const platform::PageMap::Run &run) {
      View &scanned = *static_cast<View *>(context);
      const std::uint64_t first =
          (run.begin - reinterpret_cast<std::uintptr_t>(scanned.base)) / kPageBytes;
      for (std::size_t i = 0; i < run.page_count; ++i)
        scanned.engine->note_page(page_id(scanned.segment, PageIndex{first + i}), run.kind);
    };
    if (!page_map_.scan(reinterpret_cast<std::uintptr_t>(view.base), view.bytes, visit, &view))
      fail_instance(AbortCause::kNoSpace, Errc::kTrackingUnavailable);
  }
}

}  // namespace tmh::page
