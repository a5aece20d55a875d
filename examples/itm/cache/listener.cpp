#include "examples/itm/cache/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace cache {

namespace {

constexpr int kBacklog = 1024;

[[noreturn]] void fail(const std::string &what, int socket = -1) {
  const int error = errno;
  if (socket >= 0) ::close(socket);
  throw std::system_error(error, std::generic_category(), what);
}

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
  sockaddr_un path;
};
socklen_t size_of(const Address &address) {
  return address.any.sa_family == AF_INET ? sizeof address.v4 : sizeof address.v6;
}
Address address_of(const std::string &text, std::uint16_t port) {
  Address address{};
  if (inet_pton(AF_INET, text.c_str(), &address.v4.sin_addr) == 1) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(port);
  } else if (inet_pton(AF_INET6, text.c_str(), &address.v6.sin6_addr) == 1) {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(port);
  } else {
    throw std::invalid_argument("\"" + text + "\" is no address of IPv4 or IPv6");
  }
  return address;
}
int open_socket(int family) {
  const int socket = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) fail("socket()");
  return socket;
}

}  // namespace

Listener::Listener(int socket, std::string name, std::string path)
    : socket_(socket), name_(std::move(name)), path_(std::move(path)) {}
Listener::Listener(Listener &&other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      name_(std::move(other.name_)),
      path_(std::exchange(other.path_, {})) {}
Listener::~Listener() {
  if (socket_ < 0) return;
  ::close(socket_);
  if (!path_.empty()) ::unlink(path_.c_str());
}

Listener Listener::on_tcp(const std::string &text, std::uint16_t port) {
  Address address = address_of(text, port);
  const bool is_v6 = address.any.sa_family == AF_INET6;
  const int socket = open_socket(address.any.sa_family);
  const int one = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  socklen_t bytes = size_of(address);
  const std::string place = is_v6 ? "[" + text + "]:" : text + ":";
  if (::bind(socket, &address.any, bytes) != 0 || ::listen(socket, kBacklog) != 0 ||
      ::getsockname(socket, &address.any, &bytes) != 0)
    fail("cannot listen on " + place + std::to_string(port), socket);
  const std::uint16_t bound = ntohs(is_v6 ? address.v6.sin6_port : address.v4.sin_port);
  return {socket, place + std::to_string(bound), {}};
}

Listener Listener::on_path(const std::string &path) {
  Address address{};
  address.path.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.path.sun_path)
    throw std::invalid_argument("\"" + path + "\" is too long for the name of a socket");
  std::memcpy(address.path.sun_path, path.c_str(), path.size() + 1);
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) ::unlink(path.c_str());
  const int socket = open_socket(AF_UNIX);
  if (::bind(socket, &address.any, sizeof address.path) != 0 || ::listen(socket, kBacklog) != 0)
    fail("cannot listen on " + path, socket);
  return {socket, path, path};
}

int Listener::accept() const {
  const int socket = ::accept4(socket_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (socket < 0) return -1;
  const int one = 1;  // of no use, and refused, for a socket with a path
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return socket;
}

}  // namespace cache
