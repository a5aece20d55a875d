// levels/page/touch/claimer.cpp -- claiming pages before they are touched, and resolving conflicts
// of claims.
#include "levels/page/touch/claimer.h"

#include "observe/probes.h"
#include "observe/steps.h"
#include "platform/assert.h"

namespace tmh::page {

using observe::Step;
using observe::step;

void Claimer::claim_all(PageId first, std::uint64_t page_count, bool is_write) noexcept {
  TMH_ASSERT(registers_touches());
  TMH_ASSERT(page_count > 0);
  TMH_ASSERT(!mine_.instance.is_query && !mine_.instance.has_failed());
  for (std::uint64_t i = 0; i < page_count; ++i)  // not under the lock; there it says why not
    (void)ours_.memory.reserve_meta(PageId{static_cast<std::uint64_t>(first) + i});
  // Before the domain lock: it waits.
  if (kind_ == ClaimKind::kWaiting && !lock_all(first, page_count, is_write)) return;
  const DomainLock::Held held = ours_.lock.take(DomainLock::Context::kHandler);
  step(Step::kTouchLocked);
  if (mine_.instance.own.failed_instance.load(std::memory_order_relaxed) == mine_.instance.number) {
    mine_.instance.fail(AbortCause::kConflictOther);
  } else if (moves_snapshot() && !snapshot_.move_to_present(held)) {
    mine_.instance.fail(AbortCause::kValidation);
  } else {
    for (std::uint64_t i = 0; i < page_count && !mine_.instance.has_failed(); ++i)
      claim_one(held, PageId{static_cast<std::uint64_t>(first) + i}, is_write);
  }
  step(Step::kTouchRegistered);
}

bool Claimer::lock_all(PageId first, std::uint64_t page_count, bool is_write) noexcept {
  TMH_ASSERT(locker_ != nullptr);
  for (std::uint64_t i = 0; i < page_count; ++i)
    if (!lock_one(PageId{static_cast<std::uint64_t>(first) + i}, is_write)) return false;
  return true;
}

bool Claimer::lock_one(PageId page, bool is_write) noexcept {
  for (;;) {
    std::uint32_t blocker = PageLocker::kNoParticipant;
    const bool cannot_fail = mine_.instance.is_irrevocable;
    const Errc error = locker_->lock({page, is_write, cannot_fail}, &blocker);
    if (error == Errc::kOk) return true;
    const bool is_asked_to_end = mine_.instance.was_failed();
    // Others may hold it and wait for the turn, which this instance has.
    if (error == Errc::kLockTimeout && cannot_fail) fail_instance_of(blocker);
    if (error == Errc::kLockTimeout && !is_asked_to_end) continue;
    observe::probe::conflict(observe::probe::kPages, static_cast<std::uint64_t>(page));
    if (error == Errc::kDeadlock)
      mine_.instance.fail(AbortCause::kConflictSelf);
    else if (is_asked_to_end)
      mine_.instance.fail(AbortCause::kConflictOther);
    else
      mine_.instance.fail(AbortCause::kNoSpace, error);
    return false;
  }
}

void Claimer::fail_instance_of(std::uint32_t participant) noexcept {
  if (participant >= storage::kParticipantsMax) return;
  const DomainLock::Held held = ours_.lock.take(DomainLock::Context::kHandler);
  storage::Participant &other = ours_.memory.participant(participant);
  const std::uint64_t instance = other.instance.load(std::memory_order_relaxed);
  if (instance == 0 || other.is_query.load(std::memory_order_relaxed) != 0) return;
  // release: pairs with the acquire in Snapshot::is_valid()
  other.failed_instance.store(instance, std::memory_order_release);
}

void Claimer::claim_one(const DomainLock::Held &held, PageId page, bool is_write) noexcept {
  switch (kind_) {
    case ClaimKind::kNone:
    case ClaimKind::kWaiting:  // it has been locked
      break;
    case ClaimKind::kFailing:
      enter_or_fail(held, page, is_write);
      break;
  }
}

void Claimer::enter_or_fail(const DomainLock::Held &held, PageId page, bool is_write) noexcept {
  TMH_ASSERT(held.is_valid());
  switch (table_.add(held, page, is_write, mine_.instance.policy)) {
    case Touch::kGranted:
      break;
    case Touch::kSelfFailed:
      observe::probe::conflict(observe::probe::kPages, static_cast<std::uint64_t>(page));
      mine_.instance.fail(AbortCause::kConflictSelf);
      break;
    case Touch::kNoSpace:
      mine_.instance.fail(AbortCause::kNoSpace, table_.error());
      break;
  }
}

}  // namespace tmh::page
