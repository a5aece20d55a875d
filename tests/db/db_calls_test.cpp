// tests/db/db_calls_test.cpp -- what calls of db(3) return: flags, callbacks that do not end as
// they should, files that are none.
// Invariants: (1) a call that fails has not been: the records are those from before.
//             (2) no byte of a file leads a call out of its memory, or round for ever.
#include <gtest/gtest.h>
#include <tp/db.h>

#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/db/kinds.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

// It points to the text.
DBT dbt(std::string_view text) { return {const_cast<char *>(text.data()), text.size()}; }
std::string text(const DBT &dbt) { return {static_cast<const char *>(dbt.data), dbt.size}; }

class OpenedTest : public ::testing::Test {
 protected:
  explicit OpenedTest(Kind kind) : kind_(kind), of_kind_(kind) {}
  ~OpenedTest() override {
    if (db_ == nullptr) return;
    EXPECT_EQ(db_->close(db_), 0);
  }
  void open(const BTREEINFO &info = {}, int flags = O_RDWR | O_CREAT, const char *path = nullptr) {
    const std::string file = folder_ / "file";
    if (path == nullptr && kind_ != Kind::kPrivate) path = file.c_str();
    db_ = dbopen(path, flags, 0600, DB_BTREE, &info);
    ASSERT_NE(db_, nullptr) << errno;
  }
  int close() {
    DB *const closed = std::exchange(db_, nullptr);
    return closed->close(closed);
  }
  int put(const std::string &key, const std::string &data, unsigned flags = 0) {
    DBT k = dbt(key);
    const DBT d = dbt(data);
    return db_->put(db_, &k, &d, flags);
  }
  std::map<std::string, std::string> all() {
    std::map<std::string, std::string> found;
    DBT key{}, data{};
    for (unsigned flags = R_FIRST; db_->seq(db_, &key, &data, flags) == 0; flags = R_NEXT)
      found[text(key)] = text(data);
    return found;
  }
  static void expect_refused(int error, const char *path, int flags, DBTYPE type = DB_BTREE,
                             const void *info = nullptr) {
    errno = 0;
    EXPECT_EQ(dbopen(path, flags, 0600, type, info), nullptr);
    EXPECT_EQ(errno, error) << (path == nullptr ? "memory" : path);
  }

  const Kind kind_;
  TempFolder folder_;
  const OfKind of_kind_;
  DB *db_ = nullptr;
};

