// tests/db/power_db_test.cpp -- the power is cut at random moments of a run of transactions on
// files of dbopen() in several processes, which open and close them, and of the recoveries after
// it.
// Invariants: (1) a transaction's changes are there in all files, or in none, in the order of
//             commits; those that were told that they are durable are there, those that were
//             rolled back are not. (2) Of the calls on a file without transactions each worker's
//             first ones are there. (3) Files are whole, and what a program alone can open has what
//             the environment has. (4) All of it when the recovery, or the life after it, is cut
//             again.
// Planted:    an undo that is left out; a file's head before its pages.
// Size:       TMH_POWER_CUTS cuts (default 60; 2,000 with TMH_LONG), shared by the scenarios.
//             TMH_SEED repeats the choices.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "observe/planted.h"
#include "tests/db/group_worker.h"
#include "tests/db/private_look.h"
#include "tests/power/campaign.h"
#include "tests/power/run.h"
#include "tests/power/world.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

using groups::File;
using groups::Files;
using groups::GroupWorker;
using groups::Ledger;
using groups::PrivateLook;
using groups::State;
using observe::Planted;
using power::Entry;
using power::Journal;

constexpr std::uint32_t kFirstJudge = 480;  // worker numbers of judges, one for each depth

class DbTrial final : public power::Trial {
 public:
  explicit DbTrial(int durability) : durability_(durability) {}
  [[nodiscard]] std::unique_ptr<Trial> clone() const override {
    return std::make_unique<DbTrial>(*this);
  }
  void apply(const Entry &entry) override { groups::apply(entry, &ledger_); }
  [[nodiscard]] std::string examine(Files *files, State *state, Journal *journal) const {
    return groups::examine(files, ledger_, state, journal);
  }

  [[nodiscard]] std::string live(const std::string &folder, const power::JudgePlan &plan,
                                 std::uint64_t seed, Journal *journal,
                                 power::Report *) const override {
    PrivateLook alone(folder);
    if (!alone.wrong().empty()) return alone.wrong();
    // Not closed: some leave a transaction. Where the power went before there was an environment,
    // this one makes it, and may lose power, too.
    auto *const files = new Files(folder, durability_);
    State state;
    if (const std::string why = examine(files, &state, journal); !why.empty())
      return "after recovery: " + why;
    if (const std::string why = alone.compare(state); !why.empty()) return "after recovery: " + why;
    GroupWorker worker(files, journal, worker_plan(kFirstJudge + plan.depth, seed, durability_));
    for (std::uint64_t i = 0; i < plan.further_commits; ++i) worker.transact();
    DbTrial later = *this;
    for (const Entry &entry : journal->read()) later.apply(entry);
    if (const std::string why = later.examine(files, &state, nullptr); !why.empty())
      return "after further transactions: " + why;
    if (seed % 2 != 0) {
      worker.leave_one();
      return "";
    }
    files->close();
    PrivateLook closed(folder);
    if (!closed.wrong().empty()) return "after the close: " + closed.wrong();
    for (const File file :
         {File::kTree, File::kDuplicates, File::kTable, File::kNumbers, File::kShared})
      if (!closed.has(file)) return Files::failed("after the close: ", file);
    const std::string why = closed.compare(state);
    return why.empty() ? why : "after the close: " + why;
  }

  [[nodiscard]] static GroupWorker::Plan worker_plan(std::uint32_t number, std::uint64_t seed,
                                                     int durability) {
    GroupWorker::Plan plan;
    plan.number = number;
    plan.seed = seed;
    plan.commits_are_durable = durability == 1;
    return plan;
  }

 private:
  int durability_;
  Ledger ledger_;
};

// One of four workers takes checkpoints instead, in a domain of small log files.
power::RunPlan db_plan(int durability, std::uint32_t closes_one_in = 6) {
  power::RunPlan plan;
  plan.options = power::power_options();
  plan.options.durability = durability == 1 ? Durability::kStrict : Durability::kBuffered;
  plan.options.levels = Levels::kHybrid;
  plan.work = [options = plan.options, durability, closes_one_in](const power::Job &job,
                                                                  const std::atomic<bool> &stop) {
    if (job.worker.worker % 4 == 1) {
      const Domain domain = Domain::open(job.folder, options);
      // Not for ever: the others may have died for good.
      for (int i = 0; i < 2000 && !stop.load() && job.journal->has_room(); ++i) domain.checkpoint();
      return;
    }
    Files files(job.folder, durability);
    GroupWorker::Plan mine = DbTrial::worker_plan(job.worker.worker, job.worker.seed, durability);
    mine.closes_one_in = closes_one_in;
    GroupWorker worker(&files, job.journal, mine);
    while (!stop.load() && job.journal->has_room()) worker.transact();
  };
  plan.audit = [durability](const power::Job &job) {
    DbTrial trial(durability);
    for (const Entry &entry : job.journal->read()) trial.apply(entry);
    Files files(job.folder, -1);
    State state;
    EXPECT_EQ(trial.examine(&files, &state, job.journal), "");
  };
  return plan;
}

