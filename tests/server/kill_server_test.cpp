// tests/server/kill_server_test.cpp -- clients and servers that are killed.
// Invariants: (1) what a client that dies has begun is undone, and its locks are free, though it
//             waits for a lock itself. (2) After the death of a server the next one has every
//             transfer that a client was told of, and no part of another; a client has an error.
#include <gtest/gtest.h>

#include <poll.h>
#include <algorithm>
#include <random>
#include <string>

#include "tests/server/served.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

TEST(KillServerTest, AClientThatDiesIsRolledBack) {
  Served served;
  const Client client(served.socket());
  const std::string file = served.path("file"), key = "key", data = "data", other = "other";
  const int db = client.open(file);
  ASSERT_EQ(call(client.get(), TP_SERVER_PUT, db, &key, &data), 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(run_in_child("client",
                           [&] {
                             const Client mortal(served.socket());
                             const int same = mortal.open(file);
                             ASSERT_EQ(call(mortal.get(), TP_SERVER_BEGIN), 0);
                             ASSERT_EQ(call(mortal.get(), TP_SERVER_PUT, same, &key, &other), 0);
                             die_unless_failed();
                           })
                  .signal,
              SIGKILL);
    // It waits until the lock is free.
    EXPECT_EQ(value(client.get(), db, key), data);
  }
  EXPECT_TRUE(poll_until([&] { return served.counters().deaths == 20; }));
}

TEST(KillServerTest, AClientThatDiesWaitsNoLonger) {
  const Served served;
  const Client holder(served.socket()), third(served.socket());
  ASSERT_EQ(call(holder.get(), TP_SERVER_BEGIN), 0);
  ASSERT_EQ(call(holder.get(), TP_SERVER_LOCK, 100, nullptr, nullptr, TP_EXCLUSIVE), 0);
  Shared<std::atomic<int>> has_begun;
  Children children;
  const std::size_t mortal = children.spawn("client", [&] {
    const Client client(served.socket());
    ASSERT_EQ(call(client.get(), TP_SERVER_BEGIN), 0);
    tp_server_op lock = op(TP_SERVER_LOCK, 200, nullptr, nullptr, TP_EXCLUSIVE);
    ASSERT_EQ(tp_server_call(client.get(), &lock), 0);
    lock = op(TP_SERVER_LOCK, 100, nullptr, nullptr, TP_EXCLUSIVE);
    ASSERT_EQ(tp_server_send(client.get(), &lock, 1, TP_SERVER_NO_TRANSACTION), 0);
    *has_begun = 1;
    for (;;) (void)::poll(nullptr, 0, -1);
  });
  ASSERT_TRUE(poll_until([&] { return has_begun->load() == 1; }));
  children.bury(mortal);
  ASSERT_EQ(call(third.get(), TP_SERVER_BEGIN), 0);
  tp_server_op lock = op(TP_SERVER_LOCK, 200, nullptr, nullptr, TP_EXCLUSIVE);
  EXPECT_EQ(tp_server_call(third.get(), &lock), 0);
  EXPECT_EQ(call(holder.get(), TP_SERVER_COMMIT), 0);
}

// ---- Servers that die ---------------------------------------------------------------------------

constexpr std::size_t kClients = 2, kAccounts = 20;
constexpr std::int64_t kBalance = 1000;

struct Notes {
  std::atomic<std::uint64_t> told[kClients];
  std::atomic<std::uint64_t> lost;
  std::atomic<bool> stop;
};

std::string account(std::size_t number) { return "account " + std::to_string(number); }
std::string number_of(std::size_t client) { return "client " + std::to_string(client); }

// A program that knows of no server.
class Teller {
 public:
  Teller(const std::string &file, std::size_t client, Notes *notes)
      : file_(file), client_(client), notes_(*notes), random_(seed() + client) {}

  void run() {
    while (!notes_.stop) {
      if (db_ == nullptr)
        db_ = tp_dbopen(file_.c_str(), O_RDWR, 0, DB_BTREE, DB_SHARED | DB_TP, nullptr);
      if (db_ == nullptr) {
        (void)::poll(nullptr, 0, 2);
        continue;
      }
      if (transfer()) {
        ++notes_.told[client_];
        continue;
      }
      if (is_lost_) {
        ++notes_.lost;
        (void)db_->close(db_);
        db_ = nullptr;
        is_lost_ = false;
      }
    }
    if (db_ != nullptr) (void)db_->close(db_);
  }

