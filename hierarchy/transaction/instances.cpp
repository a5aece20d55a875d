// hierarchy/transaction/instances.cpp -- begin, end, nesting, age, turn and backoff of instances of
// level 2; what follows their retry().
#include "hierarchy/transaction/instances.h"

#include <algorithm>
#include <cstdio>
#include <new>

#include <tmh/transaction.hpp>

#include "hierarchy/domain/domain.h"
#include "hierarchy/transaction/back_off.h"
#include "hierarchy/transaction/open_instance.h"
#include "hierarchy/transaction/policies.h"
#include "hierarchy/transaction/raise.h"
#include "hierarchy/transaction/retry.h"
#include "observe/latency_sampler.h"
#include "platform/assert.h"
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
  TMH_ASSERT(instance.site != nullptr);
  const LatencyLevel level = is_query ? LatencyLevel::kQueries : LatencyLevel::kPages;
  instance.site->record(level, outcome, observe::timed_ns(instance.timed), instance.timed.count);
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

std::uint32_t Instances::depth() const noexcept {
  return runs_here() ? static_cast<std::uint32_t>(current().pages.runner->nest.size()) : 0;
}

// A thread that has views of its own stays with them: its hot pages are there. A thread that never
// finds the process's views in use needs none.
PageRunner &Instances::lock_runner(RunsIn where, bool *fell_back) noexcept {
  TMH_ASSERT(fell_back != nullptr && !runs_here());
  *fell_back = where == RunsIn::kProcessViewInstead;
  if (where == RunsIn::kThreadView && domain_.settings().thread_views != ThreadViewUse::kNever) {
    const bool may_share = domain_.settings().thread_views == ThreadViewUse::kAuto &&
                           runners_.views().own() == nullptr;
    if (may_share && runners_.process().mutex.try_lock()) return runners_.process();
    if (ThreadView *view = runners_.views().lock_own(); view != nullptr) return view->runner();
    *fell_back = true;
  }
  runners_.process().mutex.lock();
  return runners_.process();
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

Errc Instances::begin(bool is_query, const BeginOptions &options) noexcept {
  TMH_TRY(domain_.usable());
  if (runs_here()) return begin_nested(is_query, options);
  if (current().at_level_2())
    return fail(Errc::kNestedMisuse, "this thread runs an instance of another domain");
  TMH_TRY(abort_at_end_of_thread());
  const auto kind = is_query ? observe::SampledKind::kQueries : observe::SampledKind::kPages;
  const observe::Timed timed =
      domain_.settings().latency == Latency::kOff
          ? observe::Timed{}
          : observe::start_timing(domain_.settings().latency, current().samplers, kind);
  bool fell_back = false;
  PageRunner &runner = lock_runner(options.where, &fell_back);
  Errc error = domain_.usable();  // closed while we waited?
  TMH_ASSERT(error != Errc::kOk || runner.nest.empty());
  if (error == Errc::kOk) error = reserve_depth(runner.nest);
  if (error == Errc::kOk) error = begin_on(runner, is_query, options);
  if (error != Errc::kOk) {
    runner.mutex.unlock();
    return error;
  }
  if (fell_back)
    domain_.memory().participant(domain_.slot()).add(storage::Count::kThreadViewFallbacks, 1);
  advice_idle = runner.engine->keeping().is_steady();
  current().pages = {&domain_,
                     &runners_,
                     &runner,
                     platform::fork_generation(),
                     options.site != nullptr ? options.site : &domain_.latency_of_no_site(),
                     timed,
                     false};
  runner.nest.push_back(is_query);
  if (runner.view != nullptr) {
    runner.view->participant().add(storage::Count::kThreadViewInstances, 1);
    runner.view->enter();
  }
  return Errc::kOk;
}

// Inside this thread's running instance, of which it becomes a part.
Errc Instances::begin_nested(bool is_query, const BeginOptions &options) noexcept {
  TMH_ASSERT(runs_here());
  PageRunner &runner = *current().pages.runner;
  if (options.moment != nullptr)
    return fail(Errc::kNestedMisuse, "query_at() cannot begin inside an instance");
  TMH_ASSERT(!runner.nest.empty());
  if (runner.nest.front() && !is_query)
    return fail(Errc::kNestedMisuse, "an update cannot begin inside a query");
  TMH_TRY(reserve_depth(runner.nest));
  runner.nest.push_back(is_query);
  if (!is_query && options.isolation == Isolation::kSerializable)
    runner.transaction().make_serializable();
  return Errc::kOk;
}

// REQUIRES the runner's mutex.
Errc Instances::begin_on(PageRunner &runner, bool is_query, const BeginOptions &options) noexcept {
  TMH_ASSERT(runner.engine != nullptr && !runner.holds_turn);
  TMH_ASSERT(options.moment == nullptr || is_query);
  page::Engine &engine = *runner.engine;
  page::Transaction &transaction = engine.transaction();
  // relaxed: the pin's store comes later (seq_cst), and a reader that reads it too early waits for
  //          another reason.
  domain_.memory()
      .participant(runner.slot)
      .is_guest.store(options.presence == Presence::kGuest ? 1 : 0, std::memory_order_relaxed);
  if (runner.view == nullptr) TMH_TRY(domain_.line_mode().leave());
  if (current().exact_reads_of == &domain_) [[unlikely]]
    TMH_TRY(begin_exact_reads(engine));
  const PageRunners::PolicyWord policy = runners_.policy_word();
  if (runner.attempts == 0 || !policy.keep_age)
    runner.age = domain_.settings().detection == Detection::kEager ? engine.ours().next_age() : 0;
  if (!is_query && hierarchy::take_turn(policy.keep_age, runner.attempts)) {
    engine.ours().turn.take();
    runner.holds_turn = true;
  }
  transaction.give_way(!is_query &&
                       hierarchy::yields_to_lower(domain_.settings().cross, runner.attempts));
  const Isolation isolation =
      options.isolation != Isolation{} ? options.isolation : policy.isolation;
  if (isolation == Isolation::kSnapshot) transaction.use_page_cache(runners_.page_cache());
  if (engine.recorder() != nullptr) [[unlikely]]
    engine.recorder()->use_site(options.site != nullptr ? current().last_site : nullptr);
  const Errc begun = options.moment != nullptr
                         ? transaction.begin_past(*options.moment, policy.conflict)
                         : transaction.begin(is_query, runner.age, policy.conflict, isolation);
  if (begun == Errc::kNotHeld) return fail_not_held(*options.moment, engine);
  if (begun != Errc::kOk) {
    leave_turn(runner);
    return begun;
  }
  if (domain_.durable() == nullptr || domain_.durable()->early_release()) return Errc::kOk;
  const Errc error =
      runner.log->group().wait(transaction.snapshot().at(), transaction.snapshot().line());
  if (error != Errc::kOk) {
    transaction.abort(AbortCause::kUser);
    leave_turn(runner);
  }
  return error;
}

// It was made to fail: the next one may get the turn, and does not give way for ever.
void Instances::count_attempt(PageRunner &runner) const noexcept {
  ++runner.attempts;
  runner.clock_at_abort = domain_.memory().state().clock.load(std::memory_order_relaxed);
}

// At every end, committed or not: a thread that gives up after an abort must not keep others
// waiting.
void Instances::leave_turn(PageRunner &runner) noexcept {
  if (runner.holds_turn) runner.engine->ours().turn.leave();
  runner.holds_turn = false;
}

void Instances::finish(PageRunner &runner) noexcept {
  TMH_ASSERT(current().pages.runner == &runner && !runner.holds_turn);
  if (runner.view != nullptr) ThreadView::leave();
  current().last = {&domain_,
                    runner.transaction().snapshot().at(),
                    runner.attempts,
                    runner.clock_at_abort,
                    current().pages.by_retry,
                    current().retry_deadline_ns,
                    runner.transaction().has_read_behind()};
  runner.nest.clear();
  advice_idle = false;
  current().pages = {};
  runner.mutex.unlock();
}

Errc Instances::end(bool is_query, Status *status, Durability durability) noexcept {
  TMH_ASSERT(status != nullptr);
  TMH_TRY(domain_.usable());
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  PageRunner &runner = *current().pages.runner;
  if (runner.nest.back() != is_query)
    return fail(Errc::kNestedMisuse,
                is_query ? "end_query() ends an update" : "end() ends a query");
  if (runner.nest.size() > 1) {
    runner.nest.pop_back();
    *status = runner.transaction().validate();
    return Errc::kOk;
  }
  const PageRun instance = current().pages;
  TMH_ASSERT(instance.runner->nest.size() == 1);
  const page::Outcome outcome =
      runner.transaction().end(domain_.must_wait(Status::kCommitted, durability));
  *status = outcome.status;
  if (outcome.status == Status::kAborted && counts_as_attempt(outcome.cause))
    count_attempt(runner);
  else if (!is_query)
    runner.attempts = 0;
  leave_turn(runner);
  Errc error = Errc::kOk;
  if (outcome.query_wrote != 0) {
    const std::uintptr_t at = runner.view != nullptr
                                  ? runner.view->common_address(outcome.query_wrote)
                                  : outcome.query_wrote;
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(at));
    const auto segment = domain_.segments().at(reinterpret_cast<const void *>(at));
    error = fail(Errc::kQueryWrote,
                 std::string("store to ") + text + (segment ? " in " + segment->name : ""));
  } else if (outcome.error != Errc::kOk) {
    error = outcome.error;
  }
  if (error != Errc::kOk || !domain_.must_wait(outcome.status, durability)) {
    record(instance, is_query, outcome.cause);
    finish(runner);
    return error;
  }
  const auto open = domain_.keep_open();
  page::DurableLog &log = *runner.log;
  TMH_ASSERT(outcome.status == Status::kCommitted);
  finish(runner);
  // Without the runner's mutex: other threads of this process may run on its views meanwhile, and
  // join the group.
  error = log.group().wait(outcome.durable_at, outcome.durable_line);
  record(instance, is_query, AbortCause::kNone);
  return error;
}

