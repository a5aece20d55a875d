// tests/db/cases_db_test.cpp -- every call with every flag in every state of a handle: what it
// returns, delivers and leaves, for each type, on each kind of file.
// Method:     a case is a state and a call. What is expected comes from a model of a sorted list
//             with a cursor, as dbopen(3), btree(3), hash(3) and recno(3) describe it, and no code
//             of the library.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <tp/db.h>

#include "tests/db/kinds.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::size_t kFew = 5, kMany = 60;
constexpr recno_t kNone = 0;

enum class State {
  kEmpty,
  kOne,
  kFew,
  kMany,
  kLongData,
  kOnFirst,
  kOnMiddle,
  kOnLast,
  kErasedAtCursor,
  kBehindAll,
  kReader
};
constexpr State kStates[] = {State::kEmpty,     State::kOne,      State::kFew,
                             State::kMany,      State::kLongData, State::kOnFirst,
                             State::kOnMiddle,  State::kOnLast,   State::kErasedAtCursor,
                             State::kBehindAll, State::kReader};

enum class Verb { kGet, kPut, kDel, kSeq, kSync };
// A key is the number of a record that is there, from 1; half a number more is between two.
enum class Key { kFirst, kMiddle, kLast, kBetween, kBehind, kZero };
struct Call {
  Verb verb;
  unsigned flags;
  Key key;
};
constexpr int kBad = 99;

std::vector<Call> calls_of(DBTYPE type) {
  std::vector<Call> all;
  const Key keys[] = {Key::kFirst, Key::kMiddle, Key::kLast, Key::kBetween, Key::kBehind};
  for (const Key key : keys) {
    all.push_back({Verb::kGet, 0, key});
    all.push_back({Verb::kDel, 0, key});
    for (const unsigned flags : std::vector<unsigned>{0, R_NOOVERWRITE})
      all.push_back({Verb::kPut, flags, key});
    if (type != DB_HASH)
      for (const unsigned flags : std::vector<unsigned>{R_SETCURSOR, R_CURSOR})
        all.push_back({Verb::kPut, flags, key});
    if (type == DB_RECNO)
      for (const unsigned flags : std::vector<unsigned>{R_IAFTER, R_IBEFORE})
        all.push_back({Verb::kPut, flags, key});
    if (type != DB_HASH) all.push_back({Verb::kSeq, R_CURSOR, key});
  }
  for (const unsigned flags : std::vector<unsigned>{R_FIRST, R_NEXT})
    all.push_back({Verb::kSeq, flags, Key::kFirst});
  if (type != DB_HASH)
    for (const unsigned flags : std::vector<unsigned>{R_LAST, R_PREV})
      all.push_back({Verb::kSeq, flags, Key::kFirst});
  all.push_back({Verb::kDel, R_CURSOR, Key::kFirst});
  all.push_back({Verb::kSync, 0, Key::kFirst});
  // Flags of other calls, and of none.
  for (const unsigned flags : std::vector<unsigned>{R_CURSOR, R_NEXT, R_NOOVERWRITE, kBad})
    all.push_back({Verb::kGet, flags, Key::kFirst});
  for (const unsigned flags : std::vector<unsigned>{R_FIRST, R_LAST, R_NEXT, kBad})
    all.push_back({Verb::kPut, flags, Key::kFirst});
  if (type != DB_RECNO)
    for (const unsigned flags : std::vector<unsigned>{R_IAFTER, R_IBEFORE})
      all.push_back({Verb::kPut, flags, Key::kFirst});
  if (type == DB_HASH)
    for (const unsigned flags : std::vector<unsigned>{R_CURSOR, R_SETCURSOR})
      all.push_back({Verb::kPut, flags, Key::kFirst});
  for (const unsigned flags : std::vector<unsigned>{R_FIRST, R_NOOVERWRITE, R_SETCURSOR, kBad})
    all.push_back({Verb::kDel, flags, Key::kFirst});
  for (const unsigned flags : std::vector<unsigned>{R_IAFTER, R_NOOVERWRITE, R_SETCURSOR, kBad})
    all.push_back({Verb::kSeq, flags, Key::kFirst});
  if (type == DB_HASH)
    for (const unsigned flags : std::vector<unsigned>{R_CURSOR, R_LAST, R_PREV})
      all.push_back({Verb::kSeq, flags, Key::kFirst});
  for (const unsigned flags : std::vector<unsigned>{R_FIRST, R_CURSOR, kBad})
    all.push_back({Verb::kSync, flags, Key::kFirst});
  if (type != DB_RECNO) all.push_back({Verb::kSync, R_RECNOSYNC, Key::kFirst});
  if (type == DB_RECNO)
    for (const Verb verb : {Verb::kGet, Verb::kPut, Verb::kDel})
      all.push_back({verb, 0, Key::kZero});
  return all;
}

