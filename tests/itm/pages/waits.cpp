// tests/itm/pages/waits.cpp -- a thread that waits in a system call holds a page that transactions
// of others come to.
// Invariant: (1) the page is taken from it: a transaction begins again at most once.
//            (2) the wait goes on: the program sees no EINTR, and its end comes as it must.
//            (3) the waiter sees what the transactions have stored, they what it has; nothing that
//            the call delivers is lost.
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/itm/moments.h"
#include "tests/itm/pages/held.h"
#include "tests/itm/pages/told.h"

// As programs call them that are compiled with _FORTIFY_SOURCE.
extern "C" int __poll_chk(pollfd *files, nfds_t count, int timeout_ms, std::size_t room);
extern "C" ssize_t __read_chk(int file, void *at, std::size_t bytes, std::size_t room);

namespace itm::pages {

namespace {

constexpr int kAdditions = 3;
constexpr long kSleepMs = 400;
long sleep_ms = kSleepMs;  // of those that end by themselves; stored before the waiter begins
int listeners = 0;

// Descriptors of the wait that runs; threads share them. Private: each thread has numbers of its
// own memory, so they are stored once, before the waiter begins.
struct Ends {
  int in, out;
};

struct Wait {
  const char *name;
  Ends (*open)();
  // True: the call ended as it must.
  bool (*wait)(Held::Page &page, Ends ends);
  void (*end)(Ends ends, pthread_t waiter, Held::Page &page);
  // The first one asks for the page. More where the waiter does not run at once; 16 of one
  // transaction, and it runs alone. Each lasts until another thread has had a processor, so the
  // waiter gets one meanwhile.
  int attempts_max = kAdditions + 8;
};

Ends of_pipe() {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  return {ends[0], ends[1]};
}
Ends of_pair(int type) {
  int ends[2];
  if (socketpair(AF_UNIX, type, 0, ends) != 0) std::abort();
  return {ends[0], ends[1]};
}
Ends of_stream_pair() { return of_pair(SOCK_STREAM); }
Ends of_datagram_pair() { return of_pair(SOCK_DGRAM); }
Ends of_event() {
  const int file = eventfd(0, 0);
  return {file, file};
}
sockaddr_un address() {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "tmh_waits_%d_%d", getpid(),
                listeners);
  return name;
}
Ends of_listener() {
  ++listeners;
  const sockaddr_un name = address();
  const int file = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(file, reinterpret_cast<const sockaddr *>(&name), sizeof name) != 0 ||
      listen(file, 4) != 0)
    std::abort();
  return {file, socket(AF_UNIX, SOCK_STREAM, 0)};
}
Ends of_nothing() { return {-1, -1}; }
Ends of_set() {
  const Ends ends = of_pipe();
  const int set = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = ends.in;
  if (epoll_ctl(set, EPOLL_CTL_ADD, ends.in, &event) != 0) std::abort();
  return {set, ends.out};
}

void write_a_byte(Ends ends, pthread_t, Held::Page &) {
  if (write(ends.out, "x", 1) != 1) std::abort();
}
void write_nothing(Ends, pthread_t, Held::Page &) {}
void add_to_event(Ends ends, pthread_t, Held::Page &) {
  const std::uint64_t value = 7;
  if (write(ends.out, &value, sizeof value) != sizeof value) std::abort();
}
void connect_to(Ends ends, pthread_t, Held::Page &) {
  const sockaddr_un name = address();
  if (connect(ends.out, reinterpret_cast<const sockaddr *>(&name), sizeof name) != 0) std::abort();
}
void send_signal(Ends, pthread_t waiter, Held::Page &) { pthread_kill(waiter, SIGUSR1); }
void send_signal_then_a_byte(Ends ends, pthread_t waiter, Held::Page &page) {
  pthread_kill(waiter, SIGUSR1);
  const timespec moment{0, 20'000'000};
  nanosleep(&moment, nullptr);
  write_a_byte(ends, waiter, page);
}
void post(Ends, pthread_t, Held::Page &page) { sem_post(reinterpret_cast<sem_t *>(page.buffer)); }

