// tests/db/shared_db_test.cpp -- files of many handles: which may be open together, and what ends
// what: threads, jumps out of callbacks, closes.
#define TP_NO_SHORT_NAMES
#include <tp/db.h>
#include <tp/paper.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <cstring>
#include <string>
#include <thread>

#include <tmh/domain.hpp>

#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

DBT dbt(const std::string &text) { return {const_cast<char *>(text.data()), text.size()}; }

std::jmp_buf back;
int compares_left = -1;
int jumping_order(const DBT *a, const DBT *b) {
  if (compares_left >= 0 && compares_left-- == 0) std::longjmp(back, 1);
  const std::string x(static_cast<const char *>(a->data), a->size);
  return x.compare(std::string(static_cast<const char *>(b->data), b->size));
}

// Durable writes of the log of a home that is open.
std::uint64_t flushes(const std::string &home) {
  return Domain::open(home, DomainOptions{}).counters().log_flushes;
}

class SharedDbTest : public ::testing::Test {
 protected:
  SharedDbTest() { EXPECT_EQ(tp_paper_open((folder_ / "home").c_str(), nullptr), TP_OK); }
  ~SharedDbTest() override { EXPECT_EQ(tp_paper_close(), TP_OK) << tp_last_error(); }

  DB *open(int dbflags, const BTREEINFO &info = {}, int flags = O_RDWR | O_CREAT) {
    return tp_dbopen((folder_ / "file").c_str(), flags, 0600, DB_BTREE, dbflags, &info);
  }
  static int put(DB *db, const std::string &key, const std::string &data) {
    DBT k = dbt(key);
    const DBT d = dbt(data);
    return db->put(db, &k, &d, 0);
  }
  static std::string get(DB *db, const std::string &key) {
    const DBT k = dbt(key);
    DBT d{};
    if (db->get(db, &k, &d, 0) != 0) return "none";
    return {static_cast<const char *>(d.data), d.size};
  }
  static void close(DB *db) { EXPECT_EQ(db->close(db), 0); }

  TempFolder folder_;
};

TEST_F(SharedDbTest, KindsAreNotMixed) {
  DB *const db = open(DB_SHARED | DB_TP);
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(open(DB_SHARED), nullptr);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(open(0), nullptr);
  EXPECT_EQ(errno, EBUSY);
  close(db);
  close(open(DB_SHARED));
  // Nothing has changed: the file is whole.
  close(open(0, {}, O_RDONLY));
}

TEST_F(SharedDbTest, AHandleHasOneThreadsTransaction) {
  DB *const db = open(DB_SHARED | DB_TP);
  ASSERT_NE(db, nullptr);
  ASSERT_EQ(put(db, "a", "0"), 0);
  ASSERT_NE(tp_paper_begin(), 0U);
  EXPECT_EQ(put(db, "a", "1"), 0);
  std::thread([&] {
    EXPECT_EQ(put(db, "b", "1"), -1);
    EXPECT_EQ(errno, EBUSY);
  }).join();
  EXPECT_EQ(tp_paper_abort(), TP_OK);
  EXPECT_EQ(get(db, "a"), "0");
  EXPECT_EQ(get(db, "b"), "none");
  close(db);
}

TEST_F(SharedDbTest, WhatACallbackHasLeftIsNotCommitted) {
  BTREEINFO info{};
  info.compare = jumping_order;
  info.flags = R_DUP;
  info.psize = 512;
  DB *const db = open(DB_SHARED | DB_TP, info);
  ASSERT_NE(db, nullptr);
  for (int i = 0; i < 6; ++i) ASSERT_EQ(put(db, "k", std::to_string(i)), 0);
  const std::string key = "k";
  for (int left = 0; left < 12; ++left) {
    ASSERT_NE(tp_paper_begin(), 0U);
    compares_left = left;
    const DBT k = dbt(key);
    const bool has_jumped = setjmp(back) != 0;
    if (!has_jumped) (void)db->del(db, &k, 0);
    compares_left = -1;
    if (!has_jumped) {
      EXPECT_EQ(tp_paper_abort(), TP_OK);
      break;
    }
    EXPECT_EQ(tp_paper_commit(), TP_OK) << tp_last_error();
    DBT at = dbt(key), data{};
    int records = 0;
    for (unsigned how = R_CURSOR; db->seq(db, &at, &data, how) == 0; how = R_NEXT) ++records;
    ASSERT_EQ(records, 6) << left;
  }
  close(db);
}

TEST_F(SharedDbTest, ACloseInATransactionLeavesItsChangesToIt) {
  for (const bool commits : {false, true}) {
    DB *db = open(DB_SHARED | DB_TP);
    ASSERT_NE(db, nullptr);
    ASSERT_EQ(put(db, "a", "0"), 0);
    ASSERT_NE(tp_paper_begin(), 0U);
    EXPECT_EQ(put(db, "a", "1"), 0);
    close(db);
    EXPECT_EQ(commits ? tp_paper_commit() : tp_paper_abort(), TP_OK) << tp_last_error();
    db = open(DB_SHARED | DB_TP);
    ASSERT_NE(db, nullptr);
    EXPECT_EQ(get(db, "a"), commits ? "1" : "0");
    close(db);
  }
}

