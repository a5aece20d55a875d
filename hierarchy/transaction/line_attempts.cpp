// hierarchy/transaction/line_attempts.cpp -- the attempts of a site's instance on software lines:
// what follows when one fails.
#include "hierarchy/transaction/line_attempts.h"

#include <exception>
#include <functional>
#include <new>
#include <optional>

#include "hierarchy/transaction/line_reads.h"
#include "hierarchy/transaction/raise.h"
#include "platform/assert.h"

namespace tmh::detail {

using hierarchy::Failed;

namespace {

// Its writes, if it has any, were never seen.
void abandon() noexcept {
  TMH_ASSERT(current().lines.thread != nullptr);
  current().lines.depth = 0;
  current().lines.thread->abandon();
}

}  // namespace

bool LineAttempts::find_no_context(SiteInstance &instance, Errc error) {
  TMH_ASSERT(error != Errc::kOk);
  if (instance.stays_at_level_1()) raise(error);
  instance.failed(Failed::kAtThisLevel);  // not counted as an escalation: contexts count them
  return false;
}

void LineAttempts::end_failed(SiteInstance &instance) {
  // kToBeginAgain: what begin_again() threw was swallowed
  current().unwinds == Unwinds::kToBeginAgain ? begin_again(instance) : failed(instance);
}

// Nothing that the site has learned about the model's capacity.
void LineAttempts::learn_unlimited_commit(const SiteInstance &instance) noexcept {
  const bool was_alone = instance.state() == SiteInstance::State::kTryLinesAlone;
  instance.site().beyond().committed_at_lines(was_alone);
  instance.site().add(SiteCount::kUnlimitedCommits, 1);
  current().lines.thread->context().add(line::LineCount::kUnlimitedCommits, 1);
}

// Domains without early release: nothing is read before it is durable.
void LineAttempts::await_snapshot(SiteInstance &instance) {
  TMH_ASSERT(instance.domain().durable() != nullptr);
  const Errc error =
      instance.domain().durable()->log().group().wait_lower(current().lines.thread->rv);
  if (error == Errc::kOk) return;
  abandon();
  raise(error);
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
  TMH_ASSERT(current().lines.thread != nullptr && current().lines.depth == 0);
  count_granted(instance.site(), *current().lines.thread);
  instance.count_time_of_failed();
  instance.site().record(instance.timed(), LatencyLevel::kLines, cause);
}

// The attempt has been undone. What next?
void LineAttempts::failed(SiteInstance &instance) {
  TMH_ASSERT(current().lines.thread != nullptr);
  SiteImpl &site = instance.site();
  line::SoftwareThread &thread = *current().lines.thread;
  const AbortCause cause = thread.cause();
  const line::AbortStatus status = thread.status();
  const bool may_have_extended = line::keeps_log(thread);
  const Need need = current().need;  // now: an action may run another instance
  LineRun run = current().lines;
  const Errc no_room = thread.committing().redo().error();
  run.no_room = cause != AbortCause::kNoSpace ? Errc::kOk
                : no_room != Errc::kOk        ? no_room
                                              : Errc::kDiskFull;
  count_undone(instance, cause);
  site.add(SiteCount::kLineAborts, 1);
  site.add(count_of(cause), 1);
  instance.leave_lines();
  run_actions(false);
  if (cause == AbortCause::kValidation && !may_have_extended) return instance.keep_log();
  // an action, or another thread, may have closed the domain, and its threads of level 1 with it
  instance.enter_lines();
  current().lines = run;
  const bool may_fit_later = line::has(status, line::kStatusRetry);
  Undone undone;
  undone.over_capacity = cause == AbortCause::kCapacity && !may_fit_later;
  // kNoSpace: level 2 says why, or finds room. kQueryWrote: level 2 says where.
  undone.needs_pages = cause == AbortCause::kNeedsPages || cause == AbortCause::kNoSpace ||
                       cause == AbortCause::kQueryWrote;
  undone.need = cause == AbortCause::kNeedsPages   ? need
                : cause == AbortCause::kNoSpace    ? Need::kNoSpace
                : cause == AbortCause::kQueryWrote ? Need::kQueryWrote
                                                   : Need::kUnknown;
  // Level 2 did not give a page back within the budget, or a snapshot there keeps its versions. As
  // an instance of level 2 this one needs no answer.
  LineDomain &lines = *instance.domain().lines();
  const auto refused_by = [](bool hosts) { return hosts ? Refusal::kByHosts : Refusal::kByGuests; };
  if (cause == AbortCause::kCapacity && may_fit_later)
    undone.refusal = refused_by(lines.any_host_runs());
  if (cause == AbortCause::kCrossLevel && !may_fit_later)
    undone.refusal = refused_by(lines.was_refused_by_hosts());
  undone.others_progressed = cause == AbortCause::kValidation;
  undone.met_lock = cause == AbortCause::kConflictSelf;
  undone.met_pages = cause == AbortCause::kCrossLevel;
  (void)instance.goes_on_at_level_1(undone);
  instance.leave_lines();
}

// tmh::detail::begin_again().
void LineAttempts::begin_again(SiteInstance &instance) {
  const LineRun run = current().lines;
  const Need need = current().need;  // as failed()
  const std::function<void()> before = take_before_next();
  TMH_ASSERT(before != nullptr);
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
    undone.need = need;
    (void)instance.goes_on_at_level_1(undone);
    instance.leave_lines();
  }
}

// retry().
void LineAttempts::sleep(SiteInstance &instance) {
  TMH_ASSERT(current().lines.domain != nullptr);
  std::optional<LineReads> reads;  // now: an action may run another instance
  const std::int64_t deadline_ns = current().retry_deadline_ns;
  const bool knows_reads = line::keeps_log(*current().lines.thread);
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
  if (!knows_reads) return instance.keep_log();
  instance.forget_failures();
  reads->await_change(instance.domain(), deadline_ns);
}

}  // namespace tmh::detail
