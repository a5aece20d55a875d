// compat/libitm/alone_method.cpp -- waiting until a thread is alone, with either of the two that
// know who is inside.
#include "compat/libitm/alone_method.h"

namespace tmh::itm {

void AloneMethod::begin() noexcept {
  process_.pages != nullptr ? process_.pages->be_alone() : process_.gate.be_alone(this);
  process_.totals.alone.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tmh::itm