Errc Instances::become_irrevocable(bool *is_pending) noexcept {
  TMH_ASSERT(is_pending != nullptr);
  TMH_TRY(domain_.usable());
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  PageRunner &runner = *current().pages.runner;
  if (runner.nest.front())
    return fail(Errc::kNestedMisuse, "a query cannot become irrevocable; it never aborts");
  runner.holds_turn = true;
  return runner.transaction().become_irrevocable(is_pending);
}

void become_irrevocable_here() {
  TMH_ASSERT(current().at_level_2());
  bool is_pending = true;
  check(Instances(*current().pages.domain).become_irrevocable(&is_pending));
  if (!is_pending) throw RetryNow{false};
}

void promote_here(const void *address, std::size_t bytes) {
  TMH_ASSERT(current().at_level_2());
  check(Instances(*current().pages.domain).promote(address, bytes));
}

void note_page_reads_here() {
  TMH_ASSERT(current().at_level_2());
  const page::ReadSet reads = current().pages.runner->transaction().read_set();
  if (reads.is_exact && reads.segments.none()) raise_nothing_read();
  current().last_reads = reads;
  current().pages.by_retry = true;
}

bool irrevocable_here() noexcept {
  return current().at_level_2() && current().pages.runner->transaction().is_irrevocable();
}

