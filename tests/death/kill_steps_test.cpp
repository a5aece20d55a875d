// tests/death/kill_steps_test.cpp -- a process dies exactly at each numbered step of the engine, in
// every mode that passes it.
// Invariants: (1) two workers and a slow reader go on within a second of the death, (2) nothing of
//             the dead instance is visible or all of it (history checker), (3) no participant slot
//             and no version is leaked, (4) every step is passed in some mode: a step that no test
//             can reach is no step.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <tmh/transaction.hpp>

#include "observe/steps.h"
#include "storage/log/log_format.h"
#include "tests/support/children.h"
#include "tests/support/modes.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/watched_workers.h"

namespace tmh::test {
namespace {

using observe::Step;

// Each step of a workload is passed many times in as many transactions.
constexpr std::uint64_t kVictimSteps = 300;
constexpr std::uint64_t kEntriesPerLane = 4'000'000;  // address space only
constexpr std::size_t kSurvivors = 3;                 // the last one reads slowly

// Steps that need a corpse found by the victim: nobody else may run until the victim has died of
// it.
bool needs_corpse(Step step) {
  return step == Step::kReapStart || step == Step::kReapCounted || step == Step::kReapDone ||
         step == Step::kRepairStart || step == Step::kRepairDone || step == Step::kLineRecovered ||
         step == Step::kMoveRepaired;
}

// Where the corpse died, so that finding it passes the step: with the domain lock in its hand and
// half of its versions linked, with its lines half written back, or with a page between the levels.
const char *corpse_died_at(Step step) {
  if (step == Step::kLineRecovered) return "line-commit-point:1";
  if (step == Step::kMoveRepaired) return "recall-mark:1";
  return "commit-first-linked:1";
}

// Steps that a process passes once.
bool happens_once(Step step) {
  return step == Step::kAttachSlotTaken || step == Step::kDetachStart || needs_corpse(step);
}

// Steps of the redo log and of checkpoints: only durable domains pass them. (Those of recovery:
// kill_recovery_test; of names of moments: kill_moments_test.)
bool is_durable_step(Step step) {
  return step >= Step::kLogStart && step <= Step::kCheckpointStored;
}

bool is_hardware_step(Step step) { return step >= Step::kHardwareOpen && step <= Step::kModeLines; }

// Around a before-image: only domains with a history pass them, without level 1.
bool is_past_step(Step step) { return step >= Step::kPastTaken && step <= Step::kPastRetired; }

// Does that mode pass the step at all?
bool is_passed_in(const Mode &mode, Step step) {
  // Refused: kLevelsMismatch.
  if (is_durable_step(step)) return mode.line != LineChoice::kRtm;
  // As in the volatile ones.
  if (step < Step::kLogStart && mode.durability != Durability{}) return false;
  if (is_past_step(step)) return mode.levels != Levels::kHybrid && mode.durability == Durability{};
  if (is_hardware_step(step)) return mode.line == LineChoice::kRtm;
  // With RTM pages go between level 2 and hardware lines: none is marked line by line, but at its
  // first touch.
  if (step >= Step::kLineLock)
    return mode.levels == Levels::kHybrid && mode.line != LineChoice::kRtm;
  return true;
}

class Scene {
 public:
  Scene(Step step, const Mode &mode, std::size_t repeat)
      : step_(step), options_(options_for(mode)), count_(1 + repeat) {
    if (happens_once(step)) count_ = 1;
    if (is_durable_step(step)) {
      if (options_.durability == Durability{}) options_.durability = Durability::kStrict;
      options_.log_file_bytes = storage::kLogFileBytesMin;
    }
    // So small that before-images go, too.
    if (is_past_step(step)) options_.history = {std::chrono::milliseconds(0), kHistoryBytesMin};
    recorder_.emplace(kSurvivors + 4U, kEntriesPerLane);
  }

  // True when the victim died at the step; everything else is expected here.
  bool play() {
    expect_child("set-up", [&] {
      Board board(folder_.path(), options_);
      Player player(board, recorder_->open_lane());
      Workload(player, seed()).set_up();
      board.close();
    });
    for (std::size_t i = 0; i < kSurvivors; ++i) start_survivor(i);
    if (!poll_until([&] { return state_->ready.load() == kSurvivors; }))
      ADD_FAILURE() << "the survivors never got ready";
    if (needs_corpse(step_)) {
      lay_out_corpse();
    } else {
      state_->gate.reach(1);
    }
    const bool died = sacrifice();
    if (needs_corpse(step_)) state_->gate.reach(1);
    if (died)
      longest_wait_ = expect_going_on(*state_, &survivors_, {0, 1, 2},
                                      std::string("a death at ") + observe::step_name(step_));
    state_->stop.store(true);
    survivors_.expect_success();
    audit_alone(folder_.path(), options_, &*recorder_);
    const history::Verdict verdict = history::check(recorder_->read());
    EXPECT_TRUE(verdict.ok()) << verdict.report();
    return died;
  }

  [[nodiscard]] std::chrono::milliseconds longest_wait() const noexcept { return longest_wait_; }

