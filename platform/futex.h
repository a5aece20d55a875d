// platform/futex.h -- waiting on a word in shared memory.
// Why not std::atomic::wait: libstdc++ 12 parks on a private futex, and a peer in another process
// is not woken (docs/style.md 4).
// Contexts:  async-signal-safe; errno is preserved.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace tmh::platform {

// Sleeps while *word == value. True: the whole time-out passed. Wakes spuriously; callers look
// again.
inline bool futex_wait(std::atomic<std::uint32_t> &word, std::uint32_t value,
                       long timeout_ns) noexcept {
  const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  const int saved_errno = errno;
  const long result = syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&word), FUTEX_WAIT,
                              value, &timeout, nullptr, 0);
  const bool timed_out = result != 0 && errno == ETIMEDOUT;
  errno = saved_errno;
  return timed_out;
}

inline void futex_wake(std::atomic<std::uint32_t> &word, int waiters_max = INT_MAX) noexcept {
  const int saved_errno = errno;
  syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&word), FUTEX_WAKE, waiters_max, nullptr,
          nullptr, 0);
  errno = saved_errno;
}

// Adds to *word, from -2048 to 2047, in the kernel: where the file behind it has become too short,
// or may not be written, the answer is false and no signal. REQUIRES: no thread waits on `word`.
[[nodiscard]] inline bool futex_add(std::atomic<std::uint32_t> &word, int value) noexcept {
  const int saved_errno = errno;
  auto *const at = reinterpret_cast<std::uint32_t *>(&word);
  const std::uint32_t operation = static_cast<std::uint32_t>(FUTEX_OP_ADD) << 28 |
                                  (static_cast<std::uint32_t>(value) & 0xfffu) << 12;
  const long result = syscall(SYS_futex, at, FUTEX_WAKE_OP, 0, nullptr, at, operation);
  errno = saved_errno;
  return result >= 0;
}

// While it lives, this thread's time-outs end when they should (22 us late here) and not up to 50
// us later, the default slack that lets the kernel gather wake-ups.
class PreciseTimers {
 public:
  PreciseTimers() noexcept : slack_ns_(prctl(PR_GET_TIMERSLACK)) { prctl(PR_SET_TIMERSLACK, 1UL); }
  ~PreciseTimers() {
    if (slack_ns_ > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_ns_));
  }
  PreciseTimers(const PreciseTimers &) = delete;
  PreciseTimers &operator=(const PreciseTimers &) = delete;

 private:
  const int slack_ns_;
};

}  // namespace tmh::platform
