#include "examples/itm/cache/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cache {

namespace {

constexpr std::size_t kReadBytes = std::size_t{16} << 10;

bool is_patience(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Connection::~Connection() { ::close(socket_); }

bool Connection::read_some(Operations &operations) {
  const std::size_t wanted = session_.wanted_bytes();
  const std::size_t bytes = std::max(kReadBytes, wanted > in_.size() ? wanted - in_.size() : 0);
  const ssize_t got = ::recv(socket_, in_.room(bytes), bytes, 0);
  if (got < 0) return is_patience(errno);
  // A client that has shut down its side still gets the answers to what it sent.
  if (got == 0) has_ended_ = true;
  in_.added(static_cast<std::size_t>(got));
  operations.statistics().add(Counter::kBytesRead, static_cast<std::uint64_t>(got));
  return true;
}

bool Connection::write_some(Operations &operations) {
  while (!out_.empty()) {
    const ssize_t sent = ::send(socket_, out_.view().data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0) return is_patience(errno);
    operations.statistics().add(Counter::kBytesWritten, static_cast<std::uint64_t>(sent));
    out_.drop_front(static_cast<std::size_t>(sent));
  }
  return true;
}

Connection::State Connection::serve(Operations &operations) {
  if (out_.empty() && !closes_ && !has_ended_ && !read_some(operations)) return State::kEnded;
  for (;;) {
    Session::Waits waits = Session::Waits::kToClose;
    if (!closes_) waits = session_.run(in_, operations, out_);
    if (waits == Session::Waits::kForNextThread) return State::kThreadEnds;
    if (waits == Session::Waits::kToClose || (waits == Session::Waits::kForInput && has_ended_))
      closes_ = true;
    if (!write_some(operations)) return State::kEnded;
    if (!out_.empty()) return State::kWrites;
    if (closes_) return State::kEnded;
    if (waits == Session::Waits::kForInput) return State::kReads;
  }
}

}  // namespace cache
