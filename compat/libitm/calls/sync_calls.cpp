// compat/libitm/calls/sync_calls.cpp -- read-write locks, barriers, semaphores and once, between
// tasks; and code that waits on a futex by itself.
// Shape:     semaphores are laid out as the C library's, since named ones are shared with programs
//            on it. The others are this library's own, zero where static.
// Limits:    all but semaphores are not for memory shared with programs on the C library.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "compat/libitm/calls/shared_futex.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

namespace tmh::itm::pages {

namespace {

enum class Patience { kNone, kAll };

struct ReadWriteLock {
  std::uint32_t state;  // readers, and the bits below
  std::uint32_t writer;
};
constexpr std::uint32_t kWriter = 1u << 31, kAwaited = 1u << 30, kReaders = kAwaited - 1;
static_assert(sizeof(ReadWriteLock) <= sizeof(pthread_rwlock_t) &&
              alignof(ReadWriteLock) <= alignof(pthread_rwlock_t));
static_assert((kWriter & kAwaited) == 0 && kTasksMax < kReaders);
[[nodiscard]] ReadWriteLock &own(pthread_rwlock_t *lock) noexcept {
  return *reinterpret_cast<ReadWriteLock *>(lock);
}

// Takes the lock once may(state): then the state is next(state).
template <class May, class Next>
[[nodiscard]] int take(ReadWriteLock &lock, Patience patience, const Until &until, May may,
                       Next next) noexcept {
  Word state(lock.state);
  std::uint32_t seen = state.load(std::memory_order_relaxed);
  for (;;) {
    if (may(seen)) {
      // acquire: what its owners before have done
      if (state.compare_exchange_weak(seen, next(seen), std::memory_order_acquire)) return 0;
      continue;
    }
    if (patience == Patience::kNone) return EBUSY;
    if (Word(lock.writer).load(std::memory_order_relaxed) == own_number()) return EDEADLK;
    if (!until.is_valid()) return EINVAL;
    if ((seen & kAwaited) == 0 &&
        !state.compare_exchange_weak(seen, seen | kAwaited, std::memory_order_relaxed))
      continue;
    if (wait_on(&lock.state, seen | kAwaited, until) == ETIMEDOUT) return ETIMEDOUT;
    seen = state.load(std::memory_order_relaxed);
  }
}

[[nodiscard]] int lock_to_read(pthread_rwlock_t *lock, Patience patience,
                               const Until &until) noexcept {
  return take(
      own(lock), patience, until, [](std::uint32_t state) { return (state & kWriter) == 0; },
      [](std::uint32_t state) { return state + 1; });
}

[[nodiscard]] int lock_to_write(pthread_rwlock_t *lock, Patience patience,
                                const Until &until) noexcept {
  const int error = take(
      own(lock), patience, until, [](std::uint32_t state) { return (state & ~kAwaited) == 0; },
      [](std::uint32_t state) { return state | kWriter; });
  TMH_ASSERT(error != 0 || Word(own(lock).writer).load(std::memory_order_relaxed) == 0);
  if (error == 0) Word(own(lock).writer).store(own_number(), std::memory_order_relaxed);
  return error;
}

void unlock(ReadWriteLock &lock) noexcept {
  Word state(lock.state);
  std::uint32_t seen = state.load(std::memory_order_relaxed);
  if ((seen & kWriter) != 0) Word(lock.writer).store(0, std::memory_order_relaxed);
  std::uint32_t next = 0;
  do {
    const bool is_last = (seen & kWriter) != 0 || (seen & kReaders) == 1;
    next = is_last ? 0 : seen - 1;
    // release: pairs with take()
  } while (!state.compare_exchange_weak(seen, next, std::memory_order_release));
  if (next == 0 && (seen & kAwaited) != 0) wake(&lock.state);
}

struct Barrier {
  std::uint32_t count, arrived, round;
  std::uint32_t inside;  // that have not left the call
};
static_assert(sizeof(Barrier) <= sizeof(pthread_barrier_t) &&
              alignof(Barrier) <= alignof(pthread_barrier_t));
[[nodiscard]] Barrier &own(pthread_barrier_t *barrier) noexcept {
  return *reinterpret_cast<Barrier *>(barrier);
}

// The C library's: the value in the lower half, those that wait in the upper.
struct Semaphore {
  std::uint64_t state;
};
constexpr std::uint64_t kWaiting = 1ull << 32;
static_assert(sizeof(Semaphore) <= sizeof(sem_t) && alignof(Semaphore) <= alignof(sem_t));
static_assert(SEM_VALUE_MAX < kWaiting && std::atomic_ref<std::uint64_t>::is_always_lock_free);
static_assert(std::endian::native == std::endian::little);  // value_of()
[[nodiscard]] Semaphore &own(sem_t *semaphore) noexcept {
  return *reinterpret_cast<Semaphore *>(semaphore);
}
[[nodiscard]] std::uint32_t *value_of(Semaphore &semaphore) noexcept {
  return reinterpret_cast<std::uint32_t *>(&semaphore.state);
}

// 0, or an error's number.
[[nodiscard]] int take(Semaphore &semaphore, Patience patience, const Until &until) noexcept {
  std::atomic_ref state(semaphore.state);
  std::uint64_t seen = state.load(std::memory_order_relaxed);
  while (static_cast<std::uint32_t>(seen) != 0)
    if (state.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire)) return 0;
  if (patience == Patience::kNone) return EAGAIN;
  if (!until.is_valid()) return EINVAL;
  if (is_started()) give_up_holds();
  seen = state.fetch_add(kWaiting, std::memory_order_relaxed) + kWaiting;
  for (;;) {
    if (static_cast<std::uint32_t>(seen) != 0) {
      if (state.compare_exchange_weak(seen, seen - 1 - kWaiting, std::memory_order_acquire))
        return 0;
      continue;
    }
    const int error = wait_on(value_of(semaphore), 0, until);
    if (error != 0) {
      state.fetch_sub(kWaiting, std::memory_order_relaxed);
      return error;
    }
    seen = state.load(std::memory_order_relaxed);
  }
}

[[nodiscard]] int or_errno(int error) noexcept {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace

}  // namespace tmh::itm::pages

using namespace tmh::itm::pages;  // NOLINT(google-build-using-namespace)

extern "C" {

TMH_EXPORTED int pthread_rwlock_destroy(pthread_rwlock_t *) noexcept { return 0; }
TMH_EXPORTED int pthread_rwlock_rdlock(pthread_rwlock_t *lock) noexcept {
  return lock_to_read(lock, Patience::kAll, {});
}
TMH_EXPORTED int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock) noexcept {
  return lock_to_read(lock, Patience::kNone, {});
}
TMH_EXPORTED int pthread_rwlock_timedrdlock(pthread_rwlock_t *lock,
                                            const timespec *until) noexcept {
  return lock_to_read(lock, Patience::kAll, {CLOCK_REALTIME, until});
}
TMH_EXPORTED int pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock,
                                            const timespec *until) noexcept {
  return lock_to_read(lock, Patience::kAll, {clock, until});
}
TMH_EXPORTED int pthread_rwlock_wrlock(pthread_rwlock_t *lock) noexcept {
  return lock_to_write(lock, Patience::kAll, {});
}
TMH_EXPORTED int pthread_rwlock_trywrlock(pthread_rwlock_t *lock) noexcept {
  return lock_to_write(lock, Patience::kNone, {});
}
TMH_EXPORTED int pthread_rwlock_timedwrlock(pthread_rwlock_t *lock,
                                            const timespec *until) noexcept {
  return lock_to_write(lock, Patience::kAll, {CLOCK_REALTIME, until});
}
TMH_EXPORTED int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock,
                                            const timespec *until) noexcept {
  return lock_to_write(lock, Patience::kAll, {clock, until});
}
TMH_EXPORTED int pthread_rwlock_unlock(pthread_rwlock_t *lock) noexcept {
  unlock(own(lock));
  return 0;
}

