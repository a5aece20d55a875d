// hierarchy/line_attempts.cpp -- the attempts of a site's instance on software lines: begin,
// commit, and what follows when one fails.
#include "hierarchy/line_attempts.h"

#include <exception>
#include <functional>
#include <new>
#include <optional>

#include "hierarchy/actions.h"
#include "hierarchy/line_reads.h"
#include "levels/line/software.h"
#include "platform/assert.h"

namespace tmh::detail {

using hierarchy::Failed;
using State = SiteInstance::State;

namespace {

// A query that goes from one line to another more often than this is large, and goes up: some 5 us
// lost, as much as two or three pages cost that level 2 takes from level 1.
constexpr std::uint32_t kQueryReadsMax = 1024;

void count_granted(SiteImpl &site) noexcept {
  if (current().pages_granted == 0) return;
  site.add(SiteCount::kReleases, current().pages_granted);
  current().pages_granted = 0;
}

// Nothing that the site has learned about the model's capacity.
void learn_unlimited_commit(const SiteInstance &instance) noexcept {
  TMH_ASSERT(is_unlimited(instance.state()));
  instance.site().beyond().committed_at_lines(instance.state() == State::kTryLinesAlone);
  instance.site().add(SiteCount::kUnlimitedCommits, 1);
  current().lines.thread->context().add(line::LineCount::kUnlimitedCommits, 1);
}

// Its writes, if it has any, were never seen.
void abandon() noexcept {
  TMH_ASSERT(current().lines.thread != nullptr);
  current().lines.depth = 0;
  current().lines.thread->abandon();
}

}  // namespace

bool LineAttempts::begin(SiteInstance &instance) {
  DomainImpl &domain = instance.domain();
  Errc error = Errc::kOk;
  line::SoftwareThread *thread = domain.lines()->thread(&error);
  if (thread == nullptr) [[unlikely]] {
    if (instance.stays_at_level_1()) raise(error);
    instance.failed(Failed::kAtThisLevel);  // not counted as an escalation: contexts count them
    return false;
  }
  instance.start_timing();
  current().unwinds = Unwinds::kFailed;
  current().lines = {domain.lines(), thread, 1};
  line::Begin begin{domain.instances().policy(), false, instance.attempts()};
  if (hierarchy::learns(instance.site().escalation())) begin.insists = line::Insists::kLong;
  begin.capacity = is_unlimited(instance.state()) ? nullptr : domain.capacity();
  begin.takes_priority = instance.state() == State::kTryLinesAlone;
  if (instance.is_query()) {
    begin.is_query = true;
    begin.insists = line::Insists::kNo;
    begin.reads_max = kQueryReadsMax;
  }
  begin.reads_durable_only = domain.durable() != nullptr && !domain.durable()->early_release();
  thread->begin(begin);
  if (begin.reads_durable_only) [[unlikely]]
    await_snapshot(instance);
  return true;
}

// Domains without early release: nothing is read before it is durable.
void LineAttempts::await_snapshot(SiteInstance &instance) {
  const Errc error = instance.domain().durable()->log().wait_lower(current().lines.thread->rv);
  if (error == Errc::kOk) return;
  abandon();
  raise(error);
}

bool LineAttempts::end(SiteInstance &instance) {
  SiteImpl &site = instance.site();
  DomainImpl &domain = instance.domain();
  if (current().lines.thread == nullptr) check(domain.usable());  // forked in the body
  current().lines.depth = 0;
  line::SoftwareThread &thread = *current().lines.thread;
  if (thread.commit() != Status::kCommitted) {
    // the former: swallowed
    current().unwinds == Unwinds::kToBeginAgain ? begin_again(instance) : failed(instance);
    return false;
  }
  Errc unacknowledged = Errc::kOk;
  if (domain.durable() != nullptr) [[unlikely]]
    unacknowledged = domain.acknowledge_lines(thread.durable_at(), instance.durability());
  if (instance.timed().count != 0) site.committed_at_lines(instance.timed(), LatencyLevel::kLines);
  site.add(SiteCount::kLineCommits, 1);
  count_granted(site);
  is_unlimited(instance.state()) ? learn_unlimited_commit(instance)
                                 : learn_line_commit(site, instance.kind(), thread.context());
  instance.leave_lines();
  run_actions(true);      // last: one may close the domain, and its threads with it
  check(unacknowledged);  // as at level 2: committed, and perhaps not durable
  return true;
}

void LineAttempts::unwound(SiteInstance &instance) {
  abandon();
  switch (current().unwinds) {
    case Unwinds::kFailed:
      return failed(instance);
    case Unwinds::kToBeginAgain:
      return begin_again(instance);
    case Unwinds::kToWait:
      return sleep(instance);
  }
}

// Every load was consistent, so the exception is one that a serial execution would have raised.
bool LineAttempts::threw(SiteInstance &instance) {
  if (current().lines.depth == 0) return true;
  if (current().lines.thread->is_doomed()) {
    unwound(instance);
    return false;
  }
  abandon();
  count_undone(instance, AbortCause::kUser);
  instance.leave_lines();
  run_actions(false);
  return true;
}

void LineAttempts::left_by_force(SiteInstance &instance) {
  if (current().lines.depth == 0) return;
  const bool is_doomed = current().lines.thread->is_doomed();
  abandon();
  count_undone(instance, is_doomed ? current().lines.thread->cause() : AbortCause::kUser);
  instance.leave_lines();
  run_actions(false);
}

// Before its actions, which may run other instances.
void LineAttempts::count_undone(SiteInstance &instance, AbortCause cause) noexcept {
  count_granted(instance.site());
  instance.count_time_of_failed();
  instance.site().record(instance.timed(), LatencyLevel::kLines, cause);
}

// The attempt has been undone. What next?
void LineAttempts::failed(SiteInstance &instance) {
  SiteImpl &site = instance.site();
  const line::SoftwareThread &thread = *current().lines.thread;
  const AbortCause cause = thread.cause();
  const line::AbortStatus status = thread.status();
  LineRun run = current().lines;
  run.no_room = cause != AbortCause::kNoSpace ? Errc::kOk
                : thread.error() != Errc::kOk ? thread.error()
                                              : Errc::kDiskFull;
  count_undone(instance, cause);
  site.add(SiteCount::kLineAborts, 1);
  site.add(count_of(cause), 1);
  instance.leave_lines();
  run_actions(false);
  // an action, or another thread, may have closed the domain, and its threads of level 1 with it
  instance.enter_lines();
  current().lines = run;
  const bool may_fit_later = line::has(status, line::kStatusRetry);
  Undone undone;
  undone.over_capacity = cause == AbortCause::kCapacity && !may_fit_later;
  // kNoSpace: level 2 says why, or finds room. kQueryWrote: level 2 says where.
  undone.needs_pages = cause == AbortCause::kNeedsPages || cause == AbortCause::kNoSpace ||
                       cause == AbortCause::kQueryWrote;
  // Level 2 did not give a page back within the budget, or a snapshot there keeps its versions. As
  // an instance of level 2 this one needs no answer.
  if ((cause == AbortCause::kCapacity && may_fit_later) ||
      (cause == AbortCause::kCrossLevel && !may_fit_later))
    undone.refusal = Refusal::kByPages;
  undone.others_progressed = cause == AbortCause::kValidation;
  (void)instance.goes_on_at_level_1(undone);
  instance.leave_lines();
}

// tmh::detail::begin_again().
void LineAttempts::begin_again(SiteInstance &instance) {
  const LineRun run = current().lines;
  const std::function<void()> before = take_before_next();
  count_undone(instance, AbortCause::kUser);
  instance.leave_lines();
  run_actions(false);
  try {
    before();
  } catch (const Error &) {
    if (instance.stays_at_level_1()) throw;
    instance.enter_lines();  // as failed()
    current().lines = run;
    Undone undone;
    undone.needs_pages = true;
    (void)instance.goes_on_at_level_1(undone);
    instance.leave_lines();
  }
}

// retry().
void LineAttempts::sleep(SiteInstance &instance) {
  std::optional<LineReads> reads;  // now: an action may run another instance
  const std::int64_t deadline_ns = current().retry_deadline_ns;
  std::exception_ptr no_memory;
  try {
    reads.emplace(current().lines.domain->memory(), current().lines.thread->reads(),
                  current().lines.thread->rv);
  } catch (const std::bad_alloc &) {
    no_memory = std::current_exception();
  }
  count_undone(instance, AbortCause::kUser);
  instance.leave_lines();
  run_actions(false);
  if (no_memory != nullptr) std::rethrow_exception(no_memory);
  instance.forget_failures();
  reads->await_change(instance.domain(), deadline_ns);
}

}  // namespace tmh::detail
