// levels/page/version_lists.cpp -- linking and unlinking versions.
#include "levels/page/version_lists.h"

namespace tmh::page {

namespace {
// Only lock holders change the number: no read-modify-write needed.
void add(storage::VersionList &list, std::uint32_t amount) noexcept {
  list.live_count.store(list.live_count.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}
}  // namespace

void VersionLists::append(Slot slot) noexcept {
  VersionHead &head = memory_.version(slot);
  storage::VersionList &list = of(head.owner);
  head.list_older = list.newest;
  head.list_newer = 0;
  (list.newest != 0 ? memory_.version(list.newest).list_newer : list.oldest) = slot;
  list.newest = slot;
  add(list, 1);
}

void VersionLists::remove(Slot slot) noexcept {
  const VersionHead &head = memory_.version(slot);
  storage::VersionList &list = of(head.owner);
  (head.list_older != 0 ? memory_.version(head.list_older).list_newer : list.oldest) = head.list_newer;
  (head.list_newer != 0 ? memory_.version(head.list_newer).list_older : list.newest) = head.list_older;
  add(list, ~std::uint32_t{0});
}

void VersionLists::reset() noexcept {
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t owner = 0; owner < high; ++owner) {
    storage::VersionList &list = of(owner);
    list.oldest = list.newest = 0;
    list.live_count.store(0, std::memory_order_relaxed);
  }
}

}  // namespace tmh::page
