// compat/libdb/key_hash.h -- a number of a key: the user's function, or one of bytes.
#pragma once

#include <cstdint>

#include "compat/libdb/page.h"

namespace tmh::db {

class KeyHash {
 public:
  virtual ~KeyHash() = default;
  [[nodiscard]] virtual std::uint32_t hash(Bytes key) const = 0;
};

}  // namespace tmh::db
