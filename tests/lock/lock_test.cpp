// tests/lock/lock_test.cpp -- locks of several lockers: modes, counts, queues, trades, vectors,
// inheritance.
// Invariants: (1) two lockers never hold an object in modes that exclude each other, whatever the
//                 matrix; a locker never waits for itself.
//             (2) waiters get their lock in the order in which they came, but for those who hold
//                 the object, who come first.
//             (3) what fails changes nothing; what ends leaves nothing.
//             (4) each wait that has ended is among the times, whatever came of it.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "levels/lock/lock.h"
#include "tests/support/children.h"
#include "tests/support/lock_rig.h"

namespace tmh::test {
namespace {

using lock::LockCount;
using lock::LockerId;
using lock::LockId;
using lock::Mode;
using lock::ModeSet;
using lock::ObjectId;
using lock::Order;
using lock::Patience;
using enum lock::Mode;

class LockTest : public testing::Test {
 protected:
  explicit LockTest(const ModeSet &modes = ModeSet::hierarchical())
      : rig_(modes), table_(rig_.join()) {
    for (LockerId &locker : lockers_) EXPECT_EQ(table_->begin(++name_, &locker), Errc::kOk);
  }
  ~LockTest() override {
    for (const LockerId locker : lockers_) table_->end(locker);
    LockRig::expect_empty(*table_);
  }

  Errc take(std::size_t locker, ObjectId object, Mode mode, Patience patience = Patience::none(),
            LockId *out = nullptr) {
    LockId lock{};
    return table_->lock(lockers_[locker], object, mode, patience, out != nullptr ? out : &lock);
  }
  Errc give(std::size_t locker, ObjectId object, Mode mode) {
    return table_->unlock(lockers_[locker], object, mode);
  }
  // A thread that waits, and this one until it does.
  std::thread start_waiting(const std::function<void()> &body) {
    const std::uint64_t before = table_->totals()[LockCount::kWaits];
    std::thread thread(body);
    EXPECT_TRUE(poll_until([&] { return table_->totals()[LockCount::kWaits] > before; }));
    return thread;
  }

