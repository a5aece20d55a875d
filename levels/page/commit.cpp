// levels/page/commit.cpp -- committing an update.
//
// The protocol, with the names of its steps (observe/steps.h). A committer that dies leaves:
//
//   commit-start            Transaction::end(): what the instance has written is known
//   before the lock         each of these may fail, and then the instance aborts
//     commit-slots-reserved PageContent::make(): there are version slots, the committer's
//     commit-slots-filled   disk blocks for the pages; the slots hold the lines, the plan counts
//                           the redo records
//                           death: the reaper frees the slots (estate.h)
//   Publisher::lock_with_room(): domain lock, no other participant's turn, room in the ring and for
//                           the records, else the lock is given back and the room made
//   under the lock
//     commit-locked         Snapshot::conflict(): the last thing that can fail
//     commit-first-linked   ConsistencyTree::publish(), of Publisher: versions get the stamp
//     commit-linked         clock + 1, and hang in their pages' chains
//     commit-logged         the ring's entries say the same
//     commit-counted        the commit is counted, under a word that says for which stamp
//                           death: the heir of the lock frees what is stamped beyond the clock, and
//                           takes the count back
//     commit-point          the clock is the stamp: the commit is there, for others, too
//     commit-published      log_published has passed its entries
//     commit-unpinned       the committer's snapshot holds no version back
//   commit-unlocked         death from commit-point on: the heir makes the links anew from slots
//   behind                  its pages stay private, or go (PageSets); the log's writer makes it
//                           durable, from the slots
#include "levels/page/commit.h"

#include <algorithm>

#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/process.h"

namespace tmh::page {

using observe::Step;
using observe::step;
using storage::kNoPin;

namespace {
// Versions that a pin keeps from going home, before all pins are read again. Reading them
// costs two moves of a line (150 ns) for each process that works at the same time: 10 ns per hot
// commit. Exact tracking pays 1 us for each touch of a page whose version is not home, which is
// worth looking more often.
constexpr std::size_t kPatienceKeeping = 16, kPatienceExact = 2;
// A commit of so many pages looks for conflicts before it copies its lines, too. For fewer that
// costs more than copying them: the clock's line has to be fetched, and once more with the lock.
constexpr std::size_t kWide = 16;
}  // namespace

Outcome Commit::publish(bool will_wait) noexcept {
  TMH_ASSERT(mine_.instance.is_running && !mine_.instance.is_query);
  TMH_ASSERT(!sets_.writes().empty());
  Outcome outcome;
  outcome.cause = AbortCause::kNoSpace;
  const std::uint64_t began_ns = mine_.instance.own.begin_ns.load(std::memory_order_relaxed);
  if (outcome.error = ours_.memory.in_place().look(began_ns); outcome.error != Errc::kOk)
    return outcome;
  if (sets_.writes().size() >= kWide && !snapshot_.may_commit_so_far(sets_.writes())) {
    outcome.cause = AbortCause::kValidation;
    return outcome;
  }
  if (const Errc error = content_.make(); error != Errc::kOk) {
    outcome.error = no_room(error);
    return outcome;
  }
  storage::Lsn log_end = 0;
  std::optional<DomainLock::Held> locked =
      publisher_.lock_with_room(content_.content(), &log_end, &outcome.error);
  if (!locked) {
    content_.take_back();
    return outcome;
  }
  DomainLock::Held &held = *locked;
  step(Step::kCommitLocked);
  outcome.cause = snapshot_.conflict(held, sets_.writes());
  if (outcome.cause != AbortCause::kNone) {
    publisher_.give_room_back(held);
    held.release();
    content_.take_back();
    return outcome;
  }
  outcome.status = Status::kCommitted;
  const std::uint64_t versioned_before =
      ours_.memory.state().versioned_stamp.load(std::memory_order_relaxed);
  const std::uint64_t stamp = publisher_.publish(held, content_.content(), log_end, will_wait);
  outcome.durable_at = stamp;
  // release: everything this instance read comes before home may change under it
  mine_.instance.own.pin.store(kNoPin, std::memory_order_release);
  step(Step::kCommitUnpinned);
  snapshot_.stand_at_own_commit(held, stamp, versioned_before);
  claimer_.give_back(held);
  tidy(held);
  held.release();
  step(Step::kCommitUnlocked);
  sets_.settle_committed(mine_.instance.number);
  return outcome;
}

// While the lock is ours anyway.
void Commit::tidy(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  const std::uint64_t began_ns = mine_.instance.own.begin_ns.load(std::memory_order_relaxed);
  if (ours_.tree.is_tidying_due(held, began_ns,
                                mine_.tracking.keeps() ? kPatienceKeeping : kPatienceExact))
    ours_.tree.tidy_own(held, began_ns);
  if (ours_.tree.past().is_on(held) && ours_.tree.is_linked())
    ours_.tree.past().tend(held, platform::coarse_ns());
  if (began_ns >= next_sweep_ns_) sweep(held, began_ns);
  // begins that need no lock do not look after the dead
  if (ours_.tree.holds_own(held) || ours_.tree.past().may_have_readers(held))
    ours_.reaper.reap_suspects(held, began_ns);
  // For the next instance; when it fails the next instance learns it.
  const std::size_t written = sets_.writes().size();
  if (ours_.tree.slots().reserved() < std::min(written, VersionSlots::kReservedAtMost))
    (void)ours_.tree.slots().reserve(
        held, std::clamp(written, VersionSlots::kReservedAtLeast, VersionSlots::kReservedAtMost));
}

// Versions of owners that commit no more, because they idle, left or died, go home by those who
// still do. All at once would keep the lock for long, so as many as such a commit itself may take;
// until none is left, at each commit. What a pin keeps from going home is folded, some at each
// sweep.
void Commit::sweep(const DomainLock::Held &held, std::uint64_t now_ns) noexcept {
  TMH_ASSERT(held.is_valid());
  constexpr std::size_t kSweepAtMost = 256;
  // Slots in a row: 10 to 30 us, a thousandth of the period.
  constexpr std::size_t kFoldAtMost = 1024;
  // Looking at every owner's list costs 70 ns each: 100 times a second is nothing.
  constexpr std::uint64_t kSweepPeriodNs = 10'000'000;
  if (ours_.tree.collect(held, kSweepAtMost) >= kSweepAtMost) return;
  if (ours_.tree.is_linked()) ours_.tree.past().bound_versions(held);
  ours_.tree.fold_some(held, kFoldAtMost);
  next_sweep_ns_ = now_ns + kSweepPeriodNs;
}

}  // namespace tmh::page
