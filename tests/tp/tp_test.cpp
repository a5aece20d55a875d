// tests/tp/tp_test.cpp -- transactions of many steps: what commits, what is undone, what locks do.
// Invariants: (1) a committed transaction is there whole, an aborted one not at all.
//             (2) a record is undone once, the last one first.
//             (3) what is locked stays so to the end, and not beyond.
#include <gtest/gtest.h>
#include <tp.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::size_t kWords = 512 * 16;

// A body of C++.
int call(tp_step_t *step, void *argument) {
  return (*static_cast<const std::function<int(tp_step_t *)> *>(argument))(step);
}
int run(tp_txn *txn, unsigned flags, const std::function<int(tp_step_t *)> &body) {
  return tp_step(txn, flags, call, const_cast<std::function<int(tp_step_t *)> *>(&body));
}

// An added amount: a word and how much.
struct Added {
  std::uint64_t *word;
  std::uint64_t amount;
};
constexpr std::uint32_t kAdded = 7;

int take_back(tp_step_t *step, const tp_record *record, void *undone) {
  Added added{};
  std::memcpy(&added, record->data, sizeof added);
  std::uint64_t value = 0;
  tp_load(step, added.word, &value, sizeof value);
  value -= added.amount;
  tp_store(step, added.word, &value, sizeof value);
  if (undone != nullptr) static_cast<std::vector<tp_lsn> *>(undone)->push_back(record->lsn);
  return 0;
}

class TpTest : public ::testing::TestWithParam<int> {
 protected:
  TpTest() { open(); }
  ~TpTest() override {
    if (env_ == nullptr) return;
    EXPECT_EQ(tp_close(env_), TP_OK) << tp_last_error();
  }

  void open() {
    const tp_type type{kAdded, "added", take_back, &undone_, TP_FIELDS, nullptr};
    tp_options options{};
    options.durability = GetParam();
    options.types = &type;
    options.type_count = 1;
    ASSERT_EQ(tp_open(folder_.path().c_str(), &options, &env_), TP_OK) << tp_last_error();
    void *address = nullptr;
    ASSERT_EQ(tp_map(env_, "words", kWords * 8, &address), TP_OK) << tp_last_error();
    words_ = static_cast<std::uint64_t *>(address);
  }
  void close() {
    ASSERT_EQ(tp_close(env_), TP_OK) << tp_last_error();
    env_ = nullptr;
  }

  tp_txn *begin() {
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(env_, &txn), TP_OK) << tp_last_error();
    return txn;
  }
  // In a step of its own, with its record.
  int add(tp_txn *txn, std::size_t word, std::uint64_t amount, unsigned flags = TP_FIELDS) {
    return run(txn, flags, [&](tp_step_t *step) {
      const Added added{words_ + word, amount};
      if (const int error = tp_log(step, kAdded, &added, sizeof added, nullptr); error != TP_OK)
        return error;
      std::uint64_t value = 0;
      tp_load(step, added.word, &value, sizeof value);
      value += amount;
      tp_store(step, added.word, &value, sizeof value);
      return 0;
    });
  }
  std::uint64_t at(std::size_t word) {
    std::uint64_t value = 0;
    tp_txn *txn = begin();
    EXPECT_EQ(run(txn, TP_FIELDS,
                  [&](tp_step_t *step) {
                    tp_load(step, words_ + word, &value, sizeof value);
                    return 0;
                  }),
              TP_OK);
    EXPECT_EQ(tp_commit(txn), TP_OK);
    return value;
  }

  MemoryFolder folder_;
  tp_env *env_ = nullptr;
  std::uint64_t *words_ = nullptr;
  std::vector<tp_lsn> undone_;
};

TEST_P(TpTest, WhatCommitsIsThere) {
  tp_txn *txn = begin();
  EXPECT_EQ(tp_txn_state(txn), TP_RUNNING);
  EXPECT_NE(tp_txn_id(txn), 0u);
  EXPECT_EQ(add(txn, 0, 5), TP_OK) << tp_last_error();
  EXPECT_EQ(add(txn, 1000, 6, TP_PAGES), TP_OK) << tp_last_error();
  EXPECT_NE(tp_txn_last_lsn(txn), 0u);
  EXPECT_EQ(tp_commit(txn), TP_OK) << tp_last_error();
  EXPECT_EQ(at(0), 5u);
  EXPECT_EQ(at(1000), 6u);
  EXPECT_TRUE(undone_.empty());
  close();
  open();
  EXPECT_EQ(at(0), 5u);
  EXPECT_EQ(at(1000), 6u);
}

