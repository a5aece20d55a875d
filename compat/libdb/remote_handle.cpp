// compat/libdb/remote_handle.cpp -- from the functions of a DB to requests.
#include "compat/libdb/remote_handle.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <utility>

#include "compat/libdb/failure.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

[[nodiscard]] std::string absolute(const char *path) {
  if (*path == '/' || *path == '\0') return path;
  const std::unique_ptr<char, decltype(&std::free)> here(::getcwd(nullptr, 0), &std::free);
  if (here == nullptr) throw Failure{errno};
  return std::string(here.get()) + "/" + path;
}

template <class Call>
int guarded(const Call &call) {
  try {
    return call();
  } catch (const Failure &failure) {
    errno = failure.number;
  } catch (const std::bad_alloc &) {
    errno = ENOMEM;
  } catch (const std::length_error &) {
    errno = ENOMEM;
  }
  return RET_ERROR;
}

// Empty bytes are somewhere, too.
void deliver(const DBT &from, std::string *kept, DBT *to) {
  kept->assign(static_cast<const char *>(from.data), from.size);
  to->data = kept->data();
  to->size = kept->size();
}

}  // namespace

std::unique_ptr<RemoteHandle> RemoteHandle::open(const char *file, int flags, int mode, DBTYPE type,
                                                 int dbflags, const void *openinfo) {
  Opening opening;
  // Where the process is now, whatever becomes of that.
  if (file != nullptr) opening.file = absolute(file);
  opening.has_file = file != nullptr;
  opening.flags = flags;
  opening.mode = mode;
  opening.type = type;
  opening.dbflags = dbflags;
  opening.has_info = openinfo != nullptr;
  if (openinfo != nullptr && type == DB_BTREE) {
    opening.tree = *static_cast<const BTREEINFO *>(openinfo);
  } else if (openinfo != nullptr && type == DB_HASH) {
    opening.table = *static_cast<const HASHINFO *>(openinfo);
  } else if (openinfo != nullptr && type == DB_RECNO) {
    opening.numbers = *static_cast<const RECNOINFO *>(openinfo);
    if (opening.numbers.bfname != nullptr) opening.tree_file = absolute(opening.numbers.bfname);
  } else if (openinfo != nullptr) {
    throw Failure{EINVAL};
  }
  std::unique_ptr<RemoteHandle> made(new RemoteHandle(std::move(opening)));
  tp_server *const server = tp_server_mine();
  if (server == nullptr) throw Failure{errno};
  made->open_at(server, flags);
  return made;
}

RemoteHandle::RemoteHandle(Opening opening) : opening_(std::move(opening)) {
  if (opening_.numbers.bfname != nullptr) opening_.numbers.bfname = opening_.tree_file.data();
  db_.type = opening_.type;
  db_.internal = this;
  db_.close = [](DB *db) { return close(db); };
  db_.del = [](const DB *db, const DBT *key, unsigned flags) {
    return guarded([&] { return of(db).del(key, flags); });
  };
  db_.get = [](const DB *db, const DBT *key, DBT *data, unsigned flags) {
    return guarded([&] { return of(db).get(key, data, flags); });
  };
  db_.put = [](const DB *db, DBT *key, const DBT *data, unsigned flags) {
    return guarded([&] { return of(db).put(key, data, flags); });
  };
  db_.seq = [](const DB *db, DBT *key, DBT *data, unsigned flags) {
    return guarded([&] { return of(db).seq(key, data, flags); });
  };
  db_.sync = [](const DB *db, unsigned flags) {
    return guarded([&] { return of(db).call(TP_SERVER_SYNC, flags, nullptr, nullptr); });
  };
  // The file is open at the server alone.
  db_.fd = [](const DB *) {
    errno = ENOENT;
    return -1;
  };
}

