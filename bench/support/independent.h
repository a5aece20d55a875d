// bench/support/independent.h -- tests A, B and C: transactions of several processes that never
// conflict.
// Shape:   every process works on a page of its own: no conflicts. The total number of transactions
//          is the same for every number of processes; time runs from the common start to the last
//          finish.
//          A: one integer of the page is incremented
//          B: all 1,024
//          C: all 1,024, a thousand times over
// Checked: at the end every page holds the number of increments that its process made.
// Source:  thesis, section 4.4, figures 4-5 and 4-6.
#pragma once

#include <cstdint>
#include <string>

#include "bench/support/modes.h"

namespace tmh::bench {

enum class IncrementTest : char { kA = 'A', kB = 'B', kC = 'C' };

struct IndependentRun {
  Mode mode;
  IncrementTest test = IncrementTest::kA;
  unsigned processes = 1;
  bool advised = true;  // as the thesis does (4.4, note 9)
  // Of all processes together; what division leaves over is not done.
  std::uint64_t transactions = 0;
};

struct IndependentResult {
  double us_per_transaction = 0;                                          // of the whole team
  double log_bytes_per_transaction = 0, log_flushes_per_transaction = 0;  // 0 without a log
  // That every touched integer holds.
  std::uint32_t increments = 0;
};

// `folder` is new. Throws std::runtime_error when a process fails or a page holds a wrong count.
[[nodiscard]] IndependentResult run_independent(const IndependentRun &run,
                                                const std::string &folder);

// The baseline: the same loops on plain shared memory without transactions; mode and advice are not
// looked at. Where they do not scale, the machine has no second core to give.
[[nodiscard]] IndependentResult run_independent_plain(const IndependentRun &run);

}  // namespace tmh::bench
