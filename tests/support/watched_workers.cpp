// tests/support/watched_workers.cpp -- what workers do, and how the parent watches them.
#include "tests/support/watched_workers.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <gtest/gtest.h>

#include "observe/steps.h"

namespace tmh::test {

namespace {

// One query that stays open while the others commit; its two audits must see the same.
void read_slowly(Player *player, const WatchedWorkers &state, std::size_t self) {
  const auto others_finished = [&] {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kWorkersMax; ++i)
      sum += i == self ? 0 : state.finished[i].load(std::memory_order_relaxed);
    return sum;
  };
  // Several per page of the board: chains of versions form.
  constexpr std::uint64_t kCommitsMeanwhile = 20;
  player->query([&] {
    for (history::Cell cell = 0; cell < Board::kCells; ++cell)
      static_cast<void>(player->read(cell));
    const std::uint64_t wanted = others_finished() + kCommitsMeanwhile;
    // Bounded: when the others are dead or wait for us, we end.
    static_cast<void>(poll_until([&] { return state.stop.load() || others_finished() >= wanted; },
                                 std::chrono::milliseconds(100)));
    for (history::Cell cell = 0; cell < Board::kCells; ++cell)
      static_cast<void>(player->read(cell));
  });
}

}  // namespace

void work(const std::string &folder, const DomainOptions &options, Recorder *recorder,
          WatchedWorkers *state, const WorkerOptions &worker) {
  Lane lane = recorder->open_lane();
  std::atomic<std::uint64_t> *attempts = worker.jostles ? &state->attempts : nullptr;
  auto board = std::make_unique<Board>(folder, options);
  auto player = std::make_unique<Player>(*board, lane, attempts);
  auto workload = std::make_unique<Workload>(*player, worker.seed);
  state->ready.fetch_add(1);
  state->gate.await(1);
  for (std::uint64_t step = 1; !state->stop.load(); ++step) {
    if (const std::uint64_t order = state->armed[worker.index].exchange(0); order != 0) {
      observe::crash_at(static_cast<std::uint32_t>(order), static_cast<std::uint32_t>(order >> 32));
    }
    if (worker.slow_reader) {
      read_slowly(player.get(), *state, worker.index);
    } else {
      workload->step();
    }
    state->finished[worker.index].fetch_add(1);
    if (worker.reopen_every == 0 || step % worker.reopen_every != 0) continue;
    lane = player->lane();  // its counters go on
    board->close();
    board = std::make_unique<Board>(folder, options);
    player = std::make_unique<Player>(*board, lane, attempts);
    workload = std::make_unique<Workload>(*player, worker.seed + step);
  }
  if (const std::int32_t dead = state->dead_pid.load(); dead != 0) {
    static_cast<void>(board->domain().collect());
    for (const ParticipantInfo &participant : board->domain().participants()) {
      EXPECT_NE(participant.pid, dead)
          << "slot " << participant.slot << " still belongs to the dead process";
    }
  }
  board->close();
}

std::chrono::milliseconds expect_going_on(const WatchedWorkers &state, Children *children,
                                          const std::vector<std::size_t> &workers,
                                          const std::string &after_what) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::vector<std::uint64_t> wanted;
  for (const std::size_t i : workers) wanted.push_back(state.finished[i].load() + 2);
  const auto all_there = [&] {
    for (std::size_t k = 0; k < workers.size(); ++k) {
      if (state.finished[workers[k]].load() < wanted[k]) return false;
    }
    return true;
  };
  const bool went_on = goes_on(children, all_there);
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  if (!went_on) {
    for (std::size_t k = 0; k < workers.size(); ++k) {
      EXPECT_GE(state.finished[workers[k]].load(), wanted[k])
          << "worker " << workers[k] << " stands still " << waited.count() << " ms after "
          << after_what;
    }
  }
  return waited;
}

}  // namespace tmh::test
