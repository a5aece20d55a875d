#include "examples/itm/cache/worker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

namespace cache {

namespace {

constexpr int kEventsMax = 64;

}  // namespace

Worker::Worker(Shared &shared, unsigned index)
    : begun_(shared.begun),
      operations_(shared, index),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{EPOLLIN, {nullptr}};
  if (epoll_ < 0 || wake_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "a worker's epoll");
}

Worker::~Worker() {
  while (connections_ != nullptr) remove(connections_);
  ::close(wake_);
  ::close(epoll_);
}

bool Worker::adopt(int socket) {
  auto connection = std::make_unique<Connection>(socket);
  {
    const std::scoped_lock lock(connections_mutex_);
    connection->next = connections_;
    if (connections_ != nullptr) connections_->previous = connection.get();
    connections_ = connection.get();
  }
  epoll_event event{EPOLLIN, {connection.get()}};
  Connection *adopted = connection.release();
  // From here on the worker may end it at any time.
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event) == 0) return true;
  remove(adopted);
  return false;
}

void Worker::stop() {
  stops_.store(true, std::memory_order_release);  // pairs with the acquire in run()
  const std::uint64_t one = 1;
  // Fails only where the worker has been woken often enough already.
  static_cast<void>(!::write(wake_, &one, sizeof one));
}

void Worker::end(Connection *connection) {
  operations_.statistics().add(Counter::kConnectionsEnded);
  remove(connection);
}

void Worker::remove(Connection *connection) {
  {
    const std::scoped_lock lock(connections_mutex_);
    if (connection->next != nullptr) connection->next->previous = connection->previous;
    if (connection->previous != nullptr)
      connection->previous->next = connection->next;
    else
      connections_ = connection->next;
  }
  delete connection;  // closing the socket takes it from the epoll
}

void Worker::serve(Connection *connection) {
  served_ = connection;
  const Connection::State state = connection->serve(operations_);
  operations_.count_transactions();
  if (state == Connection::State::kThreadEnds) return operations_.end_thread();
  served_ = nullptr;
  if (state == Connection::State::kEnded) return end(connection);
  const bool writes = state == Connection::State::kWrites;
  if (writes == connection->waits_to_write) return;
  connection->waits_to_write = writes;
  epoll_event event{writes ? EPOLLOUT : EPOLLIN, {connection}};
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, connection->socket(), &event) != 0) end(connection);
}

bool Worker::run() {
  begun_.add();
  std::array<epoll_event, kEventsMax> events;
  // acquire: pairs with the release in stop()
  while (!stops_.load(std::memory_order_acquire)) {
    const int count = epoll_wait(epoll_, events.data(), kEventsMax, -1);
    for (int i = 0; i < count; ++i) {
      auto *connection = static_cast<Connection *>(events[static_cast<std::size_t>(i)].data.ptr);
      if (connection == nullptr) continue;  // stop()
      serve(connection);
      if (operations_.ends_thread()) return false;
    }
  }
  return true;
}

void Worker::clear_up() {
  if (served_ != nullptr) end(served_);
  served_ = nullptr;
}

}  // namespace cache