void RemoteHandle::open_at(tp_server *server, int flags) {
  TMH_ASSERT(server != nullptr);
  const void *info = nullptr;
  if (opening_.has_info && opening_.type == DB_BTREE) info = &opening_.tree;
  if (opening_.has_info && opening_.type == DB_HASH) info = &opening_.table;
  if (opening_.has_info && opening_.type == DB_RECNO) info = &opening_.numbers;
  TMH_ASSERT(opening_.has_info == (info != nullptr));
  number_ = tp_server_dbopen(server, opening_.has_file ? opening_.file.c_str() : nullptr, flags,
                             opening_.mode, opening_.type, opening_.dbflags, info);
  if (number_ < 0) throw Failure{errno};
  life_ = tp_server_life(server);
  process_ = ::getpid();
}

tp_server *RemoteHandle::server() {
  tp_server *const server = tp_server_mine();
  if (server == nullptr) throw Failure{errno == ENOENT ? ECONNRESET : errno};
  const std::uint64_t life = tp_server_life(server);
  if (life == life_) return server;
  const bool is_forked = process_ != ::getpid();
  if (life_ != 0 && !is_forked) {
    life_ = 0;
    throw Failure{ECONNRESET};
  }
  open_at(server, opening_.flags & ~(O_CREAT | O_EXCL | O_TRUNC));
  return server;
}

int RemoteHandle::call(tp_server_kind kind, unsigned flags, DBT *key, DBT *data) {
  tp_server *const at = server();
  TMH_ASSERT(at != nullptr && life_ != 0);
  tp_server_op op{};
  op.kind = kind;
  op.db = number_;
  op.flags = flags;
  if (key != nullptr) op.key = *key;
  if (data != nullptr) op.data = *data;
  for (const DBT *const given : {&op.key, &op.data})
    if (given->data == nullptr && given->size != 0) throw Failure{EINVAL};
  // What is empty is not what is not there.
  char nothing = 0;
  if (key != nullptr && key->data == nullptr && opening_.type != DB_RECNO) op.key.data = &nothing;
  if (data != nullptr && data->data == nullptr) op.data.data = &nothing;
  // Of a number's key the size does not matter.
  if (opening_.type == DB_RECNO && op.key.data != nullptr) op.key.size = sizeof(recno_t);
  const void *const given_key = op.key.data, *const given_data = op.data.data;
  const int result = tp_server_call(at, &op);
  if (result != RET_SUCCESS) return result;
  if (key != nullptr && op.key.data != given_key) deliver(op.key, &key_, key);
  if (data != nullptr && op.data.data != given_data) deliver(op.data, &data_, data);
  return result;
}

int RemoteHandle::get(const DBT *key, DBT *data, unsigned flags) {
  if (data == nullptr) throw Failure{EINVAL};
  DBT given = key != nullptr ? *key : DBT{};
  DBT found{};
  const int result = call(TP_SERVER_GET, flags, key != nullptr ? &given : nullptr, &found);
  if (result == RET_SUCCESS) *data = found;
  return result;
}

int RemoteHandle::put(DBT *key, const DBT *data, unsigned flags) {
  DBT given = data != nullptr ? *data : DBT{};
  return call(TP_SERVER_PUT, flags, key, data != nullptr ? &given : nullptr);
}

int RemoteHandle::del(const DBT *key, unsigned flags) {
  DBT given = key != nullptr ? *key : DBT{};
  return call(TP_SERVER_DEL, flags, key != nullptr ? &given : nullptr, nullptr);
}

int RemoteHandle::seq(DBT *key, DBT *data, unsigned flags) {
  if (key == nullptr || data == nullptr) throw Failure{EINVAL};
  // A key that is only delivered may be anything.
  DBT place = flags == R_CURSOR ? *key : DBT{};
  DBT found{};
  const int result = call(TP_SERVER_SEQ, flags, &place, &found);
  if (result != RET_SUCCESS) return result;
  *key = place;
  *data = found;
  return result;
}

int RemoteHandle::close(DB *db) {
  const std::unique_ptr<RemoteHandle> gone(&of(db));
  return guarded([&] {
    // Its parent's, which it has not used.
    if (gone->process_ != ::getpid()) return RET_SUCCESS;
    return gone->call(TP_SERVER_CLOSE, 0, nullptr, nullptr);
  });
}

}  // namespace tmh::db
