// tests/db/btree_model_test.cpp -- trees of dbopen() beside a sorted vector: random calls under a
// seed.
// Invariants: (1) a call returns what the model says, and delivers its record.
//             (2) a file that is opened again has what was there at its close.
#include <gtest/gtest.h>
#include <tp/db.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/db/kinds.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using Record = std::pair<std::string, std::string>;

struct Shape {
  const char *name;
  unsigned page_bytes;
  bool has_duplicates;
  std::size_t key_bytes_max, data_bytes_max;
  std::uint64_t keys;  // so many different ones
};

// What a tree is: records in order, those of a key with the newest first; and a cursor.
class Model {
 public:
  enum class State : std::uint8_t { kNone, kOn, kBetween, kUnclear };

  explicit Model(bool has_duplicates) : has_duplicates_(has_duplicates) {}

  [[nodiscard]] std::size_t first_of(const std::string &key) const {
    const auto at =
        std::lower_bound(records.begin(), records.end(), key,
                         [](const Record &r, const std::string &k) { return r.first < k; });
    return static_cast<std::size_t>(at - records.begin());
  }
  [[nodiscard]] bool has(const std::string &key) const {
    const std::size_t at = first_of(key);
    return at < records.size() && records[at].first == key;
  }
  void insert(const std::string &key, const std::string &data) {
    const std::size_t at = first_of(key);
    records.insert(records.begin() + static_cast<std::ptrdiff_t>(at), {key, data});
    if (state == State::kOn && cursor >= at) ++cursor;
    if (state == State::kBetween && cursor > at) ++cursor;
    // Before the cursor or behind it: a page's end and the next one's beginning are one place.
    if (state == State::kBetween && cursor == at) state = State::kUnclear;
    stored = at;
  }
  int put(const std::string &key, const std::string &data, unsigned flags) {
    if (flags == R_NOOVERWRITE && has(key)) return 1;
    if (has(key) && !has_duplicates_) {
      stored = first_of(key);
      records[stored].second = data;
    } else {
      insert(key, data);
    }
    if (flags == R_SETCURSOR) set(stored);
    return 0;
  }
  int put_at_cursor(const std::string &key, const std::string &data) {
    if (records[cursor].first == key) {
      records[cursor].second = data;
      return 0;
    }
    erase_at(cursor);
    if (state == State::kBetween) state = State::kNone;
    return put(key, data, R_SETCURSOR);
  }
  void erase_at(std::size_t at) {
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(at));
    if (state == State::kOn && cursor == at) state = State::kBetween;
    if (cursor > at) --cursor;
  }
  int erase(const std::string &key) {
    if (!has(key)) return 1;
    while (has(key)) erase_at(first_of(key));
    return 0;
  }
  void set(std::size_t at) {
    cursor = at;
    state = State::kOn;
  }

  std::vector<Record> records;
  State state = State::kNone;
  std::size_t cursor = 0, stored = 0;

 private:
  bool has_duplicates_;
};

class BtreeModelTest : public ::testing::TestWithParam<std::tuple<Kind, Shape>> {
 protected:
  [[nodiscard]] static Kind kind() { return std::get<0>(GetParam()); }
  [[nodiscard]] static const Shape &shape() { return std::get<1>(GetParam()); }
  BtreeModelTest() : model_(shape().has_duplicates), random_(seed()) {}

  void open(bool is_in_memory) {
    BTREEINFO info{};
    info.psize = shape().page_bytes;
    info.flags = shape().has_duplicates ? R_DUP : 0;
    info.cachesize = 1;
    const std::string path = folder_ / "tree";
    db_ = dbopen(is_in_memory ? nullptr : path.c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE, &info);
    ASSERT_NE(db_, nullptr) << errno;
  }
  [[nodiscard]] std::string text(std::size_t bytes_max, std::uint64_t which) const {
    std::mt19937_64 of_it(which);
    // Most are short.
    const std::size_t bytes = of_it() % 8 == 0 ? of_it() % (bytes_max + 1) : of_it() % 20;
    std::string made = std::to_string(which % 97) + "-" + std::to_string(which);
    while (made.size() < bytes) made += static_cast<char>('a' + of_it() % 26);
    return which % 101 == 0 ? std::string() : made;
  }
  [[nodiscard]] std::string key() { return text(shape().key_bytes_max, random_() % shape().keys); }
  [[nodiscard]] std::string data() { return text(shape().data_bytes_max, random_()); }
  static DBT dbt(const std::string &text) { return {const_cast<char *>(text.data()), text.size()}; }
  static std::string text(const DBT &dbt) {
    return {static_cast<const char *>(dbt.data), dbt.size};
  }

