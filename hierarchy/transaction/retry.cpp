// hierarchy/transaction/retry.cpp -- the sleep between two attempts: its count, and its errors.
#include "hierarchy/transaction/retry.h"

#include "hierarchy/domain/domain.h"
#include "hierarchy/transaction/raise.h"
#include "platform/failure.h"

namespace tmh::detail {

using platform::fail;

void count_sleep(DomainImpl &domain, const Slept &slept) noexcept {
  if (slept.sleeps == 0) return;
  const auto open = domain.keep_open();
  if (domain.usable() != Errc::kOk) return;
  storage::Participant &own = domain.memory().participant(domain.slot());
  own.add_from_any_thread(storage::Count::kRetrySleeps, slept.sleeps);
  own.add_from_any_thread(storage::Count::kRetryWakes, slept.wakes);
}

Errc fail_unmapped() noexcept {
  return fail(Errc::kNotMapped, "unmapped while retry() waited for a change in it");
}

void raise_nothing_read() {
  fail(Errc::kNothingRead, "retry() would sleep for ever");
  raise(Errc::kNothingRead);
}

}  // namespace tmh::detail
