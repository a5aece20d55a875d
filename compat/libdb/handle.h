// compat/libdb/handle.h -- what a DB is of: its functions, and how a call begins and ends.
// Invariant: no Failure leaves a call. An exception of a callback does, and the call has not been.
// Contexts:  one thread at a time. NOT async-signal-safe.
#pragma once

#include <tp/db.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "compat/libdb/calls.h"
#include "compat/libdb/failure.h"
#include "compat/libdb/found.h"
#include "compat/libdb/operation.h"
#include "compat/libdb/page.h"
#include "compat/libdb/store.h"

namespace tmh::db {

class Handle {
 public:
  Handle(DBTYPE type, std::unique_ptr<Store> store) noexcept;
  virtual ~Handle() = default;
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  [[nodiscard]] DB *db() noexcept { return &db_; }
  // Makes a handle like this one, of the same functions of the user's, over another store.
  using Maker = std::function<std::unique_ptr<Handle>(std::unique_ptr<Store> store)>;
  void set_maker(Maker maker) { maker_ = std::move(maker); }

 protected:
  // As in db(3); Failure is -1 and errno. They may run several times: what they deliver, and where
  // the cursor is, counts when the store says so.
  [[nodiscard]] virtual int get(const DBT *key, DBT *data, unsigned flags) = 0;
  [[nodiscard]] virtual int put(DBT *key, const DBT *data, unsigned flags) = 0;
  [[nodiscard]] virtual int del(const DBT *key, unsigned flags) = 0;
  [[nodiscard]] virtual int seq(DBT *key, DBT *data, unsigned flags) = 0;
  [[nodiscard]] virtual int sync(unsigned flags) = 0;
  [[nodiscard]] virtual int file() const noexcept { return store_->file(); }  // -1: in memory
  // The cursor.
  virtual void keep_position() noexcept = 0;
  virtual void reset_position() noexcept = 0;
  // A text, where the file is one.
  virtual void write_text() {}
  [[nodiscard]] Store &store() noexcept { return *store_; }

  [[noreturn]] static void refuse(int number) { throw Failure{number}; }
  [[nodiscard]] static int result_of(Found found) noexcept {
    return found == Found::kYes ? RET_SUCCESS : RET_SPECIAL;
  }
  [[nodiscard]] static Bytes bytes_of(const DBT *dbt);
  // An operation of the handle's own, outside of calls. One of a new database: it makes it.
  void run(Operation<int> operation) {
    (void)store_->run(false, operation, [] {});
  }
  void make_database(Operation<void> make) {
    run([&] {
      if (!store_->is_new()) return RET_SUCCESS;
      Store::Change change(*store_);
      make();
      change.commit();
      return RET_SUCCESS;
    });
  }
  // Of the running call. What the last one has delivered may be given to this one.
  struct Delivery {
    std::vector<std::byte> key, data;
    recno_t number = 0;
  };
  [[nodiscard]] Delivery &delivery() noexcept { return deliveries_[calls_.serial % 2]; }
  // Until the next call.
  void deliver(const std::vector<std::byte> &from, DBT *to) noexcept;

  Calls calls_;

 private:
  static Handle &of(const DB *db) noexcept { return *static_cast<Handle *>(db->internal); }
  // The key and the data of a call, which may be given and delivered; null: the call has none.
  template <class Body>
  int call(DBT *key, DBT *data, const Body &body);
  template <class Body>
  int guarded(const Body &body);
  static int close(DB *db);
  // What a call is of: this, or its view in the thread's query. Null, and errno.
  [[nodiscard]] static Handle *viewed(const DB *db);

  std::unique_ptr<Store> store_;
  // In the thread's last query: the cursor there is its own.
  Maker maker_;
  std::unique_ptr<Handle> view_;
  // Of queries before: what they have delivered may be given to this call; a callback may run in
  // them, or was left.
  std::vector<std::unique_ptr<Handle>> old_views_;
  std::uint64_t view_of_ = 0;
  bool is_running_ = false;  // or was left

  DB db_{};
  Delivery deliveries_[2];
  std::byte nothing_{};
};

}  // namespace tmh::db
