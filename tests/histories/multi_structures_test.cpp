// tests/histories/multi_structures_test.cpp -- bank, list, red-black tree, hash set and a mix of
// small and huge instances, under every level and every conflict policy, by threads and by
// processes.
// Invariants: those of tests/support/structure_play.h in every instance; the recorded histories are
//             strictly serializable with consistent views; at the end the structures hold what was
//             committed. Defects planted in the levels are found by the same workloads.
// Size:       TMH_STRUCTURE_STEPS transactions per worker (default 80). Cross-level policies take
//             turns in the hybrid runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <tuple>

#include <tmh/lab.hpp>

#include "observe/planted.h"
#include "tests/histories/checker.h"
#include "tests/support/children.h"
#include "tests/support/leaks.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"
#include "tests/support/structure_play.h"

namespace tmh::test {
namespace {

using observe::Planted;

struct LevelChoice {
  const char *name;
  Levels levels;
  Detection detection;
  bool only_lines;
};
constexpr LevelChoice kLevels[] = {{"Lines", Levels::kHybrid, Detection::kLazy, true},
                                   {"Pages", Levels::kPage, Detection::kLazy, false},
                                   {"PagesEager", Levels::kPage, Detection::kEager, false},
                                   {"Hybrid", Levels::kHybrid, Detection::kLazy, false}};
constexpr const char *kPolicies[] = {"self-abort", "oldest-wins", "selfish-abort", "youngest-wins"};
constexpr CrossPolicy kCrosses[] = {CrossPolicy::kRecallAndWait, CrossPolicy::kAbortUpper,
                                    lab::kWaitForUpper, CrossPolicy::kAbortLower,
                                    lab::kUpperYields};
constexpr std::uint32_t kWorkers = 3;

struct RunState {
  StructureTotals totals;
  Turn turn;
  std::atomic<std::uint32_t> ready;
  std::atomic<std::uint64_t> attempts, conflicts, line_commits, page_commits, escalations;
};

struct Run {
  const LevelChoice &level;
  Structure structure;
  std::size_t policy;
  bool threads;
  Planted planted = Planted::kNone;
  std::uint64_t steps = 0;
};

// The domain and its segment as one process has them.
struct Place {
  Place(const std::string &folder, const DomainOptions &options)
      : board(folder, options),
        segment(board.domain().map("structures.raw", raw_segment(StructurePlay::kSegmentBytes))) {}
  Board board;
  Segment segment;
};

class StructureRun {
 public:
  explicit StructureRun(const Run &run)
      : run_(run), first_seed_(seed()), recorder_(kWorkers + 2, 6'000 * run.steps + 40'000) {
    options_.levels = run.level.levels;
    options_.policies.detection = run.level.detection;
    // A lazy domain of pages takes the default alone.
    if (run.level.levels == Levels::kHybrid || run.level.detection == Detection::kEager)
      options_.policies.conflict = kPolicies[run.policy];
    if (run.level.levels == Levels::kHybrid) {
      options_.policies.cross =
          kCrosses[(run.policy + static_cast<std::size_t>(run.structure)) % std::size(kCrosses)];
      if (!run.level.only_lines)
        options_.policies.capacity =
            "2KiB/8/64";  // which the larger ones exceed: they escalate, or stay
      options_.policies.escalation = run.policy % 2 == 0 ? "adaptive-pages" : "adaptive";
    }
  }

  void go() {
    expect_child("set-up", [&] {
      Place place(folder_.path(), options_);
      with_player(place, kWorkers, [](StructurePlay &play) { play.set_up(); });
      place.board.close();
    });
    Children children;
    if (run_.threads) {
      children.spawn("threads", [this] { work_in_threads(); });
    } else {
      for (std::uint32_t i = 0; i < kWorkers; ++i)
        children.spawn("worker " + std::to_string(i), [this, i] { work_as_process(i); });
    }
    children.expect_success();
    audit();
    verdict_ = history::check(recorder_.read());
  }

  [[nodiscard]] bool is_right() const { return verdict_.ok() && state_->totals.broken.load() == 0; }
  [[nodiscard]] std::string found() const {
    std::string text;
    if (const char *what = state_->totals.what.load(); what != nullptr)
      text = fmt::format("{} broken in {} instances; ", what, state_->totals.broken.load());
    return text + (verdict_.ok() ? "history right"
                                 : history::to_string(verdict_.violations.front().fault));
  }
  [[nodiscard]] std::string row() const {
    return fmt::format("{:10} {:6} {:14} {:9} {:9} {:8} {:7} {:7} {:7} {:6}  {}\n", run_.level.name,
                       kStructureNames[static_cast<std::size_t>(run_.structure)],
                       kPolicies[run_.policy], run_.threads ? "threads" : "processes",
                       verdict_.committed, verdict_.aborted, verdict_.reads,
                       state_->line_commits.load(), state_->page_commits.load(),
                       state_->escalations.load(), found());
  }
  [[nodiscard]] const history::Verdict &verdict() const noexcept { return verdict_; }
  [[nodiscard]] const RunState &state() const noexcept { return *state_; }

