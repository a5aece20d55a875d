// tests/lock/deadlock_test.cpp -- lockers that wait for each other.
// Invariants: (1) each cycle loses exactly one locker, whoever looks and however many look at once;
//                 nobody else gets kDeadlock.
//             (2) it is the one that the policy says.
//             (3) what waits without a cycle is left alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "levels/lock/lock.h"
#include "observe/planted.h"
#include "observe/steps.h"
#include "platform/futex.h"
#include "platform/shared_lock.h"
#include "tests/support/children.h"
#include "tests/support/lock_rig.h"

namespace tmh::test {
namespace {

using lock::LockCount;
using lock::LockerId;
using lock::LockId;
using lock::Mode;
using lock::ObjectId;
using lock::Patience;
using lock::Victim;

class DeadlockTest : public testing::Test {
 protected:
  DeadlockTest() : table_(rig_.join()) {}
  ~DeadlockTest() override { LockRig::expect_empty(*table_); }

  LockerId begin() {
    LockerId locker{};
    EXPECT_EQ(table_->begin(0, &locker), Errc::kOk);
    return locker;
  }
  Errc take(LockerId locker, std::uint64_t object, Patience patience = Patience::endless(),
            Mode mode = Mode::kExclusive) {
    LockId lock{};
    return table_->lock(locker, {1, object}, mode, patience, &lock);
  }
  [[nodiscard]] bool is_waiting(LockerId locker) {
    return table_->file()
               .locker(lock::CellIndex{static_cast<std::uint32_t>(locker)})
               .waits_for.load() != lock::CellIndex::kNone;
  }
  // Waiters do not look by themselves.
  void look_only_when_told(Victim victim = Victim::kYoungest) {
    table_->use({.first_look_ns = 3'600'000'000'000, .victim = victim});
  }

  LockRig rig_;
  std::unique_ptr<lock::LockTable> table_;
};

class RingTest : public DeadlockTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(RingTest, LosesOne) {
  const std::size_t size = GetParam();
  std::atomic<std::size_t> failed{0};
  std::barrier<> all_have_one(static_cast<std::ptrdiff_t>(size));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      const LockerId self = begin();
      EXPECT_EQ(take(self, i), Errc::kOk);
      all_have_one.arrive_and_wait();
      const Errc error = take(self, (i + 1) % size);
      EXPECT_TRUE(error == Errc::kOk || error == Errc::kDeadlock);
      if (error == Errc::kDeadlock) ++failed;
      table_->end(self);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failed.load(), 1u);
  EXPECT_EQ(table_->totals()[LockCount::kDeadlocks], 1u);
}

// Each holds its own object, and wants those of all others.
TEST_P(RingTest, OfAClumpOneIsLeft) {
  const std::size_t size = GetParam();
  std::atomic<std::size_t> failed{0};
  std::barrier<> all_have_one(static_cast<std::ptrdiff_t>(size));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      const LockerId self = begin();
      EXPECT_EQ(take(self, i), Errc::kOk);
      all_have_one.arrive_and_wait();
      Errc error = Errc::kOk;
      for (std::size_t k = 1; k < size && error == Errc::kOk; ++k)
        error = take(self, (i + k) % size);
      if (error == Errc::kDeadlock) ++failed;
      table_->end(self);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failed.load(), size - 1);
}

INSTANTIATE_TEST_SUITE_P(Sizes, RingTest, testing::Values(2, 3, 4, 7, 10),
                         [](const auto &size) { return "Of" + std::to_string(size.param); });

TEST_F(DeadlockTest, TwoThatUpgradeLoseOne) {
  std::barrier<> both_read(2);
  std::atomic<int> failed{0};
  const auto upgrade = [&] {
    const LockerId self = begin();
    LockId lock{};
    EXPECT_EQ(table_->lock(self, {1, 1}, Mode::kShared, Patience::endless(), &lock), Errc::kOk);
    both_read.arrive_and_wait();
    const Errc error = table_->upgrade(self, lock, Mode::kExclusive, Patience::endless(), &lock);
    EXPECT_TRUE(error == Errc::kOk || error == Errc::kDeadlock);
    if (error == Errc::kDeadlock) ++failed;
    table_->end(self);
  };
  std::thread other(upgrade);
  upgrade();
  other.join();
  EXPECT_EQ(failed.load(), 1);
}

