// bench/support/child.h -- a program that runs as a child process, what it printed and how it
// ended.
// Shape: the child leads a process group of its own. Past its deadline the whole group is killed;
//        the child is, too, when this process dies.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
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

class Child {
 public:
  // Throws std::system_error when the program cannot be started. Its time begins.
  explicit Child(const ChildCommand &command);
  ~Child();  // kills the group
  Child(const Child &) = delete;
  Child &operator=(const Child &) = delete;
  // What follows `beginning` in the first line of stdout that begins so. None: the program has
  // ended without it, or its time is over.
  [[nodiscard]] std::optional<std::string> wait_for_line(const std::string &beginning);
  void ask_to_end() const;  // SIGTERM
  // Until it has ended, or its time is over.
  [[nodiscard]] ChildOutcome wait();

 private:
  // Appends what the pipes hold. False: the program has ended, or its time is over.
  bool read_some();
  void end() noexcept;

  struct Pipes;
  std::unique_ptr<Pipes> pipes_;
  std::chrono::steady_clock::time_point deadline_;
  ChildOutcome outcome_;
  int pid_ = 0;
};

[[nodiscard]] inline ChildOutcome run_child(const ChildCommand &command) {
  return Child(command).wait();
}

}  // namespace tmh::bench
