// compat/libdb/key_order.h -- how keys are ordered: callbacks of the user's, or bytes.
#pragma once

#include <cstddef>

#include "compat/libdb/page.h"

namespace tmh::db {

class KeyOrder {
 public:
  virtual ~KeyOrder() = default;
  [[nodiscard]] virtual int compare(Bytes a, Bytes b) const = 0;
  // How many bytes of `high` tell it from `low`, which is smaller.
  [[nodiscard]] virtual std::size_t telling_bytes(Bytes low, Bytes high) const = 0;
};

}  // namespace tmh::db
