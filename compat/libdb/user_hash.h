// compat/libdb/user_hash.h -- the user's hash function, or the one that 1.85 has: scans of small
// tables then have its order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compat/libdb/calls.h"
#include "compat/libdb/key_hash.h"

namespace tmh::db {

class UserHash final : public KeyHash {
 public:
  using Function = std::uint32_t (*)(const void *, std::size_t);

  UserHash(Function function, Calls *calls) noexcept : function_(function), calls_(*calls) {}
  // Throws Failure(EBUSY): the function has called its own handle.
  [[nodiscard]] std::uint32_t hash(Bytes key) const override;

 private:
  Function function_;
  Calls &calls_;
};

}  // namespace tmh::db
