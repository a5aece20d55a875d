// tests/histories/isolation_history_multi_test.cpp -- random transactions under snapshot isolation,
// alone and beside serializable ones, recorded and judged.
// Invariants: (1) each instance keeps its own promise, in every lazy mode: no update is lost, each
//             reads one snapshot, and a cycle has two read-write edges in a row at a snapshot
//             instance. Those of tests/support/workload.h hold, because updates promote what they
//             decide by. (2) where nothing is promoted, write skew does happen, and nothing worse.
//             (3) planted faults are found.
// Size:       TMH_HISTORY_STEPS transactions per process (default 300: half a second to two per
//             run).
// Source:     EXCITE-VM, sections 3.3 and 5.3.
#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "observe/planted.h"
#include "tests/support/history_run.h"
#include "tests/support/modes.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

using observe::Planted;

HistoryPlan plan_for(const Mode &mode, std::uint32_t snapshot_percent, std::uint64_t round = 0) {
  HistoryPlan plan{mode, options_for(mode)};
  plan.steps = environment_number("TMH_HISTORY_STEPS", 300);
  plan.first_seed = seed() + 100 * round;
  plan.snapshot_percent = snapshot_percent;
  return plan;
}

// A mode, and how many updates of a hundred are under snapshot isolation.
using Mix = std::tuple<Mode, std::uint32_t>;

class IsolationHistoryTest : public testing::TestWithParam<Mix> {};

TEST_P(IsolationHistoryTest, EachInstanceKeepsItsOwnPromise) {
  const auto &[mode, percent] = GetParam();
  if (const std::string why = why_unavailable(mode); !why.empty()) GTEST_SKIP() << why;
  const HistoryPlan plan = plan_for(mode, percent);
  const HistoryResult result = run_history(plan);
  EXPECT_TRUE(result.is_right);
  EXPECT_GT(result.verdict.committed, plan.steps) << "too few instances to judge anything";
  // In a hybrid domain some five of eight updates run at level 1.
  EXPECT_GT(result.verdict.snapshots, plan.steps * percent / 400);
  EXPECT_GT(result.conflicts, 0U)
      << "the instances never met: the history says nothing about conflicts";
}

std::string mix_name(const testing::TestParamInfo<Mix> &info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Modes, IsolationHistoryTest,
                         testing::Combine(testing::ValuesIn(lazy_modes()),
                                          testing::Values(50U, 100U)),
                         mix_name);

// Own copies go while others commit to their pages.
class TinyCacheHistoryTest : public testing::TestWithParam<const char *> {};

TEST_P(TinyCacheHistoryTest, EachInstanceKeepsItsOwnPromise) {
  for (const Mode &mode : lazy_modes()) {
    if (mode.tracking != Tracking::kKernelHot || !why_unavailable(mode).empty()) continue;
    SCOPED_TRACE(mode.name);
    HistoryPlan plan = plan_for(mode, 70);
    plan.options.policies.page_cache = GetParam();
    const HistoryResult result = run_history(plan);
    EXPECT_TRUE(result.is_right);
    EXPECT_GT(result.verdict.snapshots, plan.steps * 70 / 400);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, TinyCacheHistoryTest,
                         testing::Values("scan=1", "scan=7", "1MiB", "adaptive"),
                         [](const auto &param_info) {
                           std::string name = param_info.param;
                           std::erase(name, '=');
                           return name;
                         });

constexpr std::uint64_t kRoundsMax = 10;

// Found in the first run, mostly.
TEST(IsolationSkewTest, WriteSkewHappensWhereNothingIsPromoted) {
  const Mode &mode = kModes[3];
  if (const std::string why = why_unavailable(mode); !why.empty()) GTEST_SKIP() << why;
  for (std::uint64_t round = 0; round < kRoundsMax; ++round) {
    HistoryPlan plan = plan_for(mode, 100, round);
    plan.promotes = false;
    const HistoryResult result = run_history(plan);
    ASSERT_TRUE(result.is_right) << "skew is all that snapshot isolation permits";
    if (!result.verdict.is_serializable) return;
  }
  FAIL() << "no write skew: the runs above say nothing about promotion";
}

struct Defect {
  const char *name;
  Planted planted;
};

void PrintTo(const Defect &defect, std::ostream *out) { *out << defect.name; }

class IsolationDefectTest : public testing::TestWithParam<Defect> {};

TEST_P(IsolationDefectTest, IsFound) {
  // A commit's own stamp matters where pages stay.
  const Mode &mode = kModes[2];
  if (const std::string why = why_unavailable(mode); !why.empty()) GTEST_SKIP() << why;
  for (std::uint64_t round = 0; round < kRoundsMax; ++round) {
    HistoryPlan plan = plan_for(mode, 100, round);
    plan.planted = GetParam().planted;
    if (run_history(plan).is_right) continue;
    std::printf("found in run %llu\n", static_cast<unsigned long long>(round + 1));
    return;
  }
  FAIL() << "random transactions do not find it";
}

INSTANTIATE_TEST_SUITE_P(Planted, IsolationDefectTest,
                         testing::Values(Defect{"NoLineCheck", Planted::kNoLineCheck},
                                         Defect{"PromotionNotPublished",
                                                Planted::kPromotionNotPublished},
                                         Defect{"StandsPastOthers", Planted::kStandsPastOthers}),
                         [](const auto &param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace tmh::test
