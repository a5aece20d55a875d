// compat/libdb/user_order.cpp -- calls of the user's functions, watched.
#include "compat/libdb/user_order.h"

#include <algorithm>
#include <cstring>

#include "compat/libdb/watched.h"

namespace tmh::db {

namespace {

[[nodiscard]] std::size_t equal_bytes(Bytes a, Bytes b) noexcept {
  const std::size_t both = std::min(a.size(), b.size());
  std::size_t equal = 0;
  while (equal < both && a[equal] == b[equal]) ++equal;
  return equal;
}

}  // namespace

int UserOrder::compare(Bytes a, Bytes b) const {
  if (compare_ != nullptr) {
    const DBT first = dbt_of(a), second = dbt_of(b);
    return watched(calls_, [&] { return compare_(&first, &second); });
  }
  const std::size_t both = std::min(a.size(), b.size());
  const int order = both == 0 ? 0 : std::memcmp(a.data(), b.data(), both);
  if (order != 0) return order;
  return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
}

std::size_t UserOrder::telling_bytes(Bytes low, Bytes high) const {
  if (prefix_ != nullptr) {
    const DBT first = dbt_of(low), second = dbt_of(high);
    return watched(calls_, [&] { return prefix_(&first, &second); });
  }
  // Of another order nobody knows what its first bytes say.
  return compare_ != nullptr ? high.size() : equal_bytes(low, high) + 1;
}

}  // namespace tmh::db