  void put() {
    const std::string k = key(), d = data();
    DBT key = dbt(k);
    const DBT data = dbt(d);
    constexpr unsigned kFlags[] = {0, 0, 0, R_NOOVERWRITE, R_SETCURSOR, R_CURSOR};
    const unsigned flags = kFlags[random_() % 6];
    if (flags != R_CURSOR) {
      ASSERT_EQ(db_->put(db_, &key, &data, flags), model_.put(k, d, flags)) << flags;
    } else if (model_.state == Model::State::kOn) {
      const bool keeps_key = random_() % 2 == 0;
      const std::string same = model_.records[model_.cursor].first;
      if (keeps_key) key = dbt(same);
      ASSERT_EQ(db_->put(db_, &key, &data, R_CURSOR),
                model_.put_at_cursor(keeps_key ? same : k, d));
    } else if (model_.state != Model::State::kUnclear) {
      ASSERT_EQ(db_->put(db_, &key, &data, R_CURSOR), -1);
      ASSERT_EQ(errno, EINVAL);
    }
  }
  void get() {
    const std::string k = key();
    const DBT key = dbt(k);
    DBT data{};
    const bool is_there = model_.has(k);
    ASSERT_EQ(db_->get(db_, &key, &data, 0), is_there ? 0 : 1);
    if (is_there) {
      ASSERT_EQ(text(data), model_.records[model_.first_of(k)].second);
    }
  }
  void del() {
    if (random_() % 2 == 0) {
      const std::string k = key();
      const DBT key = dbt(k);
      ASSERT_EQ(db_->del(db_, &key, 0), model_.erase(k));
    } else if (model_.state == Model::State::kOn) {
      ASSERT_EQ(db_->del(db_, nullptr, R_CURSOR), 0);
      model_.erase_at(model_.cursor);
      ASSERT_EQ(db_->del(db_, nullptr, R_CURSOR), 1);
    } else if (model_.state == Model::State::kNone) {
      ASSERT_EQ(db_->del(db_, nullptr, R_CURSOR), -1);
      ASSERT_EQ(errno, EINVAL);
    }
  }
  void seq() {
    constexpr unsigned kFlags[] = {R_CURSOR, R_FIRST, R_LAST, R_NEXT, R_NEXT,
                                   R_NEXT,   R_PREV,  R_PREV, R_NEXT};
    unsigned flags = kFlags[random_() % 9];
    if (model_.state == Model::State::kUnclear && (flags == R_NEXT || flags == R_PREV))
      flags = R_CURSOR;
    const std::string k = key();
    DBT key = dbt(k), data{};
    const std::size_t end = model_.records.size();
    std::size_t at = model_.cursor;
    const bool has_cursor = model_.state != Model::State::kNone;
    bool is_there = true;
    if (flags == R_CURSOR) at = model_.first_of(k);
    if (flags == R_FIRST || (flags == R_NEXT && !has_cursor)) at = 0;
    if (flags == R_NEXT && model_.state == Model::State::kOn) ++at;
    if (flags == R_LAST || (flags == R_PREV && !has_cursor)) at = end;
    if (flags == R_LAST || flags == R_PREV) {
      is_there = at != 0;
      if (is_there) --at;
    }
    is_there = is_there && at < end;
    ASSERT_EQ(db_->seq(db_, &key, &data, flags), is_there ? 0 : 1) << flags;
    if (!is_there) return;
    ASSERT_EQ(Record(text(key), text(data)), model_.records[at]) << flags;
    model_.set(at);
  }
  void expect_all() {
    std::vector<Record> found;
    DBT key{}, data{};
    for (unsigned flags = R_FIRST; db_->seq(db_, &key, &data, flags) == 0; flags = R_NEXT)
      found.emplace_back(text(key), text(data));
    ASSERT_EQ(found, model_.records);
    found.clear();
    for (unsigned flags = R_LAST; db_->seq(db_, &key, &data, flags) == 0; flags = R_PREV)
      found.emplace_back(text(key), text(data));
    std::reverse(found.begin(), found.end());
    ASSERT_EQ(found, model_.records);
    model_.state = Model::State::kUnclear;
  }
  void run(std::size_t calls) {
    const std::uint64_t bias = random_() % 3;  // grows, shrinks, stays
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

  TempFolder folder_;
  const OfKind of_kind_{kind()};
  Model model_;
  std::mt19937_64 random_;
  DB *db_ = nullptr;
};

TEST_P(BtreeModelTest, CallsReturnWhatTheModelSays) {
  open(kind() == Kind::kPrivate);
  for (int i = 0; i < 40 && !HasFatalFailure(); ++i) {
    run(250);
    expect_all();
  }
  EXPECT_EQ(db_->close(db_), 0);
}

TEST_P(BtreeModelTest, AFileHasWhatWasThereAtItsClose) {
  for (int i = 0; i < 20 && !HasFatalFailure(); ++i) {
    open(false);
    expect_all();
    model_.state = Model::State::kUnclear;
    run(300);
    if (random_() % 2 == 0) {
      EXPECT_EQ(db_->sync(db_, 0), 0);
    }
    expect_all();
    EXPECT_EQ(db_->close(db_), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BtreeModelTest,
    testing::Combine(all_kinds(),
                     testing::Values(Shape{"Small", 512, false, 30, 40, 300},
                                     Shape{"Usual", 4096, false, 100, 300, 3000},
                                     Shape{"Long", 512, false, 2000, 5000, 200},
                                     Shape{"Duplicates", 512, true, 60, 100, 30},
                                     Shape{"LongDuplicates", 1024, true, 900, 900, 60},
                                     Shape{"Largest", 65536, true, 40000, 90000, 400})),
    [](const auto &made) {
      return name_of(std::get<0>(made.param)) + std::get<1>(made.param).name;
    });

}  // namespace
}  // namespace tmh::test
