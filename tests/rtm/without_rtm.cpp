// tests/rtm/without_rtm.cpp -- the tracer.
#include "tests/rtm/without_rtm.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace tmh::test {

namespace {

constexpr int kNotTraced = 111;

class Tracer {
 public:
  Tracer(pid_t child, std::uintptr_t xbegin) : child_(child), xbegin_(xbegin) {}

  WithoutRtm run() {
    for (;;) {
      int status = 0;
      const pid_t thread = ::waitpid(-1, &status, __WALL);
      if (thread < 0) return result_;
      if (WIFSTOPPED(status)) {
        go_on(thread, status);
      } else if (thread == child_) {
        if (WIFEXITED(status)) result_.exit_status = WEXITSTATUS(status);
        if (result_.exit_status == kNotTraced)
          result_.unavailable = "PTRACE_TRACEME is refused here";
        return result_;
      }
    }
  }

 private:
  void go_on(pid_t thread, int status) {
    int signal = WSTOPSIG(status);
    const int event = status >> 16;
    if (event != 0) {  // a thread was made
      signal = 0;
    } else if (signal == SIGSTOP) {  // its first stop, the child's too
      signal = 0;
      arm(thread);
    } else if (signal == SIGTRAP && is_breakpoint(thread)) {
      if (!is_xbegin(thread)) return let_go(thread);
      signal = make_illegal(thread) ? SIGILL : 0;
    }
    (void)::ptrace(PTRACE_CONT, thread, nullptr, signal);
  }

  void arm(pid_t thread) {
    constexpr long kExecutionOfFirst = 1;
    (void)::ptrace(PTRACE_SETOPTIONS, thread, nullptr, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
    if (::ptrace(PTRACE_POKEUSER, thread, offsetof(struct user, u_debugreg[0]), xbegin_) == 0 &&
        ::ptrace(PTRACE_POKEUSER, thread, offsetof(struct user, u_debugreg[7]),
                 kExecutionOfFirst) == 0)
      return;
    result_.unavailable = std::string("no debug registers: ") + std::strerror(errno);
    (void)::kill(child_, SIGKILL);
  }

  // The emulator has replaced the XBEGIN for good. A traced thread would stop at each signal that
  // the new instruction raises, for two switches between processes.
  static void let_go(pid_t thread) {
    (void)::ptrace(PTRACE_POKEUSER, thread, offsetof(struct user, u_debugreg[7]), 0L);
    (void)::ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
  }

  static bool is_breakpoint(pid_t thread) {
    siginfo_t info;
    return ::ptrace(PTRACE_GETSIGINFO, thread, nullptr, &info) == 0 && info.si_code == TRAP_HWBKPT;
  }

  bool is_xbegin(pid_t thread) const {
    errno = 0;
    const long word = ::ptrace(PTRACE_PEEKTEXT, thread, xbegin_, nullptr);
    return errno == 0 && (word & 0xFFFF) == 0xF8C7;
  }

  bool make_illegal(pid_t thread) {
    siginfo_t info{};
    info.si_signo = SIGILL;
    info.si_code = ILL_ILLOPN;
    info.si_addr = reinterpret_cast<void *>(xbegin_);
    ++result_.traps;
    return ::ptrace(PTRACE_SETSIGINFO, thread, nullptr, &info) == 0;
  }

  pid_t child_;
  std::uintptr_t xbegin_;
  WithoutRtm result_;
};

}  // namespace

WithoutRtm run_without_rtm(std::uintptr_t xbegin, const std::function<int()> &body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kNotTraced);
    (void)::raise(SIGSTOP);
    ::_exit(body());
  }
  return Tracer(child, xbegin).run();
}

}  // namespace tmh::test
