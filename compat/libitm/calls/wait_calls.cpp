// compat/libitm/calls/wait_calls.cpp -- calls that wait for files, for time or for signals.
// Shape:     the kernel gets copies on the stack, so that a waiter needs no page of the program. A
//            request for pages interrupts each of these, whatever SA_RESTART says (signal(7)): the
//            wait goes on with the time that is left. Masks leave the engine's signals out.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compat/libitm/calls/plain_calls.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

namespace tmh::itm::pages {

namespace {

constexpr nfds_t kOwnFiles = 256;
constexpr int kOwnEvents = 256;
constexpr std::int64_t kNsPerS = 1'000'000'000;
// On the thread's stack.
static_assert(kOwnFiles * sizeof(pollfd) <= 4096 && kOwnEvents * sizeof(epoll_event) <= 4096);

// Of what may be null.
template <class Value>
class Copy {
 public:
  explicit Copy(const Value *from) noexcept : is_there_(from != nullptr) {
    if (is_there_) value_ = *from;
  }
  [[nodiscard]] Value *get() noexcept { return is_there_ ? &value_ : nullptr; }

 private:
  bool is_there_;
  Value value_{};
};

// The program's mask, or set of signals, without the engine's.
class Mask : public Copy<sigset_t> {
 public:
  explicit Mask(const sigset_t *of_program) noexcept : Copy(of_program) {
    if (get() != nullptr && is_started()) *get() = without_engines(get());
  }
};

[[nodiscard]] std::int64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerS + now.tv_nsec;
}

// What is left of a timeout when a call is made again. What is no time stays as it is: the kernel
// refuses it.
class Timeout {
 public:
  // null: for ever.
  explicit Timeout(const timespec *time) noexcept : left_(time) {
    const timespec *const given = left_.get();
    has_end_ = given != nullptr && given->tv_sec >= 0 && given->tv_sec < INT64_MAX / kNsPerS / 4 &&
               given->tv_nsec >= 0 && given->tv_nsec < kNsPerS;
    if (has_end_) end_ns_ = now_ns() + given->tv_sec * kNsPerS + given->tv_nsec;
  }
  [[nodiscard]] const timespec *left() noexcept {
    if (has_end_) {
      const std::int64_t left = std::max<std::int64_t>(end_ns_ - now_ns(), 0);
      TMH_ASSERT(left_.get() != nullptr && left >= 0);
      *left_.get() = {left / kNsPerS, left % kNsPerS};
    }
    return left_.get();
  }

 private:
  Copy<timespec> left_;
  bool has_end_ = false;
  std::int64_t end_ns_ = 0;
};

[[nodiscard]] timespec in_ms(int ms) noexcept {
  return {ms / 1000, static_cast<long>(ms % 1000) * 1'000'000};
}

// call(): -1 and EINTR when a signal has come.
template <class Call>
auto until_done(Call call) -> decltype(call()) {
  const Interruption interruption(AfterHandler::kEnds);
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR || !interruption.is_by_request()) return result;
  }
}
// The same, for a call that waits for files. look(): whether one is ready, without waiting. To map
// pages again costs far more than to ask.
template <class Look, class Call>
int until_ready(bool may_wait, Look look, Call call) {
  if (may_wait && is_started()) {
    const int ready = look();
    if (ready != 0) return ready;
    give_up_touched();
  }
  return until_done(call);
}

// Where the kernel gets the program's own memory, for it is large.
constexpr auto let_go = [](const Interruption &) {
  if (is_started()) give_up_touched();
  return true;
};

[[nodiscard]] bool is_zero(const timespec *time) noexcept {
  return time != nullptr && time->tv_sec == 0 && time->tv_nsec == 0;
}

int poll_own(pollfd *files, nfds_t count, const timespec *time, const sigset_t *mask) noexcept {
  Timeout timeout(time);
  Mask own_mask(mask);
  return until_ready(
      !is_zero(time), [&] { return TMH_REAL(poll)(files, count, 0); },
      [&] { return TMH_REAL(ppoll)(files, count, timeout.left(), own_mask.get()); });
}

int poll_files(pollfd *files, nfds_t count, const timespec *time, const sigset_t *mask) noexcept {
  if (count > kOwnFiles) {
    Timeout timeout(time);
    Mask own_mask(mask);
    return with_plain_memory(
        let_go, [&] { stores(files, count * sizeof *files); },
        [&] { return TMH_REAL(ppoll)(files, count, timeout.left(), own_mask.get()); });
  }
  pollfd own[kOwnFiles];
  std::copy_n(files, count, own);
  const int result = poll_own(own, count, time, mask);
  if (result < 0) return result;
  TMH_ASSERT(static_cast<nfds_t>(result) <= count);
  // A page to which nothing is stored is not taken from others.
  for (nfds_t i = 0; i < count; ++i)
    if (files[i].revents != own[i].revents) files[i].revents = own[i].revents;
  return result;
}

