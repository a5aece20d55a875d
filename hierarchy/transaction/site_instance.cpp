// hierarchy/transaction/site_instance.cpp -- at which level the attempts of a site's instance run.
#include "hierarchy/transaction/site_instance.h"

#include <type_traits>

#include "hierarchy/transaction/back_off.h"
#include "hierarchy/transaction/raise.h"
#include "levels/line/software.h"
#include "observe/planted.h"
#include "observe/probes.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/ticks.h"

namespace tmh::detail {

using hierarchy::AttemptLevel;
using hierarchy::Failed;
using hierarchy::FailedAttempt;
using hierarchy::NextStep;

static_assert(std::is_trivially_destructible_v<SiteInstance>);

namespace {

constexpr std::uint32_t kQueryAttemptsMax = 8;

struct EscalationCounts {
  SiteCount of_site;
  line::LineCount of_domain;
};
constexpr EscalationCounts counts_of_escalation(const Undone &undone) noexcept {
  if (undone.over_capacity) return {SiteCount::kForCapacity, line::LineCount::kForCapacity};
  if (undone.needs_pages) return {count_of(undone.need), line::line_need_count(undone.need)};
  return {SiteCount::kForAttempts, line::LineCount::kForAttempts};
}

// Where an attempt at level 1, which is undone, has counted.
line::LineContextV1 &context_of(AttemptLevel level) noexcept {
  TMH_ASSERT(level == AttemptLevel::kHardware || level == AttemptLevel::kLines);
  return level == AttemptLevel::kHardware ? *current().hardware.context
                                          : current().lines.thread->context();
}

}  // namespace

void SiteInstance::choose_by_learning() noexcept {
  const Escalation &escalation = site_.escalation();
  hierarchy::Learned learned = site_.learned(kind());
  if (is_query() ? hierarchy::query_begins_at_pages(escalation, &learned.own)
                 : hierarchy::begins_at_pages(escalation, &learned.own))
    state_ = State::kTryPages;
  else if (learned.refused.page_runs != 0 &&
           hierarchy::begins_as_guest(escalation, &learned.refused,
                                      domain().lines()->any_host_runs()))
    state_ = State::kTryPagesAsGuest;
  if (is_at_level_1(state_)) return;
  TMH_ASSERT(level() == AttemptLevel::kPages);
  site_.learn(kind(), learned);
  if (is_guest(state_) || !site_.runs_unlimited(kind(), body()) || !site_.beyond().is_expected())
    return;
  if (const Failed will = choose_beyond_model(); will != Failed::kAtThisLevel)
    state_ = next(first_state(), will);
}

// The instance exceeds the capacity model, or will; its site may run it without.
Failed SiteInstance::choose_beyond_model() noexcept {
  TMH_ASSERT(site_.runs_unlimited(kind(), body()));
  hierarchy::BeyondCapacity &beyond = site_.beyond();
  if (beyond.begins_at_pages()) return Failed::kAtThisLevel;
  return beyond.begins_alone() ? Failed::kOverModelAmongOthers : Failed::kOverModel;
}

// Reading the counter takes as long as a small instance, so it is read for what is timed alone.
void SiteInstance::start_timing() noexcept {
  timed_ = observe::start_timing(domain().settings().latency, current().samplers,
                                 observe::SampledKind::kLines);
  if (attempts_ != 0) return;
  const bool is_asked_for =
      timed_.count == 0 &&
      (site_.escalation().kind == EscalationKind::kAfterWasted || site_.rule() != nullptr);
  first_ticks_ = is_asked_for ? platform::ticks() : timed_.begin_ticks;
}

bool SiteInstance::goes_on_at_level_1(const Undone &undone) {
  TMH_ASSERT(is_at_level_1(state_));
  const bool refused = undone.refusal != Refusal::kNone;
  if (is_first(state_) && !undone.met_lock) ++attempts_first_;
  FailedAttempt failed{undone.over_capacity, undone.needs_pages, refused};
  failed.may_go_first = level() == AttemptLevel::kLines && !is_query() && !undone.met_pages;
  failed.attempts = ++attempts_;
  failed.attempts_first = attempts_first_;
  const bool counts_early = observe::is_planted(observe::Planted::kEscalationEarly);
  if (counts_early && attempts_ == 1)
    context_of(level()).add(counts_of_escalation(undone).of_domain, 1);
  // Where the beginning is not known, what is wasted counts from the first failure.
  if (first_ticks_ == 0) first_ticks_ = platform::ticks();
  if (failed.attempts > 1)
    failed.wasted_ns = platform::ns_of_ticks(platform::ticks() - first_ticks_);
  NextStep step = hierarchy::next(site_.escalation(), failed);
  if (site_.rule() != nullptr && step == NextStep::kRetry && !is_query())
    step = by_own_rule(failed);
  // Without the model, beside other instances that made it fail: now none of them commits.
  if (!undone.over_capacity && !undone.needs_pages && !refused &&
      state_ == State::kTryLinesUnlimited) {
    site_.beyond().failed_beside_others();
    step = NextStep::kRetry;
  }
  // A query goes where it cannot fail; no policy keeps it among those that it meets again and
  // again.
  if (is_query() && (step == NextStep::kGiveUp || refused || attempts_ >= kQueryAttemptsMax))
    step = NextStep::kEscalate;
  switch (step) {
    case NextStep::kRetry:
      this->failed(Failed::kByOthers);
      back_off(domain().runners().policy(), attempts_, undone.others_progressed);
      return true;
    case NextStep::kGoFirst:
      this->failed(Failed::kByOthersTooOften);
      return true;
    case NextStep::kGiveUp:
      give_up(undone);
    case NextStep::kEscalate:
      break;
  }
  if (undone.over_capacity && !is_unlimited(state_) && site_.runs_unlimited(kind(), body())) {
    if (const Failed beyond = choose_beyond_model(); beyond != Failed::kAtThisLevel) {
      this->failed(beyond);
      learn_escalation(true, Refusal::kNone);
      return true;
    }
  }
  go_up(undone);
  return false;
}

// Outside level 1: the rule may run instances.
NextStep SiteInstance::by_own_rule(const FailedAttempt &failed) {
  TMH_ASSERT(site_.rule() != nullptr);
  FailedAttempts told;
  told.attempts = failed.attempts;
  told.wasted_us = failed.wasted_ns / 1000;
  told.line_commits =
      site_.total(SiteCount::kLineCommits) + site_.total(SiteCount::kHardwareCommits);
  told.page_commits = site_.total(SiteCount::kPageCommits);
  told.line_aborts = site_.total(SiteCount::kLineAborts);
  told.page_aborts = site_.total(SiteCount::kPageAborts);
  const LineRun run = current().lines;
  line::LineContextV1 *const hardware_context = current().hardware.context;
  leave_lines();
  const bool goes_up = site_.rule()(told) == NextLevel::kGoUp;
  enter_lines();
  current().lines = run;
  current().hardware.context = hardware_context;
  return goes_up ? NextStep::kEscalate : NextStep::kRetry;
}

void SiteInstance::give_up(const Undone &undone) const {
  if (level() == AttemptLevel::kLines && current().lines.no_room != Errc::kOk)
    raise(current().lines.no_room);
  platform::fail(Errc::kNeedsPages,
                 "site '" + site_.name() + "': " +
                     (undone.over_capacity ? std::string("its working set exceeds level 1")
                                           : std::string("it did what only level 2 can: ") +
                                                 to_string(undone.need)));
  raise(Errc::kNeedsPages);
}

void SiteInstance::go_up(const Undone &undone) noexcept {
  TMH_ASSERT(is_at_level_1(state_));
  const EscalationCounts counts = counts_of_escalation(undone);
  observe::probe::escalate(site_.name().c_str(),
                           undone.over_capacity ? 1
                           : undone.needs_pages ? 2
                                                : 0,
                           attempts_, static_cast<std::uint32_t>(undone.need));
  site_.add(counts.of_site, 1);
  if (!observe::is_planted(observe::Planted::kEscalationEarly))
    context_of(level()).add(counts.of_domain, 1);
  const bool was_unlimited = is_unlimited(state_);
  // What level 2 has refused is no evidence about the site. A query is refused at once, so what it
  // meets is: it would lose an attempt each time.
  const bool is_refused = undone.refusal != Refusal::kNone && !is_query();
  if (was_unlimited && !is_refused) site_.beyond().escalated();
  failed(is_refused ? Failed::kRefused : Failed::kAtThisLevel);
  learn_escalation(undone.over_capacity || (was_unlimited && !undone.needs_pages), undone.refusal);
}

void SiteInstance::learn_escalation(bool over_capacity, Refusal refusal) noexcept {
  if (!is_query() && !hierarchy::learns(site_.escalation())) return;
  hierarchy::Learned learned = site_.learned(kind());
  if (!is_guest(state_))
    learned.own = hierarchy::after_escalation(learned.own);
  else if (refusal == Refusal::kByHosts)
    learned.refused = hierarchy::after_escalation(learned.refused);
  site_.learn(kind(), learned);
  if (site_.runs_unlimited(kind(), body())) site_.beyond().escalated_from_model(over_capacity);
}

}  // namespace tmh::detail
