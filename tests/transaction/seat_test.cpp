// tests/transaction/seat_test.cpp -- instances of a thread that has a seat at its site: they begin
// and end in one step, and are like all others.
// Invariants: (1) each is counted once, whatever way its attempts end. (2) a seat is its thread's
//             alone, and its domain's: not that of a thread that has ended, of a closed domain, or
//             of a child's parent. (3) an attempt that fails, throws, waits, or needs pages goes on
//             as one without a seat. (4) at most one instance of a thread sits: what runs inside it
//             is subsumed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

#include "hierarchy/threads/current.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

// A domain on software lines, and one word for each thread.
struct Words {
  explicit Words(const std::string &folder) : domain(Domain::open(folder, options())) {
    SegmentOptions words = words_options(4);
    words.relocatable = true;  // a test has two
    segment = domain.map("words.raw", words);
  }
  static DomainOptions options() {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.line = LineChoice::kSoftware;
    return options;
  }
  [[nodiscard]] field<std::uint64_t> &word(std::uint64_t line = 0) const {
    return reinterpret_cast<field<std::uint64_t> *>(segment.data())[8 * line];
  }
  void increment(const Site &site, std::uint64_t times = 1) const {
    for (std::uint64_t i = 0; i < times; ++i) atomically(site, [&](Fields) { ++word(); });
  }
  [[nodiscard]] std::uint64_t value(const Site &site) const {
    return query(site, [&](Fields) { return word().load(); });
  }
  Domain domain;
  Segment segment;
};

class SeatTest : public testing::Test {
 protected:
  MemoryFolder folder_;
};

bool sits() { return detail::current().sitter != detail::kSitsNowhere; }

TEST_F(SeatTest, EveryInstanceIsCountedOnce) {
  const Words words(folder_.path());
  const Site site(words.domain, "site"), other(words.domain, "other");
  const std::uint64_t begins = words.domain.counters().line_commits;
  words.increment(site, 1000);
  words.increment(other, 500);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(words.value(site), 1500U);
  EXPECT_TRUE(sits());
  EXPECT_EQ(site.report().line_commits, 1300U);
  EXPECT_EQ(other.report().line_commits, 500U);
  EXPECT_EQ(site.report().line_aborts, 0U);
  EXPECT_EQ(words.domain.counters().line_commits - begins, 1800U);
}

// It begins at the snapshot that its thread has kept.
TEST_F(SeatTest, AnUpdateSeesWhatHasEndedBeforeItBegan) {
  const Words words(folder_.path());
  const Site site(words.domain, "site");
  words.increment(site);
  for (std::uint64_t i = 1; i <= 200; ++i) {
    std::thread([&] { atomically(site, [&](Fields) { words.word(2) = i; }); }).join();
    atomically(site, [&](Fields) {
      ++words.word(1);
      EXPECT_EQ(words.word(2), i);
    });
  }
  EXPECT_EQ(site.report().line_aborts, 0U);
}

TEST_F(SeatTest, AnUpdateWhoseCommitFailsRunsAgain) {
  const Words words(folder_.path());
  const Site site(words.domain, "site"), other(words.domain, "other");
  words.increment(site);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    int attempts = 0;
    atomically(site, [&](Fields) {
      words.word(2) = words.word(1).load();
      if (++attempts == 1)
        std::thread([&] { atomically(other, [&](Fields) { words.word(1) = i; }); }).join();
    });
    EXPECT_EQ(attempts, 2);
    EXPECT_EQ(query(site, [&](Fields) { return words.word(2).load(); }), i);
  }
  EXPECT_EQ(site.report().line_aborts, 100U);
  EXPECT_EQ(site.report().line_commits, 201U);
  const auto validation = static_cast<std::size_t>(AbortCause::kValidation);
  EXPECT_EQ(words.domain.counters().line_aborts[validation], 100U);
}

TEST_F(SeatTest, AThreadSitsWhereNoOtherHasSat) {
  const Words words(folder_.path());
  const Site site(words.domain, "site");
  for (std::uint64_t i = 1; i <= 40; ++i) {  // one after the other: in the same shard
    std::thread([&] { words.increment(site, 10); }).join();
    EXPECT_EQ(words.value(site), 10 * i);
  }
  EXPECT_EQ(site.report().line_commits, 440U);
}

TEST_F(SeatTest, MoreThreadsThanThereAreSeats) {
  constexpr std::uint64_t kThreads = 40, kEach = 200;
  const Words words(folder_.path());
  const Site site(words.domain, "site");
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&] { words.increment(site, kEach); });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(words.value(site), kThreads * kEach);
  const SiteReport report = site.report();
  EXPECT_EQ(report.line_commits + report.page_commits, kThreads * kEach + 1);
}

TEST_F(SeatTest, TwoDomainsInTurns) {
  const MemoryFolder second_folder;
  const Words first(folder_.path()), second(second_folder.path());
  const Site at_first(first.domain, "first"), at_second(second.domain, "second");
  for (std::uint64_t i = 1; i <= 100; ++i) {
    first.increment(at_first);
    second.increment(at_second, 2);
    ASSERT_EQ(first.value(at_first), i);
    ASSERT_EQ(second.value(at_second), 2 * i);
  }
  EXPECT_EQ(at_first.report().line_commits, 200U);
  EXPECT_EQ(at_second.report().line_commits, 300U);
}

