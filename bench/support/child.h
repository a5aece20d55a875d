// bench/support/child.h -- a program that runs as a child process, what it printed and how it
// ended.
// Shape: the child leads a process group of its own. Past its deadline the whole group is killed.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace tmh::bench {

struct ChildCommand {
  std::vector<std::string> words;  // the program, its arguments; looked for in PATH
  std::string folder;              // it works there; empty: here
  // Variables that differ from this process's; an empty value takes the variable away.
  std::map<std::string, std::string> environment;
  std::chrono::duration<double> time_max{120};
};

struct ChildOutcome {
  std::string out, err;
  int exit_code = 0;
  int signal = 0;  // that it died of; 0: none
  bool was_late = false;

  // "exit code 1", "died of signal 11", "still ran after 120 s": how it ended.
  [[nodiscard]] std::string end(std::chrono::duration<double> time_max) const;
  // The last line that it printed to stderr; empty: none.
  [[nodiscard]] std::string last_words() const;
};

// Throws std::system_error when the program cannot be started.
[[nodiscard]] ChildOutcome run_child(const ChildCommand &command);

}  // namespace tmh::bench
