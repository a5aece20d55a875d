// tests/power_mixes_test.cpp -- the power is cut while processes work whose options are chosen at
//                               random, each its own, and so are those of each recovery.
// Invariants: those of tests/power/judge.h. (6) an instance of a process that reads only what is
//             durable has seen only that.
// Size:       TMH_POWER_MIXES mixes (default 2; 100 with TMH_LONG), the first one of TMH_SEED, each
//             of the following of the next number: a few seconds each. A finding saves its journal:
//             TMH_POWER_JOURNAL, _CUT and _IMAGE repeat it, with the mix's TMH_SEED.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "observe/planted.h"
#include "platform/disk.h"
#include "tests/power/campaign.h"
#include "tests/power/run.h"
#include "tests/support/mixes.h"
#include "tests/support/modes.h"
#include "tests/support/seed.h"

namespace tmh::test::power {
namespace {

using observe::Planted;

struct PowerMix {
  RunPlan run;
  CampaignPlan campaign;
};

PowerMix power_mix(std::uint64_t seed) {
  const bool kernel_tracking = why_unavailable(kModes[0]).empty();
  Mixes mixes(seed, kernel_tracking, MixKind::kDurable);
  const DomainMix &domain = mixes.domain();
  PowerMix mix;
  RunPlan &run = mix.run;
  run.options = domain.options;
  run.mix_of = [=](std::uint64_t number) {
    Mixes same(seed, kernel_tracking, MixKind::kDurable);
    return same.process(number);
  };
  run.workers = static_cast<std::uint32_t>(domain.processes);
  run.entries = 10'000;
  run.stalls = domain.stalls;
  run.kill_every_ms = domain.kills ? 60 : 0;
  run.massacres = domain.massacres ? 1 : 0;
  run.reopen_every = mixes.random(2) == 0 ? 100 : 0;
  run.archives = mixes.random(3) == 0;
  run.pace.die_one_in = domain.kills && mixes.random(2) == 0 ? 100 : 0;
  mix.campaign.cuts = 60;
  mix.campaign.judge.options = run.options;
  mix.campaign.judge.mix_of = run.mix_of;
  mix.campaign.judge.further.mixes = true;
  std::printf("TMH_SEED=%llu: %s%s%s%s\n", static_cast<unsigned long long>(seed),
              to_string(domain).c_str(), run.reopen_every != 0 ? " reopens" : "",
              run.archives ? " archives" : "",
              run.pace.die_one_in != 0 ? " deaths in operations" : "");
  return mix;
}

CampaignResult play(const PowerMix &mix, std::uint64_t mix_seed) {
  const Recording recording = record_run(mix.run, mix_seed);
  if (testing::Test::HasFailure()) return {};
  const auto start = std::chrono::steady_clock::now();
  const CampaignResult result = cut_everywhere(recording, mix.campaign, mix_seed);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("  %zu entries in the journal. ", recording.entries.size());
  print("Cuts", result, seconds.count());
  EXPECT_EQ(result.strays, "") << "files were written past platform::DiskFile";
  if (result.tally.findings != 0) std::printf("  found: %s\n", result.tally.first_finding.c_str());
  if (result.tally.findings != 0 && mix.run.planted == Planted::kNone)
    ADD_FAILURE() << result.tally.first_finding << "\n    TMH_POWER_JOURNAL=" << save(recording);
  return result;
}

TEST(PowerMixesTest, EveryImageRecoversToAPrefixWithAllThatWasAcknowledged) {
  if (const char *journal = std::getenv("TMH_POWER_JOURNAL"); journal != nullptr) {
    const PowerMix mix = power_mix(seed());
    const CampaignResult result =
        cut_once(load_recording(journal), mix.campaign, environment_number("TMH_POWER_CUT", 1),
                 environment_number("TMH_POWER_IMAGE", 1));
    EXPECT_EQ(result.tally.first_finding, "");
    return;
  }
  const std::uint64_t usual = environment_number("TMH_LONG", 0) != 0 ? 100 : 2;
  const std::uint64_t mixes = environment_number("TMH_POWER_MIXES", usual);
  for (std::uint64_t i = 0; i < mixes && !HasFailure(); ++i)
    static_cast<void>(play(power_mix(seed() + i), seed() + i));
}

// Mixes until the defect is found, of those in which it has an effect.
void expect_found(Planted planted, bool (*has_effect)(const DomainOptions &options)) {
  constexpr std::uint64_t kMixesMax = 60;
  std::uint64_t findings = 0;
  for (std::uint64_t i = 0; findings == 0 && i < kMixesMax && !testing::Test::HasFailure(); ++i) {
    PowerMix mix = power_mix(seed() + i);
    if (!has_effect(mix.run.options)) continue;
    mix.run.planted = planted;
    mix.run.mix_of = [all = mix.run.mix_of](std::uint64_t number) {
      ProcessMix process = all(number);
      process.options.checkpoint_interval_ms = 10;  // kPagesBeforeLog shows within checkpoints only
      return process;
    };
    mix.campaign.cuts = 240;
    mix.campaign.nested_one_in = 0;
    // Whoever repairs has the defect as well.
    mix.run.kill_every_ms = mix.run.massacres = mix.run.pace.die_one_in = 0;
    findings = play(mix, seed() + i).tally.findings;
  }
  EXPECT_GT(findings, 0U);
}

TEST(PowerMixesTest, AcknowledgementBeforeTheSyncIsFound) {
  expect_found(Planted::kAcknowledgeBeforeSync, [](const DomainOptions &) { return true; });
}

TEST(PowerMixesTest, PagesWrittenBeforeTheirRecordsAreFound) {
  expect_found(Planted::kPagesBeforeLog,
               [](const DomainOptions &options) { return options.levels == Levels::kHybrid; });
}

}  // namespace
}  // namespace tmh::test::power
