// examples/itm/cache/connection.h -- one client: its socket, what came, what waits to be sent.
// Sharing:   of one worker, hence of one thread at a time. Lies on the heap, where the thread that
//            follows a dead one finds it.
#pragma once

#include "examples/itm/cache/session.h"

namespace cache {

class Connection {
 public:
  // Takes the socket, which is non-blocking, and closes it in the end.
  explicit Connection(int socket) : socket_(socket) {}
  ~Connection();
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  enum class State : std::uint8_t {
    // Nothing waits to be sent.
    kReads,
    // It has sent what the socket took; it reads again when the rest has gone.
    kWrites,
    kEnded,
    // For tests: the worker's thread ends in this connection.
    kThreadEnds,
  };
  // The socket can be read or written.
  [[nodiscard]] State serve(Operations &operations);
  [[nodiscard]] int socket() const { return socket_; }

  // For the worker: what it waits for with epoll, and its list of connections.
  bool waits_to_write = false;
  Connection *next = nullptr, *previous = nullptr;

 private:
  // False: it has ended.
  [[nodiscard]] bool read_some(Operations &operations);
  [[nodiscard]] bool write_some(Operations &operations);

  int socket_;
  bool closes_ = false, has_ended_ = false;
  Session session_;
  Bytes in_, out_;
};

}  // namespace cache
