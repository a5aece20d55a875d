// tests/tp/tp_endings_test.cpp -- transactions that end by other ways than the straight one: their
// process dies behind the commit point, an undo refuses, a handle is given up.
// Invariant: what has committed stays, and what has not cannot commit in part.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <tp.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/temp_folder.h"
#include "tests/tp/bank.h"

namespace tmh::test {
namespace {

using observe::Step;

constexpr std::size_t kAccounts = 3;
constexpr std::uint32_t kRefusing = 7;
constexpr tp_object kOne{1, 1}, kTwo{1, 2};

class TpEndingsTest : public testing::Test {
 protected:
  static tp_txn *begin(const Bank &bank) {
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(bank.env(), &txn), TP_OK) << tp_last_error();
    return txn;
  }
  // Its undo refuses as long as `refuses`.
  static void tell_refusing(const Bank &bank, const bool *refuses) {
    const tp_type type{kRefusing,
                       "refusing",
                       [](tp_step_t *, const tp_record *, void *context) {
                         return *static_cast<const bool *>(context) ? 99 : 0;
                       },
                       nullptr,
                       TP_FIELDS,
                       nullptr};
    tp_type told = type;
    told.context = const_cast<bool *>(refuses);
    EXPECT_EQ(tp_record_type(bank.env(), &told), TP_OK) << tp_last_error();
  }
  static int log_refusing(const Bank &bank, tp_txn *txn) {
    return bank.step(txn, TP_FIELDS, [](tp_step_t *running) {
      return tp_log(running, kRefusing, "r", 1, nullptr);
    });
  }
  static std::vector<tp_lsn> roll(const Bank &bank) {
    std::vector<tp_lsn> all;
    EXPECT_EQ(tp_log_roll(
                  bank.env(), 0,
                  [](const tp_record *record, void *lsns) {
                    static_cast<std::vector<tp_lsn> *>(lsns)->push_back(record->lsn);
                    return 0;
                  },
                  &all),
              TP_OK)
        << tp_last_error();
    return all;
  }

  const MemoryFolder folder_;
};

TEST_F(TpEndingsTest, AKeptCommitWhoseProcessDiesStays) {
  const Bank bank(folder_.path(), kAccounts, 1, TP_LOG_KEEP);
  for (const Step step : {Step::kTpCommitted, Step::kTpUnlocked}) {
    const std::uint64_t before = bank.read_all()[0];
    const ChildEnd end = run_in_child("victim", [&] {
      const Bank own(folder_.path(), kAccounts, 1, TP_LOG_KEEP);
      tp_txn *const txn = begin(own);
      EXPECT_EQ(tp_lock(txn, kOne, TP_EXCLUSIVE, TP_TRY), TP_OK);
      EXPECT_EQ(own.add(txn, 0, 5, TP_FIELDS, false), TP_OK);
      observe::crash_at(static_cast<std::uint32_t>(step), 1);
      (void)tp_commit(txn);
    });
    EXPECT_EQ(end.signal, SIGKILL);
    EXPECT_EQ(tp_settle(bank.env()), TP_OK) << tp_last_error();
    EXPECT_EQ(bank.read_all()[0], before + 5);
  }
  EXPECT_EQ(roll(bank).size(), 2u);
  EXPECT_EQ(tp_log_forget(bank.env(), ~std::uint64_t{0}), TP_OK) << tp_last_error();
  EXPECT_TRUE(roll(bank).empty());
  bank.expect_free(kAccounts);
}

// Its blocks are others' by the time that the dead are looked for.
TEST_F(TpEndingsTest, AKeptCommitIsForgottenBeforeItsDeadOwnerIsFound) {
  const Bank bank(folder_.path(), kAccounts, 1, TP_LOG_KEEP);
  const ChildEnd end = run_in_child("victim", [&] {
    const Bank own(folder_.path(), kAccounts, 1, TP_LOG_KEEP);
    tp_txn *const txn = begin(own);
    EXPECT_EQ(own.add(txn, 0, 5, TP_FIELDS, false), TP_OK);
    observe::crash_at(static_cast<std::uint32_t>(Step::kTpUnlocked), 1);
    (void)tp_commit(txn);
  });
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_EQ(tp_log_forget(bank.env(), ~std::uint64_t{0}), TP_OK);
  std::vector<tp_txn *> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(begin(bank));
    EXPECT_EQ(bank.add(others.back(), 1, 1, TP_FIELDS, false), TP_OK);
  }
  EXPECT_EQ(tp_settle(bank.env()), TP_OK) << tp_last_error();
  for (tp_txn *const other : others) EXPECT_EQ(tp_commit(other), TP_OK) << tp_last_error();
  const std::vector<std::uint64_t> all = bank.read_all();
  EXPECT_EQ(all[0], 5u);
  EXPECT_EQ(all[1], 4u);
}

TEST_F(TpEndingsTest, ALogThatIsCutMeanwhileShowsNothingElse) {
  const Bank bank(folder_.path(), kAccounts, 1, TP_LOG_KEEP);
  for (int i = 0; i < 6; ++i) {
    tp_txn *const txn = begin(bank);
    EXPECT_EQ(bank.add(txn, 0, 1, TP_FIELDS, false), TP_OK);
    EXPECT_EQ(tp_commit(txn), TP_OK);
  }
  struct Seen {
    const Bank &bank;
    tp_lsn last;
    int count;
  } seen{bank, 0, 0};
  const auto visit = [](const tp_record *record, void *argument) {
    Seen &so_far = *static_cast<Seen *>(argument);
    EXPECT_GT(record->lsn, so_far.last);
    so_far.last = record->lsn;
    if (++so_far.count == 2) {
      EXPECT_EQ(tp_log_forget(so_far.bank.env(), ~std::uint64_t{0}), TP_OK);
      tp_txn *const txn = begin(so_far.bank);
      for (int i = 0; i < 50; ++i) EXPECT_EQ(so_far.bank.add(txn, 0, 1, TP_FIELDS, false), TP_OK);
      EXPECT_EQ(tp_commit(txn), TP_OK);
    }
    return 0;
  };
  EXPECT_EQ(tp_log_roll(bank.env(), 0, visit, &seen), TP_OK);
  EXPECT_EQ(seen.count, 2);
}