int signals = 0;  // the waiter's plain memory
void on_signal(int) { ++signals; }
void handle(int flags) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, nullptr);
}
sigset_t all_signals() {
  sigset_t all;
  sigfillset(&all);
  return all;
}
long now_ms() {
  const timespec time = in_ms(CLOCK_MONOTONIC, 0);
  return time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
}
timespec lasting_ms(long ms) { return {ms / 1000, ms % 1000 * 1'000'000}; }
timespec with_patience() { return {patience().count(), 0}; }
template <class Sleep>
bool sleeps_long_enough(Sleep sleep) {
  const long before = now_ms();
  return sleep() && now_ms() - before >= sleep_ms;
}
bool is_byte(ssize_t result, const unsigned char *got) { return result == 1 && *got == 'x'; }

bool read_to_stack(Held::Page &, Ends ends) {
  unsigned char byte = 0;
  const ssize_t result = read(ends.in, &byte, 1);
  return is_byte(result, &byte);
}
bool read_to_page(Held::Page &page, Ends ends) {
  return is_byte(read(ends.in, page.buffer, sizeof page.buffer), page.buffer);
}
bool read_event(Held::Page &page, Ends ends) {
  return read(ends.in, page.buffer, 8) == 8 && page.buffer[0] == 7;
}
bool receive(Held::Page &page, Ends ends) {
  return is_byte(recv(ends.in, page.buffer, sizeof page.buffer, 0), page.buffer);
}
bool accept_one(Held::Page &page, Ends ends) {
  auto *const bytes = reinterpret_cast<socklen_t *>(page.buffer);
  *bytes = sizeof(sockaddr_un);
  const int file = accept(ends.in, reinterpret_cast<sockaddr *>(page.buffer + 64), bytes);
  return file >= 0 && close(file) == 0 && *bytes >= 2;
}
pollfd *files_in(Held::Page &page, Ends ends) {
  auto *const files = reinterpret_cast<pollfd *>(page.buffer);
  *files = {ends.in, POLLIN, 0};
  return files;
}
bool poll_for_ever(Held::Page &page, Ends ends) {
  pollfd *const files = files_in(page, ends);
  return poll(files, 1, -1) == 1 && files->revents == POLLIN;
}
bool poll_masked(Held::Page &page, Ends ends) {
  pollfd *const files = files_in(page, ends);
  const sigset_t all = all_signals();
  const timespec time = with_patience();
  return ppoll(files, 1, &time, &all) == 1 && files->revents == POLLIN;
}
bool poll_out_of_time(Held::Page &page, Ends ends) {
  pollfd *const files = files_in(page, ends);
  const timespec time = lasting_ms(sleep_ms);
  return sleeps_long_enough([&] { return ppoll(files, 1, &time, nullptr) == 0; });
}
// More than the engine copies.
bool poll_many(Held::Page &, Ends ends) {
  static pollfd files[512];
  for (pollfd &each : files) each = {-1, POLLIN, 0};
  files[511].fd = ends.in;
  return poll(files, 512, -1) == 1 && files[511].revents == POLLIN;
}
fd_set *set_in(Held::Page &page, Ends ends) {
  auto *const set = reinterpret_cast<fd_set *>(page.buffer);
  FD_ZERO(set);
  FD_SET(ends.in, set);
  return set;
}
bool select_for_ever(Held::Page &page, Ends ends) {
  fd_set *const set = set_in(page, ends);
  return select(ends.in + 1, set, nullptr, nullptr, nullptr) == 1 && FD_ISSET(ends.in, set);
}
bool select_masked(Held::Page &page, Ends ends) {
  fd_set *const set = set_in(page, ends);
  const sigset_t all = all_signals();
  const timespec time = with_patience();
  return pselect(ends.in + 1, set, nullptr, nullptr, &time, &all) == 1 && FD_ISSET(ends.in, set);
}
epoll_event *events_in(Held::Page &page) { return reinterpret_cast<epoll_event *>(page.buffer); }
bool epoll_for_ever(Held::Page &page, Ends ends) {
  return epoll_wait(ends.in, events_in(page), 8, -1) == 1 && events_in(page)->events == EPOLLIN;
}
bool epoll_masked(Held::Page &page, Ends ends) {
  const sigset_t all = all_signals();
  return epoll_pwait(ends.in, events_in(page), 8, static_cast<int>(patience().count()) * 1000,
                     &all) == 1 &&
         events_in(page)->events == EPOLLIN;
}
bool epoll_masked_to_the_ns(Held::Page &page, Ends ends) {
  const sigset_t all = all_signals();
  const timespec time = with_patience();
  return epoll_pwait2(ends.in, events_in(page), 8, &time, &all) == 1 &&
         events_in(page)->events == EPOLLIN;
}

