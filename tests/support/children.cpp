// tests/support/children.cpp -- fork, pidfd, parent death signal.
#include "tests/support/children.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <system_error>

#include <gtest/gtest.h>

#include "tests/support/own_time.h"
#include "tests/support/stalls.h"

// Counters of a coverage build are written at exit only, and a child leaves by _exit.
extern "C" void __gcov_dump() __attribute__((weak));

namespace tmh::test {

namespace {

constexpr int kExitFailed = 1, kExitThrew = 2;

// Inherited failures of the parent are not the child's.
class FailureCounter : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult &result) override {
    failed_ = failed_ || result.failed();
  }
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  bool failed_ = false;
};
FailureCounter *failures = nullptr;  // a child's

[[noreturn]] void run_child(const std::string &name, const std::function<void()> &body,
                            pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitThrew);  // the parent died before the line above
  failures = new FailureCounter;
  testing::UnitTest::GetInstance()->listeners().Append(failures);
  int code = 0;
  try {
    stall_if_asked();
    body();
  } catch (const std::exception &error) {
    std::printf("child %s (pid %d) threw: %s\n", name.c_str(), getpid(), error.what());
    code = kExitThrew;
  }
  if (code == 0 && failures->failed()) code = kExitFailed;
  if (code != 0) std::printf("child %s (pid %d) failed\n", name.c_str(), getpid());
  std::fflush(nullptr);
  if (__gcov_dump != nullptr) __gcov_dump();
  _exit(code);
}

std::string first_line(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string what_it_does(pid_t pid) {
  const std::string proc = "/proc/" + std::to_string(pid) + "/";
  std::string stack, line;
  std::ifstream file(proc + "stack");
  while (std::getline(file, line)) stack += "\n      " + line;
  return "state: " + first_line(proc + "stat") + "\n    waits in: " + first_line(proc + "wchan") +
         ", system call: " + first_line(proc + "syscall") + "\n    kernel stack:" + stack;
}

}  // namespace

Children::~Children() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (!children_[i].ended) bury(i);
    close(children_[i].pidfd);
  }
}

std::size_t Children::spawn(const std::string &name, const std::function<void()> &body) {
  std::fflush(nullptr);  // else the child prints the parent's buffered lines again
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) run_child(name, body, parent);
  Child child;
  child.pid = pid;
  child.name = name;
  child.pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (child.pidfd < 0) throw std::system_error(errno, std::generic_category(), "pidfd_open");
  children_.push_back(child);
  return children_.size() - 1;
}

void Children::collect(Child *child) {
  int status = 0;
  if (waitpid(child->pid, &status, 0) != child->pid)
    throw std::system_error(errno, std::generic_category(), "waitpid");
  child->ended = true;
  child->end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  child->end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

bool Children::running(std::size_t index) {
  Child &child = children_[index];
  if (child.ended) return false;
  pollfd descriptor{child.pidfd, POLLIN, 0};
  if (poll(&descriptor, 1, 0) == 0) return true;
  collect(&child);
  return false;
}

const char *why_no_threads_in_children() noexcept {
  return is_thread_sanitized()
             ? "ThreadSanitizer ends a child whose thread lies where its parent's did"
             : "";
}

void Children::kill(std::size_t index, int signal) const {
  if (!children_[index].ended) ::kill(children_[index].pid, signal);
}

void Children::bury(std::size_t index) {
  children_[index].told = true;
  kill(index, SIGKILL);
  if (!children_[index].ended) collect(&children_[index]);
}

ChildEnd Children::wait(std::size_t index, std::chrono::milliseconds deadline) {
  Child &child = children_[index];
  child.told = true;
  if (child.ended) return child.end;
  const auto end = std::chrono::steady_clock::now() + deadline;
  pollfd descriptor{child.pidfd, POLLIN, 0};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                          end - std::chrono::steady_clock::now())
                          .count();
    const int ready = poll(&descriptor, 1, left > 0 ? static_cast<int>(left) : 0);
    if (ready > 0) break;
    if (ready < 0 && errno == EINTR) continue;
    ADD_FAILURE() << "child " << child.name << " (pid " << child.pid << ") is hung\n    "
                  << what_it_does(child.pid);
    bury(index);
    child.end.hung = true;
    return child.end;
  }
  collect(&child);
  return child.end;
}

void Children::expect_success() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].told) continue;
    const ChildEnd end = wait(i);
    EXPECT_TRUE(end.succeeded()) << "child " << children_[i].name << " (pid " << children_[i].pid
                                 << "): exit code " << end.exit_code << ", signal " << end.signal;
  }
}

void die_unless_failed() {
  if (!failures->failed()) (void)raise(SIGKILL);
}

ChildEnd run_in_child(const std::string &name, const std::function<void()> &body) {
  Children children;
  return children.wait(children.spawn(name, body));
}

void expect_child(const std::string &name, const std::function<void()> &body) {
  Children children;
  children.spawn(name, body);
  children.expect_success();
}

bool poll_until(const std::function<bool()> &condition, std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return condition();
    const timespec pause{0, 200'000};  // gives the processor to those we wait for
    nanosleep(&pause, nullptr);
  }
  return true;
}

bool goes_on(Children *children, const std::function<bool()> &condition) {
  std::vector<pid_t> running;
  for (std::size_t i = 0; i < children->count(); ++i)
    if (children->running(i)) running.push_back(children->pid(i));
  OwnTime own_time(running);
  bool is_over = false;
  const bool is_there = poll_until([&] {
    if (condition()) return true;
    is_over = own_time.look() > go_on_limit();
    return is_over;
  });
  return is_there && (!is_over || condition());
}

}  // namespace tmh::test