TEST_P(TpTest, WhatAbortsIsUndoneOnceLastOneFirst) {
  tp_txn *txn = begin();
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_EQ(add(txn, i % 3, i, i % 2 == 0 ? TP_FIELDS : TP_PAGES), TP_OK);
  EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(at(i), 0u);
  ASSERT_EQ(undone_.size(), 20u);
  for (std::size_t i = 1; i < undone_.size(); ++i) EXPECT_GT(undone_[i - 1], undone_[i]);
}

TEST_P(TpTest, AStepThatRefusesIsUndoneAlone) {
  tp_txn *txn = begin();
  EXPECT_EQ(add(txn, 0, 1), TP_OK);
  for (const unsigned flags : {0u, 1u})
    EXPECT_EQ(run(txn, flags,
                  [&](tp_step_t *step) {
                    const std::uint64_t value = 99;
                    EXPECT_EQ(tp_log_bytes(step, words_, 8, nullptr), TP_OK);
                    tp_store(step, words_, &value, sizeof value);
                    return 1234;
                  }),
              1234);
  EXPECT_EQ(tp_txn_error(txn), 1234);
  EXPECT_THROW(run(txn, TP_FIELDS,
                   [&](tp_step_t *step) -> int {
                     const std::uint64_t value = 99;
                     tp_store(step, words_, &value, sizeof value);
                     throw std::runtime_error("of the body");
                   }),
               std::runtime_error);
  EXPECT_EQ(add(txn, 0, 2), TP_OK);
  EXPECT_EQ(tp_commit(txn), TP_OK);
  EXPECT_EQ(at(0), 3u);
}

TEST_P(TpTest, BytesArePutBack) {
  tp_txn *txn = begin();
  const std::string old = "as it was before";
  auto *const text = reinterpret_cast<char *>(words_) + 4090;  // over the end of a page
  EXPECT_EQ(run(txn, TP_FIELDS,
                [&](tp_step_t *step) {
                  tp_store(step, text, old.data(), old.size());
                  return 0;
                }),
            TP_OK);
  for (const unsigned flags : {0u, 1u}) {
    EXPECT_EQ(run(txn, flags,
                  [&](tp_step_t *step) {
                    EXPECT_EQ(tp_log_bytes(step, text, old.size(), nullptr), TP_OK);
                    tp_store(step, text, "another one, as lo", old.size());
                    return 0;
                  }),
              TP_OK);
    tp_savepoint none{tp_txn_id(txn), 0};
    EXPECT_EQ(tp_roll_back(txn, &none), TP_OK) << tp_last_error();
    std::string now(old.size(), ' ');
    EXPECT_EQ(run(txn, TP_FIELDS,
                  [&](tp_step_t *step) {
                    tp_load(step, text, now.data(), now.size());
                    return 0;
                  }),
              TP_OK);
    EXPECT_EQ(now, old);
  }
  EXPECT_EQ(tp_commit(txn), TP_OK);
}

TEST_P(TpTest, ARecordOfAnyLengthComesBack) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4000}, std::size_t{4008},
                                  std::size_t{4009}, std::size_t{20'000}, kWords * 8}) {
    std::vector<unsigned char> before(bytes), now(bytes);
    auto *const memory = reinterpret_cast<unsigned char *>(words_);
    for (std::size_t i = 0; i < bytes; ++i) before[i] = static_cast<unsigned char>(i * 7 + bytes);
    tp_txn *txn = begin();
    EXPECT_EQ(run(txn, TP_PAGES,
                  [&](tp_step_t *) {
                    std::memcpy(memory, before.data(), bytes);
                    return 0;
                  }),
              TP_OK);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(run(txn, TP_PAGES,
                    [&](tp_step_t *step) {
                      const int error = tp_log_bytes(step, memory, bytes, nullptr);
                      std::memset(memory, 0x55 + i, bytes);
                      return error;
                    }),
                TP_OK)
          << tp_last_error();
    EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
    txn = begin();
    EXPECT_EQ(run(txn, TP_PAGES,
                  [&](tp_step_t *) {
                    std::memcpy(now.data(), memory, bytes);
                    return 0;
                  }),
              TP_OK);
    EXPECT_EQ(tp_commit(txn), TP_OK);
    EXPECT_EQ(now, before) << bytes;
  }
}

