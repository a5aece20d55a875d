// tests/db/query_db_test.cpp -- files in queries: what they deliver, what they refuse, and beside
// transactions that die, wait or commit meanwhile.
#define TP_NO_SHORT_NAMES
#include <tp/db.h>
#include <tp/paper.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

DBT dbt(const std::string &text) { return {const_cast<char *>(text.data()), text.size()}; }
std::string text(const DBT &dbt) { return {static_cast<const char *>(dbt.data), dbt.size}; }

int put(DB *db, const std::string &key, const std::string &data) {
  DBT k = dbt(key);
  const DBT d = dbt(data);
  return db->put(db, &k, &d, 0);
}
std::string get(DB *db, const std::string &key) {
  const DBT k = dbt(key);
  DBT d{};
  const int result = db->get(db, &k, &d, 0);
  return result == 0 ? text(d) : result == 1 ? "none" : std::strerror(errno);
}

class QueryDbTest : public ::testing::Test {
 protected:
  void SetUp() override { open_environment(0, 0); }
  void TearDown() override {
    if (db_ != nullptr) {
      EXPECT_EQ(db_->close(db_), 0) << errno;
    }
    EXPECT_EQ(tp_paper_close(), TP_OK) << tp_last_error();
  }
  void open_environment(int durability, unsigned flags) {
    tp_options options{};
    options.durability = durability;
    options.flags = flags;
    ASSERT_EQ(tp_paper_open((folder_ / "home").c_str(), &options), TP_OK) << tp_last_error();
    db_ = opened(nullptr);
    ASSERT_NE(db_, nullptr) << errno << tp_last_error();
  }
  [[nodiscard]] DB *opened(const BTREEINFO *info) const {
    return tp_dbopen((folder_ / "file").c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE,
                     DB_SHARED | DB_TP, info);
  }

  TempFolder folder_;
  DB *db_ = nullptr;
};

TEST_F(QueryDbTest, IsOneMoment) {
  ASSERT_EQ(put(db_, "a", "1"), 0);
  std::thread([&] {
    ASSERT_EQ(tp_query_begin(tp_paper_env()), TP_OK) << tp_last_error();
    DB *const own = db_;
    EXPECT_EQ(get(own, "a"), "1");
    std::thread([&] {
      // Its handle is its own.
      DB *const other = opened(nullptr);
      ASSERT_NE(other, nullptr);
      EXPECT_EQ(put(other, "a", "2"), 0);
      EXPECT_EQ(put(other, "b", "2"), 0);
      EXPECT_EQ(other->close(other), 0);
    }).join();
    EXPECT_EQ(get(own, "a"), "1");
    EXPECT_EQ(get(own, "b"), "none");
    EXPECT_EQ(tp_query_end(), TP_OK) << tp_last_error();
    EXPECT_EQ(get(own, "a"), "2");
    ASSERT_EQ(tp_query_begin(tp_paper_env()), TP_OK);
    EXPECT_EQ(get(own, "b"), "2");
    EXPECT_EQ(tp_query_end(), TP_OK);
  }).join();
}

TEST_F(QueryDbTest, HasACursorOfItsOwn) {
  for (const char *const key : {"a", "b", "c"}) ASSERT_EQ(put(db_, key, key), 0);
  DBT k{}, d{};
  ASSERT_EQ(db_->seq(db_, &k, &d, R_FIRST), 0);
  ASSERT_EQ(tp_query_begin(tp_paper_env()), TP_OK);
  ASSERT_EQ(db_->seq(db_, &k, &d, R_LAST), 0);
  EXPECT_EQ(text(k), "c");
  ASSERT_EQ(db_->seq(db_, &k, &d, R_PREV), 0);
  EXPECT_EQ(text(k), "b");
  ASSERT_EQ(tp_query_end(), TP_OK);
  // What the query has delivered is given to a call behind it.
  EXPECT_EQ(db_->get(db_, &k, &d, 0), 0);
  EXPECT_EQ(text(d), "b");
  ASSERT_EQ(db_->seq(db_, &k, &d, R_NEXT), 0);
  EXPECT_EQ(text(k), "b");
}

