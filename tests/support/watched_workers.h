// tests/support/watched_workers.h -- workers that run until told to stop, watched from outside:
// which of them go on after a death?
// Shape:     each worker counts its finished transactions in shared memory; the parent compares
//            counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/children.h"
#include "tests/support/workload.h"

namespace tmh::test {

inline constexpr std::size_t kWorkersMax = 16;

struct WatchedWorkers {
  std::atomic<std::uint64_t> finished[kWorkersMax];  // transactions, by worker; only grows
  std::atomic<std::uint64_t> attempts;               // of all workers, for Player
  std::atomic<std::uint32_t> ready;                  // workers that have opened the domain
  std::atomic<bool> stop;
  // Of whom the survivors must see nothing in the end; 0: not checked.
  std::atomic<std::int32_t> dead_pid;
  Turn gate;  // 1: workers may run

  // Tells worker `index` to die at the count-th passage of a step, from its next transaction on.
  void arm(std::size_t index, std::uint32_t step, std::uint32_t count) {
    armed[index] = std::uint64_t{count} << 32 | step;
  }
  std::atomic<std::uint64_t> armed[kWorkersMax];  // count << 32 | step; 0: nothing to do
};

struct WorkerOptions {
  std::size_t index = 0;
  std::uint64_t seed = 0;
  bool slow_reader = false;  // holds queries open over many commits, so that versions pile up
  // Waits in the middle of instances (board.h); if not, a death hits the library's own code more
  // often.
  bool jostles = true;
  // Transactions after which it closes and opens the domain; 0: never.
  std::uint64_t reopen_every = 0;
};

// Body of a worker process: opens, waits for the gate, works until stop, closes.
void work(const std::string &folder, const DomainOptions &options, Recorder *recorder,
          WatchedWorkers *state, const WorkerOptions &worker);

// Expects each of `workers` to finish two more transactions within go_on_limit() of the own time of
// `children`, theirs and of all that they may wait for: one may have been past the trouble already.
// Returns the longest wait.
std::chrono::milliseconds expect_going_on(const WatchedWorkers &state, Children *children,
                                          const std::vector<std::size_t> &workers,
                                          const std::string &after_what);

}  // namespace tmh::test
