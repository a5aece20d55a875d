// tests/support/own_time.cpp -- clocks of processes, and the states of their threads.
#include "tests/support/own_time.h"

#include <time.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "tests/support/asleep.h"

namespace tmh::test {

namespace {

// The one that looks may be short of a processor, too: what it sees says nothing of a long time
// since its last look.
constexpr std::chrono::nanoseconds kLookMax{2'000'000};

// 0: it is gone.
std::chrono::nanoseconds processor_time_of(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// True of one that is gone.
bool all_asleep(pid_t pid) {
  std::error_code error;
  std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task", error);
  for (const std::filesystem::directory_iterator end; !error && tasks != end;
       tasks.increment(error)) {
    if (!is_asleep(tasks->path()) && std::filesystem::exists(tasks->path(), error)) return false;
  }
  return true;
}

}  // namespace

OwnTime::OwnTime(const std::vector<pid_t> &processes) {
  for (const pid_t pid : processes) processes_.push_back({pid, processor_time_of(pid)});
}

std::chrono::nanoseconds OwnTime::look() {
  const auto now = Clock::now();
  const std::chrono::nanoseconds passed = now - last_look_;
  last_look_ = now;
  const bool sleeps = std::all_of(processes_.begin(), processes_.end(),
                                  [](const Process &each) { return all_asleep(each.pid); });
  std::chrono::nanoseconds own = sleeps ? kLookMax : std::chrono::nanoseconds{0};
  for (Process &each : processes_) {
    const std::chrono::nanoseconds used = processor_time_of(each.pid);
    own = std::max(own, used - each.used);
    each.used = used;
  }
  own_ += std::min(own, passed);
  return own_;
}

}  // namespace tmh::test
