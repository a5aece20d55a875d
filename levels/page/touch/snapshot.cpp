// levels/page/touch/snapshot.cpp -- pinning a snapshot, validating it, moving it on; following the
// commit log.
#include "levels/page/touch/snapshot.h"

#include <algorithm>

#include "levels/page/shared/shared.h"
#include "levels/page/touch/mechanisms.h"
#include "observe/planted.h"
#include "observe/probes.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/prefetch.h"

namespace tmh::page {

using observe::Step;
using observe::step;
using storage::kNoPin;

namespace {
constexpr int kUnlockedRounds = 4;
// Looking at the stamps of this many pages costs no more than reading one log entry that another
// process wrote.
constexpr std::size_t kFewPages = 16;
// Following the log page by page costs more than starting again beyond this many entries.
constexpr std::uint64_t kFollowMax = 1u << 16;
// So many entries are read without the lock, ahead of a commit.
constexpr std::uint64_t kEntriesAhead = 1u << 16;

// Does the ring still have each commit in [from, head)? A wide one is not listed, and moves the
// head on by more than the ring. One whose committer died before its commit point may have
// overwritten what lies up to half a ring further back.
bool are_listed(std::uint64_t from, std::uint64_t head) noexcept {
  return head - from <= kLogEntries / 2;
}

bool invalid_by(PageId page) noexcept {
  observe::probe::conflict(observe::probe::kPages, static_cast<std::uint64_t>(page));
  return false;
}
}  // namespace

void Snapshot::start(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  synced_ = kept_synced_ = ours_.memory.state().clock.load(std::memory_order_relaxed);
  synced_position_ = ours_.memory.state().log_head.load(std::memory_order_relaxed);
  repairs_seen_ = ours_.memory.state().repairs.load(std::memory_order_relaxed);
  resync_needed_ = false;
}

// For knows_too_little(). The generation first: what is made after it is looked for again.
void Snapshot::note_new_segments() noexcept {
  known_generation_ = ours_.memory.segments_opened_at();
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i)
    known_.set(i, ours_.memory.segment(i).is_open.load(std::memory_order_acquire));
}

// The clock below is read between the store of the pin and the last look at our own clock: so both
// belong to one cut (PROTOCOL.md).
void Snapshot::announce(std::uint64_t clock) noexcept {
  const bool is_none = observe::is_planted(observe::Planted::kLinePinLate);
  if (ours_.has_lower)  // the pin's store orders it
    mine_.instance.own.line_pin.store(is_none ? ~0ull : ours_.recaller->clock(),
                                      std::memory_order_relaxed);
  step(Step::kGapBeginLinePin);
  mine_.instance.own.pin.store(clock, std::memory_order_seq_cst);
  step(Step::kGapBeginAnnounced);
  if (ours_.has_lower) line_ = ours_.recaller->clock();
}

// Wait-free for others; a few rounds, for a commit between reading the clock and the pin means
// another try.
bool Snapshot::pin_without_lock() noexcept {
  DomainState &state = ours_.memory.state();
  if (resync_needed_) return false;
  // The log entry that this instance will write if it commits, or one more: fetching it under the
  // lock would keep others waiting for 70 ns.
  platform::prefetch_to_write(
      &ours_.memory.commits().entry(state.log_head.load(std::memory_order_relaxed) + 1));
  for (int round = 0; round < kUnlockedRounds; ++round) {
    // Before the clock (acquire): entries below it are then stamped <= clock.
    const std::uint64_t published = state.log_published.load(std::memory_order_acquire);
    // acquire: the log entries of its commits are there
    const std::uint64_t clock = state.clock.load(std::memory_order_acquire);
    std::uint64_t position = synced_position_;
    bool follow = false;
    if (clock != synced_) {
      if (state.repairs.load(std::memory_order_relaxed) != repairs_seen_) return false;
      follow = ours_.has_lower || !views_stand();  // stamps do not tell of pages that went below
      if (follow && !foreign_commits_are_elsewhere(clock, &position)) return false;
      if (!follow) position = std::max(position, published);
    }
    step(Step::kGapBeginLooked);
    // seq_cst store, then seq_cst load: see consistency_tree.h. Who reads pins after a later commit
    // finds ours.
    announce(clock);
    if (state.clock.load(std::memory_order_seq_cst) == clock ||
        observe::is_planted(observe::Planted::kBeginLooksOnce)) {
      at_ = synced_ = kept_synced_ = clock;
      synced_position_ = position;
      if (follow) follow_needed_ = false;
      return true;
    }
    mine_.instance.own.pin.store(kNoPin, std::memory_order_relaxed);
  }
  return false;
}
void Snapshot::pin(const DomainLock::Held &held) noexcept {
  pull(held);
  at_ = ours_.memory.state().clock.load(std::memory_order_relaxed);
  announce(at_);
}

