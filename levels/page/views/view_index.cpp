// levels/page/views/view_index.cpp -- looking for a view by address.
#include "levels/page/views/view_index.h"

#include <algorithm>

#include "platform/assert.h"

namespace tmh::page {

void ViewIndex::add(const View &view) noexcept {
  TMH_ASSERT(view.base != nullptr && views_.size() < views_.capacity());
  views_.push_back(&view);
  measure_hull();
}

void ViewIndex::remove(const View &view) noexcept {
  TMH_ASSERT(std::find(views_.begin(), views_.end(), &view) != views_.end());
  std::erase(views_, &view);
  last_bytes_ = 0;
  measure_hull();
}

void ViewIndex::measure_hull() noexcept {
  std::uintptr_t low = ~std::uintptr_t{0}, high = 0;
  for (const View *const view : views_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view->base);
    low = std::min(low, begin);
    high = std::max(high, begin + view->bytes);
  }
  hull_begin_ = low;
  hull_bytes_ = high > low ? high - low : 0;
}

const View *ViewIndex::find_in_hull(std::uintptr_t address) noexcept {
  TMH_ASSERT(!views_.empty());
  for (const View *const view : views_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view->base);
    if (address - begin >= view->bytes) continue;
    last_begin_ = begin;
    last_bytes_ = view->bytes;
    last_ = view;
    return last_;
  }
  return nullptr;
}

}  // namespace tmh::page
