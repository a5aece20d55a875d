// tests/itm/gate_test.cpp -- threads in transactions, and one that gets the process for itself.
// Invariants: (1) while a thread is alone no other one is inside. (2) wait_for_readers() returns
//             when no thread inside is at an earlier snapshot. (3) who tries in vain to be alone
//             from inside has changed nothing. (4) while a fork holds the gate, only one that is
//             irrevocable is inside.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "compat/libitm/gate.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

using itm::Gate;

// Threads with a slot and random choices of their own.
template <class Body>
std::vector<std::thread> start_threads(Gate &gate, unsigned count, const Body &body) {
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < count; ++number)
    threads.emplace_back([&gate, &body, number] {
      Gate::Slot *const slot = gate.take_slot();
      ASSERT_NE(slot, nullptr);
      std::mt19937_64 random(seed() + number);
      body(slot, random);
      Gate::give_back(*slot);
    });
  return threads;
}

TEST(Gate, AThreadIsAlone) {
  const auto gate = std::make_unique<Gate>();
  std::atomic<std::uint64_t> clock{1};
  std::uint64_t guarded = 0;  // plain: the lone thread has it
  std::atomic<int> inside{0};
  const auto run = [&](Gate::Slot *slot, std::mt19937_64 &random) {
    for (int i = 0; i < 2000; ++i) {
      if (random() % 4 == 0) {
        gate->be_alone(slot);
        EXPECT_EQ(inside.load(), 0);
        ++guarded;
        gate->end_alone(slot);
        continue;
      }
      gate->enter(*slot, clock);
      inside.fetch_add(1);
      if (random() % 4 == 0) {
        inside.fetch_sub(1);
        if (gate->try_be_alone(slot, slot)) {
          EXPECT_EQ(inside.load(), 0);
          ++guarded;
          Gate::leave(*slot);
          gate->end_alone(slot);
          continue;
        }
        inside.fetch_add(1);
      }
      inside.fetch_sub(1);
      Gate::leave(*slot);
    }
  };
  std::vector<std::thread> threads = start_threads(*gate, 4, run);
  for (std::thread &thread : threads) thread.join();
  EXPECT_GT(guarded, 0U);
}

TEST(Gate, AForkWaitsForAllButIrrevocableOnes) {
  const auto gate = std::make_unique<Gate>();
  std::atomic<std::uint64_t> clock{1};
  std::atomic<int> revocable{0}, alone{0};  // in a transaction now
  std::atomic<bool> is_over{false};
  const auto run = [&](Gate::Slot *slot, std::mt19937_64 &random) {
    while (!is_over.load()) {
      const bool is_irrevocable = random() % 2 == 0;
      if (random() % 2 == 0) {
        gate->enter(*slot, clock);
        revocable.fetch_add(1);
        EXPECT_EQ(alone.load(), 0);
        revocable.fetch_sub(1);
        Gate::leave(*slot);
        continue;
      }
      gate->be_alone(slot);
      EXPECT_EQ(alone.fetch_add(1), 0);
      if (is_irrevocable)
        gate->note_irrevocable(slot);
      else
        revocable.fetch_add(1);
      for (std::uint64_t i = random() % 64; i != 0; --i) EXPECT_EQ(alone.load(), 1);
      if (!is_irrevocable) revocable.fetch_sub(1);
      alone.fetch_sub(1);
      gate->end_alone(slot);
    }
  };
  std::vector<std::thread> threads = start_threads(*gate, 3, run);
  for (int i = 0; i < 3000; ++i) {
    gate->hold(&clock);
    for (int k = 0; k < 20; ++k) EXPECT_EQ(revocable.load(), 0);
    gate->let_go(&clock);
  }
  // One that goes on until the fork has been.
  gate->be_alone(&is_over);
  gate->note_irrevocable(&is_over);
  gate->hold(&clock);
  gate->let_go(&clock);
  EXPECT_TRUE(gate->is_alone(&is_over));
  gate->hold(&clock);
  gate->end_alone(&is_over);
  EXPECT_TRUE(gate->is_alone(&clock));
  gate->let_go(&clock);
  is_over.store(true);
  for (std::thread &thread : threads) thread.join();
  EXPECT_FALSE(gate->is_anyone_alone());
}

// In the child the forking thread goes on; the other fork's thread is not there.
TEST(Gate, ATransactionThatForksWhileAnotherForkHoldsIsAloneInTheChild) {
  const auto gate = std::make_unique<Gate>();
  const int own = 0, other = 0;
  gate->be_alone(&own);
  gate->note_irrevocable(&own);
  gate->hold(&other);
  gate->forget_others(nullptr, &own);
  ASSERT_TRUE(gate->is_alone(&own));
  gate->end_alone(&own);
  EXPECT_FALSE(gate->is_anyone_alone());
  gate->hold(&other);
  gate->forget_others(nullptr, nullptr);
  EXPECT_FALSE(gate->is_anyone_alone());
}

TEST(Gate, ReadersOfEarlierSnapshotsAreWaitedFor) {
  const auto gate = std::make_unique<Gate>();
  std::atomic<std::uint64_t> clock{5};
  Gate::Slot *const reader = gate->take_slot(), *const writer = gate->take_slot();
  gate->enter(*reader, clock);
  gate->wait_for_readers(writer, 5);  // it reads at 5
  std::atomic<bool> is_through{false};
  std::thread committer([&] {
    gate->wait_for_readers(writer, 6);
    is_through.store(true);
  });
  EXPECT_FALSE(is_through.load());
  Gate::move_on(*reader, 6);
  committer.join();
  EXPECT_TRUE(is_through.load());
  Gate::leave(*reader);
}

TEST(Gate, SlotsAreUsedAgainAndAnEndOfOthersFreesTheirs) {
  const auto gate = std::make_unique<Gate>();
  std::atomic<std::uint64_t> clock{1};
  Gate::Slot *const one = gate->take_slot(), *const two = gate->take_slot();
  Gate::give_back(*one);
  EXPECT_EQ(gate->take_slot(), one);
  gate->enter(*two, clock);
  gate->forget_others(one, nullptr);
  gate->be_alone(one);  // two is not waited for
  gate->end_alone(one);
  EXPECT_EQ(gate->take_slot(), two);
}

}  // namespace
}  // namespace tmh::test
