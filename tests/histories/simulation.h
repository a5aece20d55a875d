// tests/histories/simulation.h -- a multiversion engine of a hundred lines that produces histories
// to try the checker on.
// Shape:     optimistic: snapshot at begin, validation of every read cell at end, queries at their
//            snapshot, kills anywhere. Steps of the processes interleave at random; time is counted
//            in steps.
// Invariant: without a defect every history is strictly serializable with consistent views, but
//            for what snapshot isolation permits its instances; each defect leaves one rule out.
#pragma once

#include <cstdint>

#include "tests/histories/history.h"

namespace tmh::history {

enum class Defect : std::uint8_t {
  kNone = 0,
  kNoReadValidation = 1,  // only written cells are validated: write skew
  kNoValidation = 2,      // nothing is validated: lost updates
  // Reads return what is committed now: inconsistent views in aborted instances.
  kMovingSnapshot = 3,
  kDirtyWrites = 4,           // reads return writes of running instances
  kHalfCommitWhenKilled = 5,  // a process killed at its end leaves its first write only
  kStaleSnapshot = 6,         // queries begin at a snapshot of the past
};

struct SimulationOptions {
  std::uint32_t processes = 3;
  std::uint32_t instances_max = 100;  // without the final query
  std::uint32_t cells = 8;
  std::uint32_t operations_max = 8;  // accesses per instance; a write counts with its read
  std::uint32_t query_percent = 20;
  std::uint32_t write_percent = 50;  // of the accesses of an update
  std::uint32_t kill_percent = 0;    // of the instances
  // Of the updates: those under snapshot isolation.
  std::uint32_t snapshot_percent = 0;
  Defect defect = Defect::kNone;
};

// Ends with a query of process 0 that reads every cell. The same options and seed give the same
// history.
[[nodiscard]] History simulate(const SimulationOptions &options, std::uint64_t seed);

}  // namespace tmh::history
