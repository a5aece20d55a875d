// tests/support/slowdown.h -- how much longer things may take here than in an optimised build on a
// quiet machine.
// Shape:     factor for deadlines after which something counts as hung. No test passes or fails by
//            being fast. ./check measures the machine and sets TMH_TEST_SLOWDOWN. slowdown.py has
//            the same for scripts.
#pragma once

#include <chrono>

namespace tmh::test {

// 1; more under a sanitizer (measured: address 3-8, thread 5-15). For how much is tested, too: a
// slow machine tests as much as any.
[[nodiscard]] unsigned build_slowdown() noexcept;
[[nodiscard]] bool is_thread_sanitized() noexcept;
// That times TMH_TEST_SLOWDOWN.
[[nodiscard]] unsigned slowdown();

// A process that waits this long for another one is hung: the longest wait in the tests is a
// child's whole run, a few seconds on a quiet machine, and other programs may begin to share it
// when it has been measured.
[[nodiscard]] inline std::chrono::milliseconds hang_deadline() {
  return std::chrono::seconds(120) * slowdown();
}

// docs/design.md 8: after a death everybody else goes on within a second; of their own time
// (own_time.h).
[[nodiscard]] inline std::chrono::milliseconds go_on_limit() {
  return std::chrono::seconds(1) * build_slowdown();
}

}  // namespace tmh::test
