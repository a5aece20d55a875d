// tests/death/kill_random_test.cpp -- participants are killed at random moments and random steps,
// one or two at a time, now and then all, and replaced.
// Invariants: (1) the others go on within a second after each death, (2) the history is right, with
//             all or nothing of each killed instance, (3) no slot and no version is leaked, (4) the
//             domain stays usable over all deaths.
// Size:       TMH_KILLS deaths in all (default 200), shared by the modes.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/modes.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/watched_workers.h"

namespace tmh::test {
namespace {

constexpr std::size_t kWorkers = 4;
// Then the history so far is judged: the checker works in memory.
constexpr std::uint64_t kKillsPerBatch = 40;
constexpr std::uint64_t kEntriesPerLane = 3'000'000;  // address space only
// The kill falls somewhere in this time after a progress check: a few transactions.
constexpr long kAimNs = 400'000;

class Battlefield {
 public:
  Battlefield(const Mode &mode, std::uint64_t first_seed)
      : options_(options_for(mode)), random_(first_seed), folder_(place_for(mode)) {}

  void set_up() {
    Recorder recorder(1, kEntriesPerStep);
    expect_child("set-up", [&] {
      Board board(folder_.path(), options_);
      Player player(board, recorder.open_lane());
      Workload(player, 1).set_up();
      board.close();
    });
    remember(recorder);
  }

  void run_batch(std::uint64_t kills) {
    // The last strike may kill more than are left to be killed; and there is the auditor.
    Recorder recorder(static_cast<std::uint32_t>(2 * kWorkers + kills), kEntriesPerLane,
                      next_process_);
    Shared<WatchedWorkers> state;
    state->gate.reach(1);
    Children children;
    for (std::size_t i = 0; i < kWorkers; ++i)
      child_of_[i] = start(&children, &recorder, &*state, i);
    std::uint64_t done = 0;
    while (done < kills && !testing::Test::HasFailure()) {
      std::vector<std::size_t> workers(kWorkers);
      std::iota(workers.begin(), workers.end(), std::size_t{0});
      std::shuffle(workers.begin(), workers.end(), random_);
      const std::uint64_t dice = random_() % 16;
      // All: what they leave is for one who opens the domain alone.
      const std::size_t victims = dice == 0 ? kWorkers : dice <= 4 ? 2 : 1;
      const std::string how = strike(
          &children, &*state, {workers.begin(), workers.begin() + static_cast<long>(victims)});
      const std::vector<std::size_t> others(workers.begin() + static_cast<long>(victims),
                                            workers.end());
      longest_wait_ = std::max(longest_wait_, expect_going_on(*state, &children, others, how));
      for (std::size_t k = 0; k < victims; ++k)
        child_of_[workers[k]] = start(&children, &recorder, &*state, workers[k]);
      done += victims;
    }
    state->stop.store(true);
    for (const std::size_t child : child_of_) {
      const ChildEnd end = children.wait(child);
      EXPECT_TRUE(end.succeeded()) << "exit code " << end.exit_code << ", signal " << end.signal;
    }
    audit_alone(folder_.path(), options_, &recorder);
    remember(recorder);
    kills_ += done;
  }

  [[nodiscard]] std::uint64_t kills() const noexcept { return kills_; }
  [[nodiscard]] std::chrono::milliseconds longest_wait() const noexcept { return longest_wait_; }

 private:
  std::size_t start(Children *children, Recorder *recorder, WatchedWorkers *state,
                    std::size_t index) {
    WorkerOptions worker;
    worker.index = index;
    worker.seed = random_();
    worker.slow_reader = index == 0 && random_() % 2 == 0;
    worker.jostles = random_() % 3 == 0;
    worker.reopen_every = 60;  // deaths in open and close too
    return children->spawn("worker " + std::to_string(index),
                           [=, this] { work(folder_.path(), options_, recorder, state, worker); });
  }

