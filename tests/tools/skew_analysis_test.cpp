// tests/tools/skew_analysis_test.cpp -- which sites can skew, found in records made by hand.
// Invariants: (1) conflicts both ways with disjoint writes are a pair, one way is none. (2) A
//             common line, written or promoted, ends it. (3) Two instances overlap by their clocks,
//             within one life of the domain. (4) A cycle of three has a pivot. (5) What proves less
//             is told later.
#include "tools/skew_analysis.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tmh::test {
namespace {

using observe::SkewInstance;
using observe::SkewKind;
using observe::SkewPair;
using tools::analyse_skew;
using tools::SkewEvidence;
using tools::SkewPairFound;
using tools::SkewPivotFound;
using tools::SkewRecording;
using tools::SkewReport;

constexpr std::size_t kAll = 1000;
// Pages.
constexpr std::uint64_t kX = 10, kY = 20, kZ = 30;

SkewInstance update(const char *site, std::vector<std::uint64_t> reads,
                    std::vector<SkewPair> writes, std::uint64_t snapshot = 1,
                    std::uint64_t end = 2) {
  SkewInstance made;
  made.site = site;
  for (const std::uint64_t page : reads) made.reads.push_back({page, 1});
  made.writes = std::move(writes);
  made.snapshot = snapshot;
  made.end = end;
  return made;
}
SkewInstance as(SkewKind kind, SkewInstance made) {
  made.kind = kind;
  return made;
}
SkewReport analyse(std::vector<SkewInstance> instances, std::size_t sample = kAll) {
  SkewRecording recording;
  recording.life = 1;
  recording.instances = std::move(instances);
  return analyse_skew({recording}, sample);
}
// "a>b>c"
std::string cycle_of(const SkewReport &report, const SkewPivotFound &pivot) {
  return report.sites[pivot.into].name + '>' + report.sites[pivot.pivot].name + '>' +
         report.sites[pivot.out].name;
}

TEST(SkewAnalysis, NothingGivesNothing) {
  const SkewReport report = analyse_skew({}, kAll);
  EXPECT_TRUE(report.sites.empty());
  EXPECT_TRUE(report.pairs.empty());
  EXPECT_TRUE(report.pivots.empty());
}

TEST(SkewAnalysis, TwoThatReadWhatTheOtherOneWritesArePairedWithThePlaces) {
  const SkewReport report =
      analyse({update("a", {kX, kY}, {{kX, 1}}), update("b", {kX, kY}, {{kY, 0b110}}, 1, 3)});
  ASSERT_EQ(report.pairs.size(), 1u);
  const SkewPairFound &pair = report.pairs[0];
  EXPECT_EQ(report.sites[pair.there.reader].name, "a");
  EXPECT_EQ(report.sites[pair.there.writer].name, "b");
  ASSERT_EQ(pair.there.places.size(), 1u);
  EXPECT_EQ(pair.there.places.at(kY).lines, 0b110u);
  EXPECT_EQ(pair.there.places.at(kY).evidence, SkewEvidence::kPageRead);
  ASSERT_EQ(pair.back.places.size(), 1u);
  EXPECT_EQ(pair.back.places.at(kX).lines, 1u);
  EXPECT_EQ(pair.could, 1u);
  EXPECT_EQ(pair.tested, 1u);
  EXPECT_EQ(pair.overlapped, 1u);
  EXPECT_TRUE(report.pivots.empty());
}

TEST(SkewAnalysis, ReadsAreRunsOfPages) {
  SkewInstance scan = update("scan", {}, {{kZ, 1}});
  scan.reads = {{kX, 5}, {kY, 3}};
  const auto pairs = [&](std::uint64_t page) {
    return analyse({scan, update("writer", {kZ}, {{page, 1}})}).pairs.size();
  };
  for (const std::uint64_t inside : {kX, kX + 4, kY, kY + 2}) EXPECT_EQ(pairs(inside), 1u);
  for (const std::uint64_t outside : {kX - 1, kX + 5, kY - 1, kY + 3})
    EXPECT_EQ(pairs(outside), 0u);
}

TEST(SkewAnalysis, OneWayIsNoPair) {
  const SkewReport report =
      analyse({update("a", {kX, kY}, {{kX, 1}}), update("b", {kY}, {{kY, 1}})});
  EXPECT_TRUE(report.pairs.empty());
  EXPECT_TRUE(report.pivots.empty());
}

TEST(SkewAnalysis, ACommonLineEndsIt) {
  // As a promotion stands in the records.
  const SkewReport report = analyse(
      {update("a", {kX, kY}, {{kX, 1}, {kY, 1}}), update("b", {kX, kY}, {{kX, 1}, {kY, 1}})});
  EXPECT_TRUE(report.pairs.empty());
  // One of the two is enough, and only in this line.
  EXPECT_TRUE(analyse({update("a", {kX, kY}, {{kX, 1}, {kY, 1}}), update("b", {kX, kY}, {{kY, 1}})})
                  .pairs.empty());
  EXPECT_EQ(analyse({update("a", {kX, kY}, {{kX, 1}, {kY, 2}}), update("b", {kX, kY}, {{kY, 1}})})
                .pairs.size(),
            1u);
}

TEST(SkewAnalysis, SerializableOnesSkewWithSnapshotOnesOnly) {
  const SkewInstance a = update("a", {kX, kY}, {{kX, 1}}), b = update("b", {kX, kY}, {{kY, 1}});
  EXPECT_TRUE(
      analyse({as(SkewKind::kSerializable, a), as(SkewKind::kSerializable, b)}).pairs.empty());
  EXPECT_EQ(analyse({as(SkewKind::kSerializable, a), b}).pairs.size(), 1u);
  EXPECT_EQ(analyse({as(SkewKind::kSerializable, a), as(SkewKind::kSerializable, b)}).sites.size(),
            2u);
}

TEST(SkewAnalysis, OneSiteSkewsWithItself) {
  const SkewReport report =
      analyse({update("a", {kX, kY}, {{kX, 1}}), update("a", {kX, kY}, {{kY, 1}})});
  ASSERT_EQ(report.sites.size(), 1u);
  ASSERT_EQ(report.pairs.size(), 1u);
  EXPECT_EQ(report.pairs[0].there.reader, report.pairs[0].there.writer);
  // An instance does not skew with itself, nor do two that write the same.
  EXPECT_TRUE(analyse({update("a", {kX, kY}, {{kX, 1}})}).pairs.empty());
}

TEST(SkewAnalysis, ClocksSayWhatHasOverlapped) {
  const auto overlapped = [](std::pair<std::uint64_t, std::uint64_t> a,
                             std::pair<std::uint64_t, std::uint64_t> b) {
    const SkewReport report = analyse({update("a", {kX, kY}, {{kX, 1}}, a.first, a.second),
                                       update("b", {kX, kY}, {{kY, 1}}, b.first, b.second)});
    EXPECT_EQ(report.pairs.size(), 1u);
    EXPECT_EQ(report.pairs.at(0).could, 1u);
    return report.pairs.at(0).overlapped;
  };
  EXPECT_EQ(overlapped({1, 5}, {2, 3}), 1u);
  EXPECT_EQ(overlapped({2, 3}, {1, 5}), 1u);
  EXPECT_EQ(overlapped({1, 3}, {2, 5}), 1u);
  EXPECT_EQ(overlapped({1, 2}, {2, 3}), 0u);
  EXPECT_EQ(overlapped({2, 3}, {1, 2}), 0u);
  EXPECT_EQ(overlapped({1, 2}, {7, 9}), 0u);
}

TEST(SkewAnalysis, LivesOfTheDomainDoNotOverlap) {
  std::vector<SkewRecording> recordings(2);
  recordings[0].life = 1;
  recordings[0].instances = {update("a", {kX, kY}, {{kX, 1}})};
  recordings[1].life = 2;
  recordings[1].instances = {update("b", {kX, kY}, {{kY, 1}})};
  const SkewReport apart = analyse_skew(recordings, kAll);
  ASSERT_EQ(apart.pairs.size(), 1u);
  EXPECT_EQ(apart.pairs[0].could, 1u);
  EXPECT_EQ(apart.pairs[0].overlapped, 0u);
  recordings[1].life = 1;
  EXPECT_EQ(analyse_skew(recordings, kAll).pairs.at(0).overlapped, 1u);
}

TEST(SkewAnalysis, WhatOverlappedCountsBesideTheSample) {
  std::vector<SkewInstance> instances;
  for (std::uint64_t i = 0; i < 100; ++i) {
    instances.push_back(update("a", {kX}, {{kX, 1}}, 10 * i, 10 * i + 1));
    instances.push_back(update("b", {kY}, {{kY, 1}}, 10 * i, 10 * i + 2));
  }
  // The only two that conflict, and no sample of one instance has them.
  instances[100].reads = instances[101].reads = {{kX, 1}, {kY, 1}};
  const SkewReport report = analyse(instances, 2);
  EXPECT_EQ(report.sites[0].sampled, 1u);
  ASSERT_EQ(report.pairs.size(), 1u);
  EXPECT_EQ(report.pairs[0].overlapped, 1u);
  EXPECT_EQ(report.pairs[0].could, 0u);
  EXPECT_EQ(report.pairs[0].tested, 1u);
  EXPECT_EQ(analyse(instances, 1000).pairs.at(0).could, 1u);
}

TEST(SkewAnalysis, WeakEvidenceComesLast) {
  const SkewReport report = analyse({
      // Both write one page: dense counters, or a skew.
      update("counter 1", {kX}, {{kX, 1}}),
      update("counter 2", {kX}, {{kX, 2}}),
      // Each writes all of the page that the other one reads.
      update("whole 1", {kY, kZ}, {{kY, ~std::uint64_t{0}}}),
      update("whole 2", {kY, kZ}, {{kZ, ~std::uint64_t{0}}}),
      update("read 1", {40, 50}, {{40, 1}}),
      update("read 2", {40, 50}, {{50, 1}}),
  });
  ASSERT_EQ(report.pairs.size(), 3u);
  EXPECT_EQ(report.pairs[0].evidence(), SkewEvidence::kWholePage);
  EXPECT_EQ(report.pairs[1].evidence(), SkewEvidence::kPageRead);
  EXPECT_EQ(report.pairs[2].evidence(), SkewEvidence::kPageWrittenToo);
  EXPECT_EQ(report.sites[report.pairs[2].there.reader].name, "counter 1");
}

// Fekete, O'Neil, O'Neil, "A Read-Only Transaction Anomaly Under Snapshot Isolation": the query
// sees the deposit and not the withdrawal, which has not seen the deposit.
TEST(SkewAnalysis, AQueryMakesACycleOfThree) {
  const SkewInstance deposit = update("deposit", {kX}, {{kX, 1}}, 1, 2);
  const SkewInstance withdraw = update("withdraw", {kX, kY}, {{kY, 1}}, 1, 4);
  const SkewInstance report = as(SkewKind::kQuery, update("report", {kX, kY}, {}, 2, 3));
  const SkewReport found = analyse({deposit, withdraw, report});
  EXPECT_TRUE(found.pairs.empty());
  ASSERT_EQ(found.pivots.size(), 1u);
  const SkewPivotFound &pivot = found.pivots[0];
  EXPECT_EQ(cycle_of(found, pivot), "report>withdraw>deposit");
  EXPECT_TRUE(pivot.path.empty());
  EXPECT_EQ(pivot.overlapped, 1u);
  ASSERT_EQ(pivot.second.places.size(), 1u);
  EXPECT_EQ(pivot.second.places.begin()->first, kX);
  // The withdrawal promotes the balance that it reads.
  SkewInstance promoted = withdraw;
  promoted.writes = {{kX, 1}, {kY, 1}};
  EXPECT_TRUE(analyse({deposit, promoted, report}).pivots.empty());
  // Without the query there is no cycle.
  EXPECT_TRUE(analyse({deposit, withdraw}).pivots.empty());
  // A pivot that is serializable is none.
  EXPECT_TRUE(analyse({deposit, as(SkewKind::kSerializable, withdraw), report}).pivots.empty());
}

TEST(SkewAnalysis, APivotWhoseOtherSiteCommittedLaterHasNotOverlapped) {
  const SkewReport report = analyse({update("deposit", {kX}, {{kX, 1}}, 1, 5),
                                     update("withdraw", {kX, kY}, {{kY, 1}}, 1, 4),
                                     as(SkewKind::kQuery, update("report", {kX, kY}, {}, 2, 3))});
  ASSERT_EQ(report.pivots.size(), 1u);
  EXPECT_EQ(report.pivots[0].overlapped, 0u);
}

TEST(SkewAnalysis, TheWayBackMayLeadOverOtherSites) {
  const std::uint64_t w = 40, v = 50;
  const SkewReport report = analyse({
      update("a", {kX, w}, {{v, 1}}),
      update("b", {kX, kY}, {{kX, 1}}),
      update("c", {kY, kZ}, {{kY, 1}, {kZ, 1}}),
      // It follows c, and a follows it.
      update("d", {kZ, w}, {{w, 1}}),
  });
  ASSERT_FALSE(report.pivots.empty());
  EXPECT_EQ(cycle_of(report, report.pivots[0]), "a>b>c");
  ASSERT_EQ(report.pivots[0].path.size(), 1u);
  EXPECT_EQ(report.sites[report.pivots[0].path[0]].name, "d");
}

TEST(SkewAnalysis, AChainThatDoesNotLeadBackIsNoCycle) {
  EXPECT_TRUE(analyse({update("a", {kX}, {{40, 1}}), update("pivot", {kX, kY}, {{kX, 1}}),
                       update("c", {kY}, {{kY, 1}})})
                  .pivots.empty());
}

}  // namespace
}  // namespace tmh::test
