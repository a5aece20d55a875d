// tests/histories/history_multi_test.cpp -- random transactions of two to four processes on few
// pages, recorded and judged.
// Invariants: those of tests/support/workload.h, in every mode under every conflict policy and
//             backoff.
// Size:       TMH_HISTORY_STEPS transactions per process (default 300: half a second to two per
//             combination).
#include <iterator>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/support/history_run.h"
#include "tests/support/modes.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

struct Named {
  const char *name;
  const char *spec;
};

constexpr Named kPolicies[] = {{"SelfAbort", "self-abort"},
                               {"OldestWins", "oldest-wins"},
                               {"SelfishAbort", "selfish-abort"},
                               {"YoungestWins", "youngest-wins"}};
constexpr Named kBackoffs[] = {{"NoBackoff", "backoff=none"},
                               {"Exponential", "backoff=exponential"},
                               {"Adaptive", "backoff=adaptive"}};

// Indices of mode, policy, backoff.
using Combination = std::tuple<std::size_t, std::size_t, std::size_t>;

class HistoryTest : public testing::TestWithParam<Combination> {};

TEST_P(HistoryTest, RandomTransactionsAreSerializableWithConsistentViews) {
  const auto [mode_index, policy_index, backoff_index] = GetParam();
  const Mode &mode = mode_index < std::size(kModes)
                         ? kModes[mode_index]
                         : kDurableHybridModes[mode_index - std::size(kModes)];
  if (const std::string why = why_unavailable(mode); !why.empty()) GTEST_SKIP() << why;
  // With fresh ages nobody is kept from starving, but the run must still end: both are tried.
  const char *age = (policy_index + backoff_index) % 2 == 0 ? "keep-age" : "fresh-age";
  const DomainOptions options = options_for(mode, std::string(kPolicies[policy_index].spec) + "," +
                                                      age + "," + kBackoffs[backoff_index].spec);
  HistoryPlan plan{mode, options};
  plan.processes = 2 + (mode_index + policy_index + backoff_index) % 3;
  plan.steps = environment_number("TMH_HISTORY_STEPS", 300);
  plan.first_seed = seed();
  const HistoryResult result = run_history(plan);
  EXPECT_TRUE(result.is_right);
  EXPECT_GT(result.verdict.committed, plan.steps) << "too few instances to judge anything";
  EXPECT_GT(result.conflicts, 0U)
      << "the instances never met: the history says nothing about conflicts";
}

std::string combination_name(const testing::TestParamInfo<Combination> &info) {
  const std::size_t mode = std::get<0>(info.param);
  const char *name = mode < std::size(kModes) ? kModes[mode].name
                                              : kDurableHybridModes[mode - std::size(kModes)].name;
  return std::string(name) + "_" + kPolicies[std::get<1>(info.param)].name + "_" +
         kBackoffs[std::get<2>(info.param)].name;
}

INSTANTIATE_TEST_SUITE_P(Modes, HistoryTest,
                         testing::Combine(testing::Range(std::size_t{0}, std::size(kModes)),
                                          testing::Range(std::size_t{0}, std::size(kPolicies)),
                                          testing::Range(std::size_t{0}, std::size(kBackoffs))),
                         combination_name);
INSTANTIATE_TEST_SUITE_P(
    DurableModes, HistoryTest,
    testing::Combine(testing::Range(std::size(kModes),
                                    std::size(kModes) + std::size(kDurableHybridModes)),
                     testing::Values(std::size_t{1}), testing::Values(std::size_t{2})),
    combination_name);

}  // namespace
}  // namespace tmh::test
