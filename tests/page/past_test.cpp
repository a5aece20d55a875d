// tests/page/past_test.cpp -- query_at(), named moments, bounds of a history, and what they refuse.
// Invariants: (1) a name holds its moment, with a history or without, until it is forgotten. (2) a
//             history takes no more than its bytes under a stream of commits, and no moment longer
//             than its time. (3) each refusal says what is right.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "observe/steps.h"
#include "platform/protection_keys.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

class PastTest : public ModeTest {
 protected:
  [[nodiscard]] Actor with_history(std::uint64_t bytes, std::chrono::milliseconds time = {}) const {
    DomainOptions asked = options();
    asked.history = {time, bytes};
    return {folder_.path(), asked};
  }
  static std::uint64_t at(const Actor &self, const Moment &moment, std::uint64_t page = 0) {
    return query_at(self.domain, moment, [&] { return self.get(page); });
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, PastTest, testing::ValuesIn(page_modes()), mode_name);

TEST_P(PastTest, EachCommitCanBeReadAgain) {
  const Actor self = with_history(8u << 20);
  const std::uint64_t first = self.domain.past().now;
  for (std::uint64_t i = 1; i <= 20; ++i) self.commit(i % 3, i);
  for (std::uint64_t i = 0; i <= 20; ++i) {
    for (std::uint64_t page = 0; page < 3; ++page) {
      const std::uint64_t wanted = i < page || (page == 0 && i < 3) ? 0 : i - (i - page) % 3;
      EXPECT_EQ(at(self, Moment::clock(first + i), page), wanted) << i << " " << page;
    }
  }
  EXPECT_EQ(self.committed(2), 20U);
  EXPECT_GT(self.domain.counters().past_pages, 0U);
  EXPECT_EQ(self.domain.counters().past_horizon, first);
}

TEST_P(PastTest, ANameHoldsItsMomentWithoutAHistory) {
  const Actor self = actor();
  self.commit(0, 1);
  const std::uint64_t clock = self.domain.keep("before-import");
  for (std::uint64_t i = 2; i < 200; ++i) self.commit(0, i);
  EXPECT_EQ(at(self, Moment::named("before-import")), 1U);
  EXPECT_EQ(at(self, Moment::clock(clock)), 1U);
  const PastInfo past = self.domain.past();
  ASSERT_EQ(past.moments.size(), 1U);
  EXPECT_EQ(past.moments[0].name, "before-import");
  EXPECT_EQ(past.moments[0].clock, clock);
  EXPECT_LE(past.pages, 2U) << "one page's copy is enough";
  self.domain.forget("before-import");
  EXPECT_EQ(self.domain.past().pages, 0U);
  expect_error(
      Errc::kNotHeld, [&] { (void)at(self, Moment::clock(clock)); }, "held: from clock");
}

TEST_P(PastTest, NamesHoldTheirMomentsBesideEachOther) {
  const Actor self = actor();
  for (std::uint64_t i = 1; i <= 10; ++i) {
    self.commit(i % 2, i);
    self.domain.keep("n" + std::to_string(i));
    self.commit(2, i);
  }
  for (const int i : {10, 7, 4, 1}) self.domain.forget("n" + std::to_string(i));
  for (std::uint64_t i = 2; i <= 9; ++i) {
    if (i % 3 == 1) continue;
    const std::string name = "n" + std::to_string(i);
    EXPECT_EQ(at(self, Moment::named(name), i % 2), i);
    EXPECT_EQ(at(self, Moment::named(name), (i + 1) % 2), i - 1);
    EXPECT_EQ(at(self, Moment::named(name), 2), i - 1);
  }
}

TEST_P(PastTest, AStreamOfCommitsStaysWithinTheBytes) {
  const std::uint64_t bytes = 1u << 20;
  const Actor self = with_history(bytes);
  const std::uint64_t first = self.domain.past().now;
  std::uint64_t most = 0;
  for (std::uint64_t i = 1; i <= 5000; ++i) {
    self.commit(i % kStagePages, i);
    most = std::max(most, self.domain.past().bytes);
  }
  EXPECT_LE(most, bytes);
  EXPECT_GE(most, bytes / 2) << "it holds less than it may";
  const PastInfo past = self.domain.past();
  EXPECT_GT(past.oldest, first);
  EXPECT_EQ(at(self, Moment::clock(past.oldest), 5000 % kStagePages),
            5000 - kStagePages * ((5000 - (past.oldest - first) + kStagePages - 1) / kStagePages));
  expect_error(
      Errc::kNotHeld, [&] { (void)at(self, Moment::clock(past.oldest - 1)); },
      "clock " + std::to_string(past.oldest - 1));
}

// Commits bring the horizon on, so the test commits until it has moved.
TEST_P(PastTest, AMomentGoesWhenItsTimeIsOver) {
  const Actor self = with_history(0, std::chrono::milliseconds(50));
  const std::uint64_t first = self.domain.past().now;
  self.commit(0, 1);
  EXPECT_EQ(self.domain.past().history.bytes / (4096 + 128), kHistoryBytes / (4096 + 128));
  std::uint64_t i = 1;
  EXPECT_TRUE(poll_until([&] {
    self.commit(0, ++i);
    return self.domain.past().oldest > first + 1;
  }));
  expect_error(Errc::kNotHeld, [&] { (void)at(self, Moment::clock(first + 1)); });
}

TEST_P(PastTest, ATimeShowsWhatWasCommittedByThen) {
  using std::chrono::system_clock;
  const Actor self = with_history(64u << 20);
  struct Commit {
    system_clock::time_point before, after;
  };
  std::vector<Commit> seen;  // seen[i]: of value i + 1
  std::uint64_t i = 0;
  const auto begin = system_clock::now();
  // The history has room for all.
  while (system_clock::now() < begin + std::chrono::milliseconds(200) || i < 10) {
    const auto before = system_clock::now();
    self.commit(0, ++i);
    seen.push_back({before, system_clock::now()});
    while (system_clock::now() < seen.back().after + std::chrono::microseconds(100)) {
    }
  }
  // The commit behind the one that is found came at most 10 ms before, and a tick of the coarse
  // clock; as a stall of this process may come within a commit, that is of its end, and of the
  // other's begin.
  for (std::size_t n = 0; n < seen.size(); n += 1 + seen.size() / 50) {
    const std::uint64_t value = n + 1, found = at(self, Moment::time(seen[n].after));
    EXPECT_LE(found, value);
    if (found + 1 > value) continue;
    EXPECT_LT(seen[n].before - seen[found].after, std::chrono::milliseconds(100))
        << found << " at " << value;
  }
  expect_error(Errc::kNotHeld,
               [&] { (void)at(self, Moment::time(system_clock::now() + std::chrono::hours(1))); });
  expect_error(Errc::kNotHeld,
               [&] { (void)at(self, Moment::time(begin - std::chrono::hours(1))); });
}

TEST_P(PastTest, WhatCannotBeIsRefused) {
  const Actor self = with_history(8u << 20);
  self.commit(0, 1);
  const std::uint64_t now = self.domain.past().now;
  const auto look = [&](const Moment &moment) { (void)at(self, moment); };
  expect_error(
      Errc::kNotHeld, [&] { look(Moment::clock(now + 1)); }, "to " + std::to_string(now));
  expect_error(Errc::kNotHeld, [&] { look(Moment::clock(0)); });
  expect_error(
      Errc::kBadArgument, [&] { look(Moment::lsn(now)); }, "open_image()");
  expect_error(
      Errc::kNotHeld, [&] { look(Moment::named("never")); }, "names: none");
  self.domain.keep("once");
  expect_error(
      Errc::kNotHeld, [&] { look(Moment::named("never")); }, "once");
  expect_error(
      Errc::kBadArgument, [&] { self.domain.keep("once"); }, "already");
  expect_error(
      Errc::kBadArgument, [&] { self.domain.keep(""); }, "1 to 47");
  expect_error(
      Errc::kBadArgument, [&] { self.domain.keep(std::string(48, 'x')); }, "1 to 47");
  expect_error(
      Errc::kBadArgument, [&] { self.domain.keep(std::string("a\0b", 3)); }, "zero");
  self.domain.keep(std::string(47, 'x'));
  EXPECT_EQ(at(self, Moment::named(std::string(47, 'x'))), 1U);
  expect_error(
      Errc::kNotHeld, [&] { self.domain.forget("never"); }, "never");
  for (std::size_t i = 2; i < kMomentsMax; ++i) self.domain.keep(std::to_string(i));
  expect_error(
      Errc::kTooManyMoments, [&] { self.domain.keep("one more"); }, "64");
  atomically(self.domain, [&] {
    expect_error(
        Errc::kNestedMisuse, [&] { look(Moment::clock(now)); }, "query_at");
    expect_error(Errc::kInstanceRunning, [&] { self.domain.keep("inside"); });
    expect_error(Errc::kInstanceRunning, [&] { self.domain.forget("once"); });
  });
  query_at(self.domain, Moment::clock(now), [&] {
    expect_error(Errc::kNestedMisuse, [&] { look(Moment::clock(now)); });
    expect_error(Errc::kNestedMisuse, [&] { self.commit(0, 2); });
    EXPECT_EQ(query(self.domain, [&] { return self.get(0); }), 1U);
  });
  expect_error(
      Errc::kNothingRead,
      [&] {
        query_at(self.domain, Moment::clock(now), [&] {
          (void)self.get(0);
          retry();
        });
      },
      "does not change");
  EXPECT_EQ(self.committed(0), 1U);
}

TEST_P(PastTest, AStoreIsReportedAndChangesNothing) {
  if (platform::has_keys()) GTEST_SKIP() << "a store in a query raises SIGSEGV here";
  const Actor self = with_history(8u << 20);
  const std::uint64_t first = self.domain.past().now;
  self.commit(0, 1);
  self.commit(0, 2);
  expect_error(Errc::kQueryWrote,
               [&] { query_at(self.domain, Moment::clock(first + 1), [&] { self.set(0, 9); }); });
  EXPECT_EQ(at(self, Moment::clock(first + 1)), 1U);
  EXPECT_EQ(self.committed(0), 2U);
}

TEST_P(PastTest, WhatABodyReadsStaysWhileOthersCommit) {
  run_pair(
      "",
      [](Actor &self, Turn &turn) {
        self.commit(0, 1);
        self.domain.keep("here");
        turn.reach(1);
        query_at(self.domain, Moment::named("here"), [&] {
          EXPECT_EQ(self.get(0), 1U);
          turn.reach(2);
          turn.await(3);
          for (std::uint64_t page = 1; page < kStagePages; ++page) EXPECT_EQ(self.get(page), 0U);
        });
        for (std::uint64_t page = 1; page < kStagePages; ++page)
          EXPECT_EQ(self.committed(page), 31U);
        turn.reach(4);
      },
      [](Actor &self, Turn &turn) {
        turn.await(2);
        for (std::uint64_t i = 0; i < 32; ++i)
          for (std::uint64_t page = 1; page < kStagePages; ++page) self.commit(page, i);
        turn.reach(3);
        turn.await(4);
      });
}

// Between its look at the horizon and its snapshot: it holds a moment, and has no instance yet.
TEST_P(PastTest, AReaderThatDiesAtItsBeginHoldsNothing) {
  const Actor self = actor();
  self.commit(0, 1);
  const ChildEnd end = run_in_child("reader", [&] {
    const Actor reader = actor();
    observe::crash_at(static_cast<std::uint32_t>(observe::Step::kBeginStart), 1);
    (void)at(reader, Moment::clock(reader.domain.past().now));
  });
  EXPECT_EQ(end.signal, SIGKILL);
  std::uint64_t i = 1, most = 0;
  EXPECT_TRUE(poll_until([&] {
    self.commit(0, ++i);
    const std::uint64_t pages = self.domain.past().pages;
    most = std::max(most, pages);
    return most != 0 && pages == 0;
  })) << most;
}

TEST(PastOptionsTest, WhatAQueryReadsIsDurableWhereEveryBeginWaitsForThat) {
  const TempFolder folder(place_for(kDurableHybridModes[1]));
  DomainOptions options;
  options.durability = Durability::kBuffered;
  options.flush_interval_ms = 3'600'000;
  options.policies.early_release = EarlyRelease::kOff;
  const Actor self(folder.path(), options);
  const auto flushes = [&] { return self.domain.counters().log_flushes; };
  self.commit(0, 1);
  std::uint64_t before = flushes();
  EXPECT_EQ(self.committed(0), 1U);
  EXPECT_GT(flushes(), before);
  self.commit(0, 2);
  before = flushes();
  query_at(self.domain, Moment::clock(self.domain.past().now), [&] {
    EXPECT_EQ(self.get(0), 2U);
    EXPECT_GT(flushes(), before) << "it reads what a power cut may take back";
  });
}

TEST(PastOptionsTest, WrongOnesAreRefused) {
  const TempFolder folder;
  const auto open = [&](History history, Levels levels = Levels::kPage) {
    DomainOptions options;
    options.history = history;
    options.levels = levels;
    return Domain::open(folder.path(), options);
  };
  expect_error(
      Errc::kBadArgument,
      [&] {
        open({std::chrono::milliseconds(-1), 0});
      },
      "1 MiB");
  expect_error(
      Errc::kBadArgument,
      [&] {
        open({{}, kHistoryBytesMin - 1});
      },
      "1 MiB");
  expect_error(
      Errc::kBadArgument,
      [&] {
        open({{}, ~std::uint64_t{0}});
      },
      "128 GiB");
  expect_error(
      Errc::kLevelsMismatch,
      [&] {
        open({{}, kHistoryBytes}, Levels::kHybrid);
      },
      "levels page");
  const Domain domain = open({std::chrono::seconds(1), kHistoryBytesMin});
  EXPECT_EQ(domain.past().history.time, std::chrono::seconds(1));
  expect_error(
      Errc::kAlreadyInitialized,
      [&] {
        open({{}, kHistoryBytes});
      },
      "history");
}

TEST(PastOptionsTest, AHybridDomainHoldsNone) {
  const TempFolder folder;
  DomainOptions options;
  options.levels = Levels::kHybrid;
  const Domain domain = Domain::open(folder.path(), options);
  expect_error(Errc::kLevelsMismatch, [&] { (void)domain.keep("x"); });
  expect_error(Errc::kLevelsMismatch, [&] { query_at(domain, Moment::clock(1), [] {}); });
}

}  // namespace
}  // namespace tmh::test