// Keys as they are sorted; of numbers, the numbers. A double, so that one can lie between.
struct Model {
  enum class Cursor { kNone, kOn, kBefore };  // kBefore: its record has been erased
  struct Result {
    int returned = 0, error = 0;
    bool delivers = false;
    std::size_t at = 0;
  };

  DBTYPE type = DB_BTREE;
  bool is_reader = false;
  std::vector<std::pair<double, std::string>> records;
  Cursor cursor = Cursor::kNone;
  std::size_t at = 0;

  [[nodiscard]] std::size_t lower(double key) const {
    std::size_t found = 0;
    while (found < records.size() && records[found].first < key) ++found;
    return found;
  }
  [[nodiscard]] bool has(double key) const {
    return lower(key) < records.size() && records[lower(key)].first == key;
  }
  void renumber() {
    for (std::size_t i = 0; type == DB_RECNO && i < records.size(); ++i)
      records[i].first = static_cast<double>(i + 1);
  }
  void insert(double key, const std::string &data) {
    records.insert(records.begin() + static_cast<std::ptrdiff_t>(lower(key)), {key, data});
  }
  void erase(std::size_t index) {
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(index));
    renumber();
  }
  static Result refused(int error) { return {-1, error}; }

  Result get(double key, unsigned flags) const {
    if (flags != 0 || (type == DB_RECNO && key == 0)) return refused(EINVAL);
    if (!has(key)) return {1};
    return {0, 0, true, lower(key)};
  }
  Result put(double key, const std::string &data, unsigned flags) {
    const bool by_number = type == DB_RECNO;
    const bool is_insert = flags == R_IAFTER || flags == R_IBEFORE;
    const bool is_known = flags == 0 || flags == R_NOOVERWRITE ||
                          (type != DB_HASH && (flags == R_CURSOR || flags == R_SETCURSOR)) ||
                          (by_number && is_insert);
    if (!is_known) return refused(EINVAL);
    if (by_number && key == 0 && flags != R_CURSOR) return refused(EINVAL);
    if (flags == R_CURSOR && cursor != Cursor::kOn) return refused(EINVAL);
    if (is_reader) return refused(EPERM);
    if (flags == R_NOOVERWRITE && has(key)) return {1};
    if (flags == R_CURSOR) {
      if (by_number) {
        records[at].second = data;
        return {0};
      }
      // The pair is replaced, its key too.
      erase(at);
      if (has(key)) {
        records[lower(key)].second = data;
      } else {
        insert(key, data);
      }
      at = lower(key);
      return {0};
    }
    if (is_insert) {
      const std::size_t index = static_cast<std::size_t>(key) - (flags == R_IBEFORE ? 1 : 0);
      while (records.size() < index) records.push_back({0, ""});
      records.insert(records.begin() + static_cast<std::ptrdiff_t>(index), {0, data});
      renumber();
      return {0};
    }
    if (by_number) {
      while (records.size() < static_cast<std::size_t>(key)) records.push_back({0, ""});
      renumber();
    }
    if (has(key)) {
      records[lower(key)].second = data;
    } else {
      insert(key, data);
    }
    if (flags == R_SETCURSOR) {
      cursor = Cursor::kOn;
      at = lower(key);
    }
    return {0};
  }
  Result del(double key, unsigned flags) {
    if (flags != 0 && flags != R_CURSOR) return refused(EINVAL);
    if (flags == 0 && type == DB_RECNO && key == 0) return refused(EINVAL);
    if (flags == R_CURSOR && cursor == Cursor::kNone) return refused(EINVAL);
    if (is_reader) return refused(EPERM);
    if (flags == R_CURSOR) {
      if (cursor == Cursor::kBefore) return {1};
      erase(at);
      cursor = Cursor::kBefore;
      return {0};
    }
    if (!has(key)) return {1};
    erase(lower(key));
    return {0};
  }
  Result seq(double key, unsigned flags) {
    std::size_t to = 0;
    const std::size_t end = records.size();
    switch (flags) {
      case R_CURSOR:
        if (type == DB_HASH) return refused(EINVAL);
        to = lower(key);
        break;
      case R_FIRST:
        break;
      case R_NEXT:
        to = cursor == Cursor::kNone ? 0 : at + (cursor == Cursor::kOn ? 1 : 0);
        break;
      case R_LAST:
      case R_PREV:
        if (type == DB_HASH) return refused(EINVAL);
        to = flags == R_LAST || cursor == Cursor::kNone ? end : at;
        if (to == 0) return {1};
        --to;
        break;
      default:
        return refused(EINVAL);
    }
    if (to >= end) return {1};
    cursor = Cursor::kOn;
    at = to;
    return {0, 0, true, to};
  }
  [[nodiscard]] Result sync(unsigned flags) const {
    return flags == 0 || (type == DB_RECNO && flags == R_RECNOSYNC) ? Result{0} : refused(EINVAL);
  }
};

