// examples/itm/support/threads.h -- threads that start together, and how long they worked.
// Shape:     run_threads() makes the threads; they meet, work, and meet again. The time runs from
//            the first thread that starts to the last that ends.
// Sharing:   a Worker belongs to its thread. The barrier is shared between processes, too, so that
//            it also holds on a runtime whose threads have page tables of their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include <pthread.h>

#include "examples/itm/support/options.h"
#include "examples/workloads/random.hpp"

namespace itm {

using workloads::Random;

inline constexpr std::size_t kLineBytes = 64;

// The seed of one of several sequences of a run.
[[nodiscard]] std::uint64_t seed_of(std::uint64_t seed, std::uint64_t sequence);

class Barrier {
 public:
  explicit Barrier(std::uint64_t threads);
  ~Barrier();
  Barrier(const Barrier &) = delete;
  Barrier &operator=(const Barrier &) = delete;
  // True for one of the threads each time.
  bool wait();

 private:
  pthread_barrier_t barrier_;
};

struct Work {
  // What all threads did together.
  double seconds = 0;
  std::uint64_t operations = 0, transactions = 0, attempts = 0;
  Work &operator+=(const Work &other);
};

class alignas(2 * kLineBytes) Worker {
 public:
  using Clock = std::chrono::steady_clock;

  Worker(const Common &common, std::uint64_t index, Barrier &barrier);

  [[nodiscard]] std::uint64_t index() const { return index_; }
  [[nodiscard]] std::uint64_t threads() const { return threads_; }
  [[nodiscard]] Random &random() { return random_; }
  // Asked before each operation: counts it, and looks at the clock once in `stride` operations.
  [[nodiscard]] bool goes_on(std::uint64_t stride = 16) {
    if (operations_max_ != 0) {
      if (done_ == operations_max_) return false;
    } else if (done_ % stride == 0 && Clock::now() >= deadline_) {
      return false;
    }
    ++done_;
    return true;
  }
  // For programs that do not ask: counts operations.
  void add(std::uint64_t operations) { done_ += operations; }
  // Waits for the others; all call it equally often. True for one of them.
  bool meet() { return barrier_->wait(); }

  // For run_threads().
  void begin();
  void end();
  [[nodiscard]] Clock::time_point began() const { return began_; }
  [[nodiscard]] Clock::time_point ended() const { return ended_; }
  [[nodiscard]] std::uint64_t operations() const { return done_; }
  [[nodiscard]] std::uint64_t transactions() const { return transactions_; }
  [[nodiscard]] std::uint64_t attempts() const { return attempts_; }

 private:
  std::uint64_t index_, threads_, operations_max_, done_ = 0;
  double seconds_;
  Clock::time_point began_, ended_, deadline_;
  Random random_;
  Barrier *barrier_;
  std::uint64_t transactions_ = 0, attempts_ = 0;
};

// Each thread runs body(worker) once.
Work run_threads(const Common &common, const std::function<void(Worker &)> &body);

// For programs that work through an input: calls round(number), which adds up its own work, once
// per operation that is wanted; or until `seconds` of work have been done, but not for more than
// ten times as long. At least once. A thread of a round does not ask goes_on(). Stops when round()
// returns false. Returns the number of rounds.
std::uint64_t run_rounds(const Common &common, const Work &work,
                         const std::function<bool(std::uint64_t)> &round);

}  // namespace itm
