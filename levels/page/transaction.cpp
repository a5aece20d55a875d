// levels/page/transaction.cpp -- beginning, validating, ending and aborting instances.
#include "levels/page/transaction.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "levels/page/views/views.h"
#include "observe/planted.h"
#include "observe/probes.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/fault_handler.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::page {

using observe::Step;
using observe::step;
using storage::abort_count;
using storage::Count;
using storage::kNoPin;

namespace {
// Versions sent home per slow begin: enough to keep up with others' commits, little enough (50 us)
// not to hold the lock long.
constexpr std::size_t kCollectPerBegin = 256;
}  // namespace

Transaction::Transaction(Ours &ours, Mine &mine, Touching &touching) noexcept
    : ours_(ours),
      mine_(mine),
      stand_ins_(touching.stand_ins),
      snapshot_(touching.snapshot),
      claimer_(touching.claimer),
      first_touch_(touching.first_touch),
      copier_(touching.copier),
      evictor_(mine.views, mine.kept, mine.twins, mine.instance),
      sets_(ours, mine, touching.snapshot),
      commit_(ours, mine, sets_, touching.snapshot, touching.claimer) {}

Errc Transaction::begin(bool is_query, std::uint64_t age, ConflictPolicy policy,
                        Isolation isolation) noexcept {
  TMH_ASSERT(!mine_.instance.is_running);
  step(Step::kBeginStart);
  TMH_TRY(listen());
  if (ours_.memory.segment_generation() != ours_.memory.segments_opened_at())
    TMH_TRY(ours_.memory.open_segments());
  snapshot_.note_segments();
  // No other instance writes what this one has read.
  if (isolation == Isolation::kSnapshot && claimer_.registers_touches())
    isolation = Isolation::kSerializable;
  mine_.instance.begin({.is_query = is_query, .policy = policy, .isolation = isolation});
  stand_ins_.begin_instance();
  storage::Participant &own = mine_.instance.own;
  own.age.store(age, std::memory_order_relaxed);
  own.begin_ns.store(platform::coarse_ns(), std::memory_order_relaxed);
  own.is_query.store(is_query ? 1 : 0, std::memory_order_relaxed);
  own.instance.store(mine_.instance.number, std::memory_order_relaxed);
  own.add(is_query ? Count::kQueries : Count::kBegins, 1);
  if (!snapshot_.pin_without_lock()) pin_with_lock();
  step(Step::kBeginPinned);
  mine_.instance.began_with_kept = !mine_.kept.pages().empty();
  mine_.instance.is_running = true;
  engine_thread.running = &mine_.instance;
  mine_.views.set_access(is_query ? platform::KeyAccess::kReadOnly : platform::KeyAccess::kOpen);
  observe::probe::begin(observe::probe::kPages, mine_.instance.number,
                        observe::probe::begins(is_query));
  return Errc::kOk;
}

// The pin stands at the present, so home stands still where it is right; the moment itself is held
// by Participant::past.
Errc Transaction::begin_past(const Moment &moment, ConflictPolicy policy) noexcept {
  std::uint64_t clock = 0;
  TMH_TRY(ours_.tree.past().enter(ours_.lock.take(), mine_.instance.own, moment, &clock));
  Errc error = begin(true, 0, policy, Isolation::kSerializable);
  if (error != Errc::kOk) {
    ours_.tree.past().leave(mine_.instance.own);
    return error;
  }
  error = show_past(clock);
  if (error != Errc::kOk) abort(AbortCause::kUser);
  return error;
}

// What the views show goes, and each page that is another one at that moment must come to us. A
// page that becomes so later has a version later than our pin, which stays away from home.
Errc Transaction::show_past(std::uint64_t moment) noexcept try {
  mine_.instance.past = moment;
  mine_.views.drop_all();
  if (!mine_.tracking.is_silent()) return Errc::kOk;
  std::vector<PageId> pages;
  {
    const DomainLock::Held held = ours_.lock.take();
    pages = ours_.tree.pages_of_past(held, moment);
  }
  for (const PageId page : pages)
    if (mine_.views.is_mapped(page) && mine_.views.local(page).state == PageState::kAbsent)
      mine_.views.guard(page);
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return Errc::kOutOfMemory;
}