struct Scenario {
  const char *name;
  int durability;
  std::uint64_t entries;  // of a run
  std::uint32_t die_one_in;
};
constexpr Scenario kScenarios[] = {{"Strict", 1, 12'000, 0},
                                   {"Buffered", 2, 12'000, 0},
                                   {"Beginnings", 2, 1'200, 0},
                                   {"DeathsInOperations", 1, 8'000, 100}};
void PrintTo(const Scenario &scenario, std::ostream *out) { *out << scenario.name; }

power::CampaignResult cut(const power::RunPlan &run, int durability, power::CampaignPlan plan,
                          std::uint64_t seed) {
  const auto begin = std::chrono::steady_clock::now();
  const power::Recording recording = power::record_run(run, seed);
  if (testing::Test::HasFailure()) return {};
  const auto start = std::chrono::steady_clock::now();
  const power::CampaignResult result =
      power::cut_everywhere(recording, DbTrial(durability), plan, seed);
  const std::chrono::duration<double> recorded = start - begin;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("TMH_SEED=%llu, %zu entries in the journal in %.1f s. ",
              static_cast<unsigned long long>(seed), recording.entries.size(), recorded.count());
  print("Cuts", result, seconds.count());
  EXPECT_EQ(result.strays, "") << "files were written past the hook";
  return result;
}

class PowerDbTest : public testing::TestWithParam<Scenario> {};

TEST_P(PowerDbTest, EveryImageHasItsTransactionsWholeOrNotAtAll) {
  power::RunPlan run = db_plan(GetParam().durability);
  run.pace.die_one_in = GetParam().die_one_in;
  run.entries = GetParam().entries;
  const std::uint64_t usual = environment_number("TMH_LONG", 0) != 0 ? 2000 : 60;
  std::uint64_t left = environment_number("TMH_POWER_CUTS", usual) / std::size(kScenarios) + 1;
  for (std::uint64_t i = 0; left > 0 && !HasFailure(); ++i) {
    power::CampaignPlan plan;
    plan.cuts = std::min<std::uint64_t>(left, 125);
    plan.nested_one_in = 3;
    plan.depth = 1;
    left -= plan.cuts;
    EXPECT_EQ(cut(run, GetParam().durability, plan, seed() + i).tally.first_finding, "");
  }
}

std::string scenario_name(const testing::TestParamInfo<Scenario> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Scenarios, PowerDbTest, testing::ValuesIn(kScenarios), scenario_name);

#ifdef TMH_PLANTED_FAULTS
TEST(PlantedPowerDbTest, AnUndoThatIsLeftOutIsFound) {
  power::RunPlan run = db_plan(1);
  run.entries = 10'000;
  run.kill_every_ms = run.massacres = 0;
  power::CampaignPlan plan;
  plan.cuts = 200;
  plan.nested_one_in = 0;
  plan.judge.planted = Planted::kUndoLeftOut;
  EXPECT_GT(cut(run, 1, plan, seed()).tally.findings, 0U);
}

TEST(PlantedPowerDbTest, AHeadBeforeItsPagesIsFound) {
  power::RunPlan run = db_plan(1, 1);
  run.entries = 2'000;
  run.kill_every_ms = run.massacres = 0;
  run.planted = Planted::kHeadTooSoon;
  power::CampaignPlan plan;
  plan.cuts = 400;
  plan.nested_one_in = 0;
  // Until it is found: few cuts lie between a head and the sync behind it.
  std::uint64_t findings = 0;
  for (std::uint64_t i = 0; i < 8 && findings == 0 && !HasFailure(); ++i)
    findings = cut(run, 1, plan, seed() + i).tally.findings;
  EXPECT_GT(findings, 0U);
}
#endif

}  // namespace
}  // namespace tmh::test
