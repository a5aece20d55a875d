// compat/libdb/shared/lock_guard.cpp -- what the thread's transaction has locked already, and its
// ghosts.
#include "compat/libdb/shared/lock_guard.h"

#include "compat/libdb/shared/tp_failure.h"
#include "compat/libdb/shared/undo.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

using Object = std::pair<Generation, PageId>;

// Of the transaction that this thread has used last. A transaction is used by one thread at a time.
struct Known {
  tp_id transaction = 0;
  std::map<Object, std::uint32_t> modes;  // a bit for each
  std::set<Object> ghosts;
  // It has changed something before this thread came: there may be ghosts that are not known.
  bool has_unknown = false;
};
// Functions that run at the process's end come behind all that the thread destroys: they make it
// once more.
thread_local Known *known_here = nullptr;
struct End {
  ~End() { delete std::exchange(known_here, nullptr); }
};
[[nodiscard]] Known &known() {
  if (known_here == nullptr) {
    known_here = new Known;
    thread_local End end;
    (void)end;
  }
  return *known_here;
}

[[nodiscard]] bool is_held(std::uint32_t modes, tp_mode wanted) noexcept {
  const auto has = [&](tp_mode mode) { return (modes >> mode & 1) != 0; };
  switch (wanted) {
    case TP_INTEND_SHARED:
      return modes != 0;
    case TP_INTEND_EXCLUSIVE:
      return has(TP_INTEND_EXCLUSIVE) || has(TP_EXCLUSIVE);
    case TP_SHARED:
      return has(TP_SHARED) || has(TP_EXCLUSIVE);
    case TP_SHARED_INTEND_EXCLUSIVE:
    case TP_EXCLUSIVE:
      break;
  }
  return has(TP_EXCLUSIVE);
}

}  // namespace

void LockGuard::begin(tp_txn *txn, bool goes_on) {
  TMH_ASSERT(txn != nullptr);
  txn_ = txn;
  goes_on_ = goes_on;
  Known &all = known();
  if (all.transaction == tp_txn_id(txn)) return;
  all.transaction = tp_txn_id(txn);
  all.modes.clear();
  all.ghosts.clear();
  all.has_unknown = tp_txn_last_lsn(txn) != 0;
}

int LockGuard::take(PageId page, tp_mode mode, std::uint64_t wait_us, bool *has_waited) {
  TMH_ASSERT(txn_ != nullptr);
  std::uint32_t &modes = known().modes[{database_, page}];
  if (is_held(modes, mode)) return TP_OK;
  const tp_object object = lock_object(LockSpace::kPages, database_, page);
  int error = tp_lock(txn_, object, mode, TP_TRY);
  if (error == TP_EBUSY && wait_us != TP_TRY) {
    error = tp_lock(txn_, object, mode, wait_us);
    *has_waited = true;
  }
  if (error == TP_OK) modes |= 1u << mode;
  return error;
}

void LockGuard::take_or_throw(PageId page, tp_mode mode, bool *has_waited) {
  throw_unless_ok(take(page, mode, TP_FOREVER, has_waited));
}

void LockGuard::lock(PageId page, Access access) {
  const bool changes = access == Access::kChange;
  bool has_waited = false;
  take_or_throw(0, changes ? TP_INTEND_EXCLUSIVE : TP_INTEND_SHARED, &has_waited);
  take_or_throw(page, changes ? TP_EXCLUSIVE : TP_SHARED, &has_waited);
  if (has_waited) throw Retry{};
}

bool LockGuard::try_lock(PageId page, Access access) {
  const bool changes = access == Access::kChange;
  return take(0, changes ? TP_INTEND_EXCLUSIVE : TP_INTEND_SHARED, TP_TRY, nullptr) == TP_OK &&
         take(page, changes ? TP_EXCLUSIVE : TP_SHARED, TP_TRY, nullptr) == TP_OK;
}

void LockGuard::lock_all(Access access) {
  bool has_waited = false;
  take_or_throw(0, access == Access::kChange ? TP_EXCLUSIVE : TP_INTEND_SHARED, &has_waited);
  if (has_waited) throw Retry{};
}

void LockGuard::note(const UndoRecord &record, Bytes payload) {
  TMH_ASSERT(goes_on_);
  notes_.push_back(logged(database_, record, payload));
}

int LockGuard::log(tp_step_t *step) const {
  for (const std::vector<std::byte> &note : notes_)
    if (const int error = tp_log(step, kUndoType, note.data(), note.size(), nullptr);
        error != TP_OK)
      return error;
  return TP_OK;
}

bool LockGuard::has_ghosts_in(PageId page) const {
  const Known &all = known();
  return all.has_unknown || all.ghosts.count({database_, page}) != 0;
}

void LockGuard::note_ghost(PageId page) {
  TMH_ASSERT(page != 0);
  known().ghosts.insert({database_, page});
}

}  // namespace tmh::db
