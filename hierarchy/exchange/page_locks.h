// hierarchy/exchange/page_locks.h -- page::PageLocker over the domain's lock table.
// Shape:     one per engine: a locker of its own, from its first lock on. Objects are pages; their
//            space tells them from what users of the table lock.
// Sharing:   the engine's thread.
// Contexts:  as PageLocker.
// Source:    LIBTP 4.1.
#pragma once

#include "levels/lock/lock.h"
#include "levels/page/page.h"

namespace tmh::detail {

class PageLocks final : public page::PageLocker {
 public:
  // table outlives it. slot: of the engine's participant.
  PageLocks(lock::LockTable &table, std::uint32_t slot) noexcept : table_(table), slot_(slot) {}

  [[nodiscard]] Errc lock(const Wanted &wanted, std::uint32_t *blocker) noexcept override;
  void give_back(bool has_committed) noexcept override;
  // Before the table closes.
  void end() noexcept;

 private:
  [[nodiscard]] Errc prepare(bool cannot_fail) noexcept;

  lock::LockTable &table_;
  const std::uint32_t slot_;
  lock::LockerId locker_{};
  bool has_locks_ = false;
  // Its age stays until it has committed, so a victim is older when it runs again.
  bool is_renewed_ = false;
  bool cannot_fail_ = false;
};

}  // namespace tmh::detail
