// tests/exchange/hybrid_test.cpp -- sites in hybrid domains: at which level an instance runs, what
// the two levels do to each other, bad input.
// Order:      two processes hand each other the turn; a comment at the side tells who runs.
// Source:     thesis, section 6.2; hierarchy/exchange/PROTOCOL.md.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "hierarchy/transaction/escalation.h"
#include "levels/line/layout.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/hybrid_table.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

class HybridTest : public testing::Test {
 protected:
  MemoryFolder folder_;
};

TEST_F(HybridTest, SmallInstanceCommitsAtLinesAndPagesSeeIt) {
  const Table table(folder_.path());
  const Site site(table.domain, "count");
  for (int i = 0; i < 10; ++i) atomically(site, [&](Fields) { ++table.word(0); });
  EXPECT_EQ(site.report().line_commits, 10U);
  EXPECT_EQ(site.report().page_commits, 0U);
  EXPECT_EQ(table.committed(0), 10U);
  atomically(table.domain, [&] { table.word(0).store(100); });  // level 2
  EXPECT_EQ(atomically(site, [&](Fields) { return ++table.word(0), table.word(0).load(); }), 101U);
  EXPECT_EQ(site.report().line_commits, 11U);
}

TEST_F(HybridTest, SiteOfAPageDomainRunsAtPages) {
  DomainOptions pages;
  pages.levels = Levels::kPage;
  const Table table(folder_.path(), pages);
  const Site site(table.domain, "count", "never");
  atomically(site, [&](Fields) { ++table.word(3); });
  EXPECT_EQ(site.report().page_commits, 1U);
  EXPECT_EQ(table.committed(3), 1U);
}

TEST_F(HybridTest, AlwaysRunsAtPages) {
  const Table table(folder_.path());
  const Site site(table.domain, "count", "always");
  atomically(site, [&](Fields) { ++table.word(3); });
  EXPECT_EQ(site.report().page_commits, 1U);
  EXPECT_EQ(site.report().line_commits, 0U);
}

TEST_F(HybridTest, ExceptionRollsBackAtEitherLevel) {
  const Table table(folder_.path());
  for (const char *escalation : {"never", "always"}) {
    const Site site(table.domain, "throws", escalation);
    EXPECT_THROW(atomically(site,
                            [&](Fields) {
                              table.word(1).store(7);
                              throw std::runtime_error("no");
                            }),
                 std::runtime_error);
    EXPECT_EQ(table.committed(1), 0U) << escalation;
    atomically(site, [&](Fields) { table.word(2).store(1); });  // usable
  }
}

TEST_F(HybridTest, NestedInstancesAreSubsumedAtLines) {
  const Table table(folder_.path());
  const Site outer(table.domain, "outer", "never");
  const Site inner(table.domain, "inner", "never");
  EXPECT_THROW(atomically(outer,
                          [&](Fields) {
                            atomically(inner, [&](Fields) { table.word(1).store(7); });
                            throw std::runtime_error("no");
                          }),
               std::runtime_error);
  EXPECT_EQ(table.committed(1), 0U) << "the inner one was part of the outer one";
  atomically(outer, [&](Fields) { atomically(inner, [&](Fields) { table.word(1).store(8); }); });
  EXPECT_EQ(table.committed(1), 8U);
  EXPECT_EQ(outer.report().line_commits, 1U);
  EXPECT_EQ(inner.report().line_commits, 0U);
  // Inside level 2 a site's body runs there, too.
  atomically(table.domain, [&] { atomically(inner, [&](Fields) { table.word(1).store(9); }); });
  EXPECT_EQ(table.committed(1), 9U);
}

TEST_F(HybridTest, PlainCodeInsideALineInstanceEscalatesIt) {
  const Table table(folder_.path());
  const Site site(table.domain, "mixed", "on-capacity");
  int runs = 0;
  atomically(site, [&](Fields) {
    ++runs;
    ++table.word(0);
    atomically(table.domain, [&] { ++table.word(1); });
  });
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(site.report().escalations_needs_pages, 1U);
  EXPECT_EQ(site.report().page_commits, 1U);
  EXPECT_EQ(table.committed(0), 1U);
  EXPECT_EQ(table.committed(1), 1U);
  const Site never(table.domain, "never", "never");
  EXPECT_EQ(code_of([&] { atomically(never, [&](Fields) { atomically(table.domain, [] {}); }); }),
            Errc::kNeedsPages);
  atomically(never, [&](Fields) { ++table.word(2); });  // usable
}

