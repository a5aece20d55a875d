// examples/itm/cache/worker.h -- a thread's work: its connections, and the loop that serves them.
// Shape:     an epoll of its own. The thread that accepts hands connections over. What a thread
//            needs in order to go on lies here, not in the thread: where a thread has died in a
//            transaction, clear_up() ends the connection it was serving, and run() in a new
//            thread goes on with the others. Events are by level: the new thread hears of those
//            that the dead one had taken and not served.
// Death:     only in a transaction, hence with no mutex held and no list half changed.
// Sharing:   run() and clear_up() are one thread's at a time; adopt() and stop() any thread's.
#pragma once

#include <atomic>
#include <mutex>

#include "examples/itm/cache/connection.h"
#include "examples/itm/cache/operations.h"

namespace cache {

class Worker {
 public:
  // Throws std::system_error.
  Worker(Shared &shared, unsigned index);
  ~Worker();
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  // Takes the socket. False: the kernel has no room for it, and it is closed.
  bool adopt(int socket);
  void stop();
  // True: stop() was called. False: the thread is to end as if it had died.
  [[nodiscard]] bool run();
  // REQUIRES: the thread of run() is gone.
  void clear_up();

 private:
  void serve(Connection *connection);
  // By the worker's thread: also counts it.
  void end(Connection *connection);
  void remove(Connection *connection);

  Beginnings &begun_;  // of Shared
  Operations operations_;
  int epoll_, wake_;
  std::atomic<bool> stops_{false};
  // The one whose command is being done.
  Connection *served_ = nullptr;
  std::mutex connections_mutex_;
  Connection *connections_ = nullptr;  // under the mutex
};

}  // namespace cache
