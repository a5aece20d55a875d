// compat/libitm/tasks/thread_calls.cpp -- the calls of <pthread.h> on threads, for tasks. The C
// library answers by itself where a thread's descriptor is enough: attributes, affinity,
// scheduling.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "compat/libitm/tasks/task_life.h"
#include "compat/libitm/tasks/task_records.h"
#include "compat/libitm/tasks/thread_images.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"
#include "platform/futex.h"
#include "platform/process.h"

namespace tmh::itm::pages {

namespace {

constexpr long kLookAgainNs = 20'000'000;
constexpr std::uint64_t kForever = ~std::uint64_t{0};

// The slot is used, or its result is still wanted.
[[nodiscard]] bool is_known(const TaskRecord *record) noexcept {
  return record != nullptr && record->life() != Life::kFree;
}
[[nodiscard]] bool is_over(const TaskRecord &record) noexcept {
  const Life life = record.life();
  return life == Life::kEnded || life == Life::kGone;
}

// Whether waiting for the thread would be waiting for the caller.
[[nodiscard]] bool waits_for_self(const TaskRecord &record) noexcept {
  std::uint32_t slot = slot_of(record);
  for (std::uint32_t steps = 0; steps < kTasksMax; ++steps) {
    TMH_ASSERT(slot < kTasksMax);
    if (slot == own_slot()) return true;
    const std::uint32_t next = tasks->records[slot].joins.load();
    if (next == 0) return false;
    slot = next - 1;
  }
  return false;
}

// until_ns: by that clock; 0: do not wait.
[[nodiscard]] int join(pthread_t thread, void **value, clockid_t clock,
                       std::uint64_t until_ns) noexcept {
  TaskRecord *const record = record_of(thread);
  if (!is_known(record)) return ESRCH;
  std::atomic<std::uint32_t> &joins = tasks->records[own_slot()].joins;
  // seq_cst: of two that join each other, at least one sees the other
  joins.store(slot_of(*record) + 1);
  if (waits_for_self(*record)) {
    joins.store(0);
    return EDEADLK;
  }
  Claim joinable = Claim::kJoinable;
  if (!record->claim.compare_exchange_strong(joinable, Claim::kJoining,
                                             std::memory_order_acq_rel)) {
    joins.store(0);
    return EINVAL;
  }
  if (!is_over(*record)) give_up_holds();
  int error = 0;
  while (!is_over(*record)) {
    long wait_ns = kLookAgainNs;
    if (until_ns != kForever) {
      timespec now{};
      clock_gettime(clock, &now);
      const std::uint64_t now_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                                   static_cast<std::uint64_t>(now.tv_nsec);
      if (now_ns >= until_ns) {
        error = until_ns == 0 ? EBUSY : ETIMEDOUT;
        break;
      }
      if (until_ns - now_ns < kLookAgainNs) wait_ns = static_cast<long>(until_ns - now_ns);
    }
    const Life life = record->life();
    if (life == Life::kCreating || life == Life::kRunning)
      platform::futex_wait(record->life_word, static_cast<std::uint32_t>(life), wait_ns);
  }
  joins.store(0, std::memory_order_release);
  if (error != 0) {
    TMH_ASSERT(record->claim.load(std::memory_order_relaxed) == Claim::kJoining);
    record->claim.store(Claim::kJoinable, std::memory_order_release);
    return error;
  }
  TMH_ASSERT(is_over(*record) && record->claim.load(std::memory_order_relaxed) == Claim::kJoining);
  if (value != nullptr) *value = record->value;
  record->claim.store(Claim::kDone, std::memory_order_release);
  free_if_over(*record);
  return 0;
}

[[nodiscard]] std::uint64_t in_ns(const timespec &time) noexcept {
  if (time.tv_sec < 0) return 1;
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec) + 1;
}
[[nodiscard]] bool is_valid(const timespec *time) noexcept {
  return time->tv_nsec >= 0 && time->tv_nsec < 1'000'000'000;
}

// -1: that thread has ended.
[[nodiscard]] std::int32_t pid_of(pthread_t thread) noexcept {
  const TaskRecord *const record = record_of(thread);
  if (!is_known(record)) return -1;
  const std::int32_t pid = record->pid.load(std::memory_order_acquire);
  return is_over(*record) || pid == 0 ? -1 : pid;
}

[[nodiscard]] int open_name(std::int32_t pid) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/comm", static_cast<int>(pid));
  return open(path, O_RDONLY | O_CLOEXEC);
}

}  // namespace

}  // namespace tmh::itm::pages

using namespace tmh::itm::pages;  // NOLINT(google-build-using-namespace)

extern "C" {

TMH_EXPORTED int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                void *(*routine)(void *), void *argument) noexcept {
  if (!is_task()) return TMH_REAL(pthread_create)(thread, attributes, routine, argument);
  return create_task(thread, attributes, routine, argument);
}

TMH_EXPORTED void pthread_exit(void *value) {
  if (!is_task()) TMH_REAL(pthread_exit)(value);
  end_task(value);
}

TMH_EXPORTED int pthread_join(pthread_t thread, void **value) {
  if (!is_task()) return TMH_REAL(pthread_join)(thread, value);
  return join(thread, value, CLOCK_MONOTONIC, kForever);
}

