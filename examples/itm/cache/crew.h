// examples/itm/cache/crew.h -- the workers' threads, and those that replace dead ones.
// Shape:     for each worker, a thread that serves and one that waits for its end. A thread that
//            did not end by itself has died in a transaction, on a runtime where a thread can die
//            alone: then the waiting one ends the connection that was being served, and starts a
//            new thread on the same worker.
#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "examples/itm/cache/worker.h"

namespace cache {

class Crew {
 public:
  // Throws std::system_error.
  Crew(Shared &shared, unsigned workers);
  // Ends all threads and connections.
  ~Crew();
  Crew(const Crew &) = delete;
  Crew &operator=(const Crew &) = delete;

  // Takes the socket; gives it to one worker after the other.
  void adopt(int socket);

 private:
  void start(Worker &worker);
  void stop();

  Shared *shared_;
  std::deque<Worker> workers_;
  std::vector<std::thread> waiting_;
  std::size_t next_ = 0;
};

}  // namespace cache
