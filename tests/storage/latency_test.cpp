// tests/storage/latency_test.cpp -- latency histograms: the buckets and the sampling. What a domain
// records: tool_latency_test.cpp.
// Invariants: (1) a quantile is never below the exact one, and at most 1/16, or 3 ns, above. (2)
//             sampled counts stand for all attempts, also of programs that do things in turns. (3)
//             who leaves a table takes no record along that another thread makes meanwhile. (4) a
//             table whose maker has died on the way is made by the next one.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <tmh/latency.hpp>

#include "observe/latency_sampler.h"
#include "storage/latency_table.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using observe::Sampler;
using observe::Timed;

// Times of all orders of magnitude, within what a histogram tells apart.
rc::Gen<std::uint64_t> any_ns() {
  return rc::gen::map(rc::gen::pair(rc::gen::inRange(0, 36), rc::gen::arbitrary<std::uint64_t>()),
                      [](const auto &one) { return one.second % (std::uint64_t{1} << one.first); });
}

RC_GTEST_PROP(HistogramProperty, ATimeLiesInItsBucket, ()) {
  const std::uint64_t ns = *any_ns();
  const std::size_t bucket = Histogram::bucket_of(ns);
  RC_ASSERT(bucket < Histogram::kBuckets);
  RC_ASSERT(ns <= Histogram::last_ns(bucket));
  RC_ASSERT(bucket == 0 || ns > Histogram::last_ns(bucket - 1));
}

TEST(Histogram, BucketsFollowEachOtherAndAreNarrow) {
  for (std::size_t i = 1; i + 1 < Histogram::kBuckets; ++i) {
    const std::uint64_t first = Histogram::last_ns(i - 1) + 1, last = Histogram::last_ns(i);
    ASSERT_GE(last, first) << i;
    EXPECT_LE(last - first, std::max<std::uint64_t>(Histogram::kUnitNs - 1, first / 16)) << i;
    EXPECT_EQ(Histogram::bucket_of(first), i);
    EXPECT_EQ(Histogram::bucket_of(last), i);
    EXPECT_EQ(Histogram::bucket_of(last + 1), i + 1);
  }
  EXPECT_EQ(Histogram::bucket_of(~0ull), Histogram::kBuckets - 1);
  EXPECT_GE(Histogram::last_ns(Histogram::kBuckets - 2), 60'000'000'000u)
      << "a minute is told apart";
}

RC_GTEST_PROP(HistogramProperty, QuantilesAreThoseOfTheSortedTimes, ()) {
  std::vector<std::uint64_t> times =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::uint64_t>>(any_ns()));
  Histogram histogram;
  for (const std::uint64_t ns : times) histogram.add(ns);
  std::sort(times.begin(), times.end());
  RC_ASSERT(histogram.count() == times.size());
  RC_ASSERT(histogram.max_ns() == times.back());
  for (const double fraction : {0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = std::max<std::size_t>(
        1, static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(times.size()))));
    const std::uint64_t exact = times[rank - 1], told = histogram.quantile_ns(fraction);
    RC_ASSERT(told >= exact);
    RC_ASSERT(told <= exact + std::max<std::uint64_t>(Histogram::kUnitNs - 1, exact / 16));
  }
}

RC_GTEST_PROP(HistogramProperty, SumsAndDifferencesAreThoseOfTheTimes, ()) {
  const auto first = *rc::gen::container<std::vector<std::uint64_t>>(any_ns());
  const auto second = *rc::gen::container<std::vector<std::uint64_t>>(any_ns());
  Histogram a, b, both;
  for (const std::uint64_t ns : first) a.add(ns), both.add(ns);
  for (const std::uint64_t ns : second) b.add(ns), both.add(ns);
  Histogram sum = a;
  sum += b;
  const Histogram fresh = sum.since(a);
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
    RC_ASSERT(sum.count_in(i) == both.count_in(i));
    RC_ASSERT(fresh.count_in(i) == b.count_in(i));
  }
  RC_ASSERT(sum.sum_ns() == both.sum_ns());
  RC_ASSERT(sum.max_ns() == both.max_ns());
}

TEST(Histogram, EmptyOneHasNoQuantilesAndHostileCountsNoLoop) {
  EXPECT_EQ(Histogram{}.quantile_ns(0.5), 0u);
  EXPECT_EQ(Histogram{}.mean_ns(), 0);
  Histogram hostile;
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i) hostile.add_bucket(i, ~0ull - i);
  for (const double fraction : {-1.0, 0.0, 0.5, 1.0, 2.0}) (void)hostile.quantile_ns(fraction);
}

// One attempt after the other, each of its own length; returns what the timed ones stand for, by
// kind of attempt.
std::vector<double> sampled(const std::vector<std::uint64_t> &ticks_by_kind, std::size_t attempts) {
  Sampler sampler;
  std::vector<double> counted(ticks_by_kind.size());
  std::uint64_t now = 1'000'000'000;
  for (std::size_t i = 0; i < attempts; ++i) {
    const std::size_t kind = i % ticks_by_kind.size();
    const Timed timed = sampler.is_due() ? sampler.fire(now) : sampler.next();
    counted[kind] += timed.count;
    now += ticks_by_kind[kind];
  }
  return counted;
}

