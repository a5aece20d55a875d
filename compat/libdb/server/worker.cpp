// compat/libdb/server/worker.cpp -- bytes of a client's socket.
#include "compat/libdb/server/worker.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include "compat/libtp/interruption.h"
#include "platform/assert.h"

namespace tmh::db::server {

namespace {
constexpr std::size_t kReadBytes = 64 << 10, kReplyBytes = 64 << 10;
}  // namespace

Worker::Worker(Shared *shared, int socket, unsigned uid, std::uint64_t write_ms, int done)
    : shared_(*shared), socket_(socket), uid_(uid), write_ms_(write_ms), done_(done) {
  TMH_ASSERT(socket >= 0 && write_ms != 0);
}

Worker::~Worker() {
  if (thread_.joinable()) thread_.join();
  (void)::close(socket_);
}

void Worker::begin() {
  TMH_ASSERT(!thread_.joinable());
  thread_ = std::thread([this] { run(); });
}

void Worker::stop(bool is_hard) noexcept {
  is_stopped_.store(true, std::memory_order_relaxed);
  end_waits();
  (void)::shutdown(socket_, is_hard ? SHUT_RDWR : SHUT_RD);
}

void Worker::run() {
  tp::end_waits_when(&is_over_);
  const timeval patience{static_cast<time_t>(write_ms_ / 1000),
                         static_cast<suseconds_t>(write_ms_ % 1000 * 1000)};
  (void)::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  try {
    Requests requests(&shared_, uid_);
    serve(&requests);
  } catch (const std::exception &) {
    // Out of memory: the client finds its connection closed.
  }
  tp::end_waits_when(nullptr);
  // The client learns it now, and not when the server's thread has time.
  (void)::shutdown(socket_, SHUT_RDWR);
  is_done_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  (void)!::write(done_, &one, sizeof one);
}

void Worker::serve(Requests *requests) {
  while (!is_stopped_.load(std::memory_order_relaxed)) {
    if (!read_some() || !answer_all(requests) || !write_all()) break;
  }
  (void)write_all();
}

bool Worker::read_some() {
  TMH_ASSERT(end_ <= in_.size());
  if (in_.size() - end_ < kReadBytes) in_.resize(end_ + kReadBytes);
  for (;;) {
    const ssize_t got = ::recv(socket_, in_.data() + end_, in_.size() - end_, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    end_ += static_cast<std::size_t>(got);
    return true;
  }
}

// Replies wait until there is no whole request left, or there are many bytes of them.
bool Worker::answer_all(Requests *requests) {
  std::size_t taken = 0;
  bool is_right = true;
  while (is_right && end_ - taken >= tp::wire::kHeadBytes &&
         !is_stopped_.load(std::memory_order_relaxed)) {
    const std::string_view left = std::string_view(in_).substr(taken, end_ - taken);
    const tp::wire::Head head = tp::wire::head_of(left);
    if (head.bytes > TP_SERVER_MESSAGE_MAX) {
      Counters::add(shared_.counters.malformed);
      return false;
    }
    const std::size_t whole = tp::wire::kHeadBytes + head.bytes;
    if (left.size() < whole) {
      if (in_.size() - taken < whole + kReadBytes) in_.resize(taken + whole + kReadBytes);
      break;
    }
    is_right = requests->answer(head, left.substr(tp::wire::kHeadBytes, head.bytes), &out_);
    taken += whole;
    if (out_.size() >= kReplyBytes && !write_all()) return false;
  }
  TMH_ASSERT(taken <= end_);
  std::memmove(in_.data(), in_.data() + taken, end_ - taken);
  end_ -= taken;
  // What a large message needed.
  if (end_ == 0 && in_.size() > 16 * kReadBytes) std::string(kReadBytes, '\0').swap(in_);
  return is_right;
}

bool Worker::write_all() {
  for (std::size_t done = 0; done < out_.size();) {
    const ssize_t sent = ::send(socket_, out_.data() + done, out_.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) {
      out_.clear();
      return false;
    }
    done += static_cast<std::size_t>(sent);
  }
  out_.clear();
  return true;
}

}  // namespace tmh::db::server