// Who looks: each waiter, and a thread that does nothing else.
TEST_F(DeadlockTest, ManyWhoLookAtOnceFailOne) {
  table_->use({.first_look_ns = 1'000});
  constexpr std::size_t kRounds = 50;
  std::atomic<bool> stop{false};
  std::thread detector([&] {
    while (!stop) table_->look();
  });
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::array<std::thread, 3> threads;
    std::atomic<int> failed{0};
    std::barrier<> all_have_one(3);
    for (std::size_t i = 0; i < threads.size(); ++i) {
      threads[i] = std::thread([&, i] {
        const LockerId self = begin();
        EXPECT_EQ(take(self, i), Errc::kOk);
        all_have_one.arrive_and_wait();
        if (take(self, (i + 1) % 3) == Errc::kDeadlock) ++failed;
        table_->end(self);
      });
    }
    for (std::thread &thread : threads) thread.join();
    ASSERT_EQ(failed.load(), 1) << "round " << round;
  }
  stop = true;
  detector.join();
}

TEST_F(DeadlockTest, AChainIsLeftAlone) {
  look_only_when_told();
  std::array<LockerId, 4> lockers{};
  for (LockerId &locker : lockers) locker = begin();
  for (std::size_t i = 0; i < lockers.size(); ++i) EXPECT_EQ(take(lockers[i], i), Errc::kOk);
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < lockers.size(); ++i)
    threads.emplace_back([&, i] {
      EXPECT_EQ(take(lockers[i], i - 1), Errc::kOk);
      table_->end(lockers[i]);
    });
  ASSERT_TRUE(poll_until(
      [&] { return is_waiting(lockers[1]) && is_waiting(lockers[2]) && is_waiting(lockers[3]); }));
  EXPECT_EQ(table_->look(), 0u);
  table_->end(lockers[0]);
  for (std::thread &thread : threads) thread.join();
}

#ifdef TMH_PLANTED_FAULTS
TEST_F(DeadlockTest, TwoVictimsOfOneCycleAreSeen) {
  look_only_when_told();
  std::array<LockerId, 3> lockers{};
  std::array<Errc, 3> ends{};
  std::vector<std::thread> threads;
  std::atomic<bool> has_looked{false};
  for (std::size_t i = 0; i < lockers.size(); ++i) {
    lockers[i] = begin();
    EXPECT_EQ(take(lockers[i], i), Errc::kOk);
  }
  for (std::size_t i = 0; i < lockers.size(); ++i)
    threads.emplace_back([&, i] {
      ends[i] = take(lockers[i], (i + 1) % 3);
      // What the first victim gave back would let the next one go before it fails, too.
      has_looked.wait(false);
      table_->end(lockers[i]);
    });
  ASSERT_TRUE(poll_until(
      [&] { return is_waiting(lockers[0]) && is_waiting(lockers[1]) && is_waiting(lockers[2]); }));
  observe::plant(observe::Planted::kTwoVictims);
  EXPECT_EQ(table_->look(), 2u);
  observe::plant(observe::Planted{});
  has_looked = true;
  has_looked.notify_all();
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(std::count(ends.begin(), ends.end(), Errc::kDeadlock), 2);
}

// It would sleep until its next look, which is an hour away.
TEST_F(DeadlockTest, AWakeUpThatIsLostIsSeen) {
  look_only_when_told();
  LockerId holder = begin();
  const LockerId waiter = begin();
  EXPECT_EQ(take(holder, 1), Errc::kOk);
  std::atomic<bool> has_it{false};
  std::thread thread([&] {
    EXPECT_EQ(take(waiter, 1), Errc::kOk);
    has_it = true;
  });
  auto &wake = table_->file().locker(lock::CellIndex{static_cast<std::uint32_t>(waiter)}).wake;
  const std::uint32_t before = wake.load();
  ASSERT_TRUE(poll_until([&] { return is_waiting(waiter); }));
  observe::plant(observe::Planted::kLockWakeLost);
  table_->end(holder);
  observe::plant(observe::Planted{});
  // It holds the lock, and nobody has told it.
  EXPECT_EQ(take(holder = begin(), 1, Patience::none()), Errc::kLockBusy);
  EXPECT_EQ(wake.load(), before);
  wake.fetch_add(1);
  platform::futex_wake(wake);
  thread.join();
  EXPECT_TRUE(has_it);
  table_->end(waiter);
  table_->end(holder);
}
#endif

// A look that is held between the store that makes a request a victim's and its way out of the
// queue: until the victim, which may wake by itself, waits for the bucket, or has returned.
struct HeldLook {
  static inline thread_local bool is_mine = false;
  static inline std::vector<std::atomic<std::uint32_t> *> wakes;
  static inline std::vector<const platform::SharedLock *> buckets;
  static inline std::atomic<bool> has_returned;
  static inline bool has_returned_early;

