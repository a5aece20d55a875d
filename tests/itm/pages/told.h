// tests/itm/pages/told.h -- what the threads of a test tell each other.
// Shape:     a shared mapping of its own: no method versions it, and a thread with page tables of
//            its own sees it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>

namespace itm::pages {

inline constexpr int kWorkers = 8;
inline constexpr int kGenerations = 512;  // threads that one worker is in turn
// A thread that a test waits for comes within it, or hangs. TMH_TEST_SLOWDOWN makes it longer.
std::chrono::seconds patience();

struct Options {
  std::uint32_t seed = 1;
  int deaths = 300;
  int seconds = 4;
  int only = 0;  // of waits: this one; of owned: this part; 0: all
};

struct alignas(64) Worker {
  std::atomic<int> tid;       // 0: not running
  std::atomic<long> commits;  // counted behind each commit
  std::atomic<long> generation;
  std::atomic<pthread_t> threads[kGenerations];
};

struct Told {
  std::atomic<int> is_over;
  std::atomic<int> wrong;
  std::atomic<long> looks, newest;
  // Of waits: what waiting.h counts; the wait that began last, and the one that ended last.
  std::atomic<long> attempts, questions, answers;
  std::atomic<int> begun, ended;
  Worker workers[kWorkers];
};

Told &told();

// Says what is not as it must be; the test fails.
void wrong(const char *what, long got, long expected);
inline void expect(bool is_right, const char *what, long got, long expected) {
  if (!is_right) wrong(what, got, expected);
}

// Exits when there is no thread.
pthread_t start(void *(*routine)(void *), long argument);
// The thread's value. Exits when the thread hangs.
void *join(pthread_t thread, const char *what);

[[noreturn]] void hang(const char *what);
void yield();

inline int below(std::minstd_rand *random, int bound) {
  return static_cast<int>((*random)() >> 8) % bound;
}

// Until the condition holds; exits when it does not within patience().
template <class Condition>
void wait_until(const char *what, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + patience();
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) hang(what);
    yield();
  }
}

// Each returns when its test is over; what was wrong is counted.
void kills(const Options &options);
void faults(const Options &options);
void words(const Options &options);
void privatise(const Options &options);
void joined(const Options &options);
void waits(const Options &options);
void owned(const Options &options);

}  // namespace itm::pages
