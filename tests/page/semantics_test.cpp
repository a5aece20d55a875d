// tests/page/semantics_test.cpp -- what one process may rely on, in every mode: instances, nesting,
// roll-back, queries, segments.
// Invariants: the thesis's sections 2.1 to 2.3, as include/tmh/domain.hpp and transaction.hpp state
//             them. Segments and files: semantics_segments_test.cpp. What takes two processes to
//             show: multi_semantics_test.cpp.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/stage.h"
#include "tests/support/stray_allowed.h"

namespace tmh::test {
namespace {

using SemanticsTest = ModeTest;

INSTANTIATE_TEST_SUITE_P(Modes, SemanticsTest, testing::ValuesIn(kModes), mode_name);

std::string hex(const void *address) {
  char text[32];
  std::snprintf(text, sizeof text, "%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address)));
  return text;
}

// --- begin, end, nesting
// -------------------------------------------------------------------------------------------------

TEST_P(SemanticsTest, CommitMakesStoresVisibleToTheNextInstance) {
  const Actor self = actor();
  self.domain.begin();
  EXPECT_EQ(self.domain.depth(), 1U);
  EXPECT_EQ(self.get(), 0U);
  self.set(0, 7);
  EXPECT_EQ(self.get(), 7U);
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
  EXPECT_EQ(self.domain.depth(), 0U);
  EXPECT_EQ(self.committed(), 7U);
}

TEST_P(SemanticsTest, InstanceWithoutAccessCommits) {
  const Actor self = actor();
  self.domain.begin();
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
}

TEST_P(SemanticsTest, InstanceThatOnlyReadsCommits) {
  const Actor self = actor();
  self.domain.begin();
  for (std::uint64_t page = 0; page < kStagePages; ++page) EXPECT_EQ(self.get(page), 0U);
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
}

TEST_P(SemanticsTest, ValidateOfAnUndisturbedInstanceIsPending) {
  const Actor self = actor();
  self.domain.begin();
  EXPECT_EQ(self.domain.validate(), Status::kPending);
  self.set(0, 1);
  EXPECT_EQ(self.domain.validate(), Status::kPending);
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
}

TEST_P(SemanticsTest, NestedEndsArePendingAndOnlyTheOutermostCommits) {
  const Actor self = actor();
  self.domain.begin();
  self.set(0, 1);
  self.domain.begin();
  EXPECT_EQ(self.domain.depth(), 2U);
  self.set(1, 2);
  self.domain.begin();
  self.set(2, 3);
  EXPECT_EQ(self.domain.end(), Status::kPending);
  EXPECT_EQ(self.domain.end(), Status::kPending);
  EXPECT_EQ(self.domain.depth(), 1U);
  EXPECT_EQ(self.get(2), 3U) << "an inner instance's stores belong to the outermost one";
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
  EXPECT_EQ(self.committed(0) + self.committed(1) + self.committed(2), 6U);
}

// --- roll-back
// -------------------------------------------------------------------------------------------------

TEST_P(SemanticsTest, AbortRollsBackSegmentsButNotLocals) {
  const Actor self = actor();
  self.commit(0, 42);
  std::uint64_t local = 1;
  auto on_heap = std::make_unique<std::uint64_t>(1);
  self.domain.begin();
  static_cast<void>(self.get(1));
  self.set(0, 43);
  self.set(1, 1);
  store(self.second_word(5), std::uint64_t{9});
  local = 2;
  *on_heap = 2;
  self.domain.abort();
  EXPECT_EQ(self.domain.depth(), 0U);
  EXPECT_EQ(local, 2U);
  EXPECT_EQ(*on_heap, 2U);
  query(self.domain, [&] {
    EXPECT_EQ(self.get(0), 42U);
    EXPECT_EQ(self.get(1), 0U);
    EXPECT_EQ(load(self.second_word(5)), 0U);
  });
}

TEST_P(SemanticsTest, AbortInsideNestedInstancesEndsTheOutermost) {
  const Actor self = actor();
  self.domain.begin();
  self.set(0, 1);
  self.domain.begin();
  self.domain.begin();
  self.set(1, 1);
  self.domain.abort();
  EXPECT_EQ(self.domain.depth(), 0U);
  EXPECT_EQ(self.committed(0) + self.committed(1), 0U);
}

TEST_P(SemanticsTest, StoreAfterAnAbortStartsFromTheCommittedValue) {
  const Actor self = actor();
  for (std::uint64_t round = 1; round <= 20; ++round) {
    self.domain.begin();
    self.set(3, 1'000 + round);
    self.domain.abort();
    atomically(self.domain, [&] { self.set(3, self.get(3) + 1); });
    ASSERT_EQ(self.committed(3), round);
  }
}

TEST_P(SemanticsTest, WholePagesAreRolledBackByteByByte) {
  const Actor self = actor();
  auto *bytes = reinterpret_cast<unsigned char *>(self.first.data());
  atomically(self.domain, [&] {
    for (std::uint64_t i = 0; i < 4 * kPageBytes; ++i)
      bytes[i] = static_cast<unsigned char>(i * 31 % 251);
  });
  self.domain.begin();
  for (std::uint64_t i = 0; i < 4 * kPageBytes; ++i)
    bytes[i] = static_cast<unsigned char>(~bytes[i]);
  self.domain.abort();
  query(self.domain, [&] {
    for (std::uint64_t i = 0; i < 4 * kPageBytes; ++i)
      ASSERT_EQ(bytes[i], i * 31 % 251) << "byte " << i;
  });
}

TEST_P(SemanticsTest, ExceptionLeavesAtomicallyAndRollsBack) {
  const Actor self = actor();
  int runs = 0;
  EXPECT_THROW(atomically(self.domain,
                          [&] {
                            ++runs;
                            self.set(0, 1);
                            throw std::domain_error("from the body");
                          }),
               std::domain_error);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(self.domain.depth(), 0U);
  EXPECT_EQ(self.committed(), 0U);
}

TEST_P(SemanticsTest, ExceptionFromANestedAtomicallyRollsBackEverything) {
  const Actor self = actor();
  EXPECT_THROW(atomically(self.domain,
                          [&] {
                            self.set(0, 1);
                            atomically(self.domain, [&] {
                              self.set(1, 1);
                              throw std::domain_error("from the inner body");
                            });
                          }),
               std::domain_error);
  EXPECT_EQ(self.domain.depth(), 0U);
  EXPECT_EQ(self.committed(0) + self.committed(1), 0U);
}

TEST_P(SemanticsTest, ExceptionCaughtInsideTheBodyChangesNothing) {
  const Actor self = actor();
  atomically(self.domain, [&] {
    self.set(0, 1);
    try {
      self.set(1, 1);
      throw std::domain_error("caught");
    } catch (const std::domain_error &) {
    }
  });
  EXPECT_EQ(self.committed(0) + self.committed(1), 2U);
}

TEST_P(SemanticsTest, AtomicallyReturnsTheBodysValue) {
  const Actor self = actor();
  const auto text = atomically(self.domain, [&] {
    self.set(0, 5);
    return std::to_string(atomically(self.domain, [&] { return self.get() + 1; }));
  });
  EXPECT_EQ(text, "6");
  const auto moved =
      atomically(self.domain, [&] { return std::make_unique<std::uint64_t>(self.get()); });
  EXPECT_EQ(*moved, 5U);
}

// --- queries
// -------------------------------------------------------------------------------------------------

TEST_P(SemanticsTest, QueryReadsAndReturns) {
  const Actor self = actor();
  self.commit(9, 4);
  EXPECT_EQ(query(self.domain, [&] { return self.get(9) * 2; }), 8U);
  self.domain.begin_query();
  EXPECT_EQ(self.domain.depth(), 1U);
  self.domain.begin_query();
  EXPECT_EQ(self.domain.depth(), 2U);
  EXPECT_EQ(self.get(9), 4U);
  self.domain.end_query();
  self.domain.end_query();
  EXPECT_EQ(self.domain.depth(), 0U);
}

TEST_P(SemanticsTest, QueryThatWritesIsAnErrorThatNamesTheAddress) {
  const StrayAllowed allowed;
  const Actor self = actor();
  self.commit(2, 10);
  const std::uint64_t before =
      self.domain.counters().aborts[static_cast<std::size_t>(AbortCause::kQueryWrote)];
  self.domain.begin_query();
  EXPECT_EQ(self.get(2), 10U);
  store((&self.word(2))[5], std::uint64_t{1});
  expect_error(
      Errc::kQueryWrote, [&] { self.domain.end_query(); }, hex(&(&self.word(2))[5]));
  EXPECT_EQ(self.domain.depth(), 0U);
  EXPECT_EQ(self.domain.counters().aborts[static_cast<std::size_t>(AbortCause::kQueryWrote)],
            before + 1);
  query(self.domain,
        [&] { EXPECT_EQ(load((&self.word(2))[5]), 0U) << "the store was not discarded"; });
  self.commit(2, 11);
  EXPECT_EQ(self.committed(2), 11U) << "the domain is not usable afterwards";
}

TEST_P(SemanticsTest, QueryThatWritesBeforeItReadsIsAnErrorToo) {
  const StrayAllowed allowed;
  const Actor self = actor();
  expect_error(
      Errc::kQueryWrote, [&] { query(self.domain, [&] { self.set(7, 1); }); }, hex(&self.word(7)));
  EXPECT_EQ(self.committed(7), 0U);
}

TEST_P(SemanticsTest, QueryThatWritesTheLastByteOfASegmentIsAnError) {
  const StrayAllowed allowed;
  const Actor self = actor();
  auto *last = reinterpret_cast<unsigned char *>(self.first.data()) + self.first.size_bytes() - 1;
  expect_error(
      Errc::kQueryWrote,
      [&] { query(self.domain, [&] { store(*last, static_cast<unsigned char>(1)); }); }, hex(last));
}

TEST_P(SemanticsTest, ExceptionLeavesAQuery) {
  const Actor self = actor();
  EXPECT_THROW(query(self.domain, [&]() -> int { throw std::domain_error("from the body"); }),
               std::domain_error);
  EXPECT_EQ(self.domain.depth(), 0U);
}

TEST_P(SemanticsTest, QueryInsideAnUpdateSeesTheUpdatesStores) {
  const Actor self = actor();
  self.domain.begin();
  self.set(0, 3);
  self.domain.begin_query();
  EXPECT_EQ(self.domain.depth(), 2U);
  EXPECT_EQ(self.get(0), 3U);
  self.domain.end_query();
  self.set(1, 4);
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
  EXPECT_EQ(self.committed(0) + self.committed(1), 7U);
}

TEST_P(SemanticsTest, UpdateInsideAQueryIsRefusedAndTheQueryGoesOn) {
  const Actor self = actor();
  self.commit(0, 3);
  self.domain.begin_query();
  expect_error(Errc::kNestedMisuse, [&] { self.domain.begin(); });
  EXPECT_EQ(self.domain.depth(), 1U);
  EXPECT_EQ(self.get(0), 3U);
  self.domain.end_query();
}

TEST_P(SemanticsTest, EndsThatDoNotMatchTheirBeginAreRefused) {
  const Actor self = actor();
  self.domain.begin();
  self.set(0, 3);
  expect_error(Errc::kNestedMisuse, [&] { self.domain.end_query(); });
  EXPECT_EQ(self.domain.end(), Status::kCommitted) << "the refused call ended the instance";
  self.domain.begin_query();
  expect_error(Errc::kNestedMisuse, [&] { static_cast<void>(self.domain.end()); });
  self.domain.end_query();
  EXPECT_EQ(self.committed(0), 3U);
}

// --- advice
// -------------------------------------------------------------------------------------------------

TEST_P(SemanticsTest, AdviceNeverChangesAResult) {
  const Actor self = actor();
  for (const Access access : {Access::kRead, Access::kReadWrite}) {
    for (const bool commit : {true, false}) {
      const std::uint64_t before = self.committed(1);
      self.domain.begin();
      self.domain.advise(&self.word(0), access);                              // then untouched
      self.domain.advise(&self.word(1), access);                              // then written
      self.domain.advise(&self.word(2), access, 3 * kPageBytes);              // then read in part
      self.domain.advise(self.first.data() + 4 * kPageBytes - 1, access, 2);  // across a border
      self.set(1, self.get(1) + 1);
      EXPECT_EQ(self.get(3), 0U);
      if (commit) {
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
      } else {
        self.domain.abort();
      }
      EXPECT_EQ(self.committed(1), before + (commit ? 1 : 0));
      EXPECT_EQ(self.committed(0), 0U);
    }
  }
}

TEST_P(SemanticsTest, AdviceToWriteInsideAQueryWritesNothing) {
  const Actor self = actor();
  self.domain.begin_query();
  self.domain.advise(&self.word(0), Access::kReadWrite);
  EXPECT_EQ(self.get(0), 0U);
  EXPECT_NO_THROW(self.domain.end_query());
}

// --- the process around it
// -------------------------------------------------------------------------------------------------

TEST_P(SemanticsTest, ThreadsOfOneProcessMayAllCallAtomically) {
  constexpr std::uint64_t kThreads = 4, kIncrements = 200;
  const Actor self = actor();
  std::atomic<std::uint64_t> queries_seen{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kIncrements; ++i) {
        atomically(self.domain, [&] {
          const std::uint64_t seen = self.get(0);
          self.set(t + 1, self.get(t + 1) + 1);
          self.set(0, seen + 1);
        });
        query(self.domain, [&] {
          std::uint64_t sum = 0;
          for (std::uint64_t page = 1; page <= kThreads; ++page) sum += self.get(page);
          if (sum == self.get(0)) queries_seen.fetch_add(1);
        });
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(self.committed(0), kThreads * kIncrements);
  EXPECT_EQ(queries_seen.load(), kThreads * kIncrements);
}

TEST_P(SemanticsTest, DepthIsThatOfTheCallingThread) {
  const Actor self = actor();
  self.domain.begin();
  std::thread([&] { EXPECT_EQ(self.domain.depth(), 0U); }).join();
  EXPECT_EQ(self.domain.depth(), 1U);
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
}

TEST_P(SemanticsTest, CountersCountWhatHappened) {
  const Actor self = actor();
  const Counters before = self.domain.counters();
  self.commit(0, 1);
  self.commit(1, 1);
  static_cast<void>(self.committed(0));
  self.domain.begin();
  self.set(0, 2);
  self.domain.abort();
  const Counters after = self.domain.counters();
  EXPECT_EQ(after.begins - before.begins, 3U);  // queries are counted apart
  EXPECT_EQ(after.commits - before.commits, 2U);
  EXPECT_EQ(after.queries - before.queries, 1U);
  constexpr auto kUser = static_cast<std::size_t>(AbortCause::kUser);
  EXPECT_EQ(after.aborts[kUser] - before.aborts[kUser], 1U);
  EXPECT_EQ(after.aborts_total() - before.aborts_total(), 1U);
  EXPECT_EQ(after.pages_written - before.pages_written, 2U);
}

TEST_P(SemanticsTest, TheModeAskedForIsTheModeInUse) {
  const Actor self = actor();
  EXPECT_EQ(self.domain.detection(), GetParam().detection);
  EXPECT_EQ(self.domain.tracking().tracking, GetParam().tracking);
  EXPECT_FALSE(self.domain.tracking().reason.empty());
}

TEST_P(SemanticsTest, PolicyCanBeChangedBetweenInstances) {
  const Actor self = actor("self-abort,fresh-age,backoff=none");
  if (decides_conflicts(GetParam())) {
    EXPECT_EQ(self.domain.policy().conflict, ConflictPolicy::kSelfAbort);
    self.domain.set_policy("youngest-wins,keep-age,backoff=exponential");
    EXPECT_EQ(self.domain.policy().conflict, ConflictPolicy::kYoungestWins);
  } else {
    for (const char *refused : {"self-abort", "selfish-abort", "youngest-wins"})
      expect_error(
          Errc::kBadPolicy, [&] { self.domain.set_policy(refused); },
          std::string("'") + refused + "' decides nothing in a lazy domain of pages");
    self.domain.set_policy("oldest-wins,keep-age,backoff=exponential");
    EXPECT_EQ(self.domain.policy().conflict, ConflictPolicy::kOldestWins);
  }
  EXPECT_EQ(self.domain.policy().backoff, Backoff::kExponential);
  self.commit(0, 1);
  EXPECT_EQ(self.committed(0), 1U);
}

TEST_P(SemanticsTest, VersionsAreGoneWhenNobodyCanReadThem) {
  const Actor self = actor();
  for (std::uint64_t i = 0; i < 100; ++i) self.commit(i % 8, i);
  EXPECT_EQ(self.domain.collect(), 0U);
  EXPECT_EQ(self.domain.counters().versions_live, 0U);
  EXPECT_EQ(self.committed(3), 99U);
}

}  // namespace
}  // namespace tmh::test
