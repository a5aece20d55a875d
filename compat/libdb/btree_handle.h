// compat/libdb/btree_handle.h -- DB_BTREE: btree(3).
#pragma once

#include "compat/libdb/btree.h"
#include "compat/libdb/handle.h"
#include "compat/libdb/open_store.h"
#include "compat/libdb/tree_head.h"
#include "compat/libdb/user_order.h"

namespace tmh::db {

class BtreeHandle final : public Handle {
 public:
  BtreeHandle(const StoreOpener &opener, StoreSettings file, const BTREEINFO &info);

 private:
  [[nodiscard]] int get(const DBT *key, DBT *data, unsigned flags) override;
  [[nodiscard]] int put(DBT *key, const DBT *data, unsigned flags) override;
  [[nodiscard]] int del(const DBT *key, unsigned flags) override;
  [[nodiscard]] int seq(DBT *key, DBT *data, unsigned flags) override;
  [[nodiscard]] int sync(unsigned flags) override;
  void keep_position() noexcept override { tree_.keep_position(); }
  void reset_position() noexcept override { tree_.reset_position(); }
  void set_head(const TreeHead &head);
  [[nodiscard]] Btree::Settings settings(const BTREEINFO &info);

  UserOrder order_;
  Btree tree_;
};

}  // namespace tmh::db
