// tests/tp/kill_tp_test.cpp -- a process dies at each step of its transactions; others go on, or
// the next that opens the domain does.
// Invariants: (1) a transaction of the dead is there whole or not at all; one that it was told of
//             is there.
//             (2) its locks are gone within the time of a few looks.
//             (3) a recovery that dies is done again, to the same end.
// Planted:    locks that go before the commit point.
#include <gtest/gtest.h>
#include <tp.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "observe/planted.h"
#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"
#include "tests/tp/bank.h"

namespace tmh::test {
namespace {

using observe::Step;

constexpr Step kFirst = Step::kLockCellTaken, kLast = Step::kTpAdopted;
constexpr std::size_t kLeft = 0, kRight = 1, kUndone = 2, kAccounts = 3;
constexpr tp_object kLock{1, 0};

// What can be done with transactions. told: how many have committed.
void use(const Bank &bank, std::atomic<std::uint64_t> &told) {
  for (int i = 0; i < 4; ++i) {
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(bank.env(), &txn), TP_OK) << tp_last_error();
    EXPECT_EQ(tp_lock(txn, kLock, TP_EXCLUSIVE, TP_FOREVER), TP_OK) << tp_last_error();
    EXPECT_EQ(bank.add(txn, kLeft, 1, TP_FIELDS, i % 2 == 0), TP_OK) << tp_last_error();
    tp_savepoint point{};
    EXPECT_EQ(tp_save(txn, &point), TP_OK);
    EXPECT_EQ(bank.add(txn, kUndone, 7, TP_PAGES, false), TP_OK) << tp_last_error();
    EXPECT_EQ(tp_roll_back(txn, &point), TP_OK) << tp_last_error();
    EXPECT_EQ(i % 2 == 0 ? bank.add_pinned(txn, kRight, 1, false)
                         : bank.add(txn, kRight, 1, TP_FIELDS, false),
              TP_OK)
        << tp_last_error();
    if (i == 1) {
      EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
      continue;
    }
    EXPECT_EQ(tp_commit(txn), TP_OK) << tp_last_error();
    told.fetch_add(1);
  }
}

void expect_whole(const Bank &bank, std::uint64_t told) {
  const std::vector<std::uint64_t> all = bank.read_all();
  EXPECT_EQ(all[kLeft], all[kRight]);
  EXPECT_EQ(all[kUndone], 0u);
  EXPECT_GE(all[kLeft], told);
  EXPECT_LE(all[kLeft], told + 1);
}

class KillTpTest : public testing::TestWithParam<std::pair<Step, std::uint32_t>> {
 protected:
  // It dies at that step, or does not pass it so often.
  void die(const std::string &folder) {
    const ChildEnd end = run_in_child("victim", [&] {
      observe::crash_at(static_cast<std::uint32_t>(GetParam().first), GetParam().second);
      const Bank bank(folder, kAccounts);
      use(bank, *told_);
    });
    EXPECT_TRUE(end.signal == SIGKILL || end.succeeded());
  }
  Shared<std::atomic<std::uint64_t>> told_;
};

TEST_P(KillTpTest, OthersGoOn) {
  const MemoryFolder folder;
  const Bank bank(folder.path(), kAccounts);
  die(folder.path());
  // Nothing but the lock tells of the death.
  tp_txn *txn = nullptr;
  ASSERT_EQ(tp_begin(bank.env(), &txn), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_lock(txn, kLock, TP_EXCLUSIVE, TP_FOREVER), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_abort(txn), TP_OK);
  expect_whole(bank, *told_);
}

TEST_P(KillTpTest, TheNextLifeUndoesIt) {
  const MemoryFolder folder;
  {
    // One that is recovered by whoever dies first.
    const ChildEnd end = run_in_child("first", [&] {
      const Bank bank(folder.path(), kAccounts);
      tp_txn *txn = nullptr;
      EXPECT_EQ(tp_begin(bank.env(), &txn), TP_OK) << tp_last_error();
      EXPECT_EQ(tp_lock(txn, kLock, TP_EXCLUSIVE, TP_FOREVER), TP_OK);
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(bank.add(txn, kLeft, 1, TP_FIELDS, false), TP_OK) << tp_last_error();
      die_unless_failed();
    });
    EXPECT_EQ(end.signal, SIGKILL);
  }
  die(folder.path());
  const Bank bank(folder.path(), kAccounts);
  bank.expect_free(1);
  expect_whole(bank, *told_);
}

std::vector<std::pair<Step, std::uint32_t>> deaths() {
  std::vector<std::pair<Step, std::uint32_t>> all;
  for (auto step = static_cast<std::uint32_t>(kFirst); step <= static_cast<std::uint32_t>(kLast);
       ++step)
    for (const std::uint32_t count : {1u, 2u, 3u, 5u, 8u, 13u})
      all.emplace_back(static_cast<Step>(step), count);
  return all;
}

std::string name_of(const testing::TestParamInfo<std::pair<Step, std::uint32_t>> &info) {
  std::string name = observe::step_name(info.param.first);
  for (char &letter : name)
    if (letter == '-') letter = '_';
  return name + "_" + std::to_string(info.param.second);
}

INSTANTIATE_TEST_SUITE_P(EveryStep, KillTpTest, testing::ValuesIn(deaths()), name_of);

#ifdef TMH_PLANTED_FAULTS
// Two transactions one behind the other: the first dies before its commit point, and what it has
// changed the second has changed again.
TEST(PlantedKillTpTest, LocksThatGoBeforeTheCommitPointAreSeen) {
  for (const bool is_planted : {false, true}) {
    const MemoryFolder folder;
    const Bank bank(folder.path(), kAccounts);
    // First: a begin looks after the dead.
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(bank.env(), &txn), TP_OK);
    const ChildEnd end = run_in_child("first", [&] {
      if (is_planted) observe::plant(observe::Planted::kUnlockedTooSoon);
      const Bank own(folder.path(), kAccounts);
      tp_txn *dying = nullptr;
      EXPECT_EQ(tp_begin(own.env(), &dying), TP_OK);
      EXPECT_EQ(tp_lock(dying, kLock, TP_EXCLUSIVE, TP_FOREVER), TP_OK);
      EXPECT_EQ(own.add(dying, kLeft, 1, TP_FIELDS, true), TP_OK);
      observe::crash_at(static_cast<std::uint32_t>(Step::kTpCommits), 1);
      (void)tp_commit(dying);
    });
    EXPECT_EQ(end.signal, SIGKILL);
    EXPECT_EQ(tp_lock(txn, kLock, TP_EXCLUSIVE, TP_FOREVER), TP_OK);
    EXPECT_EQ(bank.add(txn, kLeft, 10, TP_FIELDS, true), TP_OK);
    EXPECT_EQ(tp_commit(txn), TP_OK);
    EXPECT_EQ(tp_settle(bank.env()), TP_OK);
    EXPECT_EQ(bank.read_all()[kLeft] == 10, !is_planted);
  }
}
#endif

}  // namespace
}  // namespace tmh::test
