// tests/itm/threads/locks.cpp -- what threads wait at, by <pthread.h> and <semaphore.h>.
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/itm/moments.h"
#include "tests/itm/program.h"

namespace {

constexpr int kThreads = 8, kTimes = 2000;

void in_threads(int count, void (*work)(int)) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread &each : threads) each.join();
}

pthread_mutex_t static_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t recursive_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_mutex_t checked_mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
pthread_cond_t static_condition = PTHREAD_COND_INITIALIZER;
pthread_rwlock_t static_rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_once_t once = PTHREAD_ONCE_INIT;
pthread_barrier_t barrier;
pthread_spinlock_t spin;
sem_t semaphore;
long counter, queue_length;

}  // namespace

ITM_PROGRAM(locks_static_mutex, "16000") {
  in_threads(kThreads, [](int) {
    for (int i = 0; i < kTimes; ++i) {
      pthread_mutex_lock(&static_mutex);
      counter = counter + 1;
      if (i % 16 == 0) sched_yield();
      pthread_mutex_unlock(&static_mutex);
    }
  });
  return itm::say(counter);
}

ITM_PROGRAM(locks_recursive_and_checked_mutexes, "8000 deadlock not its owner busy timed out") {
  in_threads(kThreads, [](int) {
    for (int i = 0; i < 1000; ++i) {
      pthread_mutex_lock(&recursive_mutex);
      pthread_mutex_lock(&recursive_mutex);
      counter = counter + 1;
      pthread_mutex_unlock(&recursive_mutex);
      pthread_mutex_unlock(&recursive_mutex);
    }
  });
  std::string verdict = std::to_string(counter);
  pthread_mutex_lock(&checked_mutex);
  verdict += pthread_mutex_lock(&checked_mutex) == EDEADLK ? " deadlock" : " ?";
  int unlocked = 0, tried = 0, timed = 0;
  std::thread other([&] {
    unlocked = pthread_mutex_unlock(&checked_mutex);
    tried = pthread_mutex_trylock(&checked_mutex);
    const timespec until = in_ms(CLOCK_REALTIME, 5);
    timed = pthread_mutex_timedlock(&checked_mutex, &until);
  });
  other.join();
  verdict += unlocked == EPERM ? " not its owner" : " ?";
  verdict += tried == EBUSY ? " busy" : " ?";
  return verdict + (timed == ETIMEDOUT ? " timed out" : " ?");
}

// One word in the queue, so that each side waits for the other all the time.
ITM_PROGRAM(locks_static_condition, "8000") {
  std::thread taker([] {
    for (int i = 0; i < 8000; ++i) {
      pthread_mutex_lock(&static_mutex);
      while (queue_length == 0) pthread_cond_wait(&static_condition, &static_mutex);
      --queue_length;
      ++counter;
      pthread_cond_broadcast(&static_condition);
      pthread_mutex_unlock(&static_mutex);
    }
  });
  in_threads(4, [](int) {
    for (int i = 0; i < 2000; ++i) {
      pthread_mutex_lock(&static_mutex);
      while (queue_length != 0) pthread_cond_wait(&static_condition, &static_mutex);
      ++queue_length;
      pthread_cond_broadcast(&static_condition);
      pthread_mutex_unlock(&static_mutex);
    }
  });
  taker.join();
  return itm::say(counter);
}

ITM_PROGRAM(locks_a_signal_wakes_one_that_waits, "4000") {
  struct Queue {
    pthread_mutex_t mutex;
    pthread_cond_t is_filled;
    long length = 0, taken = 0;
  } queue;
  pthread_mutex_init(&queue.mutex, nullptr);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&queue.is_filled, &attributes);
  std::vector<std::thread> takers;
  for (int t = 0; t < 4; ++t)
    takers.emplace_back([&queue] {
      for (int i = 0; i < 1000; ++i) {
        pthread_mutex_lock(&queue.mutex);
        while (queue.length == 0) pthread_cond_wait(&queue.is_filled, &queue.mutex);
        --queue.length;
        ++queue.taken;
        pthread_mutex_unlock(&queue.mutex);
      }
    });
  for (int i = 0; i < 4000; ++i) {
    pthread_mutex_lock(&queue.mutex);
    ++queue.length;
    pthread_mutex_unlock(&queue.mutex);
    pthread_cond_signal(&queue.is_filled);
  }
  for (std::thread &each : takers) each.join();
  pthread_cond_destroy(&queue.is_filled);
  pthread_mutex_destroy(&queue.mutex);
  return itm::say(queue.taken);
}

ITM_PROGRAM(locks_a_condition_times_out, "timed out by 1 timed out by 0") {
  std::string verdict;
  for (const clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME}) {
    pthread_mutex_lock(&static_mutex);
    const timespec until = in_ms(clock, 5);
    const int error = clock == CLOCK_REALTIME
                          ? pthread_cond_timedwait(&static_condition, &static_mutex, &until)
                          : pthread_cond_clockwait(&static_condition, &static_mutex, clock, &until);
    pthread_mutex_unlock(&static_mutex);
    verdict += verdict.empty() ? "" : " ";
    verdict += itm::say(error == ETIMEDOUT ? "timed out by" : "?", clock);
  }
  return verdict;
}

ITM_PROGRAM(locks_static_rwlock, "8000 0") {
  static long twin = 0, torn = 0;
  in_threads(kThreads, [](int number) {
    for (int i = 0; i < kTimes; ++i) {
      if (number % 2 == 0) {
        pthread_rwlock_wrlock(&static_rwlock);
        ++counter;
        if (i % 16 == 0) sched_yield();
        ++twin;
      } else {
        pthread_rwlock_rdlock(&static_rwlock);
        if (counter != twin) ++torn;
      }
      pthread_rwlock_unlock(&static_rwlock);
    }
  });
  return itm::say(counter, torn);
}

ITM_PROGRAM(locks_barrier, "500 0") {
  static std::atomic<int> arrived{0}, serial{0}, wrong{0};
  pthread_barrier_init(&barrier, nullptr, 4);
  in_threads(4, [](int) {
    for (int i = 1; i <= 500; ++i) {
      arrived.fetch_add(1);
      if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) serial.fetch_add(1);
      if (arrived.load() < 4 * i) wrong.fetch_add(1);
    }
  });
  pthread_barrier_destroy(&barrier);
  return itm::say(serial.load(), wrong.load());
}

ITM_PROGRAM(locks_spinlock_and_semaphore, "8000 8000") {
  static long tokens = 0;
  pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
  sem_init(&semaphore, 0, 0);
  std::thread taker([] {
    for (int i = 0; i < 8000; ++i) {
      while (sem_wait(&semaphore) != 0) {
      }
      ++tokens;
    }
  });
  in_threads(4, [](int) {
    for (int i = 0; i < 2000; ++i) {
      pthread_spin_lock(&spin);
      counter = counter + 1;
      pthread_spin_unlock(&spin);
      sem_post(&semaphore);
    }
  });
  taker.join();
  sem_destroy(&semaphore);
  return itm::say(counter, tokens);
}

ITM_PROGRAM(locks_once, "1") {
  in_threads(16, [](int) {
    pthread_once(&once, [] {
      sched_yield();
      ++counter;
    });
    if (counter != 1) std::abort();
  });
  return itm::say(counter);
}
