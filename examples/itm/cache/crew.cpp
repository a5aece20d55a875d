#include "examples/itm/cache/crew.h"

#include <pthread.h>

#include <cstdio>

namespace cache {

namespace {

// What a thread returns that was told to stop. Any other result is a death.
char stopped;

void *serve(void *worker) { return static_cast<Worker *>(worker)->run() ? &stopped : nullptr; }

void keep_served(Shared &shared, Worker &worker) {
  for (;;) {
    pthread_t thread;
    void *result = nullptr;
    if (pthread_create(&thread, nullptr, serve, &worker) != 0) {
      std::fputs("cache_server: cannot start a thread\n", stderr);
      return;
    }
    if (pthread_join(thread, &result) == 0 && result == &stopped) return;
    shared.deaths.fetch_add(1, std::memory_order_relaxed);
    worker.clear_up();
  }
}

}  // namespace

Crew::Crew(Shared &shared, unsigned workers) : shared_(&shared) {
  for (unsigned i = 0; i < workers; ++i) workers_.emplace_back(shared, i);
  try {
    for (Worker &worker : workers_)
      waiting_.emplace_back([&shared, &worker] { keep_served(shared, worker); });
  } catch (...) {
    stop();
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
