// compat/libdb/user_order.h -- the order of a user's callbacks, or of bytes.
#pragma once

#include <tp/db.h>

#include <cstdint>

#include "compat/libdb/btree.h"

namespace tmh::db {

// Which call of a handle runs, and whether it is in a callback of the user's.
struct Calls {
  std::uint64_t serial = 0;
  bool is_in_callback = false;
};

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
