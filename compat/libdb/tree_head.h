// compat/libdb/tree_head.h -- what a B-tree says of itself in the store's own bytes.
// Errors:    Failure(EINVAL): it is something else.
#pragma once

#include <tp/db.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "compat/libdb/btree.h"
#include "compat/libdb/failure.h"
#include "compat/libdb/store.h"

namespace tmh::db {

struct TreeHead {
  std::uint8_t type, has_duplicates;
  std::uint16_t keys_min;
  std::uint8_t has_users_order;
};
static_assert(sizeof(TreeHead) <= Store::kOwnBytes);

[[nodiscard]] inline Btree::Settings tree_settings(Store &store) {
  TreeHead head{};
  std::memcpy(&head, store.own().data(), sizeof head);
  if (head.type != DB_BTREE || head.keys_min < 2) throw Failure{EINVAL};
  return {head.has_duplicates != 0, head.keys_min};
}

}  // namespace tmh::db
