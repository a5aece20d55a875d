// platform/shared_lock.h -- a lock in shared memory that says who holds it and survives its
// holder's death.
// Shape:     32-bit futex word: 0 free, else the holder's LockTag, with bit 31 "a waiter sleeps".
// Invariant: only the holder, or the one who inherits from a dead holder, changes the word from
//            non-zero.
// Ordering:  lock() acquires what unlock() released; inheriting acquires whatever the dead holder
//            had stored, which may be half done: the inheritor repairs it before it goes on.
// Sharing:   between processes. A stopped (not dead) holder makes others wait.
// Contexts:  lock() and unlock() are async-signal-safe, provided that the interrupted code of this
//            thread does not hold the lock.
// Why not a robust pthread mutex: it is not async-signal-safe and its layout is glibc's
// (docs/style.md 4).
#pragma once

#include <atomic>
#include <cstdint>

#include "platform/assert.h"

namespace tmh::platform {

// Names a holder: participant slot + 1 in the lower 17 bits, 14 bits of its incarnation above. The
// slot alone would not do: between a waiter's finding the holder dead and its taking over, the slot
// may pass to a new process that holds the lock by right.
enum class LockTag : std::uint32_t {};
[[nodiscard]] constexpr LockTag lock_tag(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  return LockTag{((static_cast<std::uint32_t>(incarnation) & 0x3fffu) << 17) | (slot + 1)};
}
[[nodiscard]] constexpr std::uint32_t slot_of(LockTag tag) noexcept {
  return (static_cast<std::uint32_t>(tag) & 0x1ffffu) - 1;
}

enum class Locked : std::uint8_t { kClean, kInherited };

class SharedLock {
 public:
  // Is the holder alive? False also when its slot has passed to another process. Async-signal-safe.
  using Alive = bool (*)(void *context, LockTag holder);

  // kInherited: the holder died inside; its work must be repaired.
  [[nodiscard]] Locked lock(LockTag self, Alive is_alive, void *context) noexcept {
    // At once, without looking: a look would fetch the line to share it, and the exchange once more
    // to own it.
    return try_lock(self) ? Locked::kClean : lock_taken(self, is_alive, context);
  }
  // True when it was free.
  [[nodiscard]] bool try_lock(LockTag self) noexcept {
    TMH_ASSERT((static_cast<std::uint32_t>(self) & kSleepers) == 0);
    std::uint32_t expected = 0;
    // acquire: pairs with the release in unlock(). Failure needs no order: nothing is read.
    return word_.compare_exchange_strong(expected, static_cast<std::uint32_t>(self),
                                         std::memory_order_acquire, std::memory_order_relaxed);
  }
  // True also when its holder is dead.
  [[nodiscard]] bool try_lock(LockTag self, Alive is_alive, void *context) noexcept;
  void unlock() noexcept;
  // A waiter sleeps, or has slept in this holder's time. relaxed: nothing else is read by it.
  [[nodiscard]] bool has_sleepers() const noexcept {
    return (word_.load(std::memory_order_relaxed) & kSleepers) != 0;
  }
  // What its holders have done so far comes before what the caller does next. acquire: pairs with
  // unlock().
  void acquire_only() const noexcept { static_cast<void>(word_.load(std::memory_order_acquire)); }

 private:
  [[nodiscard]] Locked lock_taken(LockTag self, Alive is_alive, void *context) noexcept;

  static constexpr std::uint32_t kSleepers = 0x8000'0000u;
  std::atomic<std::uint32_t> word_;
};
static_assert(sizeof(SharedLock) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace tmh::platform
