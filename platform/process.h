// platform/process.h -- which processes are alive: each is named by pid and start time, because
// pids are reused; and by its stack's place, because exec keeps both.
// Contexts:  alive() is async-signal-safe (open, read, close, kill, stat and readlink only).
// Source:    docs/design.md 8.
#pragma once

#include <atomic>
#include <cstdint>

#include <tmh/error.hpp>

namespace tmh::platform {

struct ProcessId {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks after boot, field 22 of /proc/PID/stat
  // Field 28: random, and chosen anew by exec, which takes all mappings. 0: not known, as in
  // another user's process (or one that has become it).
  std::uint64_t stack_start = 0;
};

// False: /proc could not be read (errno says why), so no participant could tell whether this
// process lives.
[[nodiscard]] bool this_process(ProcessId *out) noexcept;

// Pids and start times mean something to processes with the same pid and time namespace alone: two
// containers may have the same ones.
struct Place {
  // Numbers of the namespaces; the kernel uses them again. clock is 0 before Linux 5.6.
  std::uint64_t pids = 0, clock = 0;
  bool operator==(const Place &) const = default;
};
// This process's. kIo and others: /proc cannot be read, or is another pid namespace's, so that pids
// looked up there would be others'. Not in a handler.
[[nodiscard]] Errc this_place(Place *out) noexcept;
// False once the process has ended, also while it is still an unreaped zombie, and once it runs
// another program (exec). True when in doubt: /proc cannot be read, or hides it, and its pid is
// somebody's who is no zombie as far as can be told; where addresses are not random, so that a new
// program's stack may be where the old one's was; or exec was of a program that changes the user.
[[nodiscard]] bool alive(ProcessId id) noexcept;

// SIGKILL, to that process and to no other that has got its pid since. False: it lives, as far as
// can be told, and has got none: it may not be killed by this process, there is no descriptor, or
// /proc does not show which process has the pid. True also when it has ended before. Not in a
// handler.
[[nodiscard]] bool kill_exactly(ProcessId id) noexcept;

// CLOCK_MONOTONIC. Async-signal-safe (vDSO).
[[nodiscard]] std::uint64_t monotonic_ns() noexcept;

// The same clock at the kernel's tick (1 to 10 ms): 5 ns instead of 25, for stamps that only say
// "about when".
[[nodiscard]] std::uint64_t coarse_ns() noexcept;
// CLOCK_REALTIME.
[[nodiscard]] std::uint64_t wall_clock_ns() noexcept;

// 36 characters and a zero; all zeros, and errno says why, where the file is hidden. Changes at
// every boot.
struct BootId {
  char text[40] = {};
  [[nodiscard]] bool is_known() const noexcept { return text[0] != 0; }
};
static_assert(sizeof(BootId) > 36);
[[nodiscard]] BootId this_boot() noexcept;

// Counts forks since the process started: a participant compares it with the value at its attach.
namespace detail {
extern std::atomic<std::uint32_t> forks;
}
[[nodiscard]] inline std::uint32_t fork_generation() noexcept {
  return detail::forks.load(std::memory_order_relaxed);
}

}  // namespace tmh::platform
