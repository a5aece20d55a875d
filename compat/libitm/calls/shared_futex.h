// compat/libitm/calls/shared_futex.h -- futexes in memory of the program, between tasks.
// Why not the C library's: another task may call the word's page back between the C library's
// access and the kernel's, which then says EFAULT. The C library aborts at that in a wait, and
// loses the wake-up.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

#include "compat/libitm/calls/plain_calls.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

namespace tmh::itm::pages {

using Word = std::atomic_ref<std::uint32_t>;
static_assert(Word::is_always_lock_free && Word::required_alignment == sizeof(std::uint32_t));

// Until the word is taken not to be there at all.
inline constexpr int kFutexTriesMax = 1000;

// A point of time on a clock; it never passes when `time` is null. time: as the caller gave it.
struct Until {
  clockid_t clock = CLOCK_REALTIME;
  const timespec *time = nullptr;

  [[nodiscard]] bool is_valid() const noexcept {
    return (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) &&
           (time == nullptr || (time->tv_nsec >= 0 && time->tv_nsec < 1'000'000'000));
  }
};

// Minus an error's number, or the result.
inline long futex_call(const std::uint32_t *word, int operation, std::uint32_t value,
                       const timespec *until) noexcept {
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(word) % sizeof *word == 0);
  const Interruption interruption(AfterHandler::kEnds);
  for (int tries = 1;; ++tries) {
    const long result =
        kernel_call(SYS_futex, reinterpret_cast<long>(word), operation, static_cast<long>(value),
                    reinterpret_cast<long>(until), 0, static_cast<long>(FUTEX_BITSET_MATCH_ANY));
    if (result == -EINTR && interruption.is_by_request()) continue;
    if (result != -EFAULT || !is_started() || tries >= kFutexTriesMax) return result;
    make_plain(word, sizeof *word, false);
  }
}

// Sleeps while *word == value. 0, EINTR or ETIMEDOUT; wakes spuriously.
inline int wait_on(const std::uint32_t *word, std::uint32_t value, const Until &until) noexcept {
  TMH_ASSERT(until.is_valid());
  if (until.time == nullptr)
    return futex_call(word, FUTEX_WAIT_BITSET, value, nullptr) == -EINTR ? EINTR : 0;
  if (until.time->tv_sec < 0) return ETIMEDOUT;
  const timespec time = *until.time;  // on the thread's own stack
  const int clock = until.clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0;
  const long result = futex_call(word, FUTEX_WAIT_BITSET | clock, value, &time);
  return result == -ETIMEDOUT || result == -EINTR ? static_cast<int>(-result) : 0;
}
inline void wake(const std::uint32_t *word, std::uint32_t waiters_max = INT_MAX) noexcept {
  TMH_ASSERT(0 < waiters_max && waiters_max <= INT_MAX);
  futex_call(word, FUTEX_WAKE, waiters_max, nullptr);
}

// The owner of a lock: the slot's task, or, where there are no tasks, the kernel's thread.
[[nodiscard]] inline std::uint32_t own_number() noexcept {
  return is_started() ? own_slot() + 1
                      : static_cast<std::uint32_t>(kernel_call(SYS_gettid, 0, 0, 0, 0, 0, 0));
}

}  // namespace tmh::itm::pages
