// levels/page/touch/claimer.h -- what the instance of one engine does before it touches a page.
// Kinds: claim_kind.h. Of kind kNone every call does nothing.
// Invariant: (thesis, Invariant 3) access_table.h's.
// Contexts:  claim(): the handler. Reaches: SharedLock (atomics, futex), AccessTable.
// Source:    thesis, section 3.3, steps 2 and 4.
#pragma once

#include <cstdint>

#include "levels/page/shared/shared.h"
#include "levels/page/touch/snapshot.h"
#include "levels/page/views/views.h"

namespace tmh::page {

class Claimer {
 public:
  // All outlive it. Eager detection: the table of accesses is an estate.
  Claimer(Ours &ours, Mine &mine, std::uint32_t slot, Snapshot &snapshot, ClaimKind kind) noexcept
      : ours_(ours),
        mine_(mine),
        slot_(slot),
        table_(ours.memory, slot),
        snapshot_(snapshot),
        kind_(kind),
        meaning_(meaning_of(kind)) {
    ours.reaper.add(table_);
  }

  // Detection locking: before the first instance. It outlives this.
  void use_locker(PageLocker *locker) noexcept { locker_ = locker; }

  // See claim_kind.h.
  [[nodiscard]] bool registers_touches() const noexcept { return meaning_.registers_touches; }
  [[nodiscard]] bool moves_snapshot() const noexcept { return meaning_.moves_snapshot; }

  // The instance is about to touch the pages. It may FAIL by that, and others may.
  void claim(PageId first, std::uint64_t page_count, bool is_write) noexcept {
    // A FAILED instance goes on without claims: no instance fails because of it.
    if (registers_touches() && !mine_.instance.is_query && !mine_.instance.has_failed())
      claim_all(first, page_count, is_write);
  }
  // The instance has ended: it has committed.
  void give_back(const DomainLock::Held &held) noexcept {
    if (locker_ != nullptr) return locker_->give_back(true);
    if (registers_touches()) table_.remove_all(held, slot_);
  }
  // In any other way, or it is given back already.
  void give_back() noexcept {
    if (locker_ != nullptr) return locker_->give_back(false);
    if (!registers_touches() || mine_.instance.own.accesses.load(std::memory_order_relaxed) == 0)
      return;
    table_.remove_all(ours_.lock.take(), slot_);
  }

 private:
  void claim_all(PageId first, std::uint64_t page_count, bool is_write) noexcept;
  // False: the instance has failed.
  [[nodiscard]] bool lock_all(PageId first, std::uint64_t page_count, bool is_write) noexcept;
  [[nodiscard]] bool lock_one(PageId page, bool is_write) noexcept;
  void fail_instance_of(std::uint32_t participant) noexcept;
  void claim_one(const DomainLock::Held &held, PageId page, bool is_write) noexcept;
  void enter_or_fail(const DomainLock::Held &held, PageId page, bool is_write) noexcept;

  Ours &ours_;
  Mine &mine_;
  const std::uint32_t slot_;
  AccessTable table_;
  Snapshot &snapshot_;
  PageLocker *locker_ = nullptr;
  const ClaimKind kind_;
  const ClaimMeaning meaning_;
};

}  // namespace tmh::page