TMH_EXPORTED int pthread_tryjoin_np(pthread_t thread, void **value) noexcept {
  if (!is_task()) return TMH_REAL(pthread_tryjoin_np)(thread, value);
  return join(thread, value, CLOCK_MONOTONIC, 0);
}

TMH_EXPORTED int pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock,
                                      const timespec *until) {
  if (!is_task()) return TMH_REAL(pthread_clockjoin_np)(thread, value, clock, until);
  if (until == nullptr) return join(thread, value, clock, kForever);
  return is_valid(until) ? join(thread, value, clock, in_ns(*until)) : EINVAL;
}

TMH_EXPORTED int pthread_timedjoin_np(pthread_t thread, void **value, const timespec *until) {
  if (!is_task()) return TMH_REAL(pthread_timedjoin_np)(thread, value, until);
  if (until == nullptr) return join(thread, value, CLOCK_REALTIME, kForever);
  return is_valid(until) ? join(thread, value, CLOCK_REALTIME, in_ns(*until)) : EINVAL;
}

TMH_EXPORTED int pthread_detach(pthread_t thread) noexcept {
  if (!is_task()) return TMH_REAL(pthread_detach)(thread);
  TaskRecord *const record = record_of(thread);
  if (!is_known(record)) return ESRCH;
  Claim joinable = Claim::kJoinable;
  if (!record->claim.compare_exchange_strong(joinable, Claim::kDone, std::memory_order_acq_rel))
    return EINVAL;
  free_if_over(*record);
  return 0;
}

TMH_EXPORTED int pthread_kill(pthread_t thread, int signal) noexcept {
  if (!is_task() || thread == pthread_self()) return TMH_REAL(pthread_kill)(thread, signal);
  const TaskRecord *const record = record_of(thread);
  if (!is_known(record)) return ESRCH;
  if (signal < 0 || signal >= NSIG) return EINVAL;
  const std::int32_t pid = pid_of(thread);
  // Of a thread that has ended, and was not joined, the call is right and does nothing.
  if (pid < 0 || syscall(SYS_tgkill, pid, pid, signal) == 0) return 0;
  return errno == ESRCH ? 0 : errno;
}

TMH_EXPORTED int pthread_sigqueue(pthread_t thread, int signal, const union sigval value) noexcept {
  if (!is_task() || thread == pthread_self())
    return TMH_REAL(pthread_sigqueue)(thread, signal, value);
  const std::int32_t pid = pid_of(thread);
  if (pid < 0) return is_known(record_of(thread)) ? 0 : ESRCH;
  return sigqueue(pid, signal, value) == 0 ? 0 : errno;
}

TMH_EXPORTED int pthread_cancel(pthread_t thread) {
  if (!is_task()) return TMH_REAL(pthread_cancel)(thread);
  std::fputs("libitm (tmh): method pages has no pthread_cancel()\n", stderr);
  return ENOSYS;
}

// The C library would have the kernel write to memory of the heap.
TMH_EXPORTED int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes) noexcept {
  const TaskRecord *const record = is_task() ? record_of(thread) : nullptr;
  if (record == nullptr) return TMH_REAL(pthread_getattr_np)(thread, attributes);
  if (!is_known(record)) return ESRCH;
  const Range stack = stack_of(slot_of(*record));
  TMH_ASSERT(stack.begin % kPageBytes == 0);
  const bool is_detached = record->claim.load(std::memory_order_acquire) == Claim::kDone;
  if (const int error = pthread_attr_init(attributes); error != 0) return error;
  pthread_attr_setguardsize(attributes, slot_of(*record) == 0 ? 0 : kGuardBytes);
  pthread_attr_setdetachstate(attributes,
                              is_detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
  return pthread_attr_setstack(attributes, reinterpret_cast<void *>(stack.begin),  // NOLINT
                               stack.bytes);
}

TMH_EXPORTED int pthread_getcpuclockid(pthread_t thread, clockid_t *clock) noexcept {
  if (!is_task()) return TMH_REAL(pthread_getcpuclockid)(thread, clock);
  const std::int32_t pid = pid_of(thread);
  return pid < 0 ? ESRCH : clock_getcpuclockid(pid, clock);
}

// The kernel lets a process name no thread but its own.
TMH_EXPORTED int pthread_setname_np(pthread_t thread, const char *name) noexcept {
  if (!is_task() || thread == pthread_self()) return TMH_REAL(pthread_setname_np)(thread, name);
  if (std::strlen(name) > 15) return ERANGE;
  return is_known(record_of(thread)) ? EPERM : ESRCH;
}

TMH_EXPORTED int pthread_getname_np(pthread_t thread, char *name, std::size_t bytes) noexcept {
  if (!is_task() || thread == pthread_self())
    return TMH_REAL(pthread_getname_np)(thread, name, bytes);
  if (bytes < 16) return ERANGE;
  const std::int32_t pid = pid_of(thread);
  const int file = pid < 0 ? -1 : open_name(pid);
  if (file < 0) return pid < 0 ? ESRCH : errno;
  char text[17] = {};
  const long got = syscall(SYS_read, file, text, 16);
  const int error = got > 0 ? 0 : errno;
  close(file);
  if (got > 0) text[got - (text[got - 1] == '\n' ? 1 : 0)] = '\0';
  if (error == 0) std::memcpy(name, text, 16);
  return error;
}

}  // extern "C"
