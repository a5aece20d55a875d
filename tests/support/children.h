// tests/support/children.h -- forked child processes of a test: started, killed, waited for with a
// deadline.
// Shape:     a child runs a function and ends without the parent's clean-up. It fails when the
//            function throws or when a GoogleTest expectation fails in it; its output then stands
//            in the test's output, with its name.
// Invariant: no child outlives its parent (parent death signal) or its Children object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/slowdown.h"

namespace tmh::test {

struct ChildEnd {
  bool hung = false;  // it had to be killed at the deadline
  int exit_code = -1;
  int signal = 0;  // that killed it, 0: none
  [[nodiscard]] bool succeeded() const noexcept { return !hung && signal == 0 && exit_code == 0; }
};

// Empty: a child of a process with threads may start threads. Else why not.
[[nodiscard]] const char *why_no_threads_in_children() noexcept;

class Children {
 public:
  Children() = default;
  ~Children();
  Children(const Children &) = delete;
  Children &operator=(const Children &) = delete;

  // Returns the child's index.
  std::size_t spawn(const std::string &name, const std::function<void()> &body);

  [[nodiscard]] std::size_t count() const noexcept { return children_.size(); }
  [[nodiscard]] pid_t pid(std::size_t index) const { return children_[index].pid; }
  [[nodiscard]] bool running(std::size_t index);
  void kill(std::size_t index, int signal) const;
  // SIGKILL, and waits until the kernel has buried it.
  void bury(std::size_t index);

  // Waits for its end. A hung child is reported as a failure, with its pid and what it was doing,
  // and killed.
  ChildEnd wait(std::size_t index, std::chrono::milliseconds deadline = hang_deadline());
  // Waits for all that are left; each must succeed.
  void expect_success();

 private:
  struct Child {
    pid_t pid = 0;
    int pidfd = -1;
    bool ended = false;
    bool told = false;  // how: to who asked, or because it was to be killed
    std::string name;
    ChildEnd end;
  };
  void collect(Child *child);

  std::vector<Child> children_;
};

// REQUIRES: in a child of spawn(). It dies of SIGKILL; but if an expectation failed in it, which
// that would hide, this returns.
void die_unless_failed();

// One child, waited for.
ChildEnd run_in_child(const std::string &name, const std::function<void()> &body);
// The same; it must succeed.
void expect_child(const std::string &name, const std::function<void()> &body);

// Polls until `condition` holds; false when the deadline passes first. For state that offers
// nothing to wait on.
[[nodiscard]] bool poll_until(const std::function<bool()> &condition,
                              std::chrono::milliseconds deadline = hang_deadline());

// Polls until `condition` holds; false when it does not within go_on_limit() of the own time of the
// children that run (own_time.h), or within hang_deadline().
[[nodiscard]] bool goes_on(Children *children, const std::function<bool()> &condition);

}  // namespace tmh::test
