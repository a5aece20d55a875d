// tests/server/server_calls_test.cpp -- the same calls at a server and here have the same results:
// random programs under a seed, for each type and kind of file; pages and locks.
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/server/served.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

enum class Type { kTree, kDuplicates, kHash, kNumbers, kText };

class ServerCallsTest : public ::testing::TestWithParam<std::tuple<Type, int>> {
 protected:
  [[nodiscard]] static Type type() { return std::get<0>(GetParam()); }
  [[nodiscard]] static int dbflags() { return std::get<1>(GetParam()); }

  [[nodiscard]] static DB *open(std::string path, int flags) {
    BTREEINFO tree{};
    tree.psize = 512;
    tree.flags = type() == Type::kDuplicates ? R_DUP : 0;
    HASHINFO table{};
    table.bsize = 512;
    table.ffactor = 4;
    RECNOINFO numbers{};
    numbers.psize = 512;
    numbers.bval = '\n';
    if (type() == Type::kNumbers) numbers.bfname = path.data();
    const bool is_numbers = type() == Type::kNumbers || type() == Type::kText;
    return tp_dbopen(type() == Type::kNumbers ? nullptr : path.c_str(), flags, 0600,
                     is_numbers              ? DB_RECNO
                     : type() == Type::kHash ? DB_HASH
                                             : DB_BTREE,
                     dbflags(),
                     is_numbers              ? static_cast<const void *>(&numbers)
                     : type() == Type::kHash ? static_cast<const void *>(&table)
                                             : &tree);
  }

  [[nodiscard]] static std::string told(int result, const DBT *key, const DBT *data) {
    std::string made = std::to_string(result);
    if (result == RET_ERROR) made += std::string(" ") + strerrorname_np(errno);
    if (result == RET_SUCCESS && key != nullptr) made += " [" + text(*key) + "]";
    if (result == RET_SUCCESS && data != nullptr) made += " [" + text(*data) + "]";
    return made;
  }

  // What a program of random calls is told.
  [[nodiscard]] static std::vector<std::string> run(const std::string &folder) {
    std::mt19937_64 random(seed());
    std::vector<std::string> all;
    const std::string path = folder + "/file";
    DB *db = open(path, O_RDWR | O_CREAT);
    if (db == nullptr) return {std::string("open: ") + std::strerror(errno)};
    bool has_transaction = false;
    const auto make = [&](std::size_t most) {
      std::string made = std::to_string(random() % 40);
      made.resize(random() % (random() % 20 == 0 ? most : 24), static_cast<char>('a' + most % 7));
      return made;
    };
    for (int i = 0; i < 600; ++i) {
      recno_t number = static_cast<recno_t>(random() % 30);
      std::string key = make(900), data = make(3000);
      const bool is_numbers = db->type == DB_RECNO;
      if (is_numbers) key.assign(reinterpret_cast<const char *>(&number), sizeof number);
      DBT k = dbt(key), d = dbt(data);
      constexpr unsigned kFlags[] = {0,        0,        0,         0,           R_NOOVERWRITE,
                                     R_CURSOR, R_IAFTER, R_IBEFORE, R_SETCURSOR, R_FIRST};
      switch (const unsigned flags = kFlags[random() % std::size(kFlags)]; random() % 12) {
        case 0:
        case 1:
        case 2:
        case 3: {
          const int result = db->put(db, &k, &d, flags);
          all.push_back("put " + told(result, &k, nullptr));
          break;
        }
        case 4:
        case 5: {
          DBT found{};
          all.push_back("get " +
                        told(db->get(db, &k, &found, flags == R_FIRST ? 1 : 0), nullptr, &found));
          break;
        }
        case 6: {
          const int result = db->del(db, &k, flags == R_IAFTER ? R_CURSOR : 0);
          all.push_back("del " + told(result, nullptr, nullptr));
          break;
        }
        case 7:
        case 8: {
          constexpr unsigned kSeeks[] = {R_FIRST, R_LAST, R_NEXT, R_NEXT, R_NEXT, R_PREV, R_CURSOR};
          DBT found{};
          const int result = db->seq(db, &k, &found, kSeeks[random() % std::size(kSeeks)]);
          all.push_back("seq " + told(result, &k, &found));
          break;
        }
        case 9:
          if ((dbflags() & DB_TP) == 0) break;
          if (!has_transaction) {
            has_transaction = tp_paper_begin() != 0;
            all.push_back(has_transaction ? "begin" : "no begin");
          } else {
            has_transaction = false;
            all.push_back(std::to_string(random() % 2 == 0 ? tp_paper_commit() : tp_paper_abort()));
          }
          break;
        case 10:
          if (!has_transaction) all.push_back("sync " + told(db->sync(db, 0), nullptr, nullptr));
          break;
        default:
          if (random() % 8 != 0) break;
          if (has_transaction) all.push_back("end " + std::to_string(tp_paper_commit()));
          has_transaction = false;
          all.push_back("close " + told(db->close(db), nullptr, nullptr));
          db = open(path, O_RDWR);
          if (db == nullptr) return {"open again: " + std::string(std::strerror(errno))};
          break;
      }
    }
    if (has_transaction) all.push_back("end " + std::to_string(tp_paper_abort()));
    all.push_back("close " + told(db->close(db), nullptr, nullptr));
    return all;
  }
};

