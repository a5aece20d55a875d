// hierarchy/transaction/escalation.h -- at which level an instance begins, and when a failing one
// goes one level up.
// Shape:     pure constexpr functions on small values; clocks and counters stay with the caller.
// Source:    thesis, section 6.2 ("transactions may be moved up ... or even down", left open
//            there); docs/design.md 4.
#pragma once

#include <cstdint>

#include <tmh/lab.hpp>
#include <tmh/options.hpp>

namespace tmh::hierarchy {

// What one failed attempt at level 1 left to know. Never inferred from missing status bits: status
// 0 is legal.
struct FailedAttempt {
  bool over_capacity = false;        // it will not fit the next time either
  bool needs_pages = false;          // it did what level 1 cannot do (allocation, plain code)
  bool refused = false;              // level 2 did not give a page back in time
  bool may_go_first = false;         // level 1 can have the others wait for it
  std::uint32_t attempts = 0;        // of this instance, this one included
  std::uint32_t attempts_first = 0;  // of these, while the others waited
  // Since its first attempt began. Of a policy that does not ask for time alone: since that failed,
  // where it was not timed (latency_sampler.h).
  std::uint64_t wasted_ns = 0;
};

// Does a site remember, and begin its next instances where the last one had to go?
[[nodiscard]] constexpr bool learns(const Escalation &escalation) noexcept {
  return escalation.kind == EscalationKind::kAdaptive || escalation.kind == lab::kAdaptivePages;
}

enum class NextStep : std::uint8_t { kRetry, kGoFirst, kEscalate, kGiveUp };

// The adaptive policies: that others were in the way is no reason to leave level 1 while it can
// have them wait. Level 2 is not rid of them either; all that use the same pages have to follow,
// and in a durable domain none is back before the log is written. Nor does the time tell: where
// more threads run than there are processors, most of it is that of others.
[[nodiscard]] constexpr NextStep next(const Escalation &escalation,
                                      const FailedAttempt &failed) noexcept {
  const bool cannot = failed.over_capacity || failed.needs_pages;
  const bool many = failed.attempts >= escalation.attempts;
  const bool long_enough = failed.wasted_ns >= std::uint64_t{escalation.wasted_us} * 1000;
  // They differ in what level 1 does about its capacity.
  const bool is_adaptive = learns(escalation);
  switch (is_adaptive ? EscalationKind::kAdaptive : escalation.kind) {
    case EscalationKind::kNever:
      return cannot ? NextStep::kGiveUp : NextStep::kRetry;
    case EscalationKind::kAlways:
      return NextStep::kEscalate;
    case EscalationKind::kOnCapacity:
    // Where this stays, the rule of the site is asked (site_instance.cpp).
    case EscalationKind::kOwn:
      return cannot || failed.refused ? NextStep::kEscalate : NextStep::kRetry;
    case EscalationKind::kAfterAttempts:
      return cannot || failed.refused || many ? NextStep::kEscalate : NextStep::kRetry;
    case EscalationKind::kAfterWasted:
      return cannot || failed.refused || long_enough ? NextStep::kEscalate : NextStep::kRetry;
    case EscalationKind::kAdaptive:
      if (cannot || failed.refused) return NextStep::kEscalate;
      if (!failed.may_go_first) return many || long_enough ? NextStep::kEscalate : NextStep::kRetry;
      if (failed.attempts_first >= escalation.attempts) return NextStep::kEscalate;
      return many || long_enough ? NextStep::kGoFirst : NextStep::kRetry;
  }
  return NextStep::kEscalate;
}

// What a site has learned. While `page_runs` lasts its instances begin at level 2; then one tries
// level 1 again (de-escalation). Each trial that fails doubles the next wait, so a site that always
// overflows wastes one attempt in 256; each instance that fits halves it, so a site whose work has
// shrunk is back after at most 256 instances, and one that overflows by chance stays down.
struct SiteState {
  static constexpr std::uint16_t kPageRunsMax = 256;
  std::uint16_t page_runs = 0;  // instances still to begin at level 2
  std::uint16_t penalty = 0;    // page_runs after the next escalation
};
static_assert((SiteState::kPageRunsMax & (SiteState::kPageRunsMax - 1)) == 0);  // by doubling

[[nodiscard]] constexpr bool begins_at_pages(const Escalation &escalation,
                                             SiteState *site) noexcept {
  if (escalation.kind == EscalationKind::kAlways) return true;
  if (!learns(escalation) || site->page_runs == 0) return false;
  --site->page_runs;
  return true;
}

// A query of a site. One that is too large for level 1 goes up whatever the policy says, so what
// queries have learned holds at each.
[[nodiscard]] constexpr bool query_begins_at_pages(const Escalation &escalation,
                                                   SiteState *site) noexcept {
  if (escalation.kind == EscalationKind::kAlways) return true;
  if (site->page_runs == 0) return false;
  --site->page_runs;
  return true;
}

[[nodiscard]] constexpr SiteState after_escalation(SiteState site) noexcept {
  const int doubled = site.penalty == 0 ? 1 : 2 * site.penalty;
  site.penalty = static_cast<std::uint16_t>(
      doubled < SiteState::kPageRunsMax ? doubled : SiteState::kPageRunsMax);
  site.page_runs = site.penalty;
  return site;
}

[[nodiscard]] constexpr SiteState after_line_commit(SiteState site) noexcept {
  site.penalty = static_cast<std::uint16_t>(site.penalty / 2);
  return site;
}

// A site learns two things apart. `own`: its own instances do not fit level 1. `refused`: instances
// at level 2 kept one of its from level 1, because they had a page that it needs or had shut the
// gate of RTM; that ends when those instances do. An instance that runs at level 2 because of
// `refused` alone is a *guest*, each other one there a host. Hosts alone keep guests at level 2:
// otherwise processes that could all run at level 1 would keep each other away from it for ever. A
// guest that does not end, because its process is stopped, counts as a host.
struct Learned {
  SiteState own;
  SiteState refused;
};

// Does the instance begin as a guest? hosts_run: an instance that is no guest runs at level 2. Each
// look that finds none halves what is left: a gap between two hosts costs little then, and when the
// last one has gone all are back after nine instances.
[[nodiscard]] constexpr bool begins_as_guest(const Escalation &escalation, SiteState *refused,
                                             bool hosts_run) noexcept {
  if (!learns(escalation) || refused->page_runs == 0) return false;
  refused->page_runs =
      static_cast<std::uint16_t>(hosts_run ? refused->page_runs - 1 : refused->page_runs / 2);
  return true;
}

}  // namespace tmh::hierarchy
