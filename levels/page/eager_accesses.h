// levels/page/eager_accesses.h -- eager detection of one engine: its instance registers what it
// touches, before the touch. With lazy detection every call does nothing.
// Invariant: (thesis, Invariant 3) access_table.h's.
// Contexts:  add(): the handler. Reaches: SharedLock (atomics, futex), AccessTable.
// Source:    thesis, section 3.3, steps 2 and 4.
#pragma once

#include <cstdint>

#include "levels/page/access_table.h"
#include "levels/page/domain_lock.h"
#include "levels/page/instance.h"
#include "levels/page/shared_state.h"
#include "levels/page/snapshot.h"

namespace tmh::page {

class EagerAccesses {
 public:
  // All outlive it.
  EagerAccesses(SharedState &memory, std::uint32_t slot, DomainLock &lock, AccessTable &table,
                Snapshot &snapshot, Instance &instance, Detection detection) noexcept
      : memory_(memory),
        slot_(slot),
        lock_(lock),
        table_(table),
        snapshot_(snapshot),
        instance_(instance),
        is_on_(detection == Detection::kEager) {}

  [[nodiscard]] bool is_on() const noexcept { return is_on_; }
  // The instance is about to touch the pages. It may FAIL by that, and others may.
  void add(PageId first, std::uint64_t page_count, bool is_write) noexcept {
    // A FAILED instance goes on without registering: no instance fails because of it.
    if (is_on_ && !instance_.is_query && !instance_.is_failed)
      register_all(first, page_count, is_write);
  }
  // The instance has ended.
  void remove_all(const DomainLock::Held &held) noexcept {
    if (is_on_) table_.remove_all(held, slot_);
  }
  void remove_all() noexcept {
    if (!is_on_ || instance_.own.accesses.load(std::memory_order_relaxed) == 0) return;
    table_.remove_all(lock_.take(), slot_);
  }

 private:
  void register_all(PageId first, std::uint64_t page_count, bool is_write) noexcept;
  void register_one(const DomainLock::Held &held, PageId page, bool is_write) noexcept;

  SharedState &memory_;
  const std::uint32_t slot_;
  DomainLock &lock_;
  AccessTable &table_;
  Snapshot &snapshot_;
  Instance &instance_;
  const bool is_on_;
};

}  // namespace tmh::page
