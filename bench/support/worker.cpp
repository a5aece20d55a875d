// bench/support/worker.cpp -- a process that measures on request.
#include "bench/support/worker.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr char kOk = 'k', kError = 'e';  // first byte of every reply
static_assert(kOk != kError);
constexpr std::size_t kMessageBytesMax = 4096;  // an error text is cut to this

// The parent's ends. A later child inherits them and must close them, or the earlier worker would
// never see its parent close the socket or die.
std::vector<int> &parent_sockets() {
  static std::vector<int> sockets;
  return sockets;
}

[[noreturn]] void fail(const char *what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void send_all(int socket, const void *data, std::size_t bytes) {
  TMH_ASSERT(socket >= 0 && data != nullptr && bytes > 0);
  // SEQPACKET: whole or not at all. NOSIGNAL: a dead peer is an error to report, not a SIGPIPE.
  if (::send(socket, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes))
    fail("send to a worker");
}

ssize_t receive_message(int socket, void *data, std::size_t bytes) {
  TMH_ASSERT(socket >= 0 && data != nullptr && bytes > 0);
  ssize_t received = 0;
  do {
    received = ::recv(socket, data, bytes, 0);
  } while (received < 0 && errno == EINTR);
  return received;
}

}  // namespace

WorkerProcess::WorkerProcess(const std::function<void(int)> &serve) {
  TMH_ASSERT(serve != nullptr);
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) fail("socketpair");
  std::fflush(nullptr);  // or the child would print the parent's buffered lines again
  pid_ = ::fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {
    (void)::close(sockets[0]);
    for (const int socket : parent_sockets()) (void)::close(socket);
    parent_sockets().clear();
    int status = 0;
    try {
      serve(sockets[1]);
    } catch (const std::exception &error) {  // the parent is gone, or closing the domain failed
      std::fprintf(stderr, "worker: %s\n", error.what());
      status = 1;
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  (void)::close(sockets[1]);
  socket_ = sockets[0];
  parent_sockets().push_back(socket_);
}

WorkerProcess::~WorkerProcess() {
  std::erase(parent_sockets(), socket_);
  (void)::close(socket_);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

void WorkerProcess::send(const void *data, std::size_t bytes) const {
  send_all(socket_, data, bytes);
}

void WorkerProcess::receive(void *data, std::size_t bytes) const {
  std::vector<char> message(1 + std::max(bytes, kMessageBytesMax));
  const ssize_t received = receive_message(socket_, message.data(), message.size());
  if (received < 0) fail("receive from a worker");
  if (received == 0) throw std::runtime_error("worker " + std::to_string(pid_) + " died");
  const auto payload = static_cast<std::size_t>(received - 1);
  if (message[0] == kError) throw std::runtime_error(std::string(message.data() + 1, payload));
  if (payload != bytes) throw std::runtime_error("worker replied with another size");
  std::memcpy(data, message.data() + 1, bytes);
}

void WorkerProcess::reply(int socket, const void *data, std::size_t bytes) {
  std::vector<char> message(1 + bytes, kOk);
  std::memcpy(message.data() + 1, data, bytes);
  send_all(socket, message.data(), message.size());
}

void WorkerProcess::reply_error(int socket, const std::string &message) {
  const std::string text = kError + message.substr(0, kMessageBytesMax);
  send_all(socket, text.data(), text.size());
}

bool WorkerProcess::next_request(int socket, void *data, std::size_t bytes) {
  return receive_message(socket, data, bytes) == static_cast<ssize_t>(bytes);
}

}  // namespace tmh::bench
