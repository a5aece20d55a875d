// compat/libdb/server/listener.h -- the socket that clients connect to.
// Errors:    Failure.
// Contexts:  one thread. NOT async-signal-safe.
#pragma once

#include <string>

namespace tmh::db::server {

class Listener {
 public:
  // is_open: other users may connect; who they are is looked at then.
  [[nodiscard]] static Listener of_path(const std::string &path, bool is_open);
  // Of 127.0.0.1; 0: any.
  [[nodiscard]] static Listener of_port(int port);
  ~Listener();
  Listener(Listener &&from) noexcept;
  Listener &operator=(Listener &&) = delete;

  [[nodiscard]] int socket() const noexcept { return socket_; }
  // As TP_SERVER has it.
  [[nodiscard]] const std::string &address() const noexcept { return address_; }
  // -1 and errno. It does not wait.
  [[nodiscard]] int accept() const noexcept;

 private:
  Listener(int socket, std::string address, std::string path) noexcept
      : socket_(socket), address_(std::move(address)), path_(std::move(path)) {}

  int socket_;
  std::string address_, path_;  // path_: of a file to remove; empty: none
};

}  // namespace tmh::db::server
