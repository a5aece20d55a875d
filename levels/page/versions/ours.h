// levels/page/versions/ours.h -- what the participants of a domain have together, as one of them
// uses it: the shared files, the order of commits, the domain lock, the turn, and who cleans up
// after the dead.
// Shape:     one per participant. The level below answers through `recaller`, where there is one.
// Sharing:   as each part says.
#pragma once

#include <cstdint>

#include "levels/page/shared/shared.h"
#include "levels/page/versions/consistency_tree.h"
#include "platform/assert.h"

namespace tmh::page {

struct Ours {
  // files outlives it. The tree is the reaper's first estate. Throws std::bad_alloc.
  Ours(SharedFiles &files, std::uint32_t slot)
      : memory(files),
        tree(files, slot, ConsistencyTree::Role::kKeepsSlots),
        reaper(files, slot),
        lock(files,
             platform::lock_tag(
                 slot, files.participant(slot).incarnation.load(std::memory_order_relaxed)),
             reaper),
        turn(files, slot, lock) {
    reaper.add(tree);
  }
  Ours(const Ours &) = delete;
  Ours &operator=(const Ours &) = delete;

  // Domains with a level below: before the first instance. below outlives it.
  void use_recaller(Recaller *below) noexcept {
    TMH_ASSERT(below != nullptr && !has_lower);
    recaller = below;
    has_lower = true;
    reaper.add(*below);
  }

  // Of an instance, for the policies that go by it.
  [[nodiscard]] std::uint64_t next_age() noexcept {
    return memory.state().age_next.fetch_add(1, std::memory_order_relaxed);
  }

  // Of the level below; 0: there is none.
  [[nodiscard]] std::uint64_t lower_clock() const noexcept {
    return has_lower ? recaller->clock() : 0;
  }

  SharedFiles &memory;
  ConsistencyTree tree;
  Reaper reaper;
  DomainLock lock;
  Turn turn;
  Recaller *recaller = &NothingToRecall::here();
  // Asked where the hot paths would otherwise call *recaller.
  bool has_lower = false;
};

}  // namespace tmh::page
