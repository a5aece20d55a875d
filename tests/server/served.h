// tests/server/served.h -- a server as a child process, and operations for it.
#pragma once

#define TP_NO_SHORT_NAMES
#include <tp/db.h>
#include <tp/paper.h>
#include <tp/server.h>

#undef tp_lock

#include <fcntl.h>
#include <stdlib.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

inline DBT dbt(const std::string &text) { return {const_cast<char *>(text.data()), text.size()}; }
inline std::string text(const DBT &dbt) {
  return dbt.data == nullptr ? "" : std::string(static_cast<const char *>(dbt.data), dbt.size);
}

inline tp_server_op op(tp_server_kind kind, int db = -1, const std::string *key = nullptr,
                       const std::string *data = nullptr, unsigned flags = 0) {
  tp_server_op made{};
  made.kind = kind;
  made.db = db;
  made.flags = flags;
  if (key != nullptr) made.key = dbt(*key);
  if (data != nullptr) made.data = dbt(*data);
  return made;
}
inline int call(tp_server *server, tp_server_kind kind, int db = -1,
                const std::string *key = nullptr, const std::string *data = nullptr,
                unsigned flags = 0) {
  tp_server_op made = op(kind, db, key, data, flags);
  return tp_server_call(server, &made);
}
// The record; "(none)", or the error.
inline std::string value(tp_server *server, int db, const std::string &key) {
  tp_server_op made = op(TP_SERVER_GET, db, &key);
  const int result = tp_server_call(server, &made);
  return result == 0 ? text(made.data) : result == 1 ? "(none)" : std::strerror(errno);
}

// Its folder, and servers in it, one at a time. TP_SERVER names it while it lives.
class Served {
 public:
  explicit Served(tp_server_options options = {}) : options_(options) {
    ::setenv("TP_SERVER", socket().c_str(), 1);
    begin();
  }
  ~Served() {
    if (is_running_) end();
    ::unsetenv("TP_SERVER");
  }
  Served(const Served &) = delete;
  Served &operator=(const Served &) = delete;

  void begin() {
    state_->is_ready = false;
    server_ = children_.spawn("server", [this] {
      const std::string path = socket(), home = folder_ / "home";
      options_.socket = path.c_str();
      options_.home = home.c_str();
      options_.argument = &*state_;
      options_.ready = [](const char *, void *state) {
        static_cast<State *>(state)->is_ready = true;
      };
      options_.count = [](const tp_server_counters *counters, void *state) {
        static_cast<State *>(state)->counters = *counters;
        ++static_cast<State *>(state)->told;
      };
      ASSERT_EQ(tp_serve(&options_), 0) << std::strerror(errno) << ": " << tp_last_error();
    });
    is_running_ = true;
    ASSERT_TRUE(poll_until([&] { return state_->is_ready.load(); }));
  }
  // SIGTERM; how it ends is checked.
  void end() {
    is_running_ = false;
    children_.kill(server_, SIGTERM);
    EXPECT_TRUE(children_.wait(server_).succeeded());
  }
  void kill() {
    is_running_ = false;
    children_.bury(server_);
  }
  // As of now.
  [[nodiscard]] tp_server_counters counters() {
    const unsigned before = state_->told;
    children_.kill(server_, SIGUSR1);
    EXPECT_TRUE(poll_until([&] { return state_->told != before; }));
    return state_->counters;
  }
  [[nodiscard]] std::string socket() const { return folder_ / "socket"; }
  [[nodiscard]] std::string path(const std::string &name) const { return folder_ / name; }
  [[nodiscard]] const std::string &folder() const { return folder_.path(); }

 private:
  struct State {
    std::atomic<bool> is_ready;
    std::atomic<unsigned> told;
    tp_server_counters counters;
  };
  TempFolder folder_;
  tp_server_options options_;
  Shared<State> state_;
  Children children_;
  std::size_t server_ = 0;
  bool is_running_ = false;
};

// A connection, which ends with it.
class Client {
 public:
  explicit Client(const std::string &address) : server_(tp_server_connect(address.c_str())) {
    if (server_ == nullptr) throw std::runtime_error(std::string("connect: ") + strerror(errno));
  }
  ~Client() { (void)tp_server_close(server_); }
  Client(const Client &) = delete;
  Client &operator=(const Client &) = delete;
  [[nodiscard]] tp_server *get() const { return server_; }
  [[nodiscard]] int open(const std::string &file, DBTYPE type = DB_BTREE,
                         int dbflags = DB_SHARED | DB_TP, const void *info = nullptr) const {
    const int db =
        tp_server_dbopen(server_, file.c_str(), O_RDWR | O_CREAT, 0600, type, dbflags, info);
    EXPECT_GT(db, 0) << std::strerror(errno);
    return db;
  }

 private:
  tp_server *const server_;
};

}  // namespace tmh::test
