// compat/libitm/pages/sync_calls.cpp -- mutexes, condition variables and the like, between tasks:
// each object is told to be shared between processes before the C library uses it, whichever way
// it was initialised. The C library's futexes are then shared ones.
// Limits:    of C's <threads.h>, only what calls these functions. A thread that dies with a mutex
//            leaves it locked, as threads do.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compat/libitm/pages/engine.h"
#include "compat/libitm/pages/real.h"
#include "platform/futex.h"

namespace tmh::itm::pages {

namespace {

// As the C library 2.34 and later lays objects out; check_layouts() compares.
constexpr int kMutexShared = 128;
constexpr unsigned kConditionShared = 1;

void share(pthread_mutex_t *mutex) noexcept {
  std::atomic_ref<int> kind(mutex->__data.__kind);
  if ((kind.load(std::memory_order_relaxed) & kMutexShared) == 0)
    kind.fetch_or(kMutexShared, std::memory_order_relaxed);
}
void share(pthread_cond_t *condition) noexcept {
  std::atomic_ref<unsigned> references(condition->__data.__wrefs);
  if ((references.load(std::memory_order_relaxed) & kConditionShared) == 0)
    references.fetch_or(kConditionShared, std::memory_order_relaxed);
}
void share(pthread_rwlock_t *lock) noexcept {
  std::atomic_ref<int> shared(lock->__data.__shared);
  if (shared.load(std::memory_order_relaxed) == 0) shared.store(1, std::memory_order_relaxed);
}

// What an attribute makes of an object is what share() makes of a static one.
[[gnu::constructor]] void check_layouts() {
  pthread_mutexattr_t mutex_attributes;
  pthread_mutexattr_init(&mutex_attributes);
  pthread_mutexattr_setpshared(&mutex_attributes, PTHREAD_PROCESS_SHARED);
  pthread_condattr_t condition_attributes;
  pthread_condattr_init(&condition_attributes);
  pthread_condattr_setpshared(&condition_attributes, PTHREAD_PROCESS_SHARED);
  pthread_rwlockattr_t lock_attributes;
  pthread_rwlockattr_init(&lock_attributes);
  pthread_rwlockattr_setpshared(&lock_attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutex_t mutex, static_mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition, static_condition = PTHREAD_COND_INITIALIZER;
  pthread_rwlock_t lock, static_lock = PTHREAD_RWLOCK_INITIALIZER;
  std::memset(&mutex, 0, sizeof mutex);
  std::memset(&condition, 0, sizeof condition);
  std::memset(&lock, 0, sizeof lock);
  TMH_REAL(pthread_mutex_init)(&mutex, &mutex_attributes);
  TMH_REAL_OF(pthread_cond_init, "GLIBC_2.3.2")(&condition, &condition_attributes);
  TMH_REAL(pthread_rwlock_init)(&lock, &lock_attributes);
  share(&static_mutex);
  share(&static_condition);
  share(&static_lock);
  if (std::memcmp(&mutex, &static_mutex, sizeof mutex) == 0 &&
      std::memcmp(&condition, &static_condition, sizeof condition) == 0 &&
      std::memcmp(&lock, &static_lock, sizeof lock) == 0)
    return;
  std::fputs("libitm (tmh): method pages does not know this C library's mutexes\n", stderr);
  _exit(2);
}

}  // namespace

}  // namespace tmh::itm::pages

using namespace tmh::itm::pages;  // NOLINT(google-build-using-namespace)

extern "C" {

TMH_EXPORTED int pthread_mutex_init(pthread_mutex_t *mutex,
                                    const pthread_mutexattr_t *attributes) noexcept {
  const int error = TMH_REAL(pthread_mutex_init)(mutex, attributes);
  if (error == 0) share(mutex);
  return error;
}
TMH_EXPORTED int pthread_mutex_trylock(pthread_mutex_t *mutex) noexcept {
  share(mutex);
  return TMH_REAL(pthread_mutex_trylock)(mutex);
}
TMH_EXPORTED int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept {
  share(mutex);
  return TMH_REAL(pthread_mutex_lock)(mutex);
}
TMH_EXPORTED int pthread_mutex_timedlock(pthread_mutex_t *mutex, const timespec *until) noexcept {
  share(mutex);
  return TMH_REAL(pthread_mutex_timedlock)(mutex, until);
}
TMH_EXPORTED int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                         const timespec *until) noexcept {
  share(mutex);
  return TMH_REAL(pthread_mutex_clocklock)(mutex, clock, until);
}

TMH_EXPORTED int pthread_cond_init(pthread_cond_t *condition,
                                   const pthread_condattr_t *attributes) noexcept {
  const int error = TMH_REAL_OF(pthread_cond_init, "GLIBC_2.3.2")(condition, attributes);
  if (error == 0) share(condition);
  return error;
}
TMH_EXPORTED int pthread_cond_signal(pthread_cond_t *condition) noexcept {
  share(condition);
  return TMH_REAL_OF(pthread_cond_signal, "GLIBC_2.3.2")(condition);
}
TMH_EXPORTED int pthread_cond_broadcast(pthread_cond_t *condition) noexcept {
  share(condition);
  return TMH_REAL_OF(pthread_cond_broadcast, "GLIBC_2.3.2")(condition);
}
TMH_EXPORTED int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  share(condition);
  share(mutex);
  give_up_holds();
  return TMH_REAL_OF(pthread_cond_wait, "GLIBC_2.3.2")(condition, mutex);
}
TMH_EXPORTED int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                        const timespec *until) {
  share(condition);
  share(mutex);
  give_up_holds();
  return TMH_REAL_OF(pthread_cond_timedwait, "GLIBC_2.3.2")(condition, mutex, until);
}
TMH_EXPORTED int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                        clockid_t clock, const timespec *until) {
  share(condition);
  share(mutex);
  give_up_holds();
  return TMH_REAL(pthread_cond_clockwait)(condition, mutex, clock, until);
}

