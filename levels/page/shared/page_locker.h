// levels/page/shared/page_locker.h -- the locks that an engine's instances take on the pages that
// they touch, in a domain with detection "locking".
// Shape:     abstract, because the lock table is another room's: hierarchy/exchange makes it.
// Invariant: strict two-phase: what an instance has locked it has to its end.
// Contexts:  lock(): the fault handler of the instance's thread, which holds no lock of the library
//            but the mutex of its runner; it waits there. No heap. give_back(): also under the
//            domain lock.
// Source:    LIBTP 4.1 (two-phase locking).
#pragma once

#include <cstdint>

#include <tmh/error.hpp>

#include "storage/page_id.h"

namespace tmh::page {

class PageLocker {
 public:
  static constexpr std::uint32_t kNoParticipant = ~0u;

  // Waits until the instance has it. kDeadlock: it is to end, others wait for it; not if it cannot
  // fail. kLockTimeout: ask again, if the instance still wants it; *blocker is the slot of a
  // participant that it waits for, or kNoParticipant. Others: no room for locks.
  struct Wanted {
    storage::PageId page;
    bool is_write;
    bool cannot_fail;
  };
  [[nodiscard]] virtual Errc lock(const Wanted &wanted, std::uint32_t *blocker) noexcept = 0;
  // The instance has ended. One that has not committed is as old when it runs again.
  virtual void give_back(bool has_committed) noexcept = 0;

 protected:
  ~PageLocker() = default;
};

}  // namespace tmh::page
