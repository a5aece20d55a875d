// tools/main.cpp -- the tmh command.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "tools/commands.h"

namespace {

// Where one of the three standard streams is closed, a pipe or file of ours would get its number,
// and what is said there. What stands there now takes nothing and gives nothing, as if it were
// closed, and programs that we become or start have it closed.
void occupy_standard_streams() noexcept {
  static_assert(STDIN_FILENO + 1 == STDOUT_FILENO && STDOUT_FILENO + 1 == STDERR_FILENO);
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    (void)::open("/dev/null", (number == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  }
}

}  // namespace

int main(int argc, char **argv) {
  occupy_standard_streams();
  // A parent that ignores SIGCHLD makes us inherit that: waitpid() would tell nothing of our
  // children, and a failed backup be a success.
  (void)::signal(SIGCHLD, SIG_DFL);
  return tmh::tools::run_command_line(argc, argv);
}