TEST_F(TpEndingsTest, ARefusedLastStepLeavesNothingBehind) {
  const Bank bank(folder_.path(), kAccounts);
  tp_txn *const txn = begin(bank);
  const auto refuse = [](tp_step_t *, void *) { return 99; };
  EXPECT_EQ(tp_commit_step(txn, TP_FIELDS, refuse, nullptr), 99);
  EXPECT_EQ(bank.add_pinned(txn, 0, 7, true), TP_OK);
  EXPECT_EQ(tp_abort(txn), TP_OK);
  EXPECT_EQ(bank.read_all()[0], 0u);
}

TEST_F(TpEndingsTest, WhatIsHalfRolledBackCannotCommit) {
  const Bank bank(folder_.path(), kAccounts);
  bool refuses = true;
  tell_refusing(bank, &refuses);
  tp_txn *txn = begin(bank);
  EXPECT_EQ(bank.add(txn, 0, 3, TP_FIELDS, false), TP_OK);
  EXPECT_EQ(log_refusing(bank, txn), TP_OK);
  EXPECT_EQ(bank.add(txn, 0, 4, TP_FIELDS, false), TP_OK);
  EXPECT_EQ(tp_abort(txn), 99);
  EXPECT_EQ(tp_txn_state(txn), TP_ABORTING);
  EXPECT_EQ(tp_commit(txn), TP_EARGUMENT);
  tp_txn *const other = begin(bank);
  EXPECT_EQ(bank.step(other, TP_FIELDS, [&](tp_step_t *) { return tp_abort(txn); }), TP_ERUNNING);
  EXPECT_EQ(tp_commit(other), TP_OK);
  tp_id id = 0;
  EXPECT_EQ(tp_detach(txn, &id), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_attach(bank.env(), id, &txn), TP_EARGUMENT);
  refuses = false;
  EXPECT_EQ(tp_settle(bank.env()), TP_OK) << tp_last_error();
  EXPECT_EQ(bank.read_all()[0], 0u);
}

TEST_F(TpEndingsTest, PinnedPagesAreTheirThreads) {
  const Bank bank(folder_.path(), kAccounts);
  tp_txn *const txn = begin(bank);
  void *page = nullptr;
  EXPECT_EQ(tp_buf_pin(txn, bank.fid(), 0, nullptr, &page), TP_OK);
  std::thread([&] {
    EXPECT_EQ(tp_abort(txn), TP_ERUNNING);
    EXPECT_EQ(tp_buf_unpin(txn, page), TP_ERUNNING);
    EXPECT_EQ(tp_lock(txn, kOne, TP_SHARED, TP_TRY), TP_ERUNNING);
  }).join();
  EXPECT_EQ(tp_lock(txn, kOne, TP_SHARED, TP_TRY), TP_OK);
  EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
  bank.expect_free(2);
}

TEST_F(TpEndingsTest, AChildOfAStepOpensItsOwn) {
  if (const std::string why = why_no_threads_in_children(); !why.empty()) GTEST_SKIP() << why;
  const Bank bank(folder_ / "parent", kAccounts);
  tp_txn *const txn = begin(bank);
  void *page = nullptr;
  EXPECT_EQ(tp_buf_pin(txn, bank.fid(), 0, nullptr, &page), TP_OK);
  expect_child("child", [&] { const Bank own(folder_ / "child", kAccounts); });
  EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
}

TEST_F(TpEndingsTest, LocksFromBeforeATransactionWasPassedOnHoldAfterACrash) {
  const ChildEnd end = run_in_child("victim", [&] {
    const Bank bank(folder_.path(), kAccounts);
    bool refuses = true;
    tell_refusing(bank, &refuses);
    tp_txn *txn = begin(bank);
    EXPECT_EQ(tp_lock(txn, kOne, TP_EXCLUSIVE, TP_TRY), TP_OK);
    tp_id id = 0;
    EXPECT_EQ(tp_detach(txn, &id), TP_OK) << tp_last_error();
    EXPECT_EQ(tp_attach(bank.env(), id, &txn), TP_OK) << tp_last_error();
    EXPECT_EQ(tp_lock(txn, kTwo, TP_EXCLUSIVE, TP_TRY), TP_OK);
    EXPECT_EQ(log_refusing(bank, txn), TP_OK);
    EXPECT_EQ(tp_log_flush(bank.env()), TP_OK);
    die_unless_failed();
  });
  EXPECT_EQ(end.signal, SIGKILL);
  const Bank bank(folder_.path(), kAccounts);  // its record's type is not known
  tp_txn *const txn = begin(bank);
  for (const tp_object &object : {kOne, kTwo}) {
    EXPECT_EQ(tp_lock(txn, object, TP_EXCLUSIVE, TP_TRY), TP_EBUSY);
    EXPECT_EQ(std::string(tp_last_error()),
              "other lockers are before this one: the lock is not free");
  }
  EXPECT_EQ(tp_abort(txn), TP_OK);
}

}  // namespace
}  // namespace tmh::test