// The same as foreign_commits_are_elsewhere(), without looking at a line that another process wrote
// when its commits were elsewhere: few pages are kept, none was committed since, and no page that
// is not kept has become one whose home must not be shown. False: perhaps. REQUIRES: the clock has
// been acquired; the stamps of its commits are there. No repair since the last pull().
bool Snapshot::views_stand() noexcept {
  if (mine_.tracking.is_silent() && (follow_needed_ || ours_.memory.state().versioned_stamp.load(
                                                           std::memory_order_relaxed) > synced_))
    return false;
  if (mine_.kept.pages().size() > kFewPages) return false;
  for (const PageId page : mine_.kept.pages()) {
    const PageState shown = mine_.views.local(page).state;
    if (shown == PageState::kAbsent || shown == PageState::kGuarded) continue;
    if (ours_.memory.meta_to_read(page).stamp.load(std::memory_order_relaxed) > kept_synced_)
      return false;
  }
  return true;
}

// True when every commit up to `clock` that this process has not followed yet left alone what its
// views show: *position is then behind the last of them. Without the lock: entries are immutable
// until the ring comes round, which takes kLogEntries more.
bool Snapshot::foreign_commits_are_elsewhere(std::uint64_t clock,
                                             std::uint64_t *position) noexcept {
  constexpr std::uint64_t kEntriesMax = 64;  // more are followed faster under the lock, at once
  DomainState &state = ours_.memory.state();
  const std::uint64_t own = mine_.instance.own.incarnation.load(std::memory_order_relaxed);
  // pairs with the release in log()
  const std::uint64_t head = state.log_head.load(std::memory_order_acquire);
  if (head - *position > kEntriesMax) return false;
  for (; *position < head; ++*position) {
    const CommitLogEntry &entry = ours_.memory.commits().entry(*position);
    // Being committed, or left by one that died before its commit point. Then the entry may be
    // rewritten under us, with a stamp that is beyond our clock as well, and nothing else of it is
    // read. relaxed: log_head's acquire covers every entry up to the clock.
    if (entry.stamp.load(std::memory_order_relaxed) > clock) break;
    if (entry.incarnation == own) continue;
    const PageId page{entry.page};
    if (!mine_.views.is_mapped(page)) continue;
    if (entry.lines == 0) {
      if ((mine_.views.local(page).lists & kResident) != 0) return false;
      continue;
    }
    const PageState shown = mine_.views.local(page).state;
    if (shown == PageState::kGuarded ||
        (shown == PageState::kAbsent && !mine_.tracking.is_silent()))
      continue;
    // A page mapped from home, or that would be: right as soon as home has the commit. acquire: see
    // ours_.tree.may_have_version().
    const bool from_home = shown == PageState::kAbsent || shown == PageState::kFile;
    if (!from_home || ours_.memory.meta(page).newest.load(std::memory_order_acquire) != 0)
      return false;
  }
  return state.log_head.load(std::memory_order_acquire) - synced_position_ <= kLogEntries / 2;
}

// Brings every page that this process holds to the clock.
void Snapshot::pull(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = ours_.memory.state();
  const std::uint64_t head = state.log_head.load(std::memory_order_relaxed);
  if (resync_needed_ || head - synced_position_ > std::min(kLogEntries, kFollowMax)) {
    mine_.views.drop_all();
    mine_.views.lose_all(Views::kAllSegments);
    if (mine_.tracking.is_silent()) mine_.views.guard_pending(held, Views::kAllSegments);
    resync_needed_ = false;
  } else {
    const std::uint64_t own = mine_.instance.own.incarnation.load(std::memory_order_relaxed);
    for (std::uint64_t at = synced_position_; at < head; ++at) {
      const CommitLogEntry &entry = ours_.memory.commits().entry(at);
      // synced_position_ may lag (log_published). What the views had before the running instance
      // began must not come over its stores.
      if (entry.stamp.load(std::memory_order_relaxed) <= synced_) continue;
      if (entry.incarnation != own && mine_.views.is_mapped(PageId{entry.page}))
        refresh(held, entry);
    }
    // A repair may have linked a version again that had gone home just before: no log entry tells
    // that its page has one.
    if (mine_.tracking.is_silent() &&
        state.repairs.load(std::memory_order_relaxed) != repairs_seen_)
      mine_.views.guard_pending(held, Views::kAllSegments);
    if (mine_.views.is_left_open() && !mine_.instance.is_running) mine_.views.close_all();
  }
  repairs_seen_ = state.repairs.load(std::memory_order_relaxed);
  synced_ = kept_synced_ = state.clock.load(std::memory_order_relaxed);
  synced_position_ = head;
  follow_needed_ = false;
}

