// tests/support/program.h -- runs a program to its end and keeps what it wrote.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/slowdown.h"

namespace tmh::test {

struct ProgramEnd {
  bool hung = false;   // killed at the deadline
  int exit_code = -1;  // -1: a signal ended it
  int signal = 0;
  std::string out, err;
};

// stdout_to: a file that takes the program's standard output instead of ProgramEnd::out.
[[nodiscard]] ProgramEnd run_program(const std::vector<std::string> &command,
                                     const std::string &stdout_to = {},
                                     std::chrono::milliseconds deadline = hang_deadline());

}  // namespace tmh::test
