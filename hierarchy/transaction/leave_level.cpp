// hierarchy/transaction/leave_level.cpp -- ending an attempt for what only another level can do.
#include "hierarchy/transaction/leave_level.h"

#include <utility>

#include <tmh/transaction.hpp>

#include "hierarchy/domain/current.h"
#include "hierarchy/domain/leave_hardware.h"
#include "hierarchy/transaction/actions.h"
#include "hierarchy/transaction/instances.h"
#include "levels/line/software.h"

namespace tmh {

namespace detail {

namespace {
[[noreturn]] void leave_lines(Need need) {
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
  current().need = need;
  set_before_next(std::move(before));
  current().unwinds = Unwinds::kToBeginAgain;
  current().lines.thread->fail(AbortCause::kUser);
}

Status status_at_lines() noexcept {
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
      return here.pages.runner->engine->should_end();
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

}  // namespace tmh
