// tests/itm/pages/owner_waits.cpp -- owners that wait in a call while another thread wants their
// pages: it gets them, and goes on.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/itm/pages/owning.h"

namespace itm::pages {

namespace {

constexpr int kKinds = 7;
constexpr const char *kNames[kKinds] = {"read",     "cond_wait", "mutex_lock", "join",
                                        "sem_wait", "nanosleep", "epoll_wait"};
constexpr const char kText[] = "what the pipe has";

// The phases of one wait, in mirror(0).phase.
enum Phase { kPlaying, kGoesToWait, kMayGoOn };
int ends[2], poller;
std::atomic<int> *is_awake;  // of the last block's buffer: whether the condition holds

Block &block() { return Owners::block(0, 0); }
std::atomic<int> &phase() { return mirror(0).phase; }

void *wait_for_phase(void *) {
  while (phase() != kMayGoOn) sleep_ns(200'000);
  return reinterpret_cast<void *>(17);
}

void read_text() {
  std::memset(block().buffer, 0, sizeof block().buffer);
  const ssize_t got = read(ends[0], block().buffer, sizeof block().buffer);
  expect(got == static_cast<ssize_t>(sizeof kText), "read", got, sizeof kText);
  expect(std::memcmp(block().buffer, kText, sizeof kText) == 0, "what was read", 1, 0);
}

void wait_for_events() {
  block().events[0] = {};
  const int ms_max = static_cast<int>(std::chrono::milliseconds(patience()).count());
  const int count = epoll_wait(poller, block().events, 2, ms_max);
  expect(count == 1, "epoll_wait", count, 1);
  expect(block().events[0].data.u64 == 4711, "an event",
         static_cast<long>(block().events[0].data.u64), 4711);
  char text[sizeof kText];
  const ssize_t got = read(ends[0], text, sizeof text);
  expect(got == static_cast<ssize_t>(sizeof text), "read behind epoll_wait", got, sizeof text);
}

void wait_in_call(int kind) {
  Block &own = block();
  switch (kind) {
    case 0:
      read_text();
      break;
    case 1:
      pthread_mutex_lock(&own.mutex);
      while (is_awake->load() == 0) pthread_cond_wait(&own.cond, &own.mutex);
      pthread_mutex_unlock(&own.mutex);
      break;
    case 2:
      expect(pthread_mutex_lock(&own.mutex) == 0, "pthread_mutex_lock", 1, 0);
      pthread_mutex_unlock(&own.mutex);
      break;
    case 3: {
      const pthread_t helper = start(wait_for_phase, 0);
      void *value = nullptr;
      expect(pthread_join(helper, &value) == 0, "pthread_join", 1, 0);
      expect(value == reinterpret_cast<void *>(17), "a helper's value",
             reinterpret_cast<long>(value), 17);
      break;
    }
    case 4:
      while (sem_wait(&own.sem) != 0) expect(errno == EINTR, "sem_wait", errno, EINTR);
      break;
    case 5:
      while (phase() != kMayGoOn) sleep_ns(30'000'000);
      break;
    default:
      wait_for_events();
  }
}

void *work(void *argument) {
  const auto rounds = reinterpret_cast<std::atomic<long> *>(argument);
  std::minstd_rand random(seed_of(0));
  told().workers[0].tid = static_cast<int>(syscall(SYS_gettid));
  open_blocks(0);
  pthread_mutex_init(&block().mutex, nullptr);
  pthread_cond_init(&block().cond, nullptr);
  sem_init(&block().sem, 0, 0);
  for (;;) {
    const long round = *rounds;
    for (int i = 0; i < kTurns; ++i) {
      store_plainly(0, &random);
      step(0, &random, false);
    }
    if (told().is_over != 0) return nullptr;
    const int kind = told().workers[1].tid;
    phase() = kGoesToWait;
    wait_in_call(kind);
    check_own(0);
    phase() = kPlaying;
    wait_until("a next round", [&] { return *rounds != round || told().is_over != 0; });
  }
}

void let_go(int kind) {
  Block &of_owner = block();
  phase() = kMayGoOn;
  if (kind == 0 || kind == 6)
    expect(write(ends[1], kText, sizeof kText) == sizeof kText, "write", 0, sizeof kText);
  if (kind == 1) {
    pthread_mutex_lock(&of_owner.mutex);
    is_awake->store(1);
    pthread_cond_signal(&of_owner.cond);
    pthread_mutex_unlock(&of_owner.mutex);
  }
  if (kind == 2) pthread_mutex_unlock(&of_owner.mutex);
  if (kind == 4) sem_post(&of_owner.sem);
}

// What a thread has waited for a processor; -1 where the kernel does not tell.
std::chrono::nanoseconds processor_lacked(int tid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/schedstat", tid);
  std::FILE *const file = std::fopen(path, "r");
  if (file == nullptr) return std::chrono::nanoseconds{-1};
  long ns = -1;
  if (std::fscanf(file, "%*d %ld", &ns) != 1) ns = -1;
  std::fclose(file);
  return std::chrono::nanoseconds{ns};
}

// A second for each factor of TMH_TEST_SLOWDOWN, of which the two threads had a processor or slept.
class Soon {
 public:
  Soon() : lacked_(lacked()), begin_(std::chrono::steady_clock::now()) {}
  // 0: it has not taken too long.
  [[nodiscard]] long ms_too_late() const {
    const auto taken = std::chrono::steady_clock::now() - begin_;
    const std::chrono::nanoseconds now = lacked();
    const auto own = now < lacked_ || now.count() < 0 ? taken : taken - (now - lacked_);
    const auto most = now.count() < 0 ? patience() : patience() / 60;
    return own < most ? 0 : std::chrono::duration_cast<std::chrono::milliseconds>(own).count();
  }

 private:
  static std::chrono::nanoseconds lacked() {
    const auto own = processor_lacked(static_cast<int>(syscall(SYS_gettid)));
    const auto of_owner = processor_lacked(told().workers[0].tid);
    return own.count() < 0 || of_owner.count() < 0 ? std::chrono::nanoseconds{-1} : own + of_owner;
  }
  std::chrono::nanoseconds lacked_;
  std::chrono::steady_clock::time_point begin_;
};

void touch(int how, const char *name) {
  const Soon soon;
  for (int i = 0; i < Owners::kBlocks; ++i) {
    if (how == 0) check_constants(0, i);
    if (how == 1) store_as_guest(0, i);
    if (how == 2) {
      Owners::Seen seen[Owners::kMost];
      Owners::look(seen, 1, 0);
      expect(seen[0].different == 0, "words of one that waits", seen[0].different, 0);
      expect(seen[0].value == mirror(0).steps, "steps of one that waits", seen[0].value,
             mirror(0).steps);
    }
  }
  if (how == 3) {
    for (int i = 0; i < Owners::kBlocks; ++i) Owners::visit(0, i);
    mirror(0).nested[1].fetch_add(1);
  }
  const long ms = soon.ms_too_late();
  if (ms == 0) return;
  std::fprintf(stderr, "beside %s, touched in way %d:\n", name, how);
  wrong("ms until it goes on", ms, 1000);
}

}  // namespace

void own_and_wait(long ms) {
  std::minstd_rand random(seed_of(1));
  // What the two threads tell each other of a round.
  auto *const rounds = &told().newest;
  static std::atomic<int> *const awake = &told().workers[2].tid;
  is_awake = awake;
  std::atomic<int> &kind = told().workers[1].tid;
  kind = 0;
  poller = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 4711;
  if (pipe(ends) != 0 || epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event) != 0) std::abort();
  const pthread_t owner = start(work, reinterpret_cast<long>(rounds));
  wait_until_open(1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  long done = 0;
  for (; done < kKinds || std::chrono::steady_clock::now() < end; ++done) {
    const int now = kind;
    wait_until("an owner that waits", [] { return phase() == kGoesToWait; });
    sleep_ns(below(&random, 3'000'000));
    for (int i = below(&random, 3); i >= 0; --i) touch(below(&random, 4), kNames[now]);
    look_once(1);
    let_go(now);
    wait_until(kNames[now], [] { return phase() == kPlaying; });
    kind = static_cast<int>((done + 1) % kKinds);
    *is_awake = 0;
    // It must find it locked.
    if (kind == 2) pthread_mutex_lock(&block().mutex);
    rounds->fetch_add(1);
  }
  // The owner may be on its way into one more.
  if (kind == 2) pthread_mutex_unlock(&block().mutex);
  told().is_over = 1;
  join(owner, "an owner's end");
  check_own(0);
  std::printf("%ld waits\n", done);
}

}  // namespace itm::pages