bool read_until_a_signal(Held::Page &page, Ends ends) {
  handle(0);
  return read(ends.in, page.buffer, 1) == -1 && errno == EINTR && signals == 1;
}
bool read_over_a_signal(Held::Page &page, Ends ends) {
  handle(SA_RESTART);
  return is_byte(read(ends.in, page.buffer, 1), page.buffer) && signals == 1;
}
bool poll_until_a_signal(Held::Page &page, Ends ends) {
  handle(SA_RESTART);
  return poll(files_in(page, ends), 1, -1) == -1 && errno == EINTR && signals == 1;
}
bool pause_until_a_signal(Held::Page &, Ends) {
  handle(0);
  return pause() == -1 && errno == EINTR && signals == 1;
}
// Blocked outside of the call.
void block_user_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}
bool suspend_until_a_signal(Held::Page &, Ends) {
  handle(0);
  block_user_signal();
  sigset_t all = all_signals();
  sigdelset(&all, SIGUSR1);
  return sigsuspend(&all) == -1 && errno == EINTR && signals == 1;
}
bool wait_for_a_signal(Held::Page &, Ends) {
  block_user_signal();
  const sigset_t all = all_signals();
  int signal = 0;
  return sigwait(&all, &signal) == 0 && signal == SIGUSR1;
}
bool wait_for_a_signals_info(Held::Page &page, Ends) {
  block_user_signal();
  const sigset_t all = all_signals();
  auto *const info = reinterpret_cast<siginfo_t *>(page.buffer);
  return sigwaitinfo(&all, info) == SIGUSR1 && info->si_signo == SIGUSR1;
}
bool wait_for_a_signal_in_time(Held::Page &page, Ends) {
  block_user_signal();
  const sigset_t all = all_signals();
  const timespec time = with_patience();
  auto *const info = reinterpret_cast<siginfo_t *>(page.buffer);
  return sigtimedwait(&all, info, &time) == SIGUSR1 && info->si_signo == SIGUSR1;
}

bool sleep_by_nanosleep(Held::Page &page, Ends) {
  auto *const times = reinterpret_cast<timespec *>(page.buffer);
  times[0] = lasting_ms(sleep_ms);
  return sleeps_long_enough([&] { return nanosleep(&times[0], &times[1]) == 0; });
}
bool sleep_by_clock(Held::Page &page, Ends) {
  auto *const times = reinterpret_cast<timespec *>(page.buffer);
  times[0] = lasting_ms(sleep_ms);
  return sleeps_long_enough(
      [&] { return clock_nanosleep(CLOCK_MONOTONIC, 0, &times[0], &times[1]) == 0; });
}
bool sleep_until(Held::Page &page, Ends) {
  auto *const time = reinterpret_cast<timespec *>(page.buffer);
  return sleeps_long_enough([&] {
    *time = in_ms(CLOCK_MONOTONIC, sleep_ms + 1);
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, time, nullptr) == 0;
  });
}
bool sleep_us(Held::Page &, Ends) {
  return sleeps_long_enough([] { return usleep(static_cast<useconds_t>(sleep_ms * 1000)) == 0; });
}
bool sleep_a_second(Held::Page &, Ends) {
  return sleeps_long_enough([] { return sleep(static_cast<unsigned>(sleep_ms / 1000 + 1)) == 0; });
}

