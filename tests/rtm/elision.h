// tests/rtm/elision.h -- lock elision as every tutorial shows it: try a transaction that reads the
// lock, else take the lock.
// Shape:     the lock is one word; the fallback writes natively, which is what a commit must not
//            overlap.
#pragma once

#include <sched.h>

#include <atomic>

#include "tests/rtm/rtm.h"

namespace tmh::test {

struct ElidedLock {
  alignas(64) std::atomic<int> word{0};
};
inline constexpr unsigned kLockBusy = 0xFF;

inline void lock_natively(ElidedLock *lock) {
  int free = 0;
  while (!lock->word.compare_exchange_weak(free, 1, std::memory_order_acquire)) {
    free = 0;
    ::sched_yield();
  }
}
inline void unlock_natively(ElidedLock *lock) { lock->word.store(0, std::memory_order_release); }

// True: elided.
template <class Body>
bool run_elided(ElidedLock *lock, int attempts, const Body &body) {
  for (int i = 0; i < attempts; ++i) {
    const std::uint32_t status = attempt([&] {
      if (lock->word.load(std::memory_order_relaxed) != 0) rtm_abort<kLockBusy>();
      body();
    });
    if (status == kRtmCommitted) return true;
    while (lock->word.load(std::memory_order_relaxed) != 0) ::sched_yield();
  }
  lock_natively(lock);
  body();
  unlock_natively(lock);
  return false;
}

}  // namespace tmh::test
