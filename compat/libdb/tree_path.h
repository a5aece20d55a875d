// compat/libdb/tree_path.h -- where something lies in a tree, and the way there.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "compat/libdb/failure.h"
#include "compat/libdb/items.h"
#include "compat/libdb/page.h"
#include "platform/assert.h"

namespace tmh::db {

struct Place {
  PageId page = 0;
  std::uint32_t index = 0;
};

// From the root, level by level; in inner pages the child that was taken.
struct Path {
  Place places[kTreeLevelsMax];
  std::uint32_t count = 0;

  [[nodiscard]] Place &last() noexcept { return places[count - 1]; }
  // The root's content lies in that page now, the root's only child.
  void grow(PageId root, PageId child) noexcept {
    TMH_ASSERT(count != 0 && count < kTreeLevelsMax);
    std::copy_backward(places, places + count, places + count + 1);
    ++count;
    places[0] = {root, 1};
    places[1].page = child;
  }
};

}  // namespace tmh::db
