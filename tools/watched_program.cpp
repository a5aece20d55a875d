// tools/watched_program.cpp -- two pipes: one holds the child back, the other tells whether
// execvp() failed.
#include "tools/watched_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <utility>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "tools/failure.h"

namespace tmh::tools {

namespace {

std::pair<platform::FileDescriptor, platform::FileDescriptor> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) check(platform::fail_errno(Errc::kIo, "pipe"));
  return {platform::FileDescriptor(ends[0]), platform::FileDescriptor(ends[1])};
}

// After fork(): async-signal-safe calls only.
[[noreturn]] void wait_and_exec(int go, int failure, char *const *arguments) {
  TMH_ASSERT(go >= 0 && failure >= 0 && arguments[0] != nullptr);
  char byte = 0;
  if (::read(go, &byte, 1) != 1) ::_exit(0);  // the parent gave up
  (void)::execvp(arguments[0], arguments);
  const int error = errno;
  (void)!::write(failure, &error, sizeof error);
  ::_exit(127);
}

// The terminal sends an interrupt to the program as well; what is sent to us alone is passed on.
// Not what our parent had us ignore.
std::atomic<pid_t> passes_to{0};
static_assert(std::atomic<pid_t>::is_always_lock_free, "a signal handler reads it");
void pass_on(int signal) {
  const int before = errno;
  // relaxed: stored before the handler was there, by a system call's distance
  (void)::kill(passes_to.load(std::memory_order_relaxed), signal);
  errno = before;
}

class SignalsOfProgram {
 public:
  explicit SignalsOfProgram(pid_t program) noexcept {
    TMH_ASSERT(program > 0);
    passes_to.store(program, std::memory_order_relaxed);
    struct sigaction action {};
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      const bool is_of_terminal = kSignals[i] == SIGINT || kSignals[i] == SIGQUIT;
      action.sa_handler = is_of_terminal ? SIG_IGN : pass_on;
      (void)::sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) (void)::sigaction(kSignals[i], &action, nullptr);
    }
  }
  // REQUIRES: the program has not been reaped: its number is still its own.
  ~SignalsOfProgram() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      (void)::sigaction(kSignals[i], &before_[i], nullptr);
  }
  SignalsOfProgram(const SignalsOfProgram &) = delete;
  SignalsOfProgram &operator=(const SignalsOfProgram &) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kSignals)];
};

}  // namespace

int ProgramResult::shell_status() const noexcept {
  constexpr int kNotFound = 127, kNotExecutable = 126, kSignalBase = 128;
  if (start_error != 0) return start_error == ENOENT ? kNotFound : kNotExecutable;
  return signal != 0 ? kSignalBase + signal : exit_status;
}

WatchedProgram::WatchedProgram(const std::vector<std::string> &command) {
  TMH_ASSERT(!command.empty());
  std::vector<char *> arguments;  // made before the fork: the child may not allocate
  for (const std::string &word : command) arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  auto [go_read, go_write] = make_pipe();
  auto [failure_read, failure_write] = make_pipe();
  pid_ = ::fork();
  if (pid_ < 0) check(platform::fail_errno(Errc::kOutOfMemory, "fork"));
  if (pid_ == 0) {
    go_write.reset();  // else it would wait for itself when the parent dies
    wait_and_exec(go_read.get(), failure_write.get(), arguments.data());
  }
  go_ = std::move(go_write);
  failure_ = std::move(failure_read);
}

WatchedProgram::~WatchedProgram() {
  if (pid_ < 0) return;
  go_.reset();
  (void)::waitpid(pid_, nullptr, 0);
}

ProgramResult WatchedProgram::run() {
  TMH_ASSERT(pid_ > 0 && static_cast<bool>(go_));
  ProgramResult result;
  {
    const SignalsOfProgram signals(pid_);
    const std::uint64_t begin_ns = platform::monotonic_ns();
    (void)!::write(go_.get(), "g", 1);
    siginfo_t end;
    while (::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOWAIT) < 0 &&
           errno == EINTR) {
    }
    result.elapsed_ns = platform::monotonic_ns() - begin_ns;
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  int error = 0;
  if (::read(failure_.get(), &error, sizeof error) == sizeof error) result.start_error = error;
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  return result;
}

}  // namespace tmh::tools