  static void on_step(observe::Step step) {
    if (!is_mine || step != observe::Step::kLockReleased) return;
    is_mine = false;
    EXPECT_TRUE(poll_until([] {
      for (std::atomic<std::uint32_t> *const wake : wakes) platform::futex_wake(*wake);
      return has_returned.load() ||
             std::any_of(buckets.begin(), buckets.end(),
                         [](const auto *lock) { return lock->has_sleepers(); });
    }));
    has_returned_early = has_returned.load();
  }
};

TEST_F(DeadlockTest, AVictimStaysUntilItIsOutOfItsQueue) {
  look_only_when_told();
  HeldLook::wakes.clear();
  HeldLook::buckets.clear();
  HeldLook::has_returned.store(false);
  HeldLook::has_returned_early = false;
  const std::array<LockerId, 2> lockers = {begin(), begin()};
  for (std::size_t i = 0; i < lockers.size(); ++i) {
    EXPECT_EQ(take(lockers[i], i), Errc::kOk);
    const lock::CellIndex cell{static_cast<std::uint32_t>(lockers[i])};
    HeldLook::wakes.push_back(&table_->file().locker(cell).wake);
    HeldLook::buckets.push_back(&table_->file().bucket(lock::bucket_of({1, i})).lock);
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < lockers.size(); ++i)
    threads.emplace_back([&, i] {
      if (take(lockers[i], 1 - i) == Errc::kDeadlock) HeldLook::has_returned.store(true);
      table_->end(lockers[i]);
    });
  EXPECT_TRUE(poll_until([&] { return is_waiting(lockers[0]) && is_waiting(lockers[1]); }));
  observe::set_step_hook(&HeldLook::on_step);
  HeldLook::is_mine = true;
  EXPECT_EQ(table_->look(), 1u);
  for (std::thread &thread : threads) thread.join();
  observe::set_step_hook(nullptr);
  EXPECT_TRUE(HeldLook::has_returned.load());
  EXPECT_FALSE(HeldLook::has_returned_early);
}

struct Choice {
  Victim victim;
  std::size_t chosen;  // of the ring below
  const char *name;
};

class VictimTest : public DeadlockTest, public testing::WithParamInterface<Choice> {};

// In the order of their begins: 0 has two more read locks and the lowest priority but one; 1 has
// one more write lock; 2 has nothing more, and the lowest priority; 3 has three more read locks.
TEST_P(VictimTest, IsTheOneThatThePolicyChooses) {
  look_only_when_told(GetParam().victim);
  std::array<LockerId, 4> lockers{};
  for (std::size_t i = 0; i < lockers.size(); ++i) {
    lockers[i] = begin();
    EXPECT_EQ(take(lockers[i], i), Errc::kOk);
  }
  for (std::uint64_t extra = 0; extra < 3; ++extra) {
    if (extra < 2) {
      EXPECT_EQ(take(lockers[0], 100 + extra, Patience::none(), Mode::kShared), Errc::kOk);
    }
    EXPECT_EQ(take(lockers[3], 200 + extra, Patience::none(), Mode::kShared), Errc::kOk);
  }
  EXPECT_EQ(take(lockers[1], 300, Patience::none()), Errc::kOk);
  EXPECT_EQ(table_->set_priority(lockers[0], -1), Errc::kOk);
  EXPECT_EQ(table_->set_priority(lockers[2], -2), Errc::kOk);
  std::array<Errc, 4> ends{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < lockers.size(); ++i)
    threads.emplace_back([&, i] {
      ends[i] = take(lockers[i], (i + 1) % 4);
      table_->end(lockers[i]);
    });
  ASSERT_TRUE(poll_until([&] {
    return is_waiting(lockers[0]) && is_waiting(lockers[1]) && is_waiting(lockers[2]) &&
           is_waiting(lockers[3]);
  }));
  EXPECT_EQ(table_->look(), 1u);
  for (std::thread &thread : threads) thread.join();
  for (std::size_t i = 0; i < ends.size(); ++i)
    EXPECT_EQ(ends[i], i == GetParam().chosen ? Errc::kDeadlock : Errc::kOk) << i;
}

INSTANTIATE_TEST_SUITE_P(Policies, VictimTest,
                         testing::Values(Choice{Victim::kYoungest, 3, "Youngest"},
                                         Choice{Victim::kOldest, 0, "Oldest"},
                                         Choice{Victim::kFewestLocks, 2, "FewestLocks"},
                                         Choice{Victim::kMostLocks, 3, "MostLocks"},
                                         // All but 1 have one; the youngest of them.
                                         Choice{Victim::kFewestWriteLocks, 3, "FewestWriteLocks"},
                                         Choice{Victim::kMostWriteLocks, 1, "MostWriteLocks"},
                                         Choice{Victim::kLowestPriority, 2, "LowestPriority"}),
                         [](const auto &choice) { return choice.param.name; });

}  // namespace
}  // namespace tmh::test
