// compat/libdb/handle.h -- what a DB is of: its functions, and how a call begins and ends.
// Invariant: no Failure leaves a call. An exception of a callback does, and the call has not been.
// Contexts:  one thread at a time. NOT async-signal-safe.
#pragma once

#include <tp/db.h>

#include <cstddef>
#include <vector>

#include "compat/libdb/calls.h"
#include "compat/libdb/failure.h"
#include "compat/libdb/found.h"
#include "compat/libdb/plain_page.h"
#include "compat/libdb/private_store.h"

namespace tmh::db {

class Handle {
 public:
  // The file's store is the access method's.
  explicit Handle(DBTYPE type) noexcept;
  virtual ~Handle() = default;
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  [[nodiscard]] DB *db() noexcept { return &db_; }

 protected:
  // As in db(3); Failure is -1 and errno.
  [[nodiscard]] virtual int get(const DBT *key, DBT *data, unsigned flags) = 0;
  [[nodiscard]] virtual int put(DBT *key, const DBT *data, unsigned flags) = 0;
  [[nodiscard]] virtual int del(const DBT *key, unsigned flags) = 0;
  [[nodiscard]] virtual int seq(DBT *key, DBT *data, unsigned flags) = 0;
  [[nodiscard]] virtual int sync(unsigned flags) = 0;
  [[nodiscard]] virtual int file() const noexcept = 0;  // -1: in memory
  [[nodiscard]] virtual PrivateStore &store() noexcept = 0;

  [[noreturn]] static void refuse(int number) { throw Failure{number}; }
  [[nodiscard]] static int result_of(Found found) noexcept {
    return found == Found::kYes ? RET_SUCCESS : RET_SPECIAL;
  }
  [[nodiscard]] static Bytes bytes_of(const DBT *dbt);
  // Until the next call.
  void deliver(const std::vector<std::byte> &from, DBT *to) noexcept;

  Calls calls_;

 private:
  static Handle &of(const DB *db) noexcept { return *static_cast<Handle *>(db->internal); }
  template <class Body>
  int call(const Body &body);
  static int close(DB *db);

  DB db_{};
  std::byte nothing_{};
};

}  // namespace tmh::db
