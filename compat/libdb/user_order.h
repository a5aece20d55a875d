// compat/libdb/user_order.h -- the order of a user's callbacks, or of bytes.
#pragma once

#include <tp/db.h>

#include <cstddef>

#include "compat/libdb/calls.h"
#include "compat/libdb/key_order.h"

namespace tmh::db {

class UserOrder final : public KeyOrder {
 public:
  using Compare = int (*)(const DBT *, const DBT *);
  using Prefix = std::size_t (*)(const DBT *, const DBT *);

  // Null is the order of bytes, and no prefixes where the order is the user's.
  UserOrder(Compare order, Prefix prefix, Calls *calls) noexcept
      : compare_(order), prefix_(prefix), calls_(*calls) {}

  // Throws Failure(EBUSY): the callback has called its own handle.
  [[nodiscard]] int compare(Bytes a, Bytes b) const override;
  [[nodiscard]] std::size_t telling_bytes(Bytes low, Bytes high) const override;

 private:
  Compare compare_;
  Prefix prefix_;
  Calls &calls_;
};

}  // namespace tmh::db
