// compat/libdb/user_hash.cpp -- one or the other.
#include "compat/libdb/user_hash.h"

#include "compat/libdb/watched.h"

namespace tmh::db {

std::uint32_t UserHash::hash(Bytes key) const {
  if (function_ != nullptr)
    return watched(calls_, [&] { return function_(key.data(), key.size()); });
  std::uint32_t hash = 0x811c9dc5;
  for (const std::byte byte : key) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x01000193;
  // The lowest bits say which bucket.
  return hash ^ hash >> 15;
}

}  // namespace tmh::db