// pull() while an irrevocable instance runs, however long. REQUIRES: the log tells of nothing but
// releases.
void Snapshot::follow_releases(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = ours_.memory.state();
  for (const PageId page : mine_.residents.pages()) {
    if (!ours_.recaller->is_resident(held, page)) mine_.views.lose(page);
  }
  if (mine_.tracking.is_silent() && state.repairs.load(std::memory_order_relaxed) != repairs_seen_)
    mine_.views.guard_pending(held, Views::kAllSegments);
  repairs_seen_ = state.repairs.load(std::memory_order_relaxed);
  synced_ = kept_synced_ = state.clock.load(std::memory_order_relaxed);
  synced_position_ = state.log_head.load(std::memory_order_relaxed);
  follow_needed_ = false;
}

void Snapshot::refresh(const DomainLock::Held &held, const CommitLogEntry &entry) noexcept {
  TMH_ASSERT(held.is_valid());
  const PageId page{entry.page};
  if (entry.lines == 0) {
    // While an instance runs (extend()) nothing is taken from it: a release that found it running
    // has told and then given up.
    if (!mine_.instance.is_running || !ours_.recaller->is_resident(held, page))
      mine_.views.lose(page);
    return;
  }
  LocalPage &l = mine_.views.local(page);
  const bool versioned = ours_.memory.meta(page).newest.load(std::memory_order_relaxed) != 0;
  switch (l.state) {
    case PageState::kClean:
      replay_.gather(held, page, entry.lines);
      break;
    case PageState::kPrivate:
    case PageState::kReadOnly:
      if (l.twin == 0) {
        mine_.views.drop_page(page);
      } else {
        // Where the page belongs to level 1 by now this may be half a commit of it: an entry behind
        // this one tells of the release, and the page is lost before any instance reads it.
        ours_.tree.read(held, page, ~0ull, entry.lines, mine_.views.address_of(page));
        copy_lines(mine_.twins.data(l.twin), mine_.views.address_of(page), entry.lines);
      }
      break;
    case PageState::kFile:
      if (versioned) mine_.views.drop_page(page);
      break;
    case PageState::kAbsent:
      // Also when home has it by now: a page that others go on writing, and we leave alone, would
      // bring us here at each of their commits.
      if (mine_.tracking.is_silent() && (versioned || (l.lists & kWrittenElsewhere) != 0))
        mine_.views.guard(page);
      l.lists |= kWrittenElsewhere;
      break;
    case PageState::kGuarded:
      break;
  }
}

// No page of the read set has a stamp behind the snapshot.
bool Snapshot::kept_pages_are_old() const noexcept {
  for (const PageId page : mine_.kept.pages()) {
    const PageState shown = mine_.views.local(page).state;
    if (shown == PageState::kAbsent || shown == PageState::kGuarded) continue;
    if (ours_.memory.meta_to_read(page).stamp.load(std::memory_order_relaxed) > at_)
      return invalid_by(page);
  }
  return true;
}

// Does an entry of the commit log in [from, to) that is newer than the snapshot name a page that
// the instance counts as read?
bool Snapshot::names_page_read(std::uint64_t from, std::uint64_t to, PageId *page) const noexcept {
  for (; from < to; ++from) {
    const CommitLogEntry &entry = ours_.memory.commits().entry(from);
    if (entry.stamp.load(std::memory_order_relaxed) <= at_ || entry.lines == 0) continue;
    *page = PageId{entry.page};
    // Without the lock the ring may come round meanwhile, with a commit of no page.
    if (*page != PageId{kWideCommit} && is_read(*page)) return true;
  }
  return false;
}

AbortCause Snapshot::find_conflict_of_reads(const DomainLock::Held &held) const noexcept {
  const AbortCause failed = mine_.instance.why_failed();
  if (failed != AbortCause::kNone) return failed;
  return no_page_was_committed(held) ? AbortCause::kNone : AbortCause::kValidation;
}

