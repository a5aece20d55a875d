// compat/libdb/shared/lock_guard.cpp -- what the thread's transaction has locked already, and its
// ghosts.
#include "compat/libdb/shared/lock_guard.h"

#include <array>

#include "compat/libdb/shared/tp_failure.h"
#include "compat/libdb/shared/undo.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

using Page = std::pair<Generation, PageId>;

// What a transaction has locked: most have a few objects.
class Held {
 public:
  // Modes, a bit for each; null: none.
  [[nodiscard]] const std::uint32_t *find(const tp_object &object) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (few_[i].first.space == object.space && few_[i].first.id == object.id)
        return &few_[i].second;
    const auto found = more_.find({object.space, object.id});
    return found != more_.end() ? &found->second : nullptr;
  }
  [[nodiscard]] std::uint32_t &of(const tp_object &object) {
    if (const std::uint32_t *const found = find(object); found != nullptr)
      return const_cast<std::uint32_t &>(*found);
    if (count_ == few_.size()) return more_[{object.space, object.id}];
    few_[count_] = {object, 0};
    return few_[count_++].second;
  }
  void clear() noexcept {
    count_ = 0;
    more_.clear();
  }

 private:
  std::array<std::pair<tp_object, std::uint32_t>, 24> few_{};
  std::size_t count_ = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> more_;
};

// Of the transaction that this thread has used last. A transaction is used by one thread at a time.
struct Known {
  const tp_env *env = nullptr;
  tp_id transaction = 0;
  Held modes;
  std::set<Page> ghosts;
  std::set<Generation> waiting;
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

// Numbers of transactions are their environment's. True: it was another one's.
bool learn(const tp_env *env, const tp_txn *txn) {
  TMH_ASSERT(env != nullptr && txn != nullptr);
  Known &all = known();
  if (all.env == env && all.transaction == tp_txn_id(txn)) return false;
  all.env = env;
  all.transaction = tp_txn_id(txn);
  all.modes.clear();
  all.ghosts.clear();
  all.waiting.clear();
  all.has_unknown = tp_txn_last_lsn(txn) != 0;
  return true;
}

// Beside the modes: looked at, and not changed since.
constexpr std::uint32_t kLooked = 1u << 31;

[[nodiscard]] bool is_held(std::uint32_t modes, tp_mode wanted) noexcept {
  const auto has = [&](tp_mode mode) { return (modes >> mode & 1) != 0; };
  switch (wanted) {
    case TP_INTEND_SHARED:
      return (modes & ~kLooked) != 0;
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

bool LockGuard::begin(const tp_env *env, tp_txn *txn, bool goes_on) {
  TMH_ASSERT(txn != nullptr);
  env_ = env;
  txn_ = txn;
  goes_on_ = goes_on;
  return learn(env, txn);
}

bool LockGuard::is_exclusive(PageId page) const {
  const auto has = [&](PageId object) {
    const std::uint32_t *const modes = known().modes.find(of_page(object));
    return modes != nullptr && is_held(*modes, TP_EXCLUSIVE);
  };
  return has(page) || has(0);
}

bool LockGuard::is_told(Generation database) { return known().waiting.count(database) != 0; }

void LockGuard::tell(Generation database, bool is_waiting) noexcept {
  if (is_waiting)
    known().waiting.insert(database);
  else
    known().waiting.erase(database);
}

void LockGuard::let_wait() {
  for (std::vector<std::byte> &note : notes_) waiting_.push_back(std::move(note));
  notes_.clear();
}

int LockGuard::take(const tp_object &object, tp_mode mode, std::uint64_t wait_us,
                    bool *has_waited) {
  TMH_ASSERT(txn_ != nullptr);
  // A callback may have used another transaction.
  (void)learn(env_, txn_);
  std::uint32_t &modes = known().modes.of(object);
  if (is_held(modes, mode)) return TP_OK;
  int error = tp_lock(txn_, object, mode, TP_TRY);
  if (error == TP_EBUSY && wait_us != TP_TRY) {
    error = tp_lock(txn_, object, mode, wait_us);
    *has_waited = true;
  }
  if (error == TP_OK) modes |= 1u << mode;
  return error;
}

int LockGuard::take_intention(bool changes, std::uint64_t wait_us, bool *has_waited) {
  if (!has_numbers_) return TP_OK;
  return take(of_page(0), changes ? TP_INTEND_EXCLUSIVE : TP_INTEND_SHARED, wait_us, has_waited);
}

void LockGuard::take_or_throw(const tp_object &object, tp_mode mode, bool *has_waited) {
  throw_unless_ok(take(object, mode, TP_FOREVER, has_waited));
}

bool LockGuard::decide(const tp_object &object, Access access) {
  (void)learn(env_, txn_);
  std::uint32_t &modes = known().modes.of(object);
  if (access == Access::kChange) {
    if ((modes & kLooked) != 0) ++changed_;
    modes &= ~kLooked;
    return true;
  }
  if (!goes_on_ || modes != 0) return false;
  note_look();
  modes |= kLooked;
  return expects_change();
}

void LockGuard::lock(PageId page, Access access) {
  const bool changes = decide(of_page(page), access);
  bool has_waited = false;
  throw_unless_ok(take_intention(changes, TP_FOREVER, &has_waited));
  take_or_throw(of_page(page), changes ? TP_EXCLUSIVE : TP_SHARED, &has_waited);
  if (has_waited) throw Retry{};
}

// Of keys of one hash the locks are one.
void LockGuard::lock_key(PageId leaf, Bytes key, Access access) {
  if (!locks_records_) return lock(leaf, access);
  const tp_object record = lock_object(LockSpace::kRecords, database_, digest_of(key).hash);
  const bool changes = decide(record, access);
  bool has_waited = false;
  take_or_throw(of_page(leaf), changes ? TP_INTEND_EXCLUSIVE : TP_INTEND_SHARED, &has_waited);
  take_or_throw(record, changes ? TP_EXCLUSIVE : TP_SHARED, &has_waited);
  if (has_waited) throw Retry{};
}

// Nothing is held that a holder of this waits for: it gives it back at once.
void LockGuard::pass(PageId page, Access access) {
  if (!passes_inner_) return;
  const tp_mode mode = access == Access::kChange ? TP_EXCLUSIVE : TP_SHARED;
  const tp_object object = lock_object(LockSpace::kInner, database_, page);
  throw_unless_ok(tp_lock(txn_, object, mode, TP_FOREVER));
  throw_unless_ok(tp_unlock(txn_, object, mode));
}

void LockGuard::note_look() noexcept {
  constexpr std::uint32_t kRemembered = 64;
  if (++looked_ < kRemembered) return;
  looked_ /= 2;
  changed_ /= 2;
}

bool LockGuard::try_lock(PageId page, Access access) {
  const bool changes = access == Access::kChange;
  return take_intention(changes, TP_TRY, nullptr) == TP_OK &&
         take(of_page(page), changes ? TP_EXCLUSIVE : TP_SHARED, TP_TRY, nullptr) == TP_OK;
}

void LockGuard::lock_all(Access access) {
  bool has_waited = false;
  take_or_throw(of_page(0), access == Access::kChange ? TP_EXCLUSIVE : TP_SHARED, &has_waited);
  if (has_waited) throw Retry{};
}

void LockGuard::note(const UndoRecord &record, Bytes payload) {
  TMH_ASSERT(goes_on_);
  notes_.push_back(logged(database_, record, payload));
}

int LockGuard::log(tp_step_t *step) const {
  for (const auto *notes : {&waiting_, &notes_})
    for (const std::vector<std::byte> &note : *notes)
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
