// tests/rtm/rtm_test.cpp -- level 1 in hardware: RTM sites of one process, beside level 2 and
// software lines.
// Invariants: what committed is there, once, whichever level ran it; a body leaves RTM by no way
//             but its end; counters say what happened.
// Skipped:    where RTM does not work, with the library's sentence. Nothing here demands that one
//             attempt commits.
// Source:     thesis, section 6.2; hierarchy/exchange/PROTOCOL.md, "Hardware lines".
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "tests/rtm/rtm.h"
#include "tests/support/rtm_table.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

class RtmTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_rtm(); !why.empty()) GTEST_SKIP() << why;
  }
  MemoryFolder folder_;
};

TEST_F(RtmTest, PlainBodyCommitsInHardwareAndPagesSeeIt) {
  const RtmTable table(folder_.path());
  const Site site = table.plain_site();
  for (int i = 0; i < 1000; ++i) atomically(site, [&] { ++table.word(3); });
  const SiteReport report = site.report();
  EXPECT_EQ(report.line_commits + report.page_commits, 1000U);
  EXPECT_EQ(report.hardware_commits, report.line_commits);
  EXPECT_GT(report.hardware_commits, 0U) << to_text(report);
  EXPECT_GE(report.hardware_findings, 1U) << "its page was found at level 2";
  EXPECT_GE(report.hardware_pages, 1U);
  EXPECT_EQ(report.escalations_needs_pages + report.escalations_capacity, 0U)
      << "finding pages is no escalation";
  EXPECT_EQ(table.committed(3), 1000U);
  const Counters counters = table.domain.counters();
  EXPECT_GE(counters.hardware_commits + 64, report.hardware_commits);
  EXPECT_GE(counters.hardware_opened, 1U);
  EXPECT_GE(counters.mode_switches, 2U);
}

TEST_F(RtmTest, ResultsAreReturnedByValue) {
  const RtmTable table(folder_.path());
  const Site site = table.plain_site();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    const std::vector<std::uint64_t> both{atomically(site, [&] { return ++table.word(1); }),
                                          atomically(site, [&] { return table.word(1); })};
    ASSERT_EQ(both, (std::vector<std::uint64_t>{i, i}));
  }
}

TEST_F(RtmTest, InstrumentedBodyRunsInHardwareOnlyWhenRtmIsDemanded) {
  for (const LineChoice choice : {LineChoice::kAuto, LineChoice::kRtm, LineChoice::kSoftware}) {
    const MemoryFolder folder;
    const RtmTable table(folder.path(), hybrid_options(choice));
    const Site site(table.domain, "instrumented");
    for (int i = 0; i < 200; ++i) atomically(site, [&](Fields) { ++table.shared(2); });
    EXPECT_EQ(site.report().hardware_commits > 0, choice == LineChoice::kRtm) << to_string(choice);
    EXPECT_EQ(table.committed(2), 200U);
  }
}

TEST_F(RtmTest, PlainBodyWithoutRtmRunsAtPages) {
  const RtmTable table(folder_.path(), hybrid_options(LineChoice::kSoftware));
  const Site site = table.plain_site("never");
  atomically(site, [&] { ++table.word(2); });
  EXPECT_EQ(site.report().page_commits, 1U);
  EXPECT_EQ(table.committed(2), 1U);
}

TEST_F(RtmTest, ExceptionLeavesTheBodyAtLevelTwoAndRollsBack) {
  const RtmTable table(folder_.path());
  const Site site = table.plain_site("on-capacity");
  for (int i = 0; i < 100; ++i) atomically(site, [&] { ++table.word(1); });
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(atomically(site,
                            [&] {
                              table.word(1) = 7777;
                              throw std::runtime_error("no");
                            }),
                 std::runtime_error);
    EXPECT_EQ(atomically(site, [&] { return table.word(1); }), 100U);
  }
  EXPECT_EQ(table.committed(1), 100U);
}

TEST_F(RtmTest, NestedInstancesAreSubsumed) {
  const RtmTable table(folder_.path());
  const Site outer = table.plain_site(), inner = table.plain_site();
  for (int i = 0; i < 200; ++i) {
    atomically(outer, [&] {
      ++table.word(1);
      atomically(inner, [&] { ++table.word(2); });
      ++table.word(1);
    });
  }
  EXPECT_EQ(table.committed(1), 400U);
  EXPECT_EQ(table.committed(2), 200U);
  EXPECT_EQ(inner.report().line_commits, 0U);
  EXPECT_GT(outer.report().hardware_commits, 0U) << to_text(outer.report());
}