Errc Instances::abort(AbortCause cause) noexcept {
  TMH_ASSERT(cause != AbortCause::kNone);
  TMH_TRY(domain_.usable());
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  PageRunner &runner = *current().pages.runner;
  const bool is_query = runner.nest.front();
  const AbortCause why_failed = runner.transaction().why_failed();
  runner.transaction().abort(cause);
  record(current().pages, is_query, cause);
  // A body that throws in each attempt fails as often as one that ends.
  if (counts_as_attempt(why_failed))
    count_attempt(runner);
  else
    runner.attempts = 0;
  leave_turn(runner);
  finish(runner);
  return Errc::kOk;
}

Errc Instances::validate(Status *status) noexcept {
  TMH_ASSERT(status != nullptr);
  TMH_TRY(domain_.usable());
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  *status = current().pages.runner->transaction().validate();
  return Errc::kOk;
}

Errc Instances::advise(const void *address, Access access, std::size_t bytes) noexcept {
  // A hot page's advice must cost next to nothing: a running instance of this thread implies that
  // the domain is usable.
  if (!runs_here()) {
    const Errc error = domain_.usable();
    return error != Errc::kOk ? error : fail(Errc::kEndWithoutBegin, "advice outside an instance");
  }
  if (access != Access::kRead && access != Access::kReadWrite)
    return fail(Errc::kBadArgument, "access is neither read nor read-write");
  const PageRunner &runner = *current().pages.runner;
  auto at = reinterpret_cast<std::uintptr_t>(address);
  if (runner.view != nullptr) at = runner.view->own_address(at);
  if (runner.transaction().advise(at, bytes, access == Access::kReadWrite)) return Errc::kOk;
  return fail(Errc::kNotMapped, "the address belongs to no segment of this domain");
}