TEST_F(SeatTest, NobodySitsInAClosedDomain) {
  auto words = std::make_unique<Words>(folder_.path());
  const Site site(words->domain, "site");
  words->increment(site, 10);
  Domain handle = words->domain;
  handle.close();
  EXPECT_EQ(code_of([&] { atomically(site, [](Fields) { ADD_FAILURE() << "it is closed"; }); }),
            Errc::kNotInitialized);
  EXPECT_EQ(code_of([&] { query(site, [](Fields) { ADD_FAILURE() << "it is closed"; }); }),
            Errc::kNotInitialized);
  // the same folder once more, in memory that may be that of before
  words.reset();
  const Words again(folder_.path());
  const Site site_again(again.domain, "site");
  const std::uint64_t before = again.value(site_again);
  again.increment(site_again, 10);
  EXPECT_EQ(again.value(site_again), before + 10);
  EXPECT_EQ(code_of([&] { atomically(site, [](Fields) {}); }), Errc::kNotInitialized);
}

TEST_F(SeatTest, AnActionMayCloseTheDomain) {
  const Words words(folder_.path());
  const Site site(words.domain, "site");
  words.increment(site, 10);
  Domain handle = words.domain;
  atomically(site, [&](Fields) {
    ++words.word();
    on_commit([&] { handle.close(); });
  });
  EXPECT_EQ(code_of([&] { words.increment(site); }), Errc::kNotInitialized);
}

TEST_F(SeatTest, AForkedChildHasNoSeat) {
  const Words words(folder_.path());
  const Site site(words.domain, "site");
  words.increment(site, 10);
  Children children;
  children.spawn("beside an instance", [&] {
    EXPECT_FALSE(sits());
    EXPECT_EQ(code_of([&] { words.increment(site); }), Errc::kDetached);
  });
  children.expect_success();
  words.increment(site);
  EXPECT_EQ(words.value(site), 11U);
}

