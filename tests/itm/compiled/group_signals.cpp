// tests/itm/compiled/group_signals.cpp -- a signal to the process group comes once.
// Methods:   lines rtm serial pages pages-serializable
// Levels:    2
// Says:      20
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {

constexpr int kThreads = 3, kSignals = 20;
std::atomic<int> come{0};  // lock-free, so a handler may
long started, ended;
void on_signal(int) { come.fetch_add(1, std::memory_order_relaxed); }  // a count, no data
long value_of(const long *at) {
  long value = 0;
  __transaction_atomic { value = *at; }
  return value;
}

void *work(void *) {
  __transaction_atomic { ++started; }
  while (value_of(&ended) == 0) sched_yield();
  return nullptr;
}

}  // namespace

int main() {
  if (setpgid(0, 0) != 0) return 3;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, nullptr);
  pthread_t threads[kThreads];
  for (pthread_t &each : threads)
    if (pthread_create(&each, nullptr, work, nullptr) != 0) return 3;
  while (value_of(&started) != kThreads) sched_yield();
  for (int i = 1; i <= kSignals; ++i) {
    kill(0, SIGUSR1);
    while (come.load(std::memory_order_relaxed) < i) sched_yield();
  }
  for (int i = 0; i < 1000; ++i) sched_yield();  // others' copies may still be on the way
  __transaction_atomic { ended = 1; }
  for (const pthread_t each : threads) pthread_join(each, nullptr);
  std::printf("%d\n", come.load(std::memory_order_relaxed));
}
