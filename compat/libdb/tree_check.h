// compat/libdb/tree_check.h -- whether a tree is what btree.h says.
// Errors:    Failure: pages that cannot be read.
// Contexts:  one thread.
#pragma once

#include <vector>

#include "compat/libdb/btree.h"
#include "compat/libdb/items.h"
#include "compat/libdb/key_order.h"
#include "compat/libdb/slots.h"
#include "compat/libdb/store.h"

namespace tmh::db {

class TreeCheck {
 public:
  // order: null: is not looked at.
  TreeCheck(Store *store, const KeyOrder *order, const Btree::Settings &settings)
      : store_(*store), order_(order), settings_(settings), items_(store, settings.keys_min) {}

  // What is wrong with the tree, in words; null: nothing. Reads all of it.
  [[nodiscard]] const char *run();

 private:
  [[nodiscard]] const char *check_page(PageId id, PageId left, PageId right,
                                       std::vector<PageId> *below);
  [[nodiscard]] const char *check_order(const Slots &slots, PageId right);
  [[nodiscard]] std::vector<std::byte> key(const Slots &slots, std::uint32_t index);

  Store &store_;
  const KeyOrder *const order_;
  const Btree::Settings settings_;
  Items items_;
};

}  // namespace tmh::db
