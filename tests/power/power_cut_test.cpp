// tests/power/power_cut_test.cpp -- the power is cut at random moments of a run with several
// processes, and of the recoveries after it.
// Invariants: those of tests/power/judge.h, for every image that the disk could have kept.
// Size:       TMH_POWER_CUTS cuts of runs (default 600, shared by the scenarios), and about twice
//             as many of recoveries. TMH_POWER_SEED repeats the choices; the run itself depends on
//             the scheduler, so a finding saves its journal and prints how to repeat it:
//             TMH_POWER_JOURNAL, _CUT and _IMAGE; a journal alone is cut anew.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>

#include "tests/power/campaign.h"
#include "tests/power/run.h"
#include "tests/power/world.h"
#include "tests/support/seed.h"

namespace tmh::test::power {
namespace {

struct Scenario {
  const char *name;
  std::uint32_t share;  // of the cuts, in percent
  void (*adapt)(RunPlan *plan);
};

const Scenario kScenarios[] = {
    {"Mixed", 10, [](RunPlan *) {}},
    {"DeathsInOperations", 10, [](RunPlan *plan) { plan->pace.die_one_in = 100; }},
    // Every update writes the ledger's first line, which puts them all in one order.
    {"SnapshotIsolation", 5,
     [](RunPlan *plan) { plan->options.policies.isolation = Isolation::kSnapshot; }},
    {"Hybrid", 10, [](RunPlan *plan) { plan->options.levels = Levels::kHybrid; }},
    {"HybridDeathsInOperations", 10,
     [](RunPlan *plan) {
       plan->options.levels = Levels::kHybrid;
       plan->pace.die_one_in = 100;
     }},
    {"Eager", 5, [](RunPlan *plan) { plan->options.policies.detection = Detection::kEager; }},
    {"KeepLogAndArchive", 10,
     [](RunPlan *plan) {
       plan->options.keep_log = true;
       plan->archives = true;
     }},
    {"ArchiveAndDeathsInOperations", 10,
     [](RunPlan *plan) {
       plan->archives = true;
       plan->pace.die_one_in = 100;
     }},
    {"NoEarlyRelease", 10,
     [](RunPlan *plan) { plan->options.policies.early_release = EarlyRelease::kOff; }},
    {"SmallTransactions", 10, [](RunPlan *plan) { plan->only_ledger = true; }},
    {"OneProcess", 10,
     [](RunPlan *plan) {
       plan->workers = 1;
       plan->pace = {};
     }},
};

void PrintTo(const Scenario &scenario, std::ostream *out) { *out << scenario.name; }

class PowerCutTest : public testing::TestWithParam<Scenario> {};

// Repeats what a finding has printed: its one image or, without an image's name, other cuts of its
// journal.
CampaignResult repeat(const char *journal, const CampaignPlan &plan, std::uint64_t seed) {
  const Recording recording = load_recording(journal);
  const std::uint64_t image = environment_number("TMH_POWER_IMAGE", 0);
  return image == 0 ? cut_everywhere(recording, plan, seed)
                    : cut_once(recording, plan, environment_number("TMH_POWER_CUT", 1), image);
}

TEST_P(PowerCutTest, EveryImageRecoversToAPrefixWithAllThatWasAcknowledged) {
  const std::uint64_t first_seed = environment_number("TMH_POWER_SEED", seed());
  RunPlan run;
  run.options = power_options();
  GetParam().adapt(&run);
  CampaignPlan plan;
  plan.judge.options = run.options;
  plan.cuts = environment_number("TMH_POWER_CUTS", 600) * GetParam().share / 100 + 1;
  if (const char *journal = std::getenv("TMH_POWER_JOURNAL"); journal != nullptr) {
    const CampaignResult result = repeat(journal, plan, first_seed);
    print(GetParam().name, result, 0);
    EXPECT_EQ(result.tally.first_finding, "");
    return;
  }
  // Then another run: what the scheduler did matters as much as the cut.
  constexpr std::uint64_t kCutsPerRun = 250;
  for (std::uint64_t done = 0; done < plan.cuts && !HasFailure(); done += kCutsPerRun) {
    const auto start = std::chrono::steady_clock::now();
    const Recording recording = record_run(run, first_seed + done);
    ASSERT_FALSE(HasFailure());
    CampaignPlan part = plan;
    part.cuts = std::min(kCutsPerRun, plan.cuts - done);
    const CampaignResult result = cut_everywhere(recording, part, first_seed + done);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%zu entries in the journal. ", recording.entries.size());
    print(GetParam().name, result, seconds.count());
    EXPECT_EQ(result.strays, "") << "files were written past platform::DiskFile";
    if (result.tally.findings != 0) {
      ADD_FAILURE() << result.tally.first_finding << "\n    TMH_POWER_JOURNAL=" << save(recording)
                    << "\n    (repeat with these and --gtest_filter=*/PowerCutTest.Every*/"
                    << GetParam().name << ")";
    }
  }
}

std::string scenario_name(const testing::TestParamInfo<Scenario> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Scenarios, PowerCutTest, testing::ValuesIn(kScenarios), scenario_name);

}  // namespace
}  // namespace tmh::test::power