TMH_EXPORTED int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *,
                                      unsigned count) noexcept {
  if (count == 0 || count > INT_MAX) return EINVAL;
  own(barrier) = {count, 0, 0, 0};
  return 0;
}
TMH_EXPORTED int pthread_barrier_destroy(pthread_barrier_t *barrier) noexcept {
  Word inside(own(barrier).inside);
  // acquire: those that leave look at the round until then
  while (const std::uint32_t seen = inside.load(std::memory_order_acquire))
    wait_on(&own(barrier).inside, seen, {});
  return 0;
}
TMH_EXPORTED int pthread_barrier_wait(pthread_barrier_t *barrier) noexcept {
  Barrier &all = own(barrier);
  Word inside(all.inside), round(all.round);
  inside.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t seen = round.load(std::memory_order_relaxed);
  const bool is_last = Word(all.arrived).fetch_add(1, std::memory_order_acq_rel) + 1 == all.count;
  if (is_last) {
    Word(all.arrived).store(0, std::memory_order_relaxed);
    round.store(seen + 1, std::memory_order_release);
    wake(&all.round);
  } else {
    if (is_started()) give_up_holds();
    while (round.load(std::memory_order_acquire) == seen) wait_on(&all.round, seen, {});
  }
  TMH_ASSERT(inside.load(std::memory_order_relaxed) != 0);
  if (inside.fetch_sub(1, std::memory_order_release) == 1) wake(&all.inside);
  return is_last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

TMH_EXPORTED int sem_init(sem_t *semaphore, int, unsigned value) noexcept {
  return TMH_REAL_OF(sem_init, "GLIBC_2.34")(semaphore, 1, value);
}
TMH_EXPORTED int sem_wait(sem_t *semaphore) {
  return or_errno(take(own(semaphore), Patience::kAll, {}));
}
TMH_EXPORTED int sem_trywait(sem_t *semaphore) noexcept {
  return or_errno(take(own(semaphore), Patience::kNone, {}));
}
TMH_EXPORTED int sem_timedwait(sem_t *semaphore, const timespec *until) {
  return or_errno(take(own(semaphore), Patience::kAll, {CLOCK_REALTIME, until}));
}
TMH_EXPORTED int sem_clockwait(sem_t *semaphore, clockid_t clock, const timespec *until) {
  return or_errno(take(own(semaphore), Patience::kAll, {clock, until}));
}
TMH_EXPORTED int sem_post(sem_t *semaphore) noexcept {
  std::atomic_ref state(own(semaphore).state);
  std::uint64_t seen = state.load(std::memory_order_relaxed);
  do
    if (static_cast<std::uint32_t>(seen) == SEM_VALUE_MAX) return or_errno(EOVERFLOW);
  while (!state.compare_exchange_weak(seen, seen + 1, std::memory_order_release));
  if (seen >= kWaiting) wake(value_of(own(semaphore)), 1);
  return 0;
}

// 0: not yet, 1: a thread is in it, 2: done, as the C library says.
TMH_EXPORTED int pthread_once(pthread_once_t *control, void (*routine)()) {
  static_assert(sizeof(pthread_once_t) == sizeof(std::uint32_t) && PTHREAD_ONCE_INIT == 0);
  auto *const at = reinterpret_cast<std::uint32_t *>(control);
  const Word word(*at);
  for (;;) {
    // acquire: what the routine has done
    std::uint32_t state = word.load(std::memory_order_acquire);
    if (state == 2) return 0;
    if (state == 1) {
      wait_on(at, 1, {});
      continue;
    }
    if (!word.compare_exchange_strong(state, 1, std::memory_order_acq_rel)) continue;
    try {
      routine();
    } catch (...) {
      word.store(0, std::memory_order_release);
      wake(at);
      throw;
    }
    word.store(2, std::memory_order_release);
    wake(at);
    return 0;
  }
}

// std::atomic, futures and function-local statics wait by this call. Private futexes are shared
// ones between tasks.
TMH_EXPORTED long syscall(long number, ...) noexcept {
  std::va_list list;
  va_start(list, number);
  long a[6];
  for (long &each : a) each = va_arg(list, long);
  va_end(list);
  for (int tries = 1;; ++tries) {
    if (number == SYS_futex) {
      a[1] &= ~static_cast<long>(FUTEX_PRIVATE_FLAG);
      const long command = a[1] & FUTEX_CMD_MASK;
      if ((command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) && is_started()) give_up_holds();
    }
    const long result = kernel_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_futex && result == -EFAULT && is_started() && tries < kFutexTriesMax) {
      make_plain(reinterpret_cast<void *>(a[0]), sizeof(std::uint32_t), false);  // NOLINT
      continue;
    }
    if (result >= 0 || result <= -4096) return result;
    errno = static_cast<int>(-result);
    return -1;
  }
}

}  // extern "C"
