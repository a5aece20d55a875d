// tests/death/kill_line_test.cpp -- level 1 between processes: histories, and deaths at each of its
// steps.
// Invariants: (1) the recorded history is strictly serializable with consistent views, and what a
//             dead process committed is there whole or not at all. (2) the others go on within a
//             second of the death. (3) no context of the dead is left. (4) planted defects are
//             found by the same checks.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <time.h>

#include "observe/planted.h"
#include "observe/steps.h"
#include "tests/histories/checker.h"
#include "tests/support/children.h"
#include "tests/support/line_play.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"
#include "tests/support/watched_workers.h"

namespace tmh::test {
namespace {

using observe::Planted;
using observe::Step;

constexpr std::uint32_t kSurvivors = 2, kVictim = 2, kCorpse = 3, kAuditor = 4;
constexpr std::uint64_t kEntriesPerLane = 4'000'000;  // address space only

class LineScene {
 public:
  explicit LineScene(Planted planted = Planted::kNone)
      : recorder_(8, kEntriesPerLane), planted_(planted) {
    static_cast<void>(seed());  // chosen and printed here, inherited by the children
  }

  void start_survivors() {
    for (std::uint32_t i = 0; i < kSurvivors; ++i) {
      survivors_.spawn("survivor " + std::to_string(i), [this, i] {
        LineRig rig(folder_.path(), 1u << 20, &*shared_, i);
        plant_here();
        LinePlayer player(rig, recorder_.open_lane(), seed() + i, true);
        while (!state_->stop.load() && player.has_room()) {
          player.step();
          state_->finished[i].fetch_add(1);
        }
        state_->attempts.fetch_add(player.aborts());
      });
    }
  }

  // Plays until it dies at the step's count-th passage; false: it never passed.
  bool sacrifice(std::uint32_t slot, Step step, std::uint32_t count) {
    const ChildEnd end = run_in_child("victim", [&] {
      LineRig rig(folder_.path(), 1u << 20, &*shared_, slot);
      plant_here();
      LinePlayer player(rig, recorder_.open_lane(), seed() + 100 + slot, slot != kVictim);
      observe::crash_at(static_cast<std::uint32_t>(step), count);
      for (int i = 0; i < 3000 && player.has_room(); ++i) player.step();
    });
    EXPECT_TRUE(end.signal == SIGKILL || end.succeeded());
    return end.signal == SIGKILL;
  }

  void run_survivors_for(std::uint64_t steps) {
    EXPECT_TRUE(poll_until([&] {
      for (std::uint32_t i = 0; i < kSurvivors; ++i) {
        if (state_->finished[i].load() < steps) return false;
      }
      return true;
    }));
  }

  void expect_going_on(const std::string &after_what) {
    static_cast<void>(test::expect_going_on(*state_, &survivors_, {0, 1}, after_what));
  }

  history::Verdict end() {
    state_->stop.store(true);
    survivors_.expect_success();
    aborts_ = state_->attempts.load();
    expect_child("auditor", [&] {
      LineRig rig(folder_.path(), 1u << 20, &*shared_, kAuditor);
      LinePlayer player(rig, recorder_.open_lane(), seed(), false);
      player.audit();
      for (std::uint64_t i = 0; i < kLineCells; ++i)
        EXPECT_FALSE(line::is_locked(rig.word_of(rig.words() + 3 * i).load())) << "cell " << i;
      // Nobody met a dead process that had no line locked: the reaping of its participant comes by.
      for (const std::uint32_t slot : {kVictim, kCorpse})
        rig.releaser().suspect(slot, LineRig::kIncarnation);
      for (std::uint32_t i = 0; i < rig.memory().contexts_high(); ++i) {
        const line::LineContextV1 &context = rig.memory().context(i);
        EXPECT_EQ(line::state_of(context.status.load()), line::State::kIdle) << "context " << i;
        EXPECT_TRUE(context.owner.load() == line::Owner{} || i == player.thread().context_number())
            << "context " << i;
      }
    });
    return history::check(recorder_.read());
  }

  [[nodiscard]] std::uint64_t aborts() const { return aborts_; }

 private:
  void plant_here() const {
    observe::plant(planted_);
    if (planted_ == Planted::kNone) return;
    // Windows wide enough to be met. A sleeper has its processor back soon beside busy programs;
    // one that yields waits for the ends of their time slices.
    (void)prctl(PR_SET_TIMERSLACK, 1);
    observe::set_step_hook([](Step) {
      const timespec shortest{0, 1};
      (void)nanosleep(&shortest, nullptr);
    });
  }

