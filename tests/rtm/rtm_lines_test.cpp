// tests/rtm/rtm_lines_test.cpp -- instrumented updates in RTM, beside software lines and beside
// level 2, in volatile and durable domains.
// Invariants: what committed is there, once, whichever way it ran; a query at level 2 sees the
//             moment of its begin, whatever commits in RTM meanwhile; a durable domain has after a
//             death what was acknowledged.
// Skipped:    where RTM does not work, with the library's sentence. Nothing here demands that one
//             attempt commits.
// Source:     hierarchy/exchange/PROTOCOL.md, "Lines in RTM".
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "observe/planted.h"
#include "tests/support/children.h"
#include "tests/support/rtm_table.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kCells = 64, kStart = 1000;

class RtmLinesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_rtm(); !why.empty()) GTEST_SKIP() << why;
  }
  [[nodiscard]] static DomainOptions rtm(Durability durability = Durability::kNone) {
    DomainOptions options = hybrid_options(LineChoice::kRtm);
    options.durability = durability;
    return options;
  }
  static field<std::uint64_t> &cell(const RtmTable &table, std::uint64_t i) {
    return table.shared(i % 16, i / 16 * 8);
  }
  static void fill(const RtmTable &table) {
    atomically(table.domain, [&] {
      for (std::uint64_t i = 0; i < kCells; ++i) cell(table, i) = kStart;
    });
  }
  static std::uint64_t sum(const RtmTable &table) {
    std::uint64_t all = 0;
    for (std::uint64_t i = 0; i < kCells; ++i) all += cell(table, i);
    return all;
  }
  static void transfer(const RtmTable &table, const Site &site, std::uint64_t i) {
    const std::uint64_t from = i * 7 % kCells, to = i * 11 % kCells;
    atomically(site, [&](Fields) {
      --cell(table, from);
      ++cell(table, to);
    });
  }
  MemoryFolder folder_;
};

TEST_F(RtmLinesTest, UpdatesCommitInRtmAndQueriesOnSoftwareLines) {
  const RtmTable table(folder_.path(), rtm());
  const Site site(table.domain, "count");
  for (int i = 0; i < 1000; ++i) atomically(site, [&](Fields) { ++table.shared(3); });
  EXPECT_EQ(query(site, [&](Fields) { return table.shared(3).load(); }), 1000U);
  const SiteReport report = site.report();
  EXPECT_EQ(report.line_commits, 1001U) << to_text(report);
  EXPECT_GT(report.hardware_commits, 500U) << to_text(report);
  EXPECT_LT(report.hardware_commits, 1001U) << "the query is one of software";
  EXPECT_EQ(report.hardware_pages + report.hardware_findings, 0U) << "it needs no pages in H";
  EXPECT_EQ(table.committed(3), 1000U);
  const Counters counters = table.domain.counters();
  EXPECT_GE(counters.hardware_commits, report.hardware_commits);
  EXPECT_EQ(counters.hardware_opened + counters.mode_switches, 0U);
}

// Bytes of a word, several lines of a page and several pages; reads of what was written.
TEST_F(RtmLinesTest, AnInstanceSeesItsOwnStoresOfEverySize) {
  const RtmTable table(folder_.path(), rtm());
  const Site site(table.domain, "sizes");
  auto *const bytes = reinterpret_cast<field<std::uint8_t> *>(&table.word(1));
  auto *const halves = reinterpret_cast<field<std::uint32_t> *>(&table.word(2));
  for (std::uint32_t i = 1; i <= 200; ++i) {
    const bool is_right = atomically(site, [&](Fields) {
      bytes[i % 512] = static_cast<std::uint8_t>(i);
      halves[i % 64] = i;
      const bool are_seen = bytes[i % 512] == static_cast<std::uint8_t>(i) && halves[i % 64] == i;
      table.shared(3, i % 512) = bytes[i % 512] + halves[i % 64];
      return are_seen && table.shared(3, i % 512) == static_cast<std::uint8_t>(i) + i;
    });
    ASSERT_TRUE(is_right) << i;
  }
  for (std::uint32_t i = 137; i <= 200; ++i)
    EXPECT_EQ(query(table.domain, [&] { return table.word(3, i % 512); }),
              static_cast<std::uint8_t>(i) + i);
  EXPECT_GT(site.report().hardware_commits, 0U) << to_text(site.report());
}

