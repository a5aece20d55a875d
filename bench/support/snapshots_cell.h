// bench/support/snapshots_cell.h -- one measurement of the snapshots bench: workers on one
// structure for a fixed time, run by one contestant.
// Shape:     Cell says what; run_cell() runs it in processes of its own: the structure is made and
//            filled, each worker says that it is ready, and once all are, what they complete
//            between warm-up and end is counted. A worker looks at the end between two steps, so
//            that a transaction of libitm that is undone over and over goes on until the others
//            have ended; it counts for nothing then.
//            Or a fixed number of steps of one worker: what they found is the cell's hash, the same
//            for all contestants.
//            plain             plain code, one worker
//            lock              plain code, one mutex; threads
//            libitm            instrumented code; threads
//            tmh-serializable  plain code in instances of level 2, queries as queries; processes
//            tmh-snapshot      the same, updates under snapshot isolation
// Checked:   each result that a mix can judge; the structure's invariant at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/support/snapshots_mixes.h"

namespace tmh::bench {

// Of a worker.
struct Attempts {
  std::uint64_t all = 0;    // also those that were undone
  std::uint64_t alone = 0;  // steps during which nobody else's could run: libitm's serial mode
};

enum class SnapshotContestant : std::uint8_t { kPlain, kLock, kItm, kSerializable, kSnapshot };
[[nodiscard]] const char *to_string(SnapshotContestant contestant) noexcept;
// libitm is missing where the compiler has no -fgnu-tm, and under sanitizers.
[[nodiscard]] bool is_built(SnapshotContestant contestant) noexcept;

template <class Mix>
struct Cell {
  std::vector<Mix> workers;  // one each
  std::uint64_t size = 0;    // elements of the structure
  std::uint64_t seed = 0;
  double warm_up_seconds = 0, seconds = 0;
  std::uint64_t steps = 0;  // not 0: so many, of one worker, instead of a time
  bool times_steps = false;
};

struct WorkerRates {
  double steps_per_s = 0;
  std::uint64_t steps = 0;
  std::uint64_t retries = 0;  // attempts that were undone, of these steps
  std::uint64_t alone = 0;    // steps during which nobody else's could run: libitm's serial mode
  // Of the worker's reference, which ran in turns with its steps; 0: it has none, or no step ended.
  double speed = 0;
  // Where steps were timed: each with its retries.
  double us_mean = 0, us_sd = 0, us_p99 = 0;
};
struct CellOutcome {
  std::vector<WorkerRates> workers;
  std::uint64_t hash = 0;  // of a fixed number of steps
};

// folder: empty. Throws std::runtime_error: a result or the structure is wrong.
template <class Mix>
[[nodiscard]] CellOutcome run_cell(const Cell<Mix> &cell, SnapshotContestant contestant,
                                   const std::string &folder);

}  // namespace tmh::bench
