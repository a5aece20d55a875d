// observe/perf/site_profile.cpp -- readings before and after each instance, added up by level.
#include <utility>

#include <tmh/perf.hpp>

#include "platform/assert.h"
#include "platform/process.h"

namespace tmh::perf {

struct SiteProfile::Impl {
  explicit Impl(const std::vector<std::string> &groups)
      : counters(groups), before(counters.read()) {
    for (LevelCost &cost : costs) cost.events = before;
    counters.start();
  }

  Counters counters;
  std::vector<Reading> before;
  std::uint64_t before_ns = 0;
  LevelCost costs[2];  // lines, pages
};

SiteProfile::SiteProfile(const Site &site, const std::vector<std::string> &groups)
    : site_(site), before_(site.report()), impl_(std::make_unique<Impl>(groups)) {}
SiteProfile::~SiteProfile() = default;

void SiteProfile::begin() noexcept {
  impl_->before = impl_->counters.read();
  impl_->before_ns = platform::monotonic_ns();
}

void SiteProfile::end(bool at_pages) noexcept {
  TMH_ASSERT(impl_->before_ns != 0);  // begin() was called
  LevelCost &cost = impl_->costs[at_pages ? 1 : 0];
  cost.ns += platform::monotonic_ns() - impl_->before_ns;
  ++cost.instances;
  const std::vector<Reading> now = impl_->counters.read();
  TMH_ASSERT(now.size() == impl_->before.size() && now.size() == cost.events.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    const Reading &before = impl_->before[i];
    Reading &sum = cost.events[i];
    sum.counted += now[i].counted - before.counted;
    sum.enabled_ns += now[i].enabled_ns - before.enabled_ns;
    sum.running_ns += now[i].running_ns - before.running_ns;
    sum.missing = now[i].missing;
  }
}

LevelCost SiteProfile::at_lines() const { return impl_->costs[0]; }
LevelCost SiteProfile::at_pages() const { return impl_->costs[1]; }

// A new total must be subtracted, too.
static_assert(sizeof(SiteReport) ==
              sizeof(std::string) + (sizeof(Escalation) + 7) / 8 * 8 +
                  (22 + kAbortCauseCount + kNeedCount) * sizeof(std::uint64_t));

SiteReport SiteProfile::report() const {
  SiteReport report = site_.report();
  for (std::uint64_t SiteReport::*total : {&SiteReport::line_commits,
                                           &SiteReport::unlimited_commits,
                                           &SiteReport::page_commits,
                                           &SiteReport::line_aborts,
                                           &SiteReport::page_aborts,
                                           &SiteReport::escalations_capacity,
                                           &SiteReport::escalations_needs_pages,
                                           &SiteReport::escalations_attempts,
                                           &SiteReport::de_escalations,
                                           &SiteReport::releases,
                                           &SiteReport::recalls,
                                           &SiteReport::line_ns,
                                           &SiteReport::page_ns,
                                           &SiteReport::hardware_commits,
                                           &SiteReport::hardware_conflicts,
                                           &SiteReport::hardware_capacity,
                                           &SiteReport::hardware_zero,
                                           &SiteReport::hardware_explicit,
                                           &SiteReport::hardware_gate,
                                           &SiteReport::hardware_other,
                                           &SiteReport::hardware_findings,
                                           &SiteReport::hardware_pages})
    report.*total -= before_.*total;
  for (std::size_t i = 0; i < kAbortCauseCount; ++i)
    report.line_aborts_by_cause[i] -= before_.line_aborts_by_cause[i];
  for (std::size_t i = 0; i < kNeedCount; ++i)
    report.escalations_by_need[i] -= before_.escalations_by_need[i];
  return report;
}

}  // namespace tmh::perf