TEST_P(TpTest, ASavepointUndoesWhatFollows) {
  tp_txn *txn = begin();
  EXPECT_EQ(add(txn, 0, 1), TP_OK);
  tp_savepoint first{}, second{};
  EXPECT_EQ(tp_save(txn, &first), TP_OK);
  EXPECT_EQ(add(txn, 0, 10), TP_OK);
  EXPECT_EQ(tp_save(txn, &second), TP_OK);
  EXPECT_EQ(tp_lock(txn, {1, 1}, TP_EXCLUSIVE, TP_TRY), TP_OK);
  EXPECT_EQ(add(txn, 0, 100), TP_OK);
  EXPECT_EQ(tp_roll_back(txn, &second), TP_OK);
  EXPECT_EQ(tp_roll_back(txn, &second), TP_OK);
  EXPECT_EQ(add(txn, 0, 1000), TP_OK);
  EXPECT_EQ(tp_roll_back(txn, &first), TP_OK);
  // The lock stays.
  tp_txn *other = begin();
  EXPECT_EQ(tp_lock(other, {1, 1}, TP_SHARED, TP_TRY), TP_EBUSY);
  const tp_savepoint foreign{tp_txn_id(other), 0};
  EXPECT_EQ(tp_roll_back(txn, &foreign), TP_EARGUMENT);
  EXPECT_EQ(add(txn, 1, 1), TP_OK);
  EXPECT_EQ(tp_commit(txn), TP_OK);
  EXPECT_EQ(tp_abort(other), TP_OK);
  EXPECT_EQ(at(0), 1u);
  EXPECT_EQ(at(1), 1u);
}

TEST_P(TpTest, LocksGoAtTheEnd) {
  for (int i = 0; i < 3; ++i) {
    tp_txn *txn = begin();
    EXPECT_EQ(tp_lock(txn, {1, 1}, TP_EXCLUSIVE, TP_FOREVER), TP_OK);
    EXPECT_EQ(add(txn, 0, 1), TP_OK);
    EXPECT_EQ(i == 0 ? tp_commit(txn) : tp_abort(txn), TP_OK);
  }
  tp_txn *one = begin(), *other = begin();
  EXPECT_EQ(tp_lock(one, {1, 1}, TP_SHARED, TP_TRY), TP_OK);
  EXPECT_EQ(tp_lock(other, {1, 1}, TP_SHARED, TP_TRY), TP_OK);
  EXPECT_EQ(tp_lock_trade(one, {1, 1}, TP_SHARED, TP_EXCLUSIVE, 2000), TP_ETIMEOUT);
  EXPECT_EQ(tp_unlock(other, {1, 1}, TP_EXCLUSIVE), TP_ENOTLOCKED);
  EXPECT_EQ(tp_unlock(other, {1, 1}, TP_SHARED), TP_OK);
  EXPECT_EQ(tp_lock_trade(one, {1, 1}, TP_SHARED, TP_EXCLUSIVE, TP_TRY), TP_OK);
  // A step never waits.
  EXPECT_EQ(run(other, TP_FIELDS,
                [&](tp_step_t *) {
                  return tp_lock(other, {1, 1}, TP_SHARED, TP_FOREVER);
                }),
            TP_EBUSY);
  EXPECT_EQ(tp_commit(one), TP_OK);
  EXPECT_EQ(tp_commit(other), TP_OK);
}

