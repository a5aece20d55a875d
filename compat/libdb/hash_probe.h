// compat/libdb/hash_probe.h -- what tells one hash function from another: its value of a certain
// key.
#pragma once

#include <cstdint>

#include "compat/libdb/key_hash.h"

namespace tmh::db {

[[nodiscard]] inline std::uint32_t probe_of(const KeyHash &hash) {
  constexpr char kKey[] = "a key that tells one hash function from another";
  return hash.hash({reinterpret_cast<const std::byte *>(kKey), sizeof kKey});
}

}  // namespace tmh::db