Errc Instances::copy(const void *from, void *to, std::size_t bytes) noexcept {
  if (bytes == 0) return domain_.usable();
  TMH_ASSERT(from != nullptr && to != nullptr);
  if (!runs_here()) {
    TMH_TRY(domain_.usable());
    return fail(Errc::kEndWithoutBegin, "a copy outside an instance of level 2");
  }
  const PageRunner &runner = *current().pages.runner;
  auto at = reinterpret_cast<std::uintptr_t>(from);
  if (runner.view != nullptr) at = runner.view->own_address(at);
  const Errc error = runner.transaction().copy(at, bytes, static_cast<std::byte *>(to));
  if (error == Errc::kNotMapped)
    return fail(error, "copy(): the bytes do not lie in a segment of this domain");
  return error;
}

Errc Instances::promote(const void *address, std::size_t bytes) noexcept {
  TMH_ASSERT(runs_here());
  const PageRunner &runner = *current().pages.runner;
  auto at = reinterpret_cast<std::uintptr_t>(address);
  if (runner.view != nullptr) at = runner.view->own_address(at);
  const Errc error = runner.transaction().promote(at, bytes);
  if (error == Errc::kNotMapped)
    return fail(error, "promote(): the bytes do not lie in a segment of this domain");
  return error == Errc::kOutOfMemory ? platform::fail_for_memory("what is promoted") : error;
}

void Instances::backoff() noexcept {
  if (domain_.usable() != Errc::kOk || runs_here() || current().last.domain != &domain_) return;
  bool progressed = false;
  {
    const auto open = domain_.keep_open();
    if (domain_.usable() != Errc::kOk) return;
    progressed = domain_.memory().state().clock.load(std::memory_order_relaxed) !=
                 current().last.clock_at_abort;
  }
  back_off(runners_.policy(), current().last.attempts, progressed);
}

// Has level 1 committed since, to whatever page? REQUIRES that the domain stays open.
bool Instances::has_moved_at_lines(const page::ReadSet &reads) const noexcept {
  return reads.has_stand_ins && domain_.lines() != nullptr &&
         domain_.lines()->directory().clock() != reads.line_snapshot;
}

// Has one of the pages been committed to since, or may it have been at the level below? REQUIRES
// that the domain stays open, and that its clock has been acquired.
bool Instances::has_moved_at_pages(const page::ReadSet &reads,
                                   std::uint64_t snapshot) const noexcept {
  if (reads.page_count > page::ReadSet::kPagesMax) return true;
  TMH_ASSERT(reads.page_count <= reads.pages.size());
  // relaxed, both: the clock has been acquired
  if (domain_.memory().state().announcements.load(std::memory_order_relaxed) != reads.announcements)
    return true;
  return std::any_of(
      reads.pages.begin(), reads.pages.begin() + static_cast<std::ptrdiff_t>(reads.page_count),
      [&](storage::PageId page) {
        return domain_.memory().meta_to_read(page).stamp.load(std::memory_order_relaxed) > snapshot;
      });
}

