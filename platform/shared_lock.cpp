// platform/shared_lock.cpp -- spin briefly, then sleep on the futex, looking after the holder's life.
#include "platform/shared_lock.h"

#include <immintrin.h>

#include "platform/futex.h"

namespace tmh::platform {

namespace {
// The lock is held for 0.1 to 1 us by small commits: 200 pauses (about 5 us) cover that; longer spinning would starve the
// holder where both share a core.
constexpr int kPausesMax = 200;
// Each look takes the lock's line, and with it the clock, away from the holder, who pays 70 ns to get it back: look seldom.
constexpr int kPausesPerLook = 4;
// A dead holder is found after one such wait; DESIGN 8 allows a second, so this leaves a margin of 50.
constexpr long kDeathCheckNs = 20'000'000;
}  // namespace

bool SharedLock::try_lock(LockTag self) noexcept {
  std::uint32_t expected = 0;
  // acquire: pairs with the release in unlock(). Failure needs no order: nothing is read.
  return word_.compare_exchange_strong(expected, static_cast<std::uint32_t>(self), std::memory_order_acquire,
                                       std::memory_order_relaxed);
}

Locked SharedLock::lock(LockTag self, Alive is_alive, void *context) noexcept {
  const auto own = static_cast<std::uint32_t>(self);
  // At once, without looking: a look would fetch the line to share it, and the exchange once more to own it.
  if (try_lock(self)) return Locked::kClean;
  for (int pauses = 0; pauses < kPausesMax; ++pauses) {
    _mm_pause();
    if (pauses % kPausesPerLook == kPausesPerLook - 1 && word_.load(std::memory_order_relaxed) == 0 && try_lock(self))
      return Locked::kClean;
  }
  for (;;) {
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    if (seen == 0) {
      // Keep the sleepers bit: others may sleep, and only an unlock that sees it wakes them.
      if (word_.compare_exchange_weak(seen, own | kSleepers, std::memory_order_acquire, std::memory_order_relaxed))
        return Locked::kClean;
      continue;
    }
    if ((seen & kSleepers) == 0 &&
        !word_.compare_exchange_weak(seen, seen | kSleepers, std::memory_order_relaxed, std::memory_order_relaxed))
      continue;
    seen |= kSleepers;
    if (!futex_wait(word_, seen, kDeathCheckNs)) continue;
    if (is_alive(context, LockTag{seen & ~kSleepers})) continue;
    // The word names one incarnation, so it cannot have come to mean somebody else since. acquire: see what the dead holder stored.
    if (word_.compare_exchange_strong(seen, own | kSleepers, std::memory_order_acquire, std::memory_order_relaxed))
      return Locked::kInherited;
  }
}

void SharedLock::unlock() noexcept {
  // release: pairs with the acquire of the next holder.
  const std::uint32_t before = word_.exchange(0, std::memory_order_release);
  if ((before & kSleepers) != 0) futex_wake(word_, 1);
}

}  // namespace tmh::platform
