// hierarchy/transaction/page_attempts.cpp -- the attempts of a site's instance at level 2: begin,
// end, and what follows when one fails.
#include "hierarchy/transaction/page_attempts.h"

#include <type_traits>

#include <tmh/transaction.hpp>

#include "hierarchy/transaction/actions.h"
#include "hierarchy/transaction/hardware_attempts.h"
#include "hierarchy/transaction/instances.h"
#include "hierarchy/transaction/raise.h"
#include "hierarchy/watch/watch.h"
#include "platform/assert.h"
#include "platform/ticks.h"

namespace tmh::detail {

static_assert(std::is_trivially_destructible_v<PageAttempts>);

namespace {

using State = SiteInstance::State;

// Pages that this thread's running instance of level 2, or those before it on the same views, took
// from level 1.
std::uint64_t recalls_of(const DomainImpl &domain) noexcept {
  if (domain.lines() == nullptr) return 0;
  const ThreadView *view = running_view();
  return view != nullptr ? view->recalls() : domain.lines()->directory().recalls_here();
}

RunsIn runs_in(const SiteInstance &instance) noexcept {
  switch (instance.state()) {
    case State::kTryProcessViews:
    case State::kTryProcessViewsAsGuest:
      return RunsIn::kProcessViewInstead;
    case State::kFindPages:  // those that the process's engine finds
      return RunsIn::kProcessView;
    default:
      return instance.site().wants_thread_view(instance.body()) ? RunsIn::kThreadView
                                                                : RunsIn::kProcessView;
  }
}

}  // namespace

bool is_doomed_in_view() noexcept {
  const ThreadView *view = running_view();
  return view != nullptr && view->is_doomed();
}

void PageAttempts::begin(SiteInstance &instance) {
  DomainImpl &domain = instance.domain();
  instance.leave_lines();
  begin_ticks_ = platform::ticks();
  check(Instances(domain).begin(
      instance.is_query(),
      {.where = runs_in(instance),
       .site = &instance.site().latency(),
       .presence = is_guest(instance.state()) ? Presence::kGuest : Presence::kHost,
       .isolation = instance.site().isolation()}));
  recalls_before_ = recalls_of(domain);
}

void PageAttempts::count_recalls(SiteInstance &instance) const noexcept {
  TMH_ASSERT(recalls_of(instance.domain()) >= recalls_before_);
  if (const std::uint64_t taken = recalls_of(instance.domain()) - recalls_before_; taken != 0)
    instance.site().add(SiteCount::kRecalls, taken);
}

void PageAttempts::count_time(SiteInstance &instance) const noexcept {
  instance.site().add(SiteCount::kPageTicks, platform::ticks() - begin_ticks_);
}

bool PageAttempts::end(SiteInstance &instance) {
  if (is_doomed_in_view()) {  // the body has swallowed the LineAbort
    failed_in_thread_view(instance);
    return false;
  }
  SiteImpl &site = instance.site();
  DomainImpl &domain = instance.domain();
  const SlowReaderWatch watch(domain.slow_readers());
  TMH_ASSERT(instance.level() == hierarchy::AttemptLevel::kPages);
  Status status = Status::kPending;
  count_recalls(instance);
  if (const Errc error = Instances(domain).end(instance.is_query(), &status, instance.durability());
      error != Errc::kOk) {
    run_actions(status == Status::kCommitted);
    raise(error);
  }
  check_outermost(status);
  count_time(instance);
  if (status == Status::kCommitted) {
    site.add(SiteCount::kPageCommits, 1);
    if (site.line_kind(instance.body()) == LineKind::kHardware && !instance.is_query())
      HardwareAttempts::give_pages_back(instance);
    run_actions(true);  // one may close the domain
    if (!instance.is_query()) watch.look();
    return true;
  }
  site.add(SiteCount::kPageAborts, 1);
  run_actions(false);
  Instances(domain).backoff();
  return false;
}

void PageAttempts::failed_in_thread_view(SiteInstance &instance) {
  SiteImpl &site = instance.site();
  count_recalls(instance);
  (void)Instances(instance.domain()).abort(AbortCause::kNeedsPages);
  run_actions(false);
  count_time(instance);
  site.add(SiteCount::kPageAborts, 1);
  site.needed_process_view();
  instance.failed(hierarchy::Failed::kInThreadView);
}

void PageAttempts::retried(SiteInstance &instance, const RetryNow &why) {
  if (is_doomed_in_view()) return failed_in_thread_view(instance);
  if (!why.is_wanted) {
    (void)end(instance);
    return;
  }
  DomainImpl &domain = instance.domain();
  Status status{};
  (void)Instances(domain).validate(&status);
  count_recalls(instance);
  (void)Instances(domain).abort();
  count_time(instance);
  run_actions(false);
  if (status == Status::kFailed)
    // what it has seen may have been overwritten before: no further change is needed
    Instances(domain).backoff();
  else
    check(Instances(domain).await_change());
}

bool PageAttempts::threw(SiteInstance &instance) {
  DomainImpl &domain = instance.domain();
  if (Instances(domain).depth() == 0)
    return true;  // end() itself failed, or the body ended the instance
  if (is_doomed_in_view()) {
    failed_in_thread_view(instance);
    return false;
  }
  Status status{};
  (void)Instances(domain).validate(&status);
  count_recalls(instance);
  (void)Instances(domain).abort();
  run_actions(false);
  count_time(instance);
  if (status != Status::kFailed) return true;
  Instances(domain).backoff();
  return false;
}

void PageAttempts::left_by_force(SiteInstance &instance) {
  if (Instances(instance.domain()).depth() == 0) return;
  count_recalls(instance);
  (void)Instances(instance.domain()).abort();
  run_actions(false);
  count_time(instance);
}

}  // namespace tmh::detail
