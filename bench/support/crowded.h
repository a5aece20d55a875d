// bench/support/crowded.h -- the transaction of TPC-B on software lines under one escalation
// policy, by any number of processes: what becomes of it where they are more than the processors.
// Shape:     examples/workloads/tpcb.cpp, one branch, so that all update the same row; one thread
//            a process.
// Checked:   the invariant of the workload, after each run.
#pragma once

#include <cstdint>
#include <string>

#include <tmh/options.hpp>

namespace tmh::bench {

struct CrowdedRun {
  Durability durability = Durability::kNone;
  std::string escalation;
  unsigned processes = 1;
  double warm_up_ms = 0, run_ms = 0;
  std::uint64_t seed = 0;
};

struct CrowdedOutcome {
  double commits_per_s = 0;
  // All processes, warm-up included.
  std::uint64_t line_commits = 0, page_commits = 0, for_attempts = 0, recalls = 0, releases = 0;
};

// Throws std::runtime_error when the invariant does not hold. `folder`: new and empty.
[[nodiscard]] CrowdedOutcome run_crowded(const CrowdedRun &run, const std::string &folder);

}  // namespace tmh::bench
