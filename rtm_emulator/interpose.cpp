// rtm_emulator/interpose.cpp -- the few libc functions that the emulator stands before:
// pthread_create (threads are known before their first instruction), exec (which would lose the
// stop signal's handler), sigaction and signal (fault signals pass through us), signal masks (fault
// signals stay deliverable), what takes pages away (mappings.h), and sleeps that a stop signal
// would end.
// Contexts:  as the functions of these names.
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/control.h"
#include "rtm_emulator/domain.h"
#include "rtm_emulator/mappings.h"
#include "rtm_emulator/system.h"
#include "rtm_emulator/trap.h"

namespace tmh::rtm {

namespace {

template <class Function>
Function *real(const char *name) noexcept {
  auto *const function = reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
  TMH_ASSERT(function != nullptr);  // libc has every one that stands here
  return function;
}

struct Start {
  void *(*routine)(void *);
  void *argument;
};

void tell_of_unknown_thread() noexcept {
  static std::atomic_flag is_told = ATOMIC_FLAG_INIT;
  if (!is_told.test_and_set())
    std::fprintf(stderr,
                 "tmh-rtm-emulation: at most %u threads at a time, and memory for each: a further "
                 "one aborts each "
                 "transaction, and commits do not stop it\n",
                 kSlots);
}

void *run_registered(void *pointer) noexcept(false) {
  TMH_ASSERT(pointer != nullptr);
  const Start start = *static_cast<Start *>(pointer);
  delete static_cast<Start *>(pointer);
  if (!register_thread()) tell_of_unknown_thread();
  return start.routine(start.argument);
}

// A call that only a stop signal interrupted is made again. One that the program's own signal
// interrupted as well is, too: a limit.
template <class Call>
auto again_after_stops(Call call) {
  for (;;) {
    const std::uint64_t stops = stops_of_thread();
    const auto result = call();
    if (result != -1 || errno != EINTR || stops_of_thread() == stops) return result;
  }
}

// A point in time, so that interruptions do not add up: there may be one per commit of others.
class Deadline {
 public:
  Deadline(clockid_t clock, timespec from_now) noexcept : clock_(clock) {
    ::clock_gettime(clock_, &at_);
    at_.tv_sec += from_now.tv_sec;
    at_.tv_nsec += from_now.tv_nsec;
    if (at_.tv_nsec >= kSecond) ++at_.tv_sec, at_.tv_nsec -= kSecond;
  }
  [[nodiscard]] const timespec &at() const noexcept { return at_; }
  [[nodiscard]] timespec left() const noexcept {
    timespec now{};
    ::clock_gettime(clock_, &now);
    timespec left{at_.tv_sec - now.tv_sec, at_.tv_nsec - now.tv_nsec};
    if (left.tv_nsec < 0) --left.tv_sec, left.tv_nsec += kSecond;
    return left.tv_sec < 0 ? timespec{} : left;
  }