  LockRig rig_;
  std::unique_ptr<lock::LockTable> table_;
  std::array<LockerId, 6> lockers_{};
  std::uint64_t name_ = 0;
};

constexpr ObjectId kA{1, 7}, kB{1, 8}, kC{2, 7};

TEST_F(LockTest, ModesOfTheHierarchyExcludeEachOtherAsTheyShould) {
  // Gray's table: row held, column wanted; IS IX S SIX X.
  constexpr bool kGranted[5][5] = {{true, true, true, true, false},
                                   {true, true, false, false, false},
                                   {true, false, true, false, false},
                                   {true, false, false, false, false},
                                   {false, false, false, false, false}};
  for (std::uint32_t held = 0; held < 5; ++held) {
    for (std::uint32_t wanted = 0; wanted < 5; ++wanted) {
      ASSERT_EQ(take(0, kA, Mode{held}), Errc::kOk);
      const Errc got = take(1, kA, Mode{wanted});
      EXPECT_EQ(got, kGranted[held][wanted] ? Errc::kOk : Errc::kLockBusy) << held << wanted;
      if (got == Errc::kOk) {
        EXPECT_EQ(give(1, kA, Mode{wanted}), Errc::kOk);
      }
      // Another object does not care.
      EXPECT_EQ(take(1, kC, kExclusive), Errc::kOk);
      EXPECT_EQ(give(1, kC, kExclusive), Errc::kOk);
      // Nor does the same locker.
      EXPECT_EQ(take(0, kA, Mode{wanted}), Errc::kOk);
      EXPECT_EQ(table_->unlock_all(lockers_[0]), Errc::kOk);
    }
  }
}

TEST_F(LockTest, WhatIsLockedTwiceIsGivenBackTwice) {
  LockId first{}, second{};
  ASSERT_EQ(take(0, kA, kShared, Patience::none(), &first), Errc::kOk);
  ASSERT_EQ(take(0, kA, kShared, Patience::none(), &second), Errc::kOk);
  EXPECT_EQ(first, second);
  EXPECT_EQ(take(1, kA, kExclusive), Errc::kLockBusy);
  EXPECT_EQ(table_->unlock(lockers_[0], first), Errc::kOk);
  EXPECT_EQ(take(1, kA, kExclusive), Errc::kLockBusy);
  EXPECT_EQ(table_->unlock(lockers_[0], first), Errc::kOk);
  EXPECT_EQ(table_->unlock(lockers_[0], first), Errc::kNotLocked);
  EXPECT_EQ(take(1, kA, kExclusive), Errc::kOk);
}

TEST_F(LockTest, TimeRunsOut) {
  ASSERT_EQ(take(0, kA, kExclusive), Errc::kOk);
  EXPECT_EQ(take(1, kA, kShared, {2'000'000}), Errc::kLockTimeout);
  EXPECT_EQ(table_->totals()[LockCount::kTimeouts], 1u);
  EXPECT_EQ(give(0, kA, kExclusive), Errc::kOk);
  EXPECT_EQ(take(1, kA, kShared), Errc::kOk);
}

TEST_F(LockTest, WaitsAreTimedAndLocksWithoutAreNot) {
  ASSERT_EQ(take(0, kA, kExclusive), Errc::kOk);
  EXPECT_EQ(take(1, kA, kShared), Errc::kLockBusy);
  const storage::HistogramV1 &times = table_->file().wait_times();
  EXPECT_EQ(times.read().count(), 0u);
  EXPECT_EQ(take(1, kA, kShared, {2'000'000}), Errc::kLockTimeout);
  std::thread waiter =
      start_waiting([&] { EXPECT_EQ(take(2, kA, kShared, Patience::endless()), Errc::kOk); });
  EXPECT_EQ(times.read().count(), 1u);
  EXPECT_EQ(give(0, kA, kExclusive), Errc::kOk);
  waiter.join();
  const Histogram waits = times.read();
  EXPECT_EQ(waits.count(), table_->totals()[LockCount::kWaits]);
  EXPECT_GE(waits.max_ns(), 2'000'000u);
  EXPECT_EQ(waits.sum_ns(), table_->totals().waited_ns);
}

// Of lockers that are there, and of those that have ended.
TEST_F(LockTest, OutcomesAreCounted) {
  lock::LockFile &file = table_->file();
  lock::note_commit(file, lockers_[0]);
  lock::note_commit(file, lockers_[0]);
  lock::note_commit(file, lockers_[1]);
  table_->end(lockers_[1]);
  lock::note_rollback(file, 7, 3, lock::UndoneBy::kHeir);
  EXPECT_EQ(table_->totals()[LockCount::kCommits], 3u);
  ASSERT_EQ(table_->begin(++name_, &lockers_[1]), Errc::kOk);
  EXPECT_EQ(table_->totals()[LockCount::kCommits], 3u);
  const auto &rollbacks = file.header().rollbacks;
  EXPECT_EQ(rollbacks[static_cast<std::size_t>(lock::UndoneBy::kHeir)].load(), 1u);
  EXPECT_EQ(rollbacks[static_cast<std::size_t>(lock::UndoneBy::kOwner)].load(), 0u);
}

TEST_F(LockTest, WaitersAreServedInTurn) {
  ASSERT_EQ(take(0, kA, kExclusive), Errc::kOk);
  std::vector<std::size_t> order;
  std::vector<std::thread> threads;
  // Two readers with a writer between them: the second does not pass it.
  for (const auto &[who, mode] :
       {std::pair<std::size_t, Mode>{1, kShared}, {2, kExclusive}, {3, kShared}})
    threads.push_back(start_waiting([&, who = who, mode = mode] {
      EXPECT_EQ(take(who, kA, mode, Patience::endless()), Errc::kOk);
      order.push_back(who);
      EXPECT_EQ(give(who, kA, mode), Errc::kOk);
    }));
  EXPECT_EQ(take(4, kA, kIntendShared), Errc::kLockBusy);
  EXPECT_EQ(give(0, kA, kExclusive), Errc::kOk);
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<std::size_t>{1, 2, 3}));
}

TEST_F(LockTest, AHolderThatWantsMoreGoesBeforeThoseThatHoldNothing) {
  LockId held{};
  ASSERT_EQ(take(0, kA, kShared, Patience::none(), &held), Errc::kOk);
  ASSERT_EQ(take(1, kA, kShared), Errc::kOk);
  std::vector<int> order;
  std::thread writer = start_waiting([&] {
    EXPECT_EQ(take(2, kA, kExclusive, Patience::endless()), Errc::kOk);
    order.push_back(2);
  });
  std::thread upgrader = start_waiting([&] {
    LockId traded{};
    EXPECT_EQ(table_->upgrade(lockers_[0], held, kExclusive, Patience::endless(), &traded),
              Errc::kOk);
    order.push_back(0);
    EXPECT_EQ(table_->unlock(lockers_[0], traded), Errc::kOk);
  });
  EXPECT_EQ(give(1, kA, kShared), Errc::kOk);
  upgrader.join();
  writer.join();
  EXPECT_EQ(order, (std::vector{0, 2}));
}