TEST_P(TpTest, ADeadlockLosesOneWhoGoesOnAfterItsAbort) {
  std::array<tp_txn *, 2> both{begin(), begin()};
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(tp_lock(both[i], {1, i}, TP_EXCLUSIVE, TP_TRY), TP_OK);
    EXPECT_EQ(add(both[i], i, 1), TP_OK);
  }
  std::array<int, 2> ends{};
  const auto wait = [&](std::size_t i) {
    ends[i] = tp_lock(both[i], {1, 1 - i}, TP_EXCLUSIVE, TP_FOREVER);
    EXPECT_EQ(ends[i] == TP_OK ? tp_commit(both[i]) : tp_abort(both[i]), TP_OK);
  };
  std::thread other(wait, 1);
  wait(0);
  other.join();
  EXPECT_EQ(ends[0], TP_OK);
  EXPECT_EQ(ends[1], TP_EDEADLOCK);  // the younger one
  EXPECT_EQ(at(0), 1u);
  EXPECT_EQ(at(1), 0u);
}

TEST_P(TpTest, AnotherHandleGoesOnWithWhatIsDetached) {
  tp_txn *txn = begin();
  EXPECT_EQ(tp_lock(txn, {1, 1}, TP_EXCLUSIVE, TP_TRY), TP_OK);
  EXPECT_EQ(add(txn, 0, 1), TP_OK);
  tp_id id = 0;
  EXPECT_EQ(tp_detach(txn, &id), TP_OK);
  EXPECT_EQ(tp_settle(env_), TP_OK);
  tp_txn *other = begin();
  EXPECT_EQ(tp_lock(other, {1, 1}, TP_SHARED, TP_TRY), TP_EBUSY);
  EXPECT_EQ(tp_abort(other), TP_OK);
  EXPECT_EQ(tp_attach(env_, id + 1000, &other), TP_EARGUMENT);
  EXPECT_EQ(tp_attach(env_, id, &txn), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_attach(env_, id, &other), TP_EARGUMENT);
  EXPECT_EQ(add(txn, 0, 10), TP_OK);
  EXPECT_EQ(tp_abort(txn), TP_OK);
  EXPECT_EQ(at(0), 0u);
  EXPECT_EQ(undone_.size(), 2u);
}

TEST_P(TpTest, TheLastStepMayCommit) {
  tp_txn *txn = begin();
  EXPECT_EQ(add(txn, 0, 1), TP_OK);
  const std::function<int(tp_step_t *)> last = [&](tp_step_t *step) {
    const std::uint64_t two = 2;
    tp_store(step, words_ + 1, &two, sizeof two);
    return 0;
  };
  const std::function<int(tp_step_t *)> refuses = [&](tp_step_t *) { return 77; };
  EXPECT_EQ(
      tp_commit_step(txn, TP_FIELDS, call, const_cast<std::function<int(tp_step_t *)> *>(&refuses)),
      77);
  EXPECT_EQ(tp_txn_state(txn), TP_RUNNING);
  EXPECT_EQ(
      tp_commit_step(txn, TP_FIELDS, call, const_cast<std::function<int(tp_step_t *)> *>(&last)),
      TP_OK);
  EXPECT_EQ(at(0), 1u);
  EXPECT_EQ(at(1), 2u);
}

TEST_P(TpTest, WrongCallsAreRefused) {
  tp_env *second = nullptr;
  EXPECT_EQ(tp_open(nullptr, nullptr, &second), TP_EARGUMENT);
  EXPECT_EQ(tp_open(folder_.path().c_str(), nullptr, &second), TP_EARGUMENT);
  EXPECT_EQ(second, nullptr);
  tp_txn *txn = begin();
  EXPECT_EQ(tp_close(env_), TP_ERUNNING);
  EXPECT_EQ(tp_step(txn, 99, call, nullptr), TP_EARGUMENT);
  EXPECT_EQ(tp_step(txn, 0, nullptr, nullptr), TP_EARGUMENT);
  EXPECT_EQ(tp_step(nullptr, 0, call, nullptr), TP_EARGUMENT);
  EXPECT_EQ(tp_lock(txn, {1, 1}, static_cast<tp_mode>(7), TP_TRY), TP_EARGUMENT);
  const int word = 0;
  tp_txn *inner = nullptr;
  EXPECT_EQ(
      run(txn, TP_FIELDS,
          [&](tp_step_t *step) {
            EXPECT_EQ(tp_log(step, 8, &word, 4, nullptr), TP_EARGUMENT);
            EXPECT_EQ(tp_log(step, 0, &word, 4, nullptr), TP_EARGUMENT);
            EXPECT_EQ(tp_log_bytes(step, &word, 4, nullptr), static_cast<int>(Errc::kNotMapped))
                << tp_last_error();
            EXPECT_EQ(tp_begin(env_, &inner), TP_ERUNNING);
            EXPECT_EQ(tp_commit(txn), TP_ERUNNING);
            EXPECT_EQ(tp_abort(txn), TP_ERUNNING);
            EXPECT_EQ(tp_settle(env_), TP_ERUNNING);
            EXPECT_EQ(tp_close(env_), TP_ERUNNING);
            return 0;
          }),
      TP_OK);
  EXPECT_STRNE(tp_last_error(), "");
  const tp_type other{kAdded, "other", nullptr, nullptr, TP_FIELDS, nullptr};
  EXPECT_EQ(tp_record_type(env_, &other), TP_EARGUMENT);
  EXPECT_EQ(tp_abort(txn), TP_OK);
}

