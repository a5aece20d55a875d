// tests/tp/tp_locks_test.cpp -- the lock manager in C, as lock managers of others are used: by
// lockers, with modes of the caller's.
// Invariants: (1) counted locks, no-wait, time-outs, vectors whole or not at all.
//             (2) a ring of waiters loses one; of a clump that upgrades one survives.
#include <gtest/gtest.h>
#include <tp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

// 0 reads, 1 writes, 2 goes with all.
constexpr unsigned char kConflicts[] = {0, 1, 0, 1, 1, 0, 0, 0, 0};

class TpLocksTest : public ::testing::Test {
 protected:
  TpLocksTest() {
    const tp_modes modes{3, kConflicts, 1u << 1};
    tp_options options{};
    options.modes = &modes;
    options.first_look_us = 500;
    EXPECT_EQ(tp_open(folder_.path().c_str(), &options, &env_), TP_OK) << tp_last_error();
  }
  ~TpLocksTest() override { EXPECT_EQ(tp_close(env_), TP_OK) << tp_last_error(); }

  tp_locker begin(std::uint64_t name = 0) {
    tp_locker locker = 0;
    EXPECT_EQ(tp_locker_begin(env_, name, &locker), TP_OK) << tp_last_error();
    return locker;
  }
  int lock(tp_locker locker, std::uint64_t id, unsigned mode, std::uint64_t wait_us = TP_TRY,
           tp_lock_id *taken = nullptr) {
    return tp_locker_lock(env_, locker, {1, id}, mode, wait_us, taken);
  }

  MemoryFolder folder_;
  tp_env *env_ = nullptr;
};

TEST_F(TpLocksTest, AMatrixOfTheCallers) {
  const tp_locker one = begin(), other = begin();
  EXPECT_EQ(lock(one, 1, 1), TP_OK);
  EXPECT_EQ(lock(other, 1, 0), TP_EBUSY);
  EXPECT_EQ(lock(other, 1, 2), TP_OK);
  EXPECT_EQ(lock(other, 1, 3), TP_EARGUMENT);
  EXPECT_EQ(tp_locker_end(env_, one), TP_OK);
  EXPECT_EQ(lock(other, 1, 1), TP_OK);
  EXPECT_EQ(tp_locker_end(env_, other), TP_OK);
  EXPECT_EQ(tp_locker_end(env_, other), TP_EARGUMENT);
}

// Its number is nobody's to use.
TEST_F(TpLocksTest, ALockerOfATransactionIsRefused) {
  tp_txn *txn = nullptr;
  ASSERT_EQ(tp_begin(env_, &txn), TP_OK);
  EXPECT_EQ(tp_lock(txn, {1, 1}, 0, TP_TRY), TP_OK);
  for (tp_locker locker = 0; locker < 64; ++locker) {
    EXPECT_EQ(lock(locker, 2, 0), TP_EARGUMENT) << locker;
    EXPECT_EQ(tp_locker_unlock_all(env_, locker), TP_EARGUMENT) << locker;
    EXPECT_EQ(tp_locker_end(env_, locker), TP_EARGUMENT) << locker;
  }
  EXPECT_EQ(tp_unlock(txn, {1, 1}, 0), TP_OK);
  EXPECT_EQ(tp_commit(txn), TP_OK);
}

TEST_F(TpLocksTest, LockedTwiceIsGivenBackTwice) {
  const tp_locker one = begin(), other = begin();
  tp_lock_id first = 0, second = 0;
  EXPECT_EQ(lock(one, 1, 1, TP_TRY, &first), TP_OK);
  EXPECT_EQ(lock(one, 1, 1, TP_TRY, &second), TP_OK);
  EXPECT_EQ(first, second);
  EXPECT_EQ(tp_locker_unlock(env_, one, first), TP_OK);
  EXPECT_EQ(lock(other, 1, 0), TP_EBUSY);
  EXPECT_EQ(lock(other, 1, 0, 1000), TP_ETIMEOUT);
  EXPECT_EQ(tp_locker_unlock(env_, one, first), TP_OK);
  EXPECT_EQ(tp_locker_unlock(env_, one, first), TP_ENOTLOCKED);
  EXPECT_EQ(lock(other, 1, 0), TP_OK);
  EXPECT_EQ(tp_locker_unlock_object(env_, other, {1, 1}, 1), TP_ENOTLOCKED);
  EXPECT_EQ(tp_locker_unlock_object(env_, other, {1, 1}, 0), TP_OK);
  EXPECT_EQ(tp_locker_unlock_all(env_, other), TP_OK);
  EXPECT_EQ(tp_locker_end(env_, one), TP_OK);
  EXPECT_EQ(tp_locker_end(env_, other), TP_OK);
}