TEST_F(HybridTest, AllocationEscalates) {
  Domain domain = Domain::open(folder_.path(), hybrid());
  const Segment heap = domain.map("heap");
  const Site site(domain, "allocates");
  void *memory = atomically(site, [&](Fields) { return heap.allocate(100); });
  EXPECT_NE(memory, nullptr);
  EXPECT_EQ(site.report().escalations_needs_pages, 1U);
  atomically(site, [&](Fields) { heap.deallocate(memory); });
}

TEST_F(HybridTest, AdaptiveSiteComesBackWhenItsWorkHasShrunk) {
  const Table table(folder_.path());
  const Site site(table.domain, "shrinks", "adaptive");
  for (int i = 0; i < 100; ++i) {  // always more than level 1 can do
    atomically(site, [&](Fields) {
      ++table.word(0);
      atomically(table.domain, [&] { ++table.word(1); });
    });
  }
  EXPECT_EQ(site.report().page_commits, 100U);
  EXPECT_LE(site.report().line_aborts, 8U) << "it went on trying level 1 each time";
  for (int i = 0; i < 600; ++i) atomically(site, [&](Fields) { ++table.word(0); });
  EXPECT_GE(site.report().line_commits, 300U) << "it never came back";
  EXPECT_GE(site.report().de_escalations, 1U);
  EXPECT_EQ(table.committed(0), 700U);
}

