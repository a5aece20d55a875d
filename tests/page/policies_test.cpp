// tests/page/policies_test.cpp -- the pure decisions: conflict verdict, backoff bound, starvation
// turn.
// Invariants, each over every class of inputs:
//   (1) self-abort always fails self, selfish-abort always the others.
//   (2) oldest-wins: self wins exactly when it is older than all; youngest-wins: exactly when
//       younger than all.
//   (3) of two instances with different ages that discover each other, an age policy lets the same
//       one win both times.
//   (4) oldest-wins and youngest-wins: in any set some instance wins against all others (no
//       livelock).
//   (5) the backoff bound never shrinks with attempts, never exceeds the policy's bound, is 0 where
//       promised.
//   (6) a turn is taken from the kTurnAttempts-th abort on, and only by keep-age policies.
//   (7) an update gives way under upper-yields alone, kYieldsMax times, and that before its turn.
//   (8) level 1 waits for pages of level 2 within its bounds, and longer for large updates alone.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <tmh/lab.hpp>

#include "hierarchy/exchange/page_waits.h"
#include "hierarchy/transaction/policies.h"
#include "levels/page/shared/conflict.h"

namespace {

using tmh::Backoff;
using tmh::ConflictPolicy;
using tmh::CrossPolicy;
using tmh::Policy;
using tmh::hierarchy::backoff_ns_max;
using tmh::hierarchy::kTurnAttempts;
using tmh::hierarchy::take_turn;
using tmh::hierarchy::yields_to_lower;
using tmh::page::resolve;
using tmh::page::Verdict;

constexpr ConflictPolicy kPolicies[] = {ConflictPolicy::kSelfAbort, ConflictPolicy::kOldestWins,
                                        ConflictPolicy::kSelfishAbort,
                                        ConflictPolicy::kYoungestWins};
constexpr std::uint64_t kAgeMax = std::numeric_limits<std::uint64_t>::max();

// A decision is usable in a constant expression, thus free of clocks and globals.
static_assert(resolve(ConflictPolicy::kOldestWins, 1, 2, 2) == Verdict::kFailOthers);
static_assert(backoff_ns_max(Backoff::kExponential, 3, 1000, false) == 8000);
static_assert(!take_turn(Policy{}.keep_age, 0));
static_assert(sizeof(Policy) <= 16);

// What the thesis's sentences say, written without the implementation's shortcut: against each
// other, one by one.
Verdict by_the_book(ConflictPolicy policy, std::uint64_t self,
                    const std::vector<std::uint64_t> &others) {
  const auto beats = [&](std::uint64_t other) {
    switch (policy) {
      case ConflictPolicy::kSelfAbort:
        return false;
      case ConflictPolicy::kOldestWins:
        return self < other;
      case ConflictPolicy::kSelfishAbort:
        return true;
      case ConflictPolicy::kYoungestWins:
        return self > other;
    }
    return false;
  };
  return std::all_of(others.begin(), others.end(), beats) ? Verdict::kFailOthers
                                                          : Verdict::kFailSelf;
}

// Only the order of ages matters, so 0..5 holds every ordering of self among up to three others;
// the two ends of the number range are mapped in as well.
TEST(Conflict, EveryOrderingAgreesWithTheThesis) {
  for (const auto policy : kPolicies) {
    for (std::uint64_t shift : {std::uint64_t{0}, kAgeMax - 5}) {
      for (std::uint64_t self = 0; self <= 5; ++self) {
        for (std::uint64_t a = 0; a <= 5; ++a) {
          for (std::uint64_t b = 0; b <= 5; ++b) {
            for (std::uint64_t c = 0; c <= 5; ++c) {
              const std::vector<std::uint64_t> others = {a + shift, b + shift, c + shift};
              const auto [least, most] = std::minmax_element(others.begin(), others.end());
              ASSERT_EQ(resolve(policy, self + shift, *least, *most),
                        by_the_book(policy, self + shift, others))
                  << "policy " << static_cast<int>(policy) << " self " << self << " others " << a
                  << b << c;
            }
          }
        }
      }
    }
  }
}

TEST(Conflict, AgePoliciesNameTheSameWinnerFromBothSides) {
  for (const auto policy : {ConflictPolicy::kOldestWins, ConflictPolicy::kYoungestWins}) {
    for (std::uint64_t a = 0; a <= 5; ++a) {
      for (std::uint64_t b = 0; b <= 5; ++b) {
        if (a == b) continue;
        EXPECT_NE(resolve(policy, a, b, b), resolve(policy, b, a, a)) << a << " against " << b;
      }
    }
  }
}

TEST(Conflict, EqualAgesFailTheDiscoverer) {
  EXPECT_EQ(resolve(ConflictPolicy::kOldestWins, 7, 7, 7), Verdict::kFailSelf);
  EXPECT_EQ(resolve(ConflictPolicy::kYoungestWins, 7, 7, 7), Verdict::kFailSelf);
}

TEST(Conflict, AgePoliciesLetExactlyOneOfAGroupBeatAllOthers) {
  const std::vector<std::uint64_t> ages = {3, 9, 4, 1, 7};
  for (const auto policy : {ConflictPolicy::kOldestWins, ConflictPolicy::kYoungestWins}) {
    int winners = 0;
    for (std::size_t self = 0; self < ages.size(); ++self) {
      std::vector<std::uint64_t> others = ages;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(self));
      const auto [least, most] = std::minmax_element(others.begin(), others.end());
      winners += resolve(policy, ages[self], *least, *most) == Verdict::kFailOthers;
    }
    EXPECT_EQ(winners, 1);
  }
}

