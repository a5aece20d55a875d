// compat/libdb/hash_handle.h -- DB_HASH: hash(3).
#pragma once

#include <cstdint>
#include <vector>

#include "compat/libdb/handle.h"
#include "compat/libdb/hash_table.h"
#include "compat/libdb/private_store.h"
#include "compat/libdb/user_hash.h"

namespace tmh::db {

class HashHandle final : public Handle {
 public:
  HashHandle(PrivateStore::Settings file, const HASHINFO &info);

 private:
  // In the head's own bytes.
  struct TableHead {
    std::uint32_t type, fill;
    std::uint32_t probe;  // what the hash function makes of a certain key
    std::uint32_t unused;
    HashTable<PrivateStore>::Numbers numbers;
  };
  static_assert(sizeof(TableHead) <= PrivateStore::kOwnBytes);

  [[nodiscard]] int get(const DBT *key, DBT *data, unsigned flags) override;
  [[nodiscard]] int put(DBT *key, const DBT *data, unsigned flags) override;
  [[nodiscard]] int del(const DBT *key, unsigned flags) override;
  [[nodiscard]] int seq(DBT *key, DBT *data, unsigned flags) override;
  [[nodiscard]] int sync(unsigned flags) override;
  [[nodiscard]] int file() const noexcept override { return store_.file(); }
  [[nodiscard]] PrivateStore &store() noexcept override { return store_; }
  [[nodiscard]] TableHead head(const HASHINFO &info);
  void keep_numbers();

  PrivateStore store_;
  UserHash hash_;
  TableHead head_;
  HashTable<PrivateStore> table_;
  std::vector<std::byte> key_, data_;  // what the last call has delivered
};

}  // namespace tmh::db
