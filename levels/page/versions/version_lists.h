// levels/page/versions/version_lists.h -- the versions that are not home yet, in one list per
// participant slot.
// Shape:     doubly linked through VersionHead::list_*, oldest commit first; heads in
//            Participant::versions; VersionHead::owner says whose.
// Invariant: a list belongs to a slot, not to a process: versions of one that died or left stay in
//            it, and the next owner of the slot goes on with it. So nothing is handed over, and who
//            visits all slots ever used visits all versions.
// Ordering:  REQUIRES DomainState::lock, but for SharedState::versions_live().
// Why:       with one list of all, each commit wrote to the version and list head that another
//            process had written last: two processes that commit to pages of their own moved five
//            lines per commit for nothing.
// Contexts:  async-signal-safe.
#pragma once

#include <cstdint>

#include "levels/page/shared/shared.h"
#include "platform/assert.h"

namespace tmh::page {

class VersionLists {
 public:
  explicit VersionLists(SharedState &memory) noexcept : memory_(memory) {}

  // Both run at every commit.
  void append(Slot slot) noexcept {
    TMH_ASSERT(slot != 0);
    VersionHead &head = memory_.version(slot);
    storage::VersionList &list = of(head.owner);
    head.list_older = list.newest;
    head.list_newer = 0;
    (list.newest != 0 ? memory_.version(list.newest).list_newer : list.oldest) = slot;
    list.newest = slot;
    add(list, 1);
  }
  void remove(Slot slot) noexcept {
    TMH_ASSERT(slot != 0);
    const VersionHead &head = memory_.version(slot);
    storage::VersionList &list = of(head.owner);
    (head.list_older != 0 ? memory_.version(head.list_older).list_newer : list.oldest) =
        head.list_newer;
    (head.list_newer != 0 ? memory_.version(head.list_newer).list_older : list.newest) =
        head.list_older;
    add(list, ~std::uint32_t{0});
  }
  // Empties all lists, that of `self` too when it has joined none yet, without looking at what is
  // in them.
  void reset(std::uint32_t self) noexcept;

  [[nodiscard]] storage::VersionList &of(std::uint32_t owner) const noexcept {
    return memory_.participant(owner).versions;
  }
  // ~0: there is none.
  [[nodiscard]] std::uint64_t oldest_stamp(std::uint32_t owner) const noexcept {
    const Slot oldest = of(owner).oldest;
    return oldest == 0 ? ~0ull : memory_.version(oldest).stamp.load(std::memory_order_relaxed);
  }

 private:
  // Only lock holders change the number: no read-modify-write needed.
  static void add(storage::VersionList &list, std::uint32_t amount) noexcept {
    list.live_count.store(list.live_count.load(std::memory_order_relaxed) + amount,
                          std::memory_order_relaxed);
  }

  SharedState &memory_;
};

}  // namespace tmh::page
