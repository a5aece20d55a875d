// compat/libtp/client/thread_server.cpp -- connections of threads, and those that ended threads
// have left.
#include "compat/libtp/client/thread_server.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <pthread.h>

#include "platform/assert.h"

namespace tmh::tp::client {

namespace {

// Never destroyed: threads may end behind functions that run at the process's end.
struct Left {
  std::mutex mutex;
  std::vector<std::unique_ptr<tp_server>> servers;
};
Left *left = new Left;
// A child's copy of the mutex may be locked by a thread that it does not have.
[[maybe_unused]] const int left_handler = pthread_atfork(nullptr, nullptr, [] { left = new Left; });

[[nodiscard]] bool is_usable(const tp_server &server, const std::string &address) noexcept {
  return server.connection.is_own() && !server.connection.is_broken() &&
         server.connection.address() == address;
}

[[nodiscard]] std::unique_ptr<tp_server> take_left(const std::string &address) {
  TMH_ASSERT(!address.empty());
  const std::scoped_lock guard(left->mutex);
  std::erase_if(left->servers, [&](const auto &server) { return !is_usable(*server, address); });
  if (left->servers.empty()) return nullptr;
  std::unique_ptr<tp_server> taken = std::move(left->servers.back());
  left->servers.pop_back();
  return taken;
}

void leave(std::unique_ptr<tp_server> server) noexcept {
  if (server == nullptr || !server->connection.is_own() || server->connection.is_broken() ||
      !server->connection.is_idle())
    return;
  if (server->has_transaction) {
    tp_server_op op{};
    op.kind = TP_SERVER_ABORT;
    if (tp_server_call(server.get(), &op) != 0) return;
  }
  try {
    const std::scoped_lock guard(left->mutex);
    left->servers.push_back(std::move(server));
  } catch (const std::bad_alloc &) {
  }
}

thread_local tp_server *mine = nullptr;
struct End {
  ~End() { leave(std::unique_ptr<tp_server>(std::exchange(mine, nullptr))); }
};

}  // namespace

bool is_server_wanted() noexcept {
  const char *const address = std::getenv("TP_SERVER");
  return address != nullptr && *address != '\0';
}

tp_server *server_of_thread_now() noexcept { return mine; }

tp_server *server_of_thread() noexcept {
  try {
    const char *const wanted = std::getenv("TP_SERVER");
    if (wanted == nullptr || *wanted == '\0') {
      errno = ENOENT;
      return nullptr;
    }
    if (mine != nullptr) {
      if (is_usable(*mine, wanted)) return mine;
      if (mine->connection.is_own() && mine->has_transaction) return mine;
      delete std::exchange(mine, nullptr);
    }
    TMH_ASSERT(mine == nullptr);
    thread_local End end;
    (void)end;
    mine = take_left(wanted).release();
    if (mine == nullptr) mine = tp_server_connect(wanted);
    return mine;
  } catch (const std::bad_alloc &) {
    errno = ENOMEM;
    return nullptr;
  }
}

}  // namespace tmh::tp::client
