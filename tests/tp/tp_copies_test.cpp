// tests/tp/tp_copies_test.cpp -- copies of a domain with running transactions: a backup, and that
// brought to points in time by the domain's log.
// Invariants: a copy that is opened has each transaction whole or not at all; no lock is left. What
//             it has never becomes less with the time. The domain itself goes on.
#include <gtest/gtest.h>
#include <tp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"
#include "tests/tp/bank.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;
using Values = std::vector<std::uint64_t>;

constexpr std::size_t kLeft = 0, kRight = 1, kRunning = 2, kAccounts = 3;

class TpCopiesTest : public testing::Test {
 protected:
  [[nodiscard]] std::string domain() const { return folder_ / "domain"; }
  [[nodiscard]] std::string backup() const { return folder_ / "backup"; }
  [[nodiscard]] std::string logs() const { return folder_ / "logs"; }

  // With this process's domain open: by another one.
  template <class Action>
  void with_domain(const Action &action) const {
    expect_child("with the domain", [&] {
      const Domain domain = Domain::open(this->domain());
      action(domain);
    });
  }
  static tp_txn *begin(const Bank &bank) {
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(bank.env(), &txn), TP_OK) << tp_last_error();
    return txn;
  }
  // As whoever opens it finds it.
  static Values read_copy(const std::string &copy) {
    Values values(kAccounts);
    const SharedBytes shared(kAccounts * sizeof(std::uint64_t));
    expect_child("copy", [&] {
      const Bank bank(copy, kAccounts, -1);
      bank.expect_free(kAccounts);
      const Values all = bank.read_all();
      std::memcpy(shared.get(), all.data(), all.size() * sizeof all[0]);
    });
    std::memcpy(values.data(), shared.get(), values.size() * sizeof values[0]);
    return values;
  }

  MemoryFolder folder_;
};

TEST_F(TpCopiesTest, ABackupIsWithoutWhatHadNotCommitted) {
  const Bank bank(domain(), kAccounts);
  tp_txn *const running = begin(bank);
  EXPECT_EQ(tp_lock(running, {1, kRunning}, TP_EXCLUSIVE, TP_TRY), TP_OK);
  EXPECT_EQ(bank.add(running, kRunning, 5, TP_FIELDS, false), TP_OK);
  EXPECT_EQ(bank.add_pinned(running, kRunning, 6, true), TP_OK);
  tp_txn *const committed = begin(bank);
  EXPECT_EQ(bank.add(committed, kLeft, 7, TP_PAGES, false), TP_OK);
  EXPECT_EQ(tp_commit(committed), TP_OK);
  with_domain([&](const Domain &open) { open.backup(backup()); });
  EXPECT_EQ(bank.add(running, kRunning, 7, TP_FIELDS, true), TP_OK);
  EXPECT_EQ(tp_commit(running), TP_OK) << tp_last_error();
  EXPECT_EQ(read_copy(backup()), (Values{7, 0, 0}));
  EXPECT_EQ(bank.read_all(), (Values{7, 0, 18}));
}

TEST_F(TpCopiesTest, EachPointInTimeHasItsTransactionsWholeOrNotAtAll) {
  DomainOptions options = durable_options();
  options.keep_log = true;
  options.levels = Levels::kHybrid;
  expect_child("creator", [&] { Domain::open(domain(), options).close(); });
  std::mt19937_64 random(seed());
  {
    const Bank bank(domain(), kAccounts);
    with_domain([&](const Domain &open) { open.backup(backup()); });
    tp_txn *const running = begin(bank);
    for (int i = 0; i < 40; ++i) {
      tp_txn *const txn = begin(bank);
      EXPECT_EQ(bank.add(txn, kLeft, 1, TP_FIELDS, random() % 2 == 0), TP_OK);
      if (i % 4 == 0) {
        EXPECT_EQ(bank.add(running, kRunning, 1, TP_PAGES, i % 8 == 0), TP_OK);
      }
      EXPECT_EQ(random() % 2 == 0 ? bank.add_pinned(txn, kRight, 1, false)
                                  : bank.add(txn, kRight, 1, TP_PAGES, true),
                TP_OK);
      EXPECT_EQ(random() % 4 == 0 ? tp_abort(txn) : tp_commit(txn), TP_OK) << tp_last_error();
    }
    EXPECT_EQ(tp_abort(running), TP_OK);
  }
  fs::create_directory(logs());
  for (const auto &entry : fs::directory_iterator(domain()))
    if (entry.path().filename().string().starts_with("tmh.log.0")) fs::copy(entry.path(), logs());
  std::uint64_t end = 0;
  const auto restore = [&](const RecoverOptions &options) {
    const std::string copy = folder_ / "copy";
    fs::remove_all(copy);
    fs::copy(backup(), copy, fs::copy_options::recursive);
    end = recover(copy, options).end_lsn;
    return read_copy(copy);
  };
  EXPECT_EQ(restore({}), Values(kAccounts));
  const std::uint64_t first = end;
  RecoverOptions recovery;
  recovery.log_folder = logs();
  const Values most = restore(recovery);
  ASSERT_GT(end, first);
  std::vector<std::uint64_t> points;
  for (int i = 0; i < 24; ++i) points.push_back(first + random() % (end - first));
  std::sort(points.begin(), points.end());
  Values before(kAccounts);
  for (const std::uint64_t point : points) {
    recovery.until_lsn = point;
    const Values now = restore(recovery);
    EXPECT_EQ(now[kLeft], now[kRight]) << "at " << point;
    EXPECT_EQ(now[kRunning], 0u) << "at " << point;
    EXPECT_GE(now[kLeft], before[kLeft]) << "at " << point;
    before = now;
  }
  EXPECT_GT(most[kLeft], 0u);
  EXPECT_GE(most[kLeft], before[kLeft]);
}

}  // namespace
}  // namespace tmh::test
