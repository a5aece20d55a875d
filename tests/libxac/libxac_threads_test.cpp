// tests/libxac/libxac_threads_test.cpp -- the C interface: xShutdown beside other threads' calls.
// Invariants: (1) a transaction that has begun ends as it would have without xShutdown, which waits
//             for it. (2) A call that xShutdown overtakes, and each one after it, says that the
//             process is not initialised. (3) What the threads have committed is there in the next
//             session.
#include <gtest/gtest.h>
#include <xac.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tmh/error.hpp>

#include "tests/support/children.h"
#include "tests/support/process_state.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr int code(Errc errc) { return -static_cast<int>(errc); }
constexpr int kNotInitialized = code(Errc::kNotInitialized);

std::uint64_t *start(const TempFolder &folder) {
  EXPECT_EQ(xInit(folder.path().c_str(), NONDURABLE), 0) << xStrError(xLastError());
  void *address = xMmap("words.raw", PAGESIZE);
  EXPECT_NE(address, MAP_FAILED) << xStrError(xLastError());
  return static_cast<std::uint64_t *>(address);
}

// What the segment's first word is in a session of its own.
std::uint64_t first_word(const TempFolder &folder) {
  const std::uint64_t *words = start(folder);
  EXPECT_EQ(xbeginQuery(), 0);
  const std::uint64_t value = words[0];
  EXPECT_EQ(xendQuery(), 0);
  EXPECT_EQ(xShutdown(), 0);
  return value;
}

// Adds one to the word, until somebody has shut down. Returns how many times.
std::uint64_t add_until_shut_down(std::uint64_t *word) {
  std::uint64_t added = 0;
  for (;;) {
    if (const int begun = xbegin(); begun != 0) {
      EXPECT_EQ(begun, kNotInitialized);
      EXPECT_EQ(xLastError(), kNotInitialized);
      return added;
    }
    ++*word;
    const int ended = xend();
    EXPECT_TRUE(ended == COMMITTED || ended == ABORTED) << xStrError(ended);
    if (ended == COMMITTED) ++added;
  }
}

TEST(LibxacThreadsTest, CallsBesideAShutdownAreRefusedAndNothingIsLost) {
  constexpr int kSessions = 30, kThreads = 3;
  expect_child("shut down", [] {
    const TempFolder folder;
    std::atomic<std::uint64_t> added{0};
    for (int session = 0; session < kSessions; ++session) {
      std::uint64_t *words = start(folder);
      std::atomic<int> running{0}, shut_down{0};
      std::vector<std::thread> threads;
      for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
          ++running;
          added += add_until_shut_down(words);
        });
      // Calls that take no turn among the transactions.
      threads.emplace_back([&] {
        ++running;
        while (xSetPolicy("fresh-age") == 0 && xMmap("other.raw", PAGESIZE) != MAP_FAILED &&
               xMunmap("other.raw") == 0) {
        }
        EXPECT_EQ(xLastError(), kNotInitialized) << xStrError(xLastError());
      });
      while (running != kThreads + 1) std::this_thread::yield();
      std::thread other([&] {
        const int ended = xShutdown();
        EXPECT_TRUE(ended == 0 || ended == kNotInitialized) << xStrError(ended);
        if (ended == 0) ++shut_down;
      });
      const int ended = xShutdown();
      EXPECT_TRUE(ended == 0 || ended == kNotInitialized) << xStrError(ended);
      if (ended == 0) ++shut_down;
      other.join();
      EXPECT_EQ(shut_down, 1);
      for (std::thread &thread : threads) thread.join();
    }
    EXPECT_EQ(first_word(folder), added);
  });
}

// Whoever waits in xbegin is overtaken, and the one inside is not.
TEST(LibxacThreadsTest, ShutdownWaitsForTheTransactionOfAnotherThread) {
  expect_child("wait", [] {
    const TempFolder folder;
    std::uint64_t *words = start(folder);
    ASSERT_EQ(xbegin(), 0);
    words[0] = 7;
    int shut_down = 1;
    std::atomic<pid_t> ender_id{0}, waiter_id{0};
    std::thread ender([&] {
      ender_id = gettid();
      shut_down = xShutdown();
    });
    await_sleep(ender_id);
    std::thread waiter([&] {
      waiter_id = gettid();
      (void)add_until_shut_down(words + 1);
    });
    await_sleep(waiter_id);
    EXPECT_EQ(xShutdown(), code(Errc::kInstanceRunning));
    EXPECT_EQ(xInit(folder.path().c_str(), NONDURABLE), code(Errc::kAlreadyInitialized));
    EXPECT_EQ(xValidate(), PENDING);
    EXPECT_EQ(xend(), COMMITTED);
    ender.join();
    waiter.join();
    EXPECT_EQ(shut_down, 0);
    EXPECT_EQ(xbegin(), kNotInitialized);
    EXPECT_EQ(first_word(folder), 7U);
  });
}

// The keys of a thread outlive its thread_local objects, and go in an order that nobody knows.
TEST(LibxacThreadsTest, ThreadsThatEndMayCallToTheLast) {
  expect_child("ending", [] {
    const TempFolder folder;
    for (int session = 0; session < 20; ++session) {
      (void)start(folder);
      pthread_key_t key{};
      ASSERT_EQ(pthread_key_create(&key,
                                   [](void *) {
                                     while (xbegin() == 0) EXPECT_GT(xend(), 0);
                                     EXPECT_EQ(xLastError(), kNotInitialized);
                                   }),
                0);
      std::atomic<bool> has_called{false};
      std::thread ending([&] {
        EXPECT_EQ(xbegin(), 0);
        EXPECT_EQ(xend(), COMMITTED);
        EXPECT_EQ(pthread_setspecific(key, &key), 0);
        has_called = true;
      });
      while (!has_called) std::this_thread::yield();
      EXPECT_EQ(xShutdown(), 0);
      ending.join();
      EXPECT_EQ(pthread_key_delete(key), 0);
    }
  });
}

}  // namespace
}  // namespace tmh::test