void Transaction::leave_past() noexcept {
  mine_.views.drop_all();
  ours_.tree.past().leave(mine_.instance.own);
  mine_.instance.past = Instance::kPresent;
}

// This thread's first touches become known from here on.
inline Errc Transaction::listen() noexcept {
  if (!engine_thread.takes_faults) [[unlikely]] {
    platform::unblock_faults();
    engine_thread.takes_faults = true;
  }
  if (!mine_.tracking.is_silent()) return Errc::kOk;
  if (!has_open_ring()) [[unlikely]] {  // a thread's first instance
    Errc error = mine_.tracking.open_ring();
    if (error == Errc::kTrackingUnavailable) error = first_touch_.give_up_kernel_tracking();
    if (error != Errc::kOk || !mine_.tracking.is_silent()) return error;
  }
  if (!thread_ring().empty()) mine_.touches.discard_outside();
  return Errc::kOk;
}

// Follows the commit log, and does for others what begins do that take the lock anyway.
void Transaction::pin_with_lock() noexcept {
  mine_.views.set_access(platform::KeyAccess::kOpen);  // Snapshot::pin() stores to private pages
  {
    const DomainLock::Held held = ours_.lock.take();
    step(Step::kBeginLocked);
    if (mine_.instance.is_query && observe::is_planted(observe::Planted::kQueryUncounted))
      mine_.instance.own.add(Count::kQueries, ~0ull);
    ours_.reaper.reap_suspects(held, platform::coarse_ns());
    ours_.tree.collect(held, kCollectPerBegin);
    snapshot_.pin(held);
  }
  snapshot_.finish_pin();
}

Status Transaction::validate() noexcept {
  TMH_ASSERT(mine_.instance.is_running);
  mine_.touches.collect();
  if (mine_.instance.has_failed()) return Status::kFailed;
  // What it has read may change; what it has written is compared at its end.
  if (mine_.instance.is_query ||
      (!mine_.instance.is_serializable() && !mine_.instance.was_failed()))
    return Status::kPending;
  // The clock tells all of a snapshot that has stood still. acquire: pairs with the release in
  // ConsistencyTree::publish()
  if (ours_.memory.state().clock.load(std::memory_order_acquire) == snapshot_.at() &&
      !claimer_.moves_snapshot() && !mine_.instance.was_failed())
    return Status::kPending;
  const DomainLock::Held held = ours_.lock.take();
  const AbortCause conflict = snapshot_.conflict_of_reads(held);
  // Certain from here on, even for an instance that stores nothing.
  if (conflict != AbortCause::kNone) mine_.instance.fail(conflict);
  return mine_.instance.has_failed() ? Status::kFailed : Status::kPending;
}

// What has been written so far gets its room here: nothing of that can fail at the end. Others that
// are past their own look at the turn hold the lock, so when we have it they are done.
Errc Transaction::become_irrevocable(bool *is_pending) noexcept {
  TMH_ASSERT(mine_.instance.is_running && !mine_.instance.is_query);
  *is_pending = true;
  if (mine_.instance.is_irrevocable) return Errc::kOk;
  *is_pending = false;
  if (!ours_.turn.take_for_good()) {
    mine_.instance.fail(AbortCause::kConflictOther);
    return Errc::kOk;
  }
  step(Step::kIrrevocableTurn);
  // No other instance commits from here on.
  if (const Errc error = snapshot_.await_durable(); error != Errc::kOk) {
    ours_.turn.leave();
    return error;
  }
  mine_.touches.collect();
  Errc error = sets_.find_writes();
  if (error == Errc::kOk) error = sets_.allocate_blocks();
  {
    const DomainLock::Held held = ours_.lock.take();
    if (error == Errc::kOk && !mine_.instance.has_failed()) error = reserve_for_good(held);
    if (error == Errc::kOk) mine_.instance.is_irrevocable = move_to_present(held);
  }
  if (!mine_.instance.is_irrevocable) {
    ours_.turn.leave();
    return error == Errc::kOk ? error : no_room(error);
  }
  *is_pending = true;
  mine_.instance.own.add(Count::kIrrevocables, 1);
  step(Step::kIrrevocable);
  return Errc::kOk;
}