TEST_F(RtmLinesTest, WhatRtmCannotDoGoesOnInSoftwareOrAtPages) {
  const RtmTable table(folder_.path(), rtm());
  const Site site(table.domain, "all kinds", "on-capacity"), plain = table.plain_site();
  int commits = 0;
  for (int i = 0; i < 20; ++i) {
    atomically(site, [&](Fields) {
      ++table.shared(1);
      on_commit([&] { ++commits; });
    });
    EXPECT_THROW(atomically(site,
                            [&](Fields) {
                              table.shared(1) = 7777;
                              throw std::runtime_error("no");
                            }),
                 std::runtime_error);
    atomically(site, [&](Fields) {
      ++table.shared(1);
      atomically(plain, [&] { ++table.word(1); });
    });
    atomically(site, [&](Fields) {
      ++table.shared(1);
      atomically(site, [&](Fields) { ++table.shared(1); });
      EXPECT_EQ(query(site, [&](Fields) { return table.shared(1).load(); }),
                static_cast<std::uint64_t>(6 * i + 5))
          << "an instance inside sees what the one around it has stored";
    });
    atomically(site, [&](Fields) {
      become_irrevocable();
      ++table.shared(1);
    });
  }
  EXPECT_EQ(commits, 20);
  EXPECT_EQ(table.committed(1), 20U * 6);
}

TEST_F(RtmLinesTest, RetrySleepsUntilACommitInRtmChangesWhatWasRead) {
  const RtmTable table(folder_.path(), rtm());
  const Site taker(table.domain, "taker"), giver(table.domain, "giver");
  for (std::uint64_t round = 1; round <= 20; ++round) {
    std::thread gives([&] { atomically(giver, [&](Fields) { table.shared(2) = round; }); });
    const std::uint64_t taken = atomically(taker, [&](Fields) {
      if (table.shared(2) != round) retry();
      return table.shared(2).load();
    });
    EXPECT_EQ(taken, round);
    gives.join();
  }
}

// More lines than any first-level data cache has.
TEST_F(RtmLinesTest, WhatDoesNotFitGoesOnOnSoftwareLines) {
  constexpr std::uint64_t kPages = 128;
  const RtmTable table(folder_.path(), rtm(), kPages);
  const Site site(table.domain, "large", "never");
  for (int i = 0; i < 3; ++i) {
    atomically(site, [&](Fields) {
      for (std::uint64_t page = 0; page < kPages; ++page)
        for (std::uint64_t line = 0; line < 64; ++line) ++table.shared(page, line * 8);
    });
  }
  const SiteReport report = site.report();
  EXPECT_EQ(report.line_commits, 3U) << to_text(report);
  EXPECT_EQ(report.hardware_commits, 0U) << to_text(report);
  EXPECT_GE(report.hardware_capacity, 1U) << to_text(report);
  EXPECT_EQ(table.committed(kPages - 1, 504), 3U);
}

// Both run the same lines: who locks one in software ends who has it in RTM.
TEST_F(RtmLinesTest, ProcessesInRtmInSoftwareAndAtLevelTwoKeepTheSum) {
  constexpr std::uint64_t kTransfers = 3000;
  const RtmTable first(folder_.path(), rtm());
  fill(first);
  Shared<std::atomic<std::uint32_t>> at_work;
  at_work->store(4);
  Children children;
  for (const LineChoice line : {LineChoice::kRtm, LineChoice::kRtm, LineChoice::kSoftware}) {
    children.spawn(to_string(line), [&, line] {
      const RtmTable table(folder_.path(), hybrid_options(line));
      const Site site(table.domain, "transfer");
      for (std::uint64_t i = 0; i < kTransfers; ++i) transfer(table, site, i + seed());
      const SiteReport report = site.report();
      EXPECT_EQ(report.line_commits + report.page_commits, kTransfers);
      if (line == LineChoice::kRtm) {
        EXPECT_GT(report.hardware_commits, 0U) << to_text(report);
      }
      std::printf("%s: %s\n", to_string(line), to_text(report).c_str());
      at_work->fetch_sub(1);
    });
  }
  children.spawn("level 2", [&] {
    const RtmTable table(folder_.path(), rtm());
    for (std::uint64_t i = 0; at_work->load() > 1; ++i) {
      EXPECT_EQ(query(table.domain, [&] { return sum(table); }), kStart * kCells);
      if (i % 8 == 0)
        atomically(table.domain, [&] {
          const std::uint64_t from = i % kCells, to = (i + 1) % kCells;
          --cell(table, from);
          ++cell(table, to);
        });
    }
  });
  children.expect_success();
  EXPECT_EQ(query(first.domain, [&] { return sum(first); }), kStart * kCells);
}

