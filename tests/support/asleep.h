// tests/support/asleep.h -- when another thread of this process waits for something.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <fstream>
#include <string>

#include "tests/support/children.h"

namespace tmh::test {

// Waits until the thread sleeps in the kernel. 0: it has not said yet who it is.
inline void await_asleep(const std::atomic<pid_t> &thread) {
  ASSERT_TRUE(poll_until([&] {
    if (thread == 0) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(')');
    return name_end != std::string::npos && line.substr(name_end, 3) == ") S";
  }));
}

}  // namespace tmh::test
