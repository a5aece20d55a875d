// tests/page/multi_locking_test.cpp -- detection locking: instances wait for each other's pages.
// Invariants: (1) histories are strictly serializable.
//             (2) who meets a page that another one has locked waits for its end, and then sees
//                 what it has committed; nobody fails but victims of deadlocks, who run again.
//             (3) nobody waits for the dead.
// Source:     LIBTP 4.1.
#include <atomic>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "levels/page/views/claim_kind.h"
#include "tests/support/children.h"
#include "tests/support/history_run.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

using page::claim_kind;
using page::ClaimKind;

static_assert(claim_kind(Detection::kLocking) == ClaimKind::kWaiting);
static_assert(registers_touches(ClaimKind::kWaiting) && moves_snapshot(ClaimKind::kWaiting));

constexpr Mode kLocking{"Locking", Detection::kLocking, Tracking::kSignal};
constexpr Mode kDurableLocking{"DurableLocking", Detection::kLocking, Tracking::kSignal,
                               Levels::kPage,    LineChoice::kAuto,   Durability::kStrict};

class LockingTest : public ModeTest {};

TEST_P(LockingTest, AWriterWaitsForAReaderAndAReaderForAWriter) {
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        self.domain.begin();
        EXPECT_EQ(self.get(1), 0U);
        turn.reach(1);
        turn.await(2);  // the other one is about to store to page 1
        EXPECT_EQ(self.domain.validate(), Status::kPending);
        self.set(2, 7);
        EXPECT_EQ(self.get(1), 0U);
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.domain.begin();
        turn.reach(2);
        self.set(1, 5);  // waits
        EXPECT_EQ(self.get(2), 7U) << "of the instance that was waited for";
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
      });
}

TEST_P(LockingTest, ReadersDoNotWaitAndQueriesNever) {
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        self.domain.begin();
        EXPECT_EQ(self.get(1), 0U);
        self.set(2, 3);
        turn.reach(1);
        turn.await(2);
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.domain.begin_query();
        EXPECT_EQ(self.get(2), 0U);
        self.domain.end_query();
        self.domain.begin();
        EXPECT_EQ(self.get(1), 0U);
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
        turn.reach(2);
      });
}

// Each has what the other one wants: one fails, and runs again.
TEST_P(LockingTest, ADeadlockFailsOneThatRunsAgain) {
  Shared<std::atomic<int>> failed;
  const auto play = [&](std::size_t first, std::size_t second) {
    return [&, first, second](Actor &self, Turn &turn) {
      const std::uint32_t own = first == 1 ? 1 : 2;
      self.domain.begin();
      self.set(first, self.get(first) + 1);
      turn.reach(own);
      if (own == 1) turn.await(2);
      self.set(second, self.get(second) + 1);
      if (self.domain.end() == Status::kCommitted) return;
      failed->fetch_add(1);
      do {
        self.domain.begin();
        self.set(first, self.get(first) + 1);
        self.set(second, self.get(second) + 1);
      } while (self.domain.end() != Status::kCommitted);
    };
  };
  run_pair("", play(1, 2), [&](Actor &self, Turn &turn) {
    turn.await(1);
    play(2, 1)(self, turn);
  });
  EXPECT_EQ(failed->load(), 1);
}

INSTANTIATE_TEST_SUITE_P(Modes, LockingTest, testing::Values(kLocking, kDurableLocking), mode_name);

class LockingHistoryTest : public testing::TestWithParam<std::size_t> {};

TEST_P(LockingHistoryTest, RandomTransactionsAreSerializable) {
  for (const Mode &mode : {kLocking, kDurableLocking}) {
    if (const std::string why = why_unavailable(mode); !why.empty()) GTEST_SKIP() << why;
    HistoryPlan plan{mode, options_for(mode)};
    plan.processes = GetParam();
    plan.steps = environment_number("TMH_HISTORY_STEPS", 300);
    plan.first_seed = seed();
    const HistoryResult result = run_history(plan);
    EXPECT_TRUE(result.is_right);
    EXPECT_GT(result.verdict.committed, plan.steps) << "too few instances to judge anything";
  }
}

INSTANTIATE_TEST_SUITE_P(Processes, LockingHistoryTest, testing::Values(2U, 3U, 4U));

}  // namespace
}  // namespace tmh::test