// Undo words of commits in RTM: a query copies its pages one after the other, while they change.
void a_query_sees_its_moment(const std::string &folder, const DomainOptions &options,
                             std::uint64_t *wrong) {
  constexpr std::uint64_t kUpdates = 800;
  const RtmTable table(folder, options);
  const Site site(table.domain, "transfer");
  std::atomic<std::uint64_t> asked{0}, done{0};
  std::thread updates([&] {
    atomically(site, [&](Fields) {
      for (std::uint64_t i = 0; i < 16; ++i) table.shared(i) = kStart;
    });
    for (std::uint64_t i = 1; i <= kUpdates; ++i) {
      done = i;
      while (asked < i) std::this_thread::yield();
      atomically(site, [&](Fields) {
        --table.shared(15 - i % 16);
        ++table.shared(i / 16 % 16);
      });
    }
  });
  for (std::uint64_t round = 0; round < kUpdates / 16; ++round) {
    while (done < 16 * round + 1) std::this_thread::yield();
    const std::uint64_t all = query(table.domain, [&] {
      std::uint64_t copied = 0;
      std::vector<std::uint64_t> words(RtmTable::kWordsPerPage);
      for (std::uint64_t page = 0; page < 16; ++page) {
        const std::uint64_t next = ++asked + 1;
        while (done < next && next <= kUpdates) std::this_thread::yield();
        table.domain.copy(&table.word(page), words.data(), kPageBytes);
        copied += words[0];
      }
      return copied;
    });
    *wrong += all != 16 * kStart ? 1 : 0;
  }
  updates.join();
  const SiteReport report = site.report();
  EXPECT_GT(report.hardware_commits, 0U) << to_text(report);
  EXPECT_EQ(report.page_commits, 0U) << "nobody waits for the query: " << to_text(report);
}

TEST_F(RtmLinesTest, AQueryThatCopiesSeesTheMomentOfItsBegin) {
  std::uint64_t wrong = 0;
  a_query_sees_its_moment(folder_.path(), rtm(), &wrong);
  EXPECT_EQ(wrong, 0U);
}

TEST_F(RtmLinesTest, WithoutUndoWordsAQueryDoesNotSeeOneMoment) {
  std::uint64_t wrong = 0;
  observe::plant(observe::Planted::kNoUndoWords);
  a_query_sees_its_moment(folder_.path(), rtm(), &wrong);
  observe::plant(observe::Planted::kNone);
  EXPECT_GT(wrong, 0U);
}

// What others see of two lines, which are equal after each commit: of one that stores to both in
// RTM, one that does so in software, with all lines between them, which takes its time, and one
// that looks. Looks that saw two values.
std::uint64_t looks_at_two_values(observe::Planted planted) {
  constexpr std::uint64_t kInRtm = 20'000, kInSoftware = 500, kLast = 62;
  const MemoryFolder folder;
  Shared<std::atomic<std::uint64_t>> ended, wrong;
  Children children;
  children.spawn("in RTM", [&] {
    observe::plant(planted);
    const RtmTable table(folder.path(), hybrid_options(LineChoice::kRtm));
    const Site site(table.domain, "both");
    for (std::uint64_t i = 0; i < kInRtm; ++i)
      atomically(site, [&](Fields) {
        table.shared(1) = i;
        table.shared(kLast) = i;
      });
    ended->fetch_add(1);
  });
  children.spawn("in software", [&] {
    const RtmTable table(folder.path(), hybrid_options(LineChoice::kSoftware));
    const Site site(table.domain, "all");
    for (std::uint64_t i = 0; i < kInSoftware; ++i)
      atomically(site, [&](Fields) {
        for (std::uint64_t page = 1; page <= kLast; ++page)
          for (std::uint64_t word = 0; word < RtmTable::kWordsPerPage; word += 8)
            table.shared(page, word) = kInRtm + i;
      });
    ended->fetch_add(1);
  });
  children.spawn("looks", [&] {
    const RtmTable table(folder.path(), hybrid_options(LineChoice::kSoftware));
    const Site site(table.domain, "looks");
    while (ended->load() < 2)
      if (query(site, [&](Fields) { return table.shared(1) != table.shared(kLast).load(); }))
        wrong->fetch_add(1);
  });
  children.expect_success();
  const RtmTable table(folder.path());
  return wrong->load() + (table.committed(1) != table.committed(kLast) ? 1 : 0);
}