TEST_F(HybridTest, ThreadsAtLinesAndOneAtPagesKeepTheSum) {
  constexpr std::uint64_t kPerThread = 3000, kStart = 1000;
  const Table table(folder_.path());
  const Site site(table.domain, "transfer", "after-n");
  atomically(table.domain, [&] {
    for (std::uint64_t page = 0; page < kPages; ++page) table.word(page).store(kStart);
  });
  std::atomic<bool> broken{false};
  const auto transfer = [&](std::uint64_t seed) {
    for (std::uint64_t i = 0; i < kPerThread; ++i) {
      const std::uint64_t from = (seed + i * 7) % kPages, to = (seed * 3 + i * 5 + 1) % kPages;
      atomically(site, [&](Fields) {
        if (from == to || table.word(from) == 0) return;
        --table.word(from);
        ++table.word(to);
      });
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 3; ++t) threads.emplace_back(transfer, t);
  threads.emplace_back([&] {
    for (int i = 0; i < 200; ++i) {
      const auto sum = [&] {
        std::uint64_t all = 0;
        for (std::uint64_t page = 0; page < kPages; ++page) all += table.word(page);
        if (all != kPages * kStart) broken = true;
      };
      if (i % 2 == 0)
        query(table.domain, sum);
      else
        atomically(table.domain, sum);
    }
  });
  for (std::thread &thread : threads) thread.join();
  EXPECT_FALSE(broken) << "an instance of level 2 saw half a transfer";
  const SiteReport report = site.report();
  EXPECT_EQ(report.line_commits + report.page_commits, 3 * kPerThread);
  EXPECT_GT(report.line_commits, 0U);
}

// The query's snapshot is older than what level 1 writes meanwhile, and cannot move on, because
// level 2 has overwritten a page it read.
TEST_F(HybridTest, QueryKeepsItsSnapshotWhileLevelOneWrites) {
  Shared<Turn> turn;
  Children children;
  children.spawn("reader", [&] {
    const Table table(folder_.path());
    const Site site(table.domain, "init", "never");
    atomically(site, [&](Fields) {
      for (std::uint64_t page = 0; page < kPages; ++page) table.word(page).store(1);
    });
    query(table.domain, [&] {
      EXPECT_EQ(table.word(0).load(), 1U);
      turn->reach(1);
      turn->await(2);  // the writer commits at both levels
      for (std::uint64_t page = 1; page < kPages; ++page)
        ASSERT_EQ(table.word(page).load(), 1U) << "page " << page << " is not that of the snapshot";
      EXPECT_EQ(table.word(0).load(), 1U);
    });
    turn->reach(3);
    turn->await(4);  // the writer reads
    for (std::uint64_t page = 1; page < kPages; ++page) EXPECT_EQ(table.committed(page), 3U);
    EXPECT_EQ(table.committed(0), 2U);
  });
  children.spawn("writer", [&] {
    turn->await(1);
    const Table table(folder_.path());
    const Site site(table.domain, "write", "never");
    for (std::uint64_t round = 2; round <= 3; ++round) {
      atomically(site, [&](Fields) {
        for (std::uint64_t page = 1; page < kPages; ++page) table.word(page).store(round);
      });
    }
    EXPECT_EQ(site.report().line_commits, 2U);
    atomically(table.domain, [&] { table.word(0).store(2); });
    turn->reach(2);
    turn->await(3);
    for (std::uint64_t page = 1; page < kPages; ++page)
      EXPECT_EQ(atomically(site, [&](Fields) { return table.word(page).load(); }), 3U);
    turn->reach(4);
  });
  children.expect_success();
}

// More than the ring of old words holds. What the first reader needs of it the second one does not.
TEST_F(HybridTest, OldWordsAreKeptForTheOldestOfSeveralSnapshots) {
  constexpr std::uint64_t kRounds = line::kUndoWords / ((kPages - 1) * kWordsPerPage) + 3;
  Shared<Turn> turn;
  Children children;
  const auto read = [&](std::uint32_t ready, std::uint64_t seen) {
    const Table table(folder_.path());
    query(table.domain, [&] {
      EXPECT_EQ(table.word(0).load(), 0U);
      turn->reach(ready);
      turn->await(4);
      for (std::uint64_t page = 1; page < kPages; ++page)
        ASSERT_EQ(table.word(page, kWordsPerPage - 1).load(), seen) << "page " << page;
    });
  };
  children.spawn("first reader", [&] { read(1, 0); });
  children.spawn("writer", [&] {
    turn->await(1);
    const Table table(folder_.path());
    const Site site(table.domain, "write", "on-capacity");
    const auto write = [&](std::uint64_t round) {
      atomically(site, [&](Fields) {
        for (std::uint64_t i = kWordsPerPage; i < kPages * kWordsPerPage; ++i)
          table.word(0, i).store(round);
      });
    };
    write(1);
    turn->reach(2);
    turn->await(3);
    for (std::uint64_t round = 2; round <= kRounds; ++round) write(round);
    EXPECT_GT(site.report().line_commits, 2U);
    turn->reach(4);
  });
  children.spawn("second reader", [&] {
    turn->await(2);
    read(3, 1);
  });
  children.expect_success();
}

// An instance of level 2 that had read nothing else goes on with the newer state, and commits.
TEST_F(HybridTest, SnapshotOfLevelTwoMovesOnWhenItMay) {
  Shared<Turn> turn;
  Children children;
  children.spawn("pages", [&] {
    const Table table(folder_.path());
    table.domain.begin();
    turn->reach(1);
    turn->await(2);  // level 1 commits
    EXPECT_EQ(table.word(5).load(), 7U);
    table.word(6).store(8);
    EXPECT_EQ(table.domain.end(), Status::kCommitted);
  });
  children.spawn("lines", [&] {
    turn->await(1);
    const Table table(folder_.path());
    const Site site(table.domain, "write", "never");
    atomically(site, [&](Fields) { table.word(5).store(7); });
    turn->reach(2);
  });
  children.expect_success();
}

TEST_F(HybridTest, RetryWaitsUntilAnotherProcessHasChangedWhatWasRead) {
  for (const char *escalation : {"never", "always"}) {
    SCOPED_TRACE(escalation);
    const MemoryFolder folder;
    Shared<Turn> turn;
    Children children;
    children.spawn("taker", [&] {
      const Table table(folder.path());
      const Site site(table.domain, "take", escalation);
      int runs = 0;
      const std::uint64_t taken = atomically(site, [&](Fields) {
        ++runs;
        if (table.word(0) == 0) {
          table.word(1).store(99);  // undone
          turn->reach(1);
          retry();
        }
        return table.word(0).load();
      });
      EXPECT_EQ(taken, 5U);
      EXPECT_GE(runs, 2);
      EXPECT_EQ(table.committed(1), 0U);
    });
    children.spawn("giver", [&] {
      const Table table(folder.path());
      turn->await(1);
      // So that it mostly sleeps; either way is right.
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      atomically(Site(table.domain, "give", escalation), [&](Fields) { table.word(0).store(5); });
    });
    children.expect_success();
  }
  EXPECT_EQ(code_of([] { retry(); }), Errc::kEndWithoutBegin);
}

// The same body runs at either level, so what it asks the library means the same there.
TEST_F(HybridTest, CallsAboutTheRunningInstanceKnowLevelOne) {
  const Table table(folder_.path());
  for (const char *escalation : {"never", "always"}) {
    SCOPED_TRACE(escalation);
    const Site site(table.domain, "asks", escalation);
    atomically(site, [&](Fields) {
      table.domain.advise(&table.word(0), Access::kReadWrite);
      ++table.word(0);
      EXPECT_EQ(table.domain.validate(), Status::kPending);
      EXPECT_EQ(code_of([&] { table.domain.set_policy("self-abort"); }), Errc::kInstanceRunning);
      table.domain.await_change();
    });
    EXPECT_EQ(site.report().line_aborts + site.report().page_aborts, 0U);
  }
}

TEST_F(HybridTest, ActionsRunOnceWhenTheOutermostInstanceHasEnded) {
  const Table table(folder_.path());
  for (const char *escalation : {"never", "always"}) {
    SCOPED_TRACE(escalation);
    const Site site(table.domain, "acts", escalation);
    int commits = 0, aborts = 0;
    const auto act = [&] {
      on_commit([&] {
        ++commits;
        EXPECT_EQ(table.domain.depth(), 0U);
      });
      on_abort([&] { ++aborts; });
    };
    atomically(site, [&](Fields) {
      atomically(site, [&](Fields) { act(); });
      EXPECT_EQ(commits, 0) << "the outer one has not ended";
      ++table.word(0);
    });
    EXPECT_EQ(commits, 1);
    EXPECT_THROW(atomically(site,
                            [&](Fields) {
                              act();
                              throw std::runtime_error("no");
                            }),
                 std::runtime_error);
    EXPECT_EQ(commits, 1);
    EXPECT_EQ(aborts, 1);
  }
  int commits = 0;
  atomically(table.domain, [&] { on_commit([&] { ++commits; }); });
  EXPECT_EQ(commits, 1);
  EXPECT_EQ(code_of([] { on_commit([] {}); }), Errc::kEndWithoutBegin);
}

TEST_F(HybridTest, WrongSpecificationsAreRefusedWithTheRightOnes) {
  const struct {
    const char *variable, *wrong;
  } kWrong[] = {{"TMH_LEVELS", "both"},
                {"TMH_CROSS", "wait"},
                {"TMH_ESCALATION", "after-n=0"},
                {"TMH_ESCALATION", "soon"}};
  for (const auto &[variable, wrong] : kWrong) {
    setenv(variable, wrong, 1);
    EXPECT_EQ(code_of([&] { (void)Domain::open(folder_.path()); }), Errc::kBadLevels) << variable;
    unsetenv(variable);
  }
  EXPECT_EQ(code_of([&] { (void)Domain::open(folder_.path(), hybrid("sometimes")); }),
            Errc::kBadLevels);
  const Table table(folder_.path());
  EXPECT_EQ(code_of([&] { (void)Site(table.domain, "s", "after-wasted-time=5"); }),
            Errc::kBadLevels);
  EXPECT_EQ(code_of([&] { (void)Site(Domain(), "s"); }), Errc::kNotInitialized);
}

TEST_F(HybridTest, LevelsOfADomainAreOneChoice) {
  const Table table(folder_.path());
  expect_child("other levels", [&] {
    DomainOptions pages;
    pages.levels = Levels::kPage;
    EXPECT_EQ(code_of([&] { (void)Domain::open(folder_.path(), pages); }), Errc::kLevelsMismatch);
  });
  expect_child("no choice", [&] {
    DomainOptions no_levels;
    no_levels.line = LineChoice::kSoftware;
    const Table same(folder_.path(), no_levels);
    const Site site(same.domain, "s", "never");
    atomically(site, [&](Fields) { ++same.word(0); });
    EXPECT_EQ(site.report().line_commits, 1U);
  });
  const MemoryFolder other;
  DomainOptions eager = hybrid();
  eager.policies.detection = Detection::kEager;
  EXPECT_EQ(code_of([&] { (void)Domain::open(other.path(), eager); }), Errc::kLevelsMismatch);
}

TEST_F(HybridTest, CloseInsideALineInstanceIsRefused) {
  Table table(folder_.path());
  const Site site(table.domain, "s", "never");
  atomically(site, [&](Fields) {
    ++table.word(0);
    std::error_code ec;
    (void)table.domain.close(ec);
    EXPECT_EQ(ec, make_error_code(Errc::kInstanceRunning));
  });
  EXPECT_EQ(table.committed(0), 1U);
}

TEST_F(HybridTest, ForkedChildIsDetached) {
  const Table table(folder_.path());
  const Site site(table.domain, "s", "never");
  atomically(site, [&](Fields) {
    ++table.word(0);
    const pid_t child = fork();
    if (child == 0) {
      const bool detached =
          code_of([&] { atomically(site, [&](Fields) { ++table.word(1); }); }) == Errc::kDetached;
      _exit(detached ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  });
  EXPECT_EQ(table.committed(0), 1U);
  EXPECT_EQ(table.committed(1), 0U);
}

TEST(EscalationTest, EveryInputHasItsStep) {
  using hierarchy::FailedAttempt;
  using hierarchy::next;
  using hierarchy::NextStep;
  for (const EscalationKind kind :
       {EscalationKind::kNever, EscalationKind::kAlways, EscalationKind::kOnCapacity,
        EscalationKind::kAfterAttempts, EscalationKind::kAfterWasted, EscalationKind::kAdaptive,
        lab::kAdaptivePages, EscalationKind::kOwn}) {
    for (unsigned bits = 0; bits < 128; ++bits) {
      const Escalation escalation{kind, 8, 200};
      FailedAttempt failed;
      failed.over_capacity = (bits & 1) != 0;
      failed.needs_pages = (bits & 2) != 0;
      failed.refused = (bits & 4) != 0;
      failed.attempts = (bits & 8) != 0 ? 8 : 7;
      failed.wasted_ns = (bits & 16) != 0 ? 200'000 : 199'999;
      failed.may_go_first = (bits & 32) != 0;
      failed.attempts_first = (bits & 64) != 0 ? 8 : 7;
      const bool cannot = failed.over_capacity || failed.needs_pages;
      const bool many = failed.attempts == 8, slow = failed.wasted_ns == 200'000;
      bool up = cannot || failed.refused;
      if (kind == EscalationKind::kAfterAttempts) up = up || many;
      if (kind == EscalationKind::kAfterWasted) up = up || slow;
      const bool learns = kind == EscalationKind::kAdaptive || kind == lab::kAdaptivePages;
      if (learns) up = up || (failed.may_go_first ? failed.attempts_first == 8 : many || slow);
      NextStep wanted = up                         ? NextStep::kEscalate
                        : learns && (many || slow) ? NextStep::kGoFirst
                                                   : NextStep::kRetry;
      if (kind == EscalationKind::kAlways) wanted = NextStep::kEscalate;
      if (kind == EscalationKind::kNever) wanted = cannot ? NextStep::kGiveUp : NextStep::kRetry;
      EXPECT_EQ(next(escalation, failed), wanted) << static_cast<int>(kind) << ' ' << bits;
    }
  }
}

TEST(EscalationTest, GuestsStayWhileHostsRunAndAreBackSoonAfter) {
  using hierarchy::begins_as_guest;
  using hierarchy::SiteState;
  Escalation adaptive;
  adaptive.kind = EscalationKind::kAdaptive;
  for (std::uint16_t runs = 0; runs <= SiteState::kPageRunsMax; ++runs) {
    SiteState refused{runs, runs};
    for (std::uint16_t left = runs; left > 0; --left)
      EXPECT_TRUE(begins_as_guest(adaptive, &refused, true));
    EXPECT_FALSE(begins_as_guest(adaptive, &refused, true)) << runs;
    refused = {runs, runs};
    int guests = 0;
    while (begins_as_guest(adaptive, &refused, false)) ++guests;
    EXPECT_LE(guests, 9) << runs;
    Escalation other;
    other.kind = EscalationKind::kOnCapacity;
    refused = {runs, runs};
    EXPECT_FALSE(begins_as_guest(other, &refused, true)) << "only the adaptive policy learns";
  }
}

TEST(EscalationTest, SpellingsRoundTrip) {
  for (const char *text : {"never", "always", "on-capacity", "after-n=8", "after-n=1000000",
                           "after-wasted-time=1us", "adaptive", "adaptive-pages"}) {
    Escalation escalation;
    ASSERT_EQ(parse(text, &escalation), Errc::kOk) << text;
    EXPECT_EQ(to_string(escalation), text);
  }
  for (const char *text : {"", "after-n=", "after-n=0", "after-n=1000001", "after-n=-1",
                           "after-wasted-time=5", "adaptive=3", "adaptive-page", "Never"}) {
    Escalation escalation;
    EXPECT_EQ(parse(text, &escalation), Errc::kBadLevels) << text;
  }
}

}  // namespace
}  // namespace tmh::test
