// tools/lock_totals.h -- what has been locked, waited for and rolled back in a domain, read from
// its lock table without joining it; and as JSON.
// Invariant: as domain_files.h.
// Sharing:   lockers go on meanwhile: each number is right for some moment of the read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <tmh/latency.hpp>

#include "levels/lock/lock.h"
#include "programs/json.h"
#include "tools/lock_bytes.h"
#include "tools/print.h"

namespace tmh::tools {

struct LockTotals {
  bool is_there = false;  // false: no table of this life of the domain
  std::uint64_t counts[lock::kLockCounts] = {};
  std::uint64_t looks = 0;
  std::uint64_t waits[lock::kWaitCauses] = {}, waited_ns[lock::kWaitCauses] = {};
  std::uint64_t rollbacks[lock::kUndoneBy] = {};
  Histogram wait_times;  // of waits for locks that have ended

  LockTotals() = default;
  // Those of the header: lockers that are there are still to be added. REQUIRES: is_of().
  explicit LockTotals(const LockBytes &bytes);
  // cell: the bytes of both cells of a locker.
  void add_locker(const std::byte *cell) noexcept;

  [[nodiscard]] std::uint64_t operator[](lock::LockCount which) const noexcept {
    return counts[static_cast<std::size_t>(which)];
  }
  [[nodiscard]] std::uint64_t operator[](lock::UndoneBy by) const noexcept {
    return rollbacks[static_cast<std::size_t>(by)];
  }
  [[nodiscard]] std::uint64_t rolled_back() const noexcept {
    return (*this)[lock::UndoneBy::kOwner] + (*this)[lock::UndoneBy::kHeir];
  }
};

// has_state: the domain's shared memory is there (SharedCounters); without, what lies in its folder
// is of an earlier life. Errors: as read_counters().
[[nodiscard]] LockTotals read_lock_totals(const std::string &folder, bool has_state);

// Flat: names and numbers.
[[nodiscard]] Json lock_totals_json(const LockTotals &totals);

}  // namespace tmh::tools