TEST_F(RtmTest, BodyOfEitherKindRunsInsideAPlainOne) {
  const RtmTable table(folder_.path());
  const Site site = table.plain_site();
  for (int i = 0; i < 200; ++i) {
    atomically(site, [&] {
      ++table.word(1);
      atomically(site, [&](Fields) { ++table.shared(1); });
      atomically(site, [&] { ++table.word(1); });
    });
  }
  EXPECT_EQ(table.committed(1), 600U);
  EXPECT_EQ(site.report().line_commits + site.report().page_commits, 200U);
  EXPECT_GT(site.report().hardware_commits, 0U) << to_text(site.report());
}

TEST_F(RtmTest, OneSiteRunsPlainBodiesInHardwareAndInstrumentedOnesInSoftware) {
  const RtmTable table(folder_.path());
  const Site site = table.plain_site();
  for (int i = 0; i < 200; ++i) {
    atomically(site, [&] { ++table.word(1); });
    atomically(site, [&](Fields) { ++table.shared(9); });
  }
  EXPECT_EQ(table.committed(1), 200U);
  EXPECT_EQ(table.committed(9), 200U);
  EXPECT_GT(site.report().hardware_commits, 0U) << to_text(site.report());
  EXPECT_GT(site.report().line_commits, site.report().hardware_commits) << to_text(site.report());
}

TEST_F(RtmTest, PlainBodyInsideSoftwareLinesEscalates) {
  const RtmTable table(folder_.path());
  const Site outer(table.domain, "instrumented", "on-capacity"), inner = table.plain_site();
  atomically(outer, [&](Fields) {
    ++table.shared(1);
    atomically(inner, [&] { ++table.word(1); });
  });
  EXPECT_EQ(outer.report().escalations_needs_pages, 1U);
  EXPECT_EQ(table.committed(1), 2U);
}

TEST_F(RtmTest, WhatOnlyLevelTwoCanDoRunsThere) {
  const RtmTable table(folder_.path());
  const Site site = table.plain_site("on-capacity");
  int commits = 0;
  atomically(site, [&] {
    ++table.word(1);
    on_commit([&] { ++commits; });
  });
  EXPECT_EQ(commits, 1);
  atomically(site, [&] { atomically(table.domain, [&] { ++table.word(1); }); });
  EXPECT_GE(site.report().page_commits, 2U);
  EXPECT_EQ(table.committed(1), 2U);
  const Site never(table.domain, "never", "never");
  expect_error(Errc::kNeedsPages, [&] { atomically(never, [&] { on_commit([] {}); }); });
}

// An attempt that something else aborts tells nothing, so each call has many.
TEST_F(RtmTest, TheSiteSaysWhichCallSentItsInstancesUp) {
  constexpr int kTries = 200;
  const MemoryFolder other_folder;
  const RtmTable table(folder_.path());
  const Domain other = Domain::open(other_folder.path(), hybrid_options());
  const Site others(other, "others");
  Domain closing = table.domain;
  const struct {
    Need need;
    std::function<void()> call;
  } calls[] = {{Need::kUnknown, [] { rtm_abort<1>(); }},
               {Need::kOtherDomain, [&] { atomically(others, [] {}); }},
               {Need::kBegin, [&] { atomically(table.domain, [] {}); }},
               {Need::kBeginQuery, [&] { query(table.domain, [] {}); }},
               {Need::kAbort, [&] { table.domain.abort(); }},
               {Need::kRoot, [&] { (void)table.segment.root<std::uint64_t>("root"); }},
               {Need::kGrow, [&] { table.segment.grow(RtmTable::kPages * kPageBytes); }},
               {Need::kIrrevocable, [] { become_irrevocable(); }},
               {Need::kException, [] { throw std::runtime_error("undone"); }},
               {Need::kOnCommit, [] { on_commit([] {}); }},
               {Need::kOnAbort, [] { on_abort([] {}); }},
               {Need::kValidate, [&] { (void)table.domain.validate(); }},
               {Need::kAwaitChange, [&] { table.domain.await_change(); }},
               {Need::kUnmap, [&] { table.domain.unmap(table.segment); }},
               {Need::kClose, [&] { closing.close(); }},
               {Need::kSetPolicy, [&] { table.domain.set_policy("self-abort"); }}};
  for (const auto &one : calls) {
    const Need need = one.need;
    SCOPED_TRACE(to_string(need));
    const Site site = table.plain_site("on-capacity"), finds = table.plain_site();
    std::uint64_t sent_up = 0;
    for (int i = 0; i < kTries && sent_up == 0; ++i) {
      // What is refused at level 2 leaves the page there.
      for (int j = 0; j < 2; ++j) atomically(finds, [&] { ++table.word(1); });
      try {
        atomically(site, [&] {
          ++table.word(1);
          one.call();
        });
      } catch (const std::exception &) {  // at level 2 some are refused
      }
      sent_up = site.report().escalations_by_need[static_cast<std::size_t>(need)];
    }
    const SiteReport report = site.report();
    EXPECT_GT(sent_up, 0U) << to_text(report);
    EXPECT_EQ(report.escalations_needs_pages, sent_up) << "no other is counted";
  }
  std::uint64_t sum = 0;
  const Counters counters = table.domain.counters();
  for (const std::uint64_t one : counters.escalations_by_need) sum += one;
  EXPECT_EQ(sum, counters.escalations_needs_pages);
  EXPECT_GE(sum, std::size(calls));
}

