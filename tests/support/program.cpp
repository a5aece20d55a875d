// tests/support/program.cpp -- posix_spawn, output into files.
#include "tests/support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "tests/support/temp_folder.h"

namespace tmh::test {

namespace {
bool ends_within(pid_t pid, std::chrono::milliseconds deadline) {
  using std::chrono::steady_clock;
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) throw std::system_error(errno, std::generic_category(), "pidfd_open");
  const auto give_up = steady_clock::now() + deadline;
  pollfd descriptor{pidfd, POLLIN, 0};
  int ready = 0;
  do {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(give_up - steady_clock::now());
    ready = poll(&descriptor, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  } while (ready < 0 && errno == EINTR);
  close(pidfd);
  return ready > 0;
}
}  // namespace

ProgramEnd run_program(const std::vector<std::string> &command, const std::string &stdout_to,
                       std::chrono::milliseconds deadline) {
  const MemoryFolder folder;
  const std::string out = stdout_to.empty() ? folder / "out" : stdout_to, err = folder / "err";
  std::vector<std::string> words = command;
  std::vector<char *> argv;
  for (std::string &word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), command.front());

  ProgramEnd end;
  if (!ends_within(pid, deadline)) {
    end.hung = true;
    kill(pid, SIGKILL);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) != pid)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (stdout_to.empty()) end.out = read_file(out);
  end.err = read_file(err);
  return end;
}

}  // namespace tmh::test
