// levels/lock/waits_for.h -- deadlocks: cycles of lockers that wait for each other are looked for,
// and each loses one of its lockers.
// Shape:     the waits-for graph is the lock table itself (LIBTP 4.1). A look reads it bucket by
//            bucket, while others go on.
// Invariant: only a real cycle loses a locker. A look reads each locker of a cycle twice, and then
//            that none has stopped waiting meanwhile: a waiter gets no lock and gives none back,
//            so between the two readings all of the cycle was there at once. A death or a time-out
//            that ends the cycle right then does not save the one that the look has chosen.
// Invariant: a cycle loses one locker, whoever looks: one look at a time.
// Sharing:   between processes, under look_lock; buckets' locks inside, one at a time. Owner death:
//            the next one looks anew.
// Contexts:  NOT async-signal-safe: heap.
// Source:    LIBTP 4.1.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "levels/lock/cells.h"
#include "levels/lock/layout.h"
#include "levels/lock/lock_file.h"

namespace tmh::lock {

// Which locker of a cycle gets kDeadlock. Of several that the policy does not tell apart, the
// youngest.
enum class Victim : std::uint8_t {
  kYoungest,
  kOldest,
  kFewestLocks,
  kMostLocks,
  kFewestWriteLocks,
  kMostWriteLocks,
  kLowestPriority,
};

// A locker's priority: whatever the policy is, another one of the cycle fails, if there is one.
inline constexpr std::int32_t kNeverVictim = 0x7fff'ffff;

class WaitsFor {
 public:
  // Both outlive it.
  WaitsFor(LockFile &file, Cells &cells) noexcept : file_(file), cells_(cells) {}

  // Ends every cycle that is found on the ways from `locker`. How many lockers were failed. Without
  // memory for a look it ends none; a later one will.
  std::uint32_t look_from(CellIndex locker, Victim policy) noexcept;
  // Of all lockers.
  std::uint32_t look_everywhere(Victim policy) noexcept;

 private:
  class OneLook;
  // A locker, what it waits for, and its how manieth wait that is.
  struct Wait {
    CellIndex locker = CellIndex::kNone;
    CellIndex request = CellIndex::kNone;
    std::uint32_t begun = 0;
  };
  using Lockers = std::pmr::vector<CellIndex>;
  struct Step {
    Wait wait;
    Lockers blockers;
    std::size_t next = 0;
  };
  using Cycle = std::pmr::vector<Wait>;

  [[nodiscard]] std::uint32_t look(CellIndex locker, Victim policy);
  [[nodiscard]] bool find_cycle(CellIndex from, std::pmr::memory_resource *memory,
                                Cycle *out) const;
  // False: it does not wait.
  [[nodiscard]] bool read(CellIndex locker, Wait *out, Lockers *blockers) const;
  [[nodiscard]] bool is_real(const Cycle &cycle) const;
  [[nodiscard]] Wait choose(const Cycle &cycle, Victim policy) const noexcept;
  [[nodiscard]] bool fail(const Wait &wait) noexcept;

  LockFile &file_;
  Cells &cells_;
};

}  // namespace tmh::lock
