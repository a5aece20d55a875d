// levels/page/versions/version_slots.h -- slots of the version store: free ones, and those that one
// participant has reserved for its next commits.
// Shape:     DomainState::free_version heads the list of free slots. A reserved slot has
//            kReservedStamp and its owner; only the owner touches it.
// Sharing:   the domain lock, but for what concerns reserved slots alone. Death of the owner:
//            release_of().
// Contexts:  not in handlers, but for free(), forget_free() and release_of() of estates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "levels/page/shared/shared.h"
#include "platform/assert.h"

namespace tmh::page {

class VersionSlots {
 public:
  // kKeepsSlots: for commits; slots that fall free while it works stay with it. Others give them
  // back to the domain.
  enum class Role : std::uint8_t { kKeepsSlots, kGivesBack };
  // memory outlives it.
  VersionSlots(SharedFiles &memory, std::uint32_t self, Role role);

  // Reserved in one go: a few commits' worth, so that the list of free slots is visited seldom.
  static constexpr std::size_t kReservedAtLeast = 16, kReservedAtMost = 64;
  // Slots that this participant has reserved: no other touches them, so taking and giving back
  // needs no lock.
  [[nodiscard]] std::size_t reserved() const noexcept { return reserved_.size(); }
  [[nodiscard]] Slot take() noexcept {
    TMH_ASSERT(!reserved_.empty());
    const Slot slot = reserved_.back();
    reserved_.pop_back();
    return slot;
  }
  void give_back(Slot slot) noexcept {
    TMH_ASSERT(slot != 0);
    reserved_.push_back(slot);
  }
  // Reserves slots until there are `count`. kDiskFull, kOutOfMemory: what was reserved stays
  // reserved.
  [[nodiscard]] Errc reserve(const DomainLock::Held &held, std::size_t count) noexcept;
  // A free slot, neither reserved nor a version until the caller says what it is: a death before
  // that leaves it free. 0: no memory, or no room on the disk.
  [[nodiscard]] Slot take_free(const DomainLock::Held &held) noexcept;
  // Frees what this process has reserved.
  void release(const DomainLock::Held &held) noexcept;
  // Frees the slots that a dead participant had reserved.
  void release_of(const DomainLock::Held &held, std::uint32_t participant) noexcept;
  // Gives the disk space of free slots at the store's end back (a large transaction leaves hundreds
  // of MiB).
  void shrink(const DomainLock::Held &held) noexcept;

  // Under the domain lock: the slot holds no version.
  void free(Slot slot) noexcept {
    TMH_ASSERT(slot != 0);
    DomainState &state = memory_.state();
    VersionHead &head = memory_.version(slot);
    head.stamp.store(0, std::memory_order_relaxed);
    head.next_free = state.free_version;
    state.free_version = slot;
  }
  // The same for a version's slot that has just been unlinked. It becomes one of our reserved ones
  // while these are few: its lines are in this core's cache, and all participants share
  // the list of free slots. Not one at the store's end, which shrink() may cut off.
  void recycle(Slot slot) noexcept {
    if (!may_keep(slot)) return free(slot);
    VersionHead &head = memory_.version(slot);
    head.owner = self_;
    head.stamp.store(kReservedStamp, std::memory_order_relaxed);
    reserved_.push_back(slot);  // no heap: the constructor has it
  }
  // A repair finds out anew which slots are free.
  void forget_free() noexcept { memory_.state().free_version = 0; }

 private:
  [[nodiscard]] bool may_keep(Slot slot) const noexcept {
    TMH_ASSERT(slot != 0);
    return role_ == Role::kKeepsSlots && reserved_.size() < kReservedKept && slot < kSlotsKept;
  }

  // 4 MiB of versions: what small transactions use anyway.
  static constexpr Slot kSlotsKept = 1024;
  // Slots that a process keeps for its next commits.
  static constexpr std::size_t kReservedKept = 64;

  [[nodiscard]] Errc grow(const DomainLock::Held &held, std::size_t wanted) noexcept;

  SharedFiles &memory_;
  const std::uint32_t self_;
  const Role role_;
  std::vector<Slot> reserved_;
};

}  // namespace tmh::page
