// examples/inverted_index/signals.cpp -- a signalfd for SIGCHLD, SIGINT, SIGTERM and SIGHUP.
#include "examples/inverted_index/signals.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace inverted_index {

Interrupted::Interrupted(int signal)
    : std::runtime_error(std::string("interrupted (") + ::strsignal(signal) + ")") {}

Signals::Signals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  // A parent that ignores SIGCHLD makes us inherit that, and waitpid() would then find no children.
  ::signal(SIGCHLD, SIG_DFL);
  sigaddset(&wanted, SIGCHLD);
  // A reader of our output that leaves early (| head) is then an error of print(), and destructors
  // run.
  ::signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    // Whoever started us with a signal ignored (nohup, a shell's background job) means it.
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&wanted, number);
  }
  ::sigprocmask(SIG_BLOCK, &wanted, &original_);
  descriptor_ = ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
}

Signals::~Signals() {
  // The signals stay blocked: a Ctrl-C that arrives while the last files are removed must not cut
  // that short.
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Signals::wait(int timeout_ms) {
  struct pollfd ready {
    descriptor_, POLLIN, 0
  };
  if (::poll(&ready, 1, timeout_ms) <= 0) return;
  signalfd_siginfo info{};
  while (::read(descriptor_, &info, sizeof info) == static_cast<::ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGCHLD) throw Interrupted(static_cast<int>(info.ssi_signo));
  }
}

void die_with(::pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    throw std::system_error(errno, std::generic_category(),
                            "cannot ask to be killed with the parent");
  // It may have died before the line above.
  if (::getppid() != parent) ::_exit(1);
}

}  // namespace inverted_index
