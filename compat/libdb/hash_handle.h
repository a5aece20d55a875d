// compat/libdb/hash_handle.h -- DB_HASH: hash(3).
#pragma once

#include <cstdint>
#include "compat/libdb/handle.h"
#include "compat/libdb/hash_table.h"
#include "compat/libdb/open_store.h"
#include "compat/libdb/user_hash.h"

namespace tmh::db {

class HashHandle final : public Handle {
 public:
  HashHandle(const StoreOpener &opener, StoreSettings file, const HASHINFO &info);

 private:
  [[nodiscard]] int get(const DBT *key, DBT *data, unsigned flags) override;
  [[nodiscard]] int put(DBT *key, const DBT *data, unsigned flags) override;
  [[nodiscard]] int del(const DBT *key, unsigned flags) override;
  [[nodiscard]] int seq(DBT *key, DBT *data, unsigned flags) override;
  [[nodiscard]] int sync(unsigned flags) override;
  void keep_position() noexcept override { table_.keep_position(); }
  void reset_position() noexcept override { table_.reset_position(); }

  UserHash hash_;
  HashTable table_;
};

}  // namespace tmh::db
