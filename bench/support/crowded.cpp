// bench/support/crowded.cpp -- processes of TPC-B that start and end together.
#include "bench/support/crowded.h"

#include <memory>
#include <stdexcept>

#include <tmh/tmh.hpp>

#include "bench/support/clock.h"
#include "bench/support/team.h"
#include "examples/workloads/workload.hpp"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::uint64_t kLookEvery = 16;  // as in hierarchy_work.cpp

std::uint64_t work_for(double milliseconds, Durability durability, workloads::Worker *worker) {
  TMH_ASSERT(worker != nullptr);
  const auto until = now_ns() + static_cast<std::int64_t>(milliseconds * 1e6);
  for (std::uint64_t count = 1;; ++count) {
    worker->step();
    if ((durability == Durability::kStrict || count % kLookEvery == 0) && now_ns() >= until)
      return count;
  }
}

}  // namespace

CrowdedOutcome run_crowded(const CrowdedRun &run, const std::string &folder) {
  TMH_ASSERT(run.processes >= 1 && run.processes <= kTeamMembersMax);
  TMH_ASSERT(run.run_ms > 0);
  struct Results {
    CrowdedOutcome of[kTeamMembersMax];
    std::uint64_t timed[kTeamMembersMax];
    bool holds;
  };
  const Shared<Results> results;
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;
  options.durability = run.durability;
  workloads::Plan plan;
  plan.workload = workloads::find("tpcb");
  TMH_ASSERT(plan.workload != nullptr);
  plan.escalation = run.escalation;
  plan.seed = run.seed;
  const double ns = run_team_ns(run.processes, [&](unsigned index, const TeamClock &clock) {
    const Domain domain = Domain::open(folder, options);
    const std::unique_ptr<workloads::Workload> bank = workloads::open(domain, plan);
    bank->set_up();
    const std::unique_ptr<workloads::Worker> worker = bank->make_worker(index);
    clock.meet();
    (void)work_for(run.warm_up_ms, run.durability, worker.get());
    clock.start();
    results->timed[index] = work_for(run.run_ms, run.durability, worker.get());
    clock.finish();
    clock.meet();  // no process closes while another works
    CrowdedOutcome &out = results->of[index];
    for (const SiteReport &report : bank->reports()) {
      out.line_commits += report.line_commits;
      out.page_commits += report.page_commits;
      out.for_attempts += report.escalations_attempts;
    }
    const Counters counters = domain.counters();  // of the whole domain
    out.recalls = counters.recalls;
    out.releases = counters.releases;
    clock.meet();
    if (index == 0) results->holds = bank->verify().holds;
  });
  CrowdedOutcome all;
  std::uint64_t timed = 0;
  for (unsigned i = 0; i < run.processes; ++i) {
    const CrowdedOutcome &one = results->of[i];
    timed += results->timed[i];
    all.line_commits += one.line_commits;
    all.page_commits += one.page_commits;
    all.for_attempts += one.for_attempts;
    all.recalls = one.recalls;
    all.releases = one.releases;
  }
  if (!results->holds)
    throw std::runtime_error(run.escalation + ": the invariant of TPC-B does not hold");
  all.commits_per_s = static_cast<double>(timed) / ns * 1e9;
  return all;
}

}  // namespace tmh::bench
