// compat/libitm/pages_method.cpp -- where and beside which others a transaction of methods pages
// begins.
#include "compat/libitm/pages_method.h"

#include "compat/libitm/process.h"
#include "platform/assert.h"

namespace tmh::itm {

void PagesMethod::check_stack(std::uintptr_t stack) const noexcept {
  TMH_ASSERT(process_.pages != nullptr);
  if (!process_.pages->is_on_own_stack(stack))
    die("methods pages: a transaction begins on a stack that the program has made (makecontext)");
}

void PagesMethod::prepare(bool wants_alone) noexcept {
  TMH_ASSERT(!is_alone_);
  if (!wants_alone && !process_.pages->must_be_alone()) return;
  is_alone_ = true;
  process_.pages->be_alone();
}

void PagesMethod::leave() noexcept {
  if (!is_alone_) return;
  is_alone_ = false;
  process_.pages->end_alone();
}

}  // namespace tmh::itm