TEST_F(LockTest, AnUpgradeThatFailsLeavesTheLockAsItWas) {
  LockId held{}, traded{};
  ASSERT_EQ(take(0, kA, kShared, Patience::none(), &held), Errc::kOk);
  ASSERT_EQ(take(1, kA, kShared), Errc::kOk);
  EXPECT_EQ(table_->upgrade(lockers_[0], held, kExclusive, Patience::none(), &traded),
            Errc::kLockBusy);
  EXPECT_EQ(table_->upgrade(lockers_[0], held, kExclusive, {1'000'000}, &traded),
            Errc::kLockTimeout);
  EXPECT_EQ(take(2, kA, kIntendExclusive), Errc::kLockBusy);  // it is still shared
  EXPECT_EQ(take(2, kA, kShared), Errc::kOk);
  EXPECT_EQ(give(0, kA, kShared), Errc::kOk);
}

TEST_F(LockTest, ADowngradeLetsOthersIn) {
  LockId held{}, weaker{};
  ASSERT_EQ(take(0, kA, kExclusive, Patience::none(), &held), Errc::kOk);
  std::thread reader =
      start_waiting([&] { EXPECT_EQ(take(1, kA, kShared, Patience::endless()), Errc::kOk); });
  EXPECT_EQ(table_->downgrade(lockers_[0], held, kShared, &weaker), Errc::kOk);
  reader.join();
  EXPECT_EQ(take(2, kA, kExclusive), Errc::kLockBusy);
  EXPECT_EQ(table_->downgrade(lockers_[0], weaker, kExclusive, &held), Errc::kBadArgument);
  EXPECT_EQ(table_->downgrade(lockers_[0], weaker, kIntendExclusive, &held), Errc::kBadArgument);
}

TEST_F(LockTest, AVectorIsDoneWhollyOrNotAtAll) {
  using enum Order::What;
  ASSERT_EQ(take(0, kA, kShared), Errc::kOk);
  ASSERT_EQ(take(1, kC, kExclusive), Errc::kOk);
  std::size_t failed = 99;
  std::uint64_t holder = 0;
  std::vector<Order> orders{{kUnlock, kA, kShared}, {kLock, kB, kExclusive}, {kLock, kC, kShared}};
  EXPECT_EQ(table_->lock_vector(lockers_[0], orders, Patience::none(), &failed, &holder),
            Errc::kLockBusy);
  EXPECT_EQ(failed, 2u);
  EXPECT_EQ(holder, 2u);  // the second locker's name
  EXPECT_EQ(take(2, kB, kExclusive), Errc::kOk);
  EXPECT_EQ(take(2, kA, kExclusive), Errc::kLockBusy);
  EXPECT_EQ(give(2, kB, kExclusive), Errc::kOk);
  EXPECT_EQ(table_->lock_vector(lockers_[0], orders, {1'000'000}, &failed, &holder),
            Errc::kLockTimeout);

  // Given back once more than it was locked.
  std::vector<Order> too_many{{kUnlock, kA, kShared}, {kLock, kB, kShared}, {kUnlock, kA, kShared}};
  EXPECT_EQ(table_->lock_vector(lockers_[0], too_many, Patience::none(), &failed, &holder),
            Errc::kNotLocked);
  EXPECT_EQ(failed, 2u);
  EXPECT_EQ(take(2, kB, kExclusive), Errc::kOk);
  EXPECT_EQ(give(2, kB, kExclusive), Errc::kOk);

  EXPECT_EQ(give(1, kC, kExclusive), Errc::kOk);
  EXPECT_EQ(table_->lock_vector(lockers_[0], orders, Patience::none(), &failed, &holder),
            Errc::kOk);
  EXPECT_EQ(take(2, kA, kExclusive), Errc::kOk);
  EXPECT_EQ(take(2, kB, kShared), Errc::kLockBusy);
  EXPECT_EQ(table_->unlock(lockers_[0], orders[1].lock), Errc::kOk);
}

