// tests/db/multi_db_test.cpp -- processes that change three files in one transaction: balances in a
// tree, the same in a hash table, and one record of each change; some, or all, are killed.
// Invariants: (1) a balance is the sum of its changes, in both files, whichever worker dies when.
//             (2) the records of a worker's own changes are those it was told of, or one more.
//             (3) a scan sees no key twice and misses none, while others insert and erase.
//             (4) no worker waits for the dead.
//             (5) a query sees the three files as of one moment, and never fails.
#define TP_NO_SHORT_NAMES
#include <tp/db.h>
#include <tp/paper.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::size_t kWorkers = 4, kAccounts = 60;

struct Notes {
  std::atomic<std::uint64_t> told[kWorkers];
  std::atomic<std::uint64_t> ends, deadlocks, scans, queries;
  std::atomic<bool> stop;
};

// A change of a balance, as it is kept.
struct Entry {
  std::uint32_t worker, account;
  std::int64_t amount;
};

DBT dbt(const std::string &text) { return {const_cast<char *>(text.data()), text.size()}; }
std::string text(const DBT &dbt) { return {static_cast<const char *>(dbt.data), dbt.size}; }
std::string account_key(std::size_t account) { return "account " + std::to_string(account); }

class Files {
 public:
  // dbflags of the three files.
  Files(const std::string &folder, int dbflags) {
    tp_options options{};
    options.durability = 2;
    if (tp_paper_open((folder + "/home").c_str(), &options) != TP_OK)
      throw std::runtime_error(tp_last_error());
    BTREEINFO tree{};
    tree.psize = 512;
    HASHINFO table{};
    table.bsize = 512;
    RECNOINFO numbers{};
    numbers.psize = 512;
    std::string log = folder + "/log";
    numbers.bfname = log.data();
    const auto open = [&](const char *file, DBTYPE type, const void *info) {
      DB *const opened = tp_dbopen(file, O_RDWR | O_CREAT, 0600, type, dbflags, info);
      if (opened == nullptr)
        throw std::runtime_error(std::string("open: ") + std::strerror(errno) + " " +
                                 tp_last_error());
      return opened;
    };
    tree_ = open((folder + "/tree").c_str(), DB_BTREE, &tree);
    table_ = open((folder + "/table").c_str(), DB_HASH, &table);
    log_ = open(nullptr, DB_RECNO, &numbers);
  }
  ~Files() {
    for (DB *db : {tree_, table_, log_}) EXPECT_EQ(db->close(db), 0) << std::strerror(errno);
    EXPECT_EQ(tp_paper_close(), TP_OK) << tp_last_error();
  }
  Files(const Files &) = delete;
  Files &operator=(const Files &) = delete;

  // False: errno is EDEADLK.
  bool add(std::size_t account, std::int64_t amount) {
    return add_to(tree_, account, amount) && add_to(table_, account, amount);
  }
  bool append(const Entry &entry) {
    recno_t number = 0;
    DBT key{}, data{};
    const int found = log_->seq(log_, &key, &data, R_LAST);
    if (found == -1) return is_deadlock();
    if (found == 0) std::memcpy(&number, key.data, sizeof number);
    ++number;
    key = {&number, sizeof number};
    const std::string bytes(reinterpret_cast<const char *>(&entry), sizeof entry);
    const DBT kept = dbt(bytes);
    return log_->put(log_, &key, &kept, R_IBEFORE) == 0 || is_deadlock();
  }
  // Comes and goes beside the accounts.
  bool put_other(std::uint64_t number, bool is_there) {
    const std::string text = "other " + std::to_string(number);
    for (DB *db : {tree_, table_}) {
      DBT key = dbt(text);
      const int result = is_there ? db->put(db, &key, &key, 0) : db->del(db, &key, 0);
      if (result == -1) return is_deadlock();
    }
    return true;
  }
  // Of the accounts, in one scan. Empty: a deadlock.
  std::map<std::string, std::int64_t> balances(DB *db) {
    std::map<std::string, std::int64_t> found;
    DBT key{}, data{};
    int result = db->seq(db, &key, &data, R_FIRST);
    for (; result == 0; result = db->seq(db, &key, &data, R_NEXT)) {
      if (text(key).substr(0, 7) != "account") continue;
      std::int64_t balance = 0;
      std::memcpy(&balance, data.data, sizeof balance);
      EXPECT_TRUE(found.emplace(text(key), balance).second) << text(key) << " twice";
    }
    if (result == 1) return found;
    (void)is_deadlock();
    return {};
  }
  std::vector<Entry> entries() {
    std::vector<Entry> found;
    DBT key{}, data{};
    for (unsigned how = R_FIRST; log_->seq(log_, &key, &data, how) == 0; how = R_NEXT) {
      EXPECT_EQ(data.size, sizeof(Entry));
      std::memcpy(&found.emplace_back(), data.data, sizeof(Entry));
    }
    return found;
  }
  // What the balances are by the records of changes.
  std::map<std::string, std::int64_t> sums() {
    std::map<std::string, std::int64_t> sums;
    for (std::size_t i = 0; i < kAccounts; ++i) sums[account_key(i)] = 0;
    for (const Entry &entry : entries()) sums[account_key(entry.account)] += entry.amount;
    return sums;
  }
  DB *tree() { return tree_; }
  DB *table() { return table_; }

