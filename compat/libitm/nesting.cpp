// compat/libitm/nesting.cpp -- numbers of transactions.
#include "compat/libitm/nesting.h"

#include <atomic>

namespace tmh::itm {

namespace {

std::atomic<std::uint64_t> next_id{kNoTransactionId + 1};

}  // namespace

std::uint64_t Nesting::id() {
  if (!is_inside()) return kNoTransactionId;
  TMH_ASSERT(ids_.size() == depth_ - 1);
  std::uint64_t &id = depth_ == 1 ? id_ : ids_.back();
  if (id == 0) id = next_id.fetch_add(1, std::memory_order_relaxed);  // unique, no order
  return id;
}

}  // namespace tmh::itm
