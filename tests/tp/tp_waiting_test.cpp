// tests/tp/tp_waiting_test.cpp -- changes that wait for a transaction's commit: stored in one step,
// dropped, or stored before a savepoint, with what undoes them.
#include <gtest/gtest.h>
#include <tp.h>

#include <cstdint>
#include <vector>

#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

class TpWaitingTest : public ::testing::Test {
 protected:
  TpWaitingTest() {
    EXPECT_EQ(tp_open((folder_ / "home").c_str(), nullptr, &env_), TP_OK) << tp_last_error();
    void *at = nullptr;
    EXPECT_EQ(tp_map(env_, "cell", 4096, &at), TP_OK) << tp_last_error();
    cell_ = static_cast<std::uint64_t *>(at);
    EXPECT_EQ(tp_begin(env_, &txn_), TP_OK);
  }
  ~TpWaitingTest() override { EXPECT_EQ(tp_close(env_), TP_OK) << tp_last_error(); }

  void put(std::uint64_t value) {
    value_ = value;
    if (is_waiting_) return;
    EXPECT_EQ(tp_let_wait(txn_, store, this), TP_OK);
    is_waiting_ = true;
  }
  static int store(tp_step_t *step, tp_waiting what, void *context) {
    auto &self = *static_cast<TpWaitingTest *>(context);
    self.told_.push_back(what);
    if (what == TP_STORED || what == TP_DROP) {
      EXPECT_EQ(step, nullptr);
      self.is_waiting_ = false;
      return 0;
    }
    if (self.refuses_) return 1000;
    if (what == TP_STORE_NOW) {
      EXPECT_EQ(tp_log_bytes(step, self.cell_, sizeof *self.cell_, nullptr), TP_OK);
    }
    tp_store(step, self.cell_, &self.value_, sizeof self.value_);
    return 0;
  }
  std::uint64_t now() {
    std::uint64_t value = 0;
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(env_, &txn), TP_OK);
    struct Load {
      const std::uint64_t *from;
      std::uint64_t *to;
    } load{cell_, &value};
    EXPECT_EQ(tp_step(
                  txn, TP_FIELDS,
                  [](tp_step_t *step, void *argument) {
                    const auto &each = *static_cast<Load *>(argument);
                    tp_load(step, each.from, each.to, sizeof *each.to);
                    return 0;
                  },
                  &load),
              TP_OK);
    EXPECT_EQ(tp_commit(txn), TP_OK);
    return value;
  }

  TempFolder folder_;
  tp_env *env_ = nullptr;
  tp_txn *txn_ = nullptr;
  std::uint64_t *cell_ = nullptr;
  std::uint64_t value_ = 0;
  bool is_waiting_ = false, refuses_ = false;
  std::vector<int> told_;
};

TEST_F(TpWaitingTest, ACommitStoresThem) {
  put(1);
  put(2);
  EXPECT_EQ(now(), 0U);
  EXPECT_EQ(tp_txn_last_lsn(txn_), 0U);
  EXPECT_EQ(tp_commit(txn_), TP_OK) << tp_last_error();
  EXPECT_EQ(now(), 2U);
  EXPECT_EQ(told_, (std::vector<int>{TP_STORE_LAST, TP_STORED}));
}

TEST_F(TpWaitingTest, AnAbortDropsThem) {
  put(1);
  EXPECT_EQ(tp_abort(txn_), TP_OK);
  EXPECT_EQ(now(), 0U);
  EXPECT_EQ(told_, (std::vector<int>{TP_DROP}));
}

TEST_F(TpWaitingTest, ASavepointStoresThemWithWhatUndoesThem) {
  put(1);
  tp_savepoint point{};
  EXPECT_EQ(tp_save(txn_, &point), TP_OK) << tp_last_error();
  EXPECT_EQ(now(), 1U);
  put(2);
  EXPECT_EQ(tp_store_waiting(txn_), TP_OK);
  put(3);
  EXPECT_EQ(tp_roll_back(txn_, &point), TP_OK) << tp_last_error();
  EXPECT_EQ(now(), 1U);
  EXPECT_EQ(told_, (std::vector<int>{TP_STORE_NOW, TP_STORED, TP_STORE_NOW, TP_STORED, TP_DROP}));
  EXPECT_EQ(tp_abort(txn_), TP_OK);
  EXPECT_EQ(now(), 0U);
}

TEST_F(TpWaitingTest, OneThatCannotBeStoredLeavesTheTransactionAsItWas) {
  put(1);
  refuses_ = true;
  EXPECT_EQ(tp_commit(txn_), 1000);
  EXPECT_EQ(tp_txn_state(txn_), TP_RUNNING);
  EXPECT_TRUE(is_waiting_);
  refuses_ = false;
  EXPECT_EQ(tp_commit(txn_), TP_OK) << tp_last_error();
  EXPECT_EQ(now(), 1U);
}

TEST_F(TpWaitingTest, WhoDetachesStoresThem) {
  put(7);
  tp_id id = 0;
  EXPECT_EQ(tp_detach(txn_, &id), TP_OK) << tp_last_error();
  EXPECT_EQ(told_, (std::vector<int>{TP_STORE_NOW, TP_STORED}));
  EXPECT_EQ(tp_attach(env_, id, &txn_), TP_OK);
  EXPECT_EQ(tp_abort(txn_), TP_OK);
  EXPECT_EQ(now(), 0U);
}

}  // namespace
}  // namespace tmh::test
