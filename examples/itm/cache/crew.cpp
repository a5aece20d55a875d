#include "examples/itm/cache/crew.h"

#include <pthread.h>

#include <cstdio>
#include <system_error>

namespace cache {

namespace {

// What a thread returns that was told to stop. Any other result is a death.
char stopped;

void *serve(void *worker) { return static_cast<Worker *>(worker)->run() ? &stopped : nullptr; }

void keep_served(Shared &shared, Worker &worker, pthread_t thread) {
  shared.begun.add();
  for (;;) {
    void *result = nullptr;
    if (pthread_join(thread, &result) == 0 && result == &stopped) return;
    shared.deaths.fetch_add(1, std::memory_order_relaxed);
    worker.clear_up();
    if (pthread_create(&thread, nullptr, serve, &worker) != 0) {
      std::fputs("cache_server: cannot start a thread\n", stderr);
      return;
    }
  }
}

}  // namespace

Crew::Crew(Shared &shared, unsigned workers) : shared_(&shared) {
  for (unsigned i = 0; i < workers; ++i) workers_.emplace_back(shared, i);
  try {
    for (Worker &worker : workers_) start(worker);
  } catch (...) {
    stop();
    throw;
  }
  // Before the first client comes: clients may take all files that a thread needs to begin.
  shared.begun.wait_for(2 * workers);
}

void Crew::start(Worker &worker) {
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, serve, &worker);
  if (error != 0) throw std::system_error(error, std::generic_category(), "a worker's thread");
  try {
    waiting_.emplace_back([this, &worker, thread] { keep_served(*shared_, worker, thread); });
  } catch (...) {
    worker.stop();
    pthread_join(thread, nullptr);
    throw;
  }
}

Crew::~Crew() { stop(); }

void Crew::stop() {
  for (Worker &worker : workers_) worker.stop();
  for (std::thread &thread : waiting_) thread.join();
  waiting_.clear();
}

void Crew::adopt(int socket) {
  if (workers_[next_].adopt(socket)) shared_->statistics.back().add(Counter::kConnections);
  next_ = (next_ + 1) % workers_.size();
}

}  // namespace cache
