// tools/run/crew.h -- the worker processes of tmh run: forked before their parent opens the domain,
// started together, told to stop.
// Shape:     what a worker did is in memory that it shares with the parent, so that a killed one's
//            is there, too.
// Order:     kWaiting: parent opens the domain and makes the content. kOpening: workers open it.
//            kRunning. kStopping: threads end after their present operation.
// Death:     a worker that dies in any phase is noticed and named; no other waits for it. Workers
//            die with their parent.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/workloads/workload.hpp"
#include "tools/run/latency.h"

namespace tmh::tools {

enum class Phase : std::uint32_t { kWaiting, kOpening, kRunning, kStopping };
static_assert(Phase::kWaiting == Phase{0}, "shared memory begins with zeros");
static_assert(Phase::kWaiting < Phase::kOpening && Phase::kOpening < Phase::kRunning &&
                  Phase::kRunning < Phase::kStopping,
              "workers wait for a phase or a later one");

// A process's share in SiteReport, of all its sites; in this order: see Crew::publish().
enum class SiteTotal : std::uint8_t {
  kLineCommits,  // those of RTM among them
  kHardwareCommits,
  kUnlimitedCommits,
  kPageCommits,
  kLineAborts,
  kPageAborts,
  kForCapacity,
  kForPages,
  kForAttempts,
  kCameDown,
  kHardwareConflicts,
  kHardwareCapacity,
  kHardwareZero,
  kHardwareExplicit,
  kHardwareOther,
  kCauses,  // of attempts that software lines aborted, from here on by AbortCause
  kForNeeds = kCauses + kAbortCauseCount,  // of kForPages, from here on by Need
  kEnd = kForNeeds + kNeedCount
};
using SiteTotals =
    std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(SiteTotal::kEnd)>;

struct alignas(64) ThreadState {
  std::atomic<std::uint64_t> updates;  // acknowledged
  std::atomic<std::int64_t> finish_ns;
};
static_assert(sizeof(ThreadState) == 64 && std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

struct alignas(64) ProcessState {
  std::atomic<std::uint32_t> threads_ready;
  std::atomic<std::uint32_t> is_broken;  // a read saw what never was
  std::atomic<std::uint32_t> has_error;
  char error[512];  // that ended it
  SiteTotals sites;
};

struct CrewState {
  std::atomic<std::uint32_t> phase;                    // Phase; a futex word
  alignas(64) std::atomic<std::uint64_t> next_number;  // workloads::Plan
  ProcessState processes[workloads::kWorkersMax];
  ThreadState threads[workloads::kWorkersMax];
};

// How a worker process ended.
struct WorkerEnd {
  pid_t pid = 0;
  bool has_ended = false;
  int status = 0;  // of waitpid()
};

struct CrewPlan {
  // threads: of each process; their product at most kWorkersMax
  unsigned processes = 1, threads = 1;
  double seconds = 0;            // 0: operations
  std::uint64_t operations = 0;  // of all workers together
  std::uint64_t seed = 1;
};

class Crew {
 public:
  // Opens the workload in a worker process. next_number: of workloads::Plan.
  using Open =
      std::function<std::unique_ptr<workloads::Workload>(std::atomic<std::uint64_t> *next_number)>;

  // Forks. REQUIRES one thread, and no domain open here. Throws Error(kOutOfMemory).
  Crew(const CrewPlan &plan, const Open &open);
  ~Crew();  // kills whoever is left
  Crew(const Crew &) = delete;
  Crew &operator=(const Crew &) = delete;

  [[nodiscard]] std::atomic<std::uint64_t> *next_number() noexcept { return &state_->next_number; }
  // Until all workers have ended or died. REQUIRES StopSignals: one ends the run early, a second
  // one kills the workers.
  void run();
  // All of what follows: after run(). From the common start to the last operation's end.
  [[nodiscard]] double seconds() const noexcept;
  [[nodiscard]] LatencySummary latency() const;
  [[nodiscard]] std::uint64_t total(
      SiteTotal which) const noexcept;  // of a killed process: as of its last 20 ms, or before
  [[nodiscard]] const CrewState &state() const noexcept { return *state_; }
  [[nodiscard]] const std::vector<WorkerEnd> &ends() const noexcept { return ends_; }
  [[nodiscard]] bool was_interrupted() const noexcept { return interrupted_; }

 private:
  [[noreturn]] void work(unsigned process, const Open &open);
  void work_in_thread(workloads::Workload &workload, unsigned process, unsigned thread) noexcept;
  void publish(const workloads::Workload &workload, ProcessState &process) const;
  [[nodiscard]] Phase phase() const noexcept {
    return Phase{state_->phase.load(std::memory_order_acquire)};
  }
  void set_phase(Phase next) noexcept;
  void sleep_until(Phase due) const noexcept;  // or a later one
  [[nodiscard]] bool all_ready() const noexcept;
  [[nodiscard]] bool is_broken() const noexcept;  // then going on would tell nothing more
  [[nodiscard]] bool look_for_dead();             // true: nobody is left
  void kill_all() noexcept;

  const CrewPlan plan_;
  CrewState *state_;
  LatencySamples *samples_;  // per thread
  std::vector<WorkerEnd> ends_;
  std::int64_t start_ns_ = 0;
  bool interrupted_ = false;
};

}  // namespace tmh::tools