 private:
  static bool is_deadlock() {
    EXPECT_EQ(errno, EDEADLK) << std::strerror(errno) << " " << tp_last_error();
    return false;
  }
  static bool add_to(DB *db, std::size_t account, std::int64_t amount) {
    const std::string text = account_key(account);
    DBT key = dbt(text), data{};
    std::int64_t balance = 0;
    const int found = db->get(db, &key, &data, 0);
    if (found == -1) return is_deadlock();
    if (found == 0) std::memcpy(&balance, data.data, sizeof balance);
    balance += amount;
    std::string bytes(reinterpret_cast<const char *>(&balance), sizeof balance);
    bytes.resize(8 + static_cast<std::size_t>(balance & 63), 'b');
    const DBT now = dbt(bytes);
    return db->put(db, &key, &now, 0) == 0 || is_deadlock();
  }

  DB *tree_ = nullptr, *table_ = nullptr, *log_ = nullptr;
};

class Worker {
 public:
  // Each locks leaves, or records, or inner pages, too.
  static int locks_of(std::uint64_t seed) {
    constexpr int kLocks[] = {0, DB_RECORD_LOCKS, DB_BLINK, DB_RECORD_LOCKS};
    return kLocks[seed % std::size(kLocks)];
  }
  Worker(const std::string &folder, Notes &notes, std::uint32_t number, std::uint64_t seed)
      : files_(folder, DB_SHARED | DB_TP | locks_of(seed)),
        notes_(notes),
        number_(number),
        random_(seed) {}

  void run() {
    while (!notes_.stop.load() && !testing::Test::HasFailure()) {
      if (random_() % 12 == 0) query();
      ASSERT_NE(tp_paper_begin(), 0U) << tp_last_error();
      const bool is_done = random_() % 8 == 0 ? look() : change();
      if (is_done) {
        ASSERT_EQ(tp_paper_commit(), TP_OK) << tp_last_error();
        if (std::exchange(is_change_, false)) notes_.told[number_].fetch_add(1);
      } else {
        is_change_ = false;
        ASSERT_EQ(tp_paper_abort(), TP_OK) << tp_last_error();
      }
      notes_.ends.fetch_add(1);
    }
  }

 private:
  bool change() {
    for (std::uint64_t others = random_() % 4; others > 0; --others)
      if (!files_.put_other(random_() % 200, random_() % 2 == 0)) return deadlock();
    const auto account = static_cast<std::uint32_t>(random_() % kAccounts);
    const auto amount = static_cast<std::int64_t>(random_() % 1000) - 400;
    if (!files_.add(account, amount)) return deadlock();
    if (!files_.append({number_, account, amount})) return deadlock();
    if (random_() % 8 == 0) return false;
    is_change_ = true;
    return true;
  }
  // All balances of one moment: both files have the same.
  bool look() {
    const auto tree = files_.balances(files_.tree());
    if (tree.empty()) return deadlock();
    const auto table = files_.balances(files_.table());
    if (table.empty()) return deadlock();
    EXPECT_EQ(tree, table);
    notes_.scans.fetch_add(1);
    return true;
  }
  // The same without locks, and that they are what the records say.
  void query() {
    ASSERT_EQ(tp_query_begin(tp_paper_env()), TP_OK) << tp_last_error();
    EXPECT_EQ(files_.balances(files_.tree()), files_.sums());
    EXPECT_EQ(files_.balances(files_.table()), files_.sums());
    ASSERT_EQ(tp_query_end(), TP_OK) << tp_last_error();
    notes_.queries.fetch_add(1);
  }
  bool deadlock() {
    notes_.deadlocks.fetch_add(1);
    return false;
  }

