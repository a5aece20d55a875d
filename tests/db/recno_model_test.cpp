// tests/db/recno_model_test.cpp -- records by number beside a vector: random calls under a seed;
// and the text files that they are of.
// Invariants: (1) a call returns what the model says, and delivers its record.
//             (2) a text file has the records of its handle's close, and nothing else.
#include <gtest/gtest.h>
#include <tp/db.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/db/kinds.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

enum class Kept { kInMemory, kInText, kInTree };
struct Shape {
  const char *name;
  Kept kept;
  std::size_t record_bytes;  // 0: of any length
  unsigned page_bytes;
};

DBT dbt(const std::string &text) { return {const_cast<char *>(text.data()), text.size()}; }
std::string text(const DBT &dbt) { return {static_cast<const char *>(dbt.data), dbt.size}; }

class RecnoModelTest : public ::testing::TestWithParam<std::tuple<Kind, Shape>> {
 protected:
  [[nodiscard]] static Kind kind() { return std::get<0>(GetParam()); }
  [[nodiscard]] static const Shape &shape() { return std::get<1>(GetParam()); }
  RecnoModelTest() : random_(seed()) {}

  void open() {
    RECNOINFO info{};
    info.psize = shape().page_bytes;
    info.cachesize = 1;
    info.bval = is_fixed() ? '.' : '\n';
    info.flags = is_fixed() ? R_FIXEDLEN : 0;
    info.reclen = shape().record_bytes;
    if (shape().kept == Kept::kInTree) info.bfname = tree_.data();
    const bool has_text = shape().kept == Kept::kInText;
    db_ = dbopen(has_text ? path_.c_str() : nullptr, O_RDWR | O_CREAT, 0600, DB_RECNO, &info);
    ASSERT_NE(db_, nullptr) << errno;
    has_cursor_ = false;
  }
  [[nodiscard]] static bool is_fixed() { return shape().record_bytes != 0; }
  [[nodiscard]] static std::string as_kept(std::string record) {
    if (is_fixed()) record.resize(shape().record_bytes, '.');
    return record;
  }
  std::string data() {
    const std::size_t most = is_fixed() ? shape().record_bytes : random_() % 9 == 0 ? 3000 : 50;
    return std::string(random_() % (most + 1), static_cast<char>('a' + random_() % 26));
  }
  // One that is there, mostly.
  std::uint32_t number() {
    return static_cast<std::uint32_t>(random_() % (model_.size() + (random_() % 20 == 0 ? 9 : 2)));
  }
  void put() {
    constexpr unsigned kFlags[] = {0,        R_IAFTER,    R_IBEFORE,     R_IBEFORE,
                                   R_CURSOR, R_SETCURSOR, R_NOOVERWRITE, R_IAFTER};
    const unsigned flags = kFlags[random_() % 8];
    std::uint32_t at = number();
    const std::string record = data();
    DBT key{&at, sizeof at};
    const DBT given = dbt(record);
    std::uint64_t where = flags == R_CURSOR ? cursor_ : flags == R_IAFTER ? at + 1ULL : at;
    const int result = db_->put(db_, &key, &given, flags);
    if ((flags == R_CURSOR && !has_cursor_) || where == 0) {
      ASSERT_EQ(result, -1);
      ASSERT_EQ(errno, EINVAL);
      return;
    }
    if (flags == R_NOOVERWRITE && where <= model_.size()) {
      ASSERT_EQ(result, 1);
      return;
    }
    ASSERT_EQ(result, 0) << flags << " " << errno;
    while (model_.size() + 1 < where) model_.push_back(as_kept(""));
    const bool is_insert = flags == R_IAFTER || flags == R_IBEFORE || where > model_.size();
    if (is_insert) {
      model_.insert(model_.begin() + static_cast<std::ptrdiff_t>(where - 1), as_kept(record));
    } else {
      model_[where - 1] = as_kept(record);
    }
    ASSERT_EQ(key.size, sizeof(recno_t));
    ASSERT_EQ(*static_cast<recno_t *>(key.data), where);
    if (flags == R_SETCURSOR) {
      cursor_ = where;
      has_cursor_ = true;
    }
  }
  void del() {
    std::uint32_t at = number();
    const DBT key{&at, sizeof at};
    const bool is_cursor = random_() % 3 == 0;
    const int result = db_->del(db_, is_cursor ? nullptr : &key, is_cursor ? R_CURSOR : 0);
    const std::uint64_t where = is_cursor ? cursor_ : at;
    if ((is_cursor && !has_cursor_) || (!is_cursor && where == 0)) {
      ASSERT_EQ(result, -1);
      ASSERT_EQ(errno, EINVAL);
    } else if (where == 0 || where > model_.size()) {
      ASSERT_EQ(result, 1);
    } else {
      ASSERT_EQ(result, 0);
      model_.erase(model_.begin() + static_cast<std::ptrdiff_t>(where - 1));
      if (is_cursor) --cursor_;
    }
  }
  void seq() {
    constexpr unsigned kFlags[] = {R_CURSOR, R_FIRST, R_LAST, R_NEXT, R_NEXT, R_PREV, R_PREV};
    const unsigned flags = kFlags[random_() % 7];
    std::uint32_t at = 1 + number();
    DBT key{&at, sizeof at}, data{};
    std::uint64_t where = at;
    if (flags == R_FIRST || (flags == R_NEXT && !has_cursor_)) where = 1;
    if (flags == R_LAST || (flags == R_PREV && !has_cursor_)) where = model_.size();
    if (flags == R_NEXT && has_cursor_) where = cursor_ + 1;
    if (flags == R_PREV && has_cursor_) where = cursor_ == 0 ? 0 : cursor_ - 1;
    const bool is_there = where != 0 && where <= model_.size();
    ASSERT_EQ(db_->seq(db_, &key, &data, flags), is_there ? 0 : 1) << flags;
    if (!is_there) return;
    ASSERT_EQ(*static_cast<recno_t *>(key.data), where);
    ASSERT_EQ(text(data), model_[where - 1]);
    cursor_ = where;
    has_cursor_ = true;
  }
  void get() {
    std::uint32_t at = number();
    const DBT key{&at, sizeof at};
    DBT data{};
    const int result = db_->get(db_, &key, &data, 0);
    ASSERT_EQ(result, at == 0 ? -1 : at <= model_.size() ? 0 : 1);
    if (result == 0) {
      ASSERT_EQ(text(data), model_[at - 1]);
    }
  }
  void expect_all() {
    for (std::uint32_t i = 1; i <= model_.size() + 1; ++i) {
      const DBT key{&i, sizeof i};
      DBT data{};
      ASSERT_EQ(db_->get(db_, &key, &data, 0), i <= model_.size() ? 0 : 1) << i;
      if (i <= model_.size()) {
        ASSERT_EQ(text(data), model_[i - 1]) << i;
      }
    }
  }
  void run(std::size_t calls) {
    const std::uint64_t bias = random_() % 3;
    for (std::size_t i = 0; i < calls && !HasFatalFailure(); ++i) {
      const std::uint64_t what = random_() % 12;
      if (what < (bias == 0 ? 6U : bias == 1 ? 2U : 4U)) {
        put();
      } else if (what < 8) {
        del();
      } else if (what < 10) {
        seq();
      } else {
        get();
      }
    }
  }
  void expect_text() {
    std::string wanted;
    for (const std::string &record : model_) wanted += record + (is_fixed() ? "" : "\n");
    ASSERT_EQ(read_file(path_), wanted);
  }

