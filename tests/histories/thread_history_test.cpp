// tests/histories/thread_history_test.cpp -- several processes of several threads each, with views
// of their own: recorded, judged, killed.
// Invariants: those of tests/support/workload.h; (2) after a process is killed with its threads in
//             the middle of anything, the others go on within a second and none of its slots is
//             left.
// Size:       TMH_HISTORY_STEPS transactions per thread (default 300).
#include <gtest/gtest.h>

#include <csignal>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <tmh/lab.hpp>

#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/modes.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/watched_workers.h"
#include "tests/support/workload.h"

namespace tmh::test {
namespace {

using observe::Step;

constexpr std::uint64_t kThreads = 3;
constexpr std::uint64_t kEntriesPerLane = 4'000'000;  // address space only

DomainOptions threaded(const Mode &mode, const std::string &policy = "") {
  DomainOptions options = options_for(mode, policy);
  options.policies.thread_views = lab::kOwnViewAlways;
  return options;
}

void set_up(const std::string &folder, const DomainOptions &options, Recorder *recorder) {
  expect_child("set-up", [&] {
    Board board(folder, options);
    Player player(board, recorder->open_lane());
    Workload(player, seed()).set_up();
    board.close();
  });
}

// Runs `play(player, workload, number)` in each of kThreads threads on one board.
template <class Play>
void run_threads(const Board &board, Recorder *recorder, std::atomic<std::uint64_t> *attempts,
                 std::uint64_t first_seed, const Play &play) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        Player player(board, recorder->open_lane(), attempts);
        player.prefer_thread_views();
        Workload workload(player, first_seed + t);
        play(&player, &workload, t);
      } catch (const std::exception &error) {
        ADD_FAILURE() << "thread " << t << ": " << error.what();
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
}

class ThreadHistoryTest : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (const std::string why = why_unavailable(mode()); !why.empty()) GTEST_SKIP() << why;
    static_cast<void>(seed());  // chosen and printed here, inherited by the children
  }
  [[nodiscard]] const Mode &mode() const { return kModes[GetParam()]; }
  MemoryFolder folder_;
};

TEST_P(ThreadHistoryTest, ThreadsAndProcessesAreSerializableWithConsistentViews) {
  const char *const policies[] = {"self-abort", "oldest-wins", "selfish-abort", "youngest-wins"};
  const DomainOptions options = threaded(mode(), policies[GetParam() % std::size(policies)]);
  const std::uint64_t steps = environment_number("TMH_HISTORY_STEPS", 300);
  constexpr std::size_t kProcesses = 2;
  Recorder recorder(kProcesses * kThreads + 2, 4'000 * steps + kEntriesPerStep);
  set_up(folder_.path(), options, &recorder);
  Shared<std::atomic<std::uint64_t>> attempts, conflicts, in_views;
  Children children;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    children.spawn("process " + std::to_string(i), [&, i] {
      Board board(folder_.path(), options);
      run_threads(board, &recorder, &*attempts, seed() + 1 + i * kThreads,
                  [&](Player *player, Workload *workload, auto) {
                    for (std::uint64_t step = 0;
                         step < steps && player->lane().has_room(kEntriesPerStep); ++step)
                      workload->step();
                    conflicts->fetch_add(player->conflicts());
                  });
      in_views->store(board.domain().counters().thread_view_instances);
      board.close();
    });
  }
  children.expect_success();
  audit_alone(folder_.path(), options, &recorder);
  const history::Verdict verdict = expect_right_history(recorder, options.policies.conflict);
  std::printf("%llu conflicts, %llu instances in threads' views\n",
              static_cast<unsigned long long>(conflicts->load()),
              static_cast<unsigned long long>(in_views->load()));
  EXPECT_GT(verdict.committed, steps) << "too few instances to judge anything";
  EXPECT_GT(conflicts->load(), 0U)
      << "the instances never met: the history says nothing about conflicts";
  EXPECT_GT(in_views->load(), 0U);
}

// A process dies at a step, in whichever of its threads gets there; its other threads die at
// whatever they are doing.
TEST_P(ThreadHistoryTest, OthersGoOnAfterTheDeathOfAProcessOfThreads) {
  const DomainOptions options = threaded(mode());
  constexpr Step kSteps[] = {Step::kBeginPinned,    Step::kTouchStart,     Step::kTouchLocked,
                             Step::kCommitStart,    Step::kCommitLocked,   Step::kCommitSlotsFilled,
                             Step::kCommitUnpinned, Step::kCommitUnlocked, Step::kAttachSlotTaken,
                             Step::kDetachStart};
  Recorder recorder(static_cast<std::uint32_t>((2 + std::size(kSteps)) * kThreads) + 4,
                    kEntriesPerLane);
  set_up(folder_.path(), options, &recorder);
  Shared<WatchedWorkers> state;
  Children survivors;
  for (std::size_t i = 0; i < 2; ++i) {
    survivors.spawn("survivor " + std::to_string(i), [&, i] {
      Board board(folder_.path(), options);
      run_threads(board, &recorder, &state->attempts, seed() + 1 + i * kThreads,
                  [&](Player *player, Workload *workload, std::uint64_t t) {
                    while (!state->stop.load() && player->lane().has_room(kEntriesPerStep)) {
                      workload->step();
                      state->finished[i * kThreads + t].fetch_add(1);
                    }
                  });
      if (i == 0) {
        static_cast<void>(board.domain().collect());
        for (const ParticipantInfo &participant : board.domain().participants())
          EXPECT_EQ(::kill(participant.pid, 0), 0)
              << "slot " << participant.slot << " is a dead process's";
      }
      board.close();
    });
  }
  int died = 0;
  for (const Step step : kSteps) {
    const ChildEnd end = run_in_child("victim", [&] {
      Board board(folder_.path(), options);
      // The slot of the process itself is taken by then, and so is that of its first thread.
      observe::crash_at(static_cast<std::uint32_t>(step),
                        step == Step::kAttachSlotTaken || step == Step::kDetachStart ? 2 : 40);
      run_threads(board, &recorder, &state->attempts, seed() + 100,
                  [&](Player *player, Workload *workload, auto) {
                    for (int i = 0; i < 300 && player->lane().has_room(kEntriesPerStep); ++i)
                      workload->step();
                  });
      board.close();
    });
    EXPECT_TRUE(end.signal == SIGKILL || end.succeeded()) << observe::step_name(step);
    died += end.signal == SIGKILL ? 1 : 0;
    std::vector<std::size_t> all;
    for (std::size_t w = 0; w < 2 * kThreads; ++w) all.push_back(w);
    static_cast<void>(expect_going_on(*state, &survivors, all,
                                      std::string("a death at ") + observe::step_name(step)));
  }
  EXPECT_GE(died, 6) << "too few victims died";
  state->stop.store(true);
  survivors.expect_success();
  audit_alone(folder_.path(), options, &recorder);
  const history::Verdict verdict = history::check(recorder.read());
  EXPECT_TRUE(verdict.ok()) << verdict.report();
}

std::string mode_of(const testing::TestParamInfo<std::size_t> &info) {
  return kModes[info.param].name;
}
INSTANTIATE_TEST_SUITE_P(Modes, ThreadHistoryTest,
                         testing::Range(std::size_t{0}, std::size(kModes)), mode_of);

}  // namespace
}  // namespace tmh::test