TEST_F(TpLocksTest, AVectorIsDoneWhollyOrNotAtAll) {
  const tp_locker one = begin(11), other = begin(12);
  EXPECT_EQ(lock(one, 2, 1), TP_OK);
  std::array<tp_request, 3> requests{};
  for (std::uint64_t i = 0; i < requests.size(); ++i) requests[i] = {TP_LOCK, {1, i}, 1, 0};
  size_t failed = 0;
  std::uint64_t holder = 0;
  EXPECT_EQ(tp_lock_vector(env_, other, requests.data(), 3, TP_TRY, &failed, &holder), TP_EBUSY);
  EXPECT_EQ(failed, 2u);
  EXPECT_EQ(holder, 11u);
  EXPECT_EQ(lock(one, 0, 1), TP_OK);
  EXPECT_EQ(tp_locker_unlock_all(env_, one), TP_OK);
  EXPECT_EQ(tp_lock_vector(env_, other, requests.data(), 3, TP_TRY, nullptr, nullptr), TP_OK);
  for (const tp_request &request : requests) EXPECT_NE(request.lock, 0u);
  requests[0].what = TP_UNLOCK;
  requests[1].what = TP_UNLOCK;
  requests[2] = {TP_UNLOCK, {1, 9}, 1, 0};
  EXPECT_EQ(tp_lock_vector(env_, other, requests.data(), 3, TP_TRY, &failed, &holder),
            TP_ENOTLOCKED);
  EXPECT_EQ(failed, 2u);
  EXPECT_EQ(lock(one, 0, 0), TP_EBUSY);
  EXPECT_EQ(tp_lock_vector(env_, other, requests.data(), 2, TP_TRY, &failed, &holder), TP_OK);
  EXPECT_EQ(lock(one, 0, 0), TP_OK);
  EXPECT_EQ(tp_locker_end(env_, one), TP_OK);
  EXPECT_EQ(tp_locker_end(env_, other), TP_OK);
}

TEST_F(TpLocksTest, UpgradesAndDowngrades) {
  const tp_locker one = begin(), other = begin();
  tp_lock_id lock_of_one = 0;
  EXPECT_EQ(lock(one, 1, 0, TP_TRY, &lock_of_one), TP_OK);
  EXPECT_EQ(lock(other, 1, 0), TP_OK);
  EXPECT_EQ(tp_upgrade(env_, one, lock_of_one, 1, TP_TRY, &lock_of_one), TP_EBUSY);
  EXPECT_EQ(tp_locker_unlock_all(env_, other), TP_OK);
  EXPECT_EQ(tp_upgrade(env_, one, lock_of_one, 1, TP_TRY, &lock_of_one), TP_OK);
  EXPECT_EQ(lock(other, 1, 0), TP_EBUSY);
  EXPECT_EQ(tp_downgrade(env_, one, lock_of_one, 0, &lock_of_one), TP_OK);
  EXPECT_EQ(tp_downgrade(env_, one, lock_of_one, 1, &lock_of_one), TP_EARGUMENT);
  EXPECT_EQ(lock(other, 1, 0), TP_OK);
  EXPECT_EQ(tp_inherit(env_, one, {1, 1}, {1, 2}), TP_OK);
  EXPECT_EQ(lock(one, 2, 1), TP_EBUSY);
  EXPECT_EQ(tp_locker_end(env_, one), TP_OK);
  EXPECT_EQ(tp_locker_end(env_, other), TP_OK);
}

// How many of `count` threads fail, where each has its own and wants what `wants` says.
TEST_F(TpLocksTest, ARingLosesOneAndAClumpKeepsOne) {
  for (const std::size_t count : {std::size_t{2}, std::size_t{5}, std::size_t{10}})
    for (const bool is_clump : {false, true}) {
      std::vector<tp_locker> lockers(count);
      std::vector<tp_lock_id> locks(count);
      for (std::size_t i = 0; i < count; ++i) {
        lockers[i] = begin();
        EXPECT_EQ(lock(lockers[i], is_clump ? 0 : i, is_clump ? 0 : 1, TP_TRY, &locks[i]), TP_OK);
      }
      std::atomic<std::size_t> failed{0};
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < count; ++i)
        threads.emplace_back([&, i] {
          const int error = is_clump
                                ? tp_upgrade(env_, lockers[i], locks[i], 1, TP_FOREVER, nullptr)
                                : lock(lockers[i], (i + 1) % count, 1, TP_FOREVER);
          EXPECT_TRUE(error == TP_OK || error == TP_EDEADLOCK) << error;
          if (error == TP_EDEADLOCK) failed.fetch_add(1);
          EXPECT_EQ(tp_locker_end(env_, lockers[i]), TP_OK);
        });
      for (std::thread &thread : threads) thread.join();
      EXPECT_EQ(failed.load(), is_clump ? count - 1 : 1u) << count;
    }
  tp_lock_counts counts{};
  EXPECT_EQ(tp_lock_totals(env_, &counts), TP_OK);
  EXPECT_EQ(counts.deadlocks, 1u + 1 + 1 + 4 + 1 + 9);
  unsigned victims = 1;
  EXPECT_EQ(tp_look_for_deadlocks(env_, &victims), TP_OK);
  EXPECT_EQ(victims, 0u);
}

TEST_F(TpLocksTest, OtherModesAreRefused) {
  const ChildEnd end = run_in_child("other", [&] {
    tp_env *env = nullptr;
    EXPECT_EQ(tp_open(folder_.path().c_str(), nullptr, &env), TP_EARGUMENT);
    EXPECT_EQ(env, nullptr);
    tp_modes modes{33, kConflicts, 0};
    tp_options options{};
    options.modes = &modes;
    EXPECT_EQ(tp_open(folder_.path().c_str(), &options, &env), TP_EARGUMENT);
  });
  EXPECT_TRUE(end.succeeded());
}

}  // namespace
}  // namespace tmh::test