  TempFolder folder_;
  const OfKind of_kind_{kind()};
  const std::string path_ = folder_ / "text";
  std::string tree_ = folder_ / "tree";
  std::vector<std::string> model_;
  std::mt19937_64 random_;
  bool has_cursor_ = false;
  std::uint64_t cursor_ = 0;
  DB *db_ = nullptr;
};

TEST_P(RecnoModelTest, CallsReturnWhatTheModelSays) {
  open();
  for (int i = 0; i < 30 && !HasFatalFailure(); ++i) {
    run(200);
    expect_all();
    if (i % 4 != 0 || shape().kept == Kept::kInMemory) continue;
    if (random_() % 2 == 0) {
      ASSERT_EQ(db_->sync(db_, 0), 0);
      if (shape().kept == Kept::kInText) expect_text();
    }
    ASSERT_EQ(db_->close(db_), 0);
    if (shape().kept == Kept::kInText) expect_text();
    open();
    expect_all();
  }
  EXPECT_EQ(db_->close(db_), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RecnoModelTest,
    testing::Combine(all_kinds(),
                     testing::Values(Shape{"Memory", Kept::kInMemory, 0, 512},
                                     Shape{"FixedMemory", Kept::kInMemory, 20, 512},
                                     Shape{"Text", Kept::kInText, 0, 512},
                                     Shape{"FixedText", Kept::kInText, 33, 4096},
                                     Shape{"Tree", Kept::kInTree, 0, 512},
                                     Shape{"LongFixedTree", Kept::kInTree, 700, 1024})),
    [](const auto &made) {
      return name_of(std::get<0>(made.param)) + std::get<1>(made.param).name;
    });

class RecnoTextTest : public ::testing::TestWithParam<Kind> {
 protected:
  std::vector<std::string> records_of(const std::string &content, const RECNOINFO *info,
                                      int flags = O_RDWR) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
    DB *const db = dbopen(path_.c_str(), flags, 0, DB_RECNO, info);
    std::vector<std::string> found;
    if (db == nullptr) return {"refused"};
    DBT key{}, data{};
    for (unsigned how = R_FIRST; db->seq(db, &key, &data, how) == 0; how = R_NEXT)
      found.push_back(text(data));
    EXPECT_EQ(db->close(db), 0);
    // Nothing has changed it.
    EXPECT_EQ(read_file(path_), content);
    return found;
  }
  TempFolder folder_;
  const OfKind of_kind_{GetParam()};
  const std::string path_ = folder_ / "text";
};