TEST_F(RtmTest, TheSiteSaysThatTheEndOfAThreadSentItsInstanceUp) {
  constexpr int kTries = 200;
  struct Work {
    RtmTable table;
    Site site;
  };
  const RtmTable table(folder_.path());
  Work work{table, table.plain_site("on-capacity")};
  const auto sent_up = [&] {
    return work.site.report().escalations_by_need[static_cast<std::size_t>(Need::kThreadEnd)];
  };
  for (int i = 0; i < kTries && sent_up() == 0; ++i) {
    for (int j = 0; j < 2; ++j) atomically(work.site, [&] { ++table.word(1); });
    pthread_t thread{};
    const auto run = [](void *given) -> void * {
      const Work &mine = *static_cast<Work *>(given);
      atomically(mine.site, [&] {
        ++mine.table.word(1);
        pthread_exit(nullptr);
      });
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, nullptr, run, &work), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
  }
  EXPECT_GT(sent_up(), 0U) << to_text(work.site.report());
  EXPECT_EQ(work.site.report().escalations_needs_pages, sent_up());
}

TEST_F(RtmTest, InsideAnotherDomainsInstanceItIsRefused) {
  const MemoryFolder other_folder;
  const RtmTable table(folder_.path());
  const Domain other = Domain::open(other_folder.path(), hybrid_options());
  const Site site = table.plain_site();
  for (int i = 0; i < 100; ++i) atomically(site, [&] { ++table.word(1); });
  expect_error(Errc::kNestedMisuse,
               [&] { atomically(other, [&] { atomically(site, [&] { ++table.word(1); }); }); });
  EXPECT_EQ(table.committed(1), 100U);
}

TEST_F(RtmTest, CapacityEscalates) {
  constexpr std::uint64_t kPages = 512;  // 2 MiB written: more than any first-level data cache
  const RtmTable table(folder_.path(), hybrid_options(), kPages);
  const Site site = table.plain_site("on-capacity");
  for (int i = 0; i < 3; ++i) {
    atomically(site, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page)
        for (std::uint64_t line = 0; line < 64; ++line) ++table.word(page, line * 8);
    });
  }
  const SiteReport report = site.report();
  EXPECT_EQ(report.page_commits, 3U) << to_text(report);
  EXPECT_GE(report.hardware_capacity, 1U) << to_text(report);
  EXPECT_GE(report.escalations_capacity, 1U) << to_text(report);
  EXPECT_EQ(report.escalations_attempts, 0U) << to_text(report);
  EXPECT_EQ(table.committed(kPages - 1, 504), 3U);
}

TEST_F(RtmTest, SystemCallsAreLearned) {
  const RtmTable table(folder_.path());
  const Site site = table.plain_site("adaptive");
  for (int i = 0; i < 200; ++i) {
    atomically(site, [&] {
      ++table.word(1);
      (void)getppid();
    });
  }
  EXPECT_EQ(site.report().page_commits, 200U);
  EXPECT_LT(site.report().hardware_findings, 20U) << "it went on trying RTM each time";
  EXPECT_EQ(table.committed(1), 200U);
}