// A place among equal keys, whose newest record comes first.
TEST(StrictDbTest, CallsOfATransactionDoNotWaitForTheDisk) {
  const TempFolder folder;
  tp_options options{};
  options.durability = 1;
  ASSERT_EQ(tp_paper_open((folder / "home").c_str(), &options), TP_OK) << tp_last_error();
  BTREEINFO info{};
  info.psize = 512;
  DB *const db = tp_dbopen((folder / "file").c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE,
                           DB_SHARED | DB_TP, &info);
  ASSERT_NE(db, nullptr);
  ASSERT_NE(tp_paper_begin(), 0U);
  const std::uint64_t before = flushes(folder / "home");
  // Splits store what waits, and are looked at by the calls that follow.
  constexpr int kRecords = 4'000, kFlushesMax = 60;
  for (int i = 0; i < kRecords; ++i) {
    const std::string key = std::to_string(i * 7919 % kRecords);
    DBT k = dbt(key);
    const DBT d = dbt(key);
    ASSERT_EQ(db->put(db, &k, &d, 0), 0) << errno;
  }
  EXPECT_LT(flushes(folder / "home") - before, std::uint64_t{kFlushesMax});
  EXPECT_EQ(tp_paper_commit(), TP_OK) << tp_last_error();
  EXPECT_EQ(db->close(db), 0);
  EXPECT_EQ(tp_paper_close(), TP_OK) << tp_last_error();
}

TEST_F(SharedDbTest, ACursorKeepsItsPlaceAmongDuplicates) {
  BTREEINFO info{};
  info.flags = R_DUP;
  DB *const db = open(DB_SHARED, info), *const other = open(DB_SHARED, info);
  ASSERT_NE(db, nullptr);
  ASSERT_NE(other, nullptr);
  for (int i = 5; i >= 0; --i) ASSERT_EQ(put(db, "k", std::to_string(i)), 0);
  DBT key{}, data{};
  std::string seen;
  for (unsigned how = R_FIRST; db->seq(db, &key, &data, how) == 0; how = R_NEXT) {
    seen.append(static_cast<const char *>(data.data), data.size);
    if (seen == "012") {
      EXPECT_EQ(db->del(db, &key, R_CURSOR), 0);
    }
    ASSERT_EQ(put(other, seen.size() % 2 == 0 ? "k" : "a" + seen, "new"), 0);
    ASSERT_LT(seen.size(), 20U);
  }
  EXPECT_EQ(seen, "012345");
  close(db);
  close(other);
}

// A program that ends without closing leaves its records to the file of that name, and not to
// another one that has its inode.
TEST_F(SharedDbTest, AFileThatGetsARemovedOnesInode) {
  ASSERT_EQ(tp_paper_close(), TP_OK);
  const std::string file = folder_ / "text";
  const auto open_text = [&] {
    return tp_dbopen(file.c_str(), O_RDWR | O_CREAT, 0600, DB_RECNO, DB_SHARED | DB_TP, nullptr);
  };
  const auto first = [](DB *db) {
    DBT k{}, d{};
    return db->seq(db, &k, &d, R_FIRST) == 0
               ? std::string(static_cast<const char *>(d.data), d.size)
               : std::string("none");
  };
  const auto leave_a_record = [&] {
    const pid_t child = ::fork();
    if (child == 0) {
      if (tp_paper_open((folder_ / "home").c_str(), nullptr) != TP_OK) ::_exit(1);
      DB *const db = open_text();
      recno_t number = 1;
      DBT k{&number, sizeof number};
      const DBT d = dbt("left");
      ::_exit(db != nullptr && db->put(db, &k, &d, 0) == 0 ? 0 : 2);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    struct stat found {};
    EXPECT_EQ(::stat(file.c_str(), &found), 0);
    return found.st_ino;
  };
  (void)leave_a_record();
  ASSERT_EQ(tp_paper_open((folder_ / "home").c_str(), nullptr), TP_OK);
  DB *db = open_text();
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(first(db), "left");
  close(db);
  ASSERT_EQ(tp_paper_close(), TP_OK);
  ::unlink(file.c_str());
  const ino_t inode = leave_a_record();
  ::unlink(file.c_str());
  ASSERT_EQ(tp_paper_open((folder_ / "home").c_str(), nullptr), TP_OK);
  db = open_text();
  ASSERT_NE(db, nullptr);
  struct stat found {};
  ASSERT_EQ(::stat(file.c_str(), &found), 0);
  EXPECT_EQ(first(db), "none") << (found.st_ino == inode ? "the same inode" : "another inode");
  close(db);
}

// What an open reads in is no part of the transaction that it stands in.
TEST_F(SharedDbTest, AFileIsReadInOutsideOfTransactions) {
  const std::string file = folder_ / "text";
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "line " + std::to_string(i) + '\n';
  write_file(file, lines);
  const auto open_text = [&] {
    return tp_dbopen(file.c_str(), O_RDWR, 0600, DB_RECNO, DB_SHARED | DB_TP, nullptr);
  };
  const auto count = [](DB *db) {
    DBT k{}, d{};
    recno_t number = 0;
    if (db->seq(db, &k, &d, R_LAST) == 0) std::memcpy(&number, k.data, sizeof number);
    return number;
  };
  ASSERT_NE(tp_paper_begin(), 0U);
  DB *db = open_text();
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(count(db), 300U);
  ASSERT_EQ(tp_paper_abort(), TP_OK) << tp_last_error();
  EXPECT_EQ(count(db), 300U);
  close(db);
  EXPECT_EQ(read_file(file), lines);

  // Its process dies in the transaction.
  ASSERT_EQ(tp_paper_close(), TP_OK);
  write_file(file, lines + "one more\n");
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_there = tp_paper_open((folder_ / "home").c_str(), nullptr) == TP_OK &&
                          tp_paper_begin() != 0 && open_text() != nullptr;
    ::_exit(is_there ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(tp_paper_open((folder_ / "home").c_str(), nullptr), TP_OK);
  db = open_text();
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(count(db), 301U);
  close(db);
}

}  // namespace
}  // namespace tmh::test
