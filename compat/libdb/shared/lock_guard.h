// compat/libdb/shared/lock_guard.h -- locks and undo records of one store, for the transaction that
// its operation belongs to.
// Shape:     a page is locked under an intention lock of the whole database (page 0).
// Errors:    Failure: EDEADLK, ETIMEDOUT. Retry: it has waited, and what was read is old.
// Contexts:  one thread. Not in a step.
#pragma once

#include <tp.h>

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compat/libdb/guard.h"
#include "compat/libdb/shared/environment.h"

namespace tmh::db {

// The operation runs again.
struct Retry {};

class LockGuard final : public Guard {
 public:
  explicit LockGuard(Generation database) noexcept : database_(database) {}

  // goes_on: the transaction has other operations behind this one.
  void begin(tp_txn *txn, bool goes_on);
  void begin_attempt() noexcept { notes_.clear(); }
  // In the step: each change's undo record.
  [[nodiscard]] int log(tp_step_t *step) const;
  void end() noexcept { txn_ = nullptr; }

  void lock(PageId page, Access access) override;
  [[nodiscard]] bool try_lock(PageId page, Access access) override;
  void lock_all(Access access) override;
  [[nodiscard]] bool keeps_undo() const override { return goes_on_; }
  void note(const UndoRecord &record, Bytes payload) override;
  [[nodiscard]] bool has_ghosts_in(PageId page) const override;
  void note_ghost(PageId page) override;

 private:
  // TP_OK, or why not. has_waited: may be null.
  [[nodiscard]] int take(PageId page, tp_mode mode, std::uint64_t wait_us, bool *has_waited);
  void take_or_throw(PageId page, tp_mode mode, bool *has_waited);

  const Generation database_;
  tp_txn *txn_ = nullptr;
  bool goes_on_ = false;
  std::vector<std::vector<std::byte>> notes_;
};

}  // namespace tmh::db
