// tests/tools/tool_locks_test.cpp -- tmh locks and tmh deadlockd on domains with transactions of
// tp.h, and what tmh stat and tmh top show of them.
// Invariants: (1) locks shows each holder and waiter, with its owner, also of the dead, and cycles.
//             (2) it changes nothing, and ends whatever bytes the lock table has. (3) deadlockd
//             ends deadlocks that nobody else looks for, by the policy that it was given, whatever
//             the modes are; a signal ends it. (4) stat and top have the totals of locks, also of
//             the dead, and show nothing of them where there is no lock table.
#include <gtest/gtest.h>
#include <tp.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "levels/lock/lock.h"
#include "programs/json.h"
#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"
#include "tools/deadlockd.h"
#include "tools/lock_totals.h"
#include "tools/shared_locks.h"

namespace tmh::test {
namespace {

using programs::Json;
namespace fs = std::filesystem;

constexpr std::uint64_t kNeverUs = 3'600'000'000;

class ToolLocks : public ::testing::Test {
 protected:
  ~ToolLocks() override {
    if (env_ != nullptr) {
      EXPECT_EQ(tp_close(env_), TP_OK) << tp_last_error();
    }
  }
  std::string domain() const { return folder_ / "domain"; }

  // Waiters do not look for deadlocks.
  void open(const tp_modes *modes = nullptr) {
    tp_options options{};
    options.first_look_us = kNeverUs;
    options.name = "till";
    options.modes = modes;
    ASSERT_EQ(tp_open(domain().c_str(), &options, &env_), TP_OK) << tp_last_error();
    void *address = nullptr;
    ASSERT_EQ(tp_map(env_, "accounts", 16 * 4096, &address), TP_OK) << tp_last_error();
  }
  tp_txn *begin() {
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(env_, &txn), TP_OK) << tp_last_error();
    return txn;
  }
  std::uint64_t accounts() {
    int fid = -1;
    EXPECT_EQ(tp_buf_open(env_, "accounts", O_RDWR, 0, &fid), TP_OK) << tp_last_error();
    return static_cast<std::uint64_t>(fid);
  }
  Json locks() {
    const ProgramEnd end = run_tmh({"locks", domain(), "--json"});
    EXPECT_EQ(end.exit_code, 0) << end.err;
    Json document = Json::parse(end.out, Json::IfBroken::kDiscard);
    expect_valid("locks", document.dump());
    return document;
  }
  Json stat() {
    const ProgramEnd end = run_tmh({"stat", domain(), "--json"});
    EXPECT_EQ(end.exit_code, 0) << end.err;
    Json document = Json::parse(end.out, Json::IfBroken::kDiscard);
    expect_valid("stat", document.dump());
    return document;
  }
  std::string top() {
    const ProgramEnd end = run_tmh({"top", domain(), "--once", "--interval", "0.01"});
    EXPECT_EQ(end.exit_code, 0) << end.err;
    return end.out;
  }
  std::string text() {
    const ProgramEnd end = run_tmh({"locks", domain()});
    EXPECT_EQ(end.exit_code, 0) << end.err;
    return end.out;
  }
  // Until so many wait.
  Json locks_with_waiters(std::size_t wanted) {
    Json document;
    EXPECT_TRUE(poll_until([&] {
      document = locks();
      std::size_t waiters = 0;
      for (const Json &object : document.at("objects")) waiters += object.at("waiters").size();
      return waiters == wanted;
    }));
    return document;
  }
  // Two transactions, each of which holds what the other one waits for. The first is the older one.
  struct Deadlock {
    std::array<tp_txn *, 2> txns{};
    std::array<int, 2> errors{-1, -1};
    std::array<std::thread, 2> threads;
  };
  void make_deadlock(Deadlock *out, unsigned mode = TP_EXCLUSIVE) {
    for (std::uint64_t i = 0; i < 2; ++i) {
      out->txns[i] = begin();
      ASSERT_EQ(tp_lock(out->txns[i], {77, i}, mode, TP_TRY), TP_OK);
    }
    for (std::uint64_t i = 0; i < 2; ++i)
      out->threads[i] = std::thread([out, i, mode] {
        out->errors[i] = tp_lock(out->txns[i], {77, 1 - i}, mode, TP_FOREVER);
        // The other one goes on.
        if (out->errors[i] != TP_OK) {
          EXPECT_EQ(tp_abort(out->txns[i]), TP_OK) << tp_last_error();
        }
      });
  }
  static void end(Deadlock *deadlock) {
    for (std::size_t i = 0; i < 2; ++i) {
      deadlock->threads[i].join();
      if (deadlock->errors[i] != TP_OK) continue;
      EXPECT_EQ(tp_abort(deadlock->txns[i]), TP_OK) << tp_last_error();
    }
  }
  // A process that dies with locks, and nobody comes after it.
  void leave_dead() {
    const ChildEnd end = run_in_child("dead", [this] {
      open();
      for (std::uint64_t i = 0; i < 20; ++i)
        EXPECT_EQ(tp_lock(begin(), {5, i / 2}, TP_SHARED, TP_TRY), TP_OK);
      ::kill(::getpid(), SIGKILL);
    });
    ASSERT_EQ(end.signal, SIGKILL);
  }