  MemoryFolder folder_;
  Shared<RigShared> shared_;
  Shared<WatchedWorkers> state_;
  Recorder recorder_;
  Planted planted_;
  std::uint64_t aborts_ = 0;
  Children survivors_;
};

TEST(LineHistory, OfProcessesIsStrictlySerializable) {
  LineScene scene;
  scene.start_survivors();
  scene.run_survivors_for(environment_number("TMH_HISTORY_STEPS", 2000));
  const history::Verdict verdict = scene.end();
  EXPECT_TRUE(verdict.ok()) << verdict.report();
  std::printf("%s%llu attempts aborted\n", verdict.report().c_str(),
              static_cast<unsigned long long>(scene.aborts()));
  EXPECT_GT(scene.aborts(), 0U) << "the processes never met";
}

class LineKillTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(LineKillTest, OthersGoOnAndNothingIsHalfDone) {
  const auto step = static_cast<Step>(GetParam());
  for (std::uint32_t count = 1; count <= 40; count += 13) {
    SCOPED_TRACE("passage " + std::to_string(count));
    LineScene scene;
    if (step == Step::kLineRecovered) {
      // Nobody else runs until somebody has died over the corpse.
      ASSERT_TRUE(scene.sacrifice(kCorpse, Step::kLineWriteBack, count));
      ASSERT_TRUE(scene.sacrifice(kVictim, step, 1));
      scene.start_survivors();
    } else {
      scene.start_survivors();
      ASSERT_TRUE(scene.sacrifice(kVictim, step, count)) << "the step was never passed";
    }
    scene.expect_going_on(observe::step_name(step));
    scene.run_survivors_for(100);
    const history::Verdict verdict = scene.end();
    EXPECT_TRUE(verdict.ok()) << verdict.report();
    EXPECT_GE(verdict.unknown, 1U);
  }
}

std::string step_test_name(const testing::TestParamInfo<std::uint32_t> &step) {
  std::string name = observe::step_name(static_cast<Step>(step.param));
  for (char &c : name) c = c == '-' ? '_' : c;
  return name;
}

// Those of the redo record are passed in durable domains only: kill_steps_test.
std::vector<std::uint32_t> volatile_steps() {
  std::vector<std::uint32_t> steps;
  for (auto step = static_cast<std::uint32_t>(Step::kLineLock);
       step <= static_cast<std::uint32_t>(Step::kLineRecovered); ++step) {
    if (step != static_cast<std::uint32_t>(Step::kLineRedo) &&
        step != static_cast<std::uint32_t>(Step::kLineRedoShown))
      steps.push_back(step);
  }
  return steps;
}

INSTANTIATE_TEST_SUITE_P(EveryStep, LineKillTest, testing::ValuesIn(volatile_steps()),
                         step_test_name);

class LinePlantedTest : public testing::TestWithParam<Planted> {};

TEST_P(LinePlantedTest, IsFound) {
  // Most runs find it, but every second one of those with a corpse does not: that had written one
  // line, or others had not looked at both.
  const auto deadline = std::chrono::steady_clock::now() + hang_deadline();
  for (int repeat = 0; std::chrono::steady_clock::now() < deadline; ++repeat) {
    LineScene scene(GetParam());
    if (GetParam() == Planted::kLineHalfRecovery) {
      // Past its commit point; of most instances that write, several lines follow.
      ASSERT_TRUE(scene.sacrifice(kCorpse, Step::kLineCommitPoint,
                                  10 + static_cast<std::uint32_t>(repeat % 30)));
    }
    scene.start_survivors();
    scene.run_survivors_for(2000);
    const history::Verdict verdict = scene.end();
    if (!verdict.ok()) {
      std::printf("found after %d runs: %s\n", repeat + 1,
                  history::to_string(verdict.violations.front().fault));
      return;
    }
  }
  FAIL() << "the checks cannot fail";
}

INSTANTIATE_TEST_SUITE_P(EveryDefect, LinePlantedTest,
                         testing::Values(Planted::kLineNoValidation, Planted::kLineNoExtensionCheck,
                                         Planted::kLineUnlockFirst, Planted::kLineHalfRecovery),
                         [](const testing::TestParamInfo<Planted> &defect) {
                           switch (defect.param) {
                             case Planted::kLineNoValidation:
                               return "NoValidation";
                             case Planted::kLineNoExtensionCheck:
                               return "NoExtensionCheck";
                             case Planted::kLineUnlockFirst:
                               return "UnlockBeforeWriteBack";
                             default:
                               return "HalfRecovery";
                           }
                         });

}  // namespace
}  // namespace tmh::test
