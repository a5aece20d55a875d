// tests/support/own_time.cpp -- clocks of processes, and the states of their threads.
#include "tests/support/own_time.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "tests/support/process_state.h"

namespace tmh::test {

namespace {

// Without the kernel's figures: what a look says of the time since the last one, which may be long.
constexpr std::chrono::nanoseconds kLookMax{2'000'000};

// 0: it is gone.
std::chrono::nanoseconds processor_time_of(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

OwnTime::OwnTime(const std::vector<pid_t> &processes) {
  for (const pid_t pid : processes) processes_.push_back({pid, processor_time_of(pid)});
  (void)look_at_threads();
  begin_ = last_look_ = Clock::now();
  for (auto &[thread, lack] : lacks_) lack.before = lack.now;
}

OwnTime::State OwnTime::look_at_threads() {
  State state = State::kAsleep;
  for (const Process &process : processes_) {
    std::error_code error;
    std::filesystem::directory_iterator tasks("/proc/" + std::to_string(process.pid) + "/task",
                                              error);
    for (const std::filesystem::directory_iterator end; !error && tasks != end;
         tasks.increment(error)) {
      const char letter = state_of(tasks->path());
      if (letter == '?') continue;
      // Stopped ones are no part of what is measured, but may be waited for.
      if (letter == 'D')
        state = State::kAtDisk;
      else if (letter != 'S' && letter != 'Z' && state != State::kAtDisk)
        state = State::kReady;
      // After the state: what it had to wait for until it fell asleep is in it.
      std::ifstream file(tasks->path() / "schedstat");
      std::int64_t ran_ns = 0, lacked_ns = 0;
      if (file >> ran_ns >> lacked_ns)
        lacks_[std::atoi(tasks->path().filename().c_str())].now = Nanoseconds(lacked_ns);
      else if (std::filesystem::exists(tasks->path(), error))
        is_told_ = false;
    }
  }
  return state;
}

std::chrono::nanoseconds OwnTime::look() {
  const auto now = Clock::now();  // first: the watcher itself may lose its processor
  const State state = look_at_threads();
  const Nanoseconds passed = now - last_look_;
  last_look_ = now;
  Nanoseconds lacked{0}, used{0};
  for (const auto &[thread, lack] : lacks_) lacked += lack.now - lack.before;
  for (const Process &each : processes_)
    used = std::max(used, processor_time_of(each.pid) - each.used_before);
  if (state == State::kAtDisk) at_disk_ += passed;
  if (state == State::kAsleep) slept_ += std::min(passed, kLookMax);
  // One that is ready lacks a processor since a time that is told when it gets one.
  if (state == State::kAsleep && is_told_) own_ = std::max(own_, now - begin_ - lacked - at_disk_);
  const Nanoseconds seen = is_told_ ? used : used + slept_;
  own_ = std::max(own_, std::min<Nanoseconds>(seen, now - begin_));
  return own_;
}

}  // namespace tmh::test