// Attempts around the shift's end and the counter's end; bounds around every power of two that
// matters.
const std::vector<std::uint32_t> kAttempts = {
    0,  1,  2,  3,  7,  8,  9,  19, 20,
    29, 30, 31, 32, 33, 63, 64, 65, std::numeric_limits<std::uint32_t>::max()};
const std::vector<std::uint32_t> kBounds = {
    0, 1, 2, 3, 255, 256, 257, 1000, 1'000'000, std::numeric_limits<std::uint32_t>::max()};

TEST(BackoffBound, NoneNeverWaits) {
  for (auto attempt : kAttempts) {
    for (auto bound : kBounds) {
      for (bool progressed : {false, true})
        EXPECT_EQ(backoff_ns_max(Backoff::kNone, attempt, bound, progressed), 0u);
    }
  }
}

TEST(BackoffBound, ExponentialDoublesUpToTheBoundWhateverOthersDo) {
  for (auto attempt : kAttempts) {
    for (auto bound : kBounds) {
      // By repeated doubling that stops at the bound: no shift to get wrong.
      std::uint64_t us = attempt == 0 ? 0 : 1;
      for (std::uint32_t i = 0; i < attempt && us < bound; ++i) us *= 2;
      us = std::min<std::uint64_t>(us, bound);
      for (bool progressed : {false, true}) {
        EXPECT_EQ(backoff_ns_max(Backoff::kExponential, attempt, bound, progressed), us * 1000)
            << "attempt " << attempt << " bound " << bound;
      }
    }
  }
}

TEST(BackoffBound, AdaptiveWaitsOnlyWhenNobodyProgresses) {
  for (auto attempt : kAttempts) {
    for (auto bound : kBounds) {
      EXPECT_EQ(backoff_ns_max(Backoff::kAdaptive, attempt, bound, true), 0u);
      EXPECT_EQ(backoff_ns_max(Backoff::kAdaptive, attempt, bound, false),
                backoff_ns_max(Backoff::kExponential, attempt, bound, false));
    }
  }
}

TEST(BackoffBound, NeverShrinksWithAttempts) {
  for (auto bound : kBounds) {
    std::uint64_t last = 0;
    for (auto attempt : kAttempts) {
      const auto now = backoff_ns_max(Backoff::kExponential, attempt, bound, false);
      EXPECT_GE(now, last);
      last = now;
    }
  }
}

TEST(Turn, IsTakenFromTheBoundOnByKeepAgeOnly) {
  for (const auto conflict : kPolicies) {
    for (const auto backoff : {Backoff::kNone, Backoff::kExponential, Backoff::kAdaptive}) {
      for (auto attempt : kAttempts) {
        Policy policy;
        policy.conflict = conflict;
        policy.backoff = backoff;
        policy.keep_age = true;
        EXPECT_EQ(take_turn(policy.keep_age, attempt), attempt >= kTurnAttempts);
        policy.keep_age = false;
        EXPECT_FALSE(take_turn(policy.keep_age, attempt));
      }
    }
  }
}

TEST(Yield, IsOfUpperYieldsAloneAndBounded) {
  static_assert(tmh::hierarchy::kYieldsMax > 0 && tmh::hierarchy::kYieldsMax < kTurnAttempts);
  for (const auto cross :
       {CrossPolicy::kAbortLower, CrossPolicy::kAbortUpper, CrossPolicy::kRecallAndWait,
        tmh::lab::kWaitForUpper, tmh::lab::kUpperYields}) {
    for (auto attempt : kAttempts) {
      const bool may = cross == tmh::lab::kUpperYields && attempt < tmh::hierarchy::kYieldsMax;
      EXPECT_EQ(yields_to_lower(cross, attempt), may);
    }
  }
}

// The two reasons given beside kTurnAttempts, so that changing a number there questions the other.
TEST(Turn, ComesAfterBackoffHasOutgrownTheLongestUsualInstance) {
  constexpr std::uint64_t kLongestUsualInstanceNs = 100'000;
  EXPECT_GT(backoff_ns_max(Backoff::kExponential, kTurnAttempts, Policy{}.backoff_us_max, false),
            kLongestUsualInstanceNs);
}

TEST(PageWait, EndsSoonButForLargeUpdates) {
  using namespace tmh;
  using hierarchy::waits_for_page;
  using line::Insists;
  for (const bool by_update : {false, true}) {
    EXPECT_FALSE(waits_for_page(Insists::kNo, by_update, 0, 0));
    EXPECT_TRUE(waits_for_page(Insists::kBriefly, by_update, hierarchy::kPageWaitNs - 1,
                               hierarchy::kPageWaitNs - 1));
    EXPECT_FALSE(waits_for_page(Insists::kBriefly, by_update, hierarchy::kPageWaitNs, 0));
  }
  EXPECT_FALSE(waits_for_page(Insists::kLong, false, hierarchy::kPageWaitNs, 0))
      << "a query may last";
  EXPECT_TRUE(waits_for_page(Insists::kLong, true, hierarchy::kPageWaitNs, hierarchy::kPageWaitNs));
  EXPECT_FALSE(waits_for_page(Insists::kLong, true, hierarchy::kLargePageWaitNs,
                              hierarchy::kLargePageWaitNs));
  EXPECT_TRUE(waits_for_page(Insists::kLong, true, hierarchy::kLargePageWaitNs, 0))
      << "another one's turn";
  EXPECT_FALSE(waits_for_page(Insists::kLong, true, hierarchy::kPageWaitNsMax, 0));
}

}  // namespace