class CasesDbTest : public testing::TestWithParam<std::tuple<Kind, DBTYPE>> {
 protected:
  [[nodiscard]] static DBTYPE type() { return std::get<1>(GetParam()); }

  void open(int flags) {
    BTREEINFO tree{};
    tree.psize = 512;
    HASHINFO table{};
    table.bsize = 512;
    RECNOINFO numbers{};
    numbers.psize = 512;
    std::string file = folder_ / "file";
    numbers.bfname = file.data();
    if (type() == DB_RECNO)
      // Its flags are those of the text: of a file of records, it is always read and written.
      db_ = dbopen(nullptr, O_RDWR, 0600, type(), &numbers);
    else
      db_ = dbopen(file.c_str(), flags, 0600, type(),
                   type() == DB_BTREE ? static_cast<const void *>(&tree) : &table);
    ASSERT_NE(db_, nullptr) << std::strerror(errno);
  }
  [[nodiscard]] static DBT dbt(const std::string &text) {
    return {const_cast<char *>(text.data()), text.size()};
  }
  [[nodiscard]] DBT key_of(double key) {
    number_ = static_cast<recno_t>(key);
    const int halves = static_cast<int>(key * 2);
    key_ = "key " +
           std::string(static_cast<std::size_t>(halves < 100 ? halves < 10 ? 2 : 1 : 0), '0') +
           std::to_string(halves);
    return type() == DB_RECNO ? DBT{&number_, sizeof number_} : dbt(key_);
  }
  [[nodiscard]] double value_of(Key key) const {
    const auto end = static_cast<double>(model_.records.size());
    switch (key) {
      case Key::kFirst:
        return 1;
      case Key::kMiddle:
        return 1 + static_cast<double>(model_.records.size() / 2);
      case Key::kLast:
        return std::max(end, 1.0);
      case Key::kBetween:
        return type() == DB_RECNO ? end + 1 : 1.5;
      case Key::kBehind:
        return end + 3;
      case Key::kZero:
        break;
    }
    return 0;
  }

  void check(const Model::Result &expected, int returned, const DBT &key, const DBT &data) {
    const int error = errno;
    ASSERT_EQ(returned, expected.returned) << (returned == -1 ? std::strerror(error) : "");
    if (returned == -1) {
      ASSERT_EQ(error, expected.error);
    }
    if (!expected.delivers) return;
    const auto &[k, d] = model_.records[expected.at];
    EXPECT_EQ(std::string(static_cast<const char *>(data.data), data.size), d);
    if (key.data == nullptr) return;
    const DBT wanted = key_of(k);
    EXPECT_EQ(std::string(static_cast<const char *>(key.data), key.size),
              std::string(static_cast<const char *>(wanted.data), wanted.size));
  }
  // REQUIRES: of a table, no order.
  void seq(double at, unsigned flags) {
    DBT key = key_of(at), data{};
    const int returned = db_->seq(db_, &key, &data, flags);
    check(model_.seq(at, flags), returned, key, data);
  }
  void put(double at, const std::string &text, unsigned flags) {
    DBT key = key_of(at);
    const DBT data = dbt(text);
    const int returned = db_->put(db_, &key, &data, flags);
    check(model_.put(at, text, flags), returned, {}, {});
  }
  void del(double at, unsigned flags) {
    const DBT key = key_of(at);
    const int returned = db_->del(db_, &key, flags);
    check(model_.del(at, flags), returned, {}, {});
  }
  void get(double at, unsigned flags) {
    const DBT key = key_of(at);
    DBT data{};
    const int returned = db_->get(db_, &key, &data, flags);
    check(model_.get(at, flags), returned, {}, data);
  }

