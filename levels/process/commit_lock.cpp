// levels/process/commit_lock.cpp -- inherits the lock, and repairs.
#include "levels/process/commit_lock.h"

#include "levels/process/control.h"
#include "levels/process/ground/ground.h"
#include "levels/process/log.h"

namespace tmh::itm::pages {

namespace {

platform::LockTag own_tag() noexcept {
  // relaxed: this task's
  return platform::lock_tag(self_slot, self().incarnation.load(std::memory_order_relaxed));
}

bool is_holder_alive(void *, platform::LockTag holder) noexcept {
  const std::uint32_t slot = platform::slot_of(holder);
  if (slot >= kTasksMax) return false;
  const Slot &each = control->slots[slot];
  return platform::lock_tag(slot, each.incarnation.load(std::memory_order_acquire)) == holder &&
         is_alive(slot);
}

}  // namespace

CommitLock::CommitLock() noexcept {
  if (control->lock.lock(own_tag(), is_holder_alive, nullptr) == platform::Locked::kInherited)
    Log::repair();
  TMH_ASSERT(control->publishing == 0 && Log::is_settled());
}
CommitLock::~CommitLock() {
  TMH_ASSERT(control->publishing == 0 && Log::is_settled());
  control->lock.unlock();
}

}  // namespace tmh::itm::pages
