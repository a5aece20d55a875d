// compat/libdb/server/server.h -- the server: accepts clients, looks after those that are gone,
// ends.
// Contexts:  one thread, which blocks the signals. NOT async-signal-safe.
// Source:    LIBTP 3.3.
#pragma once

#include <tp/server.h>

#include <list>
#include <memory>

#include "compat/libdb/server/listener.h"
#include "compat/libdb/server/requests.h"
#include "compat/libdb/server/worker.h"

namespace tmh::db::server {

class Server {
 public:
  // Throws Failure.
  explicit Server(const tp_server_options &options);
  ~Server();
  Server(const Server &) = delete;
  Server &operator=(const Server &) = delete;

  // Until a signal ends it.
  void run();

 private:
  void watch(int file, std::uint32_t events, void *about);
  void handle(void *about, std::uint32_t events);
  void handle_signals();
  void admit();
  [[nodiscard]] bool may_be_served(unsigned uid) const noexcept;
  void refuse(int socket, int error);
  // Those that have ended.
  void bury();
  // All end; those that do not are ended.
  void stop();
  void tell() const;

  const tp_server_options options_;
  Shared shared_;
  Listener listener_;
  int poll_ = -1, signals_ = -1, done_ = -1;
  bool is_ending_ = false;
  std::list<std::unique_ptr<Worker>> workers_;
};

}  // namespace tmh::db::server
