// tests/db/transactions_model_test.cpp -- files of transactions beside a model: random calls in
// transactions that commit, abort, and go back to savepoints, for all types.
#define TP_NO_SHORT_NAMES
#include <tp/db.h>
#include <tp/paper.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <cerrno>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

enum class Type {
  kTree,
  kSmallTree,
  kDuplicates,
  kRecordLocks,
  kDuplicatesOfRecordLocks,
  kBlink,
  kHash,
  kNumbers
};
bool has_duplicates(Type type) {
  return type == Type::kDuplicates || type == Type::kDuplicatesOfRecordLocks;
}
int locks_of(Type type) {
  if (type == Type::kBlink) return DB_BLINK;
  return type == Type::kRecordLocks || type == Type::kDuplicatesOfRecordLocks ? DB_RECORD_LOCKS : 0;
}

DBT dbt(const std::string &text) { return {const_cast<char *>(text.data()), text.size()}; }
std::string text(const DBT &dbt) { return {static_cast<const char *>(dbt.data), dbt.size}; }

// Data of a key, as a scan delivers them: the newest first. Numbers have their key in one list.
struct Model {
  std::map<std::string, std::deque<std::string>> by_key;
  std::vector<std::string> numbered;
  bool operator==(const Model &) const = default;
};

class TransactionsModelTest : public ::testing::TestWithParam<Type> {
 protected:
  TransactionsModelTest() : random_(seed()) {
    tp_options options{};
    options.durability = static_cast<int>(random_() % 3);
    EXPECT_EQ(tp_paper_open((folder_ / "home").c_str(), &options), TP_OK) << tp_last_error();
    open();
  }
  ~TransactionsModelTest() override {
    if (db_ != nullptr) {
      EXPECT_EQ(db_->close(db_), 0) << errno;
    }
    EXPECT_EQ(tp_paper_close(), TP_OK) << tp_last_error();
  }

  void open() {
    db_ = opened();
    ASSERT_NE(db_, nullptr) << errno << tp_last_error();
  }
  [[nodiscard]] DB *opened() {
    BTREEINFO tree{};
    tree.psize = GetParam() == Type::kTree || GetParam() == Type::kDuplicates ? 1024 : 512;
    tree.flags = has_duplicates(GetParam()) ? R_DUP : 0;
    HASHINFO table{};
    table.bsize = 512;
    RECNOINFO numbers{};
    numbers.psize = 512;
    std::string file = folder_ / "file";
    numbers.bfname = file.data();
    const void *const info = GetParam() == Type::kHash      ? static_cast<const void *>(&table)
                             : GetParam() == Type::kNumbers ? static_cast<const void *>(&numbers)
                                                            : &tree;
    return tp_dbopen(GetParam() == Type::kNumbers ? nullptr : file.c_str(), O_RDWR | O_CREAT, 0600,
                     GetParam() == Type::kHash      ? DB_HASH
                     : GetParam() == Type::kNumbers ? DB_RECNO
                                                    : DB_BTREE,
                     DB_SHARED | DB_TP | locks_of(GetParam()), info);
  }
  std::string some(std::size_t bytes_max) {
    std::string made = std::to_string(random_() % 1000);
    made.resize(random_() % 10 == 0 ? random_() % bytes_max : random_() % 40, 'x');
    return made;
  }

  void call() {
    if (GetParam() == Type::kNumbers) return call_number();
    if (random_() % 6 == 0) return scan_a_little();
    const std::string key = std::to_string(random_() % 120) + std::string(random_() % 120 / 8, 'k');
    DBT k = dbt(key);
    auto &there = model_.by_key[key];
    if (random_() % 5 == 0) {
      EXPECT_EQ(db_->del(db_, &k, 0), there.empty() ? 1 : 0);
      there.clear();
    } else {
      const std::string data = some(1500);
      const DBT d = dbt(data);
      const bool is_new = random_() % 4 == 0;
      const int expected = is_new && !there.empty() ? 1 : 0;
      ASSERT_EQ(db_->put(db_, &k, &d, is_new ? R_NOOVERWRITE : 0), expected) << errno;
      if (expected == 0) {
        if (!has_duplicates(GetParam())) there.clear();
        there.push_front(data);
      }
    }
    if (there.empty()) model_.by_key.erase(key);
  }
  void call_number() {
    const std::size_t count = model_.numbered.size();
    auto number = static_cast<recno_t>(1 + random_() % (count + 2));
    DBT k{&number, sizeof number};
    const std::string data = some(700);
    const DBT d = dbt(data);
    const std::size_t at = number - 1;
    if (random_() % 4 == 0) {
      EXPECT_EQ(db_->del(db_, &k, 0), at < count ? 0 : 1);
      if (at < count) model_.numbered.erase(model_.numbered.begin() + static_cast<long>(at));
    } else if (random_() % 2 == 0 && at <= count) {
      ASSERT_EQ(db_->put(db_, &k, &d, R_IBEFORE), 0) << errno;
      model_.numbered.insert(model_.numbered.begin() + static_cast<long>(at), data);
    } else {
      ASSERT_EQ(db_->put(db_, &k, &d, 0), 0) << errno;
      if (at >= count) model_.numbered.resize(at + 1);
      model_.numbered[at] = data;
    }
  }
  // Erases, or replaces, at the cursor.
  void scan_a_little() {
    DBT k{}, d{};
    if (db_->seq(db_, &k, &d, R_FIRST) != 0) return;
    for (std::uint64_t steps = random_() % 9; steps > 0; --steps)
      if (db_->seq(db_, &k, &d, R_NEXT) != 0) return;
    const std::string key = text(k), data = text(d);
    auto &there = model_.by_key[key];
    const auto found = std::find(there.begin(), there.end(), data);
    ASSERT_NE(found, there.end());
    if (GetParam() == Type::kHash || random_() % 2 == 0) {
      ASSERT_EQ(db_->del(db_, &k, R_CURSOR), 0) << errno;
      there.erase(found);
    } else {
      const std::string other = some(300);
      const DBT now = dbt(other);
      ASSERT_EQ(db_->put(db_, &k, &now, R_CURSOR), 0) << errno;
      *found = other;
    }
    if (there.empty()) model_.by_key.erase(key);
  }