TEST_P(RecnoTextTest, LinesAreRecords) {
  using Records = std::vector<std::string>;
  EXPECT_EQ(records_of("", nullptr), Records{});
  EXPECT_EQ(records_of("one\ntwo\n\nfour", nullptr), (Records{"one", "two", "", "four"}));
  EXPECT_EQ(records_of("one\n", nullptr, O_RDONLY), Records{"one"});
  EXPECT_EQ(records_of(std::string(200'000, 'x') + "\ny\n", nullptr),
            (Records{std::string(200'000, 'x'), "y"}));
  RECNOINFO info{};
  info.bval = ':';
  EXPECT_EQ(records_of("a:b\n:c", &info), (Records{"a", "b\n", "c"}));
  info.flags = R_FIXEDLEN | R_SNAPSHOT;
  info.reclen = 3;
  EXPECT_EQ(records_of("abcdefg", &info), (Records{"abc", "def", "g::"}));
}

TEST_P(RecnoTextTest, WhatCannotBeIsRefused) {
  RECNOINFO info{};
  info.flags = R_FIXEDLEN;
  EXPECT_EQ(dbopen(nullptr, O_RDWR, 0, DB_RECNO, &info), nullptr);
  EXPECT_EQ(errno, EINVAL);
  info.flags = 8;
  EXPECT_EQ(dbopen(nullptr, O_RDWR, 0, DB_RECNO, &info), nullptr);
  EXPECT_EQ(errno, EINVAL);
  info.flags = R_FIXEDLEN;
  info.reclen = 4;
  DB *const db = dbopen(nullptr, O_RDWR, 0, DB_RECNO, &info);
  ASSERT_NE(db, nullptr);
  recno_t one = 1;
  DBT key{&one, sizeof one};
  const std::string longer = "12345";
  const DBT data = dbt(longer);
  EXPECT_EQ(db->put(db, &key, &data, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(db->close(db), 0);
  std::ofstream(path_) << "a\n";
  DB *const reader = dbopen(path_.c_str(), O_RDONLY, 0, DB_RECNO, nullptr);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->put(reader, &key, &data, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(reader->del(reader, &key, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(reader->close(reader), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecnoTextTest, all_kinds(),
                         [](const auto &kind) { return name_of(kind.param); });

}  // namespace
}  // namespace tmh::test
