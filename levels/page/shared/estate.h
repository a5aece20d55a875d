// levels/page/shared/estate.h -- what a dead participant leaves in shared memory, kind by kind; and
// the list of these kinds that a reaper walks.
// Shape:     an Estate is one object per participant and kind: version slots, accesses, what the
//            level below holds. The dead participant's own record, and its turn, are the reaper's.
// Invariant: (1) settle() twice is settle() once: a reaper that dies in the middle leaves the death
//            to another one, which tells every estate of it anew. (2) repair() twice is repair()
//            once: its caller may die with the lock, too.
// Ordering:  that of the list, for both. ConsistencyTree is the first: its repair says whether
//            another repair is needed (DomainState::repair_again), the others add to that.
// Sharing:   both run under the domain lock, by any thread of the process.
// Contexts:  async-signal-safe, both: a first touch takes the domain lock in the fault handler, and
//            may inherit it there. No heap, no file is opened; what lies in a segment that this
//            process has not opened is left, and marked by kRepairRest in repair_again.
// Source:    docs/design.md 8 (living with failures).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "levels/page/shared/domain_lock.h"
#include "platform/assert.h"

namespace tmh::page {

class Estate {
 public:
  // What the dead participant in `slot` leaves goes back. Its record is as it died: only an earlier
  // estate, or an earlier reaper that died, has changed what is its own.
  virtual void settle(const DomainLock::Held &held, std::uint32_t slot) noexcept = 0;
  // A holder of the domain lock has died: links and tables are made anew from what they link.
  virtual void repair(const DomainLock::Held &held) noexcept = 0;

 protected:
  // A list does not own its estates.
  ~Estate() = default;
};

// In the order in which they were added.
class Estates {
 public:
  static constexpr std::size_t kEstatesMax = 8;

  // estate outlives the list. Not beside a thread that takes the domain lock: at the open.
  void add(Estate &estate) noexcept {
    TMH_ASSERT(count_ < kEstatesMax);
    all_[count_++] = &estate;
  }
  [[nodiscard]] Estate *const *begin() const noexcept { return all_.data(); }
  [[nodiscard]] Estate *const *end() const noexcept { return all_.data() + count_; }

 private:
  std::array<Estate *, kEstatesMax> all_{};
  std::size_t count_ = 0;
};

}  // namespace tmh::page