  Model all() const { return all_of(db_); }
  [[nodiscard]] static Model all_of(DB *db) {
    Model found;
    DBT key{}, data{};
    int result = db->seq(db, &key, &data, R_FIRST);
    for (; result == 0; result = db->seq(db, &key, &data, R_NEXT)) {
      if (GetParam() == Type::kNumbers)
        found.numbered.push_back(text(data));
      else
        found.by_key[text(key)].push_back(text(data));
    }
    EXPECT_EQ(result, 1) << errno;
    return found;
  }

  // A thread reads the committed state, and waits for no lock of the running transaction.
  Model queried() {
    Model found;
    std::thread reader([&] {
      ASSERT_EQ(tp_query_begin(tp_paper_env()), TP_OK) << tp_last_error();
      found = all_of(reader_);
      EXPECT_EQ(tp_query_end(), TP_OK) << tp_last_error();
    });
    reader.join();
    return found;
  }

  TempFolder folder_;
  std::mt19937_64 random_;
  Model model_;
  DB *db_ = nullptr;
  DB *reader_ = nullptr;
};

TEST_P(TransactionsModelTest, WhatAQuerySees) {
  reader_ = opened();
  ASSERT_NE(reader_, nullptr) << errno << tp_last_error();
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i) {
    const Model before = model_;
    ASSERT_NE(tp_paper_begin(), 0U) << tp_last_error();
    for (std::uint64_t calls = random_() % 20; calls > 0; --calls) call();
    ASSERT_EQ(queried(), before) << i;
    for (std::uint64_t parts = random_() % 3; parts > 0; --parts) {
      const Model saved = model_;
      tp_savepoint point{};
      ASSERT_EQ(tp_save(tp_paper_txn(), &point), TP_OK);
      ASSERT_EQ(queried(), before) << i;
      for (std::uint64_t calls = random_() % 20; calls > 0; --calls) call();
      if (random_() % 4 == 0) {
        ASSERT_EQ(tp_roll_back(tp_paper_txn(), &point), TP_OK) << tp_last_error();
        model_ = saved;
      }
      ASSERT_EQ(queried(), before) << i;
    }
    if (random_() % 3 != 0) {
      ASSERT_EQ(tp_paper_commit(), TP_OK) << tp_last_error();
    } else {
      ASSERT_EQ(tp_paper_abort(), TP_OK) << tp_last_error();
      model_ = before;
    }
    ASSERT_EQ(queried(), model_) << i;
  }
  EXPECT_EQ(reader_->close(reader_), 0) << errno;
}

TEST_P(TransactionsModelTest, WhatAborts) {
  for (int i = 0; i < 150 && !HasFatalFailure(); ++i) {
    const Model before = model_;
    ASSERT_NE(tp_paper_begin(), 0U) << tp_last_error();
    for (std::uint64_t calls = random_() % 20; calls > 0; --calls) call();
    if (random_() % 2 == 0) {
      const Model saved = model_;
      tp_savepoint point{};
      ASSERT_EQ(tp_save(tp_paper_txn(), &point), TP_OK);
      for (std::uint64_t calls = random_() % 20; calls > 0; --calls) call();
      if (random_() % 4 == 0) {
        ASSERT_EQ(all(), model_);
      }
      if (random_() % 2 == 0) {
        ASSERT_EQ(tp_roll_back(tp_paper_txn(), &point), TP_OK) << tp_last_error();
        model_ = saved;
        ASSERT_EQ(all(), model_);
        for (std::uint64_t calls = random_() % 20; calls > 0; --calls) call();
      }
    }
    if (random_() % 2 == 0) {
      ASSERT_EQ(tp_paper_commit(), TP_OK) << tp_last_error();
    } else {
      ASSERT_EQ(tp_paper_abort(), TP_OK) << tp_last_error();
      model_ = before;
    }
    ASSERT_EQ(all(), model_) << i;
    // Calls that are transactions of their own.
    for (std::uint64_t calls = random_() % 9; calls > 0; --calls) call();
    ASSERT_EQ(all(), model_) << i;
    if (i % 50 != 20) continue;
    ASSERT_EQ(db_->close(db_), 0);
    open();
    ASSERT_EQ(all(), model_) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TransactionsModelTest,
                         testing::Values(Type::kTree, Type::kSmallTree, Type::kDuplicates,
                                         Type::kRecordLocks, Type::kDuplicatesOfRecordLocks,
                                         Type::kBlink, Type::kHash, Type::kNumbers),
                         [](const auto &type) -> std::string {
                           switch (type.param) {
                             case Type::kTree:
                               return "Tree";
                             case Type::kSmallTree:
                               return "SmallTree";
                             case Type::kDuplicates:
                               return "Duplicates";
                             case Type::kRecordLocks:
                               return "RecordLocks";
                             case Type::kDuplicatesOfRecordLocks:
                               return "DuplicatesOfRecordLocks";
                             case Type::kBlink:
                               return "Blink";
                             case Type::kHash:
                               return "Hash";
                             case Type::kNumbers:
                               return "Numbers";
                           }
                           return "";
                         });

}  // namespace
}  // namespace tmh::test
