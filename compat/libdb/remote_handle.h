// compat/libdb/remote_handle.h -- a DB whose file is at a server: its calls are requests of the
// thread's connection.
// Shape:     what a call delivers lies in the handle until its next call. A forked child opens its
//            own, at its first call, without a cursor. When the server is another one, a call
//            fails once with ECONNRESET, and the next one opens the file there.
// Contexts:  one thread at a time. NOT async-signal-safe.
#pragma once

#include <tp/db.h>
#include <tp/server.h>

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tmh::db {

class RemoteHandle {
 public:
  struct Opening {
    std::string file;
    bool has_file = false;
    int flags = 0, mode = 0;
    DBTYPE type = DB_BTREE;
    int dbflags = 0;
    bool has_info = false;
    BTREEINFO tree{};
    HASHINFO table{};
    RECNOINFO numbers{};
    std::string tree_file;
  };

  // Throws Failure.
  [[nodiscard]] static std::unique_ptr<RemoteHandle> open(const char *file, int flags, int mode,
                                                          DBTYPE type, int dbflags,
                                                          const void *openinfo);
  ~RemoteHandle() = default;
  RemoteHandle(const RemoteHandle &) = delete;
  RemoteHandle &operator=(const RemoteHandle &) = delete;
  [[nodiscard]] DB *db() noexcept { return &db_; }

 private:
  explicit RemoteHandle(Opening opening);
  static RemoteHandle &of(const DB *db) noexcept {
    return *static_cast<RemoteHandle *>(db->internal);
  }
  // At the connection, which it says.
  void open_at(tp_server *server, int flags);
  [[nodiscard]] tp_server *server();
  [[nodiscard]] int call(tp_server_kind kind, unsigned flags, DBT *key, DBT *data);
  [[nodiscard]] int get(const DBT *key, DBT *data, unsigned flags);
  [[nodiscard]] int put(DBT *key, const DBT *data, unsigned flags);
  [[nodiscard]] int del(const DBT *key, unsigned flags);
  [[nodiscard]] int seq(DBT *key, DBT *data, unsigned flags);
  static int close(DB *db);

  Opening opening_;
  int number_ = -1;
  std::uint64_t life_ = 0;  // 0: it is to be opened again
  pid_t process_ = 0;
  DB db_{};
  std::string key_, data_;
};

}  // namespace tmh::db
