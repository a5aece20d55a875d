// hierarchy/sites.cpp -- one instance of a site: at which level each attempt runs, and what follows
// when it fails.
// Source:    thesis, sections 2.1 (nesting is subsumed) and 6.2 (every instance runs at one level);
//            docs/design.md 4.
#include <pthread.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tmh/transaction.hpp>

#include "hierarchy/back_off.h"
#include "hierarchy/policies.h"
#include "hierarchy/site_impl.h"
#include "levels/line/rtm.h"
#include "platform/counting.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/probes.h"
#include "platform/process.h"
#include "platform/process_object.h"
#include "platform/stray_access.h"
#include "platform/thread_object.h"
#include "platform/ticks.h"

namespace tmh {

constinit thread_local hierarchy::Sampler hierarchy::detail::samplers[3]
    __attribute__((tls_model("initial-exec")));

namespace detail {

using hierarchy::FailedAttempt;
using hierarchy::NextStep;

namespace {

// A query that goes from one line to another more often than this is large, and goes up: some 5 us
// lost, as much as two or three pages cost that level 2 takes from level 1.
constexpr std::uint32_t kQueryReadsMax = 1024;
constexpr std::uint32_t kQueryAttemptsMax = 8;

// Of this thread's instance. Behind the thread's thread_local objects, whose destructors may end
// the instance, or run others with actions.
struct Actions {
  std::vector<std::function<void()>> on_commit, on_abort;
  std::function<void()> before_next;  // begin_again()'s
};
Actions &actions_here() { return platform::ThreadObject<Actions>::here(); }
constinit thread_local bool has_actions = false;
Actions take_actions() {
  has_actions = false;
  return std::exchange(actions_here(), {});
}

// A child inherits the forking thread's instance, which is the parent's; so are its actions. They
// are kept: what they hold may be locked by a thread that the child does not have, so nobody may
// destroy it.
void forget_in_child() noexcept {
  line_run = {};
  line_access = nullptr;
  static auto &of_parents = *new std::vector<Actions>;  // not at exit() either
  if (has_actions) of_parents.push_back(take_actions());
}
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, forget_in_child);

struct SiteNames {
  std::mutex mutex;
  std::set<std::string> names;
};

// For the message about a stray access. Async-signal-safe.
platform::ThreadState state_of_thread() noexcept {
  platform::ThreadState state;
  state.site = last_site;
  const bool at_lines = line_instance_here();
  if (!at_lines && !page_instance_here()) return state;
  if (!at_lines && page_run.runner->view == nullptr) {
    state.where = "in an instance of another domain";
    state.remedy = "run an instance of the segment's own domain";
    return state;
  }
  state.where = at_lines
                    ? "by plain code in a body that runs at level 1"
                    : "by plain code in an instrumented body that runs in its thread's own view";
  state.remedy = "access it through tmh::field, or give the body no tmh::Fields parameter";
  return state;
}
[[maybe_unused]] const bool is_told = (platform::tell_thread_state_by(state_of_thread), true);

void count_granted(SiteImpl &site) noexcept {
  if (pages_granted == 0) return;
  site.add(SiteCount::kReleases, pages_granted);
  pages_granted = 0;
}

// Pages that this thread's running instance of level 2, or those before it on the same views, took
// from level 1.
std::uint64_t recalls_of(const DomainImpl &domain) noexcept {
  if (domain.lines() == nullptr) return 0;
  const ThreadView *view = running_view();
  return view != nullptr ? view->recalls() : domain.lines()->directory().recalls_here();
}

// Must this thread's instance end, because it needs the process's view?
bool is_doomed_in_view() noexcept {
  const ThreadView *view = running_view();
  return view != nullptr && view->is_doomed();
}

}  // namespace

const char *keep_site_name(const std::string &name) {
  auto &kept = platform::ProcessObject<SiteNames>::here();
  const std::scoped_lock guard(kept.mutex);
  return kept.names.insert(name).first->c_str();
}

void unlearn(SiteImpl &site, Attempts::Kind kind, line::LineContextV1 &context) noexcept {
  const hierarchy::Learned learned = site.learned(kind);
  if (learned.own.penalty == 0 && learned.gate.penalty == 0) return;
  site.add(SiteCount::kDeEscalations, 1);
  context.add(line::LineCount::kDeEscalations, 1);
  site.learn(kind, {hierarchy::after_line_commit(learned.own),
                    hierarchy::after_line_commit(learned.gate)});
}

namespace {
struct EscalationCounts {
  SiteCount of_site;
  line::LineCount of_domain;
};
constexpr EscalationCounts counts_of_escalation(const FailedAttempt &failed) noexcept {
  if (failed.over_capacity) return {SiteCount::kForCapacity, line::LineCount::kForCapacity};
  if (failed.needs_pages) return {SiteCount::kForPages, line::LineCount::kForPages};
  return {SiteCount::kForAttempts, line::LineCount::kForAttempts};
}
}  // namespace

void require_instance(const char *call) {
  if (line_run.depth != 0 || hardware_run.depth != 0 || page_instance_here()) return;
  platform::fail(Errc::kEndWithoutBegin, std::string(call) + " outside an instance");
  raise(Errc::kEndWithoutBegin);
}

namespace {
// Of the instance's end, which is told after its actions. No memory for it: then what they leave.
std::optional<std::string> failure_to_keep() noexcept {
  try {
    return platform::failure_detail();
  } catch (const std::bad_alloc &) {
    return {};
  }
}
}  // namespace

void run_actions(bool committed) {
  if (!has_actions) [[likely]]
    return;
  // An action may run another instance.
  const Actions due = take_actions();
  const LastInstance last = last_instance;
  const page::Engine::ReadSet reads = page_reads;
  std::optional<std::string> failure = failure_to_keep();
  for (const auto &action : committed ? due.on_commit : due.on_abort) action();
  if (failure) (void)platform::fail(Errc::kOk, *std::move(failure));
  last_instance = last;
  page_reads = reads;
}

void run_actions_if_ended(bool committed) {
  if (has_actions && !page_instance_here() && !line_instance_here()) run_actions(committed);
}

void drop_actions() {
  if (has_actions) (void)take_actions();
}

void leave_hardware() noexcept {
  if (hardware_run.depth != 0) line::rtm_abort(line::AbortCode::kNeedsPages);
}

bool runs_in_hardware(const LineDomain *domain) noexcept {
  return hardware_run.depth != 0 && hardware_run.domain == domain;
}

void need_pages() {
  leave_hardware();
  if (line_run.depth != 0) line_run.thread->fail(AbortCause::kNeedsPages);
  need_process_view();
}

void begin_again(std::function<void()> before) {
  actions_here().before_next = std::move(before);
  has_actions = true;
  unwinds = Unwinds::kToBeginAgain;
  line_run.thread->fail(AbortCause::kUser);
}

void need_process_view() {
  if (ThreadView *view = running_view(); view != nullptr) view->need_process_view();
}

inline void Attempts::enter_lines() {
  if (is_inside_) return;
  check(site_.impl_->domain().enter_lines());
  is_inside_ = true;
}

void Attempts::leave_lines() noexcept {
  if (is_inside_) LineUsers::leave();
  is_inside_ = false;
}

Status status_at_lines() noexcept {
  return line_run.thread->is_doomed() ? Status::kFailed : Status::kPending;
}

// Reading the counter takes as long as a small instance, so it is read for what is timed alone.
void Attempts::start_timing() noexcept {
  const SiteImpl &site = *site_.impl_;
  const hierarchy::Timed timed =
      hierarchy::start_timing(site.domain().latency(), hierarchy::SampledKind::kLines);
  timed_count_ = timed.count;
  ticks_ = timed.begin_ticks;
  if (attempts_ != 0) return;
  const bool is_asked_for =
      timed.count == 0 && site.escalation().kind == EscalationKind::kAfterWasted;
  first_ticks_ = is_asked_for ? platform::ticks() : ticks_;
}

// Of one at level 1; it stands for others as one that commits does.
void Attempts::count_time_of_failed() noexcept {
  if (timed_count_ != 0) site_.impl_->add_line_ticks({ticks_, timed_count_});
}

// Before its actions, which may run other instances.
void Attempts::count_undone_at_lines(AbortCause cause) noexcept {
  SiteImpl &site = *site_.impl_;
  count_granted(site);
  count_time_of_failed();
  site.record({ticks_, timed_count_}, LatencyLevel::kLines, cause);
}

// REQUIRES: it runs at level 2 still, and is about to end.
void Attempts::count_recalls() noexcept {
  SiteImpl &site = *site_.impl_;
  if (const std::uint64_t taken = recalls_of(site.domain()) - recalls_before_; taken != 0)
    site.add(SiteCount::kRecalls, taken);
}

// REQUIRES: this thread runs an instance. Subsumed in it, at whatever level.
void Attempts::begin_inside() {
  SiteImpl &site = *site_.impl_;
  DomainImpl &domain = site.domain();
  check(domain.usable());
  if (hardware_run.depth != 0) {
    if (hardware_run.domain != domain.lines()) need_pages();
    runs_at_ = RunsAt::kOuter;
    ++hardware_run.depth;
    return;
  }
  if (line_run.depth != 0) {
    // Another domain's is refused at level 2, with its reason, and so is an update in a query;
    // plain accesses would go past software lines.
    const bool is_update_in_query = kind_ == Kind::kUpdate && line_run.thread->is_query();
    if (line_run.domain != domain.lines() || body_ == BodyKind::kPlain || is_update_in_query)
      need_pages();
    runs_at_ = RunsAt::kOuter;
    line_run.thread->nest(++line_run.depth);
    return;
  }
  if (domain.depth() != 0 && body_ == BodyKind::kPlain) need_process_view();
  // Of another domain it is refused there, with its reason; level 1 would commit this one apart
  // from the outer one, and again each time that it runs.
  check(domain.begin(kind_ == Kind::kQuery));
  runs_at_ = RunsAt::kOuter;
}

// Of the first attempt, by what the site has learned.
void Attempts::choose_level() {
  SiteImpl &site = *site_.impl_;
  hierarchy::Learned learned = site.learned(kind_);
  escalated_ = kind_ == Kind::kQuery
                   ? hierarchy::query_begins_at_pages(site.escalation(), &learned.own)
                   : hierarchy::begins_at_pages(site.escalation(), &learned.own);
  if (!escalated_ && learned.gate.page_runs != 0)
    escalated_ = is_guest_ = hierarchy::begins_as_guest(
        site.escalation(), &learned.gate, site.domain().lines()->hardware()->any_host());
  if (escalated_) site.learn(kind_, learned);
  if (escalated_ && site.runs_unlimited(kind_, body_) && site.beyond().is_expected())
    choose_beyond();
}

// It exceeds the capacity model, or will.
void Attempts::choose_beyond() noexcept {
  hierarchy::BeyondCapacity &beyond = site_.impl_->beyond();
  unlimited_ = !beyond.begins_at_pages();
  alone_ = unlimited_ && beyond.begins_alone();
  escalated_ = !unlimited_;
}

// An attempt has failed because of others. True: it ran without the capacity model, beside them;
// the next one lets nobody else commit.
bool Attempts::goes_on_alone() noexcept {
  if (!unlimited_ || alone_) return false;
  site_.impl_->beyond().failed_beside_others();
  return alone_ = true;
}

// Nothing that the site has learned about the model's capacity.
void Attempts::learn_unlimited_commit() noexcept {
  site_.impl_->beyond().committed_at_lines(alone_);
  site_.impl_->add(SiteCount::kUnlimitedCommits, 1);
  line_run.thread->context().add(line::LineCount::kUnlimitedCommits, 1);
}

void Attempts::begin_pages() {
  SiteImpl &site = *site_.impl_;
  DomainImpl &domain = site.domain();
  leave_lines();
  runs_at_ = RunsAt::kPages;
  ticks_ = platform::ticks();
  // The pages that RTM needs are those that the process's engine finds.
  const RunsIn where = needs_process_view_                          ? RunsIn::kProcessViewInstead
                       : !finding_ && site.wants_thread_view(body_) ? RunsIn::kThreadView
                                                                    : RunsIn::kProcessView;
  check(domain.begin(kind_ == Kind::kQuery, where, &site.latency(),
                     is_guest_ ? Presence::kGuest : Presence::kHost));
  recalls_before_ = recalls_of(domain);
}

void Attempts::begin() {
  if (line_instance_here() || page_instance_here()) [[unlikely]]
    return begin_inside();
  SiteImpl &site = *site_.impl_;
  last_site = site.kept_name();
  const DomainImpl::LineKind line_kind = site.line_kind(body_);
  // Nobody would notice that a query stores in RTM.
  if (line_kind == DomainImpl::LineKind::kNone ||
      (kind_ == Kind::kQuery && line_kind == DomainImpl::LineKind::kHardware))
    escalated_ = true;
  if (!escalated_) {
    enter_lines();
    const bool is_first = runs_at_ == RunsAt::kNothing;
    if (is_first && (site.has_learned(kind_) || site.escalation().kind == EscalationKind::kAlways))
        [[unlikely]]
      choose_level();
  }
  if (line_kind == DomainImpl::LineKind::kHardware && !escalated_ && begin_hardware()) return;
  if (escalated_) return begin_pages();
  begin_lines();
}

// Level 2 needs none. Not counted as an escalation: contexts count them.
void Attempts::begin_without_context(Errc why) {
  if (kind_ == Kind::kUpdate && site_.impl_->escalation().kind == EscalationKind::kNever)
    raise(why);
  escalated_ = true;
  begin_pages();
}

inline void Attempts::begin_lines() {
  DomainImpl &domain = site_.impl_->domain();
  Errc error = Errc::kOk;
  line::SoftwareThread *thread = domain.lines()->thread(&error);
  if (thread == nullptr) [[unlikely]]
    return begin_without_context(error);
  runs_at_ = RunsAt::kLines;
  start_timing();
  unwinds = Unwinds::kFailed;
  line_run = {domain.lines(), thread, 1};
  line::Begin begin{domain.policy(), false, attempts_};
  if (hierarchy::learns(site_.impl_->escalation())) begin.insists = line::Insists::kLong;
  begin.capacity = unlimited_ ? nullptr : domain.capacity();
  begin.takes_turn = alone_;
  if (kind_ == Kind::kQuery) {
    begin.is_query = true;
    begin.insists = line::Insists::kNo;
    begin.reads_max = kQueryReadsMax;
  }
  begin.reads_durable_only = domain.durable() != nullptr && !domain.durable()->early_release();
  thread->begin(begin);
  if (begin.reads_durable_only) [[unlikely]]
    await_snapshot();
}

// Domains without early release: nothing is read before it is durable.
void Attempts::await_snapshot() {
  const Errc error = site_.impl_->domain().durable()->log().wait_lower(line_run.thread->rv);
  if (error == Errc::kOk) return;
  line_run.depth = 0;
  line_run.thread->abandon();
  raise(error);
}

bool Attempts::end() {
  SiteImpl &site = *site_.impl_;
  DomainImpl &domain = site.domain();
  Status status = Status::kPending;
  switch (runs_at_) {
    case RunsAt::kNothing:
      return true;
    case RunsAt::kOuter:
      if (hardware_run.depth != 0)
        --hardware_run.depth;
      else if (line_run.depth != 0)
        --line_run.depth;
      else
        check(domain.end(kind_ == Kind::kQuery, &status));
      return true;
    case RunsAt::kPages:
      if (is_doomed_in_view()) {  // the body has swallowed the LineAbort
        failed_in_thread_view();
        return false;
      }
      count_recalls();
      if (const Errc error = domain.end(kind_ == Kind::kQuery, &status, durability_);
          error != Errc::kOk) {
        run_actions(status == Status::kCommitted);
        raise(error);
      }
      check_outermost(status);
      site.add(SiteCount::kPageTicks, platform::ticks() - ticks_);
      if (status == Status::kCommitted) {
        site.add(SiteCount::kPageCommits, 1);
        if (site.line_kind(body_) == DomainImpl::LineKind::kHardware && kind_ == Kind::kUpdate)
          give_pages_back();
        run_actions(true);  // last: one may close the domain
        return true;
      }
      site.add(SiteCount::kPageAborts, 1);
      run_actions(false);
      domain.backoff();
      return false;
    case RunsAt::kHardware:
      end_hardware();
      leave_lines();
      return true;
    case RunsAt::kLines:
      break;
  }
  if (line_run.thread == nullptr) check(domain.usable());  // forked in the body
  line_run.depth = 0;
  line::SoftwareThread &thread = *line_run.thread;
  if (thread.commit() != Status::kCommitted) {
    // the former: swallowed
    unwinds == Unwinds::kToBeginAgain ? begin_again_at_lines() : failed_at_lines();
    return false;
  }
  Errc unacknowledged = Errc::kOk;
  if (domain.durable() != nullptr) [[unlikely]]
    unacknowledged = domain.acknowledge_lines(thread.durable_at(), durability_);
  if (timed_count_ != 0) site.committed_at_lines({ticks_, timed_count_}, LatencyLevel::kLines);
  site.add(SiteCount::kLineCommits, 1);
  count_granted(site);
  unlimited_ ? learn_unlimited_commit() : learn_line_commit(site, kind_, thread.context());
  leave_lines();
  run_actions(true);      // last: one may close the domain, and its threads with it
  check(unacknowledged);  // as at level 2: committed, and perhaps not durable
  return true;
}

// An exception leaves the body of a subsumed instance.
void Attempts::leave_outer() {
  DomainImpl &domain = site_.impl_->domain();
  Status status{};
  if (line_run.depth != 0)
    --line_run.depth;
  else if (domain.depth() != 0)
    (void)domain.end(kind_ == Kind::kQuery, &status);
}

// The body has asked for what a thread's view does not have: once more, on the process's.
void Attempts::failed_in_thread_view() {
  SiteImpl &site = *site_.impl_;
  count_recalls();
  (void)site.domain().abort(AbortCause::kNeedsPages);
  run_actions(false);
  site.add(SiteCount::kPageTicks, platform::ticks() - ticks_);
  site.add(SiteCount::kPageAborts, 1);
  site.needed_process_view();
  needs_process_view_ = true;
}

void Attempts::unwound() {
  if (runs_at_ == RunsAt::kOuter) {
    leave_outer();
    throw LineAbort{};
  }
  if (runs_at_ == RunsAt::kPages) return failed_in_thread_view();
  line_run.depth = 0;
  line_run.thread->abandon();
  if (unwinds == Unwinds::kFailed) return failed_at_lines();
  if (unwinds == Unwinds::kToBeginAgain) return begin_again_at_lines();
  sleep_at_lines();
}

void Attempts::begin_again_at_lines() {
  const LineRun run = line_run;
  const std::function<void()> before = std::move(actions_here().before_next);
  count_undone_at_lines(AbortCause::kUser);
  leave_lines();
  run_actions(false);
  try {
    before();
  } catch (const Error &) {
    if (kind_ == Kind::kUpdate && site_.impl_->escalation().kind == EscalationKind::kNever) throw;
    enter_lines();  // as failed_at_lines()
    line_run = run;
    (void)goes_on_at_lines(false, true, false, false);
    leave_lines();
  }
}

void Attempts::retried(const RetryNow &why) {
  DomainImpl &domain = site_.impl_->domain();
  if (runs_at_ == RunsAt::kOuter) {
    leave_outer();
    throw why;
  }
  if (is_doomed_in_view()) return failed_in_thread_view();
  if (!why.is_wanted) {
    (void)end();
    return;
  }
  Status status{};
  (void)domain.validate(&status);
  count_recalls();
  (void)domain.abort();
  site_.impl_->add(SiteCount::kPageTicks, platform::ticks() - ticks_);
  run_actions(false);
  if (status == Status::kFailed)
    // what it has seen may have been overwritten before: nothing need change any more
    domain.backoff();
  else
    check(domain.await_change());
}

bool Attempts::threw() {
  if (hardware_run.depth != 0) need_pages();  // at level 2 the exception can leave the body
  DomainImpl &domain = site_.impl_->domain();
  switch (runs_at_) {
    case RunsAt::kNothing:
    case RunsAt::kHardware:  // begin() failed outside the transaction
      return true;
    case RunsAt::kOuter:
      leave_outer();
      return true;
    // Every load was consistent, so the exception is one that a serial execution would have raised.
    case RunsAt::kLines:
      if (line_run.depth == 0) return true;
      if (line_run.thread->is_doomed()) {  // but one that the body has made of a LineAbort
        unwound();
        return false;
      }
      line_run.depth = 0;
      line_run.thread->abandon();
      count_undone_at_lines(AbortCause::kUser);
      leave_lines();
      run_actions(false);
      return true;
    case RunsAt::kPages:
      break;
  }
  if (domain.depth() == 0) return true;  // end() itself failed, or the body ended the instance
  if (is_doomed_in_view()) {
    failed_in_thread_view();
    return false;
  }
  Status status{};
  (void)domain.validate(&status);
  count_recalls();
  (void)domain.abort();
  run_actions(false);
  site_.impl_->add(SiteCount::kPageTicks, platform::ticks() - ticks_);
  if (status != Status::kFailed) return true;
  domain.backoff();
  return false;
}

// The attempt has been undone. What next?
void Attempts::failed_at_lines() {
  SiteImpl &site = *site_.impl_;
  const line::SoftwareThread &thread = *line_run.thread;
  const AbortCause cause = thread.cause();
  const line::AbortStatus status = thread.status();
  LineRun run = line_run;
  run.no_room = cause != AbortCause::kNoSpace ? Errc::kOk
                : thread.error() != Errc::kOk ? thread.error()
                                              : Errc::kDiskFull;
  count_undone_at_lines(cause);
  site.add(SiteCount::kLineAborts, 1);
  site.add(count_of(cause), 1);
  leave_lines();
  run_actions(false);
  // an action, or another thread, may have closed the domain, and its threads of level 1 with it
  enter_lines();
  line_run = run;
  // Level 2 did not give a page back within the budget; as one of its instances this one needs
  // nobody's answer.
  // a snapshot there
  const bool fits_later = cause == AbortCause::kCapacity && line::has(status, line::kStatusRetry);
  const bool refused =
      fits_later || (cause == AbortCause::kCrossLevel && !line::has(status, line::kStatusRetry));
  // No room for it: level 2 says why, or finds some.
  // A query that has stored: level 2 says where.
  const bool needs_pages = cause == AbortCause::kNeedsPages || cause == AbortCause::kNoSpace ||
                           cause == AbortCause::kQueryWrote;
  (void)goes_on_at_lines(cause == AbortCause::kCapacity && !fits_later, needs_pages, refused,
                         cause == AbortCause::kValidation);
  leave_lines();
}

// Asks the site's policy. False: the next attempt runs at level 2.
bool Attempts::goes_on_at_lines(bool over_capacity, bool needs_pages, bool refused,
                                bool others_progressed) {
  SiteImpl &site = *site_.impl_;
  FailedAttempt failed{over_capacity, needs_pages, refused, ++attempts_};
  line::LineContextV1 &context =
      runs_at_ == RunsAt::kHardware ? *hardware_run.context : line_run.thread->context();
  const EscalationCounts counts = counts_of_escalation(failed);
  const bool counts_early = platform::is_planted(platform::Planted::kEscalationEarly);
  if (counts_early && attempts_ == 1) context.add(counts.of_domain, 1);
  // Where the beginning is not known, what is wasted counts from the first failure.
  if (first_ticks_ == 0) first_ticks_ = platform::ticks();
  if (failed.attempts > 1)
    failed.wasted_ns = platform::ns_of_ticks(platform::ticks() - first_ticks_);
  NextStep step = hierarchy::next(site.escalation(), failed);
  if (!over_capacity && !needs_pages && !refused && goes_on_alone()) step = NextStep::kRetry;
  // A query goes where it cannot fail; no policy keeps it among those that it meets again and
  // again.
  if (kind_ == Kind::kQuery &&
      (step == NextStep::kGiveUp || refused || attempts_ >= kQueryAttemptsMax))
    step = NextStep::kEscalate;
  switch (step) {
    case NextStep::kRetry:
      back_off(site.domain().policy(), attempts_, others_progressed);
      return true;
    case NextStep::kGiveUp:
      if (runs_at_ == RunsAt::kLines && line_run.no_room != Errc::kOk) raise(line_run.no_room);
      platform::fail(
          Errc::kNeedsPages,
          "site '" + site.name() +
              (failed.over_capacity ? "': its working set exceeds level 1"
                                    : "': it allocates, runs plain code, or becomes irrevocable"));
      raise(Errc::kNeedsPages);
    case NextStep::kEscalate:
      break;
  }
  if (over_capacity && !unlimited_ && site.runs_unlimited(kind_, body_)) {
    choose_beyond();
    if (unlimited_) {
      learn_escalation(true);
      return true;
    }
  }
  escalated_ = true;
  platform::probe::escalate(site.name().c_str(),
                            failed.over_capacity ? 1
                            : failed.needs_pages ? 2
                                                 : 0,
                            attempts_);
  site.add(counts.of_site, 1);
  if (!counts_early) context.add(counts.of_domain, 1);
  // What the gate has refused is no evidence about the site.
  is_guest_ = refused && runs_at_ == RunsAt::kHardware;
  if (unlimited_) site.beyond().escalated();
  learn_escalation(over_capacity || (unlimited_ && !needs_pages));
  return false;
}

void Attempts::learn_escalation(bool over_capacity) noexcept {
  SiteImpl &site = *site_.impl_;
  if (kind_ == Kind::kUpdate && !hierarchy::learns(site.escalation())) return;
  hierarchy::Learned learned = site.learned(kind_);
  if (!is_guest_)
    learned.own = hierarchy::after_escalation(learned.own);
  else if (hosts_stay_)
    learned.gate = hierarchy::after_escalation(learned.gate);
  site.learn(kind_, learned);
  if (site.runs_unlimited(kind_, body_)) site.beyond().escalated_from_model(over_capacity);
}

}  // namespace detail

void on_commit(std::function<void()> action) {
  detail::require_instance("on_commit()");
  if (detail::hardware_run.depth != 0) detail::need_pages();  // which takes memory
  detail::actions_here().on_commit.push_back(std::move(action));
  detail::has_actions = true;
}

void on_abort(std::function<void()> action) {
  detail::require_instance("on_abort()");
  if (detail::hardware_run.depth != 0) detail::need_pages();
  detail::actions_here().on_abort.push_back(std::move(action));
  detail::has_actions = true;
}

void become_irrevocable() {
  detail::require_instance("become_irrevocable()");
  detail::need_pages();
  detail::become_irrevocable_here();
}

}  // namespace tmh
