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

void Claimer::claim_one(const DomainLock::Held &held, PageId page, bool is_write) noexcept {
  switch (kind_) {
    case ClaimKind::kNone:
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
