// tests/support/program.cpp -- posix_spawn, output into files.
#include "tests/support/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tests/support/temp_folder.h"

namespace tmh::test {

ProgramEnd run_program(const std::vector<std::string> &command, const std::string &stdout_to,
                       std::chrono::milliseconds deadline) {
  const TempFolder folder;
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
  const auto give_up = std::chrono::steady_clock::now() + deadline;
  int status = 0;
  for (pid_t got = 0; (got = waitpid(pid, &status, end.hung ? 0 : WNOHANG)) != pid;) {
    if (got < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "waitpid");
    if (std::chrono::steady_clock::now() > give_up) {
      end.hung = true;
      kill(pid, SIGKILL);
    }
    usleep(500);
  }
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (stdout_to.empty()) end.out = read_file(out);
  end.err = read_file(err);
  return end;
}

}  // namespace tmh::test
