// tests/support/leftovers.cpp -- /proc, and the listener.
#include "tests/support/leftovers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/children.h"
#include "tests/support/slowdown.h"

namespace tmh::test {

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

struct Stat {
  char state = '?';
  pid_t parent = 0;
};
// What is behind the name, which may hold anything.
Stat stat_of(const fs::path &task) {
  const std::string line = text_of(task / "stat");
  const std::size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos) return {};
  return {line[name_end + 2], std::atoi(line.c_str() + name_end + 4)};
}

// The folders of `folder` that have a number for their name.
template <class Visit>
void for_each_number(const char *folder, Visit visit) {
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error))
    if (const pid_t id = std::atoi(at->path().filename().c_str()); id != 0) visit(id, at->path());
}

class LeftoversListener : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo &) override {
    process_ = getpid();
    // ThreadSanitizer's own thread begins with the first one of the program.
    if (is_thread_sanitized()) {
      static const bool has_begun = [] {
        std::thread([] {}).join();
        return true;
      }();
      static_cast<void>(has_begun);
    }
    threads_ = threads_here();
    children_ = children_here();
  }

  void OnTestEnd(const testing::TestInfo &) override {
    if (getpid() != process_) return;  // a child that has returned from the test
    // A thread that has been joined may be in /proc for a moment. Where all sleep, or are dead,
    // none is about to end.
    std::string left;
    int looks_at_rest = 0;
    (void)poll_until([&] {
      bool is_at_rest = true;
      left = what_is_left(&is_at_rest);
      looks_at_rest = is_at_rest ? looks_at_rest + 1 : 0;
      return left.empty() || looks_at_rest == kLooksAtRest;
    });
    if (!left.empty()) ADD_FAILURE() << "the test has left behind:" << left;
  }

 private:
  static constexpr int kLooksAtRest = 100;

  [[nodiscard]] std::string what_is_left(bool *is_at_rest) const {
    std::string text;
    const auto add = [&](const char *what, const std::map<pid_t, std::string> &before,
                         const std::map<pid_t, std::string> &now, const char *folder) {
      for (const auto &[id, name] : now) {
        if (before.contains(id)) continue;
        text += std::string("\n  ") + what + " " + std::to_string(id) + ": " + name;
        const char state = stat_of(folder + std::to_string(id)).state;
        *is_at_rest = *is_at_rest && (state == 'S' || state == 'T' || state == 'Z');
      }
    };
    add("thread", threads_, threads_here(), "/proc/self/task/");
    add("child", children_, children_here(), "/proc/");
    return text;
  }

  pid_t process_ = 0;
  std::map<pid_t, std::string> threads_, children_;
};

}  // namespace

std::map<pid_t, std::string> threads_here() {
  std::map<pid_t, std::string> found;
  for_each_number("/proc/self/task", [&](pid_t id, const fs::path &task) {
    found[id] = text_of(task / "comm") + ", waits in " + text_of(task / "wchan");
  });
  return found;
}

std::map<pid_t, std::string> children_here() {
  std::map<pid_t, std::string> found;
  siginfo_t any{};
  // Nearly always there are none.
  if (waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) != 0) return found;
  for_each_number("/proc", [&](pid_t id, const fs::path &process) {
    if (stat_of(process).parent == getpid()) found[id] = text_of(process / "comm");
  });
  return found;
}

}  // namespace tmh::test

const bool tmh_test_looks_for_leftovers = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new tmh::test::LeftoversListener);
  return true;
}();