AbortCause Snapshot::find_conflict(const DomainLock::Held &held,
                                   const std::vector<Write> &writes) const noexcept {
  if (mine_.instance.is_serializable()) return find_conflict_of_reads(held);
  const AbortCause failed = mine_.instance.why_failed();
  if (failed != AbortCause::kNone) return failed;
  return no_line_was_committed(held, writes) ? AbortCause::kNone : AbortCause::kValidation;
}

// Where others have committed since the snapshot.
bool Snapshot::no_page_was_committed(const DomainLock::Held &held) const noexcept {
  TMH_ASSERT(held.is_valid());
  if (observe::is_planted(observe::Planted::kPageNoValidation)) return true;
  if (mine_.instance.has_read_everything) return false;  // the read set is not known page by page
  const std::uint64_t head = ours_.memory.state().log_head.load(std::memory_order_relaxed);
  const std::uint64_t from = validated_position();
  // Whichever is less to look at. Stamps of one's own pages mostly lie in one's own cache, others'
  // log entries never do.
  if (claims_move_it_ || !are_listed(from, head) || mine_.kept.pages().size() < head - from + 16)
    return kept_pages_are_old();
  PageId page{};
  return !names_page_read(from, head, &page) || invalid_by(page);
}

// The first committer wins. Versions newer than the snapshot stay while it is pinned, and none of
// them is folded into one that is older.
bool Snapshot::no_line_was_committed(const DomainLock::Held &held,
                                     const std::vector<Write> &writes) const noexcept {
  TMH_ASSERT(held.is_valid());
  if (observe::is_planted(observe::Planted::kNoLineCheck)) return true;
  const std::uint64_t head = ours_.memory.state().log_head.load(std::memory_order_relaxed);
  const std::uint64_t from = validated_position();
  PageId page{};
  // As above. What is written counts as read, but for what was promoted where the fault ring has
  // overflowed: it may be listed nowhere.
  const bool are_named = are_listed(from, head) && !mine_.instance.has_read_everything;
  if (are_named && head - from + 16 <= writes.size() && !names_page_read(from, head, &page))
    return true;
  for (const Write &write : writes) {
    if (ours_.memory.meta_to_read(write.page).stamp.load(std::memory_order_relaxed) <= at_)
      continue;
    if ((ours_.tree.lines_since(held, write.page, at_) & write.lines) != 0)
      return invalid_by(write.page);
  }
  return true;
}

// A stamp behind the snapshot may be that of a commit in the lock, which has validated and is about
// to be published. Should its committer die before that, this instance fails for nothing. It cannot
// pass over the stamp, which may hide an earlier commit to the page.
bool Snapshot::may_commit_so_far(const std::vector<Write> &writes) noexcept {
  if (claims_move_it_ || mine_.instance.has_failed() || mine_.instance.is_irrevocable ||
      mine_.instance.has_read_everything || !validates_ahead.load(std::memory_order_relaxed))
    return true;
  if (observe::is_planted(observe::Planted::kPageNoValidation) ||
      observe::is_planted(observe::Planted::kNoLineCheck))
    return true;
  const DomainState &state = ours_.memory.state();
  // Before the clock (acquire): entries below it are then stamped <= clock, and all other ones that
  // will ever be published come behind it.
  const std::uint64_t published = state.log_published.load(std::memory_order_acquire);
  // acquire: pairs with the release in ConsistencyTree::publish(). The stamps and entries of its
  // commits are there.
  if (state.clock.load(std::memory_order_acquire) != at_) {
    const std::uint64_t behind = published - std::min(published, synced_position_);
    bool is_valid = false;
    if (!mine_.instance.is_serializable()) {
      const auto is_new = [&](const Write &write) {
        return ours_.memory.meta_to_read(write.page).stamp.load(std::memory_order_relaxed) > at_;
      };
      // Which lines only versions tell, and these only under the lock.
      is_valid = std::none_of(writes.begin(), writes.end(), is_new) ||
                 no_line_was_committed(ours_.lock.take(), writes);
    } else if (behind > kEntriesAhead || mine_.kept.pages().size() < behind + 16) {
      is_valid = kept_pages_are_old();
    } else {
      PageId page{};
      const bool is_named = names_page_read(synced_position_, published, &page);
      // Else the ring has come round meanwhile.
      const bool are_there =
          state.log_head.load(std::memory_order_acquire) - synced_position_ <= kLogEntries / 2;
      is_valid = are_there ? !is_named || invalid_by(page) : kept_pages_are_old();
    }
    if (!is_valid) return false;
  }
  validated_instance_ = mine_.instance.number;
  validated_position_ = std::max(published, synced_position_);
  return true;
}