bool take_semaphore(Held::Page &page, Ends) {
  auto *const semaphore = reinterpret_cast<sem_t *>(page.buffer);
  return sem_init(semaphore, 0, 0) == 0 && sem_wait(semaphore) == 0;
}
bool take_semaphore_in_time(Held::Page &page, Ends) {
  auto *const semaphore = reinterpret_cast<sem_t *>(page.buffer);
  const timespec until = in_ms(CLOCK_REALTIME, patience().count() * 1000);
  return sem_init(semaphore, 0, 0) == 0 && sem_timedwait(semaphore, &until) == 0;
}
bool read_line(Held::Page &page, Ends ends) {
  std::FILE *const stream = fdopen(ends.in, "r");
  char *const text = reinterpret_cast<char *>(page.buffer);
  return std::fgets(text, 2, stream) == text && text[0] == 'x';
}
bool read_block(Held::Page &page, Ends ends) {
  std::FILE *const stream = fdopen(ends.in, "r");
  std::setvbuf(stream, nullptr, _IONBF, 0);
  return is_byte(static_cast<ssize_t>(std::fread(page.buffer, 1, 1, stream)), page.buffer);
}

bool poll_checked(Held::Page &page, Ends ends) {
  pollfd *const files = files_in(page, ends);
  return __poll_chk(files, 1, -1, sizeof *files) == 1 && files->revents == POLLIN;
}
bool read_checked(Held::Page &page, Ends ends) {
  return is_byte(__read_chk(ends.in, page.buffer, 8, sizeof page.buffer), page.buffer);
}

constexpr Wait kWaits[] = {
    {"read", of_pipe, read_to_stack, write_a_byte},
    {"read to the page", of_pipe, read_to_page, write_a_byte},
    {"read of an eventfd", of_event, read_event, add_to_event},
    {"recv", of_stream_pair, receive, write_a_byte},
    {"recv of a datagram", of_datagram_pair, receive, write_a_byte},
    {"accept", of_listener, accept_one, connect_to},
    {"poll", of_pipe, poll_for_ever, write_a_byte},
    {"poll for many files", of_pipe, poll_many, write_a_byte},
    {"ppoll, all blocked", of_pipe, poll_masked, write_a_byte},
    {"ppoll, out of time", of_pipe, poll_out_of_time, write_nothing},
    {"select", of_pipe, select_for_ever, write_a_byte},
    {"pselect, all blocked", of_pipe, select_masked, write_a_byte},
    {"epoll_wait", of_set, epoll_for_ever, write_a_byte},
    {"epoll_pwait, all blocked", of_set, epoll_masked, write_a_byte},
    {"epoll_pwait2, all blocked", of_set, epoll_masked_to_the_ns, write_a_byte},
    {"read, a signal", of_pipe, read_until_a_signal, send_signal},
    {"read, a signal that restarts", of_pipe, read_over_a_signal, send_signal_then_a_byte},
    {"poll, a signal", of_pipe, poll_until_a_signal, send_signal},
    {"pause", of_nothing, pause_until_a_signal, send_signal},
    {"sigsuspend, others blocked", of_nothing, suspend_until_a_signal, send_signal},
    {"sigwait for all", of_nothing, wait_for_a_signal, send_signal},
    {"sigwaitinfo for all", of_nothing, wait_for_a_signals_info, send_signal},
    {"sigtimedwait for all", of_nothing, wait_for_a_signal_in_time, send_signal},
    {"nanosleep", of_nothing, sleep_by_nanosleep, write_nothing},
    {"clock_nanosleep", of_nothing, sleep_by_clock, write_nothing},
    {"clock_nanosleep until", of_nothing, sleep_until, write_nothing},
    {"usleep", of_nothing, sleep_us, write_nothing},
    {"sleep", of_nothing, sleep_a_second, write_nothing},
    {"sem_wait", of_nothing, take_semaphore, post},
    {"sem_timedwait", of_nothing, take_semaphore_in_time, post},
    {"poll, checked", of_pipe, poll_checked, write_a_byte},
    {"read, checked", of_pipe, read_checked, write_a_byte},
    {"fgets", of_pipe, read_line, write_a_byte},
    {"fread without a buffer", of_pipe, read_block, write_a_byte, 17 * kAdditions},
};
constexpr int kCount = static_cast<int>(std::size(kWaits));
static_assert(kCount <= Held::kPages);
Ends opened[kCount];

