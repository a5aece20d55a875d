// compat/libdb/btree_handle.h -- DB_BTREE: btree(3).
#pragma once

#include <vector>

#include "compat/libdb/btree.h"
#include "compat/libdb/handle.h"
#include "compat/libdb/private_store.h"
#include "compat/libdb/user_order.h"

namespace tmh::db {

class BtreeHandle final : public Handle {
 public:
  BtreeHandle(PrivateStore::Settings file, const BTREEINFO &info);

 private:
  [[nodiscard]] int get(const DBT *key, DBT *data, unsigned flags) override;
  [[nodiscard]] int put(DBT *key, const DBT *data, unsigned flags) override;
  [[nodiscard]] int del(const DBT *key, unsigned flags) override;
  [[nodiscard]] int seq(DBT *key, DBT *data, unsigned flags) override;
  [[nodiscard]] int sync(unsigned flags) override;
  [[nodiscard]] int file() const noexcept override { return store_.file(); }
  [[nodiscard]] PrivateStore &store() noexcept override { return store_; }
  [[nodiscard]] Btree<PrivateStore>::Settings settings(const BTREEINFO &info);

  PrivateStore store_;
  UserOrder order_;
  Btree<PrivateStore> tree_;
  std::vector<std::byte> key_, data_;  // what the last call has delivered
};

}  // namespace tmh::db
