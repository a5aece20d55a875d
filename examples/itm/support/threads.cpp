#include "examples/itm/support/threads.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "examples/itm/support/counts.h"

namespace itm {

std::uint64_t seed_of(std::uint64_t seed, std::uint64_t sequence) {
  return Random(seed + sequence * 0x632b'e59b'd9b4'e019ULL).next();
}

Barrier::Barrier(std::uint64_t threads) {
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (pthread_barrier_init(&barrier_, &attributes, static_cast<unsigned>(threads)) != 0)
    std::abort();  // more threads than an int holds, which options refuse
  pthread_barrierattr_destroy(&attributes);
}
Barrier::~Barrier() { pthread_barrier_destroy(&barrier_); }
bool Barrier::wait() { return pthread_barrier_wait(&barrier_) == PTHREAD_BARRIER_SERIAL_THREAD; }

Work &Work::operator+=(const Work &other) {
  seconds += other.seconds;
  operations += other.operations;
  transactions += other.transactions;
  attempts += other.attempts;
  return *this;
}

Worker::Worker(const Common &common, std::uint64_t index, Barrier &barrier)
    : index_(index),
      threads_(common.threads),
      operations_max_(common.operations),
      seconds_(common.seconds),
      random_(seed_of(common.seed, index + 1)),
      barrier_(&barrier) {}

void Worker::begin() {
  began_ = Clock::now();
  deadline_ =
      began_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
  transactions_ = counts.transactions;
  attempts_ = counts.attempts;
}
void Worker::end() {
  ended_ = Clock::now();
  transactions_ = counts.transactions - transactions_;
  attempts_ = counts.attempts - attempts_;
}

Work run_threads(const Common &common, const std::function<void(Worker &)> &body) {
  Barrier barrier(common.threads);
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < common.threads; ++i)
    workers.push_back(std::make_unique<Worker>(common, i, barrier));
  for (auto &worker : workers) {
    threads.emplace_back([&body, &worker] {
      worker->meet();
      worker->begin();
      body(*worker);
      worker->end();
    });
  }
  for (std::thread &thread : threads) thread.join();

  Work work;
  Worker::Clock::time_point began = workers[0]->began(), ended = workers[0]->ended();
  for (const auto &worker : workers) {
    began = std::min(began, worker->began());
    ended = std::max(ended, worker->ended());
    work.operations += worker->operations();
    work.transactions += worker->transactions();
    work.attempts += worker->attempts();
  }
  work.seconds = std::chrono::duration<double>(ended - began).count();
  return work;
}

std::uint64_t run_rounds(const Common &common, const Work &work,
                         const std::function<bool(std::uint64_t)> &round) {
  // Making and checking an input may take longer than working through it.
  constexpr double kTimesMax = 10;
  const auto began = Worker::Clock::now();
  const auto goes_on = [&](std::uint64_t rounds) {
    if (common.operations != 0) return rounds < common.operations;
    const std::chrono::duration<double> passed = Worker::Clock::now() - began;
    return work.seconds < common.seconds && passed.count() < kTimesMax * common.seconds;
  };
  std::uint64_t rounds = 0;
  do {
    if (!round(rounds++)) break;
  } while (goes_on(rounds));
  return rounds;
}

}  // namespace itm
