// hierarchy/instances.cpp -- begin, end, nesting, age, turn and backoff of instances.
// Source:    thesis, section 2.1 (nested transactions are subsumed) and 3.3 (policies).

#include <algorithm>
#include <cstdio>
#include <new>

#include <tmh/transaction.hpp>

#include "hierarchy/back_off.h"
#include "hierarchy/conflict_choice.h"
#include "hierarchy/domain_impl.h"
#include "hierarchy/end_of_thread.h"
#include "hierarchy/latency_sampler.h"
#include "hierarchy/leave_level.h"
#include "hierarchy/policies.h"
#include "hierarchy/retry.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::detail {

using platform::fail;

constinit thread_local bool advice_idle __attribute__((tls_model("initial-exec"))) = false;

namespace {
// It has ended, and may have given its runner to others.
void record(const PageRun &instance, bool is_query, AbortCause outcome) noexcept {
  if (instance.timed.count == 0) return;
  const LatencyLevel level = is_query ? LatencyLevel::kQueries : LatencyLevel::kPages;
  instance.site->record(level, outcome, hierarchy::timed_ns(instance.timed), instance.timed.count);
}

std::string no_policy(std::string_view spec) {
  std::string text("'");
  return text.append(spec).append("' is no policy; right values: ").append(policy_values());
}

bool counts_as_attempt(AbortCause cause) noexcept {
  return cause == AbortCause::kValidation || cause == AbortCause::kConflictSelf ||
         cause == AbortCause::kConflictOther || cause == AbortCause::kCrossLevel;
}
}  // namespace

bool DomainImpl::runs_here() const noexcept {
  return current().pages.domain == this &&
         current().pages.fork_generation == platform::fork_generation();
}

// From before its instance until after it, but not while its actions run. By the thread's own word:
// another thread may be closing.
bool DomainImpl::runs_at_lines() const noexcept {
  leave_hardware();
  return line_users_.is_inside();
}

bool DomainImpl::runs_at_any_level() const noexcept { return runs_at_lines() || runs_here(); }

std::uint32_t DomainImpl::depth() const noexcept {
  return runs_here() ? static_cast<std::uint32_t>(current().pages.runner->nest.size()) : 0;
}

Errc DomainImpl::why_unusable() const noexcept {
  if (platform::fork_generation() != fork_generation_)
    return fail(Errc::kDetached,
                "this process was forked from a participant; open the domain here");
  return fail(Errc::kNotInitialized, "the domain is closed");
}

// Whoever has views of its own stays with them: its hot pages are there. A thread that never finds
// the process's views in use needs none.
PageRunner &DomainImpl::lock_runner(RunsIn where, bool *fell_back) noexcept {
  *fell_back = where == RunsIn::kProcessViewInstead;
  if (where == RunsIn::kThreadView && thread_view_use_ != ThreadViewUse::kNever) {
    const bool may_share = thread_view_use_ == ThreadViewUse::kAuto && views_->own() == nullptr;
    if (may_share && process_.mutex.try_lock()) return process_;
    if (ThreadView *view = views_->lock_own(); view != nullptr) return view->runner();
    *fell_back = true;
  }
  process_.mutex.lock();
  return process_;
}

namespace {
// For one more begin.
Errc reserve_depth(std::vector<bool> &nest) noexcept try {
  nest.reserve(nest.size() + 1);
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the list of open begins");
}
}  // namespace

Errc DomainImpl::begin(bool is_query, RunsIn where, storage::LatencySite *site,
                       Presence presence) noexcept {
  TMH_TRY(usable());
  if (runs_here()) {
    std::vector<bool> &nest = current().pages.runner->nest;
    if (nest.front() && !is_query)
      return fail(Errc::kNestedMisuse, "an update cannot begin inside a query");
    TMH_TRY(reserve_depth(nest));
    nest.push_back(is_query);
    return Errc::kOk;
  }
  if (current().at_level_2())
    return fail(Errc::kNestedMisuse, "this thread runs an instance of another domain");
  TMH_TRY(abort_at_end_of_thread());
  const auto kind = is_query ? hierarchy::SampledKind::kQueries : hierarchy::SampledKind::kPages;
  const hierarchy::Timed timed =
      latency_use_ == Latency::kOff
          ? hierarchy::Timed{}
          : hierarchy::start_timing(latency_use_, current().samplers, kind);
  bool fell_back = false;
  PageRunner &runner = lock_runner(where, &fell_back);
  Errc error = usable();  // closed while we waited?
  if (error == Errc::kOk) error = reserve_depth(runner.nest);
  if (error == Errc::kOk) error = begin_on(runner, is_query, presence);
  if (error != Errc::kOk) {
    runner.mutex.unlock();
    return error;
  }
  if (fell_back) count_thread_view_fallback();
  advice_idle = runner.engine->is_steady();
  current().pages = {this,  &runner, fork_generation_, site != nullptr ? site : &no_site_,
                     timed, false};
  runner.nest.push_back(is_query);
  if (runner.view != nullptr) {
    runner.view->participant().add(storage::Count::kThreadViewInstances, 1);
    runner.view->enter();
  }
  return Errc::kOk;
}

