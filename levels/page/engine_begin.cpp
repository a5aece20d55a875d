// levels/page/engine_begin.cpp -- snapshots: announcing them, bringing views to them, dropping
// pages.
// Source:    thesis, section 3.3, step 1 (a new instance is a child of the last committed node);
//            docs/mechanisms.md, "What every load rests on".
#include <sys/mman.h>

#include <algorithm>

#include "levels/page/engine.h"
#include "levels/page/engine_thread.h"
#include "levels/page/lines.h"
#include "observe/planted.h"
#include "platform/fault_handler.h"
#include "platform/prefetch.h"
#include "platform/probes.h"
#include "platform/process.h"
#include "platform/steps.h"

namespace tmh::page {

using platform::Step;
using platform::step;
using storage::Count;
using storage::kNoPin;
using storage::page_id;
using storage::page_index;
using storage::PageIndex;

namespace {
// Versions sent home per slow begin: enough to keep up with others' commits, little enough (50 us)
// not to hold the lock long.
constexpr std::size_t kCollectPerBegin = 256;
constexpr int kUnlockedRounds = 4;
// Looking at the stamps of this many pages costs no more than reading one log entry that another
// process wrote.
constexpr std::size_t kFewPages = 16;
}  // namespace

Errc Engine::begin(bool is_query, std::uint64_t age, ConflictPolicy policy) noexcept {
  step(Step::kBeginStart);
  storage::Participant &own = self();
  DomainState &state = memory_.state();
  if (!engine_thread.takes_faults) [[unlikely]] {
    platform::unblock_faults();
    engine_thread.takes_faults = true;
  }
  if (silent()) {
    Errc error = open_ring();  // a thread's first instance
    if (error == Errc::kTrackingUnavailable) error = give_up_kernel_tracking();
    if (error != Errc::kOk) return error;
    if (silent() && !thread_ring().empty()) discard_outside_touches();
  }
  if (memory_.segment_generation() != memory_.segments_opened_at()) {
    if (const Errc error = memory_.open_segments(); error != Errc::kOk) return error;
  }
  if (memory_.segments_opened_at() != known_generation_) note_segments();
  ++instance_;
  query_ = is_query;
  policy_ = policy;
  failed_ = false;
  irrevocable_ = false;
  read_everything_ = false;
  read_behind_ = false;
  failed_cause_ = AbortCause::kNone;
  failed_error_ = Errc::kOk;
  hole_ = kNoHole;
  query_wrote_ = 0;
  own.age.store(age, std::memory_order_relaxed);
  own.begin_ns.store(platform::coarse_ns(), std::memory_order_relaxed);
  own.is_query.store(is_query ? 1 : 0, std::memory_order_relaxed);
  own.instance.store(instance_, std::memory_order_relaxed);
  own.add(is_query ? Count::kQueries : Count::kBegins, 1);
  if (!pin_without_lock()) {
    set_access(platform::KeyAccess::kOpen);  // pull() stores to private pages
    const DomainLock::Held held = lock_.take();
    step(Step::kBeginLocked);
    if (is_query && observe::is_planted(observe::Planted::kQueryUncounted))
      own.add(Count::kQueries, ~0ull);
    reap_suspects(held, platform::coarse_ns());
    tree_.collect(held, kCollectPerBegin);
    pull(held);
    snapshot_ = state.clock.load(std::memory_order_relaxed);
    announce_snapshot(snapshot_);
  }
  step(Step::kBeginPinned);
  began_with_kept_ = !kept_.empty();
  running_ = true;
  engine_thread.running = this;
  set_access(is_query ? platform::KeyAccess::kReadOnly : platform::KeyAccess::kOpen);
  platform::probe::begin(platform::probe::kPages, instance_, is_query ? 1 : 0);
  return Errc::kOk;
}

// For knows_too_little(). The generation first: what is made after it is looked for again.
void Engine::note_segments() noexcept {
  known_generation_ = memory_.segments_opened_at();
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i)
    known_.set(i, memory_.segment(i).is_open.load(std::memory_order_acquire));
}