// Level 1 changes what an instance of level 2 has read only after a release, which moves the clock
// as well; but for pages that level 2 could not take, and memory stood in for; and for what it had
// changed already when a snapshot that could not move on came there.
Errc Instances::await_change() noexcept {
  if (domain_.usable() != Errc::kOk || runs_here()) return Errc::kOk;
  const bool is_last = current().last.domain == &domain_;
  if (is_last && current().last.has_read_behind) return Errc::kOk;
  const bool by_retry = is_last && current().last.by_retry;
  if (by_retry && !current().last_reads.is_exact) {
    current().exact_reads_of = &domain_;  // the next attempt, which begins at once, will know
    return Errc::kOk;
  }
  std::uint64_t seen = current().last.snapshot;
  if (!is_last) {
    const auto open = domain_.keep_open();
    if (domain_.usable() != Errc::kOk) return Errc::kOk;
    seen = domain_.engine().transaction().snapshot().at();
  }
  const std::uint64_t epoch = domain_.segments().mapped().epoch();
  bool is_unmapped = false;
  Errc in_vain = Errc::kOk;
  // level 1 wakes those alone who have read there
  constexpr std::int64_t kUnannouncedNsMax = 1'000'000;
  const Slept slept = sleep_until(
      [&](Awaited *awaited) {
        {
          const auto open = domain_.keep_open();  // a close by another thread waits for one look
          if (domain_.usable() != Errc::kOk) return true;
          if (awaited != nullptr) awaited->prepare(domain_.memory().state().changed);
          // acquire: as a begin's
          const bool has_moved =
              domain_.memory().state().clock.load(std::memory_order_acquire) != seen;
          if (has_moved && (!by_retry || has_moved_at_pages(current().last_reads, seen)))
            return true;
          if (by_retry && has_moved_at_lines(current().last_reads)) return true;
          in_vain = domain_.check_commits();
          if (in_vain != Errc::kOk) return true;
        }
        // By hand it is not known what has been read: then any unmapping may have been its.
        if (!by_retry) return domain_.segments().mapped().epoch() != epoch;
        is_unmapped = !domain_.segments().mapped().have(current().last_reads.segments);
        return is_unmapped;
      },
      by_retry ? current().last.deadline_ns : kNoDeadline,
      by_retry && current().last_reads.has_stand_ins ? kUnannouncedNsMax : kSleepNsMax);
  count_sleep(domain_, slept);
  if (in_vain != Errc::kOk) return in_vain;
  // A close unmaps, too: then it is the next begin that says why it fails.
  return is_unmapped && domain_.usable() == Errc::kOk ? fail_unmapped() : Errc::kOk;
}

// REQUIRES the runner's mutex. While the domain's clock stands, the attempt will touch what the one
// before has.
Errc Instances::begin_exact_reads(page::Engine &engine) noexcept {
  current().exact_reads_of = nullptr;
  // acquire: as a begin's
  const bool is_changed =
      domain_.memory().state().clock.load(std::memory_order_acquire) != current().last.snapshot;
  if (!is_changed && !domain_.segments().mapped().have(current().last_reads.segments))
    return fail_unmapped();
  engine.forget_kept();
  return Errc::kOk;
}

void raise_left_open() {
  fail(Errc::kNestedMisuse, "the body has begun an instance that it has not ended");
  raise(Errc::kNestedMisuse);
}

void raise_past_stands() {
  fail(Errc::kNothingRead, "the past does not change: retry() in query_at()");
  raise(Errc::kNothingRead);
}