 private:
  static constexpr long kSecond = 1'000'000'000;
  clockid_t clock_;
  timespec at_{};
};

// Of poll(): a negative timeout waits for ever. Rounded up, as the kernel does.
class MillisecondsLeft {
 public:
  explicit MillisecondsLeft(int timeout_ms) noexcept
      : is_endless_(timeout_ms < 0),
        deadline_(CLOCK_MONOTONIC, {timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L}) {}
  [[nodiscard]] int operator()() const noexcept {
    if (is_endless_) return -1;
    const timespec left = deadline_.left();
    return static_cast<int>(left.tv_sec * 1000 + (left.tv_nsec + 999'999) / 1'000'000);
  }

 private:
  bool is_endless_;
  Deadline deadline_;
};

bool takes_pages_away(int advice) noexcept {
  constexpr int kDontneedLocked = 24, kGuardInstall = 102;  // Linux 5.18 and 6.13
  return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
         advice == kDontneedLocked || advice == kGuardInstall;
}

// The call itself, not libc's: these come from signal handlers, too, where nothing can be looked
// up. -1 and errno.
template <class... Arguments>
long changed(Call call, Arguments... arguments) noexcept {
  const long result = system_call(call, arguments...);
  if (!is_error(result)) return result;
  errno = static_cast<int>(-result);
  return -1;
}

template <class Call>
long changing(Call call) noexcept {
  if (!is_running()) return call();
  const MappingChange change;
  return call();
}

// Returns only when the program cannot be run.
template <class Call>
int become(Call call) {
  step_aside();
  const int result = call();
  step_back();
  return result;
}

// The arguments of execl() and its like, and what follows their null pointer.
struct Arguments {
  Arguments(const char *first, va_list *list) {
    TMH_ASSERT(list != nullptr);
    for (const char *each = first; each != nullptr; each = va_arg(*list, const char *))
      all.push_back(const_cast<char *>(each));
    all.push_back(nullptr);
  }
  std::vector<char *> all;
};

using ClockNanosleep = int(clockid_t, int, const timespec *, timespec *);

int sleep_until(clockid_t clock, const timespec &until) noexcept {
  static auto *const next = real<ClockNanosleep>("clock_nanosleep");
  for (;;) {
    const std::uint64_t stops = stops_of_thread();
    const int result = next(clock, TIMER_ABSTIME, &until, nullptr);
    if (result != EINTR || stops_of_thread() == stops) return result;
  }
}

// 0 or an errno.
int sleep_for(clockid_t clock, const timespec &time, timespec *left) noexcept {
  static auto *const next = real<ClockNanosleep>("clock_nanosleep");
  if (!is_running() || time.tv_nsec < 0 || time.tv_nsec >= 1'000'000'000 || time.tv_sec < 0)
    return next(clock, 0, &time, left);
  // A sleep on CLOCK_REALTIME is not lengthened by setting that clock.
  const Deadline deadline(clock == CLOCK_REALTIME ? CLOCK_MONOTONIC : clock, time);
  const int result = sleep_until(clock == CLOCK_REALTIME ? CLOCK_MONOTONIC : clock, deadline.at());
  if (result == EINTR && left != nullptr) *left = deadline.left();
  return result;
}

}  // namespace

}  // namespace tmh::rtm

using namespace tmh::rtm;

#define TMH_STANDS_BEFORE __attribute__((visibility("default")))

static_assert(sizeof(off_t) == 8, "mmap64() is mmap()");
static_assert(sizeof(void *) == sizeof(long), "a raw call answers with either");

extern "C" {

TMH_STANDS_BEFORE int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                     void *(*routine)(void *), void *argument) {
  static auto *const next =
      real<int(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)>("pthread_create");
  if (!is_running()) return next(thread, attributes, routine, argument);
  auto *start = new (std::nothrow) Start{routine, argument};
  if (start == nullptr) return EAGAIN;
  const int result = next(thread, attributes, run_registered, start);
  if (result != 0) delete start;
  install_stop_handler();  // glibc sets its handler for this signal at the first thread
  return result;
}

TMH_STANDS_BEFORE int sigaction(int signal, const struct sigaction *action,
                                struct sigaction *old) noexcept {
  static auto *const next =
      real<int(int, const struct sigaction *, struct sigaction *)>("sigaction");
  int result = 0;
  if (!is_running()) return next(signal, action, old);
  if (chain_action(signal, action, old, &result)) return result;
  if (action == nullptr) return next(signal, action, old);
  struct sigaction deliverable = *action;
  keep_deliverable(&deliverable.sa_mask);
  return next(signal, &deliverable, old);
}

TMH_STANDS_BEFORE sighandler_t signal(int number, sighandler_t handler) noexcept {
  struct sigaction action = {}, old = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

TMH_STANDS_BEFORE int pthread_sigmask(int how, const sigset_t *mask, sigset_t *old) noexcept {
  static auto *const next = real<int(int, const sigset_t *, sigset_t *)>("pthread_sigmask");
  if (!is_running() || mask == nullptr || how == SIG_UNBLOCK) return next(how, mask, old);
  sigset_t deliverable = *mask;
  keep_deliverable(&deliverable);
  return next(how, &deliverable, old);
}

TMH_STANDS_BEFORE int sigprocmask(int how, const sigset_t *mask, sigset_t *old) noexcept {
  const int error = pthread_sigmask(how, mask, old);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

TMH_STANDS_BEFORE int execve(const char *path, char *const arguments[],
                             char *const environment[]) noexcept {
  static auto *const next = real<int(const char *, char *const[], char *const[])>("execve");
  return become([&] { return next(path, arguments, environment); });
}

TMH_STANDS_BEFORE int execv(const char *path, char *const arguments[]) noexcept {
  return execve(path, arguments, environ);
}

TMH_STANDS_BEFORE int execvpe(const char *file, char *const arguments[],
                              char *const environment[]) noexcept {
  static auto *const next = real<int(const char *, char *const[], char *const[])>("execvpe");
  return become([&] { return next(file, arguments, environment); });
}

TMH_STANDS_BEFORE int execvp(const char *file, char *const arguments[]) noexcept {
  return execvpe(file, arguments, environ);
}

TMH_STANDS_BEFORE int fexecve(int file, char *const arguments[],
                              char *const environment[]) noexcept {
  static auto *const next = real<int(int, char *const[], char *const[])>("fexecve");
  return become([&] { return next(file, arguments, environment); });
}

TMH_STANDS_BEFORE int execl(const char *path, const char *argument, ...) noexcept {
  va_list list;
  va_start(list, argument);
  const Arguments arguments(argument, &list);
  va_end(list);
  return execv(path, arguments.all.data());
}

TMH_STANDS_BEFORE int execlp(const char *file, const char *argument, ...) noexcept {
  va_list list;
  va_start(list, argument);
  const Arguments arguments(argument, &list);
  va_end(list);
  return execvp(file, arguments.all.data());
}

TMH_STANDS_BEFORE int execle(const char *path, const char *argument, ...) noexcept {
  va_list list;
  va_start(list, argument);
  const Arguments arguments(argument, &list);
  char *const *environment = va_arg(list, char *const *);
  va_end(list);
  return execve(path, arguments.all.data(), environment);
}

TMH_STANDS_BEFORE int madvise(void *begin, std::size_t bytes, int advice) noexcept {
  const auto call = [&] {
    return changed(Call::kMadvise, address_of(begin), bytes, static_cast<std::uint64_t>(advice));
  };
  return static_cast<int>(takes_pages_away(advice) ? changing(call) : call());
}

TMH_STANDS_BEFORE int munmap(void *begin, std::size_t bytes) noexcept {
  return static_cast<int>(
      changing([&] { return changed(Call::kMunmap, address_of(begin), bytes); }));
}

TMH_STANDS_BEFORE void *mmap(void *begin, std::size_t bytes, int protection, int flags, int file,
                             off_t offset) noexcept {
  const auto call = [&] {
    return changed(Call::kMmap, address_of(begin), bytes, static_cast<std::uint64_t>(protection),
                   static_cast<std::uint64_t>(flags), static_cast<std::uint64_t>(file),
                   static_cast<std::uint64_t>(offset));
  };
  return reinterpret_cast<void *>((flags & MAP_FIXED) != 0 ? changing(call) : call());
}
TMH_STANDS_BEFORE void *mmap64(void *begin, std::size_t bytes, int protection, int flags, int file,
                               off_t offset) noexcept {
  return mmap(begin, bytes, protection, flags, file, offset);
}

TMH_STANDS_BEFORE void *mremap(void *from, std::size_t bytes_before, std::size_t bytes, int flags,
                               ...) noexcept {
  va_list list;
  va_start(list, flags);
  const void *const to =
      (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) != 0 ? va_arg(list, void *) : nullptr;
  va_end(list);
  return reinterpret_cast<void *>(changing([&] {
    return changed(Call::kMremap, address_of(from), bytes_before, bytes,
                   static_cast<std::uint64_t>(flags), address_of(to));
  }));
}

TMH_STANDS_BEFORE int clock_nanosleep(clockid_t clock, int flags, const timespec *time,
                                      timespec *left) {
  return flags == 0 ? sleep_for(clock, *time, left) : sleep_until(clock, *time);
}

TMH_STANDS_BEFORE int nanosleep(const timespec *time, timespec *left) {
  const int result = sleep_for(CLOCK_REALTIME, *time, left);
  if (result == 0) return 0;
  errno = result;
  return -1;
}

TMH_STANDS_BEFORE int usleep(useconds_t microseconds) {
  const timespec time{microseconds / 1'000'000, microseconds % 1'000'000 * 1000L};
  return nanosleep(&time, nullptr);
}

TMH_STANDS_BEFORE unsigned sleep(unsigned seconds) {
  timespec left{};
  const timespec time{seconds, 0};
  return nanosleep(&time, &left) == 0
             ? 0
             : static_cast<unsigned>(left.tv_sec) + (left.tv_nsec >= 500'000'000 ? 1 : 0);
}

TMH_STANDS_BEFORE int poll(pollfd *files, nfds_t count, int timeout_ms) {
  static auto *const next = real<int(pollfd *, nfds_t, int)>("poll");
  const MillisecondsLeft left(timeout_ms);
  return again_after_stops([&] { return next(files, count, left()); });
}

TMH_STANDS_BEFORE int epoll_wait(int file, epoll_event *events, int count, int timeout_ms) {
  static auto *const next = real<int(int, epoll_event *, int, int)>("epoll_wait");
  const MillisecondsLeft left(timeout_ms);
  return again_after_stops([&] { return next(file, events, count, left()); });
}

TMH_STANDS_BEFORE int select(int count, fd_set *in, fd_set *out, fd_set *except, timeval *timeout) {
  static auto *const next = real<int(int, fd_set *, fd_set *, fd_set *, timeval *)>("select");
  if (timeout == nullptr)
    return again_after_stops([&] { return next(count, in, out, except, nullptr); });
  const Deadline deadline(CLOCK_MONOTONIC, {timeout->tv_sec, timeout->tv_usec * 1000});
  // The sets are left alone when the answer is EINTR; Linux writes what is left of the time, we
  // each time anew.
  return again_after_stops([&] {
    const timespec left = deadline.left();
    *timeout = {left.tv_sec, left.tv_nsec / 1000};
    return next(count, in, out, except, timeout);
  });
}

TMH_STANDS_BEFORE int sem_wait(sem_t *semaphore) {
  static auto *const next = real<int(sem_t *)>("sem_wait");
  return again_after_stops([&] { return next(semaphore); });
}

TMH_STANDS_BEFORE int sem_timedwait(sem_t *semaphore, const timespec *until) {
  static auto *const next = real<int(sem_t *, const timespec *)>("sem_timedwait");
  return again_after_stops([&] { return next(semaphore, until); });
}

}  // extern "C"