Errc Transaction::reserve_for_good(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  if (ours_.tree.slots().reserved() < sets_.writes().size())
    TMH_TRY(ours_.tree.slots().reserve(held, sets_.writes().size()));
  // All of it: pages that go down meanwhile are announced in it, too.
  return ours_.memory.commits().make_room(held, kLogEntries);
}

// False: the instance has FAILED.
bool Transaction::move_to_present(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  const AbortCause conflict = snapshot_.conflict_of_reads(held);
  if (conflict == AbortCause::kNone && snapshot_.extend(held)) return true;
  if (!mine_.instance.has_failed())
    mine_.instance.fail(conflict != AbortCause::kNone ? conflict : AbortCause::kValidation);
  return false;
}

Outcome Transaction::end(bool will_wait) noexcept {
  TMH_ASSERT(mine_.instance.is_running);
  step(Step::kCommitStart);
  mine_.touches.collect();
  const Errc found = sets_.find_writes();
  const Outcome outcome = mine_.instance.is_query ? end_query() : end_update(found, will_wait);
  if (outcome.status == Status::kAborted)
    settle_aborted(outcome.cause);
  else
    settle_committed(outcome);
  finish();
  return outcome;
}

namespace {
// What the page held in this process is gone.
[[gnu::noinline]] Errc fail_changed(const SharedState &memory, PageId page) noexcept {
  const char *const name = memory.control().segments[storage::segment_number(page)].name;
  return platform::fail(Errc::kFileShrunk, std::string(name) +
                                               ": its file was cut and made long again while this "
                                               "process has it open, and byte " +
                                               std::to_string(storage::page_offset(page)) +
                                               " has changed by that");
}
}  // namespace

inline Outcome Transaction::end_query() noexcept {
  TMH_ASSERT(mine_.instance.is_query);
  Outcome outcome;
  if (mine_.instance.query_wrote == 0 && !sets_.writes().empty() &&
      (mine_.instance.query_wrote = sets_.first_written()) == 0) {
    outcome.cause = AbortCause::kNoSpace;
    outcome.error = fail_changed(ours_.memory, sets_.writes().front().page);
    return outcome;
  }
  outcome.query_wrote = mine_.instance.query_wrote;
  outcome.durable_at = snapshot_.at();
  outcome.durable_line = snapshot_.line();
  if (mine_.instance.query_wrote != 0)
    outcome.cause = AbortCause::kQueryWrote;
  else
    outcome.status = Status::kCommitted;
  return outcome;
}

// found: of find_writes().
inline Outcome Transaction::end_update(Errc found, bool will_wait) noexcept {
  TMH_ASSERT(!mine_.instance.is_query);
  Outcome outcome;
  if (outcome.cause = mine_.instance.why_failed(); outcome.cause != AbortCause::kNone) {
    if (mine_.instance.has_failed() && mine_.instance.failed_error() != Errc::kOk)
      outcome.error = no_room(mine_.instance.failed_error());
  } else if (found != Errc::kOk) {
    outcome.cause = AbortCause::kNoSpace;
    outcome.error = no_room(found);
  } else if (sets_.writes().empty()) {
    // Consistent at its snapshot, which is where it stands in the serial order.
    outcome.status = Status::kCommitted;
    outcome.durable_at = snapshot_.at();
    outcome.durable_line = snapshot_.line();
  } else {
    outcome = commit_.publish(will_wait);
  }
  return outcome;
}

