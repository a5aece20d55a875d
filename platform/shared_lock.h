// platform/shared_lock.h -- a lock in shared memory that says who holds it and survives its holder's death.
// Shape:     32-bit futex word: 0 free, else holder's participant slot + 1, with bit 31 "somebody sleeps".
// Invariant: only the holder, or the one who inherits from a dead holder, changes the word from non-zero.
// Ordering:  lock() acquires what unlock() released; inheriting acquires whatever the dead holder had stored, which may be half
//            done: the inheritor repairs it before it goes on.
// Sharing:   between processes. A stopped (not dead) holder makes others wait.
// Contexts:  lock() and unlock() are async-signal-safe, provided that the interrupted code of this thread does not hold the lock.
// Why not a robust pthread mutex: it is not async-signal-safe and its layout is glibc's (STYLE 4).
#pragma once

#include <atomic>
#include <cstdint>

namespace tmh::platform {

enum class Locked : std::uint8_t { kClean, kInherited };

class SharedLock {
 public:
  // Is the participant in `slot` alive? Async-signal-safe.
  using Alive = bool (*)(void *context, std::uint32_t slot);

  // kInherited: the holder died inside; its work must be repaired.
  [[nodiscard]] Locked lock(std::uint32_t slot, Alive is_alive, void *context) noexcept;
  // True when it was free.
  [[nodiscard]] bool try_lock(std::uint32_t slot) noexcept;
  void unlock() noexcept;
  [[nodiscard]] bool held_by(std::uint32_t slot) const noexcept {
    return (word_.load(std::memory_order_relaxed) & ~kSleepers) == slot + 1;  // relaxed: a question about oneself
  }
  // relaxed: a hint for liveness checks, decided again under the lock
  [[nodiscard]] bool is_held() const noexcept { return word_.load(std::memory_order_relaxed) != 0; }

 private:
  static constexpr std::uint32_t kSleepers = 0x8000'0000u;
  std::atomic<std::uint32_t> word_;
};
static_assert(sizeof(SharedLock) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace tmh::platform