std::string name_of(const ::testing::TestParamInfo<int> &info) {
  constexpr const char *kNames[] = {"Volatile", "Strict", "Buffered"};
  return kNames[info.index];
}

TEST_P(TpTest, AForkedChildIsRefused) {
  if (const std::string why = why_no_threads_in_children(); !why.empty()) GTEST_SKIP() << why;
  tp_txn *txn = begin();
  EXPECT_EQ(tp_lock(txn, {1, 1}, TP_EXCLUSIVE, TP_TRY), TP_OK);
  EXPECT_EQ(add(txn, 0, 1), TP_OK);
  const ChildEnd end = run_in_child("child", [&] {
    constexpr int kRefused = static_cast<int>(Errc::kDetached);
    tp_txn *own = nullptr;
    EXPECT_EQ(tp_begin(env_, &own), kRefused);
    EXPECT_EQ(add(txn, 0, 1), kRefused);
    EXPECT_EQ(tp_unlock(txn, {1, 1}, TP_EXCLUSIVE), kRefused);
    EXPECT_EQ(tp_abort(txn), kRefused);
    EXPECT_EQ(tp_commit(txn), kRefused);
    EXPECT_EQ(tp_settle(env_), kRefused);
    EXPECT_EQ(tp_close(env_), kRefused);
    open();
    EXPECT_EQ(tp_begin(env_, &own), TP_OK);
    EXPECT_EQ(tp_lock(own, {1, 1}, TP_SHARED, TP_TRY), TP_EBUSY);
    EXPECT_EQ(tp_abort(own), TP_OK);
    EXPECT_EQ(tp_close(env_), TP_OK);
  });
  EXPECT_TRUE(end.succeeded());
  EXPECT_EQ(tp_commit(txn), TP_OK);
  EXPECT_EQ(at(0), 1u);
}

TEST_P(TpTest, NoTransactionInAnotherInstance) {
  tp_txn *txn = begin(), *other = nullptr;
  const Domain domain = segment_of(words_) ? Domain::open(folder_.path()) : Domain();
  atomically(domain, [&] {
    EXPECT_EQ(add(txn, 0, 1), TP_ERUNNING);
    EXPECT_EQ(tp_begin(env_, &other), TP_ERUNNING);
    EXPECT_EQ(tp_commit(txn), TP_ERUNNING);
  });
  EXPECT_EQ(tp_commit(txn), TP_OK);
}

TEST_P(TpTest, AHundredThousandLocks) {
  tp_txn *txn = begin();
  for (std::uint64_t i = 0; i < 100'000; ++i)
    ASSERT_EQ(tp_lock(txn, {7, i}, TP_EXCLUSIVE, TP_TRY), TP_OK) << tp_last_error();
  EXPECT_EQ(add(txn, 0, 1), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_commit(txn), TP_OK) << tp_last_error();
  EXPECT_EQ(at(0), 1u);
}

INSTANTIATE_TEST_SUITE_P(Durability, TpTest, ::testing::Values(0, 1, 2), name_of);

}  // namespace
}  // namespace tmh::test
