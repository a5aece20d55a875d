// bench/support/snapshots_experiments.h -- the experiments of the snapshots bench.
// Shape:     each first runs a fixed number of steps of one worker by every contestant, and
//            compares what they found. Then its rounds: a round measures every row by every
//            contestant once, contestants in rotating order. Then it prints its table and adds its
//            rows to the report; ratios are taken within a round.
//            bank          a writer's transfers, a reader's sums of all accounts
//            list          lookups, inserts and removals
//            reservations  a writer's small transactions, a reader's scans
//            ycsb          workloads A and E
// Source:    EXCITE-VM, figures 2, 7, 8, 9, 11 and 12.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/snapshots_cell.h"

namespace tmh::bench {

struct SnapshotPlan {
  std::vector<SnapshotContestant> contestants;
  std::uint64_t seed = 0;
  std::size_t rounds = 1;
  double seconds = 1, warm_up_seconds = 0;  // of each measurement
  std::uint64_t steps = 0;                  // of those that are compared
  std::uint64_t accounts = 0, elements = 0, rows = 0, records = 0;
  std::vector<unsigned> update_percents;
  std::vector<std::uint64_t> scans;
  const ScratchFolder *scratch = nullptr;
  Report *report = nullptr;
  ResultHash *hash = nullptr;
};

// Each throws std::runtime_error when a result is wrong, or contestants found different ones.
void run_bank(const SnapshotPlan &plan);
void run_list(const SnapshotPlan &plan);
void run_reservations(const SnapshotPlan &plan);
void run_ycsb(const SnapshotPlan &plan);

}  // namespace tmh::bench
