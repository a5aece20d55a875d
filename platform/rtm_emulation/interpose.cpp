// platform/rtm_emulation/interpose.cpp -- the few libc functions that the emulator stands before: pthread_create (threads are known before
// their first instruction), sigaction and signal (fault signals pass through us), and sleeps that a stop signal would end.
// Contexts:  as the functions of these names.
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "platform/rtm_emulation/control.h"
#include "platform/rtm_emulation/trap.h"

namespace tmh::rtm {

namespace {

template <class Function>
Function *real(const char *name) noexcept {
  return reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
}

struct Start {
  void *(*routine)(void *);
  void *argument;
};

void *run_registered(void *pointer) noexcept(false) {
  const Start start = *static_cast<Start *>(pointer);
  delete static_cast<Start *>(pointer);
  (void)register_thread();
  return start.routine(start.argument);
}

// A call that only a stop signal interrupted is made again. One that the program's own signal interrupted as well is, too: a limit.
template <class Call>
auto again_after_stops(Call call) {
  for (;;) {
    const std::uint64_t stops = stops_of_thread();
    const auto result = call();
    if (result != -1 || errno != EINTR || stops_of_thread() == stops) return result;
  }
}

// Milliseconds left of a timeout in them; a negative one waits for ever.
class Remaining {
 public:
  explicit Remaining(int timeout_ms) noexcept : timeout_ms_(timeout_ms), begin_ms_(now_ms()) {}
  [[nodiscard]] int operator()() const noexcept {
    if (timeout_ms_ < 0) return timeout_ms_;
    const long left = timeout_ms_ - (now_ms() - begin_ms_);
    return left < 0 ? 0 : static_cast<int>(left);
  }

 private:
  static long now_ms() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  }
  int timeout_ms_;
  long begin_ms_;
};

int sleep_again(clockid_t clock, timespec time, timespec *left) noexcept {
  static auto *const next = real<int(clockid_t, int, const timespec *, timespec *)>("clock_nanosleep");
  for (;;) {
    const std::uint64_t stops = stops_of_thread();
    timespec rest = time;
    const int result = next(clock, 0, &time, &rest);
    if (left != nullptr && result == EINTR) *left = rest;
    if (result != EINTR || stops_of_thread() == stops) return result;
    time = rest;
  }
}

}  // namespace

}  // namespace tmh::rtm

using namespace tmh::rtm;

#define TMH_STANDS_BEFORE __attribute__((visibility("default")))

extern "C" {

TMH_STANDS_BEFORE int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                                                          void *argument) {
  static auto *const next = real<int(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)>("pthread_create");
  if (!is_running()) return next(thread, attributes, routine, argument);
  auto *start = new (std::nothrow) Start{routine, argument};
  if (start == nullptr) return EAGAIN;
  const int result = next(thread, attributes, run_registered, start);
  if (result != 0) delete start;
  install_stop_handler();  // glibc sets its handler for this signal at the first thread
  return result;
}

TMH_STANDS_BEFORE int sigaction(int signal, const struct sigaction *action, struct sigaction *old) noexcept {
  static auto *const next = real<int(int, const struct sigaction *, struct sigaction *)>("sigaction");
  int result = 0;
  if (is_running() && chain_action(signal, action, old, &result)) return result;
  return next(signal, action, old);
}

TMH_STANDS_BEFORE sighandler_t signal(int number, sighandler_t handler) noexcept {
  struct sigaction action = {}, old = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

TMH_STANDS_BEFORE int clock_nanosleep(clockid_t clock, int flags, const timespec *time, timespec *left) {
  static auto *const next = real<int(clockid_t, int, const timespec *, timespec *)>("clock_nanosleep");
  if (flags == 0) return sleep_again(clock, *time, left);
  for (;;) {  // until a point in time: made again as it is
    const std::uint64_t stops = stops_of_thread();
    const int result = next(clock, flags, time, left);
    if (result != EINTR || stops_of_thread() == stops) return result;
  }
}

TMH_STANDS_BEFORE int nanosleep(const timespec *time, timespec *left) {
  const int result = sleep_again(CLOCK_REALTIME, *time, left);
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
  return nanosleep(&time, &left) == 0 ? 0 : static_cast<unsigned>(left.tv_sec) + (left.tv_nsec >= 500'000'000 ? 1 : 0);
}

TMH_STANDS_BEFORE int poll(pollfd *files, nfds_t count, int timeout_ms) {
  static auto *const next = real<int(pollfd *, nfds_t, int)>("poll");
  const Remaining remaining(timeout_ms);
  return again_after_stops([&] { return next(files, count, remaining()); });
}

TMH_STANDS_BEFORE int epoll_wait(int file, epoll_event *events, int count, int timeout_ms) {
  static auto *const next = real<int(int, epoll_event *, int, int)>("epoll_wait");
  const Remaining remaining(timeout_ms);
  return again_after_stops([&] { return next(file, events, count, remaining()); });
}

// Linux writes what is left of the time, and leaves the sets alone when it answers EINTR.
TMH_STANDS_BEFORE int select(int count, fd_set *in, fd_set *out, fd_set *except, timeval *timeout) {
  static auto *const next = real<int(int, fd_set *, fd_set *, fd_set *, timeval *)>("select");
  return again_after_stops([&] { return next(count, in, out, except, timeout); });
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
