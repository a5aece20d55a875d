// tests/support/lock_rig.cpp -- joining, and counting cells.
#include "tests/support/lock_rig.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "levels/lock/cells.h"
#include "levels/lock/held_bucket.h"
#include "platform/files.h"
#include "platform/process.h"

namespace tmh::test {

using lock::CellIndex;
using lock::CellKind;

std::unique_ptr<lock::LockTable> LockRig::join(lock::Heir *heir) {
  auto &participants = *static_cast<Participants *>(participants_.get());
  const std::uint32_t slot = participants.count.fetch_add(1);
  storage::Participant &record = participants.of[slot];
  platform::ProcessId self;
  if (!platform::this_process(&self)) throw std::runtime_error("/proc/self/stat");
  const std::uint64_t incarnation = slot + 1;
  record.incarnation.store(incarnation);
  record.pid = self.pid;
  record.start_time = self.start_time;
  record.stack_start = self.stack_start;
  record.state.store(1);
  auto table = std::make_unique<lock::LockTable>();
  platform::FolderLock folder;
  EXPECT_EQ(folder.acquire(folder_.path() + "/tmh.lock"), Errc::kOk);
  EXPECT_EQ(table->open(folder.held(), path(), 1, modes_, {participants.of, slot, incarnation}),
            Errc::kOk);
  EXPECT_TRUE(heir == nullptr || table->begin_heir(heir));
  return table;
}

void LockRig::expect_empty(lock::LockTable &table) {
  lock::LockFile &file = table.file();
  // Whoever died with cells_lock, or with a bucket's lock, is inherited from by this.
  lock::LockerId last{};
  ASSERT_EQ(table.begin(0, &last), Errc::kOk);
  lock::Cells cells(file);
  for (std::uint32_t i = 0; i < lock::kBuckets; ++i) {
    const lock::HeldBucket bucket(file, cells, CellIndex::kNone, i);
    ASSERT_EQ(file.bucket(i).first_object, CellIndex::kNone) << "bucket " << i;
  }
  table.end(last);
  std::uint32_t free = 0, in_list = 0, lockers = 0, lockers_in_list = 0;
  const std::uint32_t capacity = file.capacity();
  for (std::uint32_t i = 1; i < capacity; ++i) {
    const CellIndex cell{i};
    switch (file.kind(cell)) {
      case CellKind::kFree:
        ++free;
        break;
      case CellKind::kFreeLocker:
        ++lockers;
        break;
      case CellKind::kLockerRest:
        break;
      default:
        ADD_FAILURE() << "cell " << i << " is of kind "
                      << static_cast<std::uint32_t>(file.kind(cell));
    }
  }
  for (CellIndex at = file.header().free_cells; at != CellIndex::kNone && in_list <= capacity;
       at = file.free_cell(at).next)
    ++in_list;
  for (CellIndex at = file.header().free_lockers;
       at != CellIndex::kNone && lockers_in_list <= capacity; at = file.locker(at).next_free_locker)
    ++lockers_in_list;
  EXPECT_EQ(free, in_list);
  EXPECT_EQ(lockers, lockers_in_list);
}

}  // namespace tmh::test
