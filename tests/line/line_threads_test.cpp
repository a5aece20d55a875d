// tests/line/line_threads_test.cpp -- several threads at level 1: invariants of a bank and a list,
// in every attempt, under every conflict policy.
// Invariants: (1) the accounts add up to the same sum in every attempt, also in those that abort
//             (opacity). (2) the list is sorted and ends in every attempt, and holds what the
//             sequence of commits says. (3) nobody starves.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include <tmh/field.hpp>

#include "platform/process.h"
#include "tests/support/line_rig.h"
#include "tests/support/preempted.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using line::Begin;

constexpr ConflictPolicy kPolicies[] = {ConflictPolicy::kSelfAbort, ConflictPolicy::kOldestWins,
                                        ConflictPolicy::kSelfishAbort,
                                        ConflictPolicy::kYoungestWins};
// More than this machine may have cores: threads lose theirs in the middle.
constexpr unsigned kThreads = 3;
constexpr std::int64_t kBalance = 100;

struct Account {
  field<std::int64_t> balance;
};

class LineThreadsTest : public testing::TestWithParam<ConflictPolicy> {
 protected:
  [[nodiscard]] Begin options(std::uint64_t random) const {
    Begin begin;
    begin.policy.conflict = GetParam();
    begin.policy.keep_age = random % 4 != 0;
    return begin;
  }
  // Runs `body(thread, random)` in each of several threads.
  template <class Body>
  void run_threads(const Body &body) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        try {
          RigThread thread(rig_);
          std::mt19937_64 random(seed() + i);
          body(thread, random);
        } catch (const std::exception &error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
  }

  MemoryFolder folder_;
  LineRig rig_{folder_.path()};
};

TEST_P(LineThreadsTest, BankKeepsItsSumInEveryAttempt) {
  constexpr std::uint64_t kAccounts = 24;  // 24 bytes apart: some share a line
  constexpr int kRounds = 60'000;
  auto *accounts = reinterpret_cast<Account *>(rig_.view());
  {
    RigThread setup(rig_);
    setup.update([&] {
      for (std::uint64_t i = 0; i < kAccounts; ++i) accounts[3 * i].balance = kBalance;
    });
  }
  const auto sum = [&] {
    std::int64_t total = 0;
    for (std::uint64_t i = 0; i < kAccounts; ++i) total += accounts[3 * i].balance;
    return total;
  };
  std::atomic<std::uint64_t> zombies{0};
  run_threads([&](RigThread &thread, std::mt19937_64 &random) {
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t dice = random(), from = dice % kAccounts, to = dice / 64 % kAccounts;
      if (dice % 8 == 0) {
        thread.query([&] { zombies += sum() != kBalance * std::int64_t{kAccounts} ? 1 : 0; });
      } else if (dice % 8 == 1) {
        // An update that looks at everything, and again with its own stores.
        thread.update(
            [&] {
              zombies += sum() != kBalance * std::int64_t{kAccounts} ? 1 : 0;
              accounts[3 * from].balance -= 1;
              accounts[3 * to].balance += 1;
              zombies += sum() != kBalance * std::int64_t{kAccounts} ? 1 : 0;
            },
            options(dice));
      } else {
        thread.update(
            [&] {
              accounts[3 * from].balance -= 1;
              accounts[3 * to].balance += 1;
            },
            options(dice));
      }
    }
  });
  EXPECT_EQ(zombies.load(), 0U) << "attempts that saw a sum that never was";
  EXPECT_EQ(sum(), kBalance * std::int64_t{kAccounts});
}

struct Node {
  field<std::uint64_t> key;
  field<Node *> next;
};

