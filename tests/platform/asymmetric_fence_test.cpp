// tests/platform/asymmetric_fence_test.cpp -- the two halves of a fence, between two threads that
// each store and then load what the other stores.
// Invariant: never do both load the old value. With two light halves they mostly do in some rounds
//            on a machine with two cores, which is printed, not demanded: with one core nobody sees
//            it.
#include "platform/asymmetric_fence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

namespace tmh::test {
namespace {

constexpr int kRounds = 30'000;

struct Words {
  alignas(64) std::atomic<int> x{0};
  alignas(64) std::atomic<int> y{0};
  alignas(64) std::atomic<int> arrived{0};
};

void meet(std::atomic<int> &arrived, int wanted) {
  arrived.fetch_add(1);
  for (int spins = 0; arrived.load() < wanted; ++spins)
    if (spins > 1000) std::this_thread::yield();
}

// In how many rounds both have loaded what was there before. Whoever comes to a round has done the
// one before.
template <class OneFence, class OtherFence>
int missed_by_both(int rounds, OneFence one, OtherFence other) {
  Words words;
  const auto play = [&words, rounds](std::atomic<int> &mine, const std::atomic<int> &its,
                                     const auto &fence) {
    std::vector<int> seen(static_cast<std::size_t>(rounds));
    for (int round = 0; round < rounds; ++round) {
      meet(words.arrived, 2 * round + 2);
      mine.store(round + 1, std::memory_order_relaxed);
      fence();
      seen[static_cast<std::size_t>(round)] = its.load(std::memory_order_relaxed);
    }
    return seen;
  };
  std::vector<int> seen_by_other;
  std::thread beside([&] { seen_by_other = play(words.y, words.x, other); });
  const std::vector<int> seen_by_one = play(words.x, words.y, one);
  beside.join();
  int missed = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto at = static_cast<std::size_t>(round);
    if (seen_by_one[at] <= round && seen_by_other[at] <= round) ++missed;
  }
  return missed;
}

TEST(AsymmetricFence, OneOfTwoSeesTheOther) {
  const auto light = [] { platform::light_fence(); };
  const auto heavy = [] { platform::heavy_fence(); };
  EXPECT_EQ(missed_by_both(kRounds, light, heavy), 0);
  EXPECT_EQ(missed_by_both(kRounds, heavy, light), 0);
  constexpr int kRoundsToPrint = kRounds / 10;
  std::printf("two light halves: both missed in %d of %d rounds\n",
              missed_by_both(kRoundsToPrint, light, light), kRoundsToPrint);
}

}  // namespace
}  // namespace tmh::test
