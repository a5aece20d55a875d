// tools/run/stop_signals.h -- signals that would end tmh run and leave its temporary folder behind: counted instead, until it is gone.
// Shape:     one at a time in the process. Signals that its parent had it ignore (nohup) stay ignored.
// Contexts:  one thread makes and ends it; the rest in any thread.
#pragma once

#include <signal.h>

#include <array>

namespace tmh::tools {

class StopSignals {
 public:
  // Of those that end a process by default, all that can be caught and are no fault of the program's own (SIGSEGV, SIGABRT, ...). Not the real-time
  // signals, which are a range.
  static constexpr std::array kSignals = {SIGHUP,    SIGINT,  SIGQUIT, SIGUSR1,   SIGUSR2, SIGPIPE, SIGALRM, SIGTERM,
                                          SIGSTKFLT, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR};

  StopSignals();
  ~StopSignals();  // as before
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  [[nodiscard]] static unsigned count() noexcept;  // since it was made
  [[nodiscard]] static int last() noexcept;        // 0: none
  // For a forked worker: what a terminal sends to all is its parent's business, the others end it.
  static void leave_to_parent() noexcept;

 private:
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace tmh::tools