std::uint64_t Instances::collect() noexcept {
  if (runs_here()) return current().pages.runner->engine->collect();
  const std::scoped_lock guard(runners_.process().mutex);
  return domain_.usable() == Errc::kOk ? domain_.engine().collect() : 0;
}

// Level 1 stores to home, and keeps nothing of what it replaces.
Errc Instances::check_past() noexcept {
  TMH_TRY(domain_.usable());
  if (domain_.runs_at_any_level(Need::kUnknown))
    return fail(Errc::kInstanceRunning, "moments are named between instances");
  return domain_.settings().levels == Levels::kHybrid
             ? fail(Errc::kLevelsMismatch, "the past of a domain is held with levels page alone")
             : Errc::kOk;
}

KeptMoments Instances::kept_moments() const noexcept {
  return {domain_.memory(), domain_.engine(), runners_.process().log};
}

Errc Instances::fail_not_held(const Moment &moment, page::Engine &engine) noexcept try {
  PastInfo info = engine.ours().tree.past().info(engine.lock_domain());
  std::string text;
  if (moment.kind() == Moment::Kind::kName) {
    TMH_TRY(kept_moments().complete(&info));
    for (const NamedMoment &each : info.moments)
      if (each.name == moment.name() && !each.is_held)
        return fail(Errc::kNotHeld,
                    "'" + each.name + "' is commit " + std::to_string(each.clock) + ", LSN " +
                        std::to_string(each.lsn) +
                        ", of an earlier life of the domain, of which memory holds nothing; "
                        "open_image() shows it from a backup");
    text = "no moment is called '" + std::string(moment.name()) + "'; names:";
    for (const NamedMoment &each : info.moments) text += " " + each.name;
    if (info.moments.empty()) text += " none";
  } else {
    text = std::string(moment.kind() == Moment::Kind::kClock ? "clock " : "time ") +
           std::to_string(moment.number()) + "; held: from clock " + std::to_string(info.oldest) +
           " to " + std::to_string(info.now) + ", and " + std::to_string(info.moments.size()) +
           " named moments";
  }
  return fail(Errc::kNotHeld, std::move(text));
} catch (const std::bad_alloc &) {
  return Errc::kNotHeld;
}

Errc Instances::keep_moment(std::string_view name, std::uint64_t *clock) noexcept {
  TMH_ASSERT(clock != nullptr);
  TMH_TRY(check_past());
  if (name.empty() || name.size() > kMomentNameMax || name.find('\0') != std::string_view::npos)
    return fail(Errc::kBadArgument, "the name of a moment has 1 to 47 bytes, none of them zero");
  const std::scoped_lock guard(runners_.process().mutex);
  TMH_TRY(domain_.usable());
  return kept_moments().keep(name, clock);
}

Errc Instances::forget_moment(std::string_view name) noexcept {
  TMH_TRY(check_past());
  const std::scoped_lock guard(runners_.process().mutex);
  TMH_TRY(domain_.usable());
  return kept_moments().forget(name);
}

Errc Instances::past(PastInfo *info) noexcept try {
  TMH_ASSERT(info != nullptr);
  TMH_TRY(domain_.usable());
  const auto open = domain_.keep_open();
  TMH_TRY(domain_.usable());
  page::Engine &engine = domain_.engine();
  *info = engine.ours().tree.past().info(engine.lock_domain());
  return kept_moments().complete(info);
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("what is held of the past");
}

Errc Instances::set_policy(std::string_view spec) noexcept {
  TMH_TRY(domain_.usable());
  if (domain_.runs_at_any_level(Need::kSetPolicy))
    return fail(Errc::kInstanceRunning, "the policy changes between instances");
  Policy parsed;
  if (const Errc error = parse(spec, &parsed); error != Errc::kOk)
    return fail(error, no_policy(spec));
  TMH_TRY(
      hierarchy::check_conflict(parsed, domain_.settings().levels, domain_.settings().detection));
  runners_.use_policy(parsed);
  return Errc::kOk;
}

}  // namespace tmh::detail
