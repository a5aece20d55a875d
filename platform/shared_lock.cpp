// platform/shared_lock.cpp -- spin briefly, then sleep on the futex, looking after the holder's
// life.
#include "platform/shared_lock.h"

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/futex.h"

namespace tmh::platform {

namespace {
// In ticks of the time stamp counter (2 to 4 per ns), because a pause takes 10 to 50 ns depending
// on the processor. Each look takes the lock's line, and with it the clock, away from the holder,
// which pays 30 to 70 ns to get it back: so about one look in the time that a small commit holds
// it. Two processes that do nothing but commit, us per commit (EPYC VM, a line moves in 30 ns):
// looks every 500 ns 0.19, 100 ns 0.17, 20 ns 0.15; on a Xeon (70 ns) 0.18, 0.20 and 0.38.
constexpr std::uint64_t kLookTicks = 200;
// The lock is held for 0.1 to 1 us by small commits. A holder that is interrupted keeps it for
// longer: others wait for as long as it would take to fall asleep and be woken, 10 us. Spinning on
// would starve the holder where both share a core.
constexpr std::uint64_t kSpinTicks = 26'000;
// unlock() may overlook a waiter that goes to sleep just then, so the first sleeps are short.
constexpr long kFirstSleepNs = 100'000, kLongestSleepNs = 2'000'000;
// Time asleep after which the holder's life is looked at. docs/design.md 8 allows a second, so this
// leaves a margin of 50.
constexpr long kDeathCheckNs = 20'000'000;
}  // namespace

bool SharedLock::try_lock(LockTag self, Alive is_alive, void *context) noexcept {
  if (try_lock(self)) return true;
  std::uint32_t seen = word_.load(std::memory_order_relaxed);
  if (seen == 0 || is_alive(context, LockTag{seen & ~kSleepers})) return false;
  // As in lock(): the word names one incarnation. The sleepers bit stays.
  return word_.compare_exchange_strong(seen, static_cast<std::uint32_t>(self) | (seen & kSleepers),
                                       std::memory_order_acquire, std::memory_order_relaxed);
}

// Another one has taken it.
Locked SharedLock::lock_taken(LockTag self, Alive is_alive, void *context) noexcept {
  TMH_ASSERT(static_cast<std::uint32_t>(self) != 0 && is_alive != nullptr);
  const auto own = static_cast<std::uint32_t>(self);
  const std::uint64_t start = __rdtsc();
  for (std::uint64_t now = start, looked = start; now - start < kSpinTicks; now = __rdtsc()) {
    _mm_pause();
    if (now - looked < kLookTicks) continue;
    looked = now;
    if (word_.load(std::memory_order_relaxed) == 0 && try_lock(self)) return Locked::kClean;
  }
  long sleep_ns = kFirstSleepNs, slept_ns = 0;
  for (;;) {
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    if (seen == 0) {
      // Keep the sleepers bit: others may sleep, and only an unlock that sees it wakes them.
      if (word_.compare_exchange_weak(seen, own | kSleepers, std::memory_order_acquire,
                                      std::memory_order_relaxed))
        return Locked::kClean;
      continue;
    }
    if ((seen & kSleepers) == 0 &&
        !word_.compare_exchange_weak(seen, seen | kSleepers, std::memory_order_relaxed,
                                     std::memory_order_relaxed))
      continue;
    seen |= kSleepers;
    if (!futex_wait(word_, seen, sleep_ns)) continue;
    slept_ns += sleep_ns;
    sleep_ns = std::min(2 * sleep_ns, kLongestSleepNs);
    if (slept_ns < kDeathCheckNs) continue;
    slept_ns = 0;
    if (is_alive(context, LockTag{seen & ~kSleepers})) continue;
    observe::step(observe::Step::kGapLockSuspected);
    // The word names one incarnation, so it cannot have come to mean another participant since.
    // acquire: see what the dead holder stored.
    if (word_.compare_exchange_strong(seen, own | kSleepers, std::memory_order_acquire,
                                      std::memory_order_relaxed))
      return Locked::kInherited;
  }
}

// Two plain instructions, not an exchange: that would wait until the line, which waiters may have
// taken, is back. A waiter that says it will sleep between the two is not woken by us; it looks
// again when its sleep ends.
void SharedLock::unlock() noexcept {
  TMH_ASSERT(word_.load(std::memory_order_relaxed) != 0);
  const std::uint32_t before = word_.load(std::memory_order_relaxed);
  word_.store(0, std::memory_order_release);  // pairs with the acquire of the next holder
  if ((before & kSleepers) != 0) futex_wake(word_, 1);
}

}  // namespace tmh::platform
