// tests/itm/compiled/forks.cpp -- a fork does not wait for irrevocable transactions, which may wait
// for the forking thread, for its child, or fork themselves; a child goes on where it was.
// Methods:   lines rtm serial pages pages-serializable
// Levels:    2
// Says:      sum 204, 0 failed
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {

constexpr int kTimes = 50;
constexpr unsigned kHangSeconds = 60;  // for a child
long sum = 0;
std::atomic<long> failed{0};
std::atomic<bool> is_inside{false}, has_ended{false};
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int ends[2];

void wait_for(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) ++failed;
}

void fork_and_wait(bool does_write) {
  const pid_t child = fork();
  if (child == 0) _exit(does_write && write(ends[1], "c", 1) != 1 ? 1 : 0);
  wait_for(child);
}

__attribute__((transaction_pure)) void say_inside() { is_inside = true; }

void *wait_for_the_mutex(void *) {
  __transaction_relaxed {
    sum += 1;
    say_inside();
    pthread_mutex_lock(&mutex);
    sum += 1;
    pthread_mutex_unlock(&mutex);
  }
  return nullptr;
}

void *wait_for_the_child(void *) {
  char byte = 0;
  __transaction_relaxed {
    sum += 1;
    say_inside();
    if (read(ends[0], &byte, 1) == 1) sum += 1;
  }
  return nullptr;
}

// The child ends the transaction, and has another one.
void *fork_inside(void *) {
  for (int i = 0; i < kTimes; ++i) {
    pid_t child = -1;
    __transaction_relaxed {
      sum += 4;
      say_inside();
      child = fork();
      if (child == 0) alarm(kHangSeconds);
    }
    if (child == 0) {
      __transaction_atomic { sum += 1; }
      _exit(0);
    }
    wait_for(child);
  }
  has_ended = true;
  return nullptr;
}

// do_fork: while a transaction of another thread is on its way.
template <class Fork>
void beside(void *(*run)(void *), const Fork &do_fork) {
  is_inside = false;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, run, nullptr) != 0) return;
  while (!is_inside) sched_yield();
  do_fork();
  pthread_join(thread, nullptr);
}

}  // namespace

int main() {
  if (pipe(ends) != 0) return 2;
  pthread_mutex_lock(&mutex);
  beside(wait_for_the_mutex, [] {
    fork_and_wait(false);
    pthread_mutex_unlock(&mutex);
  });
  beside(wait_for_the_child, [] { fork_and_wait(true); });
  beside(fork_inside, [] {
    while (!has_ended) fork_and_wait(false);
  });
  std::printf("sum %ld, %ld failed\n", sum, failed.load());
}