  Files files_;
  Notes &notes_;
  const std::uint32_t number_;
  std::mt19937_64 random_;
  bool is_change_ = false;
};

class Storm {
 public:
  explicit Storm(const std::string &folder) : folder_(folder) {
    {
      Files files(folder, DB_SHARED | DB_TP);
      for (std::size_t i = 0; i < kAccounts; ++i) EXPECT_TRUE(files.add(i, 0));
    }
    for (std::uint32_t i = 0; i < kWorkers; ++i) start(i);
  }
  void await(std::uint64_t more) {
    const std::uint64_t wanted = notes_->ends.load() + more;
    EXPECT_TRUE(poll_until([&] { return notes_->ends.load() >= wanted; }))
        << notes_->ends.load() << " of " << wanted << " transactions";
  }
  void kill(std::uint32_t number) {
    EXPECT_TRUE(children_.running(indices_[number])) << "it has ended by itself";
    children_.bury(indices_[number]);
    ++deaths_[number];
  }
  void start(std::uint32_t number) {
    Notes &notes = *notes_;
    const std::uint64_t worker_seed = seed() * 1000 + ++starts_;
    indices_[number] = children_.spawn("worker " + std::to_string(number), [=, this, &notes] {
      Worker(folder_, notes, number, worker_seed).run();
    });
  }
  void end() {
    notes_->stop.store(true);
    for (const std::size_t index : indices_) EXPECT_TRUE(children_.wait(index).succeeded());
    notes_->stop.store(false);
  }
  void judge() {
    Files files(folder_, DB_SHARED | DB_TP);
    std::vector<std::uint64_t> counts(kWorkers);
    for (const Entry &entry : files.entries()) ++counts[entry.worker];
    const auto sums = files.sums();
    EXPECT_EQ(files.balances(files.tree()), sums);
    EXPECT_EQ(files.balances(files.table()), sums);
    for (std::size_t i = 0; i < kWorkers; ++i) {
      EXPECT_GE(counts[i], notes_->told[i].load()) << i;
      EXPECT_LE(counts[i], notes_->told[i].load() + deaths_[i]) << i;
    }
  }
  Notes &notes() { return *notes_; }

 private:
  std::string folder_;
  Shared<Notes> notes_;
  Children children_;
  std::vector<std::size_t> indices_ = std::vector<std::size_t>(kWorkers);
  std::vector<std::uint64_t> deaths_ = std::vector<std::uint64_t>(kWorkers);
  std::uint64_t starts_ = 0;
};

TEST(MultiDbTest, ChangesOfManyProcesses) {
  TempFolder folder;
  Storm storm(folder.path());
  storm.await(3000);
  storm.end();
  storm.judge();
  EXPECT_GT(storm.notes().scans.load(), 0U);
  EXPECT_GT(storm.notes().queries.load(), 0U);
}

TEST(MultiDbTest, SomeAreKilled) {
  TempFolder folder;
  Storm storm(folder.path());
  std::mt19937_64 random(seed());
  for (int i = 0; i < 40 && !HasFailure(); ++i) {
    storm.await(random() % 60);
    const auto victim = static_cast<std::uint32_t>(random() % kWorkers);
    storm.kill(victim);
    storm.start(victim);
  }
  storm.await(100);
  storm.end();
  storm.judge();
}

TEST(MultiDbTest, AllAreKilled) {
  TempFolder folder;
  Storm storm(folder.path());
  std::mt19937_64 random(seed());
  for (int i = 0; i < 12 && !HasFailure(); ++i) {
    storm.await(20 + random() % 100);
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) storm.kill(worker);
    storm.judge();
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) storm.start(worker);
  }
  storm.await(100);
  storm.end();
  storm.judge();
}

}  // namespace
}  // namespace tmh::test
