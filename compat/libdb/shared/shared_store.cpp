// compat/libdb/shared/shared_store.cpp -- attempts, until one counts.
#include "compat/libdb/shared/shared_store.h"

#include <fcntl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <tmh/site.hpp>

#include "compat/libdb/failure.h"
#include "compat/libdb/shared/query_store.h"
#include "compat/libdb/shared/tp_failure.h"
#include "compat/libdb/slots.h"
#include "observe/steps.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

using observe::Step;

constexpr std::uint64_t kCacheBytes = 8 << 20;
// What a step's body returns: something has changed since it was read.
constexpr int kOld = 1 << 20;

}  // namespace

SharedStore::SharedStore(const std::shared_ptr<Environment> &environment,
                         const StoreSettings &settings, SharedFile::Content content, Kind kind)
    : file_(environment, settings, content, kind == Kind::kTransactions),
      kind_(kind),
      locks_(file_.generation(), settings) {
  is_writable_ = (settings.flags & O_ACCMODE) == O_RDWR;
  attach(settings.is_sound);
  is_new_ = page_end() == 1;
  set_cache(std::max(kCacheBytes, settings.cache_bytes));
}

SharedStore::~SharedStore() { abandon(); }

void SharedStore::attach(bool (*is_sound_of)(const Page &page)) {
  const Pool &pages = file_.environment().pool();
  with_failures([&] {
    query(pages.site(), Durability::kBuffered, [&](Fields) {
      use(pages, file_.entry(), is_sound_of);
      load_head();
    });
  });
  forget_pages();
  learn_extents();
}

Guard &SharedStore::guard() noexcept {
  return whose_ == Whose::kNone ? PoolStore::guard() : locks_;
}

std::uint64_t SharedStore::running_query() const {
  const Environment &environment = file_.environment();
  return environment.is_alive() ? tp_query_serial(environment.env()) : 0;
}

std::unique_ptr<Store> SharedStore::view() const {
  TMH_ASSERT(running_query() != 0);
  return std::make_unique<QueryStore>(file_.environment(), file_.entry(), generation());
}

void SharedStore::look(Operation<void> body) {
  // Not until what it has read is durable: for that its transaction's commit waits.
  with_failures([&] { query(pool().site(), Durability::kBuffered, [&](Fields) { body(); }); });
}

void SharedStore::fetch(PageId page, Frame *frame) {
  look([&] { load_page(page, frame); });
  if (!is_sound(page, *frame)) throw Failure{EINVAL};
}

// ---- The operation's transaction ---------------------------------------------------------------

void SharedStore::begin_call() {
  abandon();
  whose_ = Whose::kNone;
  Environment *environment = &file_.environment();
  if (!environment->is_alive()) {
    if (environment->is_of_this_process()) throw Failure{EBADF};
    // What waited is the parent's.
    drop_waiting();
    locks_.end_waiting();
    told_ = nullptr;
    file_.reopen();
    environment = &file_.environment();
    attach(is_sound_page());
  }
  if (kind_ == Kind::kShared) return;
  // What an open makes, or reads in, is no part of the caller's transaction.
  txn_ = is_opened_ ? environment->running() : nullptr;
  // Another thread's transaction lets changes wait here.
  if (told_ != nullptr && told_ != txn_) throw Failure{EBUSY};
  whose_ = Whose::kCallers;
  if (txn_ == nullptr) return begin_own();
  // Another handle of the same database lets changes wait, or another thread did.
  const bool is_unknown = locks_.begin(environment->env(), txn_, true);
  if (is_unknown || (told_ == nullptr && LockGuard::is_told(generation())))
    throw_unless_ok(tp_store_waiting(txn_));
}

void SharedStore::begin_own() {
  TMH_ASSERT(kind_ == Kind::kTransactions);
  throw_unless_ok(tp_begin(file_.environment().env(), &txn_));
  whose_ = Whose::kOwn;
  (void)locks_.begin(file_.environment().env(), txn_, false);
}

// One of its own that has not ended, also of an earlier call that was left by longjmp().
void SharedStore::abandon() noexcept {
  if (whose_ != Whose::kOwn || txn_ == nullptr) return;
  tp_txn *const left = std::exchange(txn_, nullptr);
  if (!file_.environment().is_alive()) return;
  // What cannot be undone now others undo.
  if (tp_abort(left) != TP_OK) (void)tp_detach(left, nullptr);
}

// ---- Attempts ----------------------------------------------------------------------------------

int SharedStore::run(bool is_in_callback, Operation<int> operation, Operation<void> reset) {
  begin_operation(is_in_callback);
  begin_call();
  for (unsigned attempts = 0;; ++attempts) {
    int result = 0;
    try {
      if (attempt(operation, &result)) return result;
    } catch (const Failure &failure) {
      end_attempt();
      // A deadlock's victim begins anew, where all that it has is this operation.
      if (failure.number != EDEADLK || whose_ != Whose::kOwn) {
        abandon();
        throw;
      }
      abandon();
      begin_own();
    } catch (...) {
      end_attempt();
      abandon();
      throw;
    }
    reset();
    wait_a_little(attempts);
    begin_operation(is_in_callback);
  }
}

bool SharedStore::attempt(Operation<int> operation, int *result) {
  begin_attempt();
  locks_.begin_attempt();
  try {
    *result = operation();
  } catch (const Retry &) {
    end_attempt();
    drop_stale();
    return false;
  } catch (const Failure &) {
    // What is wrong may be that pages are of different times.
    if (is_right()) throw;
    end_attempt();
    drop_stale();
    return false;
  }
  // A callback has ended, or saved, its own transaction.
  if (!is_changing_) throw Failure{EBUSY};
  const bool counts = images_.empty() && !is_head_dirty_ ? end_looking() : end_changing();
  if (counts) return true;
  end_attempt();
  drop_stale();
  return false;
}

