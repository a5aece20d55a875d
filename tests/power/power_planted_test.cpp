// tests/power/power_planted_test.cpp -- the judge of the power-cut tests can fail: defects planted
// in the engine are found.
// Shape:     each defect of observe::Planted gets the run, and the images, in which it has an
//            effect.
// Invariant: the same images without the defect are right.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "observe/planted.h"
#include "platform/disk.h"
#include "tests/power/campaign.h"
#include "tests/power/run.h"
#include "tests/power/simulated_disk.h"
#include "tests/power/world.h"
#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test::power {
namespace {

using observe::Planted;
using platform::DiskOp;

constexpr std::uint64_t kCutsMax = 3000;  // of 500, between 1 and 380 find it
// The writer of the log decides by the time how much it writes at once. A run on a busy machine may
// have few writes that a cut can tear.
constexpr std::uint64_t kRunsMax = 4;

// Runs, and cuts of each, until something is found.
CampaignResult hunt(const RunPlan &run, Planted planted_in_recovery) {
  CampaignResult result;
  for (std::uint64_t i = 0; i < kRunsMax && result.tally.findings == 0; ++i) {
    const Recording recording = record_run(run, seed() + i);
    CampaignPlan plan;
    plan.cuts = kCutsMax;
    plan.judge.options = run.options;
    plan.judge.planted = planted_in_recovery;
    plan.nested_one_in = 0;
    result = cut_everywhere(recording, plan, seed() + i);
    print("Hunt", result, 0);
  }
  std::printf("  found: %s\n", result.tally.first_finding.c_str());
  return result;
}

RunPlan undisturbed() {
  RunPlan run;
  run.options = power_options();
  run.entries = 12'000;
  run.kill_every_ms = 0;  // the survivors' repair is not what this is about
  run.massacres = 0;
  return run;
}

TEST(PowerPlantedTest, AcknowledgementBeforeTheSyncIsFound) {
  RunPlan run = undisturbed();
  run.planted = Planted::kAcknowledgeBeforeSync;
  EXPECT_GT(hunt(run, Planted::kNone).tally.findings, 0u);
}

TEST(PowerPlantedTest, VersionsThatGoHomeBeforeTheirRecordAreFound) {
  RunPlan run = undisturbed();
  run.planted = Planted::kApplyBeforeLog;
  EXPECT_GT(hunt(run, Planted::kNone).tally.findings, 0u);
}

TEST(PowerPlantedTest, AcknowledgementBeforeTheSyncOfEitherLevelIsFound) {
  RunPlan run = undisturbed();
  run.options.levels = Levels::kHybrid;
  run.planted = Planted::kAcknowledgeBeforeSync;
  EXPECT_GT(hunt(run, Planted::kNone).tally.findings, 0u);
}

TEST(PowerPlantedTest, PagesWrittenBeforeTheirRecordsAreFound) {
  RunPlan run = undisturbed();
  run.options.levels = Levels::kHybrid;
  // The defect shows until a checkpoint's next write of the log has ended, no longer.
  run.options.checkpoint_interval_ms = 10;
  run.planted = Planted::kPagesBeforeLog;
  EXPECT_GT(hunt(run, Planted::kNone).tally.findings, 0u);
}

TEST(PowerPlantedTest, RecordsTakenWithoutChecksumAreFound) {
  EXPECT_GT(hunt(undisturbed(), Planted::kNoChecksum).tally.findings, 0u);
}

// Records of an earlier generation must lie exactly where the log of a later one ends. Records here
// are 128 bytes long, but for the first one behind the 80 bytes that open a generation: with it the
// next multiple of 128 is reached. So records end where blocks end, in every generation; and a
// generation begins at a block.
class StaleRecordsTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kFirstWords = 3;          // 80 + 152 + 8 * 3 = 2 * 128
  static constexpr std::uint64_t kRecordsToBlockEnd = 31;  // the first one, and 30 of 128 bytes
  static constexpr std::uint64_t kBufferedCommits = 400;   // one write of a dozen blocks

  void record_life() {
    const DomainOptions options = quiet();
    expect_child("set-up", [&] {
      World world(folder_.path(), options, true);
      world.close();
    });
    disk_.load();
    expect_child("life", [&] {
      record_into(&journal_);
      World world(folder_.path(), options, true);
      WorkerPlan plan;
      plan.only_ledger = true;
      plan.first_words = kFirstWords;
      Worker worker(&world, &journal_, plan);
      for (std::uint64_t i = 0; i < kBufferedCommits; ++i) EXPECT_TRUE(worker.update(false));
      world.domain().flush();
      _exit(testing::Test::HasFailure() ? 1 : 0);
    });
  }
  // Nothing is written but what this test asks for.
  [[nodiscard]] static DomainOptions quiet() {
    DomainOptions options = power_options();
    options.flush_interval_ms = 100'000;
    options.checkpoint_interval_ms = 100'000;
    options.checkpoint_bytes = 1u << 30;
    return options;
  }
  // Power goes in the middle of the large write; and again when the next generation has filled its
  // first block.
  std::uint64_t findings(Planted planted) {
    JudgePlan plan;
    plan.options = quiet();
    plan.planted = planted;
    plan.depth = 1;
    plan.cuts_within = 2;
    plan.further.only_ledger = true;
    plan.further.first_words = kFirstWords;
    plan.further_commits = kRecordsToBlockEnd;
    plan.all_strict = true;
    SimulatedDisk disk = disk_;
    Promises promises;
    std::vector<Entry> entries = journal_.read();
    // Write of the log; opening the domain writes the control file, which is larger.
    std::size_t largest = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].is_note() || entries[i].op() != DiskOp::kWriteDurable) continue;
      if (entries[i].path.find("tmh.log.") == std::string_view::npos) continue;
      if (largest == 0 || entries[largest].data.size() <= entries[i].data.size()) largest = i;
    }
    for (std::size_t i = 0; i <= largest; ++i) {
      disk.apply(entries[i]);
      promises.apply(entries[i]);
    }
    Tally tally;
    for (std::uint64_t image = 0; image < 60; ++image) {
      const MemoryFolder to;
      disk.build_image(to.path(), seed() + image);
      // Odd: the judge closes the domain unless its seed is a multiple of 3.
      judge(to.path(), WorldTrial(promises), plan, 3 * (seed() + image), &tally);
    }
    std::printf("%zu bytes in the write that is cut; %llu findings in %llu images: %s\n",
                entries[largest].data.size(), static_cast<unsigned long long>(tally.findings),
                static_cast<unsigned long long>(tally.images), tally.first_finding.c_str());
    return tally.findings;
  }

  MemoryFolder folder_;
  Journal journal_{1u << 16, 1u << 28};
  SimulatedDisk disk_{folder_.path()};
};

TEST_F(StaleRecordsTest, RecordsOfAnEarlierGenerationAreFoundWhenTaken) {
  record_life();
  EXPECT_EQ(findings(Planted::kNone), 0u);
  EXPECT_GT(findings(Planted::kNoGeneration), 0u);
}

}  // namespace
}  // namespace tmh::test::power
