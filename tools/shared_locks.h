// tools/shared_locks.h -- a domain's lock table, read from its shared memory by somebody who does
// not join it.
// Shape:     what cells say: lists only repeat it (levels/lock/layout.h), so none is followed.
// Invariant: as domain_files.h: nothing is written or waited for, no byte is believed unchecked.
// Sharing:   lockers go on meanwhile: each cell is right for some moment of the read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levels/lock/lock.h"
#include "tools/lock_totals.h"

namespace tmh::tools {

struct SharedLocker {
  enum class State : std::uint8_t { kAlive, kDead, kDetached };  // its owner, or that it has none
  std::uint64_t name = 0;
  bool is_transaction = false;  // its locks outlive its owner, until it is rolled back
  State state = State::kDead;
  std::int32_t pid = 0;  // of its owner; 0: of none, or it has gone and another one has its slot
  std::string process;
  std::uint32_t waits_begun = 0;
};

struct SharedRequest {
  std::uint32_t locker = 0;  // cell
  lock::Mode mode{};
  std::uint32_t count = 0;
  bool holds_object = false;
  std::uint64_t ticket = 0;
};

struct LockedObject {
  lock::ObjectId id;
  std::vector<SharedRequest> holders, waiters;  // waiters: the next one first
};

struct SharedLocks {
  // Cells of lockers, each of which waits for the next, and the last one for the first.
  using Cycle = std::vector<std::uint32_t>;

  bool is_there = false;  // false: no table of this life of the domain
  lock::ModeSet modes{};
  std::map<std::uint32_t, SharedLocker> lockers;  // by cell
  std::vector<LockedObject> objects;              // by identifier
  std::vector<Cycle> cycles;                      // of those that share a locker, one
  // Requests of which no object and locker were there: they come and go meanwhile, or the table is
  // damaged.
  std::uint64_t unclear_count = 0;
  LockTotals totals;
};
// Errors: as read_counters().
[[nodiscard]] SharedLocks read_locks(const std::string &folder);

// Those of the table of this life of the domain. Empty: there is none. Errors: as read_control().
[[nodiscard]] std::optional<lock::ModeSet> read_lock_modes(const std::string &folder);

}  // namespace tmh::tools