  MemoryFolder folder_;
  tp_env *env_ = nullptr;
};

TEST_F(ToolLocks, WhereNobodyLocksItSaysSo) {
  open();
  ASSERT_EQ(tp_close(env_), TP_OK);
  env_ = nullptr;
  EXPECT_NE(text().find("no lock table"), std::string::npos);
  EXPECT_EQ(locks().at("lock_table"), false);
  const Domain plain = Domain::open(domain());
  EXPECT_EQ(stat().at("lock_table"), false);
  EXPECT_EQ(stat().at("locks").at("locks"), 0);
  EXPECT_EQ(run_tmh({"stat", domain()}).out.find("locks, and"), std::string::npos);
  EXPECT_EQ(top().find("locks/s"), std::string::npos);
  const ProgramEnd deadlockd = run_tmh({"deadlockd", domain(), "--once"});
  EXPECT_EQ(deadlockd.exit_code, 0) << deadlockd.err;
  EXPECT_NE(deadlockd.out.find("nobody has locked anything"), std::string::npos) << deadlockd.out;
  for (const char *command : {"locks", "deadlockd"}) {
    const ProgramEnd end = run_tmh({command, folder_ / "none"});
    EXPECT_EQ(end.exit_code, 3);
    EXPECT_NE(end.err.find("kNotADomain"), std::string::npos) << end.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_F(ToolLocks, HoldersWaitersAndTotalsAreShown) {
  open();
  const std::uint64_t file = accounts();
  tp_txn *const holder = begin();
  tp_txn *const reader = begin();
  ASSERT_EQ(tp_lock(holder, {file, 3}, TP_EXCLUSIVE, TP_TRY), TP_OK);
  ASSERT_EQ(tp_lock(holder, {file, 3}, TP_EXCLUSIVE, TP_TRY), TP_OK);
  ASSERT_EQ(tp_lock(holder, {9999, 4}, TP_INTEND_SHARED, TP_TRY), TP_OK);
  std::thread waiter([&] {
    EXPECT_EQ(tp_lock(reader, {file, 3}, TP_SHARED, TP_FOREVER), TP_OK) << tp_last_error();
  });
  const Json document = locks_with_waiters(1);
  ASSERT_EQ(document.at("objects").size(), 2u) << document.dump();
  const Json &page = document.at("objects")[0];
  EXPECT_EQ(page.at("file"), "accounts");
  EXPECT_EQ(page.at("id"), 3);
  EXPECT_EQ(page.at("holders")[0].at("mode"), "X");
  EXPECT_EQ(page.at("holders")[0].at("count"), 2);
  const Json &owner = page.at("holders")[0].at("locker");
  EXPECT_EQ(owner.at("kind"), "transaction");
  EXPECT_EQ(owner.at("name"), tp_txn_id(holder));
  EXPECT_EQ(owner.at("state"), "alive");
  EXPECT_EQ(owner.at("pid"), static_cast<int>(::getpid()));
  EXPECT_EQ(owner.at("process"), "till");
  EXPECT_EQ(page.at("waiters")[0].at("mode"), "S");
  EXPECT_EQ(page.at("waiters")[0].at("locker").at("name"), tp_txn_id(reader));
  EXPECT_EQ(document.at("objects")[1].at("file"), nullptr);
  EXPECT_EQ(document.at("objects")[1].at("holders")[0].at("mode"), "IS");
  EXPECT_TRUE(document.at("cycles").empty());
  EXPECT_EQ(document.at("totals").at("waits"), 1);
  const std::string shown = text();
  EXPECT_NE(shown.find("accounts, page 3"), std::string::npos) << shown;
  EXPECT_NE(shown.find("object 9999, 4"), std::string::npos) << shown;
  tp_id detached = 0;
  ASSERT_EQ(tp_detach(holder, &detached), TP_OK) << tp_last_error();
  EXPECT_EQ(locks().at("objects")[0].at("holders")[0].at("locker").at("state"), "detached");
  tp_txn *again = nullptr;
  ASSERT_EQ(tp_attach(env_, detached, &again), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_abort(again), TP_OK);
  waiter.join();
  EXPECT_EQ(tp_abort(reader), TP_OK);
  EXPECT_TRUE(locks().at("objects").empty());
}

TEST_F(ToolLocks, WaitersAreShownInTurn) {
  open();
  tp_txn *const holder = begin();
  ASSERT_EQ(tp_lock(holder, {1, 1}, TP_EXCLUSIVE, TP_TRY), TP_OK);
  std::vector<std::thread> threads;
  std::vector<tp_id> ids;
  for (std::size_t i = 0; i < 4; ++i) {
    tp_txn *const txn = begin();
    ids.push_back(tp_txn_id(txn));
    threads.emplace_back([txn] {
      EXPECT_EQ(tp_lock(txn, {1, 1}, TP_EXCLUSIVE, TP_FOREVER), TP_OK) << tp_last_error();
      EXPECT_EQ(tp_abort(txn), TP_OK);
    });
    const Json document = locks_with_waiters(i + 1);
    const Json &waiters = document.at("objects")[0].at("waiters");
    for (std::size_t turn = 0; turn <= i; ++turn)
      EXPECT_EQ(waiters[turn].at("locker").at("name"), ids[turn]);
  }
  EXPECT_EQ(tp_abort(holder), TP_OK);
  for (std::thread &thread : threads) thread.join();
}

TEST_F(ToolLocks, TheDeadAreShown) {
  leave_dead();
  const Json document = locks();
  ASSERT_EQ(document.at("objects").size(), 10u);
  for (const Json &object : document.at("objects")) {
    EXPECT_EQ(object.at("holders").size(), 2u);
    EXPECT_EQ(object.at("holders")[0].at("locker").at("state"), "dead");
    EXPECT_EQ(object.at("holders")[0].at("locker").at("process"), "till");
  }
  EXPECT_NE(text().find(", dead"), std::string::npos);
}

TEST_F(ToolLocks, ADeadlockIsShownAndEndedByTheYoungest) {
  open();
  Deadlock deadlock;
  make_deadlock(&deadlock);
  const Json document = locks_with_waiters(2);
  ASSERT_EQ(document.at("cycles").size(), 1u) << document.dump();
  EXPECT_EQ(document.at("cycles")[0].size(), 2u);
  EXPECT_NE(text().find("deadlock: transaction"), std::string::npos);
  const ProgramEnd end = run_tmh({"deadlockd", domain(), "--once"});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_NE(end.out.find("1 locker failed"), std::string::npos) << end.out;
  ToolLocks::end(&deadlock);
  EXPECT_EQ(deadlock.errors[0], TP_OK);
  EXPECT_EQ(deadlock.errors[1], TP_EDEADLOCK);
  EXPECT_TRUE(locks().at("cycles").empty());
  EXPECT_EQ(locks().at("totals").at("deadlocks"), 1);
  const Json seen = stat();
  EXPECT_EQ(seen.at("lock_table"), true);
  EXPECT_EQ(seen.at("locks").at("deadlocks"), 1);
  EXPECT_EQ(seen.at("locks").at("waits"), 2);
  EXPECT_EQ(seen.at("latency").at("locks").at("count"), 2);
  EXPECT_GT(seen.at("latency").at("locks").at("p50_ns"), 0);
  EXPECT_EQ(seen.at("locks").at("rollbacks"), 2);
  EXPECT_EQ(seen.at("locks"), locks().at("totals"));
  const std::string shown = run_tmh({"stat", domain()}).out;
  EXPECT_NE(shown.find(" 1 deadlocks\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("  locks, waits "), std::string::npos) << shown;
  EXPECT_NE(top().find("locks/s "), std::string::npos);
}

// Its owner's, and those of a process that died: one by its heir, and none of what it had only
// begun, or had committed.
TEST_F(ToolLocks, CommitsAndRollbacksAreCounted) {
  const auto add = [](tp_step_t *step, void *argument) {
    auto *const word = static_cast<std::uint64_t *>(argument);
    if (tp_log_bytes(step, word, sizeof *word, nullptr) != TP_OK) return 1;
    ++*word;
    return 0;
  };
  const auto begin_adding = [&](std::uint64_t page) {
    void *address = nullptr;
    EXPECT_EQ(tp_map(env_, "accounts", 16 * 4096, &address), TP_OK) << tp_last_error();
    tp_txn *const txn = begin();
    EXPECT_EQ(tp_step(txn, TP_PAGES, add, static_cast<char *>(address) + page * 4096), TP_OK)
        << tp_last_error();
    return txn;
  };
  open();
  EXPECT_EQ(tp_commit(begin_adding(0)), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_commit(begin()), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_abort(begin_adding(0)), TP_OK) << tp_last_error();
  const ChildEnd end = run_in_child("dies", [&] {
    env_ = nullptr;
    open();
    EXPECT_EQ(tp_commit(begin_adding(1)), TP_OK) << tp_last_error();
    (void)begin_adding(2);
    (void)begin();
    ::kill(::getpid(), SIGKILL);
  });
  ASSERT_EQ(end.signal, SIGKILL);
  EXPECT_EQ(stat().at("locks").at("rollbacks"), 1);
  ASSERT_EQ(tp_settle(env_), TP_OK) << tp_last_error();
  const Json seen = stat().at("locks");
  EXPECT_EQ(seen.at("commits"), 3);
  EXPECT_EQ(seen.at("rollbacks"), 2);
  EXPECT_EQ(seen.at("rollbacks_by_heirs"), 1);
}

TEST_F(ToolLocks, DeadlockdTakesTheModesThatAreThereAndThePolicy) {
  const std::array<unsigned char, 9> conflicts{0, 0, 1, 0, 1, 1, 1, 1, 1};
  const tp_modes modes{3, conflicts.data(), 4};
  open(&modes);
  Deadlock deadlock;
  make_deadlock(&deadlock, 2);
  const Json document = locks_with_waiters(2);
  EXPECT_EQ(document.at("modes"), Json::parse(R"(["0", "1", "2"])"));
  EXPECT_EQ(document.at("objects")[0].at("holders")[0].at("mode"), "2");
  const ProgramEnd end = run_tmh({"deadlockd", domain(), "--once", "--victim", "oldest", "--json"});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_NE(end.out.find(R"("failed":1)"), std::string::npos) << end.out;
  ToolLocks::end(&deadlock);
  EXPECT_EQ(deadlock.errors[0], TP_EDEADLOCK);
  EXPECT_EQ(deadlock.errors[1], TP_OK);
}

TEST_F(ToolLocks, DeadlockdWatchesUntilASignalEndsIt) {
  Children children;
  open();
  const std::string out = folder_ / "out";
  const std::size_t watcher = children.spawn("deadlockd", [&] {
    become_tmh({"deadlockd", domain(), "--every", "0.01s", "--victim", "fewest-locks"}, out);
    FAIL() << "not started";
  });
  for (int round = 0; round < 3; ++round) {
    Deadlock deadlock;
    make_deadlock(&deadlock);
    ToolLocks::end(&deadlock);
    EXPECT_EQ((deadlock.errors[0] == TP_OK) + (deadlock.errors[1] == TP_OK), 1);
  }
  children.kill(watcher, SIGTERM);
  EXPECT_TRUE(children.wait(watcher).succeeded());
  EXPECT_NE(read_file(out).find("3 lockers failed"), std::string::npos) << read_file(out);
}

TEST_F(ToolLocks, WrongOptionsAreRefused) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--victim", "nobody"}, {"--victim", ""},   {"--every", "0"},   {"--every", "s"},
      {"--every", "-1"},      {"--every", "nan"}, {"--every", "1ms"}, {"--every", "1", "--once"}};
  for (std::vector<std::string> words : wrong) {
    words.insert(words.begin(), {"deadlockd", domain()});
    EXPECT_EQ(run_tmh(words).exit_code, 64) << words[2] << ' ' << words[3];
  }
  for (const std::string &name : tools::victim_names())
    EXPECT_EQ(run_tmh({"deadlockd", domain(), "--victim", name}).exit_code, 3) << name;
}

TEST_F(ToolLocks, WhateverTheTableHoldsItEnds) {
  leave_dead();
  const std::string path = domain() + "/tmh.locks";
  const std::string whole = read_file(path);
  std::mt19937_64 random(seed());
  const std::uint64_t used =
      std::min<std::uint64_t>(whole.size(), lock::kCellsAt + 200 * sizeof(lock::RequestCell));
  ASSERT_GT(used, lock::kCellsAt);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> places;
    for (std::uint64_t left = 1 + random() % 8; left > 0; --left) {
      const bool is_header = random() % 4 == 0;
      places.push_back(is_header ? random() % lock::kBucketsAt
                                 : lock::kCellsAt + random() % (used - lock::kCellsAt));
      const std::uint64_t value = random() % 2 == 0 ? random() : random() % 64;
      patch_file(path, places.back(), std::string(1, static_cast<char>(value)));
    }
    (void)tools::read_locks(domain());
    (void)tools::read_lock_totals(domain(), true);
    if (round % 30 == 0) {
      EXPECT_EQ(run_tmh({"locks", domain()}).exit_code, 0);
      EXPECT_EQ(run_tmh({"stat", domain()}).exit_code, 0);
    }
    if (round % 100 == 0) {
      (void)top();
    }
    for (const std::uint64_t place : places) patch_file(path, place, whole.substr(place, 1));
  }
  ASSERT_EQ(tools::read_locks(domain()).objects.size(), 10u);
  // More cells than there are, in a file that is nearly all holes.
  patch_file(path, offsetof(lock::LockHeader, capacity), "\xff\xff\xff\xff");
  fs::resize_file(path, std::uint64_t{1} << 35);
  EXPECT_EQ(tools::read_locks(domain()).objects.size(), 10u);
  for (const std::uint64_t bytes :
       {lock::kCellsAt + 100, lock::kBucketsAt, std::uint64_t{100}, std::uint64_t{0}}) {
    fs::resize_file(path, bytes);
    EXPECT_EQ(run_tmh({"locks", domain()}).exit_code, 0) << bytes;
    EXPECT_EQ(stat().at("lock_table"), bytes >= sizeof(lock::LockHeader)) << bytes;
  }
  fs::remove(path);
  EXPECT_EQ(locks().at("lock_table"), false);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(run_tmh({"locks", domain()}).exit_code, 3);
  EXPECT_EQ(run_tmh({"stat", domain()}).exit_code, 3);
}

}  // namespace
}  // namespace tmh::test