TEST_F(SeatTest, AChildForkedInTheBodyIsTold) {
  const Words words(folder_.path());
  const Site site(words.domain, "site");
  words.increment(site, 10);
  Children children;
  bool is_first = true;
  atomically(site, [&](Fields) {
    ++words.word();
    if (std::exchange(is_first, false))
      children.spawn("in the body", [&] {
        EXPECT_FALSE(sits());
        EXPECT_EQ(code_of([&] { words.increment(site); }), Errc::kDetached);
      });
  });
  children.expect_success();
  EXPECT_EQ(words.value(site), 11U);
  // A commit of it would be nobody's, also where the child has run an instance of its own since.
  const pid_t parent = getpid();
  for (const bool runs_one : {false, true}) {
    int status = 0;
    try {
      atomically(site, [&](Fields) {
        ++words.word();
        if (const pid_t child = fork(); child != 0) {
          waitpid(child, &status, 0);
        } else if (runs_one) {
          const Words own(folder_.path());
          const Site own_site(own.domain, "own");
          atomically(own_site, [&](Fields) { own.word(1) = 1; });
        }
      });
      if (getpid() != parent) _exit(1);
    } catch (const Error &error) {
      if (getpid() != parent) _exit(error.errc() == Errc::kDetached ? 0 : 2);
      throw;
    }
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(words.value(site), 13U);
}

// A result that its caller gets by a move, which may throw when the instance has long committed.
struct ThrowsWhenMovedTwice {
  ThrowsWhenMovedTwice() = default;
  ThrowsWhenMovedTwice(ThrowsWhenMovedTwice &&other) : moves(other.moves + 1) {
    if (moves == 2) throw std::runtime_error("moved twice");
  }
  int moves = 0;
};

TEST_F(SeatTest, AResultThatThrowsLeavesTheCommitAsItIs) {
  const Words words(folder_.path());
  const Site site(words.domain, "site");
  words.increment(site);
  EXPECT_THROW((void)atomically(site,
                                [&](Fields) {
                                  ++words.word();
                                  return ThrowsWhenMovedTwice();
                                }),
               std::runtime_error);
  EXPECT_EQ(words.value(site), 2U);
  EXPECT_EQ(site.report().line_commits, 3U);
  EXPECT_EQ(words.domain.counters().line_aborts_total(), 0U);
  words.domain.unmap(words.segment);  // nobody is inside
}

TEST_F(SeatTest, AnExceptionUndoesTheInstance) {
  const Words words(folder_.path());
  const Site site(words.domain, "site");
  words.increment(site, 10);
  int undone = 0;
  for (int i = 0; i < 5; ++i)
    EXPECT_THROW(atomically(site,
                            [&](Fields) {
                              ++words.word();
                              on_abort([&] { ++undone; });
                              throw std::runtime_error("undone");
                            }),
                 std::runtime_error);
  EXPECT_EQ(undone, 5);
  words.increment(site);
  EXPECT_EQ(words.value(site), 11U);
  words.domain.unmap(words.segment);  // waits for whoever is inside
}

TEST_F(SeatTest, AnAttemptThatOthersMakeFailRunsAgain) {
  const Words words(folder_.path());
  const Site site(words.domain, "site", "never");
  words.increment(site, 10);
  int attempts = 0;
  atomically(site, [&](Fields) {
    const std::uint64_t seen = words.word();
    if (++attempts < 3) std::thread([&] { words.increment(site); }).join();
    words.word() = seen + 1;
  });
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(words.value(site), 13U);
  const SiteReport report = site.report();
  EXPECT_EQ(report.line_aborts, 2U);
  EXPECT_EQ(report.line_commits, 14U);
}

TEST_F(SeatTest, AnAttemptThatWaitsIsWokenUp) {
  const Words words(folder_.path());
  const Site site(words.domain, "site"), others(words.domain, "others");
  words.increment(site, 10);
  std::thread waker([&] {
    for (int i = 0; i < 5; ++i) words.increment(others);
  });
  EXPECT_EQ(atomically(site,
                       [&](Fields) {
                         const std::uint64_t seen = words.word();
                         if (seen < 15) retry();
                         return seen;
                       }),
            15U);
  waker.join();
}

// A first attempt keeps no log.
TEST_F(SeatTest, AQueryThatMeetsANewerLineBeginsAgainWithALog) {
  const Words words(folder_.path());
  const Site site(words.domain, "site", "after-n=1"), others(words.domain, "others");
  const auto change = [&](std::uint64_t line) {
    std::thread([&] { atomically(others, [&](Fields) { ++words.word(line); }); }).join();
  };
  words.increment(site, 10);
  for (int round = 1; round <= 3; ++round) {
    int runs = 0;
    const std::uint64_t seen = query(site, [&](Fields) {
      const std::uint64_t first = words.word();
      ++runs;
      change(1);  // with a log the snapshot moves on
      return first + words.word(1);
    });
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(seen, 10U + 2 * static_cast<std::uint64_t>(round));
    EXPECT_EQ(site.report().line_aborts, static_cast<std::uint64_t>(round));
  }
  EXPECT_EQ(site.report().page_commits, 0U);
  int runs = 0;
  EXPECT_EQ(query(site,
                  [&](Fields) {
                    if (++runs == 1) change(1);
                    return words.word(1).load();  // the first that it reads: nothing to begin again
                  }),
            7U);
  EXPECT_EQ(runs, 1);
}

TEST_F(SeatTest, AQueryThatWaitsIsWokenUp) {
  const Words words(folder_.path());
  const Site site(words.domain, "site"), others(words.domain, "others");
  words.increment(site, 10);
  EXPECT_EQ(code_of([&] { query(site, [](Fields) { retry(); }); }), Errc::kNothingRead);
  int runs = 0;
  std::thread waker;
  EXPECT_EQ(query(site,
                  [&](Fields) {
                    const std::uint64_t seen = words.word();
                    if (++runs == 2) waker = std::thread([&] { words.increment(others); });
                    if (seen == 10) retry();
                    return seen;
                  }),
            11U);
  EXPECT_EQ(runs, 3) << "the first knew not what it waits for";
  waker.join();
}

TEST_F(SeatTest, ABodyThatNeedsPagesGetsThem) {
  const Words words(folder_.path());
  const Site site(words.domain, "site", "on-capacity"), inner(words.domain, "inner");
  words.increment(site, 10);
  atomically(site, [&](Fields) {
    ++words.word();
    atomically(inner, [&] { ++words.word(1); });  // plain
  });
  EXPECT_EQ(site.report().page_commits, 1U);
  EXPECT_EQ(site.report().escalations_needs_pages, 1U);
  words.increment(site, 10);
  EXPECT_EQ(words.value(site), 21U);
}

TEST_F(SeatTest, WhatRunsInsideIsSubsumed) {
  const Words words(folder_.path());
  const Site site(words.domain, "site"), inner(words.domain, "inner");
  words.increment(site, 10);
  words.increment(inner, 10);
  const std::uint64_t commits = words.domain.counters().line_commits;
  EXPECT_THROW(atomically(site,
                          [&](Fields) {
                            words.increment(inner);
                            EXPECT_EQ(words.value(inner), 21U);
                            throw std::runtime_error("both are undone");
                          }),
               std::runtime_error);
  EXPECT_EQ(words.value(site), 20U);
  atomically(site, [&](Fields) { words.increment(inner); });
  EXPECT_EQ(words.value(site), 21U);
  EXPECT_EQ(inner.report().line_commits, 10U);
  EXPECT_EQ(words.domain.counters().line_commits - commits, 3U);
  // Inside a transaction of level 2, too.
  atomically(words.domain, [&] { words.increment(site); });
  EXPECT_EQ(site.report().line_commits, 13U);
  EXPECT_EQ(words.value(site), 22U);
}

}  // namespace
}  // namespace tmh::test
