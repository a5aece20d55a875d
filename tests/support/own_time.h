// tests/support/own_time.h -- the time that processes have had for themselves, by which a promise
// of a time is judged on a machine that is short of processors.
// Shape:     the time that has passed, without what their threads have waited for a processor (the
//            kernel tells that of each) or have been seen to wait for a disk: while one of them
//            does, the others may wait for it. At least the processor time of the one that has used
//            most: of processes that never sleep no other time is certain.
// Limits:    where the kernel does not tell (no CONFIG_SCHED_INFO), sleep counts as far as looks
//            see it, hence the caller looks at least each millisecond.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <vector>

namespace tmh::test {

class OwnTime {
 public:
  explicit OwnTime(const std::vector<pid_t> &processes);
  // Since the constructor.
  [[nodiscard]] std::chrono::nanoseconds look();

 private:
  using Clock = std::chrono::steady_clock;
  using Nanoseconds = std::chrono::nanoseconds;
  struct Process {
    pid_t pid = 0;
    Nanoseconds used_before{0};
  };
  enum class State { kAsleep, kReady, kAtDisk };

  // Notes what their threads have waited for; the state that keeps others waiting most.
  State look_at_threads();

  std::vector<Process> processes_;
  // By thread: what it had waited for a processor at the first look, and at the last one.
  struct Lack {
    Nanoseconds before, now;
  };
  std::map<pid_t, Lack> lacks_;
  bool is_told_ = true;  // what threads lack
  Clock::time_point begin_, last_look_;
  Nanoseconds at_disk_{0}, slept_{0}, own_{0};
};

}  // namespace tmh::test
