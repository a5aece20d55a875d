// tests/lock/damaged_locks_test.cpp -- a program stores wildly into the lock table.
// Invariant: whatever bytes change, no call crashes, and none goes round for ever: locks may be
//            lost or left, and that is all.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "levels/lock/lock.h"
#include "tests/support/children.h"
#include "tests/support/lock_rig.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

using lock::LockerId;
using lock::LockId;
using lock::Mode;
using lock::ObjectId;
using lock::Patience;

constexpr std::size_t kLockers = 3;
constexpr std::uint64_t kObjects = 40;

void use(lock::LockTable &table, const std::array<LockerId, kLockers> &lockers,
         std::mt19937_64 &random) {
  LockId lock{};
  for (int i = 0; i < 60; ++i) {
    const LockerId locker = lockers[random() % kLockers];
    const ObjectId object{1, random() % kObjects};
    const Mode mode{static_cast<std::uint32_t>(random() % 5)};
    switch (random() % 6) {
      case 0:
        static_cast<void>(table.unlock(locker, object, mode));
        break;
      case 1:
        static_cast<void>(table.inherit(locker, object, {2, random() % kObjects}));
        break;
      case 2:
        table.look();
        break;
      case 3:
        static_cast<void>(table.upgrade(locker, lock, mode, Patience::none(), &lock));
        break;
      default:
        static_cast<void>(table.lock(locker, object, mode, Patience::none(), &lock));
        break;
    }
  }
}

// Where something lies: the header's words, the objects' buckets, and cells.
std::uint64_t some_place(lock::LockTable &table, std::mt19937_64 &random) {
  switch (random() % 3) {
    case 0:
      return random() % sizeof(lock::LockHeader);
    case 1:
      return lock::kBucketsAt + lock::bucket_of({1, random() % kObjects}) * sizeof(lock::Bucket) +
             random() % sizeof(lock::Bucket);
    default:
      return lock::kCellsAt +
             random() % (std::uint64_t{table.file().capacity()} * sizeof(lock::RequestCell));
  }
}

TEST(DamagedLocksTest, NoCallCrashes) {
  constexpr std::uint64_t kRounds = 150;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const ChildEnd end = run_in_child("round " + std::to_string(round), [&] {
      std::mt19937_64 random(seed() + round);
      LockRig rig;
      const auto table = rig.join();
      std::array<LockerId, kLockers> lockers{};
      for (LockerId &locker : lockers) EXPECT_EQ(table->begin(1, &locker), Errc::kOk);
      use(*table, lockers, random);
      auto *const bytes = reinterpret_cast<std::uint8_t *>(&table->file().header());
      for (std::uint64_t left = 1 + random() % 4; left > 0; --left)
        bytes[some_place(*table, random)] = static_cast<std::uint8_t>(random());
      use(*table, lockers, random);
      table->settle();
      for (const LockerId locker : lockers) static_cast<void>(table->unlock_all(locker));
      static_cast<void>(table->totals());
    });
    ASSERT_TRUE(end.succeeded()) << "round " << round << ", signal " << end.signal;
  }
}

}  // namespace
}  // namespace tmh::test