TEST_F(QueryDbTest, RefusesWhatIsNoReading) {
  ASSERT_EQ(put(db_, "a", "1"), 0);
  EXPECT_EQ(tp_query_end(), TP_ENOSTEP);
  EXPECT_EQ(tp_query_serial(tp_paper_env()), 0U);
  EXPECT_EQ(tp_query_serial(nullptr), 0U);
  EXPECT_EQ(tp_query_begin(nullptr), TP_EARGUMENT);
  ASSERT_NE(tp_paper_begin(), 0U);
  EXPECT_EQ(tp_query_begin(tp_paper_env()), TP_ERUNNING);
  ASSERT_EQ(tp_paper_abort(), TP_OK);

  ASSERT_EQ(tp_query_begin(tp_paper_env()), TP_OK);
  EXPECT_EQ(tp_query_begin(tp_paper_env()), TP_ERUNNING);
  EXPECT_EQ(tp_paper_begin(), 0U);
  EXPECT_EQ(tp_paper_close(), TP_ERUNNING);
  EXPECT_EQ(put(db_, "a", "2"), -1);
  EXPECT_EQ(errno, EPERM);
  DBT k = dbt("a");
  EXPECT_EQ(db_->del(db_, &k, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(db_->sync(db_, 0), -1);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(db_->close(db_), -1);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(opened(nullptr), nullptr);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(get(db_, "a"), "1");
  EXPECT_EQ(tp_query_unfinished(tp_paper_env(), nullptr, nullptr), TP_EARGUMENT);
  ASSERT_EQ(tp_query_end(), TP_OK);
  EXPECT_EQ(tp_query_unfinished(
                tp_paper_env(), [](const tp_record *, void *) { return 0; }, nullptr),
            TP_ENOSTEP);
  EXPECT_EQ(put(db_, "a", "2"), 0);
}

TEST_F(QueryDbTest, OfADatabaseThatCameLater) {
  std::atomic<DB *> later{nullptr};
  std::atomic<int> turn{0};
  std::thread reader([&] {
    EXPECT_EQ(tp_query_begin(tp_paper_env()), TP_OK);
    EXPECT_EQ(get(db_, "a"), "none");
    turn = 1;
    turn.notify_all();
    turn.wait(1);
    EXPECT_EQ(get(later, "a"), std::strerror(ENOENT));
    EXPECT_EQ(tp_query_end(), TP_OK);
    EXPECT_EQ(get(later, "a"), "1");
  });
  turn.wait(0);
  later = tp_dbopen((folder_ / "later").c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE,
                    DB_SHARED | DB_TP, nullptr);
  ASSERT_NE(later, nullptr);
  EXPECT_EQ(put(later, "a", "1"), 0);
  turn = 2;
  turn.notify_all();
  reader.join();
  EXPECT_EQ(later.load()->close(later), 0);
}

TEST_F(QueryDbTest, ADeadTransactionIsNotSeen) {
  ASSERT_EQ(put(db_, "a", "1"), 0);
  ASSERT_EQ(db_->close(db_), 0);
  ASSERT_EQ(tp_paper_close(), TP_OK);
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    tp_options options{};
    if (tp_paper_open((folder_ / "home").c_str(), &options) != TP_OK) ::_exit(1);
    DB *const own = opened(nullptr);
    tp_savepoint point{};
    if (own == nullptr || tp_paper_begin() == 0 || put(own, "a", "2") != 0 ||
        put(own, "b", "2") != 0 || tp_save(tp_paper_txn(), &point) != TP_OK)
      ::_exit(2);
    (void)!::write(told[1], "", 1);
    ::pause();
  }
  ::close(told[1]);
  char got = 0;
  const bool is_told = ::read(told[0], &got, 1) == 1;
  open_environment(0, 0);
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::close(told[0]);
  ASSERT_TRUE(is_told) << WEXITSTATUS(status);
  ASSERT_EQ(tp_query_begin(tp_paper_env()), TP_OK);
  EXPECT_EQ(get(db_, "a"), "1");
  EXPECT_EQ(get(db_, "b"), "none");
  std::size_t records = 0;
  EXPECT_EQ(tp_query_unfinished(
                tp_paper_env(),
                [](const tp_record *record, void *count) {
                  EXPECT_NE(record->transaction, 0U);
                  ++*static_cast<std::size_t *>(count);
                  return 0;
                },
                &records),
            TP_OK);
  EXPECT_GE(records, 2U);
  EXPECT_EQ(tp_query_unfinished(
                tp_paper_env(), [](const tp_record *, void *) { return 77; }, nullptr),
            77);
  ASSERT_EQ(tp_query_end(), TP_OK);
}

jmp_buf out;
bool is_jumping = false, is_ending = false;
int order(const DBT *a, const DBT *b) {
  if (is_jumping) ::longjmp(out, 1);
  if (is_ending) (void)tp_query_end();
  return text(*a).compare(text(*b));
}

TEST_F(QueryDbTest, CallbacksThatLeaveOrEndIt) {
  ASSERT_EQ(db_->close(db_), 0);
  ASSERT_EQ(::unlink((folder_ / "file").c_str()), 0);
  BTREEINFO info{};
  info.compare = order;
  info.psize = 512;
  db_ = opened(&info);
  ASSERT_NE(db_, nullptr);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(put(db_, std::to_string(i), std::to_string(i)), 0);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(tp_query_begin(tp_paper_env()), TP_OK);
    EXPECT_EQ(get(db_, "17"), "17");
    if (setjmp(out) == 0) {
      is_jumping = true;
      (void)get(db_, "18");
      ADD_FAILURE();
    }
    is_jumping = false;
    EXPECT_EQ(get(db_, "19"), "19");
    is_ending = true;
    // What it still reads are copies, or it fails.
    const std::string ended = get(db_, "20");
    EXPECT_TRUE(ended == "20" || ended == std::strerror(EBUSY)) << ended;
    is_ending = false;
    EXPECT_EQ(tp_query_end(), TP_ENOSTEP);
    EXPECT_EQ(get(db_, "21"), "21");
  }
}