// The clock below is read between the store of the pin and the last look at our own clock: so both
// belong to one cut (PROTOCOL.md).
void Engine::announce_snapshot(std::uint64_t clock) noexcept {
  const bool is_none = observe::is_planted(observe::Planted::kLinePinLate);
  if (has_lower_)  // the pin's store orders it
    self().line_pin.store(is_none ? ~0ull : lower_->clock(), std::memory_order_relaxed);
  step(Step::kGapBeginLinePin);
  self().pin.store(clock, std::memory_order_seq_cst);
  step(Step::kGapBeginAnnounced);
  if (has_lower_) line_snapshot_ = lower_->clock();
}

// Announces the snapshot without the lock when no foreign commit since the last instance concerns
// what this process holds. Wait-free for others; a few rounds, for a commit between reading the
// clock and the pin means another try.
bool Engine::pin_without_lock() noexcept {
  DomainState &state = memory_.state();
  if (resync_needed_) return false;
  // The log entry that this instance will write if it commits, or one more: fetching it under the
  // lock would keep others waiting for 70 ns.
  platform::prefetch_to_write(
      &memory_.log_entry(state.log_head.load(std::memory_order_relaxed) + 1));
  for (int round = 0; round < kUnlockedRounds; ++round) {
    // Before the clock (acquire): entries below it are then stamped <= clock.
    const std::uint64_t published = state.log_published.load(std::memory_order_acquire);
    // acquire: the log entries of its commits are there
    const std::uint64_t clock = state.clock.load(std::memory_order_acquire);
    std::uint64_t position = synced_position_;
    bool follow = false;
    if (clock != synced_) {
      if (state.repairs.load(std::memory_order_relaxed) != repairs_seen_) return false;
      follow = has_lower_ || !views_stand();  // stamps do not tell of pages that went below
      if (follow && !foreign_commits_are_elsewhere(clock, &position)) return false;
      if (!follow) position = std::max(position, published);
    }
    step(Step::kGapBeginLooked);
    // seq_cst store, then seq_cst load: see consistency_tree.h. Who reads pins after a later commit
    // finds ours.
    announce_snapshot(clock);
    if (state.clock.load(std::memory_order_seq_cst) == clock ||
        observe::is_planted(observe::Planted::kBeginLooksOnce)) {
      snapshot_ = synced_ = kept_synced_ = clock;
      synced_position_ = position;
      if (follow) follow_needed_ = false;
      return true;
    }
    self().pin.store(kNoPin, std::memory_order_relaxed);
  }
  return false;
}

// The same as foreign_commits_are_elsewhere(), without looking at a line that another process wrote
// when its commits were elsewhere: few pages are kept, none was committed since, and no page that
// is not kept has become one whose home must not be shown. False: perhaps. REQUIRES: the clock has
// been acquired; the stamps of its commits are there. No repair since the last pull().
bool Engine::views_stand() noexcept {
  if (silent() &&
      (follow_needed_ || memory_.state().versioned_stamp.load(std::memory_order_relaxed) > synced_))
    return false;
  if (kept_.size() > kFewPages) return false;
  for (const PageId page : kept_) {
    const PageState shown = local(page).state;
    if (shown == PageState::kAbsent || shown == PageState::kGuarded) continue;
    if (memory_.meta_to_read(page).stamp.load(std::memory_order_relaxed) > kept_synced_)
      return false;
  }
  return true;
}