TEST_F(RtmLinesTest, NobodySeesHalfOfACommit) {
  EXPECT_EQ(looks_at_two_values(observe::Planted::kNone), 0U);
}

TEST_F(RtmLinesTest, PlantedFaultsAreSeen) {
  for (const observe::Planted fault :
       {observe::Planted::kRtmWordsUnseen, observe::Planted::kRtmStampOld}) {
    std::uint64_t seen = 0;
    for (int tries = 0; tries < 20 && seen == 0; ++tries) seen = looks_at_two_values(fault);
    EXPECT_GT(seen, 0U) << static_cast<std::uint64_t>(fault);
  }
}

class RtmLinesDurableTest : public RtmLinesTest, public testing::WithParamInterface<Durability> {};

TEST_P(RtmLinesDurableTest, WhatWasAcknowledgedIsThereAfterTheDeathOfAll) {
  const DomainOptions options = rtm(GetParam());
  Shared<std::atomic<std::uint64_t>> acknowledged, hardware;
  for (std::uint64_t round = 0; round < 4; ++round) {
    Children children;
    children.spawn("writer", [&] {
      const RtmTable table(folder_.path(), options);
      const Site site(table.domain, "pairs");
      for (std::uint64_t next = acknowledged->load() + 1;; ++next) {
        atomically(site, [&](Fields) {
          table.shared(next % 16, next % 64 * 8) = next;
          table.shared(20) = next;
          *reinterpret_cast<field<std::uint8_t> *>(&table.word(21, next % 512)) =
              static_cast<std::uint8_t>(next);
        });
        if (GetParam() == Durability::kBuffered && next % 50 == 0) table.domain.flush();
        if (GetParam() == Durability::kStrict || next % 50 == 0) acknowledged->store(next);
        hardware->store(site.report().hardware_commits);
      }
    });
    const std::uint64_t from = acknowledged->load();
    ASSERT_TRUE(poll_until([&] { return acknowledged->load() >= from + 100; }));
    children.bury(0);
    const std::uint64_t wanted = acknowledged->load();
    const RtmTable table(folder_.path(), options);
    const std::uint64_t last = table.committed(20);
    EXPECT_GE(last, wanted);
    EXPECT_EQ(table.committed(last % 16, last % 64 * 8), last) << "half of a commit";
    EXPECT_EQ(table.committed(21, last % 512) & 0xff, last & 0xff) << "half of a commit";
    acknowledged->store(last);
  }
  EXPECT_GT(hardware->load(), 0U);
}

// The room in the log that a thread keeps for RTM goes back when software needs it, and at its end.
TEST_P(RtmLinesDurableTest, RecordsOfBothWaysFillTheLogInTheOrderOfTheirStamps) {
  const DomainOptions options = rtm(GetParam());
  constexpr std::uint64_t kRounds = 400;
  {
    const RtmTable table(folder_.path(), options);
    const Site small(table.domain, "small"), large(table.domain, "large", "never");
    for (std::uint64_t i = 1; i <= kRounds; ++i) {
      atomically(small, [&](Fields) { table.shared(1) = i; });
      if (i % 20 != 0) continue;
      atomically(large, [&](Fields) {
        (void)::getppid();  // not in RTM
        for (std::uint64_t page = 2; page < 40; ++page) table.shared(page, 8) = i;
      });
      std::thread([&] { atomically(small, [&](Fields) { table.shared(1, 8) = i; }); }).join();
    }
    EXPECT_GT(small.report().hardware_commits, 0U) << to_text(small.report());
    EXPECT_EQ(large.report().hardware_commits, 0U) << to_text(large.report());
    table.domain.checkpoint();
    atomically(small, [&](Fields) { table.shared(1) = kRounds + 1; });
  }
  const RtmTable table(folder_.path(), options);
  EXPECT_EQ(table.committed(1), kRounds + 1);
  EXPECT_EQ(table.committed(1, 8), kRounds);
  EXPECT_EQ(table.committed(39, 8), kRounds);
}

INSTANTIATE_TEST_SUITE_P(All, RtmLinesDurableTest,
                         testing::Values(Durability::kStrict, Durability::kBuffered),
                         [](const auto &info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace tmh::test