// A domain at pages alone holds its past.
class PastDbTest : public QueryDbTest {
 protected:
  void SetUp() override {
    ::setenv("TMH_HISTORY", "60s", 1);
    open_environment(0, TP_ALL_PAGES);
  }
  void TearDown() override {
    QueryDbTest::TearDown();
    ::unsetenv("TMH_HISTORY");
  }
  [[nodiscard]] static std::uint64_t now() {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
  }
};

TEST_F(PastDbTest, IsRead) {
  ASSERT_EQ(put(db_, "a", "1"), 0);
  ASSERT_NE(tp_paper_begin(), 0U);
  ASSERT_EQ(put(db_, "a", "2"), 0);
  tp_savepoint point{};
  ASSERT_EQ(tp_save(tp_paper_txn(), &point), TP_OK);
  const std::uint64_t then = now();
  // A moment may be told up to 10 ms, or a 256th of the history, too early.
  while (now() < then + 600'000'000) (void)::usleep(10'000);
  ASSERT_EQ(tp_paper_commit(), TP_OK);
  EXPECT_EQ(get(db_, "a"), "2");
  ASSERT_EQ(tp_query_begin_at(tp_paper_env(), then + 300'000'000), TP_OK) << tp_last_error();
  EXPECT_EQ(get(db_, "a"), "1");
  ASSERT_EQ(tp_query_end(), TP_OK);
  EXPECT_NE(tp_query_begin_at(tp_paper_env(), 1), TP_OK);
  EXPECT_EQ(get(db_, "a"), "2");
}

TEST_F(QueryDbTest, TheHybridDomainHoldsNoPast) {
  EXPECT_EQ(tp_query_begin_at(tp_paper_env(), 1), 48) << tp_last_error();
  EXPECT_EQ(tp_query_end(), TP_ENOSTEP);
}

}  // namespace
}  // namespace tmh::test