 private:
  void start_survivor(std::size_t index) {
    survivors_.spawn("survivor " + std::to_string(index), [this, index] {
      WorkerOptions worker;
      worker.index = index;
      worker.seed = seed() + index + 1;
      // Its open queries keep nearly all pages at level 2, where level 1 seldom gets to do
      // anything.
      worker.slow_reader =
          index + 1 == kSurvivors && (step_ < Step::kLineLock || is_past_step(step_));
      work(folder_.path(), options_, &*recorder_, &*state_, worker);
    });
  }

  void lay_out_corpse() {
    const ChildEnd end = run_in_child("corpse", [&] { run_victim(corpse_died_at(step_)); });
    EXPECT_EQ(end.signal, SIGKILL) << "the corpse survived";
  }

  void run_victim(const std::string &crash_at) {
    setenv("TMH_CRASH_AT", crash_at.c_str(), 1);
    Board board(folder_.path(), options_);
    Player player(board, recorder_->open_lane(), &state_->attempts);
    if (step_ >= Step::kLineLock && step_ <= Step::kLineCounted)
      player.play_at(PlaysAt::kFirstLines);
    Workload workload(player, seed() + 100);
    for (std::uint64_t i = 0; i < kVictimSteps; ++i) {
      workload.step();
      if (i % 8 == 0) static_cast<void>(board.domain().collect());
      if (!is_durable_step(step_)) continue;
      fill_log(board.domain(), i);
      if (i % 8 == 0) board.domain().checkpoint();
    }
    board.close();
  }

  // A quarter of a log file, so that new ones are needed. Beside the board: no history knows it.
  static void fill_log(const Domain &domain, std::uint64_t value) {
    constexpr std::size_t kBytes = storage::kLogFileBytesMin / 4;
    SegmentOptions raw;
    raw.size_bytes = kBytes;
    raw.layout = Layout::kRaw;
    static const Segment bulk = domain.map("bulk.db", raw);
    atomically(domain, [&] {
      auto *words = reinterpret_cast<std::uint64_t *>(bulk.data());
      for (std::size_t at = 0; at < kBytes / 8; ++at) words[at] = value * kBytes + at + 1;
    });
  }

  bool sacrifice() {
    Children victim;
    const std::string crash_at =
        std::string(observe::step_name(step_)) + ":" + std::to_string(count_);
    const std::size_t child = victim.spawn("victim", [&] { run_victim(crash_at); });
    const pid_t pid = victim.pid(child);
    const ChildEnd end = victim.wait(child);
    state_->dead_pid.store(pid);
    if (end.hung) return false;
    if (end.signal == SIGKILL) return true;
    EXPECT_TRUE(end.succeeded()) << "the victim did not die, but failed: exit code "
                                 << end.exit_code << ", signal " << end.signal;
    return false;
  }

  Step step_;
  DomainOptions options_;
  std::size_t count_;
  MemoryFolder folder_;  // SIGKILL takes nothing from the page cache: no disk is needed
  std::optional<Recorder> recorder_;
  Shared<WatchedWorkers> state_;
  Children survivors_;
  std::chrono::milliseconds longest_wait_{0};
};

class KillStepsTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(KillStepsTest, OthersGoOnAndNothingIsHalfDone) {
  const auto step = static_cast<Step>(GetParam());
  static_cast<void>(seed());  // chosen and printed here, inherited by the children
  std::string passed_in, unavailable;
  std::vector<Mode> modes(std::begin(kModes), std::end(kModes));
  // The durable ones also pass every step between the levels.
  modes.insert(modes.end(), std::begin(kDurableHybridModes), std::end(kDurableHybridModes));
  modes.push_back(kSnapshotModes[0]);
  bool played = false;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (!is_passed_in(modes[i], step)) continue;
    if (const std::string why = why_unavailable(modes[i]); !why.empty()) {
      unavailable += std::string(" ") + modes[i].name + " (" + why + ")";
      continue;
    }
    played = true;
    SCOPED_TRACE(modes[i].name);
    Scene scene(step, modes[i], i);
    if (!scene.play()) continue;
    passed_in += std::string(" ") + modes[i].name + " (" +
                 std::to_string(scene.longest_wait().count()) + " ms)";
  }
  if (!played) GTEST_SKIP() << "no mode that passes this step works here:" << unavailable;
  std::printf("died at %s in:%s\n", observe::step_name(step), passed_in.c_str());
  EXPECT_FALSE(passed_in.empty()) << "no mode passes this step; not available here:" << unavailable;
}

std::string step_test_name(const testing::TestParamInfo<std::uint32_t> &info) {
  std::string name = observe::step_name(static_cast<Step>(info.param));
  for (char &c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(EveryStep, KillStepsTest,
                         testing::Range(0U, static_cast<std::uint32_t>(Step::kRecoverySalvaged)),
                         step_test_name);
INSTANTIATE_TEST_SUITE_P(EveryStepBetweenLevels, KillStepsTest,
                         testing::Range(static_cast<std::uint32_t>(Step::kLineLock),
                                        static_cast<std::uint32_t>(Step::kPastTaken)),
                         step_test_name);
INSTANTIATE_TEST_SUITE_P(EveryStepOfThePast, KillStepsTest,
                         testing::Range(static_cast<std::uint32_t>(Step::kPastTaken),
                                        static_cast<std::uint32_t>(Step::kPastRetired) + 1),
                         step_test_name);

}  // namespace
}  // namespace tmh::test