inline void Transaction::settle_committed(const Outcome &outcome) noexcept {
  TMH_ASSERT(outcome.status == Status::kCommitted && outcome.cause == AbortCause::kNone);
  storage::Participant &own = mine_.instance.own;
  const std::size_t written = sets_.writes().size();
  if (written == 0) sets_.settle();
  if (!mine_.instance.is_query && !mine_.instance.is_serializable())
    own.add(Count::kSnapshotCommits, 1);
  // What wrote is counted where it was published.
  if (mine_.instance.is_query || written == 0)
    own.add(mine_.instance.is_query ? Count::kQueryEnds : Count::kCommits, 1);
  observe::probe::commit(observe::probe::kPages, outcome.durable_at, written);
  own.add(Count::kPagesRead, mine_.kept.pages().size());
  if (recorder_ != nullptr) [[unlikely]]
    record(outcome);
  adapt(KeepPolicy::End::kQuiet);
}

// Exact tracking: `kept` is what this instance has touched.
[[gnu::noinline]] void Transaction::record(const Outcome &outcome) noexcept {
  recorder_->record([&](observe::SkewInstance &to) {
    std::vector<std::uint64_t> &pages = recorder_->pages();
    for (const PageList *const list : {&mine_.kept.pages(), &stand_ins_.pages()})
      for (const PageId page : *list) pages.push_back(static_cast<std::uint64_t>(page));
    const auto add = [](const std::vector<Write> &from, std::vector<observe::SkewPair> *pairs) {
      for (const Write &write : from)
        pairs->push_back({static_cast<std::uint64_t>(write.page), write.lines});
    };
    if (!mine_.instance.is_query) {
      add(sets_.writes(), &to.writes);
      if (sets_.has_promotions()) add(sets_.promotions(), &to.promotions);
    }
    to.kind = mine_.instance.is_query            ? observe::SkewKind::kQuery
              : mine_.instance.is_serializable() ? observe::SkewKind::kSerializable
                                                 : observe::SkewKind::kSnapshot;
    to.has_unknown_reads = mine_.instance.has_read_everything;
    to.snapshot = mine_.instance.reads_past() ? mine_.instance.past : snapshot_.at();
    // acquire: what it has not seen was committed later
    to.end = to.writes.empty() ? ours_.memory.state().clock.load(std::memory_order_acquire)
                               : outcome.durable_at;
  });
}

void Transaction::settle_aborted(AbortCause cause) noexcept {
  TMH_ASSERT(cause != AbortCause::kNone);
  sets_.roll_back();
  count_abort(cause);
  adapt(cause == AbortCause::kValidation ? KeepPolicy::End::kConflict : KeepPolicy::End::kQuiet);
}

void Transaction::abort(AbortCause cause) noexcept {
  TMH_ASSERT(mine_.instance.is_running);
  TMH_ASSERT(cause != AbortCause::kNone);
  mine_.touches.collect();
  sets_.roll_back();
  count_abort(cause);
  finish();
}

void Transaction::count_abort(AbortCause cause) noexcept {
  const bool is_wrong = observe::is_planted(observe::Planted::kAbortMiscounted);
  mine_.instance.own.add(abort_count(is_wrong ? AbortCause::kQueryWrote : cause), 1);
  observe::probe::abort(observe::probe::kPages, static_cast<std::uint32_t>(cause));
}

void Transaction::adapt(KeepPolicy::End end) noexcept {
  if (!mine_.tracking.keeps()) return;
  // What a snapshot instance has read can cause no conflict: only memory counts.
  if (!mine_.instance.is_serializable()) [[unlikely]]
    return evictor_.evict();
  if (mine_.keeping.drops_at(end, mine_.kept.pages().size(), mine_.kept.privates().size(),
                             mine_.views.areas().are_many()))
    mine_.views.drop_all();
}

