// tests/tp/tp_buffers_test.cpp -- pinned pages, and waits for events.
// Invariants: (1) what is stored between pin and unpin is there with its records, or not at all.
//             (2) a page that is locked is the newest, whenever it was pinned.
//             (3) a store without a lock that meets another's is an error, and nothing is lost.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <tp.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

#include <tmh/error.hpp>

#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

class TpBuffersTest : public ::testing::Test {
 protected:
  TpBuffersTest() { open(); }
  ~TpBuffersTest() override { close(); }
  void open() {
    EXPECT_EQ(tp_open(folder_.path().c_str(), nullptr, &env_), TP_OK) << tp_last_error();
    EXPECT_EQ(tp_buf_open(env_, "file", O_RDWR | O_CREAT, 0600, &fid_), TP_OK) << tp_last_error();
  }
  void close() { EXPECT_EQ(tp_close(env_), TP_OK) << tp_last_error(); }
  tp_txn *begin() {
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(env_, &txn), TP_OK) << tp_last_error();
    return txn;
  }
  std::uint64_t *pin(tp_txn *txn, std::uint64_t page, size_t *bytes = nullptr) {
    void *address = nullptr;
    EXPECT_EQ(tp_buf_pin(txn, fid_, page, bytes, &address), TP_OK) << tp_last_error();
    return static_cast<std::uint64_t *>(address);
  }
  void unpin(tp_txn *txn, void *page) {
    EXPECT_EQ(tp_buf_unpin(txn, page), TP_OK) << tp_last_error();
  }
  int lock(tp_txn *txn, std::uint64_t page, std::uint64_t wait_us = TP_FOREVER) {
    return tp_lock(txn, {static_cast<std::uint64_t>(fid_), page}, TP_EXCLUSIVE, wait_us);
  }
  void change(tp_txn *txn, std::uint64_t *word, std::uint64_t to) {
    EXPECT_EQ(tp_log_bytes(tp_running_step(txn), word, sizeof *word, nullptr), TP_OK)
        << tp_last_error();
    *word = to;
  }
  std::uint64_t first_of(std::uint64_t page) {
    tp_txn *txn = begin();
    std::uint64_t *const words = pin(txn, page);
    const std::uint64_t value = words[0];
    unpin(txn, words);
    EXPECT_EQ(tp_commit(txn), TP_OK);
    return value;
  }

  MemoryFolder folder_;
  tp_env *env_ = nullptr;
  int fid_ = -1;
};

TEST_F(TpBuffersTest, PagesCommitAndAbort) {
  tp_txn *txn = begin();
  EXPECT_EQ(tp_running_step(txn), nullptr);
  EXPECT_EQ(lock(txn, 3), TP_OK);
  size_t bytes = 99;
  std::uint64_t *page = pin(txn, 3, &bytes);
  EXPECT_EQ(bytes, 0u);
  change(txn, page, 1);
  std::uint64_t *const again = pin(txn, 3);
  EXPECT_EQ(again, page);
  unpin(txn, again);
  EXPECT_NE(tp_running_step(txn), nullptr);
  unpin(txn, page);
  EXPECT_EQ(tp_running_step(txn), nullptr);
  EXPECT_EQ(tp_commit(txn), TP_OK);

  txn = begin();
  EXPECT_EQ(lock(txn, 3), TP_OK);
  page = pin(txn, 3, &bytes);
  EXPECT_EQ(bytes, static_cast<size_t>(TP_PAGE_BYTES));
  EXPECT_EQ(page[0], 1u);
  change(txn, page, 2);
  unpin(txn, page);
  page = pin(txn, 3);
  change(txn, page, 3);
  EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();  // while it is pinned
  EXPECT_EQ(first_of(3), 1u);
  EXPECT_EQ(tp_buf_sync(env_, fid_), TP_OK);
}

TEST_F(TpBuffersTest, WhatIsLockedWhilePagesArePinnedIsTheNewest) {
  tp_txn *holder = begin(), *waiter = begin();
  EXPECT_EQ(lock(holder, 1), TP_OK);
  EXPECT_EQ(lock(waiter, 2), TP_OK);
  std::atomic<bool> is_pinned{false};
  std::thread other([&] {
    std::uint64_t *const mine = pin(waiter, 2);
    change(waiter, mine, 20);
    is_pinned = true;
    is_pinned.notify_all();
    EXPECT_EQ(lock(waiter, 1), TP_OK);  // waits, with a page pinned and changed
    std::uint64_t *const page = pin(waiter, 1);
    EXPECT_EQ(page[0], 10u);
    change(waiter, page, page[0] + 1);
    unpin(waiter, page);
    EXPECT_EQ(mine[0], 20u);
    unpin(waiter, mine);
  });
  is_pinned.wait(false);
  std::uint64_t *const page = pin(holder, 1);
  change(holder, page, 10);
  unpin(holder, page);
  EXPECT_EQ(tp_commit(holder), TP_OK);
  other.join();
  EXPECT_EQ(tp_commit(waiter), TP_OK);
  EXPECT_EQ(first_of(1), 11u);
  EXPECT_EQ(first_of(2), 20u);
}