// REQUIRES the runner's mutex.
Errc DomainImpl::begin_on(PageRunner &runner, bool is_query, Presence presence) noexcept {
  page::Engine &engine = *runner.engine;
  // relaxed: the pin's store comes later (seq_cst), and who reads it too early waits for another
  //          reason.
  memory_->participant(runner.slot)
      .is_guest.store(presence == Presence::kGuest ? 1 : 0, std::memory_order_relaxed);
  if (runner.view == nullptr) TMH_TRY(leave_line_mode());
  if (current().exact_reads_of == this) [[unlikely]]
    TMH_TRY(begin_exact_reads(engine));
  const Policy policy = this->policy();
  if (runner.attempts == 0 || !policy.keep_age)
    runner.age = detection_ == Detection::kEager ? engine.begin_age() : 0;
  if (!is_query && hierarchy::take_turn(policy, runner.attempts)) {
    engine.take_turn();
    runner.holds_turn = true;
  }
  engine.give_way(!is_query && hierarchy::yields_to_lower(cross_, runner.attempts));
  if (const Errc error = engine.begin(is_query, runner.age, policy.conflict); error != Errc::kOk) {
    leave_turn(runner);
    return error;
  }
  if (durable_ == nullptr || durable_->early_release()) return Errc::kOk;
  const Errc error = runner.log->wait(engine.snapshot(), engine.line_snapshot());
  if (error != Errc::kOk) {
    engine.abort(AbortCause::kUser);
    leave_turn(runner);
  }
  return error;
}

// REQUIRES an instance of this thread on the process's views.
void DomainImpl::count_thread_view_fallback() noexcept {
  memory_->participant(slot_).add(storage::Count::kThreadViewFallbacks, 1);
}

// At every end, committed or not: whoever gives up after an abort must not keep others waiting.
void DomainImpl::leave_turn(PageRunner &runner) noexcept {
  if (runner.holds_turn) runner.engine->leave_turn();
  runner.holds_turn = false;
}

void DomainImpl::finish(PageRunner &runner) noexcept {
  if (runner.view != nullptr) ThreadView::leave();
  current().last = {this,
                    runner.engine->snapshot(),
                    runner.attempts,
                    runner.clock_at_abort,
                    current().pages.by_retry,
                    current().retry_deadline_ns,
                    runner.engine->has_read_behind()};
  runner.nest.clear();
  advice_idle = false;
  current().pages = {};
  runner.mutex.unlock();
}

Errc DomainImpl::end(bool is_query, Status *status, Durability durability) noexcept {
  TMH_TRY(usable());
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  PageRunner &runner = *current().pages.runner;
  if (runner.nest.back() != is_query)
    return fail(Errc::kNestedMisuse,
                is_query ? "end_query() ends an update" : "end() ends a query");
  if (runner.nest.size() > 1) {
    runner.nest.pop_back();
    *status = runner.engine->validate();
    return Errc::kOk;
  }
  const PageRun instance = current().pages;
  const page::Engine::Outcome outcome =
      runner.engine->end(must_wait(Status::kCommitted, durability));
  *status = outcome.status;
  if (outcome.status == Status::kAborted && counts_as_attempt(outcome.cause)) {
    ++runner.attempts;
    runner.clock_at_abort = memory_->state().clock.load(std::memory_order_relaxed);
  } else if (!is_query) {
    runner.attempts = 0;
  }
  leave_turn(runner);
  Errc error = Errc::kOk;
  if (outcome.query_wrote != 0) {
    const std::uintptr_t at = runner.view != nullptr
                                  ? runner.view->common_address(outcome.query_wrote)
                                  : outcome.query_wrote;
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(at));
    const auto segment = segment_at(reinterpret_cast<const void *>(at));
    error = fail(Errc::kQueryWrote,
                 std::string("store to ") + text + (segment ? " in " + segment->name : ""));
  } else if (outcome.error != Errc::kOk) {
    error = outcome.error;
  }
  if (error != Errc::kOk || !must_wait(outcome.status, durability)) {
    record(instance, is_query, outcome.cause);
    finish(runner);
    return error;
  }
  const auto open = keep_open();
  page::DurableLog &log = *runner.log;
  finish(runner);
  // Without the runner's mutex: other threads of this process may run on its views meanwhile, and
  // join the group.
  error = log.wait(outcome.durable_at, outcome.durable_line);
  record(instance, is_query, AbortCause::kNone);
  return error;
}