void Transaction::finish() noexcept {
  TMH_ASSERT(mine_.instance.is_running);
  storage::Participant &own = mine_.instance.own;
  mine_.instance.is_running = false;
  mine_.instance.is_irrevocable = false;
  engine_thread.running = nullptr;
  mine_.views.set_access(platform::KeyAccess::kShut);
  claimer_.give_back();
  stand_ins_.remove_all();
  TMH_ASSERT(stand_ins_.pages().empty());
  mine_.touches.drop_undone();
  // An open block is not looked at again when its segment has grown, or when its pages have got
  // versions: it does not outlive the instance.
  if (!mine_.tracking.keeps() || mine_.kept.has_blocks()) mine_.views.drop_all();
  if (mine_.instance.reads_past()) leave_past();
  if (mine_.views.is_left_open()) mine_.views.close_all();
  evictor_.publish_size();
  // release: our reads come before home may change
  own.pin.store(kNoPin, std::memory_order_release);
  own.instance.store(0, std::memory_order_relaxed);
  step(Step::kAbortDone);
}

namespace {
// Of the bytes [first, last] of a page.
constexpr LineMask lines_of(std::uint64_t first, std::uint64_t last) noexcept {
  const std::uint64_t count = last / kLineBytes - first / kLineBytes + 1;
  return (~LineMask{0} >> (storage::kLinesPerPage - count)) << (first / kLineBytes);
}
}  // namespace

Errc Transaction::promote(std::uintptr_t begin, std::uint64_t bytes) noexcept {
  TMH_ASSERT(mine_.instance.is_running);
  const View *view = mine_.views.find(begin);
  if (view == nullptr) return Errc::kNotMapped;
  const std::uint64_t size =
      ours_.memory.segment_size(view->segment).load(std::memory_order_acquire);
  std::uint64_t offset = begin - reinterpret_cast<std::uintptr_t>(view->base);
  if (bytes > size || offset > size - bytes) return Errc::kNotMapped;
  // Where touches are registered there is no writer beside a reader.
  if (mine_.instance.is_query || claimer_.registers_touches()) return Errc::kOk;
  for (std::uint64_t left = bytes; left > 0;) {
    const std::uint64_t in_page = offset % kPageBytes;
    const std::uint64_t part = std::min(left, kPageBytes - in_page);
    const PageId page = storage::page_id(view->segment, storage::PageIndex{offset / kPageBytes});
    // A first touch, which shows the page as the snapshot has it.
    static_cast<void>(
        std::atomic_ref(*mine_.views.address_of(page)).load(std::memory_order_relaxed));
    TMH_TRY(sets_.promote(page, lines_of(in_page, in_page + part - 1)));
    offset += part;
    left -= part;
  }
  return Errc::kOk;
}

ReadSet Transaction::read_set() noexcept {
  mine_.touches.collect();
  ReadSet set;
  set.is_exact = !mine_.instance.began_with_kept;
  set.has_stand_ins = !stand_ins_.pages().empty();
  set.line_snapshot = snapshot_.line();
  set.announcements = ours_.memory.state().announcements.load(std::memory_order_relaxed);
  // what memory stood in for need not be kept
  for (const PageList *const read : {&mine_.kept.pages(), &stand_ins_.pages()}) {
    for (const PageId page : *read) {
      set.segments.set(storage::segment_number(page));
      if (set.page_count < ReadSet::kPagesMax) set.pages[set.page_count] = page;
      ++set.page_count;
    }
  }
  if (mine_.instance.has_read_everything) {
    set.page_count = ReadSet::kPagesMax + 1;
    for (const std::uint32_t segment : mine_.views.mapped()) set.segments.set(segment);
  }
  return set;
}

}  // namespace tmh::page