TEST_P(ServerCallsTest, WhatIsToldIsWhatIsToldHere) {
  std::vector<std::string> there, here;
  {
    const Served served;
    there = run(served.folder());
  }
  const TempFolder folder;
  if (dbflags() != 0) {
    ASSERT_EQ(tp_paper_open((folder / "home").c_str(), nullptr), TP_OK) << tp_last_error();
  }
  here = run(folder.path());
  if (dbflags() != 0) {
    EXPECT_EQ(tp_paper_close(), TP_OK) << tp_last_error();
  }
  ASSERT_GT(here.size(), 100u) << here.front();
  ASSERT_EQ(there.size(), here.size()) << there.front();
  for (std::size_t i = 0; i < here.size(); ++i)
    ASSERT_EQ(there[i], here[i]) << "call " << i << ", seed " << seed();
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Type, int>> &info) {
  constexpr const char *kTypes[] = {"Tree", "Duplicates", "Hash", "Numbers", "Text"};
  const auto [type, flags] = info.param;
  return std::string(kTypes[static_cast<int>(type)]) + (flags == 0           ? "Private"
                                                        : flags == DB_SHARED ? "Shared"
                                                                             : "Transactions");
}
INSTANTIATE_TEST_SUITE_P(All, ServerCallsTest,
                         ::testing::Combine(::testing::Values(Type::kTree, Type::kDuplicates,
                                                              Type::kHash, Type::kNumbers,
                                                              Type::kText),
                                            ::testing::Values(0, DB_SHARED, DB_SHARED | DB_TP)),
                         name_of);

// ---- The calls of the paper ---------------------------------------------------------------------

TEST(ServerPaperTest, PagesOfAnAbortAreAsTheyWere) {
  const Served served;
  ASSERT_EQ(tp_paper_open(served.path("home").c_str(), nullptr), TP_OK) << tp_last_error();
  EXPECT_NE(tp_paper_open(served.path("other").c_str(), nullptr), TP_OK);
  EXPECT_NE(std::string(tp_last_error()).find("environment"), std::string::npos);
  const int file = tp_paper_buf_open("pages", O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 0) << tp_last_error();
  const auto store = [&](const std::string &bytes, bool commits) {
    ASSERT_NE(tp_paper_begin(), 0u) << tp_last_error();
    EXPECT_EQ(tp_paper_begin(), 0u) << "one of the thread runs";
    ASSERT_EQ(tp_paper_lock(file, 2, TP_SHARED), TP_OK);
    ASSERT_EQ(tp_paper_upgrade(file, 2, TP_SHARED, TP_EXCLUSIVE), TP_OK) << tp_last_error();
    auto *const page = static_cast<char *>(tp_paper_buf_get(file, 2, BF_PIN, nullptr));
    ASSERT_NE(page, nullptr) << tp_last_error();
    std::memcpy(page + 4096 - bytes.size(), bytes.data(), bytes.size());
    std::memcpy(page + 100, bytes.data(), bytes.size());
    ASSERT_EQ(tp_paper_buf_unpin(page), TP_OK) << tp_last_error();
    EXPECT_NE(tp_paper_buf_unpin(page), TP_OK) << "it is not pinned";
    ASSERT_EQ(commits ? tp_paper_commit() : tp_paper_abort(), TP_OK) << tp_last_error();
  };
  store("first", true);
  store("other", false);
  ASSERT_NE(tp_paper_begin(), 0u);
  int bytes = 0;
  auto *const page = static_cast<char *>(tp_paper_buf_get(file, 2, BF_PIN, &bytes));
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(bytes, TP_PAGE_BYTES);
  EXPECT_EQ(std::string(page + 100, 5), "first");
  EXPECT_EQ(std::string(page + 4096 - 5, 5), "first");
  EXPECT_EQ(tp_paper_buf_unpin(page), TP_OK);
  EXPECT_EQ(tp_paper_unlock(file, 9, TP_SHARED), TP_ENOTLOCKED);
  EXPECT_EQ(tp_paper_log(77, "x", 1), 0u) << "the server knows no such type";
  EXPECT_EQ(tp_paper_abort(), TP_OK);
  EXPECT_NE(tp_paper_abort(), TP_OK) << "there is none";
  EXPECT_EQ(tp_paper_close(), TP_OK);
}

