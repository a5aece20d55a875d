// rtm_emulator/system.h -- what the emulator needs of the kernel, without libc.
// Contexts:  everywhere, also inside an emulated transaction: no errno, no vector registers, no
//            thread-local storage.
// Source:    Linux system call table, x86-64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::rtm {

inline constexpr std::uint64_t kLineBytes = 64;
inline constexpr std::uint64_t kPageBytes = 4096;
static_assert(kPageBytes % kLineBytes == 0, "no line lies in two pages");

// Numbers of <sys/syscall.h>; kept here because that header's names are macros.
enum class Call : long {
  kWrite = 1,
  kOpen = 2,
  kClose = 3,
  kMmap = 9,
  kMunmap = 11,
  kRtSigaction = 13,
  kRtSigprocmask = 14,
  kPread = 17,
  kSchedYield = 24,
  kMremap = 25,
  kMadvise = 28,
  kNanosleep = 35,
  kGetpid = 39,
  kGettid = 186,
  kFutex = 202,
  kSigaltstack = 131,
  kTgkill = 234,
};

inline long system_call(Call call, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0,
                        std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0) noexcept {
  long result = 0;
  register std::uint64_t r10 asm("r10") = d;
  register std::uint64_t r8 asm("r8") = e;
  register std::uint64_t r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(static_cast<long>(call)), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

template <class T>
[[nodiscard]] inline std::uint64_t address_of(const T *pointer) noexcept {
  return reinterpret_cast<std::uint64_t>(pointer);
}

// memcpy and memset would be calls into libc, which uses vector registers.
inline void copy_bytes(void *to, const void *from, std::size_t count) noexcept {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}
inline void clear_bytes(void *to, std::size_t count) noexcept {
  asm volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(0) : "memory");
}

// XSAVE and XRSTOR of the live registers; 64-byte aligned, standard form. mask: which parts.
inline void save_vectors(void *area, std::uint64_t mask) noexcept {
  asm volatile("xsave64 (%0)" : : "r"(area), "a"(mask & 0xFFFF'FFFF), "d"(mask >> 32) : "memory");
}
inline void restore_vectors(const void *area, std::uint64_t mask) noexcept {
  asm volatile("xrstor64 (%0)" : : "r"(area), "a"(mask & 0xFFFF'FFFF), "d"(mask >> 32) : "memory");
}

inline bool is_error(long result) noexcept { return result < 0 && result > -4096; }

// Zeroed memory of our own, or null. Shared: children of fork() see the same.
enum class Sharing : std::uint8_t { kPrivate, kShared };
inline void *map_memory(std::size_t bytes, Sharing sharing, bool executable = false) noexcept {
  constexpr std::uint64_t kReadWrite = 3, kExecute = 4, kMapShared = 1, kMapPrivate = 2,
                          kAnonymous = 0x20, kNoReserve = 0x4000;
  const long result = system_call(
      Call::kMmap, 0, bytes, kReadWrite | (executable ? kExecute : 0),
      (sharing == Sharing::kShared ? kMapShared : kMapPrivate) | kAnonymous | kNoReserve,
      ~std::uint64_t{0}, 0);
  return is_error(result) ? nullptr : reinterpret_cast<void *>(result);
}

struct TimeSpec {
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
};
inline void sleep_ns(std::uint64_t nanoseconds) noexcept {
  const TimeSpec time{static_cast<std::int64_t>(nanoseconds / 1'000'000'000),
                      static_cast<std::int64_t>(nanoseconds % 1'000'000'000)};
  (void)system_call(Call::kNanosleep, address_of(&time), 0);
}

[[nodiscard]] inline std::uint64_t pid_and_tid() noexcept {
  return static_cast<std::uint64_t>(system_call(Call::kGetpid)) << 32 |
         static_cast<std::uint64_t>(system_call(Call::kGettid));
}

// Accesses to the program's memory that may fault: false instead of a signal. REQUIRES that the
// fault handler asks recover_access().
[[nodiscard]] bool try_copy_bytes(void *to, const void *from, std::size_t count) noexcept;
[[nodiscard]] bool try_compare_bytes(const void *left, const void *right, std::size_t count,
                                     bool *equal) noexcept;
// Where to go on after a fault at `rip`, when that is inside of the two functions above; else 0.
[[nodiscard]] std::uint64_t recover_access(std::uint64_t rip) noexcept;

}  // namespace tmh::rtm