TEST_F(LockTest, HoldersOfAPageHoldWhatWasSplitOffIt) {
  ASSERT_EQ(take(0, kA, kShared), Errc::kOk);
  ASSERT_EQ(take(1, kA, kShared), Errc::kOk);
  ASSERT_EQ(take(1, kA, kIntendShared), Errc::kOk);
  ASSERT_EQ(table_->inherit(lockers_[0], kA, kB), Errc::kOk);
  ASSERT_EQ(table_->inherit(lockers_[0], kA, kB), Errc::kOk);  // a second time adds nothing
  EXPECT_EQ(take(2, kB, kExclusive), Errc::kLockBusy);
  EXPECT_EQ(give(0, kB, kShared), Errc::kOk);
  EXPECT_EQ(give(0, kB, kShared), Errc::kNotLocked);
  EXPECT_EQ(take(2, kB, kExclusive), Errc::kLockBusy);
  EXPECT_EQ(table_->unlock_all(lockers_[1]), Errc::kOk);
  EXPECT_EQ(take(2, kB, kExclusive), Errc::kOk);
  // Who holds the new one alone is in the way.
  EXPECT_EQ(table_->inherit(lockers_[0], kA, kB), Errc::kLockBusy);
  EXPECT_EQ(table_->inherit(lockers_[0], kC, kB), Errc::kOk);  // nobody holds it
}

TEST_F(LockTest, WhatWasGivenIsGivenBackByItsNumber) {
  LockId gift{};
  ASSERT_EQ(take(0, kA, kShared), Errc::kOk);
  ASSERT_EQ(table_->inherit(lockers_[1], kA, kB), Errc::kOk);
  ASSERT_EQ(take(0, kB, kShared, Patience::none(), &gift), Errc::kOk);
  EXPECT_EQ(table_->unlock(lockers_[0], gift), Errc::kOk);
  EXPECT_EQ(table_->unlock(lockers_[0], gift), Errc::kOk);
  EXPECT_EQ(table_->unlock(lockers_[0], gift), Errc::kNotLocked);
  EXPECT_EQ(take(1, kB, kExclusive), Errc::kOk);
}

// Otherwise the writer would wait for the one behind it, which holds the object by now.
TEST_F(LockTest, AWaiterThatIsGivenTheObjectGoesFirst) {
  ASSERT_EQ(take(0, kB, kShared), Errc::kOk);
  ASSERT_EQ(take(2, kA, kShared), Errc::kOk);
  std::thread writer =
      start_waiting([&] { EXPECT_EQ(take(1, kB, kExclusive, Patience::endless()), Errc::kOk); });
  std::thread reader =
      start_waiting([&] { EXPECT_EQ(take(2, kB, kShared, Patience::endless()), Errc::kOk); });
  EXPECT_EQ(table_->inherit(lockers_[3], kA, kB), Errc::kOk);
  reader.join();
  EXPECT_EQ(table_->unlock_all(lockers_[2]), Errc::kOk);
  EXPECT_EQ(table_->unlock_all(lockers_[0]), Errc::kOk);
  writer.join();
}

TEST_F(LockTest, ANumberNamesOneLock) {
  LockId first{}, second{};
  ASSERT_EQ(take(0, kA, kShared, Patience::none(), &first), Errc::kOk);
  ASSERT_EQ(table_->unlock(lockers_[0], first), Errc::kOk);
  ASSERT_EQ(take(0, kA, kShared, Patience::none(), &second), Errc::kOk);
  EXPECT_NE(first, second);
  EXPECT_EQ(table_->unlock(lockers_[0], first), Errc::kNotLocked);
  EXPECT_EQ(table_->unlock(lockers_[0], second), Errc::kOk);
}

TEST_F(LockTest, ManyLocksOfOneLockerAndManyHoldersOfOneLock) {
  constexpr std::uint64_t kMany = 100'000;
  for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(take(0, {3, i}, kShared), Errc::kOk);
  EXPECT_EQ(take(1, {3, kMany / 2}, kExclusive), Errc::kLockBusy);
  EXPECT_EQ(table_->unlock_all(lockers_[0]), Errc::kOk);
  std::vector<LockerId> readers(200);
  for (LockerId &reader : readers) {
    LockId lock{};
    ASSERT_EQ(table_->begin(1, &reader), Errc::kOk);
    ASSERT_EQ(table_->lock(reader, kA, kShared, Patience::none(), &lock), Errc::kOk);
  }
  EXPECT_EQ(take(0, kA, kExclusive), Errc::kLockBusy);
  for (const LockerId reader : readers) table_->end(reader);
  EXPECT_EQ(take(0, kA, kExclusive), Errc::kOk);
}

