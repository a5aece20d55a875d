// levels/page/engine_end.cpp -- ends: finding the writeset, validating, committing, rolling back,
// deciding what stays mapped.
// Source:    thesis, section 3.3, step 3; EXCITE-VM, sections 3 and 4 (line differences against a
//            clean copy); docs/mechanisms.md, "What every load rests on".
#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "levels/page/engine.h"
#include "levels/page/engine_thread.h"
#include "levels/page/lines.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/probes.h"
#include "platform/steps.h"

namespace tmh::page {

using platform::Step;
using platform::step;
using storage::abort_count;
using storage::Count;
using storage::kNoPin;

namespace {
// What lacked room said so with a code alone, some of it in a handler: without words of its own the
// error would have those of an earlier one.
Errc no_room(Errc error) noexcept {
  return error == Errc::kNotMapped ? error
                                   : platform::fail(error, "no room for the instance's versions");
}

// Versions that somebody's pin keeps from going home, before all pins are read again. Reading them
// costs two moves of a line (150 ns) for each process that works at the same time: 10 ns per hot
// commit. Exact tracking pays 1 us for each touch of a page whose version is not home, which is
// worth looking more often.
constexpr std::size_t kPatienceKeeping = 16, kPatienceExact = 2;
// Slots reserved in one go: a few commits' worth, so that the list of free slots is visited seldom.
constexpr std::size_t kReservedAtLeast = 16, kReservedAtMost = 64;

}  // namespace

Engine::Outcome Engine::end(bool will_wait) noexcept {
  step(Step::kCommitStart);
  touches_.collect();
  const Errc found = sets_.find_writes();
  Outcome outcome;
  if (instance_.is_query) {
    if (instance_.query_wrote == 0 && !sets_.writes().empty())
      instance_.query_wrote = sets_.first_written();
    outcome.query_wrote = instance_.query_wrote;
    outcome.status = Status::kCommitted;
    outcome.durable_at = snapshot_.at();
    outcome.durable_line = snapshot_.line();
    if (instance_.query_wrote != 0) {
      outcome.status = Status::kAborted;
      outcome.cause = AbortCause::kQueryWrote;
    }
  } else if (instance_.is_failed || instance_.was_failed()) {
    outcome.cause = instance_.is_failed ? instance_.failed_cause : AbortCause::kConflictOther;
    if (instance_.is_failed && instance_.failed_error != Errc::kOk)
      outcome.error = no_room(instance_.failed_error);
  } else if (found != Errc::kOk) {
    outcome.cause = AbortCause::kNoSpace;
    outcome.error = no_room(found);
  } else if (sets_.writes().empty()) {
    // read-only: consistent at its snapshot, which is where it stands in the serial order
    outcome.status = Status::kCommitted;
    outcome.durable_at = snapshot_.at();
    outcome.durable_line = snapshot_.line();
  } else {
    outcome = commit_writes(will_wait);
  }
  if (outcome.status == Status::kAborted) {
    sets_.roll_back();
    count_abort(outcome.cause);
    adapt(outcome.cause == AbortCause::kValidation ? KeepPolicy::End::kConflict
                                                   : KeepPolicy::End::kQuiet);
  } else {
    if (sets_.writes().empty()) sets_.settle();
    // What wrote is counted where it was published.
    if (instance_.is_query || sets_.writes().empty())
      self().add(instance_.is_query ? Count::kQueryEnds : Count::kCommits, 1);
    platform::probe::commit(platform::probe::kPages, outcome.durable_at, sets_.writes().size());
    self().add(Count::kPagesRead, lists_.kept.size());
    adapt(KeepPolicy::End::kQuiet);
  }
  finish_instance();
  return outcome;
}

// What has been written so far gets its room here: nothing of that can fail at the end. Others that
// are past their own look at the turn hold the lock, so when we have it they are done.
Errc Engine::become_irrevocable(bool *is_pending) noexcept {
  *is_pending = true;
  if (instance_.is_irrevocable) return Errc::kOk;
  turn_.take_for_good();
  step(Step::kIrrevocableTurn);
  if (snapshot_.reads_durable_only()) {  // nobody else commits from here on
    if (const Errc error = log_->flush_all(); error != Errc::kOk) {
      turn_.leave();
      *is_pending = false;
      return error;
    }
  }
  touches_.collect();
  Errc error = sets_.find_writes();
  if (error == Errc::kOk) error = sets_.allocate_blocks();
  DomainLock::Held held = lock_.take();
  if (error == Errc::kOk && !instance_.is_failed && tree_.reserved() < sets_.writes().size())
    error = tree_.reserve(held, sets_.writes().size());
  // All of it: pages that go down meanwhile are announced in it, too.
  if (error == Errc::kOk && !instance_.is_failed) error = memory_.make_log_room(held, kLogEntries);
  if (error == Errc::kOk) {
    instance_.is_irrevocable = snapshot_.is_valid(held) && snapshot_.extend(held);
    if (!instance_.is_irrevocable && !instance_.is_failed)
      instance_.fail(instance_.failed_cause != AbortCause::kNone ? instance_.failed_cause
                                                                 : AbortCause::kValidation);
  }
  held.release();
  if (!instance_.is_irrevocable) {
    turn_.leave();
    *is_pending = false;
    return error == Errc::kOk ? error : no_room(error);
  }
  self().add(Count::kIrrevocables, 1);
  step(Step::kIrrevocable);
  return Errc::kOk;
}

Errc Engine::fill_slots() noexcept {
  if (tree_.reserved() < sets_.writes().size()) {
    const DomainLock::Held held = lock_.take();
    if (const Errc error = tree_.reserve(held, std::max(sets_.writes().size(), kReservedAtLeast));
        error != Errc::kOk)
      return error;
  }
  step(Step::kCommitSlotsReserved);
  if (const Errc error = sets_.allocate_blocks(); error != Errc::kOk) return error;
  if (log_ != nullptr)
    if (const Errc error = log_->plan_reserve(sets_.writes().size()); error != Errc::kOk)
      return error;
  for (Write &write : sets_.writes()) {
    write.slot = tree_.take();
    copy_lines(memory_.version_data(write.slot), views_.address_of(write.page), write.lines);
  }
  memory_.prepare_log(snapshot_.position());
  if (log_ != nullptr) plan_log();
  step(Step::kCommitSlotsFilled);
  return Errc::kOk;
}

void Engine::plan_log() noexcept {
  // What the ring does not list is found by scanning, and must come out in the same order: see
  // DurableLog::append_wide().
  if (ConsistencyTree::is_wide(sets_.writes().size()))
    std::sort(sets_.writes().begin(), sets_.writes().end(),
              [](const Write &a, const Write &b) { return a.page < b.page; });
  log_->plan_begin();
  for (const Write &write : sets_.writes())
    log_->plan_write(write, views_.address_of(write.page), sets_.clean_copy(write.page));
}

// Takes the domain lock when there is room for what the commit enters into the ring, and for its
// log records.
std::optional<DomainLock::Held> Engine::lock_with_log_space(storage::Lsn *log_end,
                                                            Errc *error) noexcept {
  *log_end = 0;
  for (;;) {
    DomainLock::Held held = turn_.take_lock();
    *error = memory_.make_log_room(held, ConsistencyTree::entries_of(sets_.writes().size()));
    if (*error != Errc::kOk) {
      held.release();
      *error = no_room(*error);
      return std::nullopt;
    }
    if (log_ == nullptr) return held;
    const DurableLog::Room room = log_->room(held, sets_.writes().size(), log_end);
    if (room == DurableLog::Room::kYes) return held;
    held.release();
    if (*error = log_->make_room(room, *log_end); *error != Errc::kOk) return std::nullopt;
  }
}

Engine::Outcome Engine::commit_writes(bool will_wait) noexcept {
  Outcome outcome;
  const auto no_space = [&outcome](Errc error) {
    outcome.cause = AbortCause::kNoSpace;
    outcome.error = error;
    return outcome;
  };
  const auto take_slots_back = [this] {
    for (const Write &write : sets_.writes()) tree_.give_back(write.slot);
  };
  if (const Errc error = fill_slots(); error != Errc::kOk) return no_space(no_room(error));
  DomainState &state = memory_.state();
  storage::Lsn log_end = 0;
  Errc no_lock = Errc::kOk;
  std::optional<DomainLock::Held> locked = lock_with_log_space(&log_end, &no_lock);
  if (!locked) {
    take_slots_back();
    return no_space(no_lock);
  }
  DomainLock::Held &held = *locked;
  step(Step::kCommitLocked);
  if (!snapshot_.is_valid(held)) {
    outcome.cause = instance_.failed_cause;
    if (log_ != nullptr) log_->give_room_back(held);
    held.release();
    take_slots_back();
    return outcome;
  }
  const std::uint64_t versioned_before = state.versioned_stamp.load(std::memory_order_relaxed);
  const std::uint64_t stamp =
      tree_.publish(held, sets_.writes(), log_end, has_lower_ ? lower_->clock() : 0);
  outcome.durable_at = stamp;
  if (will_wait) log_->announce(stamp);
  // release: everything this instance read comes before home may change under it
  self().pin.store(kNoPin, std::memory_order_release);
  step(Step::kCommitUnpinned);
  snapshot_.stand_at_own_commit(held, stamp, versioned_before);
  if (eager()) accesses_.remove_all(held, slot_);
  const std::uint64_t began_ns = self().begin_ns.load(std::memory_order_relaxed);
  if (tree_.is_tidying_due(held, began_ns, keeps() ? kPatienceKeeping : kPatienceExact))
    tree_.tidy_own(held, began_ns);
  if (began_ns >= next_sweep_ns_) sweep(held, began_ns);
  // begins that need no lock do not look after the dead
  if (tree_.holds_own(held)) reaper_.reap_suspects(held, began_ns);
  // For the next instance, while the lock is ours anyway; when it fails the next instance learns
  // it.
  if (tree_.reserved() < std::min(sets_.writes().size(), kReservedAtMost))
    (void)tree_.reserve(held, std::clamp(sets_.writes().size(), kReservedAtLeast, kReservedAtMost));
  held.release();
  step(Step::kCommitUnlocked);
  sets_.settle_committed(instance_.number);
  outcome.status = Status::kCommitted;
  return outcome;
}

// Versions of owners that commit no more, because they idle, left or died, go home by those who
// still do. All at once would keep the lock for long, so as many as such a commit itself may take;
// until none is left, at each commit. What a pin
// keeps from going home is folded, some at each sweep.
void Engine::sweep(const DomainLock::Held &held, std::uint64_t now_ns) noexcept {
  constexpr std::size_t kSweepAtMost = 256;
  // slots in a row: 10 to 30 us, a thousandth of the period
  constexpr std::size_t kFoldAtMost = 1024;
  constexpr std::uint64_t kSweepPeriodNs =
      10'000'000;  // looking at every owner's list costs 70 ns each: 100 times a second is nothing
  if (tree_.collect(held, kSweepAtMost) >= kSweepAtMost) return;
  tree_.fold_some(held, kFoldAtMost);
  next_sweep_ns_ = now_ns + kSweepPeriodNs;
}

Engine::ReadSet Engine::read_set() noexcept {
  touches_.collect();
  ReadSet set;
  set.is_exact = !instance_.began_with_kept;
  set.has_stand_ins = !lists_.standing_in.empty();
  set.line_snapshot = snapshot_.line();
  set.announcements = memory_.state().announcements.load(std::memory_order_relaxed);
  // what memory stood in for need not be kept
  for (PageList *const read : {&lists_.kept, &lists_.standing_in}) {
    for (const PageId page : *read) {
      set.segments.set(storage::segment_number(page));
      if (set.page_count < ReadSet::kPagesMax) set.pages[set.page_count] = page;
      ++set.page_count;
    }
  }
  if (instance_.has_read_everything) {
    set.page_count = ReadSet::kPagesMax + 1;
    for (const std::uint32_t segment : views_.mapped()) set.segments.set(segment);
  }
  return set;
}

void Engine::abort(AbortCause cause) noexcept {
  touches_.collect();
  sets_.roll_back();
  count_abort(cause);
  finish_instance();
}

void Engine::count_abort(AbortCause cause) noexcept {
  const bool is_wrong = platform::is_planted(platform::Planted::kAbortMiscounted);
  self().add(abort_count(is_wrong ? AbortCause::kQueryWrote : cause), 1);
  platform::probe::abort(platform::probe::kPages, static_cast<std::uint32_t>(cause));
}

void Engine::finish_instance() noexcept {
  storage::Participant &own = self();
  instance_.is_running = false;
  instance_.is_irrevocable = false;
  engine_thread.running = nullptr;
  views_.set_access(platform::KeyAccess::kShut);
  if (eager() && own.accesses.load(std::memory_order_relaxed) != 0) {
    const DomainLock::Held held = lock_.take();
    accesses_.remove_all(held, slot_);
  }
  stand_ins_.remove_all();
  for (const PageId page : lists_.undone) views_.drop_page(page);
  lists_.undone.clear();
  // Of blocks that are open nobody looks later where their segment has grown, nor which versions
  // there are by then.
  if (!keeps() || !lists_.blocks.empty()) views_.drop_all();
  if (views_.is_left_open()) views_.close_all();
  // release: our reads come before home may change
  own.pin.store(kNoPin, std::memory_order_release);
  own.instance.store(0, std::memory_order_relaxed);
  step(Step::kAbortDone);
}

void Engine::adapt(KeepPolicy::End end) noexcept {
  if (!keeps()) return;
  if (keeping_.drops_at(end, lists_.kept.size(), lists_.privates.size(), views_.has_many_areas()))
    views_.drop_all();
}

Status Engine::validate() noexcept {
  touches_.collect();
  if (!instance_.is_failed && !instance_.is_query) {
    if (memory_.state().clock.load(std::memory_order_acquire) != snapshot_.at() || eager() ||
        instance_.was_failed()) {
      const DomainLock::Held held = lock_.take();
      if (!snapshot_.is_valid(held) && !instance_.is_failed) {
        instance_.is_failed =
            true;  // certain from here on, even for an instance that stores nothing
        self().failed_instance.store(instance_.number, std::memory_order_relaxed);
      }
    }
  }
  return instance_.is_failed ? Status::kFailed : Status::kPending;
}

}  // namespace tmh::page