Errc DomainImpl::acknowledge_lines(std::uint64_t line, Durability durability) noexcept {
  if (!must_wait(Status::kCommitted, durability)) return Errc::kOk;
  const auto open = keep_open();
  TMH_TRY(usable());
  return durable_->log().wait_lower(line);
}

// When a strict commit returns, everything that it read and wrote is durable (docs/design.md D1).
bool DomainImpl::must_wait(Status status, Durability durability) const noexcept {
  if (durable_ == nullptr || status != Status::kCommitted) return false;
  return durability == Durability{} ? durable_->is_strict() : durability == Durability::kStrict;
}

Errc DomainImpl::become_irrevocable(bool *is_pending) noexcept {
  TMH_TRY(usable());
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  PageRunner &runner = *current().pages.runner;
  if (runner.nest.front())
    return fail(Errc::kNestedMisuse, "a query cannot become irrevocable; it never aborts");
  runner.holds_turn = true;
  return runner.engine->become_irrevocable(is_pending);
}

void become_irrevocable_here() {
  bool is_pending = true;
  check(current().pages.domain->become_irrevocable(&is_pending));
  if (!is_pending) throw RetryNow{false};
}

void note_page_reads_here() {
  const page::Engine::ReadSet reads = current().pages.runner->engine->read_set();
  if (reads.is_exact && reads.segments.none()) raise_nothing_read();
  current().last_reads = reads;
  current().pages.by_retry = true;
}

bool irrevocable_here() noexcept {
  return current().at_level_2() && current().pages.runner->engine->irrevocable();
}

Errc DomainImpl::abort(AbortCause cause) noexcept {
  TMH_TRY(usable());
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  PageRunner &runner = *current().pages.runner;
  const bool is_query = runner.nest.front();
  runner.engine->abort(cause);
  record(current().pages, is_query, cause);
  runner.attempts = 0;
  leave_turn(runner);
  finish(runner);
  return Errc::kOk;
}

Errc DomainImpl::validate(Status *status) noexcept {
  TMH_TRY(usable());
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  *status = current().pages.runner->engine->validate();
  return Errc::kOk;
}

Errc DomainImpl::advise(const void *address, Access access, std::size_t bytes) noexcept {
  // A hot page's advice must cost next to nothing: a running instance of this thread implies that
  // the domain is usable.
  if (!runs_here()) {
    const Errc error = usable();
    return error != Errc::kOk ? error : fail(Errc::kEndWithoutBegin, "advice outside an instance");
  }
  if (access != Access::kRead && access != Access::kReadWrite)
    return fail(Errc::kBadArgument, "access is neither read nor read-write");
  const PageRunner &runner = *current().pages.runner;
  auto at = reinterpret_cast<std::uintptr_t>(address);
  if (runner.view != nullptr) at = runner.view->own_address(at);
  if (runner.engine->advise(at, bytes, access == Access::kReadWrite)) return Errc::kOk;
  return fail(Errc::kNotMapped, "the address belongs to no segment of this domain");
}

void DomainImpl::backoff() noexcept {
  if (usable() != Errc::kOk || runs_here() || current().last.domain != this) return;
  bool progressed = false;
  {
    const auto open = keep_open();
    if (usable() != Errc::kOk) return;
    progressed =
        memory_->state().clock.load(std::memory_order_relaxed) != current().last.clock_at_abort;
  }
  back_off(policy(), current().last.attempts, progressed);
}

void raise_left_open() {
  fail(Errc::kNestedMisuse, "the body has begun an instance that it has not ended");
  raise(Errc::kNestedMisuse);
}

std::uint64_t DomainImpl::collect() noexcept {
  if (runs_here()) return current().pages.runner->engine->collect();
  const std::scoped_lock guard(process_.mutex);
  return usable() == Errc::kOk ? engine_->collect() : 0;
}

Errc DomainImpl::set_policy(std::string_view spec) noexcept {
  TMH_TRY(usable());
  if (runs_at_any_level())
    return fail(Errc::kInstanceRunning, "the policy changes between instances");
  Policy parsed;
  if (const Errc error = parse(spec, &parsed); error != Errc::kOk)
    return fail(error, no_policy(spec));
  TMH_TRY(hierarchy::check_conflict(parsed, levels(), detection_));
  policy_.store({parsed}, std::memory_order_relaxed);
  return Errc::kOk;
}

}  // namespace tmh::detail
