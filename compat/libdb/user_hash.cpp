// compat/libdb/user_hash.cpp -- one or the other.
#include "compat/libdb/user_hash.h"

#include "compat/libdb/watched.h"

namespace tmh::db {

std::uint32_t UserHash::hash(Bytes key) const {
  if (function_ != nullptr)
    return watched(calls_, [&] { return function_(key.data(), key.size()); });
  std::uint32_t hash = 0;
  for (const std::byte byte : key) hash = hash * 33 + static_cast<std::uint8_t>(byte);
  return hash;
}

}  // namespace tmh::db