class DbCallsTest : public OpenedTest, public testing::WithParamInterface<Kind> {
 protected:
  DbCallsTest() : OpenedTest(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Kinds, DbCallsTest, all_kinds(),
                         [](const auto &kind) { return name_of(kind.param); });

TEST_P(DbCallsTest, OpeningsThatAreRefused) {
  const std::string path = folder_ / "a";
  expect_refused(EINVAL, nullptr, O_RDONLY);
  expect_refused(EINVAL, path.c_str(), O_WRONLY | O_CREAT);
  expect_refused(EINVAL, path.c_str(), O_RDWR | O_CREAT | O_APPEND);
  expect_refused(ENOENT, path.c_str(), O_RDWR);
  expect_refused(ENOENT, "", O_RDWR | O_CREAT);
  expect_refused(EINVAL, folder_.path().c_str(), O_RDONLY);
  const auto refused = [&](const auto &change) {
    BTREEINFO info{};
    change(info);
    expect_refused(EINVAL, nullptr, O_RDWR, DB_BTREE, &info);
  };
  refused([](BTREEINFO &info) { info.flags = 2; });
  refused([](BTREEINFO &info) { info.psize = 511; });
  refused([](BTREEINFO &info) { info.psize = 65538; });
  refused([](BTREEINFO &info) { info.psize = 1025; });
  refused([](BTREEINFO &info) { info.minkeypage = 1; });
  refused([](BTREEINFO &info) { info.minkeypage = -2; });
  refused([](BTREEINFO &info) { info.minkeypage = 1000; });
  refused([](BTREEINFO &info) { info.lorder = 1111; });
  std::ofstream(path) << "no tree, and long enough for a head that a tree's file has, 88 bytes"
                      << std::string(4096, 'x');
  expect_refused(EINVAL, path.c_str(), O_RDWR);
}

TEST_P(DbCallsTest, FlagsThatACallDoesNotTakeAreRefused) {
  open();
  EXPECT_EQ(put("a", "1"), 0);
  DBT key = dbt("a"), data{};
  for (unsigned flags = 0; flags < 40; ++flags) {
    const auto is_refused = [](int result) { return result == -1 && errno == EINVAL; };
    if (flags != 0) {
      EXPECT_TRUE(is_refused(db_->get(db_, &key, &data, flags))) << flags;
      EXPECT_TRUE(is_refused(db_->sync(db_, flags))) << flags;
    }
    if (flags != 0 && flags != R_NOOVERWRITE && flags != R_SETCURSOR) {
      EXPECT_TRUE(is_refused(put("a", "2", flags))) << flags;
    }
    if (flags != 0) {
      EXPECT_TRUE(is_refused(db_->del(db_, &key, flags))) << flags;
    }
    if (flags == 0 || flags == R_IAFTER || flags == R_IBEFORE || flags > R_PREV) {
      EXPECT_TRUE(is_refused(db_->seq(db_, &key, &data, flags))) << flags;
    }
  }
  EXPECT_EQ(db_->get(db_, nullptr, &data, 0), -1);
  EXPECT_EQ(db_->get(db_, &key, nullptr, 0), -1);
  if (kind_ == Kind::kPrivate) {
    EXPECT_EQ(db_->fd(db_), -1);
    EXPECT_EQ(errno, ENOENT);
  }
  EXPECT_EQ(all(), (std::map<std::string, std::string>{{"a", "1"}}));
}

TEST_P(DbCallsTest, AReaderChangesNothing) {
  const std::string path = folder_ / "a";
  open({}, O_RDWR | O_CREAT, path.c_str());
  EXPECT_EQ(put("a", "1"), 0);
  EXPECT_EQ(db_->close(db_), 0);
  open({}, O_RDONLY, path.c_str());
  EXPECT_EQ(put("b", "2"), -1);
  EXPECT_EQ(errno, EPERM);
  const DBT key = dbt("a");
  EXPECT_EQ(db_->del(db_, &key, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_GE(db_->fd(db_), 0);
  EXPECT_EQ(all(), (std::map<std::string, std::string>{{"a", "1"}}));
}

// Programs make, remove, rename and replace their files.
TEST_P(DbCallsTest, FilesThatGoGiveTheirPagesBack) {
  const std::string path = folder_ / "map", made = folder_ / "map.new";
  const std::filesystem::path pages = folder_ / ".tp/tp.db";
  std::uintmax_t early = 0;
  for (int i = 0; i < 400; ++i) {
    open({}, O_RDWR | O_CREAT | O_TRUNC, made.c_str());
    for (int j = 0; j < 20; ++j)
      ASSERT_EQ(put(std::to_string(i + j), std::string(3000, 'd')), 0) << i;
    EXPECT_EQ(close(), 0);
    std::filesystem::rename(made, path);
    open({}, O_RDONLY, path.c_str());
    ASSERT_EQ(all().size(), 20U) << i;
    ASSERT_EQ(all().count(std::to_string(i)), 1U) << i;
    if (i % 3 == 0) std::filesystem::remove(path);
    EXPECT_EQ(close(), 0);
    if (i == 100 && kind_ != Kind::kPrivate) early = std::filesystem::file_size(pages);
  }
  if (kind_ != Kind::kPrivate) {
    EXPECT_EQ(std::filesystem::file_size(pages), early);
  }
}

// What a call delivers may be given to the next one.
TEST_P(DbCallsTest, DeliveredKeysAndDataAreTakenAgain) {
  BTREEINFO info{};
  info.psize = 512;
  open(info);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(put(std::to_string(i), "x"), 0);
  DBT key{}, data{};
  for (int round = 0; round < 5; ++round)
    for (unsigned flags = R_FIRST; db_->seq(db_, &key, &data, flags) == 0; flags = R_NEXT) {
      const std::string longer = text(data) + text(key);
      const DBT more = dbt(longer);
      ASSERT_EQ(db_->put(db_, &key, &more, R_CURSOR), 0);
    }
  for (const auto &[k, d] : all()) EXPECT_EQ(d.size(), 1 + 5 * k.size());
}

TEST_P(DbCallsTest, DuplicatesComeNewestFirst) {
  BTREEINFO info{};
  info.flags = R_DUP;
  open(info);
  for (const char *data : {"Larry", "Brick", "Smith"}) EXPECT_EQ(put("Wall", data), 0);
  EXPECT_EQ(put("Wall", "none", R_NOOVERWRITE), 1);
  DBT key = dbt("W"), data{};
  std::vector<std::string> found;
  for (unsigned flags = R_CURSOR; db_->seq(db_, &key, &data, flags) == 0; flags = R_NEXT)
    found.push_back(text(data));
  EXPECT_EQ(found, (std::vector<std::string>{"Smith", "Brick", "Larry"}));
}

// ---- Callbacks --------------------------------------------------------------------------------

std::jmp_buf back;
DB *in_callback;
std::size_t failed_calls;
int calls_left;  // until the callback does something else
enum class Does { kJumps, kThrows, kCalls } does;

int bytes_order(const DBT *a, const DBT *b) {
  return text(*a) < text(*b) ? -1 : text(*a) == text(*b) ? 0 : 1;
}
void act() {
  if (calls_left < 0 || calls_left-- != 0) return;
  if (does == Does::kJumps) std::longjmp(back, 1);
  if (does == Does::kThrows) throw std::runtime_error("of a callback");
  DBT key = dbt("in the callback"), data = dbt("1");
  EXPECT_EQ(in_callback->put(in_callback, &key, &data, 0), 0);
}
int acting_order(const DBT *a, const DBT *b) {
  act();
  return bytes_order(a, b);
}
std::size_t acting_prefix(const DBT *, const DBT *b) {
  act();
  return b->size;
}

class CallbackTest : public OpenedTest, public testing::WithParamInterface<std::tuple<Kind, Does>> {
 protected:
  CallbackTest() : OpenedTest(std::get<0>(GetParam())) {}
};

TEST_P(CallbackTest, ThatDoesNotEndLeavesTheTreeAsItWas) {
  BTREEINFO info{};
  info.psize = 512;
  info.compare = acting_order;
  info.prefix = acting_prefix;
  calls_left = -1;
  does = std::get<1>(GetParam());
  open(info);
  in_callback = db_;
  std::map<std::string, std::string> model;
  std::mt19937_64 random(seed());
  failed_calls = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string key = std::to_string(random() % 300), data(random() % 60, 'd');
    const bool is_put = random() % 3 != 0;
    calls_left = static_cast<int>(random() % 12);
    int result = -1;
    try {
      if (setjmp(back) == 0) {
        const DBT k = dbt(key);
        result = is_put ? put(key, data) : db_->del(db_, &k, 0);
      }
    } catch (const std::runtime_error &) {
    }
    calls_left = -1;
    if (result == -1) {
      ++failed_calls;
    } else if (is_put) {
      model[key] = data;
    } else {
      EXPECT_EQ(result, model.erase(key) != 0 ? 0 : 1);
    }
    if (does == Does::kCalls && all().count("in the callback") != 0) model["in the callback"] = "1";
    if (i % 50 != 0) continue;
    ASSERT_EQ(all(), model) << i;
  }
  EXPECT_EQ(all(), model);
  EXPECT_GT(failed_calls, 100U);
}

INSTANTIATE_TEST_SUITE_P(Ends, CallbackTest,
                         testing::Combine(all_kinds(), testing::Values(Does::kJumps, Does::kThrows,
                                                                       Does::kCalls)),
                         [](const auto &made) {
                           const Does end = std::get<1>(made.param);
                           return name_of(std::get<0>(made.param)) + (end == Does::kJumps ? "Jumps"
                                                                      : end == Does::kThrows
                                                                          ? "Throws"
                                                                          : "Calls");
                         });

TEST_P(DbCallsTest, AnOrderThatIsNoneEndsEachCall) {
  BTREEINFO info{};
  info.psize = 512;
  info.compare = [](const DBT *, const DBT *) {
    static std::mt19937 random(1);
    return static_cast<int>(random() % 3) - 1;
  };
  open(info);
  for (int i = 0; i < 3000; ++i) {
    (void)put(std::to_string(i % 400), std::string(static_cast<std::size_t>(i % 90), 'x'));
    const std::string text = std::to_string(i % 77);
    const DBT key = dbt(text);
    if (i % 3 == 0) (void)db_->del(db_, &key, 0);
  }
  (void)all();
}

// ---- Damaged files ----------------------------------------------------------------------------

class DamagedFileTest : public testing::TestWithParam<std::tuple<Kind, DBTYPE>> {
 protected:
  DamagedFileTest() : of_kind_(std::get<0>(GetParam())), random_(seed()) {}

  static DBTYPE type() { return std::get<1>(GetParam()); }

  static DB *open(std::string path) {
    if (type() == DB_RECNO) {
      RECNOINFO info{};
      info.psize = 512;
      info.bfname = path.data();
      return dbopen(nullptr, O_RDWR, 0600, DB_RECNO, &info);
    }
    BTREEINFO tree{};
    tree.psize = 512;
    tree.flags = R_DUP;
    HASHINFO table{};
    table.bsize = 512;
    return dbopen(path.c_str(), O_RDWR | O_CREAT, 0600, type(),
                  type() == DB_HASH ? static_cast<const void *>(&table) : &tree);
  }
  // Of a record that may be there. The bytes are the test's.
  DBT some_key() {
    number_ = static_cast<recno_t>(1 + random_() % 200);
    key_ = std::to_string(random_() % 80) + std::string(random_() % 9 == 0 ? 700 : 3, 'k');
    if (type() == DB_RECNO) return {&number_, sizeof number_};
    return dbt(key_);
  }
  int put(DB *db) {
    DBT key = some_key();
    const std::string text(random_() % 7 == 0 ? 1500 : random_() % 40, 'd');
    const DBT data = dbt(text);
    return db->put(db, &key, &data, type() == DB_RECNO && random_() % 2 == 0 ? R_IBEFORE : 0);
  }
  void use(DB *db) {
    DBT key{}, data{};
    std::size_t records = 0;
    for (unsigned flags = R_FIRST; db->seq(db, &key, &data, flags) == 0 && records < 2000;
         flags = R_NEXT)
      ++records;
    for (unsigned flags = R_LAST; db->seq(db, &key, &data, flags) == 0 && records < 4000;
         flags = R_PREV)
      ++records;
    for (int call = 0; call < 30; ++call) {
      const DBT which = some_key();
      if (call % 3 == 0) (void)db->del(db, &which, 0);
      if (call % 3 == 1) (void)put(db);
      if (call % 3 == 2) (void)db->get(db, &which, &data, 0);
    }
  }

  TempFolder folder_;
  const OfKind of_kind_;
  std::mt19937_64 random_;
  std::string key_;
  recno_t number_ = 0;
};

TEST_P(DamagedFileTest, NoByteOfItLeadsOutOfIt) {
  const std::string path = folder_ / "sound", damaged = folder_ / "damaged";
  DB *db = open(path);
  ASSERT_NE(db, nullptr);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(put(db), 0);
  for (int i = 0; i < 40; ++i) {
    const DBT key = some_key();
    EXPECT_NE(db->del(db, &key, 0), -1);
  }
  EXPECT_EQ(db->close(db), 0);
  const std::string sound = read_file(path);
  for (int i = 0; i < (of_kind_.is_private() ? 700 : 300); ++i) {
    std::string bytes = sound;
    // Most of what leads somewhere lies at a page's beginning.
    for (std::uint64_t n = 1 + random_() % 4; n > 0; --n) {
      const std::size_t page = random_() % (bytes.size() / 512) * 512;
      bytes[page + random_() % (random_() % 2 == 0 ? 64 : 512)] = static_cast<char>(random_());
    }
    if (random_() % 10 == 0) bytes.resize(random_() % bytes.size());
    std::ofstream(damaged, std::ios::binary | std::ios::trunc) << bytes;
    db = open(damaged);
    if (db == nullptr) continue;
    use(db);
    (void)db->close(db);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DamagedFileTest,
                         testing::Combine(all_kinds(),
                                          testing::Values(DB_BTREE, DB_HASH, DB_RECNO)),
                         [](const auto &made) {
                           const DBTYPE type = std::get<1>(made.param);
                           return name_of(std::get<0>(made.param)) + (type == DB_BTREE  ? "Btree"
                                                                      : type == DB_HASH ? "Hash"
                                                                                        : "Recno");
                         });

}  // namespace
}  // namespace tmh::test
