// compat/libtp/client/connection.cpp -- sockets, and bytes of messages.
#include "compat/libtp/client/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "platform/assert.h"

namespace tmh::tp::client {

namespace {

std::atomic<std::uint64_t> forks{1};
[[maybe_unused]] const int session_handler =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

// Of this process.
[[nodiscard]] wire::Hello hello_here() {
  static std::atomic<std::uint64_t> made_at{0};
  static wire::Hello made;
  static std::atomic_flag is_made;
  while (is_made.test_and_set(std::memory_order_acquire)) {
  }
  if (made_at.load(std::memory_order_relaxed) != forks.load(std::memory_order_relaxed)) {
    // A process of the same number never has the same session.
    if (::getrandom(made.session, sizeof made.session, 0) != sizeof made.session) {
      made.session[0] ^= static_cast<std::uint64_t>(::getpid());
      made.session[1] += reinterpret_cast<std::uintptr_t>(&made);
    }
    made_at.store(forks.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  const wire::Hello hello = made;
  is_made.clear(std::memory_order_release);
  return hello;
}

constexpr std::string_view kLoopback = "127.0.0.1:";
constexpr std::size_t kReadBytes = 64 << 10;

}  // namespace

std::uint64_t process_serial() noexcept { return forks.load(std::memory_order_relaxed); }

Connection::~Connection() {
  if (socket_ >= 0) (void)::close(socket_);
}

void Connection::end() noexcept {
  if (socket_ < 0 || !is_own() || error_ != 0) return;
  const timeval patience{10, 0};
  (void)::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  (void)::shutdown(socket_, SHUT_WR);
  char gone[256];
  ssize_t got = 0;
  do {
    got = ::recv(socket_, gone, sizeof gone, 0);
  } while (got > 0 || (got < 0 && errno == EINTR));
  (void)fail(ECONNRESET);
}

bool Connection::is_own() const noexcept { return process_ == process_serial(); }

int Connection::fail(int error) noexcept {
  TMH_ASSERT(error != 0);
  if (error_ == 0) error_ = error;
  sent_.clear();
  errno = error_;
  return -1;
}

int Connection::open(const std::string &address) {
  TMH_ASSERT(socket_ < 0);
  address_ = address;
  process_ = process_serial();
  if (open_socket() != 0) return fail(errno);
  return greet();
}

int Connection::open_socket() {
  if (address_.starts_with(kLoopback)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::uint16_t port = 0;
    const char *const end = address_.data() + address_.size();
    const auto parsed = std::from_chars(address_.data() + kLoopback.size(), end, port);
    errno = EINVAL;
    if (parsed.ec != std::errc() || parsed.ptr != end || port == 0) return -1;
    to.sin_port = htons(port);
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) return -1;
    const int one = 1;
    (void)::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return ::connect(socket_, reinterpret_cast<const sockaddr *>(&to), sizeof to);
  }
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  errno = ENAMETOOLONG;
  if (address_.size() >= sizeof to.sun_path) return -1;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return -1;
  return ::connect(socket_, reinterpret_cast<const sockaddr *>(&to), sizeof to);
}

int Connection::greet() {
  begin(wire::Kind::kHello);
  wire::Writer out(&message_);
  put(&out, hello_here());
  std::string_view payload;
  if (send() != 0 || receive(&payload) != 0) return -1;
  wire::Reader in(payload);
  welcome_ = wire::take_welcome(&in);
  if (!in.is_right() || welcome_.magic != wire::kMagic) return fail(EPROTO);
  if (welcome_.error != 0) return fail(static_cast<int>(welcome_.error));
  return welcome_.version == wire::kVersion ? 0 : fail(EPROTO);
}

void Connection::begin(wire::Kind kind) {
  TMH_ASSERT(message_.empty());
  (void)wire::begin_message(&message_, next_number_, static_cast<std::uint16_t>(kind));
}

int Connection::send() {
  const int sent = send_message();
  message_.clear();
  return sent;
}

int Connection::send_message() {
  errno = error_ != 0 ? error_ : EBADF;
  if (error_ != 0 || !is_own()) return -1;
  errno = EMSGSIZE;
  if (!wire::end_message(&message_, 0)) return -1;
  sent_.push_back({next_number_++, wire::head_of(message_).kind});
  for (std::size_t done = 0; done < message_.size();) {
    const ssize_t sent = ::send(socket_, message_.data() + done, message_.size() - done,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      done += static_cast<std::size_t>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    // What the server has said before it went is read yet.
    if (errno == EPIPE || errno == ECONNRESET) return 0;
    if (errno != EAGAIN) return fail(ECONNRESET);
    pollfd waited{socket_, POLLIN | POLLOUT, 0};
    if (::poll(&waited, 1, -1) < 0) continue;
    if ((waited.revents & POLLIN) != 0 && read_some(MSG_DONTWAIT) != 0) return -1;
  }
  return 0;
}

int Connection::read_some(int flags) {
  TMH_ASSERT(taken_ <= end_ && end_ <= in_.size());
  if (in_.size() - end_ < kReadBytes) in_.resize(std::max(2 * in_.size(), end_ + kReadBytes));
  for (;;) {
    const ssize_t got = ::recv(socket_, in_.data() + end_, in_.size() - end_, flags);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) return fail(ECONNRESET);
    end_ += static_cast<std::size_t>(got);
    return 0;
  }
}

int Connection::receive(std::string_view *payload) {
  TMH_ASSERT(payload != nullptr);
  errno = error_ != 0 ? error_ : !is_own() ? EBADF : EINVAL;
  if (error_ != 0 || !is_own() || sent_.empty()) return -1;
  // What the last call has delivered.
  if (taken_ != 0) std::memmove(in_.data(), in_.data() + taken_, end_ - taken_);
  end_ -= std::exchange(taken_, 0);
  const Sent oldest = sent_.front();
  for (;;) {
    if (end_ >= wire::kHeadBytes) {
      const wire::Head head = wire::head_of(in_);
      if (head.number != oldest.number || head.kind != (oldest.kind | wire::kReply) ||
          head.bytes > TP_SERVER_MESSAGE_MAX)
        return fail(EPROTO);
      if (end_ - wire::kHeadBytes >= head.bytes) {
        *payload = std::string_view(in_).substr(wire::kHeadBytes, head.bytes);
        taken_ = wire::kHeadBytes + head.bytes;
        sent_.pop_front();
        return 0;
      }
    }
    if (read_some(0) != 0) return -1;
  }
}

}  // namespace tmh::tp::client
