// tests/support/history_run.cpp -- the processes of a run, and what they hand over.
#include "tests/support/history_run.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "observe/planted.h"
#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/stalls.h"
#include "tests/support/temp_folder.h"
#include "tests/support/workload.h"

namespace tmh::test {

namespace {

struct RunState {
  Turn turn;
  std::atomic<std::uint32_t> ready;
  std::atomic<std::uint64_t> attempts, conflicts, hardware_commits, stalls;
};

class HistoryRun {
 public:
  explicit HistoryRun(const HistoryPlan &plan)
      : plan_(plan),
        folder_(place_for(plan.mode)),
        recorder_(static_cast<std::uint32_t>(plan.processes) + 2,
                  4'000 * plan.steps + kEntriesPerStep) {}

  HistoryResult go() {
    expect_child("set-up", [this] {
      Board board(folder_.path(), plan_.options);
      Player player(board, recorder_.open_lane());
      Workload(player, plan_.first_seed).set_up();
      board.close();
    });
    Children children;
    for (std::size_t i = 0; i < plan_.processes; ++i)
      children.spawn("worker " + std::to_string(i), [this, i] { work(i); });
    HistoryResult result;
    result.is_right = true;
    for (std::size_t i = 0; i < plan_.processes; ++i)
      result.is_right = children.wait(i).succeeded() && result.is_right;
    const bool may_be_skewed = plan_.snapshot_percent != 0 && !plan_.promotes;
    result.is_right =
        run_in_child("auditor",
                     [&] { audit_alone(folder_.path(), plan_.options, &recorder_, may_be_skewed); })
            .succeeded() &&
        result.is_right;
    result.verdict = history::check(recorder_.read());
    result.is_right = result.is_right && result.verdict.ok();
    result.conflicts = state_->conflicts.load();
    result.hardware_commits = state_->hardware_commits.load();
    result.stalls = state_->stalls.load();
    std::printf("%s: %s%llu conflicts, %llu commits in hardware, %llu stalls\n",
                plan_.options.policies.conflict.c_str(), result.verdict.report().c_str(),
                static_cast<unsigned long long>(result.conflicts),
                static_cast<unsigned long long>(result.hardware_commits),
                static_cast<unsigned long long>(result.stalls));
    return result;
  }

 private:
  void work(std::size_t index) {
    Board board(folder_.path(), plan_.options);
    Player player(board, recorder_.open_lane(), &state_->attempts);
    Workload workload(player, plan_.first_seed + 1 + index);
    if (plan_.snapshot_percent != 0) workload.use_isolation(plan_.snapshot_percent, plan_.promotes);
    if (state_->ready.fetch_add(1) + 1 == plan_.processes) state_->turn.reach(1);
    state_->turn.await(1);
    observe::plant(plan_.planted);
    if (plan_.stall_seed != 0) stall_at_steps(plan_.stall_seed);
    for (std::uint64_t step = 0; step < plan_.steps && player.lane().has_room(kEntriesPerStep);
         ++step)
      workload.step();
    state_->stalls.fetch_add(stalls());
    state_->conflicts.fetch_add(player.conflicts());
    state_->hardware_commits.fetch_add(board.line_site().report().hardware_commits +
                                       board.adaptive_site().report().hardware_commits);
    board.close();
  }

  const HistoryPlan &plan_;
  const TempFolder folder_;
  Recorder recorder_;
  Shared<RunState> state_;
};

}  // namespace

HistoryResult run_history(const HistoryPlan &plan) { return HistoryRun(plan).go(); }

}  // namespace tmh::test
