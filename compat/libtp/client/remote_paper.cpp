// compat/libtp/client/remote_paper.cpp -- operations of the thread's connection.
#include "compat/libtp/client/remote_paper.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compat/libtp/calls.h"
#include "compat/libtp/client/thread_server.h"
#include "platform/assert.h"

namespace tmh::tp::client {

namespace {

struct Pinned {
  int file;
  std::uint64_t page;
  std::array<std::byte, TP_PAGE_BYTES> before;
  alignas(64) std::array<std::byte, TP_PAGE_BYTES> bytes;
};
thread_local std::vector<std::unique_ptr<Pinned>> pinned;

int failed_connection() {
  return failed(errno == EACCES ? Errc::kPermission : Errc::kIo,
                std::string("the server: ") + std::strerror(errno));
}

// A number of tp.h.
int call(tp_server_op *op) noexcept {
  TMH_ASSERT(op != nullptr);
  tp_server *const server = server_of_thread();
  if (server == nullptr) return failed_connection();
  const int result = tp_server_call(server, op);
  if (result == -1) return failed_connection();
  if (result != TP_OK && op->data.data != nullptr)
    return failed(static_cast<Errc>(result),
                  {static_cast<const char *>(op->data.data), op->data.size});
  return result;
}
int call(tp_server_kind kind, int file, std::uint64_t page, unsigned flags) noexcept {
  tp_server_op op{};
  op.kind = kind;
  op.db = file;
  op.number = page;
  op.flags = flags;
  return call(&op);
}

DBT dbt(const void *data, std::size_t bytes) noexcept { return {const_cast<void *>(data), bytes}; }

// What was lost with the connection has been rolled back, or will be.
[[nodiscard]] bool end_lost() noexcept {
  tp_server *const server = server_of_thread_now();
  if (server == nullptr || !server->has_transaction || !server->connection.is_own() ||
      !server->connection.is_broken())
    return false;
  server->has_transaction = false;
  return true;
}

}  // namespace

int remote_open(const char *home, const tp_options *options) noexcept {
  if (home == nullptr) return refused("tp_open() of nothing");
  if (options != nullptr && (options->type_count != 0 || options->modes != nullptr))
    return refused("a server knows no undo routines and modes of a client's");
  std::string path = home;
  if (path.empty() || path[0] != '/') {
    const std::unique_ptr<char, decltype(&std::free)> here(::getcwd(nullptr, 0), &std::free);
    if (here != nullptr) path = std::string(here.get()) + "/" + path;
  }
  tp_server_op op{};
  op.kind = TP_SERVER_HOME;
  op.key = dbt(path.data(), path.size());
  op.number = static_cast<std::uint64_t>(options != nullptr ? options->durability : -1);
  return call(&op);
}

int remote_close() noexcept {
  const tp_server *const server = server_of_thread_now();
  if (server != nullptr && server->has_transaction && !end_lost())
    return failed(Errc::kInstanceRunning, "this thread's transaction has not ended");
  pinned.clear();
  return TP_OK;
}

tp_id remote_begin() noexcept {
  tp_server_op op{};
  op.kind = TP_SERVER_BEGIN;
  return call(&op) == TP_OK ? op.number : 0;
}
int remote_commit() noexcept {
  pinned.clear();
  if (end_lost()) {
    errno = ECONNRESET;
    return failed_connection();
  }
  const int error = call(TP_SERVER_COMMIT, -1, 0, 0);
  if (error != TP_OK) (void)end_lost();
  return error;
}
int remote_abort() noexcept {
  pinned.clear();
  if (end_lost()) return TP_OK;
  const int error = call(TP_SERVER_ABORT, -1, 0, 0);
  return error != TP_OK && end_lost() ? TP_OK : error;
}

int remote_buf_open(const char *path, int flags, int mode) noexcept {
  if (path == nullptr) {
    (void)refused("a file of nothing");
    return -1;
  }
  tp_server_op op{};
  op.kind = TP_SERVER_BUF_OPEN;
  op.key = dbt(path, std::strlen(path));
  op.flags = static_cast<unsigned>(flags);
  op.number = static_cast<std::uint64_t>(mode);
  return call(&op) == TP_OK ? op.db : -1;
}

void *remote_buf_get(int file, std::uint64_t page, int *bytes) noexcept {
  tp_server_op op{};
  op.kind = TP_SERVER_BUF_GET;
  op.db = file;
  op.number = page;
  if (call(&op) != TP_OK || op.data.size != TP_PAGE_BYTES) return nullptr;
  try {
    pinned.push_back(std::make_unique<Pinned>());
  } catch (const std::bad_alloc &) {
    (void)failed(Errc::kOutOfMemory, "");
    return nullptr;
  }
  TMH_ASSERT(op.data.data != nullptr);
  Pinned &made = *pinned.back();
  made.file = file;
  made.page = page;
  std::memcpy(made.before.data(), op.data.data, TP_PAGE_BYTES);
  made.bytes = made.before;
  if (bytes != nullptr) *bytes = static_cast<int>(op.number);
  return made.bytes.data();
}

int remote_buf_unpin(void *page) noexcept {
  const auto found = std::find_if(pinned.begin(), pinned.end(),
                                  [&](const auto &one) { return one->bytes.data() == page; });
  if (found == pinned.end()) return refused("it is not pinned");
  const std::unique_ptr<Pinned> gone = std::move(*found);
  pinned.erase(found);
  // Runs of changed bytes, each stored alone: others may have changed what lies between.
  constexpr std::size_t kGap = 16;
  const auto is_changed = [&](std::size_t at) { return gone->bytes[at] != gone->before[at]; };
  for (std::size_t at = 0; at < TP_PAGE_BYTES; ++at) {
    if (!is_changed(at)) continue;
    std::size_t end = at + 1;
    for (std::size_t next = end; next < std::min<std::size_t>(end + kGap, TP_PAGE_BYTES); ++next)
      if (is_changed(next)) end = next + 1;
    TMH_ASSERT(at < end && end <= TP_PAGE_BYTES);
    tp_server_op op{};
    op.kind = TP_SERVER_BUF_PUT;
    op.db = gone->file;
    op.number = gone->page;
    op.flags = static_cast<unsigned>(at);
    op.data = dbt(gone->bytes.data() + at, end - at);
    if (const int error = call(&op); error != TP_OK) return error;
    at = end;
  }
  return TP_OK;
}

int remote_lock(int file, std::uint64_t page, unsigned mode) noexcept {
  return call(TP_SERVER_LOCK, file, page, mode);
}
int remote_unlock(int file, std::uint64_t page, unsigned mode) noexcept {
  return call(TP_SERVER_UNLOCK, file, page, mode);
}
int remote_trade(int file, std::uint64_t page, unsigned from, unsigned to) noexcept {
  tp_server_op op{};
  op.kind = TP_SERVER_TRADE;
  op.db = file;
  op.number = page;
  op.flags = from;
  op.data = dbt(&to, sizeof to);
  return call(&op);
}

tp_lsn remote_log(std::uint32_t type, const void *data, std::size_t bytes) noexcept {
  tp_server_op op{};
  op.kind = TP_SERVER_LOG;
  op.flags = type;
  op.data = dbt(data, bytes);
  return call(&op) == TP_OK ? op.number : 0;
}
int remote_flush() noexcept { return call(TP_SERVER_FLUSH, -1, 0, 0); }

}  // namespace tmh::tp::client