TEST_P(LineThreadsTest, SortedListHoldsWhatWasCommitted) {
  constexpr std::uint64_t kKeys = 64;
  constexpr int kRounds = 8'000;
  // Node 0 is the head; each thread has its own, one per key.
  auto *nodes = reinterpret_cast<Node *>(rig_.view());
  std::atomic<std::int64_t> inserted{0};
  std::atomic<std::uint64_t> zombies{0};
  std::atomic<unsigned> next_pool{0};
  run_threads([&](RigThread &thread, std::mt19937_64 &random) {
    Node *pool = nodes + 1 + std::uint64_t{next_pool++} * kRounds;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t dice = random(), key = 1 + dice % kKeys;
      int change = 0;
      // Never reused: a node taken out may still be looked at by a doomed attempt of another.
      Node *fresh = pool + round;
      const auto body = [&] {
        change = 0;
        Node *before = nodes;
        std::uint64_t last = 0, steps = 0;
        for (Node *node = before->next; node != nullptr; node = node->next) {
          const std::uint64_t here = node->key;
          if (here <= last || ++steps > kKeys) {
            ++zombies;
            return;
          }
          last = here;
          if (here >= key) {
            if (here == key) {
              if (dice / 256 % 2 == 0) return;
              before->next = node->next.load();
              change = -1;
              return;
            }
            break;
          }
          before = node;
        }
        if (dice / 256 % 2 != 0) return;
        fresh->key = key;
        fresh->next = before->next.load();
        before->next = fresh;
        change = 1;
      };
      thread.update(body, options(dice));
      inserted += change;
    }
  });
  std::int64_t count = 0;
  std::uint64_t last = 0;
  for (Node *node = nodes->next; node != nullptr; node = node->next) {
    EXPECT_GT(node->key, last);
    last = node->key;
    ++count;
  }
  EXPECT_EQ(count, inserted.load());
  EXPECT_EQ(zombies.load(), 0U);
}

// A long update among short ones finishes: priority.
TEST_P(LineThreadsTest, LongUpdateIsNotStarvedByShortOnes) {
  auto *words = reinterpret_cast<field<std::uint64_t> *>(rig_.view());
  std::atomic<bool> stop{false};
  std::atomic<unsigned> role{0}, short_ones{0};
  constexpr unsigned kLongUpdates = 50;
  constexpr std::uint64_t kLongNs = 50'000'000;
  std::uint32_t overtaken_max = 0;
  run_threads([&](RigThread &thread, std::mt19937_64 &random) {
    if (role++ == 0) {
      // Until others have competed.
      for (unsigned i = 0; i < kLongUpdates || short_ones < kLongUpdates; ++i) {
        // Attempts in which its processor was taken away for so long that it may have lost its
        // priority.
        std::uint32_t interrupted = 0;
        std::uint64_t preempted = times_preempted(), begin_ns = platform::monotonic_ns();
        const std::uint32_t attempts = thread.update(
            [&] {
              const std::uint64_t now = times_preempted(), now_ns = platform::monotonic_ns();
              interrupted += now != preempted && now_ns - begin_ns > kLongNs ? 1 : 0;
              preempted = now;
              begin_ns = now_ns;
              std::uint64_t sum = 0;
              for (std::uint64_t line = 0; line < 2000; ++line) sum += words[8 * line];
              words[8 * 2000] = sum;
            },
            options(1));
        overtaken_max = std::max(overtaken_max, attempts / (1 + interrupted));
      }
      stop = true;
    }
    while (!stop) {
      const std::uint64_t line = random() % 2000;
      thread.update([&] { ++words[8 * line]; }, options(random()));
      ++short_ones;
    }
  });
  EXPECT_LE(overtaken_max, line::kPriorityAttempts + 12)
      << "in-flight commits may overtake it a few times after it has priority";
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, LineThreadsTest, testing::ValuesIn(kPolicies),
                         [](const testing::TestParamInfo<ConflictPolicy> &policy) {
                           switch (policy.param) {
                             case ConflictPolicy::kSelfAbort:
                               return "SelfAbort";
                             case ConflictPolicy::kOldestWins:
                               return "OldestWins";
                             case ConflictPolicy::kSelfishAbort:
                               return "SelfishAbort";
                             default:
                               return "YoungestWins";
                           }
                         });

}  // namespace
}  // namespace tmh::test