void Snapshot::stand_at_own_commit(const DomainLock::Held &held, std::uint64_t stamp,
                                   std::uint64_t versioned_before) noexcept {
  TMH_ASSERT(held.is_valid());
  const DomainState &state = ours_.memory.state();
  // The next begin follows what came in between.
  if (stamp != at_ + 1 && !mine_.instance.is_serializable() &&
      !observe::is_planted(observe::Planted::kStandsPastOthers))
    return;
  kept_synced_ = stamp;
  const bool no_first_version = versioned_before <= synced_ && !follow_needed_ &&
                                state.repairs.load(std::memory_order_relaxed) == repairs_seen_;
  if (stamp != synced_ + 1 && mine_.tracking.is_silent() && !no_first_version) return;
  synced_ = stamp;
  synced_position_ = state.log_head.load(std::memory_order_relaxed);
}

// Has a segment been made since the instance began? A pointer into it may be in
// what has been committed since, and who looks behind each begin what there is (libxac, for its
// heap) has not mapped it: so no snapshot moves on past that. Not of an irrevocable instance, whose
// snapshot must move on; no other instance commits at level 2.
bool Snapshot::knows_too_little(const DomainLock::Held &held) const noexcept {
  TMH_ASSERT(held.is_valid());
  if (mine_.instance.is_irrevocable || ours_.memory.segment_generation() == known_generation_)
    return false;
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    const bool is_there = storage::is_used(ours_.memory.control().segments[i]);
    if (is_there && !known_.test(i) && mine_.views.of(i).base == nullptr) return true;
  }
  return false;
}

// A begin waits for the log; a running instance cannot.
bool Snapshot::may_see_now(const DomainLock::Held &held) const noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(!reads_durable_only_ || log_ != nullptr);
  return !reads_durable_only_ || mine_.instance.is_irrevocable ||
         log_->durable_clock() >= ours_.memory.state().clock.load(std::memory_order_relaxed);
}

bool Snapshot::extend(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = ours_.memory.state();
  // What stands in for a page is its state at this snapshot, and nothing tells of later commits to
  // it; as of what only undo words know.
  if (mine_.instance.has_failed() || resync_needed_ || mine_.views.any_stands_in() ||
      mine_.instance.has_read_behind)
    return false;
  if (knows_too_little(held) || !may_see_now(held)) return false;
  // Claims: each touch has moved the snapshot to its present, past commits that the log since begin
  // still tells of. Bringing what they wrote once more would overwrite this instance's stores; and
  // what it has not touched is inaccessible.
  if (!claims_move_it_ && state.clock.load(std::memory_order_relaxed) != at_) {
    mine_.touches.collect();
    // Beyond kFollowMax pull() starts again, which an instance that has stored something does not
    // survive.
    const bool in_log =
        state.log_head.load(std::memory_order_relaxed) - synced_position_ <= kFollowMax;
    if (conflict_of_reads(held) != AbortCause::kNone) return false;
    if (!in_log && !mine_.instance.is_irrevocable) return false;
    if (!in_log)
      follow_releases(held);
    else if (!observe::is_planted(observe::Planted::kExtendNoFollow))
      pull(held);
    replay_.finish();
    if (mine_.views.is_left_open()) return false;  // a later touch there would go unnoticed
  }
  at_ = state.clock.load(std::memory_order_relaxed);
  // forward: it never uncovers a home that changed
  mine_.instance.own.pin.store(at_, std::memory_order_seq_cst);
  if (!ours_.has_lower) return true;
  // What is durable of both levels is one cut, too: the log has them in one order.
  line_ = reads_durable_only_ && !mine_.instance.is_irrevocable ? log_->durable_line()
                                                                : ours_.recaller->clock();
  mine_.instance.own.line_pin.store(line_, std::memory_order_release);
  return true;
}

// The instance moves below the last committed node (thesis 3.3, step 4): by Invariant 3 nothing
// that it has touched was committed since, so its snapshot can be the present one. A pin that moves
// forward never uncovers a home that changed.
bool Snapshot::move_to_present(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(claims_move_it_);
  if (knows_too_little(held) || !may_see_now(held)) return false;
  at_ = ours_.memory.state().clock.load(std::memory_order_relaxed);
  mine_.instance.own.pin.store(at_, std::memory_order_seq_cst);
  return true;
}

}  // namespace tmh::page
