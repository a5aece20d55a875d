// tests/db/hash_model_test.cpp -- records of dbopen()'s hash tables beside a map: random calls
// under a seed.
// Invariants: (1) a call returns what the model says, and delivers its record.
//             (2) a scan sees each record once that is there from its beginning to its end, also
//                 while the records that it has seen are changed or deleted.
//             (3) a file that is opened again has what was there at its close.
#include <gtest/gtest.h>
#include <tp/db.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include "tests/db/kinds.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

struct Shape {
  const char *name;
  unsigned bucket_bytes, fill;
  std::size_t key_bytes_max, data_bytes_max;
  std::uint64_t keys;
  std::uint32_t (*hash)(const void *, std::size_t);
};

DBT dbt(const std::string &text) { return {const_cast<char *>(text.data()), text.size()}; }
std::string text(const DBT &dbt) { return {static_cast<const char *>(dbt.data), dbt.size}; }

// Few different ones.
std::uint32_t poor_hash(const void *key, std::size_t bytes) {
  return bytes == 0 ? 0 : *static_cast<const unsigned char *>(key) % 5;
}

class HashModelTest : public ::testing::TestWithParam<std::tuple<Kind, Shape>> {
 protected:
  using Model = std::map<std::string, std::string>;

  [[nodiscard]] static Kind kind() { return std::get<0>(GetParam()); }
  [[nodiscard]] static const Shape &shape() { return std::get<1>(GetParam()); }
  HashModelTest() : random_(seed()) {}

  void open(bool is_in_memory) {
    HASHINFO info{};
    info.bsize = shape().bucket_bytes;
    info.ffactor = shape().fill;
    info.hash = shape().hash;
    info.cachesize = 1;
    info.nelem = 100;
    db_ = dbopen(is_in_memory ? nullptr : path_.c_str(), O_RDWR | O_CREAT, 0600, DB_HASH, &info);
    ASSERT_NE(db_, nullptr) << errno;
  }
  std::string made(std::uint64_t which, std::size_t bytes_max) const {
    std::mt19937_64 of_it(which);
    const std::size_t bytes = of_it() % 8 == 0 ? of_it() % (bytes_max + 1) : of_it() % 20;
    std::string made = std::to_string(which % 97) + "-" + std::to_string(which);
    while (made.size() < bytes) made += static_cast<char>('a' + of_it() % 26);
    return which % 101 == 0 ? std::string() : made;
  }
  std::string key() { return made(random_() % shape().keys, shape().key_bytes_max); }
  std::string data() { return made(random_(), shape().data_bytes_max); }

  void put() {
    const std::string k = key(), d = data();
    DBT key = dbt(k);
    const DBT data = dbt(d);
    const bool is_new = random_() % 4 == 0, is_there = model_.count(k) != 0;
    ASSERT_EQ(db_->put(db_, &key, &data, is_new ? R_NOOVERWRITE : 0), is_new && is_there ? 1 : 0);
    if (!is_new || !is_there) model_[k] = d;
  }
  void get() {
    const std::string k = key();
    const DBT key = dbt(k);
    DBT data{};
    const auto found = model_.find(k);
    ASSERT_EQ(db_->get(db_, &key, &data, 0), found != model_.end() ? 0 : 1);
    if (found != model_.end()) {
      ASSERT_EQ(text(data), found->second);
    }
  }
  void del() {
    const std::string k = key();
    const DBT key = dbt(k);
    ASSERT_EQ(db_->del(db_, &key, 0), model_.erase(k) != 0 ? 0 : 1);
  }
  // changes: what was seen is deleted, or gets other data.
  void scan(bool changes) {
    Model found;
    const Model before = model_;
    DBT key{}, data{};
    for (unsigned flags = R_FIRST; db_->seq(db_, &key, &data, flags) == 0; flags = R_NEXT) {
      const std::string k = text(key);
      ASSERT_TRUE(found.emplace(k, text(data)).second) << "twice: " << k;
      if (!changes || random_() % 3 != 0) continue;
      if (random_() % 2 == 0) {
        ASSERT_EQ(db_->del(db_, random_() % 2 == 0 ? &key : nullptr, R_CURSOR), 0);
        model_.erase(k);
      } else {
        const std::string d = this->data();
        const DBT other = dbt(d);
        ASSERT_EQ(db_->put(db_, &key, &other, 0), 0);
        model_[k] = d;
      }
    }
    ASSERT_EQ(found, before);
  }
  void run(std::size_t calls) {
    const std::uint64_t bias = random_() % 3;
    for (std::size_t i = 0; i < calls && !HasFatalFailure(); ++i) {
      const std::uint64_t what = random_() % 10;
      if (what < (bias == 0 ? 7U : bias == 1 ? 3U : 5U)) {
        put();
      } else if (what < 8) {
        del();
      } else {
        get();
      }
    }
  }