TMH_EXPORTED int pthread_rwlock_init(pthread_rwlock_t *lock,
                                     const pthread_rwlockattr_t *attributes) noexcept {
  const int error = TMH_REAL(pthread_rwlock_init)(lock, attributes);
  if (error == 0) share(lock);
  return error;
}
#define TMH_RWLOCK_CALL(name)                              \
  TMH_EXPORTED int name(pthread_rwlock_t *lock) noexcept { \
    share(lock);                                           \
    return TMH_REAL(name)(lock);                           \
  }
TMH_RWLOCK_CALL(pthread_rwlock_rdlock)
TMH_RWLOCK_CALL(pthread_rwlock_tryrdlock)
TMH_RWLOCK_CALL(pthread_rwlock_wrlock)
TMH_RWLOCK_CALL(pthread_rwlock_trywrlock)
TMH_RWLOCK_CALL(pthread_rwlock_unlock)
#undef TMH_RWLOCK_CALL
#define TMH_RWLOCK_TIMED_CALL(name)                                               \
  TMH_EXPORTED int name(pthread_rwlock_t *lock, const timespec *until) noexcept { \
    share(lock);                                                                  \
    return TMH_REAL(name)(lock, until);                                           \
  }
TMH_RWLOCK_TIMED_CALL(pthread_rwlock_timedrdlock)
TMH_RWLOCK_TIMED_CALL(pthread_rwlock_timedwrlock)
#undef TMH_RWLOCK_TIMED_CALL
#define TMH_RWLOCK_CLOCK_CALL(name)                                                                \
  TMH_EXPORTED int name(pthread_rwlock_t *lock, clockid_t clock, const timespec *until) noexcept { \
    share(lock);                                                                                   \
    return TMH_REAL(name)(lock, clock, until);                                                     \
  }
TMH_RWLOCK_CLOCK_CALL(pthread_rwlock_clockrdlock)
TMH_RWLOCK_CLOCK_CALL(pthread_rwlock_clockwrlock)
#undef TMH_RWLOCK_CLOCK_CALL

TMH_EXPORTED int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *,
                                      unsigned count) noexcept {
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  return TMH_REAL(pthread_barrier_init)(barrier, &shared, count);
}
TMH_EXPORTED int pthread_barrier_wait(pthread_barrier_t *barrier) noexcept {
  give_up_holds();
  return TMH_REAL(pthread_barrier_wait)(barrier);
}

TMH_EXPORTED int sem_init(sem_t *semaphore, int, unsigned value) noexcept {
  return TMH_REAL_OF(sem_init, "GLIBC_2.34")(semaphore, 1, value);
}
TMH_EXPORTED int sem_wait(sem_t *semaphore) {
  give_up_holds();
  return TMH_REAL_OF(sem_wait, "GLIBC_2.34")(semaphore);
}

// The C library's own waits on a private futex. 0: not yet, 1: a thread is in it, 2: done.
TMH_EXPORTED int pthread_once(pthread_once_t *control, void (*routine)()) {
  auto &word = reinterpret_cast<std::atomic<std::uint32_t> &>(*control);
  for (;;) {
    // acquire: what the routine has done
    std::uint32_t state = word.load(std::memory_order_acquire);
    if (state == 2) return 0;
    if (state == 1) {
      tmh::platform::futex_wait(word, 1, 1'000'000'000);
      continue;
    }
    if (!word.compare_exchange_strong(state, 1, std::memory_order_acq_rel)) continue;
    try {
      routine();
    } catch (...) {
      word.store(0, std::memory_order_release);
      tmh::platform::futex_wake(word);
      throw;
    }
    word.store(2, std::memory_order_release);
    tmh::platform::futex_wake(word);
    return 0;
  }
}

// Whoever waits by itself: std::atomic, futures, function-local statics. Private futexes are
// shared ones between tasks.
TMH_EXPORTED long syscall(long number, ...) noexcept {
  std::va_list list;
  va_start(list, number);
  long arguments[6];
  for (long &each : arguments) each = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex) {
    arguments[1] &= ~static_cast<long>(FUTEX_PRIVATE_FLAG);
    if ((arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && is_started()) give_up_holds();
  }
  long result = 0;
  register long r10 asm("r10") = arguments[3];
  register long r8 asm("r8") = arguments[4];
  register long r9 asm("r9") = arguments[5];
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(r10),
                 "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  if (result < 0 && result > -4096) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

}  // extern "C"