// Everything here is computed: no clock.
TEST(Sampler, TimedAttemptsStandForAll) {
  constexpr std::size_t kAttempts = 1'000'000;
  for (const std::uint64_t ticks : {100u, 500u, 5'000u, 40'000u, 10'000'000u}) {
    const double counted = sampled({ticks}, kAttempts)[0];
    EXPECT_NEAR(counted / kAttempts, 1, 0.05) << ticks;
  }
}

TEST(Sampler, KindsThatTakeTurnsAreSampledFairly) {
  constexpr std::size_t kAttempts = 2'000'000;
  for (const std::vector<std::uint64_t> &ticks : {std::vector<std::uint64_t>{500, 500},
                                                  {500, 20'000},
                                                  {500, 500, 500, 500, 500, 500, 500, 60'000},
                                                  {200, 10'000'000}}) {
    const std::vector<double> counted = sampled(ticks, kAttempts);
    for (std::size_t kind = 0; kind < ticks.size(); ++kind)
      EXPECT_NEAR(counted[kind] * static_cast<double>(ticks.size()) / kAttempts, 1, 0.1)
          << "kind " << kind << " of " << ticks.size();
  }
}

// All that the table counts, whoever has recorded it.
std::uint64_t recorded(const storage::LatencyTable &table) {
  std::uint64_t count = 0;
  for (const LatencySeries &one : table.read(std::vector<std::uint64_t>(storage::kParticipantsMax)))
    count += one.histogram.count();
  return count;
}

TEST(LatencyTable, WhatIsRecordedAfterLeavingLandsOnNobodysPage) {
  const MemoryFolder folder;
  storage::LatencyTable reader;
  ASSERT_EQ(reader.open(folder.path(), 9, 100, true), Errc::kOk);
  // From the second on the page is free when its owner has left.
  for (std::uint64_t round = 1; round <= 3; ++round) {
    storage::LatencyTable table;
    ASSERT_EQ(table.open(folder.path(), 0, round, false), Errc::kOk);
    storage::LatencySite site;
    site.use(&table, 0);
    site.record(LatencyLevel::kPages, AbortCause::kNone, 100, 1);
    table.leave();
    site.record(LatencyLevel::kPages, AbortCause::kNone, 100, 1000);
    EXPECT_EQ(recorded(reader), round);
  }
}

TEST(LatencyTable, LeavingWaitsForThoseWhoRecord) {
  const MemoryFolder folder;
  storage::LatencyTable reader;
  ASSERT_EQ(reader.open(folder.path(), 9, 100, true), Errc::kOk);
  for (std::uint64_t round = 1; round <= 50; ++round) {
    storage::LatencyTable table;
    ASSERT_EQ(table.open(folder.path(), 0, round, false), Errc::kOk);
    storage::LatencySite site;
    site.use(&table, 0);
    site.record(LatencyLevel::kLines, AbortCause::kNone, 100, 1);
    std::atomic<bool> go_on{true};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&] {
        while (go_on.load()) site.record(LatencyLevel::kLines, AbortCause::kNone, 100, 1);
      });
    table.leave();
    const std::uint64_t when_left = recorded(reader);
    std::this_thread::yield();
    go_on.store(false);
    for (std::thread &one : threads) one.join();
    // The next one finds its page empty, or it would count what others have left there.
    storage::LatencyTable next;
    ASSERT_EQ(next.open(folder.path(), 0, 1000 + round, false), Errc::kOk);
    storage::LatencySite fresh;
    fresh.use(&next, 0);
    fresh.record(LatencyLevel::kLines, AbortCause::kNone, 100, 1);
    EXPECT_EQ(recorded(reader), when_left + 1);
    next.leave();
  }
}

// The maker stores the magic number last.
TEST(LatencyTable, WhatADeadMakerLeavesIsMadeByTheNextOne) {
  using storage::LatencyHeaderV1;
  const MemoryFolder folder;
  const std::string path = storage::latency_path(folder.path());
  std::string whole(offsetof(LatencyHeaderV1, refused), 0);
  {
    storage::LatencyTable maker;
    ASSERT_EQ(maker.open(folder.path(), 0, 1, true), Errc::kOk);
    std::ifstream(path, std::ios::binary).read(whole.data(), std::ssize(whole));
  }
  for (const std::size_t stored :
       {offsetof(LatencyHeaderV1, version), offsetof(LatencyHeaderV1, header_bytes),
        offsetof(LatencyHeaderV1, boot_id), offsetof(LatencyHeaderV1, boot_id) + 20,
        whole.size()}) {
    SCOPED_TRACE(stored);
    std::string left(whole.size(), 0);
    std::copy(whole.begin() + sizeof(LatencyHeaderV1::magic),
              whole.begin() + static_cast<std::ptrdiff_t>(stored),
              left.begin() + sizeof(LatencyHeaderV1::magic));
    std::ofstream(path, std::ios::binary | std::ios::in).write(left.data(), std::ssize(left));
    storage::LatencyTable next;
    ASSERT_EQ(next.open(folder.path(), 0, 2, false), Errc::kOk);
    std::string found(whole.size(), 0);
    std::ifstream(path, std::ios::binary).read(found.data(), std::ssize(found));
    EXPECT_EQ(found, whole);
  }
}

}  // namespace
}  // namespace tmh::test