// True when every commit up to `clock` that this process has not followed yet left alone what its
// views show: *position is then behind the last of them. Without the lock: entries are immutable
// until the ring comes round, which takes kLogEntries more.
bool Engine::foreign_commits_are_elsewhere(std::uint64_t clock, std::uint64_t *position) noexcept {
  constexpr std::uint64_t kEntriesMax = 64;  // more are followed faster under the lock, at once
  DomainState &state = memory_.state();
  const std::uint64_t own = self().incarnation.load(std::memory_order_relaxed);
  // pairs with the release in log()
  const std::uint64_t head = state.log_head.load(std::memory_order_acquire);
  if (head - *position > kEntriesMax) return false;
  for (; *position < head; ++*position) {
    const CommitLogEntry &entry = memory_.log_entry(*position);
    // Being committed, or left by one that died before its commit point. Then the entry may be
    // rewritten under us, with a stamp that is beyond our clock as well, and nothing else of it is
    // read. relaxed: log_head's acquire covers every entry up to the clock.
    if (entry.stamp.load(std::memory_order_relaxed) > clock) break;
    if (entry.incarnation == own) continue;
    const PageId page{entry.page};
    if (!is_mapped(page)) continue;
    if (entry.lines == 0) {
      if ((local(page).lists & kResident) != 0) return false;
      continue;
    }
    const PageState shown = local(page).state;
    if (shown == PageState::kGuarded || (shown == PageState::kAbsent && !silent())) continue;
    // A page mapped from home, or that would be: right as soon as home has the commit. acquire: see
    // needs_versions().
    const bool from_home = shown == PageState::kAbsent || shown == PageState::kFile;
    if (!from_home || memory_.meta(page).newest.load(std::memory_order_acquire) != 0) return false;
  }
  return state.log_head.load(std::memory_order_acquire) - synced_position_ <= kLogEntries / 2;
}

// Pages that this thread touched between instances: what they show belongs to no snapshot, and
// stores to them to nobody.
void Engine::discard_outside_touches() noexcept {
  const bool complete = thread_ring().drain([&](std::uintptr_t address) {
    const View *view = view_of(address);
    if (view == nullptr) return;
    const PageId page =
        page_id(view->segment,
                PageIndex{(address - reinterpret_cast<std::uintptr_t>(view->base)) / kPageBytes});
    const PageState known = local(page).state;
    if (known == PageState::kAbsent || known == PageState::kFile) drop_page(page);
  });
  if (complete) return;
  scan_views();  // more faults than the ring holds, of which some may be ours
  drop_all();
}

// Brings every page that this process holds to the clock.
void Engine::pull(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = memory_.state();
  const std::uint64_t head = state.log_head.load(std::memory_order_relaxed);
  if (resync_needed_ || head - synced_position_ > std::min(kLogEntries, kFollowMax)) {
    drop_all();
    lose_all(kAllSegments);
    if (silent()) guard_pending(held, kAllSegments);
    resync_needed_ = false;
  } else {
    const std::uint64_t own = self().incarnation.load(std::memory_order_relaxed);
    for (std::uint64_t at = synced_position_; at < head; ++at) {
      const CommitLogEntry &entry = memory_.log_entry(at);
      // synced_position_ may lag (log_published). What the views had before the running instance
      // began must not come over its stores.
      if (entry.stamp.load(std::memory_order_relaxed) <= synced_) continue;
      if (entry.incarnation != own && is_mapped(PageId{entry.page})) refresh(held, entry);
    }
    // A repair may have linked a version again that had gone home just before: no log entry tells
    // that its page has one.
    if (silent() && state.repairs.load(std::memory_order_relaxed) != repairs_seen_)
      guard_pending(held, kAllSegments);
    if (is_left_open_ && !running_) close_views();
  }
  repairs_seen_ = state.repairs.load(std::memory_order_relaxed);
  synced_ = kept_synced_ = state.clock.load(std::memory_order_relaxed);
  synced_position_ = head;
  follow_needed_ = false;
}

// pull() while an irrevocable instance runs, however long. REQUIRES: the log tells of nothing but
// releases.
void Engine::follow_releases(const DomainLock::Held &held) noexcept {
  DomainState &state = memory_.state();
  for (const PageId page : resident_) {
    if (!lower_->is_resident(held, page)) lose(page);
  }
  if (silent() && state.repairs.load(std::memory_order_relaxed) != repairs_seen_)
    guard_pending(held, kAllSegments);
  repairs_seen_ = state.repairs.load(std::memory_order_relaxed);
  synced_ = kept_synced_ = state.clock.load(std::memory_order_relaxed);
  synced_position_ = state.log_head.load(std::memory_order_relaxed);
  follow_needed_ = false;
}

