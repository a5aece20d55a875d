// levels/page/versions/version_lists.cpp -- emptying the lists, before a repair fills them again.
#include "levels/page/versions/version_lists.h"

#include <algorithm>

namespace tmh::page {

void VersionLists::reset(std::uint32_t self) noexcept {
  const std::uint32_t high = std::max(memory_.participants_high(), self + 1);
  for (std::uint32_t owner = 0; owner < high; ++owner) {
    storage::VersionList &list = of(owner);
    list.oldest = list.newest = 0;
    list.live_count.store(0, std::memory_order_relaxed);
  }
}

}  // namespace tmh::page
