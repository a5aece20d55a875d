// tests/transaction/own_escalation_test.cpp -- a site whose escalation rule is the program's own.
// Invariants: (1) the rule is asked after each attempt that other instances have made fail, with
//             what has happened so far, and decides where the next one runs. (2) what cannot run at
//             level 1 goes up without being asked.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "tests/support/hybrid_table.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

std::vector<FailedAttempts> told;

NextLevel up_after_three(const FailedAttempts &failed) noexcept {
  told.push_back(failed);
  return failed.attempts < 3 ? NextLevel::kStay : NextLevel::kGoUp;
}

class OwnEscalationTest : public testing::Test {
 protected:
  OwnEscalationTest() { told.clear(); }
  // An update whose first attempts another thread makes fail. Returns how many have run.
  [[nodiscard]] int run_disturbed(const Site &site, int disturbed) const {
    int attempts = 0;
    atomically(site, [&](Fields) {
      const std::uint64_t before = table_.word(0);
      if (++attempts <= disturbed)
        std::thread([&] { atomically(other_, [&](Fields) { ++table_.word(0); }); }).join();
      table_.word(1) = before;
      ++table_.word(0);
    });
    return attempts;
  }

  MemoryFolder folder_;
  const Table table_{folder_.path()};
  const Site other_{table_.domain, "other"};
};

TEST_F(OwnEscalationTest, TheRuleDecidesAfterWhichFailureAnInstanceGoesUp) {
  const Site site(table_.domain, "own", up_after_three);
  atomically(site, [&](Fields) { ++table_.word(0); });
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(run_disturbed(site, 3), 4);
  ASSERT_EQ(told.size(), 3U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(told[i].attempts, i + 1);
    EXPECT_EQ(told[i].line_commits, 1U);
    EXPECT_EQ(told[i].line_aborts, i + 1);
    EXPECT_EQ(told[i].page_commits, 0U);
  }
  const SiteReport report = site.report();
  EXPECT_EQ(report.escalation.kind, EscalationKind::kOwn);
  EXPECT_EQ(report.escalations_attempts, 1U);
  EXPECT_EQ(report.page_commits, 1U);
  EXPECT_EQ(table_.committed(0), 5U);
}

TEST_F(OwnEscalationTest, AnInstanceThatTheRuleKeepsCommitsAtLevel1) {
  const Site site(table_.domain, "own", up_after_three);
  EXPECT_EQ(run_disturbed(site, 2), 3);
  EXPECT_EQ(told.size(), 2U);
  EXPECT_EQ(site.report().line_commits, 1U);
  EXPECT_EQ(site.report().page_commits, 0U);
}

const Site *within_rule = nullptr;
std::atomic<std::uint64_t> *counted = nullptr;
NextLevel stay_and_count(const FailedAttempts &) noexcept {
  atomically(*within_rule, [](Fields) { ++*counted; });
  query(*within_rule, [](Fields) {});
  return NextLevel::kStay;
}

// As an instance between two attempts does: it leaves level 1 of its domain, and of this one.
TEST_F(OwnEscalationTest, TheRuleMayRunInstances) {
  const MemoryFolder second_folder;
  for (const Domain &domain : {table_.domain, Domain::open(second_folder.path(), hybrid())}) {
    const Site inner(domain, "inner"), site(table_.domain, "own", stay_and_count);
    std::atomic<std::uint64_t> runs{0};
    within_rule = &inner;
    counted = &runs;
    EXPECT_EQ(run_disturbed(site, 3), 4);
    EXPECT_EQ(runs, 3U);
    EXPECT_EQ(inner.report().line_commits, 6U);
    EXPECT_EQ(site.report().line_commits, 1U);
    EXPECT_EQ(site.report().line_aborts, 3U);
  }
}

TEST_F(OwnEscalationTest, WhatOnlyLevel2CanDoGoesUpUnasked) {
  const Site site(table_.domain, "own", up_after_three);
  atomically(site, [&](Fields) {
    become_irrevocable();
    ++table_.word(0);
  });
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(site.report().page_commits, 1U);
}

TEST_F(OwnEscalationTest, ANullRuleIsRefused) {
  try {
    const Site site(table_.domain, "own", static_cast<EscalationRule>(nullptr));
    FAIL() << "a null rule was accepted";
  } catch (const Error &error) {
    EXPECT_EQ(error.errc(), Errc::kBadLevels);
  }
}

}  // namespace
}  // namespace tmh::test