void Engine::refresh(const DomainLock::Held &held, const CommitLogEntry &entry) noexcept {
  const PageId page{entry.page};
  if (entry.lines == 0) {
    // While an instance runs (extend()) nothing is taken from it: a release that found it running
    // has told and then given up.
    if (!running_ || !lower_->is_resident(held, page)) lose(page);
    return;
  }
  LocalPage &l = local(page);
  const bool versioned = memory_.meta(page).newest.load(std::memory_order_relaxed) != 0;
  switch (l.state) {
    case PageState::kPrivate:
    case PageState::kReadOnly:
      if (l.twin == 0) {
        drop_page(page);
      } else {
        // Where the page belongs to level 1 by now this may be half a commit of it: an entry behind
        // this one tells of the release, and the page is lost before anybody reads it.
        tree_.read(held, page, ~0ull, entry.lines, address_of(page));
        copy_lines(twins_.data(l.twin), address_of(page), entry.lines);
      }
      break;
    case PageState::kFile:
      if (versioned) drop_page(page);
      break;
    case PageState::kAbsent:
      // Also when home has it by now: a page that others go on writing, and we leave alone, would
      // bring us here at each of their commits.
      if (silent() && (versioned || (l.lists & kWrittenElsewhere) != 0)) guard(page);
      l.lists |= kWrittenElsewhere;
      break;
    case PageState::kGuarded:
      break;
  }
}

// The next touch must come to us. Where the kernel refuses a guard (no memory for page tables),
// protection does it.
void Engine::guard(PageId page) noexcept {
  std::byte *at = address_of(page);
  if (!platform::guard_install(at, kPageBytes)) {
    discard(page, 1);
    mprotect(at, kPageBytes, PROT_NONE);
    any_protected_ = true;
  }
  local(page).state = PageState::kGuarded;
}

// The level below has the page, or may have it: the next touch must ask.
void Engine::lose(PageId page) noexcept {
  LocalPage &l = local(page);
  if ((l.lists & kResident) == 0) return;
  l.lists &= static_cast<std::uint8_t>(~kResident);
  if (l.state == PageState::kGuarded) return;
  drop_page(page);
  if (silent() && l.state == PageState::kAbsent) guard(page);
}

void Engine::lose_all(std::uint32_t segment) noexcept {
  std::size_t still = 0;
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    const PageId page = resident_[i];
    if (segment != kAllSegments && storage::segment_number(page) != segment) {
      resident_[still++] = page;
      continue;
    }
    lose(page);
    local(page).lists &= static_cast<std::uint8_t>(~kInResident);
  }
  resident_.truncate(still);
}

void Engine::vacate() noexcept {
  for (PageList *list : {&kept_, &resident_}) {
    for (const PageId page : *list) {
      LocalPage &l = local(page);
      twins_.give_back(l.twin);
      l = LocalPage{PageState::kAbsent, 0, static_cast<std::uint8_t>(l.lists & kHasBlocks), 0, 0};
    }
  }
  for (PageList *list : {&kept_, &private_, &blocks_, &resident_}) list->clear();
  twins_.forget();
  protections_ = 0;
  any_protected_ = false;
  ahead_ = 0;
  for (const std::uint32_t segment : mapped_) views_[segment].open_blocks.forget_from(0);
}

// Pages whose newest content is not home yet must not be mapped silently.
void Engine::guard_pending(const DomainLock::Held &held, std::uint32_t segment) noexcept {
  TMH_ASSERT(held.is_valid());
  const std::uint32_t owners = memory_.participants_high();
  for (std::uint32_t owner = 0; owner < owners; ++owner) {
    for (Slot slot = memory_.participant(owner).versions.oldest; slot != 0;
         slot = memory_.version(slot).list_newer) {
      const PageId page{memory_.version(slot).page};
      if (!is_mapped(page) || (segment != kAllSegments && storage::segment_number(page) != segment))
        continue;
      if (local(page).state == PageState::kAbsent) guard(page);
    }
  }
}

