// compat/libtp/client/server.cpp -- tp/server.h at the client: connections, operations, batches.
// Contexts:  NOT async-signal-safe.
#include <tp/server.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "compat/libtp/client/connection.h"
#include "compat/libtp/client/thread_server.h"
#include "platform/assert.h"

namespace tmh::tp::client {

namespace {

[[nodiscard]] std::optional<std::string_view> view_of(const DBT &dbt) noexcept {
  if (dbt.data == nullptr) return std::nullopt;
  return std::string_view(static_cast<const char *>(dbt.data), dbt.size);
}
// Empty bytes lie somewhere, too.
void deliver(const std::optional<std::string_view> &from, DBT *to) noexcept {
  static char nothing = 0;
  if (!from) return;
  to->data = from->empty() ? &nothing : const_cast<char *>(from->data());
  to->size = from->size();
}
[[nodiscard]] wire::Op wire_op(const tp_server_op &op) noexcept {
  wire::Op made;
  made.kind = static_cast<std::uint16_t>(op.kind);
  made.db = op.db;
  made.flags = op.flags;
  made.number = op.number;
  made.key = view_of(op.key);
  made.data = view_of(op.data);
  return made;
}
void deliver(const wire::Result &result, tp_server_op *op) noexcept {
  TMH_ASSERT(op != nullptr);
  op->result = result.result;
  op->error = result.error;
  if (result.db >= 0) op->db = result.db;
  op->number = result.number;
  deliver(result.key, &op->key);
  deliver(result.data, &op->data);
}

[[nodiscard]] bool is_right(const tp_server_op *ops, std::size_t count) noexcept {
  if ((ops == nullptr && count != 0) || count > TP_SERVER_OPS_MAX) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const tp_server_op &op = ops[i];
    if (op.kind <= 0 || op.kind > TP_SERVER_QUERY_END ||
        (op.key.data == nullptr && op.key.size != 0) ||
        (op.data.data == nullptr && op.data.size != 0))
      return false;
  }
  return true;
}

template <class Call>
[[nodiscard]] int guarded(const Call &call) {
  try {
    return call();
  } catch (const std::bad_alloc &) {
    errno = ENOMEM;
  } catch (const std::length_error &) {
    errno = ENOMEM;
  }
  return -1;
}

// A message that came whole, and is none.
[[nodiscard]] int bad_reply() noexcept {
  errno = EPROTO;
  return -1;
}

void note_end_of_transaction(tp_server *server, const tp_server_op &op) noexcept {
  if (op.kind == TP_SERVER_BEGIN && op.result == 0) server->has_transaction = true;
  if ((op.kind == TP_SERVER_COMMIT || op.kind == TP_SERVER_ABORT) && op.result == 0)
    server->has_transaction = false;
}

[[nodiscard]] int call_op(tp_server *server, tp_server_op *op) {
  TMH_ASSERT(server != nullptr && op != nullptr);
  if (!server->connection.is_idle()) {
    errno = EBUSY;
    return -1;
  }
  server->connection.begin(wire::Kind::kOp);
  wire::Writer out(&server->connection.message());
  put(&out, wire_op(*op));
  std::string_view payload;
  if (server->connection.send() != 0 || server->connection.receive(&payload) != 0) return -1;
  wire::Reader in(payload);
  const wire::Result result = wire::take_result(&in);
  if (!in.is_at_end()) return bad_reply();
  deliver(result, op);
  note_end_of_transaction(server, *op);
  if (op->result == -1) errno = op->error;
  return op->result;
}

[[nodiscard]] wire::Opening opening_of(int flags, int mode, DBTYPE type, int dbflags,
                                       const void *openinfo) noexcept {
  wire::Opening made;
  made.flags = flags;
  made.mode = mode;
  made.type = type;
  made.dbflags = dbflags;
  made.has_info = openinfo != nullptr ? 1 : 0;
  if (openinfo == nullptr) return made;
  const auto set = [&](auto... numbers) {
    std::size_t at = 0;
    ((made.numbers[at++] = static_cast<std::uint64_t>(numbers)), ...);
  };
  if (type == DB_BTREE) {
    const auto &info = *static_cast<const BTREEINFO *>(openinfo);
    set(info.flags, info.cachesize, info.maxkeypage, info.minkeypage, info.psize, info.lorder);
  } else if (type == DB_HASH) {
    const auto &info = *static_cast<const HASHINFO *>(openinfo);
    set(info.bsize, info.ffactor, info.nelem, info.cachesize, info.lorder);
  } else if (type == DB_RECNO) {
    const auto &info = *static_cast<const RECNOINFO *>(openinfo);
    set(info.flags, info.cachesize, info.psize, info.lorder, info.reclen, info.bval);
  }
  return made;
}
[[nodiscard]] bool has_callbacks(DBTYPE type, const void *openinfo) noexcept {
  if (openinfo == nullptr) return false;
  if (type == DB_BTREE) {
    const auto &info = *static_cast<const BTREEINFO *>(openinfo);
    return info.compare != nullptr || info.prefix != nullptr;
  }
  return type == DB_HASH && static_cast<const HASHINFO *>(openinfo)->hash != nullptr;
}

// As this process means it.
[[nodiscard]] std::string absolute(const char *path) {
  if (*path == '/' || *path == '\0') return path;
  const std::unique_ptr<char, decltype(&std::free)> here(::getcwd(nullptr, 0), &std::free);
  return here == nullptr ? path : std::string(here.get()) + "/" + path;
}

[[nodiscard]] int open_database(tp_server *server, const char *file, const wire::Opening &given,
                                const char *tree_file) {
  wire::Opening opening = given;
  const std::string tree_path = tree_file != nullptr ? absolute(tree_file) : std::string();
  if (tree_file != nullptr) opening.tree_file = tree_path;
  std::string numbers;
  wire::Writer out(&numbers);
  put(&out, opening);
  std::string path = file != nullptr ? absolute(file) : std::string();
  tp_server_op op{};
  op.kind = TP_SERVER_DBOPEN;
  if (file != nullptr) op.key = {path.data(), path.size()};
  op.data = {numbers.data(), numbers.size()};
  return call_op(server, &op) == 0 ? op.db : -1;
}

[[nodiscard]] int send_batch(tp_server *server, const tp_server_op *ops, std::size_t count,
                             unsigned flags) {
  server->connection.begin(wire::Kind::kBatch);
  wire::Writer out(&server->connection.message());
  out.number(std::uint32_t{flags});
  out.number(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) put(&out, wire_op(ops[i]));
  return server->connection.send();
}

[[nodiscard]] int receive_batch(tp_server *server, tp_server_op *ops, std::size_t count,
                                std::size_t *done) {
  TMH_ASSERT(ops != nullptr || count == 0);
  std::string_view payload;
  if (server->connection.receive(&payload) != 0) return -1;
  wire::Reader in(payload);
  const auto result = in.number<std::int32_t>(), error = in.number<std::int32_t>();
  const auto results = in.number<std::uint32_t>();
  if (!in.is_right() || results > count) return bad_reply();
  for (std::size_t i = 0; i < results; ++i) {
    const wire::Result one = wire::take_result(&in);
    if (!in.is_right()) return bad_reply();
    deliver(one, &ops[i]);
    note_end_of_transaction(server, ops[i]);
  }
  if (!in.is_at_end()) return bad_reply();
  if (done != nullptr) *done = results;
  if (result == -1) errno = error;
  return result;
}

}  // namespace

