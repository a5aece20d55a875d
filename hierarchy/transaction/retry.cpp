// hierarchy/transaction/retry.cpp -- tmh::retry(): the sleep between two attempts.
#include "hierarchy/transaction/retry.h"

#include <utility>

#include "hierarchy/domain/domain_impl.h"
#include "hierarchy/transaction/actions.h"
#include "hierarchy/transaction/instances.h"
#include "hierarchy/transaction/raise.h"
#include "levels/line/rtm.h"
#include "platform/failure.h"

namespace tmh {

namespace detail {

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

}  // namespace detail

namespace {

[[noreturn]] void retry_by(std::int64_t deadline_ns) {
  detail::require_instance("retry()");
  if (detail::current().hardware.depth != 0) line::rtm_abort(line::AbortCode::kRetry);
  if (detail::current().lines.depth == 0) {
    if (detail::irrevocable_here()) {
      platform::fail(Errc::kNestedMisuse, "retry() in an irrevocable instance");
      detail::raise(Errc::kNestedMisuse);
    }
    detail::note_page_reads_here();
    detail::current().retry_deadline_ns = deadline_ns;
    throw detail::RetryNow{};
  }
  line::SoftwareThread &thread = *detail::current().lines.thread;
  if (thread.is_doomed()) throw detail::LineAbort{};  // the body has swallowed the first
  if (!thread.has_read()) detail::raise_nothing_read();
  detail::current().unwinds = detail::Unwinds::kToWait;
  detail::current().retry_deadline_ns = deadline_ns;
  thread.fail(AbortCause::kUser);
}

}  // namespace

void retry() { retry_by(detail::kNoDeadline); }

void retry_until(std::chrono::steady_clock::time_point deadline) {
  retry_by(deadline.time_since_epoch() / std::chrono::nanoseconds(1));
}

}  // namespace tmh