  TempFolder folder_;
  const OfKind of_kind_{kind()};
  const std::string path_ = folder_ / "table";
  Model model_;
  std::mt19937_64 random_;
  DB *db_ = nullptr;
};

TEST_P(HashModelTest, CallsReturnWhatTheModelSays) {
  open(kind() == Kind::kPrivate);
  for (int i = 0; i < 30 && !HasFatalFailure(); ++i) {
    run(250);
    scan(i % 2 == 0);
    scan(false);
  }
  EXPECT_EQ(db_->close(db_), 0);
}

TEST_P(HashModelTest, AFileHasWhatWasThereAtItsClose) {
  for (int i = 0; i < 12 && !HasFatalFailure(); ++i) {
    open(false);
    scan(false);
    run(300);
    if (random_() % 2 == 0) {
      EXPECT_EQ(db_->sync(db_, 0), 0);
    }
    scan(true);
    EXPECT_EQ(db_->close(db_), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, HashModelTest,
    testing::Combine(all_kinds(),
                     testing::Values(Shape{"Small", 512, 0, 40, 60, 1500, nullptr},
                                     Shape{"Usual", 0, 8, 100, 300, 3000, nullptr},
                                     Shape{"Filled", 4096, 1, 20, 20, 2000, nullptr},
                                     Shape{"Long", 512, 0, 2000, 5000, 200, nullptr},
                                     Shape{"Poor", 512, 0, 40, 60, 300, poor_hash},
                                     Shape{"Largest", 65536, 0, 40000, 90000, 300, nullptr})),
    [](const auto &made) {
      return name_of(std::get<0>(made.param)) + std::get<1>(made.param).name;
    });

class HashTest : public ::testing::TestWithParam<Kind> {};

TEST_P(HashTest, AnotherFunctionIsRefused) {
  const TempFolder folder;
  const OfKind of_kind(GetParam());
  const std::string path = folder / "table";
  HASHINFO info{};
  info.hash = poor_hash;
  DB *db = dbopen(path.c_str(), O_RDWR | O_CREAT, 0600, DB_HASH, &info);
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(db->close(db), 0);
  EXPECT_EQ(dbopen(path.c_str(), O_RDWR, 0, DB_HASH, nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(dbopen(path.c_str(), O_RDWR, 0, DB_BTREE, nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  db = dbopen(path.c_str(), O_RDONLY, 0, DB_HASH, &info);
  ASSERT_NE(db, nullptr);
  const std::string one = "1";
  DBT key = dbt(one), data{};
  EXPECT_EQ(db->put(db, &key, &key, 0), -1);
  EXPECT_EQ(errno, EPERM);
  for (const unsigned flags : {unsigned{R_CURSOR}, unsigned{R_LAST}, unsigned{R_PREV}, 99u}) {
    EXPECT_EQ(db->seq(db, &key, &data, flags), -1);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(db->seq(db, &key, &data, R_FIRST), 1);
  EXPECT_EQ(db->close(db), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, HashTest, all_kinds(),
                         [](const auto &kind) { return name_of(kind.param); });

}  // namespace
}  // namespace tmh::test