TEST_F(TpBuffersTest, AStoreWithoutALockIsFound) {
  Shared<Turn> turn;
  Children children;
  children.spawn("other", [&] {
    tp_env *env = nullptr;
    EXPECT_EQ(tp_open(folder_.path().c_str(), nullptr, &env), TP_OK);
    turn->await(1);
    tp_txn *txn = nullptr;
    void *page = nullptr;
    EXPECT_EQ(tp_begin(env, &txn), TP_OK);
    EXPECT_EQ(tp_buf_pin(txn, fid_, 1, nullptr, &page), TP_OK);
    *static_cast<std::uint64_t *>(page) = 7;
    EXPECT_EQ(tp_buf_unpin(txn, page), TP_OK);
    EXPECT_EQ(tp_commit(txn), TP_OK);
    turn->reach(2);
    EXPECT_EQ(tp_close(env), TP_OK);
  });
  tp_txn *txn = begin();
  std::uint64_t *page = pin(txn, 2);
  change(txn, page, 1);
  unpin(txn, page);
  page = pin(txn, 1);
  change(txn, page, 5);
  turn->reach(1);
  turn->await(2);
  EXPECT_EQ(tp_buf_unpin(txn, page), TP_ENOTLOCKED);
  EXPECT_EQ(tp_commit(txn), TP_ENOTLOCKED);
  void *nothing = nullptr;
  EXPECT_EQ(tp_buf_pin(txn, fid_, 1, nullptr, &nothing), TP_ENOTLOCKED);
  EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
  EXPECT_EQ(first_of(1), 7u);
  EXPECT_EQ(first_of(2), 0u);
  children.expect_success();
}

TEST_F(TpBuffersTest, ManyRecordsInOneStepGrowTheirFile) {
  tp_txn *txn = begin();
  EXPECT_EQ(lock(txn, 0), TP_OK);
  std::uint64_t *const page = pin(txn, 0);
  for (std::uint64_t i = 1; i <= 40'000; ++i) change(txn, page, i);
  unpin(txn, page);
  tp_savepoint none{tp_txn_id(txn), 0};
  EXPECT_EQ(tp_roll_back(txn, &none), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_commit(txn), TP_OK);
  EXPECT_EQ(first_of(0), 0u);
}

TEST_F(TpBuffersTest, WrongCallsAreRefused) {
  int fid = 0;
  EXPECT_EQ(tp_buf_open(env_, "nowhere", O_RDWR, 0, &fid), static_cast<int>(Errc::kIo));
  EXPECT_EQ(tp_buf_open(env_, "file", O_RDWR | O_CREAT | O_EXCL, 0600, &fid),
            static_cast<int>(Errc::kIo));
  EXPECT_EQ(tp_buf_open(env_, "file", O_RDWR | O_TRUNC, 0600, &fid), TP_EARGUMENT);
  EXPECT_EQ(tp_buf_open(env_, "file", O_RDWR, 0600, &fid), TP_OK);
  EXPECT_EQ(fid, fid_);
  tp_txn *txn = begin();
  void *page = nullptr;
  EXPECT_EQ(tp_buf_pin(txn, -1, 0, nullptr, &page), TP_EARGUMENT);
  EXPECT_EQ(tp_buf_pin(txn, 99, 0, nullptr, &page), TP_EARGUMENT);
  EXPECT_EQ(tp_buf_pin(txn, fid_, ~0ull, nullptr, &page), static_cast<int>(Errc::kSegmentFull));
  EXPECT_EQ(tp_buf_unpin(txn, &fid), TP_ENOSTEP);
  page = pin(txn, 0);
  EXPECT_EQ(tp_commit(txn), TP_ERUNNING);
  EXPECT_EQ(tp_buf_sync(env_, fid_), TP_ERUNNING);
  EXPECT_EQ(tp_sleep_on(env_, 1, 0, 0), TP_ERUNNING);
  EXPECT_EQ(tp_buf_unpin(txn, static_cast<char *>(page) + 1), TP_EARGUMENT);
  EXPECT_EQ(tp_buf_unpin(txn, &fid), TP_EARGUMENT);
  unpin(txn, page);
  EXPECT_EQ(tp_commit(txn), TP_OK);
}

// Mapping waits for the step of the pinned pages, which goes on.
TEST_F(TpBuffersTest, AFileIsMappedWhilePagesArePinned) {
  tp_txn *const txn = begin();
  std::uint64_t *const first = pin(txn, 0);
  int refused = -1;
  EXPECT_EQ(tp_buf_open(env_, "third", O_RDWR | O_CREAT, 0600, &refused), TP_ERUNNING);
  std::atomic<bool> maps = false;
  std::thread other([&] {
    int fid = -1;
    maps = true;
    EXPECT_EQ(tp_buf_open(env_, "other", O_RDWR | O_CREAT, 0600, &fid), TP_OK) << tp_last_error();
  });
  while (!maps) std::this_thread::yield();
  for (std::uint64_t i = 0; i < 20'000; ++i) unpin(txn, pin(txn, 1 + i % 8));
  unpin(txn, first);
  EXPECT_EQ(tp_commit(txn), TP_OK);
  other.join();
}

TEST_F(TpBuffersTest, WhoSleepsForAnEventIsWoken) {
  std::uint32_t seen = 0;
  EXPECT_EQ(tp_event(env_, 5, &seen), TP_OK);
  EXPECT_EQ(tp_sleep_on(env_, 5, seen, 2000), TP_ETIMEOUT);
  EXPECT_EQ(tp_sleep_on(env_, 5, seen + 1, TP_FOREVER), TP_OK);
  std::thread other([&] { EXPECT_EQ(tp_sleep_on(env_, 5, seen, TP_FOREVER), TP_OK); });
  EXPECT_EQ(tp_wake(env_, 5), TP_OK);
  other.join();
  tp_wait_counts counts{};
  EXPECT_EQ(tp_waits(env_, &counts), TP_OK);
  EXPECT_EQ(counts.events, 3u);
  EXPECT_GE(counts.event_ns, 2'000'000u);
  EXPECT_EQ(counts.locks, 0u);
}

}  // namespace
}  // namespace tmh::test
