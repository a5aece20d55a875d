// levels/process/ground/kernel_call.h -- the kernel's calls, where the C library's would do
// more: store an errno in a thread's descriptor that is another's, say.
#pragma once

#include <signal.h>
#include <sys/syscall.h>

#include <cstdint>

namespace tmh::itm::pages {

// What the kernel takes as a mask of signals.
static_assert((NSIG - 1) / 8 == sizeof(std::uint64_t) && sizeof(sigset_t) >= sizeof(std::uint64_t));

// Minus an error's number, or the result. Async-signal-safe.
inline long kernel_call(long number, long a, long b, long c, long d, long e, long f) noexcept {
  long result = number;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

// All signals, while it lives, but those of accesses, which the thread may have to answer. The C
// library's calls would leave its two internal ones out.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    constexpr std::uint64_t kAccesses = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
    const std::uint64_t all = ~kAccesses;
    kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&all),
                reinterpret_cast<long>(&before_), sizeof all, 0, 0);
  }
  ~BlockedSignals() { set(before_); }
  BlockedSignals(const BlockedSignals &) = delete;
  BlockedSignals &operator=(const BlockedSignals &) = delete;

  [[nodiscard]] const sigset_t &before() const noexcept { return before_; }
  static void set(const sigset_t &mask) noexcept {
    kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&mask), 0,
                sizeof(std::uint64_t), 0, 0);
  }

 private:
  sigset_t before_{};
};

}  // namespace tmh::itm::pages
