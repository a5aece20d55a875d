// compat/libdb/server/listener.cpp -- Unix sockets and 127.0.0.1.
#include "compat/libdb/server/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "compat/libdb/failure.h"
#include "platform/assert.h"

namespace tmh::db::server {

namespace {

constexpr int kBacklog = 128;

// Closes unless it is kept.
class Socket {
 public:
  explicit Socket(int family)
      : socket_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    if (socket_ < 0) throw Failure{errno};
  }
  ~Socket() {
    if (socket_ >= 0) (void)::close(socket_);
  }
  Socket(const Socket &) = delete;
  Socket &operator=(const Socket &) = delete;
  [[nodiscard]] int get() const noexcept { return socket_; }
  [[nodiscard]] int keep() noexcept { return std::exchange(socket_, -1); }

 private:
  int socket_;
};

void expect(int result) {
  if (result != 0) throw Failure{errno};
}

// A server that has died leaves its file.
[[nodiscard]] bool is_left_behind(const sockaddr_un &at) {
  const Socket probe(AF_UNIX);
  return ::connect(probe.get(), reinterpret_cast<const sockaddr *>(&at), sizeof at) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

Listener Listener::of_path(const std::string &path, bool is_open) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  static_assert(sizeof at.sun_path > 100);
  if (path.empty()) throw Failure{EINVAL};
  if (path.size() >= sizeof at.sun_path) throw Failure{ENAMETOOLONG};
  std::memcpy(at.sun_path, path.data(), path.size());
  Socket made(AF_UNIX);
  // The file has this mode from its beginning.
  expect(::fchmod(made.get(), is_open ? 0666 : 0600));
  const auto bind = [&] {
    return ::bind(made.get(), reinterpret_cast<const sockaddr *>(&at), sizeof at);
  };
  if (bind() != 0) {
    if (errno != EADDRINUSE) throw Failure{errno};
    if (!is_left_behind(at)) throw Failure{EADDRINUSE};
    expect(::unlink(path.c_str()));
    expect(bind());
  }
  if (is_open) expect(::chmod(path.c_str(), 0666));
  expect(::listen(made.get(), kBacklog));
  return {made.keep(), path, path};
}

Listener Listener::of_port(int port) {
  if (port < 0 || port > 0xffff) throw Failure{EINVAL};
  Socket made(AF_INET);
  const int one = 1;
  expect(::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  expect(::bind(made.get(), reinterpret_cast<const sockaddr *>(&at), sizeof at));
  socklen_t bytes = sizeof at;
  expect(::getsockname(made.get(), reinterpret_cast<sockaddr *>(&at), &bytes));
  expect(::listen(made.get(), kBacklog));
  return {made.keep(), "127.0.0.1:" + std::to_string(ntohs(at.sin_port)), ""};
}

Listener::Listener(Listener &&from) noexcept
    : socket_(std::exchange(from.socket_, -1)),
      address_(std::move(from.address_)),
      path_(std::exchange(from.path_, {})) {}

Listener::~Listener() {
  if (socket_ >= 0) (void)::close(socket_);
  if (!path_.empty()) (void)::unlink(path_.c_str());
}

int Listener::accept() const noexcept {
  TMH_ASSERT(socket_ >= 0);
  const int accepted = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  if (accepted < 0) return -1;
  const int one = 1;
  // A Unix socket has no such option.
  (void)::setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return accepted;
}

}  // namespace tmh::db::server