TEST_F(RtmTest, RetrySleepsUntilAnotherThreadHasChangedWhatWasRead) {
  const RtmTable table(folder_.path());
  const Site taker = table.plain_site(), giver = table.plain_site();
  for (std::uint64_t round = 1; round <= 20; ++round) {
    std::thread gives([&] { atomically(giver, [&] { table.word(2) = round; }); });
    const std::uint64_t taken = atomically(taker, [&] {
      if (table.word(2) != round) retry();
      return table.word(2);
    });
    EXPECT_EQ(taken, round);
    gives.join();
  }
}

// Every thread's transactions are aborted by each switch; none of their increments is lost or
// doubled.
TEST_F(RtmTest, ModesSwitchWhileSeveralThreadsRun) {
  constexpr int kRounds = 300, kThreads = 3;
  const RtmTable table(folder_.path());
  const Site site = table.plain_site("after-n=1000");
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> increments{0};
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t own = 0;
      for (; !stop; ++own) {
        atomically(site, [&] {
          ++table.word(t);  // its own page, and one that all share
          ++table.word(10);
        });
      }
      increments += own;
    });
  }
  std::uint64_t plain = 0;
  // However fast the queries are: until the threads have switched there and back.
  for (int round = 0; round < kRounds || table.domain.counters().mode_switches < 2; ++round) {
    const auto [sum, shared] = query(table.domain, [&] {
      std::uint64_t all = 0;
      for (std::uint64_t t = 0; t < kThreads; ++t) all += table.word(t);
      return std::pair(all, table.word(10));
    });
    ASSERT_EQ(sum, shared) << "a query saw half a transaction";
    if (round % 3 == 0) {
      atomically(table.domain, [&] { ++table.word(20); });
      ++plain;
    }
    std::this_thread::yield();
  }
  stop = true;
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(table.committed(10), increments);
  EXPECT_EQ(table.committed(20), plain);
}

TEST_F(RtmTest, SegmentsComeAndGoWhileAnotherThreadRuns) {
  const RtmTable table(folder_.path());
  const Site site = table.plain_site();
  std::atomic<bool> stop{false};
  std::uint64_t increments = 0;
  std::thread runs([&] {
    for (; !stop; ++increments) atomically(site, [&] { ++table.word(3); });
  });
  for (int round = 0; round < 30; ++round) {
    const Segment other = table.domain.map("other.raw", raw_segment());
    atomically(site, [&] { ++*reinterpret_cast<std::uint64_t *>(other.data()); });
    atomically(site, [&] { ++*reinterpret_cast<std::uint64_t *>(other.data()); });
    table.domain.unmap(other);
  }
  stop = true;
  runs.join();
  EXPECT_EQ(table.committed(3), increments);
  const Segment other = table.domain.map("other.raw", raw_segment());
  EXPECT_EQ(query(table.domain, [&] { return *reinterpret_cast<std::uint64_t *>(other.data()); }),
            60U);
}

// The instance commits at level 2, which an action needs, and its pages are given back to RTM:
// before the action, which leaves nothing to give.
TEST_F(RtmTest, ActionMayCloseTheDomain) {
  RtmTable table(folder_.path());
  const Site site = table.plain_site();
  for (int i = 0; i < 100; ++i) atomically(site, [&] { ++table.word(1); });  // goes on in hardware
  atomically(site, [&] {
    on_commit([&] { table.domain.close(); });
    ++table.word(1);
  });
  EXPECT_EQ(RtmTable(folder_.path()).committed(1), 101U);
}

TEST_F(RtmTest, ChildIsDetached) {
  const RtmTable table(folder_.path());
  const Site site = table.plain_site();
  for (int i = 0; i < 100; ++i) atomically(site, [&] { ++table.word(1); });  // now in line mode
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      atomically(site, [&] { ++table.word(1); });
    } catch (const Error &error) {
      _exit(error.errc() == Errc::kDetached ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  atomically(site, [&] { ++table.word(1); });
  EXPECT_EQ(table.committed(1), 101U);
}

// Plain stores leave no redo records.
TEST_F(RtmTest, PlainBodiesOfADurableDomainRunAtPages) {
  DomainOptions options = hybrid_options(LineChoice::kRtm);
  options.durability = Durability::kBuffered;
  const RtmTable table(folder_.path(), options);
  const Site site = table.plain_site();
  for (int i = 0; i < 50; ++i) atomically(site, [&] { ++table.word(1); });
  EXPECT_EQ(site.report().page_commits, 50U) << to_text(site.report());
  EXPECT_EQ(table.committed(1), 50U);
}

}  // namespace
}  // namespace tmh::test
