// levels/page/commit.cpp -- committing an update.
#include "levels/page/commit.h"

#include <algorithm>

#include "levels/page/lines.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/process.h"
#include "platform/try.h"

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
// Slots reserved in one go: a few commits' worth, so that the list of free slots is visited seldom.
constexpr std::size_t kReservedAtLeast = 16, kReservedAtMost = 64;
}  // namespace

Outcome Commit::publish(bool will_wait) noexcept {
  TMH_ASSERT(instance_.is_running && !instance_.is_query);
  TMH_ASSERT(!sets_.writes().empty());
  TMH_ASSERT(!will_wait || log_ != nullptr);
  Outcome outcome;
  outcome.cause = AbortCause::kNoSpace;
  const std::uint64_t began_ns = instance_.own.begin_ns.load(std::memory_order_relaxed);
  if (outcome.error = memory_.in_place().look(began_ns); outcome.error != Errc::kOk) return outcome;
  if (sets_.writes().size() >= kWide && !snapshot_.may_commit_so_far(lock_, sets_.writes())) {
    outcome.cause = instance_.failed_cause;
    return outcome;
  }
  if (const Errc error = fill_slots(); error != Errc::kOk) {
    outcome.error = no_room(error);
    return outcome;
  }
  storage::Lsn log_end = 0;
  std::optional<DomainLock::Held> locked = lock_with_log_space(&log_end, &outcome.error);
  if (!locked) {
    take_slots_back();
    return outcome;
  }
  DomainLock::Held &held = *locked;
  step(Step::kCommitLocked);
  if (!snapshot_.may_commit(held, sets_.writes())) {
    outcome.cause = instance_.failed_cause;
    if (log_ != nullptr) log_->give_room_back(held);
    held.release();
    take_slots_back();
    return outcome;
  }
  outcome.status = Status::kCommitted;
  outcome.cause = AbortCause::kNone;
  const std::uint64_t versioned_before =
      memory_.state().versioned_stamp.load(std::memory_order_relaxed);
  const std::uint64_t stamp =
      tree_.publish(held, sets_.writes(), log_end, has_lower_ ? recaller_->clock() : 0);
  outcome.durable_at = stamp;
  if (will_wait) log_->announce(stamp);
  // release: everything this instance read comes before home may change under it
  instance_.own.pin.store(kNoPin, std::memory_order_release);
  step(Step::kCommitUnpinned);
  snapshot_.stand_at_own_commit(held, stamp, versioned_before);
  accesses_.remove_all(held);
  tidy(held);
  held.release();
  step(Step::kCommitUnlocked);
  sets_.settle_committed(instance_.number);
  return outcome;
}

// While the lock is ours anyway.
void Commit::tidy(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  const std::uint64_t began_ns = instance_.own.begin_ns.load(std::memory_order_relaxed);
  if (tree_.is_tidying_due(held, began_ns, tracking_.keeps() ? kPatienceKeeping : kPatienceExact))
    tree_.tidy_own(held, began_ns);
  if (tree_.past().is_on(held) && tree_.is_linked()) tree_.past().tend(held, platform::coarse_ns());
  if (began_ns >= next_sweep_ns_) sweep(held, began_ns);
  // begins that need no lock do not look after the dead
  if (tree_.holds_own(held) || tree_.past().may_have_readers(held))
    reaper_.reap_suspects(held, began_ns);
  // For the next instance; when it fails the next instance learns it.
  const std::size_t written = sets_.writes().size();
  if (tree_.slots().reserved() < std::min(written, kReservedAtMost))
    (void)tree_.slots().reserve(held, std::clamp(written, kReservedAtLeast, kReservedAtMost));
}

Errc Commit::fill_slots() noexcept {
  if (tree_.slots().reserved() < sets_.writes().size()) {
    const DomainLock::Held held = lock_.take();
    TMH_TRY(tree_.slots().reserve(held, std::max(sets_.writes().size(), kReservedAtLeast)));
  }
  step(Step::kCommitSlotsReserved);
  TMH_TRY(sets_.allocate_blocks());
  if (log_ != nullptr) TMH_TRY(log_->plan_reserve(sets_.writes().size()));
  for (Write &write : sets_.writes()) {
    TMH_ASSERT(write.lines != 0);
    write.slot = tree_.slots().take();
    copy_lines(memory_.version_data(write.slot), views_.address_of(write.page), write.lines);
  }
  memory_.commits().prepare(snapshot_.position());
  if (log_ != nullptr) plan_log();
  step(Step::kCommitSlotsFilled);
  return Errc::kOk;
}

void Commit::take_slots_back() noexcept {
  for (const Write &write : sets_.writes()) tree_.slots().give_back(write.slot);
  TMH_ASSERT(tree_.slots().reserved() >= sets_.writes().size());
}

void Commit::plan_log() noexcept {
  TMH_ASSERT(log_ != nullptr);
  // What the ring does not list is found by scanning, and must come out in the same order: see
  // RedoEncoder::append_wide().
  if (ConsistencyTree::is_wide(sets_.writes().size()))
    std::sort(sets_.writes().begin(), sets_.writes().end(),
              [](const Write &a, const Write &b) { return a.page < b.page; });
  log_->plan_begin();
  for (const Write &write : sets_.writes())
    log_->plan_write(write, views_.address_of(write.page), sets_.clean_copy(write.page));
}

std::optional<DomainLock::Held> Commit::lock_with_log_space(storage::Lsn *log_end,
                                                            Errc *error) noexcept {
  *log_end = 0;
  for (;;) {
    DomainLock::Held held = turn_.take_lock();
    *error = memory_.commits().make_room(held, ConsistencyTree::entries_of(sets_.writes().size()));
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
  if (tree_.collect(held, kSweepAtMost) >= kSweepAtMost) return;
  if (tree_.is_linked()) tree_.past().bound_versions(held);
  tree_.fold_some(held, kFoldAtMost);
  next_sweep_ns_ = now_ns + kSweepPeriodNs;
}

}  // namespace tmh::page
