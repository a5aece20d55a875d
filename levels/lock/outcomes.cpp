// levels/lock/outcomes.cpp -- counts, and a probe.
#include "levels/lock/outcomes.h"

#include "observe/probes.h"
#include "platform/assert.h"

namespace tmh::lock {

void note_commit(LockFile &file, LockerId locker) noexcept {
  const CellIndex cell{static_cast<std::uint32_t>(locker)};
  TMH_ASSERT(file.kind(cell) == CellKind::kLocker);
  auto &commits = file.locker(cell).counts[static_cast<std::size_t>(LockCount::kCommits)];
  // Single writer.
  commits.store(commits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void note_rollback(LockFile &file, std::uint64_t name, std::uint64_t records,
                   UndoneBy by) noexcept {
  const auto which = static_cast<std::size_t>(by);
  TMH_ASSERT(which < kUndoneBy);
  file.header().rollbacks[which].fetch_add(1, std::memory_order_relaxed);
  observe::probe::rollback(name, records, static_cast<std::uint32_t>(by));
}

}  // namespace tmh::lock
