// compat/libitm/calls/mutex_calls.cpp -- mutexes and condition variables between tasks.
// Shape:     a mutex: __lock is 0 (free), 1 (locked) or 2 (others may wait), __owner and __count as
//            the C library uses them for recursive and checked ones. Robust ones, and those with
//            priorities, are the C library's, told to be shared between processes.
//            A condition variable: a word that each wake-up changes, and the clock.
// Limits:    a thread that dies with a mutex leaves it locked, as threads do.
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "compat/libitm/calls/shared_futex.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

namespace tmh::itm::pages {

namespace {

constexpr int kShared = 128, kType = 3, kNeverOurs = 127 & ~kType;
// As <pthread.h> initializes static ones.
static_assert(PTHREAD_MUTEX_TIMED_NP == 0 && PTHREAD_MUTEX_RECURSIVE <= kType &&
              PTHREAD_MUTEX_ERRORCHECK <= kType && PTHREAD_MUTEX_ADAPTIVE_NP <= kType);
static_assert(sizeof(pthread_mutex_t::__data.__lock) == sizeof(std::uint32_t) &&
              sizeof(pthread_mutex_t::__data.__count) == sizeof(unsigned));

[[nodiscard]] bool is_ours(const pthread_mutex_t *mutex) noexcept {
  return (mutex->__data.__kind & kNeverOurs) == 0;
}
[[nodiscard]] int type_of(const pthread_mutex_t *mutex) noexcept {
  return mutex->__data.__kind & kType;
}
[[nodiscard]] std::uint32_t *lock_of(pthread_mutex_t *mutex) noexcept {
  return reinterpret_cast<std::uint32_t *>(&mutex->__data.__lock);
}
// The C library's futexes are shared ones from here on.
void share(pthread_mutex_t *mutex) noexcept {
  std::atomic_ref<int> kind(mutex->__data.__kind);
  if ((kind.load(std::memory_order_relaxed) & kShared) == 0)
    kind.fetch_or(kShared, std::memory_order_relaxed);
}

// relaxed: only whether it is the caller matters, who has stored it himself then
[[nodiscard]] bool is_own(pthread_mutex_t *mutex) noexcept {
  return std::atomic_ref(mutex->__data.__owner).load(std::memory_order_relaxed) ==
         static_cast<int>(own_number());
}
void set_owner(pthread_mutex_t *mutex, std::uint32_t owner) noexcept {
  std::atomic_ref(mutex->__data.__owner).store(static_cast<int>(owner), std::memory_order_relaxed);
}

enum class Patience { kNone, kAll };

[[nodiscard]] int lock(pthread_mutex_t *mutex, Patience patience, const Until &until) noexcept {
  const int type = type_of(mutex);
  const bool has_owner = type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK;
  if (has_owner && is_own(mutex)) {
    if (type == PTHREAD_MUTEX_RECURSIVE) {
      if (mutex->__data.__count == UINT_MAX) return EAGAIN;
      ++mutex->__data.__count;
      return 0;
    }
    return patience == Patience::kNone ? EBUSY : EDEADLK;
  }
  Word word(*lock_of(mutex));
  std::uint32_t free = 0;
  // acquire: what its owner before has done
  if (!word.compare_exchange_strong(free, 1, std::memory_order_acquire)) {
    if (patience == Patience::kNone) return EBUSY;
    if (!until.is_valid()) return EINVAL;
    while (word.exchange(2, std::memory_order_acquire) != 0)
      if (wait_on(lock_of(mutex), 2, until) == ETIMEDOUT) return ETIMEDOUT;
  }
  if (has_owner) {
    TMH_ASSERT(!is_own(mutex));
    set_owner(mutex, own_number());
    mutex->__data.__count = 1;
  }
  return 0;
}

[[nodiscard]] int unlock(pthread_mutex_t *mutex) noexcept {
  const int type = type_of(mutex);
  if (type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK) {
    if (!is_own(mutex)) return EPERM;
    TMH_ASSERT(mutex->__data.__count != 0);
    if (--mutex->__data.__count != 0) return 0;
    set_owner(mutex, 0);
  }
  std::uint32_t *const word = lock_of(mutex);
  if (Word(*word).exchange(0, std::memory_order_release) == 2) wake(word, 1);
  return 0;
}

struct Condition {
  std::uint32_t sequence;
  clockid_t clock;
};
static_assert(sizeof(Condition) <= sizeof(pthread_cond_t) && CLOCK_REALTIME == 0 &&
              alignof(Condition) <= alignof(pthread_cond_t));
[[nodiscard]] Condition *condition_of(pthread_cond_t *condition) noexcept {
  return reinterpret_cast<Condition *>(condition);
}

// A waiter that has read the sequence before its change does not sleep; of those that sleep, the
// kernel wakes the oldest.
void wake_waiters(pthread_cond_t *condition, std::uint32_t waiters_max) noexcept {
  std::uint32_t *const sequence = &condition_of(condition)->sequence;
  Word(*sequence).fetch_add(1, std::memory_order_release);
  wake(sequence, waiters_max);
}

[[nodiscard]] int wait(pthread_cond_t *condition, pthread_mutex_t *mutex, const Until &until) {
  if (!until.is_valid()) return EINVAL;
  std::uint32_t *const sequence = &condition_of(condition)->sequence;
  // relaxed: the mutex orders it before changes by signallers under it
  const std::uint32_t seen = Word(*sequence).load(std::memory_order_relaxed);
  const int unlocked = pthread_mutex_unlock(mutex);
  if (unlocked != 0) return unlocked;
  if (is_started()) give_up_holds();
  const int error = wait_on(sequence, seen, until);
  const int locked = pthread_mutex_lock(mutex);
  return locked != 0 ? locked : error == ETIMEDOUT ? ETIMEDOUT : 0;
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
TMH_EXPORTED int pthread_mutex_destroy(pthread_mutex_t *mutex) noexcept {
  if (is_ours(mutex) && Word(*lock_of(mutex)).load(std::memory_order_relaxed) != 0) return EBUSY;
  return TMH_REAL(pthread_mutex_destroy)(mutex);
}
TMH_EXPORTED int pthread_mutex_trylock(pthread_mutex_t *mutex) noexcept {
  if (is_ours(mutex)) return lock(mutex, Patience::kNone, {});
  share(mutex);
  return TMH_REAL(pthread_mutex_trylock)(mutex);
}
TMH_EXPORTED int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept {
  if (is_ours(mutex)) return lock(mutex, Patience::kAll, {});
  share(mutex);
  return TMH_REAL(pthread_mutex_lock)(mutex);
}
TMH_EXPORTED int pthread_mutex_timedlock(pthread_mutex_t *mutex, const timespec *until) noexcept {
  if (is_ours(mutex)) return lock(mutex, Patience::kAll, {CLOCK_REALTIME, until});
  share(mutex);
  return TMH_REAL(pthread_mutex_timedlock)(mutex, until);
}
TMH_EXPORTED int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                         const timespec *until) noexcept {
  if (is_ours(mutex)) return lock(mutex, Patience::kAll, {clock, until});
  share(mutex);
  return TMH_REAL(pthread_mutex_clocklock)(mutex, clock, until);
}
TMH_EXPORTED int pthread_mutex_unlock(pthread_mutex_t *mutex) noexcept {
  if (is_ours(mutex)) return unlock(mutex);
  return TMH_REAL(pthread_mutex_unlock)(mutex);
}

TMH_EXPORTED int pthread_cond_init(pthread_cond_t *condition,
                                   const pthread_condattr_t *attributes) noexcept {
  *condition = PTHREAD_COND_INITIALIZER;
  if (attributes == nullptr) return 0;
  return pthread_condattr_getclock(attributes, &condition_of(condition)->clock);
}
TMH_EXPORTED int pthread_cond_destroy(pthread_cond_t *) noexcept { return 0; }
TMH_EXPORTED int pthread_cond_signal(pthread_cond_t *condition) noexcept {
  wake_waiters(condition, 1);
  return 0;
}
TMH_EXPORTED int pthread_cond_broadcast(pthread_cond_t *condition) noexcept {
  wake_waiters(condition, INT_MAX);
  return 0;
}
TMH_EXPORTED int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  return wait(condition, mutex, {});
}
TMH_EXPORTED int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                        const timespec *until) {
  return wait(condition, mutex, {condition_of(condition)->clock, until});
}
TMH_EXPORTED int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                        clockid_t clock, const timespec *until) {
  return wait(condition, mutex, {clock, until});
}

}  // extern "C"
