// tools/watched_program.h -- starts a program so that a tool can attach to it before its first
// instruction, and waits for its end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "platform/files.h"

namespace tmh::tools {

struct ProgramResult {
  int start_error = 0;  // errno of execvp(); the program never ran
  int exit_status = 0;  // of exit()
  int signal = 0;       // that killed it
  std::uint64_t elapsed_ns = 0;

  // As a shell tells it: 127 not found, 126 not executable, 128 + signal, else the program's own.
  [[nodiscard]] int shell_status() const noexcept;
};

class WatchedProgram {
 public:
  // Forks; the child waits before execvp(). Throws kOutOfMemory, kIo.
  explicit WatchedProgram(const std::vector<std::string> &command);
  // A child that was never let go ends without running anything.
  ~WatchedProgram();
  WatchedProgram(const WatchedProgram &) = delete;
  WatchedProgram &operator=(const WatchedProgram &) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  // Lets it go, and returns when it has ended. Meanwhile interrupts are the program's, not ours,
  // and SIGTERM and SIGHUP are passed on to it: the report is still told.
  [[nodiscard]] ProgramResult run();

 private:
  pid_t pid_ = -1;
  platform::FileDescriptor go_, failure_;
};

}  // namespace tmh::tools