TEST(ServerPaperTest, RecordsOfAllowedTypesAreLogged) {
  const std::uint32_t types[] = {77, 78};
  tp_server_options options{};
  options.log_types = types;
  options.log_type_count = 2;
  const Served served(options);
  ASSERT_NE(tp_paper_begin(), 0u) << tp_last_error();
  const tp_lsn first = tp_paper_log(77, "some", 4), second = tp_paper_log_commit(78, "more", 4);
  EXPECT_NE(first, 0u) << tp_last_error();
  EXPECT_GT(second, first);
  EXPECT_EQ(tp_paper_log(79, "x", 1), 0u);
  EXPECT_EQ(tp_paper_commit(), TP_OK);
}

// ---- Threads, forks -----------------------------------------------------------------------------

TEST(ServerThreadsTest, AHandleIsAnyThreadsAndATransactionOneThreads) {
  const Served served;
  DB *const db = tp_dbopen(served.path("file").c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE,
                           DB_SHARED | DB_TP, nullptr);
  ASSERT_NE(db, nullptr) << std::strerror(errno);
  std::string key = "key", data = "data";
  DBT k = dbt(key);
  const DBT d = dbt(data);
  std::thread([&] {
    ASSERT_NE(tp_paper_begin(), 0u);
    ASSERT_EQ(db->put(db, &k, &d, 0), 0) << std::strerror(errno);
    // It ends in its transaction.
  }).join();
  DBT found{};
  EXPECT_EQ(db->get(db, &k, &found, 0), RET_SPECIAL);
  std::thread([&] {
    ASSERT_NE(tp_paper_begin(), 0u);
    ASSERT_EQ(db->put(db, &k, &d, 0), 0) << std::strerror(errno);
    ASSERT_EQ(tp_paper_commit(), TP_OK);
  }).join();
  EXPECT_EQ(db->get(db, &k, &found, 0), RET_SUCCESS);
  EXPECT_EQ(db->fd(db), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(db->close(db), 0);
}

TEST(ServerThreadsTest, AForkedChildHasItsOwnConnection) {
  Served served;
  DB *const db = tp_dbopen(served.path("file").c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE,
                           DB_SHARED | DB_TP, nullptr);
  ASSERT_NE(db, nullptr) << std::strerror(errno);
  // What the parent's transaction has locked is in another file.
  DB *const childs = tp_dbopen(served.path("childs").c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE,
                               DB_SHARED | DB_TP, nullptr);
  ASSERT_NE(childs, nullptr) << std::strerror(errno);
  std::string key = "key", data = "data";
  DBT k = dbt(key);
  const DBT d = dbt(data);
  ASSERT_NE(tp_paper_begin(), 0u);
  ASSERT_EQ(db->put(db, &k, &d, 0), 0);
  expect_child("child", [&] {
    ASSERT_EQ(childs->put(childs, &k, &d, 0), 0) << std::strerror(errno);
    ASSERT_NE(tp_paper_begin(), 0u) << tp_last_error();
    ASSERT_EQ(childs->del(childs, &k, 0), 0);
    ASSERT_EQ(tp_paper_abort(), TP_OK);
    DBT found{};
    EXPECT_EQ(childs->get(childs, &k, &found, 0), RET_SUCCESS);
    EXPECT_EQ(childs->close(childs), 0);
  });
  EXPECT_EQ(tp_paper_commit(), TP_OK) << "the child's end is not the parent's";
  DBT found{};
  EXPECT_EQ(db->get(db, &k, &found, 0), RET_SUCCESS);
  EXPECT_EQ(childs->get(childs, &k, &found, 0), RET_SUCCESS);
  EXPECT_EQ(childs->close(childs), 0);
  EXPECT_EQ(db->close(db), 0);
}

TEST(ServerThreadsTest, CallbacksAreRefusedAndMemoryIsHere) {
  const Served served;
  BTREEINFO info{};
  info.compare = [](const DBT *, const DBT *) { return 0; };
  EXPECT_EQ(dbopen(served.path("file").c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE, &info), nullptr);
  EXPECT_EQ(errno, ENOTSUP);
  HASHINFO hash{};
  hash.hash = [](const void *, std::size_t) { return std::uint32_t{1}; };
  EXPECT_EQ(dbopen(served.path("file").c_str(), O_RDWR | O_CREAT, 0600, DB_HASH, &hash), nullptr);
  EXPECT_EQ(errno, ENOTSUP);
  DB *const db = dbopen(nullptr, O_RDWR, 0, DB_BTREE, &info);
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(db->close(db), 0);
  EXPECT_EQ(dbopen(served.path("none").c_str(), O_RDWR, 0600, DB_BTREE, nullptr), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(dbopen("/dev/null", O_RDWR, 0600, DB_BTREE, nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace tmh::test
