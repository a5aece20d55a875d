// tests/support/own_time.h -- the time that processes have had for themselves, by which a promise
// of a time is judged on a machine that is short of processors.
// Shape:     the processor time of the one that has used most, and the time in which all threads of
//            all of them slept: while one of them waits for a processor or a disk, the others may
//            wait for it, and no time passes. Never more than has passed.
// Limits:    sleep is seen at looks only, hence the caller looks at least each millisecond.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

namespace tmh::test {

class OwnTime {
 public:
  explicit OwnTime(const std::vector<pid_t> &processes);
  // Since the constructor.
  [[nodiscard]] std::chrono::nanoseconds look();

 private:
  using Clock = std::chrono::steady_clock;
  struct Process {
    pid_t pid = 0;
    std::chrono::nanoseconds used{0};  // at the last look
  };

  std::vector<Process> processes_;
  Clock::time_point last_look_ = Clock::now();
  std::chrono::nanoseconds own_{0};
};

}  // namespace tmh::test
