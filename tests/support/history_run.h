// tests/support/history_run.h -- one run of several processes that do random transactions on a
// board, recorded and judged.
// Shape:     a process sets the board up; `processes` others begin together; one looks at what they
//            have left.
// Source:    tests/support/workload.h says what is random, tests/histories/checker.h what is right.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/options.hpp>

#include "observe/planted.h"
#include "tests/histories/checker.h"
#include "tests/support/modes.h"

namespace tmh::test {

struct HistoryPlan {
  Mode mode;
  DomainOptions options;  // options_for(mode, a policy)
  std::size_t processes = 3;
  std::uint64_t steps = 300;     // transactions of each process
  std::uint64_t first_seed = 1;  // of the first process; the others have the next ones
  std::uint64_t stall_seed = 0;  // not 0: a random schedule (stalls.h)
  // See Workload::use_isolation(); 0: all are serializable.
  std::uint32_t snapshot_percent = 0;
  bool promotes = true;
  // Defects of observe::Planted, in the processes of the run; what they leave is looked at
  // without.
  observe::Planted planted = observe::Planted::kNone;
};

struct HistoryResult {
  history::Verdict verdict;
  std::uint64_t conflicts = 0, hardware_commits = 0, stalls = 0;
  // The history, and every invariant that an instance or the last look at the domain asserted.
  bool is_right = false;
};

// What is wrong is printed; the test does not fail by it.
[[nodiscard]] HistoryResult run_history(const HistoryPlan &plan);

}  // namespace tmh::test
