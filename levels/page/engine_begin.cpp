// levels/page/engine_begin.cpp -- snapshots: announcing them, bringing views to them, dropping
// pages.
// Source:    thesis, section 3.3, step 1 (a new instance is a child of the last committed node);
//            notes, invariants 2, 3, 5 and 7.
#include <sys/mman.h>

#include <algorithm>

#include "levels/page/engine.h"
#include "levels/page/engine_thread.h"
#include "levels/page/lines.h"
#include "platform/disk.h"
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
    Errc error = tracking_.open_ring();  // a thread's first instance
    if (error == Errc::kTrackingUnavailable) error = give_up_kernel_tracking();
    if (error != Errc::kOk) return error;
    if (silent() && !thread_ring().empty()) touches_.discard_outside();
  }
  if (memory_.segment_generation() != memory_.segments_opened_at()) {
    if (const Errc error = memory_.open_segments(); error != Errc::kOk) return error;
  }
  if (memory_.segments_opened_at() != known_generation_) note_segments();
  instance_.begin(is_query, policy);
  stand_ins_.begin_instance();
  own.age.store(age, std::memory_order_relaxed);
  own.begin_ns.store(platform::coarse_ns(), std::memory_order_relaxed);
  own.is_query.store(is_query ? 1 : 0, std::memory_order_relaxed);
  own.instance.store(instance_.number, std::memory_order_relaxed);
  own.add(is_query ? Count::kQueries : Count::kBegins, 1);
  if (!pin_without_lock()) {
    views_.set_access(platform::KeyAccess::kOpen);  // pull() stores to private pages
    const DomainLock::Held held = lock_.take();
    step(Step::kBeginLocked);
    if (is_query && platform::is_planted(platform::Planted::kQueryUncounted))
      own.add(Count::kQueries, ~0ull);
    reaper_.reap_suspects(held, platform::coarse_ns());
    tree_.collect(held, kCollectPerBegin);
    pull(held);
    snapshot_ = state.clock.load(std::memory_order_relaxed);
    announce_snapshot(snapshot_);
  }
  step(Step::kBeginPinned);
  instance_.began_with_kept = !lists_.kept.empty();
  instance_.is_running = true;
  engine_thread.running = this;
  views_.set_access(is_query ? platform::KeyAccess::kReadOnly : platform::KeyAccess::kOpen);
  platform::probe::begin(platform::probe::kPages, instance_.number, is_query ? 1 : 0);
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
  if (has_lower_)
    self().line_pin.store(lower_->clock(), std::memory_order_relaxed);  // the pin's store orders it
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
    const std::uint64_t clock =
        // acquire: the log entries of its commits are there
        state.clock.load(std::memory_order_acquire);
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
        platform::is_planted(platform::Planted::kBeginLooksOnce)) {
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
  if (lists_.kept.size() > kFewPages) return false;
  for (const PageId page : lists_.kept) {
    const PageState shown = views_.local(page).state;
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
    if (!views_.is_mapped(page)) continue;
    if (entry.lines == 0) {
      if ((views_.local(page).lists & kResident) != 0) return false;
      continue;
    }
    const PageState shown = views_.local(page).state;
    if (shown == PageState::kGuarded || (shown == PageState::kAbsent && !silent())) continue;
    // A page mapped from home, or that would be: right as soon as home has the commit. acquire: see
    // tree_.may_have_version().
    const bool from_home = shown == PageState::kAbsent || shown == PageState::kFile;
    if (!from_home || memory_.meta(page).newest.load(std::memory_order_acquire) != 0) return false;
  }
  return state.log_head.load(std::memory_order_acquire) - synced_position_ <= kLogEntries / 2;
}

// Brings every page that this process holds to the clock.
void Engine::pull(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = memory_.state();
  const std::uint64_t head = state.log_head.load(std::memory_order_relaxed);
  if (resync_needed_ || head - synced_position_ > std::min(kLogEntries, kFollowMax)) {
    views_.drop_all();
    views_.lose_all(Views::kAllSegments);
    if (silent()) views_.guard_pending(held, Views::kAllSegments);
    resync_needed_ = false;
  } else {
    const std::uint64_t own = self().incarnation.load(std::memory_order_relaxed);
    for (std::uint64_t at = synced_position_; at < head; ++at) {
      const CommitLogEntry &entry = memory_.log_entry(at);
      // synced_position_ may lag (log_published). What the views had before the running instance
      // began must not come over its stores.
      if (entry.stamp.load(std::memory_order_relaxed) <= synced_) continue;
      if (entry.incarnation != own && views_.is_mapped(PageId{entry.page})) refresh(held, entry);
    }
    // A repair may have linked a version again that had gone home just before: no log entry tells
    // that its page has one.
    if (silent() && state.repairs.load(std::memory_order_relaxed) != repairs_seen_)
      views_.guard_pending(held, Views::kAllSegments);
    if (views_.is_left_open() && !instance_.is_running) views_.close_all();
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
  for (const PageId page : lists_.resident) {
    if (!lower_->is_resident(held, page)) views_.lose(page);
  }
  if (silent() && state.repairs.load(std::memory_order_relaxed) != repairs_seen_)
    views_.guard_pending(held, Views::kAllSegments);
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
    if (!instance_.is_running || !lower_->is_resident(held, page)) views_.lose(page);
    return;
  }
  LocalPage &l = views_.local(page);
  const bool versioned = memory_.meta(page).newest.load(std::memory_order_relaxed) != 0;
  switch (l.state) {
    case PageState::kPrivate:
    case PageState::kReadOnly:
      if (l.twin == 0) {
        views_.drop_page(page);
      } else {
        // Where the page belongs to level 1 by now this may be half a commit of it: an entry behind
        // this one tells of the release, and the page is lost before anybody reads it.
        tree_.read(held, page, ~0ull, entry.lines, views_.address_of(page));
        copy_lines(lists_.twins.data(l.twin), views_.address_of(page), entry.lines);
      }
      break;
    case PageState::kFile:
      if (versioned) views_.drop_page(page);
      break;
    case PageState::kAbsent:
      // Also when home has it by now: a page that others go on writing, and we leave alone, would
      // bring us here at each of their commits.
      if (silent() && (versioned || (l.lists & kWrittenElsewhere) != 0)) views_.guard(page);
      l.lists |= kWrittenElsewhere;
      break;
    case PageState::kGuarded:
      break;
  }
}

}  // namespace tmh::page
