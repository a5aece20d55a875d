// compat/libdb/shared/lock_guard.h -- locks and undo records of one store, for the transaction that
// its operation belongs to.
// Shape:     a page is locked; of records by number under an intention lock of the whole database
//            (page 0). Others have that lock when the transaction has stored something that may
//            have to be taken back. What is looked at is locked for changes at once where most of
//            what was looked at lately was then changed: two that have looked would wait for each
//            other.
//            locks_records: a call of one key locks that, under an intention lock of the leaf, so
//            that scans keep it out. passes_inner: inner pages are locked, for a moment.
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
#include "compat/libdb/store.h"

namespace tmh::db {

// The operation runs again.
struct Retry {};

class LockGuard final : public Guard {
 public:
  LockGuard(Generation database, const StoreSettings &settings) noexcept
      : database_(database),
        has_numbers_(settings.has_numbers),
        locks_records_(settings.locks_records),
        passes_inner_(settings.passes_inner) {}

  // goes_on: the transaction has other operations behind this one. True: this thread has not seen
  // it before.
  bool begin(const tp_env *env, tp_txn *txn, bool goes_on);
  void begin_attempt() noexcept { notes_.clear(); }
  // The transaction stores something that may have to be taken back. TP_OK, or why not. In a step,
  // too.
  [[nodiscard]] int lock_database() {
    return take(of_page(0), TP_INTEND_EXCLUSIVE, TP_TRY, nullptr);
  }
  // No other transaction changes the page before this one's end.
  [[nodiscard]] bool is_exclusive(PageId page) const;
  // In a step: undo records of what waits, and of this attempt.
  [[nodiscard]] int log(tp_step_t *step) const;
  // This attempt's wait with its changes.
  void let_wait();
  // Both have been stored, or are gone.
  void end_waiting() noexcept {
    waiting_.clear();
    notes_.clear();
  }

  // Of the thread's transaction: some handle lets changes of the database wait.
  [[nodiscard]] static bool is_told(Generation database);
  static void tell(Generation database, bool is_waiting) noexcept;

  void lock(PageId page, Access access) override;
  void lock_key(PageId leaf, Bytes key, Access access) override;
  void pass(PageId page, Access access) override;
  [[nodiscard]] bool try_lock(PageId page, Access access) override;
  void lock_all(Access access) override;
  [[nodiscard]] bool keeps_undo() const override { return goes_on_; }
  void note(const UndoRecord &record, Bytes payload) override;
  [[nodiscard]] bool has_ghosts_in(PageId page) const override;
  void note_ghost(PageId page) override;

 private:
  [[nodiscard]] tp_object of_page(std::uint64_t page) const noexcept {
    return lock_object(LockSpace::kPages, database_, page);
  }
  [[nodiscard]] int take_intention(bool changes, std::uint64_t wait_us, bool *has_waited);
  // TP_OK, or why not. has_waited: may be null.
  [[nodiscard]] int take(const tp_object &object, tp_mode mode, std::uint64_t wait_us,
                         bool *has_waited);
  void take_or_throw(const tp_object &object, tp_mode mode, bool *has_waited);
  // Will what is looked at be changed?
  [[nodiscard]] bool decide(const tp_object &object, Access access);

  const Generation database_;
  const bool has_numbers_, locks_records_, passes_inner_;
  // Of the last pages that were looked at, how many were changed behind that.
  [[nodiscard]] bool expects_change() const noexcept { return 2 * changed_ > looked_; }
  void note_look() noexcept;

  std::uint32_t looked_ = 0, changed_ = 0;
  const tp_env *env_ = nullptr;
  tp_txn *txn_ = nullptr;
  bool goes_on_ = false;
  std::vector<std::vector<std::byte>> notes_, waiting_;
};

}  // namespace tmh::db
