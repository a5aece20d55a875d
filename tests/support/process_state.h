// tests/support/process_state.h -- when another thread or process waits for something.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/children.h"

namespace tmh::test {

// Of the process or thread with this folder of /proc: 'S' for sleep, 'T' where it is stopped, '?'
// where it is gone.
[[nodiscard]] inline char state_of(const std::string &proc_folder) {
  std::ifstream file(proc_folder + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(") ");
  return name_end == std::string::npos ? '?' : line[name_end + 2];
}

[[nodiscard]] inline bool is_sleeping(const std::string &proc_folder) {
  return state_of(proc_folder) == 'S';
}

[[nodiscard]] inline bool is_stopped(pid_t process) {
  return state_of("/proc/" + std::to_string(process)) == 'T';
}

// Waits until the thread of this process sleeps. 0: it has not said yet who it is.
inline void await_sleep(const std::atomic<pid_t> &thread) {
  ASSERT_TRUE(poll_until(
      [&] { return thread != 0 && is_sleeping("/proc/self/task/" + std::to_string(thread)); }));
}

// How often that thread of this process has waited in the kernel that has done so most; the calling
// one does not count.
[[nodiscard]] inline std::uint64_t most_waits_of_others() {
  std::uint64_t most = 0;
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream file(task.path() / "status");
    const std::string name = "voluntary_ctxt_switches:";
    for (std::string line; std::getline(file, line);)
      if (line.starts_with(name))
        most = std::max<std::uint64_t>(most, std::stoull(line.substr(name.size())));
  }
  return most;
}

}  // namespace tmh::test