bool SharedStore::is_right() {
  bool is_right = false;
  look([&] { is_right = is_all_current(); });
  return is_right;
}

bool SharedStore::end_looking() {
  if (!is_right()) return false;
  note_stored();
  if (whose_ == Whose::kOwn) end_own(tp_commit(txn_));
  return true;
}

// The handle is gone where it has ended. It has committed, but is not durable: no caller waits
// for that again.
void SharedStore::end_own(int error) {
  TMH_ASSERT(whose_ == Whose::kOwn && txn_ != nullptr);
  tp_txn *const own = std::exchange(txn_, nullptr);
  if (error == TP_OK) return;
  if (tp_txn_state(own) == TP_COMMITTING) {
    (void)tp_detach(own, nullptr);
  } else {
    txn_ = own;
  }
  throw_unless_ok(error);
}

bool SharedStore::end_changing() {
  TMH_ASSERT(whose_ == Whose::kNone || txn_ != nullptr);
  // A file that may not be written is made in the pool, when it is opened.
  if (!is_writable_ && is_opened_) throw Failure{EPERM};
  const bool grows = is_head_dirty_;
  observe::step(Step::kDbChanged);
  if (whose_ == Whose::kNone) {
    const bool counts = with_failures([&] {
      return atomically(pool().site(), Durability::kBuffered, [&](Fields) {
        if (!is_all_current()) return false;
        store_changes();
        return true;
      });
    });
    if (!counts) return false;
    observe::step(grows ? Step::kDbGrown : Step::kDbStored);
    note_stored();
    return true;
  }
  const tp_body_fn body = [](tp_step_t *step, void *argument) {
    auto &self = *static_cast<SharedStore *>(argument);
    if (!self.is_all_current()) return kOld;
    self.store_changes();
    return self.locks_.log(step);
  };
  const bool is_own = whose_ == Whose::kOwn;
  if (!is_own && may_wait() && is_exclusive()) {
    if (!is_right()) return false;
    wait_for_end();
    observe::step(Step::kDbWaits);
    return true;
  }
  // The closer of the last handle tries for that lock: not while this handle is open.
  if (!is_own) throw_unless_ok(locks_.lock_database());
  const int error = with_failures([&] {
    return is_own ? tp_commit_step(txn_, TP_FIELDS, body, this)
                  : tp_step(txn_, TP_FIELDS, body, this);
  });
  if (error == kOld) return false;
  observe::step(grows ? Step::kDbGrown : Step::kDbStored);
  if (!is_own) throw_unless_ok(error);
  // What has committed, and is perhaps not durable, is there.
  if (error == TP_OK || tp_txn_state(txn_) == TP_COMMITTING) {
    note_stored();
    note_waiting_stored();
    locks_.end_waiting();
  }
  if (is_own) end_own(error);
  return true;
}

// ---- Changes that wait -------------------------------------------------------------------------

bool SharedStore::is_exclusive() const {
  return std::all_of(images_.begin(), images_.end(),
                     [&](const Image &image) { return locks_.is_exclusive(image.page); });
}

void SharedStore::wait_for_end() {
  TMH_ASSERT(whose_ == Whose::kCallers);
  if (told_ == nullptr) {
    throw_unless_ok(tp_let_wait(txn_, store_what_waits, this));
    told_ = txn_;
    LockGuard::tell(generation(), true);
  }
  locks_.let_wait();
  let_wait();
}

int SharedStore::store_what_waits(tp_step_t *step, tp_waiting what, void *context) {
  auto &self = *static_cast<SharedStore *>(context);
  switch (what) {
    case TP_STORE_LAST:
      // What a callback has left is not part of it.
      self.end_change(false);
      self.store_waiting();
      observe::step(Step::kDbStoring);
      return TP_OK;
    case TP_STORE_NOW:
      self.end_change(false);
      if (const int error = self.locks_.lock_database(); error != TP_OK) return error;
      self.store_waiting();
      observe::step(Step::kDbStoring);
      return self.locks_.log(step);
    case TP_STORED:
      self.note_waiting_stored();
      break;
    case TP_DROP:
      self.end_change(false);
      self.drop_waiting();
      break;
  }
  self.end_waiting();
  return TP_OK;
}

void SharedStore::end_waiting() noexcept {
  told_ = nullptr;
  locks_.end_waiting();
  LockGuard::tell(generation(), false);
}

// The transaction goes on without this handle.
void SharedStore::leave_transaction() {
  if (running_query() != 0) throw Failure{EBUSY};
  if (told_ == nullptr || !file_.environment().is_alive()) return;
  TMH_ASSERT(kind_ == Kind::kTransactions);
  throw_unless_ok(tp_store_waiting(told_));
}

// Somebody else's operation has counted, each time that this one did not.
void SharedStore::wait_a_little(unsigned attempts) {
  constexpr unsigned kAtOnce = 4;
  if (attempts < kAtOnce) return;
  const unsigned doubled = std::min(attempts - kAtOnce, 10u);
  const timespec pause{0, 1000L << doubled};
  (void)::nanosleep(&pause, nullptr);
}

void SharedStore::sync(Operation<void> write_text) {
  if (!file_.environment().is_alive()) throw Failure{EBADF};
  throw_unless_ok(tp_log_flush(file_.environment().env()));
  file_.sync(write_text);
}

}  // namespace tmh::db
