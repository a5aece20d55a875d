// compat/libdb/server/worker.h -- a client's thread: reads requests, answers them in their order.
// Shape:     a thread, and not a process, for each client: its databases' pages are cached once a
//            database, and a client costs no environment. What may keep a thread is bounded: no
//            page stays pinned between requests, waits for locks end with the client, and a client
//            that does not read is given up.
// Invariant: the transaction is rolled back, and then databases are closed, before is_done().
// Sharing:   the server's thread: begin, end_waits, stop, is_done.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "compat/libdb/server/requests.h"

namespace tmh::db::server {

class Worker {
 public:
  // socket: its own from now on. shared: outlives it. done: an eventfd that is told its end.
  Worker(Shared *shared, int socket, unsigned uid, std::uint64_t write_ms, int done);
  ~Worker();
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  void begin();
  // The client is gone, or the server ends: what it waits for is late.
  void end_waits() noexcept { is_over_.store(true, std::memory_order_relaxed); }
  // It reads no further request. is_hard: nor does it write.
  void stop(bool is_hard) noexcept;
  [[nodiscard]] bool is_done() const noexcept { return is_done_.load(std::memory_order_acquire); }
  [[nodiscard]] int socket() const noexcept { return socket_; }

 private:
  void run();
  void serve(Requests *requests);
  // False: the connection has ended, or what has come is no request.
  [[nodiscard]] bool answer_all(Requests *requests);
  [[nodiscard]] bool read_some();
  [[nodiscard]] bool write_all();

  Shared &shared_;
  const int socket_;
  const unsigned uid_;
  const std::uint64_t write_ms_;
  const int done_;
  std::atomic<bool> is_over_{false}, is_stopped_{false}, is_done_{false};
  std::string in_, out_;
  std::size_t end_ = 0;  // of what has come
  std::thread thread_;
};

}  // namespace tmh::db::server