  // A table's order is its own: the model takes it over.
  void take_order() {
    if (type() != DB_HASH) return;
    std::vector<std::pair<double, std::string>> found;
    DBT key{}, data{};
    for (unsigned how = R_FIRST; db_->seq(db_, &key, &data, how) == 0; how = R_NEXT) {
      const std::string text(static_cast<const char *>(key.data), key.size);
      found.push_back({std::stod(text.substr(4)) / 2,
                       std::string(static_cast<const char *>(data.data), data.size)});
    }
    auto sorted = found;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted, model_.records);
  }

  void make(State state) {
    model_ = {};
    model_.type = type();
    ::unlink((folder_ / "file").c_str());
    open(O_RDWR | O_CREAT);
    const std::size_t count = state == State::kEmpty  ? 0
                              : state == State::kOne  ? 1
                              : state == State::kMany ? kMany
                                                      : kFew;
    for (std::size_t i = 1; i <= count; ++i)
      put(static_cast<double>(i),
          std::string(state == State::kLongData ? 2000 + i : 30, static_cast<char>('a' + i % 26)),
          0);
    if (state == State::kReader) {
      ASSERT_EQ(db_->close(db_), 0);
      open(O_RDONLY);
      model_.is_reader = type() != DB_RECNO;
    }
    if (type() == DB_HASH) return;
    if (state == State::kOnFirst) seq(0, R_FIRST);
    if (state == State::kOnMiddle || state == State::kErasedAtCursor) seq(3, R_CURSOR);
    if (state == State::kOnLast || state == State::kBehindAll) seq(0, R_LAST);
    if (state == State::kErasedAtCursor) del(0, R_CURSOR);
    if (state == State::kBehindAll) seq(0, R_NEXT);
  }
  void do_call(const Call &call) {
    const double key = value_of(call.key);
    switch (call.verb) {
      case Verb::kGet:
        return get(key, call.flags);
      case Verb::kPut:
        return put(key, call.key == Key::kMiddle ? std::string(1700, 'n') : "new", call.flags);
      case Verb::kDel:
        return del(key, call.flags);
      case Verb::kSeq:
        return seq(key, call.flags);
      case Verb::kSync:
        return check(model_.sync(call.flags), db_->sync(db_, call.flags), {}, {});
    }
  }
  // Not described, or not by order.
  [[nodiscard]] static bool is_left_out(State state, const Call &call) {
    if (type() == DB_HASH)
      return call.verb == Verb::kSeq && (call.flags == R_FIRST || call.flags == R_NEXT);
    // Numbers move under the cursor.
    return type() == DB_RECNO && state == State::kErasedAtCursor &&
           ((call.verb == Verb::kSeq && call.flags == R_PREV) ||
            (call.flags == R_CURSOR && call.verb != Verb::kSeq));
  }
  void expect_all() {
    if (type() == DB_HASH) return take_order();
    std::vector<std::pair<double, std::string>> found;
    DBT key{}, data{};
    for (unsigned how = R_FIRST; db_->seq(db_, &key, &data, how) == 0; how = R_NEXT)
      found.push_back({0, std::string(static_cast<const char *>(data.data), data.size)});
    ASSERT_EQ(found.size(), model_.records.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i].second, model_.records[i].second) << i;
  }

  MemoryFolder folder_;
  const OfKind of_kind_{std::get<0>(GetParam())};
  Model model_;
  DB *db_ = nullptr;
  std::string key_;
  recno_t number_ = kNone;
};

TEST_P(CasesDbTest, EachCallInEachState) {
  std::size_t cases = 0;
  for (const State state : kStates)
    for (const Call &call : calls_of(type())) {
      if (is_left_out(state, call)) continue;
      ++cases;
      SCOPED_TRACE(testing::Message() << "state " << static_cast<int>(state) << ", verb "
                                      << static_cast<int>(call.verb) << ", flags " << call.flags
                                      << ", key " << static_cast<int>(call.key));
      make(state);
      if (!HasFailure()) do_call(call);
      if (!HasFailure()) expect_all();
      ASSERT_EQ(db_->close(db_), 0) << std::strerror(errno);
      if (HasFailure()) return;
      // The file has it, too.
      open(O_RDWR);
      expect_all();
      ASSERT_EQ(db_->close(db_), 0) << std::strerror(errno);
      if (HasFailure()) return;
    }
  EXPECT_GE(cases, 300U);
  std::printf("%zu cases\n", cases);
}

INSTANTIATE_TEST_SUITE_P(TypesOfKinds, CasesDbTest,
                         testing::Combine(all_kinds(),
                                          testing::Values(DB_BTREE, DB_HASH, DB_RECNO)),
                         [](const auto &made) {
                           const DBTYPE type = std::get<1>(made.param);
                           return name_of(std::get<0>(made.param)) + (type == DB_BTREE ? "Tree"
                                                                      : type == DB_HASH
                                                                          ? "Hash"
                                                                          : "Numbers");
                         });

}  // namespace
}  // namespace tmh::test