 private:
  // True: it was told that it has committed.
  [[nodiscard]] bool transfer() {
    if (tp_paper_begin() == 0) {
      is_lost_ = true;
      return false;
    }
    const std::size_t from = random_() % kAccounts, to = random_() % kAccounts;
    const std::int64_t amount = static_cast<std::int64_t>(random_() % 50);
    if (add(account(from), -amount) && add(account(to), amount) && add(number_of(client_), 1)) {
      if (tp_paper_commit() == TP_OK) return true;
      is_lost_ = true;
      return false;
    }
    is_lost_ = errno != EDEADLK;
    EXPECT_TRUE(errno == EDEADLK || errno == ECONNRESET) << std::strerror(errno);
    EXPECT_EQ(tp_paper_abort(), TP_OK) << tp_last_error();
    return false;
  }
  [[nodiscard]] bool add(std::string key, std::int64_t amount) {
    DBT k = dbt(key), found{};
    if (db_->get(db_, &k, &found, 0) != RET_SUCCESS) return false;
    std::int64_t balance = 0;
    std::memcpy(&balance, found.data, sizeof balance);
    balance += amount;
    const DBT changed{&balance, sizeof balance};
    return db_->put(db_, &k, &changed, 0) == RET_SUCCESS;
  }

  const std::string file_;
  const std::size_t client_;
  Notes &notes_;
  std::mt19937_64 random_;
  DB *db_ = nullptr;
  bool is_lost_ = false;
};

std::int64_t balance_of(tp_server *server, int db, const std::string &key) {
  std::int64_t balance = 0;
  const std::string found = value(server, db, key);
  EXPECT_EQ(found.size(), sizeof balance) << key << ": " << found;
  std::memcpy(&balance, found.data(), std::min(found.size(), sizeof balance));
  return balance;
}

TEST(KillServerTest, WhatWasAcknowledgedIsThereAndNothingElse) {
  tp_server_options options{};
  options.durability = 1;
  Served served(options);
  const std::string file = served.path("file");
  {
    const Client client(served.socket());
    const int db = client.open(file);
    const auto put = [&](const std::string &key, std::int64_t number) {
      const std::string bytes(reinterpret_cast<const char *>(&number), sizeof number);
      ASSERT_EQ(call(client.get(), TP_SERVER_PUT, db, &key, &bytes), 0);
    };
    for (std::size_t i = 0; i < kAccounts; ++i) put(account(i), kBalance);
    for (std::size_t i = 0; i < kClients; ++i) put(number_of(i), 0);
  }
  Shared<Notes> notes;
  Children children;
  for (std::size_t i = 0; i < kClients; ++i)
    (void)children.spawn("client " + std::to_string(i), [&, i] { Teller(file, i, &*notes).run(); });
  std::mt19937_64 random(seed());
  const auto told = [&] {
    std::uint64_t sum = 0;
    for (const auto &one : notes->told) sum += one;
    return sum;
  };
  constexpr int kKills = 12;
  for (int i = 0; i < kKills; ++i) {
    const std::uint64_t before = told(), wanted = random() % 30;
    ASSERT_TRUE(poll_until([&] { return told() >= before + 1 + wanted; }));
    (void)::poll(nullptr, 0, static_cast<int>(random() % 5));
    served.kill();
    served.begin();
  }
  const std::uint64_t before = told();
  ASSERT_TRUE(poll_until([&] { return told() >= before + 10; }));
  served.kill();
  const std::uint64_t after[kClients] = {notes->told[0], notes->told[1]};
  notes->stop = true;
  children.expect_success();
  EXPECT_GE(notes->lost, 1u);
  served.begin();
  const Client client(served.socket());
  const int db = client.open(file);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < kAccounts; ++i) sum += balance_of(client.get(), db, account(i));
  EXPECT_EQ(sum, static_cast<std::int64_t>(kAccounts) * kBalance);
  for (std::size_t i = 0; i < kClients; ++i) {
    const auto number = static_cast<std::uint64_t>(balance_of(client.get(), db, number_of(i)));
    EXPECT_GE(number, after[i]) << "client " << i;
    // One reply a life of the server may have been lost.
    EXPECT_LE(number, after[i] + kKills + 1) << "client " << i;
  }
}

TEST(KillServerTest, ATransactionThatIsLostFailsUntilItIsEnded) {
  Served served;
  const std::string file = served.path("file"), key = "key", data = "data";
  DB *const db =
      tp_dbopen(file.c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE, DB_SHARED | DB_TP, nullptr);
  ASSERT_NE(db, nullptr);
  DBT k = dbt(key), found{};
  const DBT d = dbt(data);
  ASSERT_NE(tp_paper_begin(), 0u);
  ASSERT_EQ(db->put(db, &k, &d, 0), 0);
  served.kill();
  served.begin();
  // Not outside of the transaction, though there is a server.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(db->put(db, &k, &d, 0), -1);
    EXPECT_EQ(errno, ECONNRESET);
  }
  EXPECT_EQ(tp_paper_begin(), 0u);
  EXPECT_NE(tp_paper_commit(), TP_OK);
  // The handle's cursor is gone, which it says once.
  EXPECT_EQ(db->get(db, &k, &found, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(db->get(db, &k, &found, 0), RET_SPECIAL) << std::strerror(errno);
  EXPECT_EQ(db->put(db, &k, &d, 0), 0);
  EXPECT_EQ(db->close(db), 0);
}

}  // namespace
}  // namespace tmh::test