extern "C" {

tp_server *tp_server_connect(const char *address) {
  const char *const wanted = address != nullptr ? address : std::getenv("TP_SERVER");
  errno = ENOENT;
  if (wanted == nullptr || *wanted == '\0') return nullptr;
  auto *const made = new (std::nothrow) tp_server;
  errno = ENOMEM;
  if (made == nullptr) return nullptr;
  if (guarded([&] { return made->connection.open(wanted); }) == 0) return made;
  const int error = errno;
  delete made;
  errno = error;
  return nullptr;
}

tp_server *tp_server_mine(void) { return server_of_thread(); }

uint64_t tp_server_life(const tp_server *server) {
  return server == nullptr ? 0 : server->connection.life();
}

int tp_server_close(tp_server *server) {
  if (server != nullptr) server->connection.end();
  delete server;
  return 0;
}

int tp_server_dbopen(tp_server *server, const char *file, int flags, int mode, DBTYPE type,
                     int dbflags, const void *openinfo) {
  errno = EINVAL;
  if (server == nullptr) return -1;
  errno = ENOTSUP;
  if (has_callbacks(type, openinfo)) return -1;
  return guarded([&] {
    const char *const tree_file = type == DB_RECNO && openinfo != nullptr
                                      ? static_cast<const RECNOINFO *>(openinfo)->bfname
                                      : nullptr;
    return open_database(server, file, opening_of(flags, mode, type, dbflags, openinfo), tree_file);
  });
}

int tp_server_call(tp_server *server, tp_server_op *op) {
  errno = EINVAL;
  if (server == nullptr || op == nullptr || !is_right(op, 1)) return -1;
  return guarded([&] { return call_op(server, op); });
}

int tp_server_send(tp_server *server, const tp_server_op *ops, size_t count, unsigned flags) {
  errno = EINVAL;
  if (server == nullptr || !is_right(ops, count) ||
      (flags & ~(0u + TP_SERVER_NO_TRANSACTION + TP_SERVER_GO_ON)) != 0)
    return -1;
  return guarded([&] { return send_batch(server, ops, count, flags); });
}

int tp_server_receive(tp_server *server, tp_server_op *ops, size_t count, size_t *done) {
  if (done != nullptr) *done = 0;
  errno = EINVAL;
  if (server == nullptr || (ops == nullptr && count != 0)) return -1;
  return guarded([&] { return receive_batch(server, ops, count, done); });
}

int tp_server_batch(tp_server *server, tp_server_op *ops, size_t count, unsigned flags,
                    size_t *done) {
  if (done != nullptr) *done = 0;
  errno = EBUSY;
  if (server != nullptr && !server->connection.is_idle()) return -1;
  if (tp_server_send(server, ops, count, flags) != 0) return -1;
  return tp_server_receive(server, ops, count, done);
}

int tp_server_script(tp_server *server, const char *script, size_t bytes, DBT *result) {
  errno = EINVAL;
  if (server == nullptr || script == nullptr || result == nullptr) return -1;
  return guarded([&] {
    errno = EBUSY;
    if (!server->connection.is_idle()) return -1;
    server->connection.begin(wire::Kind::kScript);
    wire::Writer(&server->connection.message()).bytes(script, bytes);
    std::string_view payload;
    if (server->connection.send() != 0 || server->connection.receive(&payload) != 0) return -1;
    wire::Reader in(payload);
    const wire::Result found = wire::take_result(&in);
    if (!in.is_at_end()) return bad_reply();
    // A script may begin and end transactions.
    server->has_transaction = found.number != 0;
    deliver(found.data, result);
    if (found.result == -1) errno = found.error;
    return found.result;
  });
}

}  // extern "C"

}  // namespace tmh::tp::client
