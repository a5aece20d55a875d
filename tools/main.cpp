// tools/main.cpp -- the tmh command.
#include <signal.h>

#include "tools/commands.h"

int main(int argc, char **argv) {
  // A parent that ignores SIGCHLD makes us inherit that: waitpid() would tell nothing of our children, and a failed backup be a success.
  (void)::signal(SIGCHLD, SIG_DFL);
  return tmh::tools::run_command_line(argc, argv);
}
