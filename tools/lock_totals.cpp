// tools/lock_totals.cpp -- see lock_totals.h.
#include "tools/lock_totals.h"

#include "platform/assert.h"
#include "tools/domain_files.h"
#include "tools/shared_latency.h"

namespace tmh::tools {

using lock::LockCount;
using lock::LockerCell;
using lock::LockHeader;
using lock::WaitCause;

LockTotals::LockTotals(const LockBytes &bytes) : is_there(true) {
  const auto read = [&bytes](std::size_t offset, std::size_t i) {
    return bytes.header<std::uint64_t>(offset + i * sizeof(std::uint64_t));
  };
  for (std::size_t i = 0; i < lock::kLockCounts; ++i)
    counts[i] = read(offsetof(LockHeader, counts), i);
  for (std::size_t i = 0; i < lock::kWaitCauses; ++i) {
    waits[i] = read(offsetof(LockHeader, waits), i);
    waited_ns[i] = read(offsetof(LockHeader, waited_ns), i);
  }
  for (std::size_t i = 0; i < lock::kUndoneBy; ++i)
    rollbacks[i] = read(offsetof(LockHeader, rollbacks), i);
  looks = read(offsetof(LockHeader, looks), 0);
  if (const std::vector<std::byte> page = bytes.wait_times(); !page.empty())
    wait_times = histogram_of(page);
}

void LockTotals::add_locker(const std::byte *cell) noexcept {
  TMH_ASSERT(cell != nullptr);
  for (std::size_t i = 0; i < lock::kLockCounts; ++i)
    counts[i] +=
        field<std::uint64_t>(cell, offsetof(LockerCell, counts) + i * sizeof(std::uint64_t));
}

LockTotals read_lock_totals(const std::string &folder, bool has_state) {
  if (!has_state) return {};
  const LockBytes bytes(folder);
  if (!bytes.is_of(read_control(folder)->header.life)) return {};
  LockTotals totals(bytes);
  bytes.for_each_cell([&totals](std::uint32_t, const std::byte *cell, std::size_t left) {
    if (left >= sizeof(LockerCell) && field<lock::CellKind>(cell, 0) == lock::CellKind::kLocker)
      totals.add_locker(cell);
  });
  return totals;
}

Json lock_totals_json(const LockTotals &totals) {
  const auto waits = [&](WaitCause cause) { return totals.waits[static_cast<std::size_t>(cause)]; };
  const auto waited = [&](WaitCause cause) {
    return totals.waited_ns[static_cast<std::size_t>(cause)];
  };
  return {{"locks", totals[LockCount::kLocks]},
          {"waits", totals[LockCount::kWaits]},
          {"waited_ns", totals.wait_times.sum_ns()},
          {"deadlocks", totals[LockCount::kDeadlocks]},
          {"timeouts", totals[LockCount::kTimeouts]},
          {"looks", totals.looks},
          {"log_waits", waits(WaitCause::kLog)},
          {"log_waited_ns", waited(WaitCause::kLog)},
          {"event_waits", waits(WaitCause::kEvent)},
          {"event_waited_ns", waited(WaitCause::kEvent)},
          {"commits", totals[LockCount::kCommits]},
          {"rollbacks", totals.rolled_back()},
          {"rollbacks_by_heirs", totals[lock::UndoneBy::kHeir]}};
}

}  // namespace tmh::tools
