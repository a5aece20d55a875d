// examples/inverted_index/signals.h -- Ctrl-C and the end of a child as something to wait for, not
// as interruptions.
// Shape:     the signals are blocked and read from a descriptor, so that no code runs at an
//            arbitrary instruction and every destructor (children, temporary folder) does its work
//            on the way out.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <stdexcept>
#include <string>

namespace inverted_index {

class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal);
};

class Signals {
 public:
  Signals();
  Signals(const Signals &) = delete;
  Signals &operator=(const Signals &) = delete;
  ~Signals();

  // Returns when a child has ended or the time is over; throws Interrupted on Ctrl-C and its kin.
  void wait(int timeout_ms);
  void check() { wait(0); }
  // The mask that this program was started with: children get it.
  [[nodiscard]] const sigset_t &original_mask() const noexcept { return original_; }

 private:
  sigset_t original_{};
  int descriptor_ = -1;
};

// A process must not outlive the one it belongs to, even one that was killed. `parent`: who started
// this process.
void die_with(::pid_t parent);

}  // namespace inverted_index
