#include "examples/itm/cache/client_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace cache {

namespace {

constexpr std::size_t kReceiveBytes = std::size_t{32} << 10;

[[noreturn]] void fail(const std::string &place, const char *why) {
  throw std::runtime_error("cannot connect to " + place + ": " + why);
}

int connect_to_path(const std::string &place) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (place.size() >= sizeof address.sun_path) fail(place, "the path is too long");
  std::memcpy(address.sun_path, place.c_str(), place.size() + 1);
  const int file = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0 || ::connect(file, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) {
    const int error = errno;
    if (file >= 0) ::close(file);
    fail(place, std::strerror(error));
  }
  return file;
}

int connect_to_host(const std::string &place) {
  const std::size_t colon = place.rfind(':');
  std::string host = place.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo *found = nullptr;
  const int problem = getaddrinfo(host.c_str(), place.c_str() + colon + 1, &hints, &found);
  if (problem != 0) fail(place, gai_strerror(problem));
  int file = -1, error = 0;
  for (const addrinfo *each = found; each != nullptr && file < 0; each = each->ai_next) {
    file = ::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (file < 0 || ::connect(file, each->ai_addr, each->ai_addrlen) == 0) continue;
    error = errno;
    ::close(file);
    file = -1;
  }
  freeaddrinfo(found);
  if (file < 0) fail(place, std::strerror(error));
  const int one = 1;
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return file;
}

bool is_patience(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

ClientSocket::ClientSocket(const std::string &place)
    : file_(place.find('/') != std::string::npos ? connect_to_path(place)
                                                 : connect_to_host(place)) {
  fcntl(file_, F_SETFL, O_NONBLOCK);
}
ClientSocket::ClientSocket(ClientSocket &&other) noexcept : file_(std::exchange(other.file_, -1)) {}
ClientSocket &ClientSocket::operator=(ClientSocket &&other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}
ClientSocket::~ClientSocket() {
  if (file_ >= 0) ::close(file_);
}

ClientSocket::Moved ClientSocket::send(std::string_view text, std::size_t *sent) {
  const ssize_t moved = ::send(file_, text.data() + *sent, text.size() - *sent, MSG_NOSIGNAL);
  if (moved < 0) return is_patience(errno) ? Moved::kNothing : Moved::kEnded;
  *sent += static_cast<std::size_t>(moved);
  return Moved::kSome;
}

ClientSocket::Moved ClientSocket::receive(Bytes &in) {
  const ssize_t moved = ::recv(file_, in.room(kReceiveBytes), kReceiveBytes, 0);
  if (moved < 0) return is_patience(errno) ? Moved::kNothing : Moved::kEnded;
  in.added(static_cast<std::size_t>(moved));
  return moved == 0 ? Moved::kEnded : Moved::kSome;
}

std::string ask(const std::string &place, std::string_view question, std::string_view answer_end) {
  ClientSocket socket(place);
  std::size_t sent = 0;
  Bytes in;
  while (!in.view().ends_with(answer_end)) {
    pollfd wanted{socket.file(), static_cast<short>(sent < question.size() ? POLLOUT : POLLIN), 0};
    if (::poll(&wanted, 1, -1) < 0) continue;
    const auto moved = sent < question.size() ? socket.send(question, &sent) : socket.receive(in);
    if (moved == ClientSocket::Moved::kEnded)
      throw std::runtime_error(place + " ends the connection without an answer");
  }
  return std::string(in.view());
}

}  // namespace cache
