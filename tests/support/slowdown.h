// tests/support/slowdown.h -- how much longer things may take here than in an optimised build on a
// quiet machine.
// Shape:     factor for deadlines after which something counts as hung. No test passes or fails by
//            being fast.
#pragma once

#include <chrono>

namespace tmh::test {

// 1; more under a sanitizer (measured: address 3-8, thread 5-15); TMH_TEST_SLOWDOWN=<n> multiplies
// it.
[[nodiscard]] unsigned slowdown();

// A process that waits this long for another one is hung: the longest wait in the tests is a
// child's whole run, a few seconds.
[[nodiscard]] inline std::chrono::milliseconds hang_deadline() {
  return std::chrono::seconds(60) * slowdown();
}

// docs/design.md 8: after a death everybody else goes on within a second.
[[nodiscard]] inline std::chrono::milliseconds go_on_deadline() {
  return std::chrono::seconds(1) * slowdown();
}

}  // namespace tmh::test