int wait_for_events(int set, epoll_event *events, int count, const timespec *time,
                    const sigset_t *mask) noexcept {
  Timeout timeout(time);
  Mask own_mask(mask);
  epoll_event own[kOwnEvents];
  // Those that find no place here come next time.
  const int own_count = std::min(count, kOwnEvents);
  const int result = until_ready(
      !is_zero(time), [&] { return TMH_REAL(epoll_wait)(set, own, own_count, 0); },
      [&] { return TMH_REAL(epoll_pwait2)(set, own, own_count, timeout.left(), own_mask.get()); });
  TMH_ASSERT(result <= own_count || own_count <= 0);
  if (result > 0) std::copy_n(own, result, events);
  return result;
}

// The three sets of select(2), as far as they are used.
class FileSets {
 public:
  static_assert(FD_SETSIZE % 64 == 0 && sizeof(fd_set) == FD_SETSIZE / 8);
  FileSets(int count, fd_set *const (&given)[3]) noexcept
      : bytes_(static_cast<std::size_t>(std::clamp(count, 0, FD_SETSIZE) + 63) / 64 * 8) {
    for (int i = 0; i < 3; ++i)
      if ((given_[i] = given[i]) != nullptr) std::memcpy(&before_[i], given[i], bytes_);
  }
  // What a call is to be given, which changes it.
  [[nodiscard]] fd_set *anew(int index) noexcept {
    TMH_ASSERT(0 <= index && index < 3);
    now_[index] = before_[index];
    return given_[index] == nullptr ? nullptr : &now_[index];
  }
  void give_back() noexcept {
    for (int i = 0; i < 3; ++i)
      if (given_[i] != nullptr && std::memcmp(&now_[i], &before_[i], bytes_) != 0)
        std::memcpy(given_[i], &now_[i], bytes_);
  }

 private:
  std::size_t bytes_;
  fd_set *given_[3];
  fd_set before_[3]{}, now_[3]{};
};

int select_files(int count, fd_set *const (&sets)[3], const timespec *time,
                 const sigset_t *mask) noexcept {
  Timeout timeout(time);
  Mask own_mask(mask);
  if (count > FD_SETSIZE) {  // sets of the program's own size
    const std::size_t bytes = (static_cast<std::size_t>(count) + 63) / 64 * 8;
    return with_plain_memory(
        let_go,
        [&] {
          for (fd_set *const each : sets) stores(each, bytes);
        },
        [&] {
          return TMH_REAL(pselect)(count, sets[0], sets[1], sets[2], timeout.left(),
                                   own_mask.get());
        });
  }
  FileSets own(count, sets);
  const auto call = [&](const timespec *left, const sigset_t *now) {
    return TMH_REAL(pselect)(count, own.anew(0), own.anew(1), own.anew(2), left, now);
  };
  const timespec zero{};
  const int result = until_ready(
      !is_zero(time), [&] { return call(&zero, nullptr); },
      [&] { return call(timeout.left(), own_mask.get()); });
  if (result >= 0) own.give_back();
  return result;
}

// An error's number. rest: of a sleep that a handler has ended.
int sleep_on(clockid_t clock, int flags, const timespec *time, timespec *rest) noexcept {
  if (is_started()) give_up_holds();
  timespec left = *time, own_rest{};
  const int error = until_done([&]() -> int {
    const int result = TMH_REAL(clock_nanosleep)(clock, flags, &left, &own_rest);
    if (result != EINTR) return result;
    if ((flags & TIMER_ABSTIME) == 0) left = own_rest;
    errno = EINTR;
    return -1;
  });
  if (error != -1) return error;
  TMH_ASSERT(errno == EINTR);
  if (rest != nullptr && (flags & TIMER_ABSTIME) == 0) *rest = own_rest;
  return EINTR;
}

int await_signal(const sigset_t *set, siginfo_t *info, const timespec *time) noexcept {
  Timeout timeout(time);
  Mask own_set(set);
  siginfo_t own_info{};
  if (is_started() && !is_zero(time)) give_up_touched();
  const int result =
      until_done([&] { return TMH_REAL(sigtimedwait)(own_set.get(), &own_info, timeout.left()); });
  if (result >= 0 && info != nullptr) *info = own_info;
  return result;
}

}  // namespace

}  // namespace tmh::itm::pages