  // Kills each victim: at a random step of the engine, or at any instruction. Two victims: the
  // second one often while it cleans up after the first. Returns a description.
  std::string strike(Children *children, WatchedWorkers *state,
                     const std::vector<std::size_t> &victims) {
    std::string how;
    for (const std::size_t victim : victims) {
      EXPECT_TRUE(children->running(child_of_[victim]))
          << "worker " << victim << " ended by itself";
      const bool at_step = random_() % 2 == 0;
      how += (how.empty() ? "" : " and ") + std::string("the death of worker ") +
             std::to_string(victim);
      if (!at_step) {
        aim(children, *state, victim);
        continue;
      }
      const auto step = static_cast<std::uint32_t>(random_() % observe::kStepAndGapCount);
      state->arm(victim, step, 1 + static_cast<std::uint32_t>(random_() % 3));
      how += std::string(" at ") + observe::step_name(static_cast<observe::Step>(step));
    }
    for (const std::size_t victim : victims) wait_for_death(children, state, victim);
    return how;
  }

  // Lets the victim finish 0 to 7 transactions (0: it may not even have opened yet), then waits for
  // a random instruction.
  void aim(Children *children, const WatchedWorkers &state, std::size_t victim) {
    const std::uint64_t wanted = state.finished[victim].load() + random_() % 8;
    EXPECT_TRUE(poll_until([&] { return state.finished[victim].load() >= wanted; }))
        << "worker " << victim << " is hung";
    const timespec pause{0, static_cast<long>(random_() % kAimNs)};
    nanosleep(&pause, nullptr);
    children->kill(child_of_[victim], SIGKILL);
  }

  // An armed victim that does not pass its step (no lock to repair, nobody to reap) is killed after
  // some transactions.
  void wait_for_death(Children *children, WatchedWorkers *state, std::size_t victim) {
    constexpr std::uint64_t kChances = 20;
    const std::uint64_t enough = state->finished[victim].load() + kChances;
    EXPECT_TRUE(poll_until([&] {
      return !children->running(child_of_[victim]) || state->finished[victim].load() >= enough;
    })) << "worker "
        << victim << " is hung";
    children->bury(child_of_[victim]);
    state->armed[victim].store(0);
  }

  // Judges the recorded part, then takes the values that it ended with as those that the next part
  // begins with.
  void remember(const Recorder &recorder) {
    history::History part = recorder.read();
    part.initial = initial_;
    const history::Verdict verdict = history::check(part);
    std::printf("  %s", verdict.report().c_str());
    EXPECT_TRUE(verdict.ok());
    next_process_ = recorder.next_process();
    for (const history::Instance &instance : part.instances) {
      // The set-up, or the audit after everybody else.
      if (instance.id.process + 1 != next_process_) continue;
      for (const history::Operation &operation : instance.operations)
        initial_[operation.cell] = operation.value;
    }
  }

  DomainOptions options_;
  std::size_t child_of_[kWorkers] = {};
  std::uint64_t kills_ = 0;
  std::mt19937_64 random_;
  TempFolder folder_;
  std::map<history::Cell, history::Value> initial_;
  std::uint32_t next_process_ = 0;
  std::chrono::milliseconds longest_wait_{0};
};

class KillRandomTest : public testing::TestWithParam<Mode> {};

TEST_P(KillRandomTest, OthersGoOnAndTheHistoryIsRight) {
  if (const std::string why = why_unavailable(GetParam()); !why.empty()) GTEST_SKIP() << why;
  const std::uint64_t kills =
      (environment_number("TMH_KILLS", 200) + std::size(kModes) - 1) / std::size(kModes);
  Battlefield battlefield(GetParam(), seed());
  battlefield.set_up();
  for (std::uint64_t done = 0; done < kills && !HasFailure(); done += kKillsPerBatch) {
    battlefield.run_batch(std::min(kKillsPerBatch, kills - done));
  }
  std::printf("%llu kills, longest wait of a survivor for two transactions: %lld ms\n",
              static_cast<unsigned long long>(battlefield.kills()),
              static_cast<long long>(battlefield.longest_wait().count()));
}

INSTANTIATE_TEST_SUITE_P(Modes, KillRandomTest, testing::ValuesIn(kModes), mode_name);
INSTANTIATE_TEST_SUITE_P(SnapshotModes, KillRandomTest, testing::ValuesIn(kSnapshotModes),
                         mode_name);
INSTANTIATE_TEST_SUITE_P(DurableModes, KillRandomTest, testing::ValuesIn(kDurableHybridModes),
                         mode_name);

}  // namespace
}  // namespace tmh::test