TEST_F(LockTest, ALockerIsPassedOn) {
  ASSERT_EQ(take(0, kA, kExclusive), Errc::kOk);
  EXPECT_EQ(table_->detach(lockers_[0]), Errc::kOk);
  EXPECT_EQ(table_->detach(lockers_[0]), Errc::kBadArgument);
  EXPECT_EQ(give(0, kA, kExclusive), Errc::kBadArgument);
  EXPECT_EQ(table_->attach(lockers_[0], 99), Errc::kBadArgument);  // another's name
  // Its maker may die: it is nobody's.
  expect_child("goes on", [&] {
    const auto table = rig_.join();
    ASSERT_EQ(table->attach(lockers_[0], 1), Errc::kOk);
    EXPECT_EQ(table->unlock(lockers_[0], kA, kExclusive), Errc::kOk);
    EXPECT_EQ(table->detach(lockers_[0]), Errc::kOk);
  });
  EXPECT_EQ(take(1, kA, kExclusive), Errc::kOk);
  EXPECT_EQ(table_->attach(lockers_[0], 1), Errc::kOk);
}

TEST_F(LockTest, WhatIsWrongIsRefused) {
  LockId lock{};
  EXPECT_EQ(take(0, kA, Mode{5}), Errc::kBadArgument);
  EXPECT_EQ(take(0, kA, Mode{~0u}), Errc::kBadArgument);
  ASSERT_EQ(take(0, kA, kShared, Patience::none(), &lock), Errc::kOk);
  EXPECT_EQ(table_->unlock(lockers_[1], lock), Errc::kNotLocked);
  for (const std::uint32_t wrong : {0u, 1u, 5'000u, ~0u}) {
    if (LockId{wrong} != lock) {
      EXPECT_EQ(table_->unlock(lockers_[0], LockId{wrong}), Errc::kNotLocked) << wrong;
    }
    EXPECT_EQ(table_->lock(LockerId{static_cast<std::uint32_t>(lock)}, kA, kShared,
                           Patience::none(), &lock),
              Errc::kBadArgument);
    EXPECT_EQ(table_->unlock_all(LockerId{wrong == 1 ? 0 : wrong}), Errc::kBadArgument);
  }
  EXPECT_EQ(give(0, kA, kExclusive), Errc::kNotLocked);
  EXPECT_EQ(give(0, kB, kShared), Errc::kNotLocked);
  EXPECT_EQ(table_->upgrade(lockers_[0], lock, Mode{31}, Patience::none(), &lock),
            Errc::kBadArgument);
  ModeSet none{};
  platform::FolderLock folder;
  ASSERT_EQ(folder.acquire(rig_.path() + ".lock"), Errc::kOk);
  lock::LockTable other;
  const storage::Participant self{};
  EXPECT_EQ(other.open(folder.held(), rig_.path(), 1, none, {&self, 0, 1}), Errc::kBadArgument);
  EXPECT_EQ(other.open(folder.held(), rig_.path(), 1, ModeSet::shared_exclusive(), {&self, 0, 1}),
            Errc::kBadArgument);
}

ModeSet asymmetric() {
  ModeSet modes{};
  modes.count = 3;
  modes.writes = 0b110;
  // A reader does not keep one from announcing a write (1), which keeps readers out; 2 writes.
  modes.conflicts[0] = 0b100;
  modes.conflicts[1] = 0b111;
  modes.conflicts[2] = 0b111;
  return modes;
}

class CallersMatrixTest : public LockTest {
 protected:
  CallersMatrixTest() : LockTest(asymmetric()) {}
};

TEST_F(CallersMatrixTest, ItsRowsAreWhatIsHeld) {
  ASSERT_EQ(take(0, kA, Mode{0}), Errc::kOk);
  EXPECT_EQ(take(1, kA, Mode{1}), Errc::kOk);
  EXPECT_EQ(take(2, kA, Mode{0}), Errc::kLockBusy);
  EXPECT_EQ(take(2, kA, Mode{2}), Errc::kLockBusy);
  EXPECT_EQ(take(2, kA, Mode{3}), Errc::kBadArgument);
}

}  // namespace
}  // namespace tmh::test
