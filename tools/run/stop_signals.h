// tools/run/stop_signals.h -- signals that would end tmh run and leave its temporary folder behind:
// counted instead, until it is gone.
// Shape:     one at a time in the process. Signals that its parent had it ignore (nohup) stay
//            ignored.
// Contexts:  one thread makes and ends it; the rest in any thread.
#pragma once

#include <signal.h>

#include <array>

namespace tmh::tools {

class StopSignals {
 public:
  // Those that end a process by default, can be caught, and are no fault of the program's own
  // (SIGSEGV, SIGABRT, ...): these and the real-time signals, a range that the C library knows when
  // it runs.
  StopSignals();
  ~StopSignals();  // as before
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  [[nodiscard]] static unsigned count() noexcept;  // since it was made
  [[nodiscard]] static int last() noexcept;        // 0: none
  // For a forked worker: what a terminal sends to all is its parent's business, the others end it.
  static void leave_to_parent() noexcept;

 private:
  std::array<struct sigaction, NSIG> before_{};  // by number
};

}  // namespace tmh::tools
