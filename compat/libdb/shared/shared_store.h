// compat/libdb/shared/shared_store.h -- pages that many processes have: DB_SHARED, and DB_TP.
// Method:    an operation runs outside of instances, on copies of pages with their versions, which
//            stay from one operation to the next. At its end one instance compares the versions of
//            all that it has looked at, and stores what it has changed. What is old is copied anew,
//            and the operation runs again. So a callback may do what it likes, and one that leaves
//            by longjmp() leaves nothing but copies.
//            DB_TP: the instance is a step of the thread's transaction, or of one of its own.
//            Changes of pages that the transaction has locked wait in the copies for its commit,
//            which stores them all in one step. What makes or splits pages is a step at once, with
//            what waits.
// Errors:    Failure.
// Contexts:  one thread. Not in a step.
// Source:    LIBTP 4.4: lock, read, log, change, give back.
#pragma once

#include <tp.h>

#include <cstdint>
#include <memory>

#include "compat/libdb/shared/environment.h"
#include "compat/libdb/shared/lock_guard.h"
#include "compat/libdb/shared/pool_store.h"
#include "compat/libdb/shared/shared_file.h"

namespace tmh::db {

class SharedStore final : public PoolStore {
 public:
  enum class Kind : std::uint8_t { kShared, kTransactions };

  SharedStore(const std::shared_ptr<Environment> &environment, const StoreSettings &settings,
              SharedFile::Content content, Kind kind);
  ~SharedStore() override;

  [[nodiscard]] int file() const noexcept override { return file_.file(); }
  int run(bool is_in_callback, Operation<int> operation, Operation<void> reset) override;
  void sync(Operation<void> write_text) override;
  void opened() override {
    file_.opened();
    is_opened_ = true;
  }
  void leave_transaction() override;
  void close(Operation<void> write_text) override { file_.close(write_text); }
  [[nodiscard]] Guard &guard() noexcept override;
  [[nodiscard]] std::uint64_t running_query() const override;
  [[nodiscard]] std::unique_ptr<Store> view() const override;

 private:
  // An operation's transaction. kNone: there are none.
  enum class Whose : std::uint8_t { kNone, kCallers, kOwn };

  void attach(bool (*is_sound_of)(const Page &page));
  void begin_call();
  void begin_own();
  void abandon() noexcept;
  // True: it counts.
  [[nodiscard]] bool attempt(Operation<int> operation, int *result);
  [[nodiscard]] bool is_right();
  [[nodiscard]] bool end_looking();
  [[nodiscard]] bool end_changing();
  void end_own(int error);
  static void wait_a_little(unsigned attempts);

  [[nodiscard]] bool is_exclusive() const;
  // Of the caller's transaction: this operation's changes wait for its end.
  void wait_for_end();
  [[nodiscard]] static int store_what_waits(tp_step_t *step, tp_waiting what, void *context);
  void end_waiting() noexcept;

  void look(Operation<void> body) override;
  void fetch(PageId page, Frame *frame) override;

  SharedFile file_;
  const Kind kind_;
  LockGuard locks_;
  Whose whose_ = Whose::kNone;
  tp_txn *txn_ = nullptr;
  bool is_opened_ = false;
  // The transaction that has been told that changes wait; null: none.
  tp_txn *told_ = nullptr;
};

}  // namespace tmh::db
