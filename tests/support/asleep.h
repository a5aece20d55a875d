// tests/support/asleep.h -- when another thread or process waits for something.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <fstream>
#include <string>

#include "tests/support/children.h"

namespace tmh::test {

// Does the process or thread with this folder of /proc sleep in the kernel?
[[nodiscard]] inline bool is_asleep(const std::string &proc_folder) {
  std::ifstream file(proc_folder + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.substr(name_end, 3) == ") S";
}

// Waits until the thread of this process sleeps. 0: it has not said yet who it is.
inline void await_asleep(const std::atomic<pid_t> &thread) {
  ASSERT_TRUE(poll_until([&] { return thread != 0 && is_asleep("/proc/self/task/" + std::to_string(thread)); }));
}

}  // namespace tmh::test
