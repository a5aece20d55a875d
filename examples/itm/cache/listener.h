// examples/itm/cache/listener.h -- a socket that clients connect to.
#pragma once

#include <cstdint>
#include <string>

namespace cache {

class Listener {
 public:
  // Both throw std::system_error, or std::invalid_argument for what is no address.
  // Port 0: any; name() tells.
  static Listener on_tcp(const std::string &address, std::uint16_t port);
  // A socket that a dead server left there is removed.
  static Listener on_path(const std::string &path);
  Listener(Listener &&other) noexcept;
  Listener &operator=(Listener &&) = delete;
  ~Listener();

  // A connected, non-blocking socket; -1: there is none now.
  [[nodiscard]] int accept() const;
  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] const std::string &name() const { return name_; }

 private:
  Listener(int socket, std::string name, std::string path);

  int socket_;
  std::string name_;
  // To be removed in the end, or empty.
  std::string path_;
};

}  // namespace cache
