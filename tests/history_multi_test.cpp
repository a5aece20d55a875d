// tests/history_multi_test.cpp -- random transactions of two to four processes on few pages, recorded and judged.
// Invariants: those of tests/support/workload.h, in every mode under every conflict policy and backoff.
// Size:       TMH_HISTORY_STEPS transactions per process (default 300: half a second to two per combination).
#include <iterator>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/support/children.h"
#include "tests/support/modes.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/workload.h"

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
constexpr Named kBackoffs[] = {
    {"NoBackoff", "backoff=none"}, {"Exponential", "backoff=exponential"}, {"Adaptive", "backoff=adaptive"}};

using Combination = std::tuple<std::size_t, std::size_t, std::size_t>;  // indices of mode, policy, backoff

class HistoryTest : public testing::TestWithParam<Combination> {};

TEST_P(HistoryTest, RandomTransactionsAreSerializableWithConsistentViews) {
  const auto [mode_index, policy_index, backoff_index] = GetParam();
  const Mode &mode =
      mode_index < std::size(kModes) ? kModes[mode_index] : kDurableHybridModes[mode_index - std::size(kModes)];
  if (const std::string why = why_unavailable(mode); !why.empty()) GTEST_SKIP() << why;
  // With fresh ages nobody is kept from starving, but the run must still end: both are tried.
  const char *age = (policy_index + backoff_index) % 2 == 0 ? "keep-age" : "fresh-age";
  const DomainOptions options =
      options_for(mode, std::string(kPolicies[policy_index].spec) + "," + age + "," + kBackoffs[backoff_index].spec);
  const std::size_t processes = 2 + (mode_index + policy_index + backoff_index) % 3;
  const std::uint64_t steps = environment_number("TMH_HISTORY_STEPS", 300);
  const std::uint64_t first_seed = seed();

  const TempFolder folder(place_for(mode));
  Recorder recorder(static_cast<std::uint32_t>(processes) + 2, 4'000 * steps + kEntriesPerStep);
  expect_child("set-up", [&] {
    Board board(folder.path(), options);
    Player player(board, recorder.open_lane());
    Workload(player, first_seed).set_up();
    board.close();
  });
  Shared<Turn> turn;
  Shared<std::atomic<std::uint32_t>> ready;
  Shared<std::atomic<std::uint64_t>> attempts, conflicts, in_hardware;
  Children children;
  for (std::size_t i = 0; i < processes; ++i) {
    children.spawn("worker " + std::to_string(i), [&, i] {
      Board board(folder.path(), options);
      Player player(board, recorder.open_lane(), &*attempts);
      Workload workload(player, first_seed + 1 + i);
      if (ready->fetch_add(1) + 1 == processes) turn->reach(1);
      turn->await(1);
      for (std::uint64_t step = 0; step < steps && player.lane().has_room(kEntriesPerStep); ++step) workload.step();
      conflicts->fetch_add(player.conflicts());
      in_hardware->fetch_add(board.line_site().report().hardware_commits +
                             board.adaptive_site().report().hardware_commits);
      board.close();
    });
  }
  children.expect_success();
  audit_alone(folder.path(), options, &recorder);
  const history::Verdict verdict = expect_right_history(recorder, options.policy);
  std::printf("%llu conflicts, %llu commits in hardware\n", static_cast<unsigned long long>(conflicts->load()),
              static_cast<unsigned long long>(in_hardware->load()));
  EXPECT_GT(verdict.committed, steps) << "too few instances to judge anything";
  EXPECT_GT(conflicts->load(), 0U) << "the instances never met: the history says nothing about conflicts";
}

std::string combination_name(const testing::TestParamInfo<Combination> &info) {
  const std::size_t mode = std::get<0>(info.param);
  const char *name = mode < std::size(kModes) ? kModes[mode].name : kDurableHybridModes[mode - std::size(kModes)].name;
  return std::string(name) + "_" + kPolicies[std::get<1>(info.param)].name + "_" +
         kBackoffs[std::get<2>(info.param)].name;
}

INSTANTIATE_TEST_SUITE_P(Modes, HistoryTest,
                         testing::Combine(testing::Range(std::size_t{0}, std::size(kModes)),
                                          testing::Range(std::size_t{0}, std::size(kPolicies)),
                                          testing::Range(std::size_t{0}, std::size(kBackoffs))),
                         combination_name);
INSTANTIATE_TEST_SUITE_P(DurableModes, HistoryTest,
                         testing::Combine(testing::Range(std::size(kModes),
                                                         std::size(kModes) + std::size(kDurableHybridModes)),
                                          testing::Values(std::size_t{1}), testing::Values(std::size_t{2})),
                         combination_name);

}  // namespace
}  // namespace tmh::test
