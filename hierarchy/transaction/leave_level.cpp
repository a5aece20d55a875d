// hierarchy/transaction/leave_level.cpp -- ending an attempt for what only another level can do, or
// to wait: the calls of a body.
#include "hierarchy/transaction/leave_level.h"

#include <utility>

#include <tmh/transaction.hpp>

#include "hierarchy/threads/threads.h"
#include "hierarchy/transaction/actions.h"
#include "hierarchy/transaction/instances.h"
#include "hierarchy/transaction/raise.h"
#include "hierarchy/transaction/retry.h"
#include "levels/line/rtm.h"
#include "levels/line/software.h"
#include "platform/assert.h"
#include "platform/failure.h"

namespace tmh {

namespace detail {

namespace {
[[noreturn]] void leave_lines(Need need) {
  TMH_ASSERT(current().lines.depth != 0 && current().lines.thread != nullptr);
  // What has doomed it already is why it ends.
  if (!current().lines.thread->is_doomed()) current().need = need;
  current().lines.thread->fail(AbortCause::kNeedsPages);
}
}  // namespace

void need_pages(Need need) {
  leave_hardware(need);
  if (current().lines.depth != 0) leave_lines(need);
  need_process_view();
}

void need_process_view() {
  if (ThreadView *view = running_view(); view != nullptr) view->need_process_view();
}

void begin_again(Need need, std::function<void()> before) {
  TMH_ASSERT(current().lines.depth != 0 && current().lines.thread != nullptr);
  current().need = need;
  set_before_next(std::move(before));
  current().unwinds = Unwinds::kToBeginAgain;
  current().lines.thread->fail(AbortCause::kUser);
}

Status status_at_lines() noexcept {
  TMH_ASSERT(current().lines.depth != 0 && current().lines.thread != nullptr);
  return current().lines.thread->is_doomed() ? Status::kFailed : Status::kPending;
}

}  // namespace detail

void promote(const void *address, std::size_t bytes) {
  detail::require_instance("promote()");
  if (detail::current().at_level_2()) detail::promote_here(address, bytes);
}

bool should_end() noexcept {
  const detail::Current &here = detail::current();
  switch (here.where()) {
    case detail::Where::kPages:
      return here.pages.runner->transaction().should_end();
    case detail::Where::kLines:
      return detail::status_at_lines() == Status::kFailed;
    default:
      return false;
  }
}

void become_irrevocable() {
  detail::require_instance("become_irrevocable()");
  detail::need_pages(Need::kIrrevocable);
  detail::become_irrevocable_here();
}

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