// What a waiter is told: its wait, and its page.
long told_to(int number, int at) { return number * Held::kPages + at; }

void *wait_once(void *argument) {
  const long to = reinterpret_cast<long>(argument);
  const int number = static_cast<int>(to / Held::kPages);
  const Wait &wait = kWaits[number];
  Held::Page &page = Held::page(static_cast<int>(to % Held::kPages));
  const Ends ends = opened[number];
  told().workers[0].tid = static_cast<int>(syscall(SYS_gettid));
  signals = 0;
  page.plain = number + 1;
  told().begun = number + 1;
  errno = 0;
  const bool is_right = wait.wait(page, ends);
  const int error = errno;
  told().ended = number + 1;
  if (!is_right) std::fprintf(stderr, "wrong: %s: errno %d\n", wait.name, error);
  expect(is_right, wait.name, 0, 1);
  // A wait that ends by itself may do so before.
  wait_until(wait.name, [number] { return told().newest == number + 1; });
  expect(page.plain == number + 1, "the waiter's word", page.plain, number + 1);
  expect(page.inside == kAdditions, "the transactions' word", page.inside, kAdditions);
  return nullptr;
}

bool is_sleeping(int tid) {
  char path[64], state = 0;
  std::snprintf(path, sizeof path, "/proc/%d/stat", tid);
  std::FILE *const file = std::fopen(path, "r");
  if (file == nullptr) return false;
  const bool is_read = std::fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
  std::fclose(file);
  return is_read && state == 'S';
}
void wait_a_moment() {
  const timespec moment{0, 10'000'000};
  nanosleep(&moment, nullptr);
}

bool has_ended(int number) { return told().ended == number + 1; }

// False: the wait was over before all had come to its page, which says nothing of the page.
bool try_at(int number, int at) {
  const Wait &wait = kWaits[number];
  told().begun = told().ended = 0;
  told().newest = 0;
  opened[number] = wait.open();
  const pthread_t waiter = start(wait_once, told_to(number, at));
  wait_until(wait.name, [&] { return told().begun == number + 1; });
  wait_a_moment();
  wait_until(wait.name, [&] { return is_sleeping(told().workers[0].tid) || has_ended(number); });
  const bool ends_early = has_ended(number);
  const long before = told().attempts;
  for (int i = 0; i < kAdditions; ++i)
    expect(Held::add(at) == number + 1, wait.name, -1, number + 1);
  const long attempts = told().attempts - before;
  const bool is_judged = !ends_early && !has_ended(number);
  told().newest = number + 1;
  if (is_judged) {
    if (attempts > wait.attempts_max)
      std::fprintf(stderr, "wrong: %s: %ld attempts\n", wait.name, attempts);
    expect(attempts <= wait.attempts_max, "attempts", attempts, wait.attempts_max);
  }
  if (wait.end != write_nothing) {
    wait_a_moment();
    if (has_ended(number)) std::fprintf(stderr, "wrong: %s ended\n", wait.name);
    expect(!has_ended(number), "a wait ended early", number, 0);
  }
  wait.end(opened[number], waiter, Held::page(at));
  join(waiter, wait.name);
  return is_judged || wait.end != write_nothing;
}

void try_one(int number, int *next_page) {
  for (sleep_ms = kSleepMs; *next_page < Held::kPages; sleep_ms *= 2)
    if (try_at(number, (*next_page)++)) return;
  wrong("pages for waits", *next_page, Held::kPages);
}

}  // namespace

void waits(const Options &options) {
  const pthread_t other = start(Held::commit_on, 0);
  int next_page = 0;
  for (int i = 0; i < kCount; ++i)
    if (options.only == 0 || options.only == i + 1) try_one(i, &next_page);
  told().is_over = 1;
  join(other, "the other's end");
  std::printf("%d waits, %ld attempts\n", kCount, told().attempts.load());
}

}  // namespace itm::pages
