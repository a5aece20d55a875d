// compat/libdb/server/session.h -- the databases that a client's process has open: all of its
// connections use them.
// Sharing:   workers' threads: all may call. A database is one call's at a time.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <tp/db.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace tmh::db::server {

struct Database {
  explicit Database(DB *opened) noexcept : db(opened) {}
  ~Database();
  Database(const Database &) = delete;
  Database &operator=(const Database &) = delete;

  // 0 or -1 and errno. Once.
  int close() noexcept;

  std::mutex mutex;
  DB *db;
  bool has_transactions = false, is_private = false, has_duplicates = false;
  // Of the connection's transaction that has used it last; false: it has ended.
  std::shared_ptr<std::atomic<bool>> user;
  std::uint64_t record_bytes = 0;  // of R_FIXEDLEN; 0: of any length
};

class Session {
 public:
  explicit Session(std::uint64_t life) noexcept : life_(life) {}

  // Throws Failure(EMFILE).
  [[nodiscard]] int add(std::shared_ptr<Database> database);
  // Null: none has that number.
  [[nodiscard]] std::shared_ptr<Database> find(int number) const;
  // Nobody finds it any more.
  [[nodiscard]] std::shared_ptr<Database> remove(int number);
  [[nodiscard]] bool is_full() const;
  [[nodiscard]] std::uint64_t life() const noexcept { return life_; }

 private:
  const std::uint64_t life_;
  mutable std::mutex mutex_;
  // Never used again.
  int next_ = 1;
  std::map<int, std::shared_ptr<Database>> databases_;
};

class Sessions {
 public:
  Sessions();
  // That of the process, which is new with its first connection and ends with its last one.
  [[nodiscard]] std::shared_ptr<Session> of(unsigned uid, std::uint64_t high, std::uint64_t low);

 private:
  std::mutex mutex_;
  std::uint64_t next_life_;
  std::map<std::tuple<unsigned, std::uint64_t, std::uint64_t>, std::weak_ptr<Session>> all_;
};

}  // namespace tmh::db::server