// What neighbouring pages hold goes; all else about them stays.
void Engine::discard(PageId first, std::uint64_t page_count) noexcept {
  if (platform::drop(address_of(first), page_count * kPageBytes)) return;
  for (std::uint64_t i = 0; i < page_count; ++i)
    map_anew(PageId{static_cast<std::uint64_t>(first) + i});
}

// Neighbouring pages are as if never touched. Needs no lock: versions it does not see here are
// stamped later than the next pull's start.
void Engine::drop_run(PageId first, std::uint64_t page_count) noexcept {
  std::byte *at = address_of(first);
  const auto versioned = [&](PageId page) {
    return memory_.meta_to_read(page).newest.load(std::memory_order_acquire) != 0;
  };
  const bool guard_drops = silent() && page_count == 1 && versioned(first);
  if (!guard_drops) discard(first, page_count);
  if (!silent()) {
    // Closing pages among open ones makes areas, of which there may be no more (vm.max_map_count):
    // then all of the view is closed before anybody touches it again, or the touch, and what is
    // stored, would go unnoticed.
    if (mprotect(at, page_count * kPageBytes, PROT_NONE) != 0) is_left_open_ = true;
    ++protections_;
  }
  for (std::uint64_t i = 0; i < page_count; ++i) {
    const PageId page{static_cast<std::uint64_t>(first) + i};
    LocalPage &l = local(page);
    twins_.give_back(l.twin);
    l.twin = 0;
    l.unchanged_compares = 0;
    l.state = PageState::kAbsent;
    if (guard_drops || (silent() && versioned(page))) guard(page);
  }
}

// All kept pages of all views. Two system calls per view however many pages: everything else in a
// view is absent or guarded, and guards survive MADV_DONTNEED.
void Engine::drop_all() noexcept {
  constexpr std::size_t kOneByOne = 4;
  if (kept_.size() <= kOneByOne && blocks_.empty() && silent()) {
    for (const PageId page : kept_) {
      if (local(page).state != PageState::kAbsent && local(page).state != PageState::kGuarded)
        drop_page(page);
      local(page).lists &= kLasting;
    }
  } else if (!kept_.empty()) {
    drop_spans();
  }
  kept_.clear();
  private_.clear();
  blocks_.clear();
  twins_.forget();
  protections_ = 0;
}

// The same, and nothing of a view stays accessible. Whole views: that makes areas fewer, never
// more.
void Engine::close_views() noexcept {
  drop_all();
  for (const std::uint32_t segment : mapped_) {
    View &view = views_[segment];
    if (mprotect(view.base, view.bytes, PROT_NONE) != 0)
      (void)memory_.segment(segment).home.map_view_again(view.base);
  }
  is_left_open_ = false;
}

void Engine::drop_spans() noexcept {
  for (const std::uint32_t segment : mapped_) {
    std::uint64_t low = ~0ull, high = 0;
    for (const PageId page : kept_) {
      if (storage::segment_number(page) != segment) continue;
      low = std::min(low, static_cast<std::uint64_t>(page_index(page)));
      high = std::max(high, static_cast<std::uint64_t>(page_index(page)));
    }
    if (low > high) continue;
    std::byte *at = views_[segment].base + low * kPageBytes;
    if (!platform::drop(at, (high - low + 1) * kPageBytes)) {
      for (const PageId page : kept_) {
        const PageState state = local(page).state;
        if (storage::segment_number(page) == segment && state != PageState::kAbsent &&
            state != PageState::kGuarded)
          map_anew(page);
      }
    }
    if (!silent())
      // whole: the pieces become one area again
      mprotect(views_[segment].base, views_[segment].bytes, PROT_NONE);
  }
  for (const PageId page : kept_) {
    LocalPage &l = local(page);
    twins_.give_back(l.twin);
    const bool was_guarded = l.state == PageState::kGuarded;
    l = LocalPage{PageState::kAbsent, 0, static_cast<std::uint8_t>(l.lists & kLasting),
                  l.written_epoch, 0};
    if (was_guarded)
      l.state = PageState::kGuarded;
    else if (silent() && memory_.meta_to_read(page).newest.load(std::memory_order_acquire) != 0)
      guard(page);
  }
}

}  // namespace tmh::page