 private:
  template <class Body>
  void with_player(Place &place, std::uint32_t worker, const Body &body) {
    Player player(place.board, recorder_.open_lane(), &state_->attempts);
    if (run_.level.only_lines) player.play_at(PlaysAt::kOnlyLines);
    StructurePlay play(run_.structure, player, place.segment, &state_->totals, worker,
                       first_seed_ + worker);
    body(play);
    state_->conflicts.fetch_add(player.conflicts());
  }
  void work(Place &place, std::uint32_t worker) {
    with_player(place, worker, [this](StructurePlay &play) {
      if (state_->ready.fetch_add(1) + 1 == kWorkers) state_->turn.reach(1);
      state_->turn.await(1);
      for (std::uint64_t step = 0; step < run_.steps; ++step) play.step();
    });
  }
  void work_as_process(std::uint32_t worker) {
    Place place(folder_.path(), options_);
    observe::plant(run_.planted);
    work(place, worker);
    report(place);
    place.board.close();
  }
  void work_in_threads() {
    Place place(folder_.path(), options_);
    observe::plant(run_.planted);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < kWorkers; ++i) {
      threads.emplace_back([&, i] {
        try {
          work(place, i);
        } catch (const std::exception &error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    report(place);
    place.board.close();
  }
  void report(const Place &place) {
    for (const Site *site :
         {&place.board.line_site(), &place.board.adaptive_site(), &place.board.only_lines_site()}) {
      const SiteReport report = site->report();
      state_->line_commits.fetch_add(report.line_commits);
      state_->page_commits.fetch_add(report.page_commits);
      state_->escalations.fetch_add(report.escalations_capacity + report.escalations_needs_pages +
                                    report.escalations_attempts);
    }
  }
  void audit() {
    expect_child("auditor", [&] {
      Place place(folder_.path(), options_);
      with_player(place, kWorkers, [](StructurePlay &play) { play.audit(); });
      EXPECT_EQ(place.board.domain().collect(), 0U);
      EXPECT_EQ(place.board.domain().participants().size(), 1U);
      expect_no_leaked_slots(folder_.path());
      place.board.close();
    });
  }

  const Run run_;
  const std::uint64_t first_seed_;
  MemoryFolder folder_;
  DomainOptions options_;
  Recorder recorder_;
  Shared<RunState> state_;
  history::Verdict verdict_;
};

class MultiStructuresTest : public testing::TestWithParam<std::tuple<std::size_t, std::size_t>> {};

TEST_P(MultiStructuresTest, EveryPolicyInThreadsAndProcesses) {
  const LevelChoice &level = kLevels[std::get<0>(GetParam())];
  const auto structure = static_cast<Structure>(std::get<1>(GetParam()));
  fmt::print("{:10} {:6} {:14} {:9} {:>9} {:>8} {:>7} {:>7} {:>7} {:>6}\n", "level", "", "policy",
             "", "committed", "aborted", "reads", "lines", "pages", "escal.");
  std::uint64_t aborted = 0, escalations = 0;
  for (std::size_t policy = 0; policy < std::size(kPolicies); ++policy) {
    for (const bool threads : {false, true}) {
      StructureRun run({level, structure, policy, threads, Planted::kNone,
                        environment_number("TMH_STRUCTURE_STEPS", 80)});
      run.go();
      fmt::print("{}", run.row());
      EXPECT_TRUE(run.is_right()) << run.verdict().report();
      aborted += run.verdict().aborted;
      escalations += run.state().escalations.load();
    }
  }
  EXPECT_GT(aborted, 0U) << "the instances never met: this says nothing about policies";
  if (level.levels == Levels::kHybrid && !level.only_lines && structure == Structure::kMixed) {
    EXPECT_GT(escalations, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, MultiStructuresTest,
    testing::Combine(testing::Range(std::size_t{0}, std::size(kLevels)),
                     testing::Range(std::size_t{0}, std::size(kStructureNames))),
    [](const testing::TestParamInfo<std::tuple<std::size_t, std::size_t>> &each) {
      return std::string(kLevels[std::get<0>(each.param)].name) + "_" +
             kStructureNames[std::get<1>(each.param)];
    });

// Structures without pointers: a damaged list may have no end.
class StructuresPlantedTest : public testing::TestWithParam<std::tuple<std::size_t, Planted>> {};

TEST_P(StructuresPlantedTest, IsFound) {
  const LevelChoice &level = kLevels[std::get<0>(GetParam())];
  for (int repeat = 0; repeat < 20; ++repeat) {
    StructureRun run({level, Structure::kMixed,
                      static_cast<std::size_t>(repeat) % std::size(kPolicies), repeat % 2 != 0,
                      std::get<1>(GetParam()), 200});
    run.go();
    if (run.is_right()) continue;
    fmt::print("found in run {}: {}\n", repeat + 1, run.found());
    return;
  }
  FAIL() << "the workloads do not find it";
}

INSTANTIATE_TEST_SUITE_P(Every, StructuresPlantedTest,
                         testing::Values(std::tuple{std::size_t{0}, Planted::kLineNoValidation},
                                         std::tuple{std::size_t{0}, Planted::kLineNoExtensionCheck},
                                         std::tuple{std::size_t{1}, Planted::kPageNoValidation},
                                         std::tuple{std::size_t{3}, Planted::kReleaseBlind}),
                         [](const testing::TestParamInfo<std::tuple<std::size_t, Planted>> &each) {
                           switch (std::get<1>(each.param)) {
                             case Planted::kLineNoValidation:
                               return "LinesNoValidation";
                             case Planted::kLineNoExtensionCheck:
                               return "LinesNoExtensionCheck";
                             case Planted::kPageNoValidation:
                               return "PagesNoValidation";
                             default:
                               return "HybridReleaseDoesNotLookAtPins";
                           }
                         });

}  // namespace
}  // namespace tmh::test