using namespace tmh::itm::pages;  // NOLINT(google-build-using-namespace)

extern "C" {

TMH_EXPORTED int poll(pollfd *files, nfds_t count, int timeout_ms) {
  const timespec time = in_ms(timeout_ms);
  return poll_files(files, count, timeout_ms < 0 ? nullptr : &time, nullptr);
}
TMH_EXPORTED int ppoll(pollfd *files, nfds_t count, const timespec *timeout, const sigset_t *mask) {
  return poll_files(files, count, Copy(timeout).get(), mask);
}
// As on Linux, the timeout becomes what is left of it.
TMH_EXPORTED int select(int count, fd_set *in, fd_set *out, fd_set *errors, timeval *timeout) {
  if (timeout == nullptr) return select_files(count, {in, out, errors}, nullptr, nullptr);
  if (timeout->tv_sec < 0 || timeout->tv_usec < 0) return errno = EINVAL, -1;
  const timespec time{timeout->tv_sec + timeout->tv_usec / 1'000'000,
                      timeout->tv_usec % 1'000'000 * 1000};
  Timeout left(&time);
  const int result = select_files(count, {in, out, errors}, &time, nullptr);
  if (!is_zero(&time) && (result >= 0 || errno == EINTR))
    *timeout = {left.left()->tv_sec, left.left()->tv_nsec / 1000};
  return result;
}
TMH_EXPORTED int pselect(int count, fd_set *in, fd_set *out, fd_set *errors,
                         const timespec *timeout, const sigset_t *mask) {
  return select_files(count, {in, out, errors}, Copy(timeout).get(), mask);
}
TMH_EXPORTED int epoll_pwait2(int set, epoll_event *events, int count, const timespec *timeout,
                              const sigset_t *mask) {
  return wait_for_events(set, events, count, Copy(timeout).get(), mask);
}
TMH_EXPORTED int epoll_pwait(int set, epoll_event *events, int count, int timeout_ms,
                             const sigset_t *mask) {
  const timespec time = in_ms(timeout_ms);
  return wait_for_events(set, events, count, timeout_ms < 0 ? nullptr : &time, mask);
}
TMH_EXPORTED int epoll_wait(int set, epoll_event *events, int count, int timeout_ms) {
  return epoll_pwait(set, events, count, timeout_ms, nullptr);
}

TMH_EXPORTED int clock_nanosleep(clockid_t clock, int flags, const timespec *time, timespec *rest) {
  return sleep_on(clock, flags, time, rest);
}
TMH_EXPORTED int nanosleep(const timespec *time, timespec *rest) {
  const int error = sleep_on(CLOCK_REALTIME, 0, time, rest);
  if (error == 0) return 0;
  errno = error;
  return -1;
}
TMH_EXPORTED int usleep(useconds_t us) {
  const timespec time{us / 1'000'000, static_cast<long>(us % 1'000'000) * 1000};
  return nanosleep(&time, nullptr);
}
TMH_EXPORTED unsigned sleep(unsigned seconds) {
  const int error = errno;
  timespec rest{static_cast<time_t>(seconds), 0};
  if (nanosleep(&rest, &rest) != 0) return static_cast<unsigned>(rest.tv_sec);
  errno = error;
  return 0;
}
TMH_EXPORTED int thrd_sleep(const timespec *time, timespec *rest) {
  const int error = sleep_on(CLOCK_REALTIME, 0, time, rest);
  return error == 0 ? 0 : error == EINTR ? -1 : -2;
}

TMH_EXPORTED int pause() {
  if (is_started()) give_up_touched();
  return until_done([] { return TMH_REAL(pause)(); });
}
TMH_EXPORTED int sigsuspend(const sigset_t *mask) {
  Mask own_mask(mask);
  if (is_started()) give_up_touched();
  return until_done([&] { return TMH_REAL(sigsuspend)(own_mask.get()); });
}
TMH_EXPORTED int sigtimedwait(const sigset_t *set, siginfo_t *info, const timespec *timeout) {
  return await_signal(set, info, Copy(timeout).get());
}
TMH_EXPORTED int sigwaitinfo(const sigset_t *set, siginfo_t *info) {
  return await_signal(set, info, nullptr);
}
TMH_EXPORTED int sigwait(const sigset_t *set, int *signal) {
  int result = -1;
  do result = await_signal(set, nullptr, nullptr);
  while (result == -1 && errno == EINTR);
  if (result == -1) return errno;
  *signal = result;
  return 0;
}
TMH_EXPORTED int signalfd(int file, const sigset_t *set, int flags) noexcept {
  return TMH_REAL(signalfd)(file, Mask(set).get(), flags);
}

}  // extern "C"
