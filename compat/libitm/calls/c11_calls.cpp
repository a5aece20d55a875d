// compat/libitm/calls/c11_calls.cpp -- C's <threads.h>, by <pthread.h>: the C library's own would
// not come by this library's functions.
#include <errno.h>
#include <pthread.h>
#include <threads.h>

#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "levels/process/ground/ground.h"

namespace tmh::itm::pages {

namespace {

[[nodiscard]] int as_c11(int error) noexcept {
  switch (error) {
    case 0:
      return thrd_success;
    case ENOMEM:
    case EAGAIN:
      return thrd_nomem;
    case EBUSY:
      return thrd_busy;
    case ETIMEDOUT:
      return thrd_timedout;
    default:
      return thrd_error;
  }
}

struct Start {
  thrd_start_t routine;
  void *argument;
};

void *run(void *start) {
  TMH_ASSERT(start != nullptr);
  const Start copy = *static_cast<Start *>(start);
  std::free(start);
  return reinterpret_cast<void *>(  // NOLINT(performance-no-int-to-ptr)
      static_cast<std::intptr_t>(copy.routine(copy.argument)));
}

// A C11 object is a POSIX one.
static_assert(sizeof(mtx_t) >= sizeof(pthread_mutex_t) && alignof(mtx_t) >= alignof(int));
static_assert(sizeof(cnd_t) >= sizeof(pthread_cond_t));
static_assert(sizeof(once_flag) == sizeof(pthread_once_t));
static_assert(std::is_same_v<tss_t, pthread_key_t> && std::is_same_v<thrd_t, pthread_t>);

[[nodiscard]] pthread_mutex_t *as_posix(mtx_t *mutex) noexcept {
  return reinterpret_cast<pthread_mutex_t *>(mutex);
}
[[nodiscard]] pthread_cond_t *as_posix(cnd_t *condition) noexcept {
  return reinterpret_cast<pthread_cond_t *>(condition);
}

}  // namespace

}  // namespace tmh::itm::pages

using namespace tmh::itm::pages;  // NOLINT(google-build-using-namespace)

extern "C" {

TMH_EXPORTED int thrd_create(thrd_t *thread, thrd_start_t routine, void *argument) {
  auto *const start = static_cast<Start *>(std::malloc(sizeof(Start)));
  if (start == nullptr) return thrd_nomem;
  *start = {routine, argument};
  const int error = pthread_create(thread, nullptr, run, start);
  if (error != 0) std::free(start);
  return as_c11(error);
}
TMH_EXPORTED int thrd_join(thrd_t thread, int *result) {
  void *value = nullptr;
  const int error = pthread_join(thread, &value);
  if (error == 0 && result != nullptr)
    *result = static_cast<int>(reinterpret_cast<std::intptr_t>(value));
  return as_c11(error);
}
TMH_EXPORTED int thrd_detach(thrd_t thread) { return as_c11(pthread_detach(thread)); }
TMH_EXPORTED void thrd_exit(int result) {
  pthread_exit(reinterpret_cast<void *>(static_cast<std::intptr_t>(result)));  // NOLINT
}

TMH_EXPORTED int mtx_init(mtx_t *mutex, int type) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  if ((type & mtx_recursive) != 0) pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  return as_c11(pthread_mutex_init(as_posix(mutex), &attributes));
}
TMH_EXPORTED int mtx_lock(mtx_t *mutex) { return as_c11(pthread_mutex_lock(as_posix(mutex))); }
TMH_EXPORTED int mtx_trylock(mtx_t *mutex) {
  return as_c11(pthread_mutex_trylock(as_posix(mutex)));
}
TMH_EXPORTED int mtx_timedlock(mtx_t *mutex, const timespec *until) {
  return as_c11(pthread_mutex_timedlock(as_posix(mutex), until));
}
TMH_EXPORTED int mtx_unlock(mtx_t *mutex) { return as_c11(pthread_mutex_unlock(as_posix(mutex))); }
TMH_EXPORTED void mtx_destroy(mtx_t *mutex) { pthread_mutex_destroy(as_posix(mutex)); }

TMH_EXPORTED int cnd_init(cnd_t *condition) {
  return as_c11(pthread_cond_init(as_posix(condition), nullptr));
}
TMH_EXPORTED int cnd_signal(cnd_t *condition) {
  return as_c11(pthread_cond_signal(as_posix(condition)));
}
TMH_EXPORTED int cnd_broadcast(cnd_t *condition) {
  return as_c11(pthread_cond_broadcast(as_posix(condition)));
}
TMH_EXPORTED int cnd_wait(cnd_t *condition, mtx_t *mutex) {
  return as_c11(pthread_cond_wait(as_posix(condition), as_posix(mutex)));
}
TMH_EXPORTED int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const timespec *until) {
  return as_c11(pthread_cond_timedwait(as_posix(condition), as_posix(mutex), until));
}
TMH_EXPORTED void cnd_destroy(cnd_t *condition) { pthread_cond_destroy(as_posix(condition)); }

TMH_EXPORTED void call_once(once_flag *flag, void (*routine)()) {
  pthread_once(reinterpret_cast<pthread_once_t *>(flag), routine);
}
TMH_EXPORTED int tss_create(tss_t *key, tss_dtor_t destructor) {
  return as_c11(pthread_key_create(key, destructor));
}
TMH_EXPORTED void tss_delete(tss_t key) { pthread_key_delete(key); }
TMH_EXPORTED void *tss_get(tss_t key) { return pthread_getspecific(key); }
TMH_EXPORTED int tss_set(tss_t key, void *value) { return as_c11(pthread_setspecific(key, value)); }

}  // extern "C"
