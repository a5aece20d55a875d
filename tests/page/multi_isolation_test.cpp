// tests/page/multi_isolation_test.cpp -- snapshot isolation at level 2, in a fixed order of events:
// what two updates may do that serializable ones may not, and what they may not either.
// Invariants: (1) the first committer wins by lines of 64 bytes; other lines of a page merge, in
//             every process's view. (2) write skew happens under snapshot isolation alone;
//             promotion ends it, whoever promotes. (3) serializable and irrevocable instances keep
//             their promise beside snapshot instances. (4) counters say what ran, whichever way
//             isolation was asked for; level 1 and eager domains are serializable. Histories at
//             random: tests/histories/isolation_history_multi_test.cpp.
// Order:      the two roles hand each other the turn; a comment at the side tells who runs.
// Source:     EXCITE-VM, sections 3.3 and 5.3.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include <tmh/field.hpp>
#include <tmh/site.hpp>

#include "tests/support/stage.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kWordsPerLine = 64 / sizeof(std::uint64_t);

// A line's first word.
std::uint64_t &at(const Actor &self, std::uint64_t page, std::uint64_t line) {
  return (&self.word(page))[line * kWordsPerLine];
}

class SnapshotIsolationTest : public ModeTest {};

INSTANTIATE_TEST_SUITE_P(Modes, SnapshotIsolationTest, testing::ValuesIn(lazy_modes()), mode_name);

using IsolationTest = ModeTest;
INSTANTIATE_TEST_SUITE_P(Modes, IsolationTest, testing::ValuesIn(kModes), mode_name);

using HybridIsolationTest = ModeTest;
INSTANTIATE_TEST_SUITE_P(Modes, HybridIsolationTest, testing::ValuesIn(hybrid_modes()), mode_name);

bool is_eager(const Mode &mode) { return mode.detection == Detection::kEager; }
using EagerIsolationTest = ModeTest;
INSTANTIATE_TEST_SUITE_P(Modes, EagerIsolationTest,
                         testing::ValuesIn(modes_where(kModes, is_eager)), mode_name);

// Where pages stay mapped: the kernel lists stores, and level 1 does not ask for pages.
bool keeps_pages(const Mode &mode) {
  return mode.tracking == Tracking::kKernelHot && mode.levels == Levels::kPage;
}
using MappedPagesTest = ModeTest;
INSTANTIATE_TEST_SUITE_P(Modes, MappedPagesTest,
                         testing::ValuesIn(modes_where(kModes, keeps_pages)), mode_name);

// Each reads what the other one writes. The second committer finds what it has read changed.
TEST_P(SnapshotIsolationTest, WriteSkewHappensUnderSnapshotIsolationAlone) {
  using enum Isolation;
  for (const auto &isolations :
       {std::pair{kSnapshot, kSnapshot}, std::pair{kSnapshot, kSerializable},
        std::pair{kSerializable, kSnapshot}, std::pair{kSerializable, kSerializable}}) {
    const Isolation one = isolations.first, two = isolations.second;
    run_pair(
        "",
        [&](Actor &self, Turn &turn) {
          atomically(self.domain, [&] {
            self.set(1, 1);
            self.set(2, 1);
          });
          self.domain.begin(one);
          EXPECT_EQ(self.get(1) + self.get(2), 2U);
          self.set(1, 0);
          turn.reach(1);
          turn.await(2);  // the other one has committed
          EXPECT_EQ(self.get(2), 1U) << "its snapshot";
          const Status status = one == kSnapshot ? Status::kCommitted : Status::kAborted;
          EXPECT_EQ(self.domain.end(), status);
          EXPECT_EQ(self.committed(1), one == kSnapshot ? 0U : 1U);
          EXPECT_EQ(self.committed(2), 0U);
        },
        [&](Actor &self, Turn &turn) {
          turn.await(1);
          self.domain.begin(two);
          EXPECT_EQ(self.get(1) + self.get(2), 2U);
          self.set(2, 0);
          EXPECT_EQ(self.domain.end(), Status::kCommitted);
          turn.reach(2);
        });
  }
}

TEST_P(SnapshotIsolationTest, LinesOfOnePageMerge) {
  run_pair(
      "isolation=snapshot",
      [&](Actor &self, Turn &turn) {
        atomically(self.domain, [&] {
          for (std::uint64_t line = 0; line < kPageBytes / 64; ++line)
            store(at(self, 1, line), line);
        });
        self.domain.begin();
        for (std::uint64_t line = 0; line < kPageBytes / 64; line += 2)
          store(at(self, 1, line), 100 + line);
        turn.reach(1);
        turn.await(2);  // the other one has committed the other lines
        EXPECT_EQ(load(at(self, 1, 63)), 63U) << "its snapshot";
        EXPECT_EQ(load(at(self, 1, 62)), 162U) << "its own store";
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
        query(self.domain, [&] {
          for (std::uint64_t line = 0; line < kPageBytes / 64; ++line)
            EXPECT_EQ(load(at(self, 1, line)), (line % 2 == 0 ? 100 : 200) + line) << line;
        });
        turn.reach(3);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.domain.begin();
        for (std::uint64_t line = 1; line < kPageBytes / 64; line += 2)
          store(at(self, 1, line), 200 + line);
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
        turn.reach(2);
        turn.await(3);
        query(self.domain, [&] {
          for (std::uint64_t line = 0; line < kPageBytes / 64; ++line)
            EXPECT_EQ(load(at(self, 1, line)), (line % 2 == 0 ? 100 : 200) + line) << line;
        });
      });
}

// Turns 4 r + 1: one has stored, 2: two has stored and committed, 3: one has committed and looked,
// 4: two has looked. The pages stay mapped, or not, and get hot: each commits to what the other one
// has in its view.
TEST_P(SnapshotIsolationTest, BothViewsShowWhatHasMerged) {
  constexpr std::uint32_t kRounds = 100;
  constexpr std::uint64_t kPages = 3;
  const auto change = [](const Actor &self, std::uint32_t round, std::uint64_t line) {
    self.domain.begin(Isolation::kSnapshot);
    std::uint64_t &word = at(self, round % kPages, line);
    EXPECT_EQ(load(word), round / kPages);
    store(word, load(word) + 1);
  };
  const auto look = [](const Actor &self, std::uint32_t round) {
    const auto see_all = [&] {
      for (std::uint64_t page = 0; page < kPages; ++page) {
        const std::uint64_t changes = (round + kPages - page) / kPages;
        EXPECT_EQ(load(at(self, page, 1)), changes) << "page " << page << " in round " << round;
        EXPECT_EQ(load(at(self, page, 2)), changes) << "page " << page << " in round " << round;
      }
    };
    if (round % 4 == 0) query(self.domain, see_all);
    if (round % 4 == 1) atomically(self.domain, Isolation::kSnapshot, see_all);
    if (round % 4 == 2) atomically(self.domain, Isolation::kSerializable, see_all);
  };
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          turn.await(4 * round);
          change(self, round, 1);
          turn.reach(4 * round + 1);
          turn.await(4 * round + 2);
          EXPECT_EQ(self.domain.end(), Status::kCommitted) << "round " << round;
          look(self, round);
          turn.reach(4 * round + 3);
        }
      },
      [&](Actor &self, Turn &turn) {
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          turn.await(4 * round + 1);
          change(self, round, 2);
          EXPECT_EQ(self.domain.end(), Status::kCommitted) << "round " << round;
          turn.reach(4 * round + 2);
          turn.await(4 * round + 3);
          look(self, round);
          turn.reach(4 * round + 4);
        }
      });
}

// Words of their own in it: lines count.
TEST_P(SnapshotIsolationTest, OfTwoThatWriteOneLineTheFirstCommitterWins) {
  run_pair(
      "isolation=snapshot",
      [&](Actor &self, Turn &turn) {
        const auto lost = [&] {
          return self.domain.counters().aborts[static_cast<std::size_t>(AbortCause::kValidation)];
        };
        self.commit(1, 5);
        const std::uint64_t before = lost();
        self.domain.begin();
        self.set(1, self.get(1) + 1);
        self.set(2, 1);
        turn.reach(1);
        turn.await(2);  // the other one has committed the line's last word
        EXPECT_EQ(self.domain.end(), Status::kAborted);
        EXPECT_EQ(lost(), before + 1);
        query(self.domain, [&] {
          EXPECT_EQ(self.get(1), 5U);
          EXPECT_EQ(load((&self.word(1))[kWordsPerLine - 1]), 7U);
          EXPECT_EQ(self.get(2), 0U) << "nothing of the loser";
        });
        atomically(self.domain, [&] { self.set(1, self.get(1) + 1); });
        EXPECT_EQ(self.committed(1), 6U);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        atomically(self.domain,
                   [&] { store((&self.word(1))[kWordsPerLine - 1], std::uint64_t{7}); });
        turn.reach(2);
      });
}

TEST_P(SnapshotIsolationTest, AnIrrevocableInstanceIsSerializable) {
  run_pair(
      "isolation=snapshot",
      [&](Actor &self, Turn &turn) {
        self.commit(1, 7);
        const std::uint64_t before = self.domain.counters().snapshot_commits;
        int attempts = 0;
        atomically(self.domain, [&] {
          const std::uint64_t seen = self.get(1);
          if (++attempts == 1) {
            turn.reach(1);
            turn.await(2);  // the other one has committed 8
          }
          become_irrevocable();
          self.set(2, seen + 1);
        });
        EXPECT_EQ(attempts, 2) << "what it had read was changed";
        EXPECT_EQ(self.committed(2), 9U);
        EXPECT_EQ(self.domain.counters().snapshot_commits, before + 1) << "the other one's alone";
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.commit(1, 8);
        turn.reach(2);
      });
}

TEST_P(SnapshotIsolationTest, AnInstanceInsideDemandsMore) {
  using enum Isolation;
  struct Row {
    Isolation outer, inner;
    // Behind the other one's commit; else before it.
    bool is_late, commits;
  };
  constexpr Row kRows[] = {
      {kSnapshot, Isolation{}, true, true},     {kSnapshot, kSnapshot, false, true},
      {kSnapshot, kSerializable, true, false},  {kSnapshot, kSerializable, false, false},
      {kSerializable, kSnapshot, false, false}, {kSerializable, Isolation{}, true, false}};
  for (const bool at_site : {false, true}) {
    for (const Row &row : kRows) {
      run_pair(
          "isolation=snapshot",
          [&](Actor &self, Turn &turn) {
            const Site site(self.domain, "inner", "always", row.inner);
            const auto inside = [&] {
              if (at_site) return atomically(site, [&] { (void)self.get(3); });
              atomically(self.domain, row.inner, [&] { (void)self.get(3); });
            };
            self.commit(1, 7);
            self.domain.begin(row.outer);
            self.set(2, self.get(1));
            query(self.domain, [&] { (void)self.get(4); });  // demands nothing
            if (!row.is_late) inside();
            turn.reach(1);
            turn.await(2);  // the other one has committed what this one has read
            if (row.is_late) inside();
            EXPECT_EQ(self.domain.end(), row.commits ? Status::kCommitted : Status::kAborted)
                << "row " << &row - kRows << (at_site ? " at a site" : "");
            // The next one is what it asks for itself.
            const std::uint64_t before = self.domain.counters().snapshot_commits;
            self.commit(2, 1);
            EXPECT_EQ(self.domain.counters().snapshot_commits, before + 1);
          },
          [&](Actor &self, Turn &turn) {
            turn.await(1);
            self.commit(1, 8);
            turn.reach(2);
          });
    }
  }
}

// Where the kernel lists stores: a page that was written stays mapped. Reading it costs nothing,
// writing it one fault inside the kernel; what others commit to it is brought into it.
TEST_P(MappedPagesTest, PagesStayMapped) {
  constexpr std::uint64_t kPages = 32;
  run_pair(
      "isolation=snapshot",
      [&](Actor &self, Turn &turn) {
        const auto faults = [&] {
          const Counters counters = self.domain.counters();
          return std::pair{counters.faults_kernel, counters.faults_signal};
        };
        const auto write_each = [&](std::uint64_t value) {
          for (std::uint64_t page = 0; page < kPages; ++page)
            for (int often = 0; often < 2; ++often)
              atomically(self.domain, [&] { at(self, page, 1) = value + page; });
        };
        write_each(100);
        for (int round = 0; round < 100; ++round)  // none of them is hot any more
          atomically(self.domain, [&] { at(self, kPages, 1) = 0; });
        const auto before = faults();
        atomically(self.domain, [&] {
          for (std::uint64_t page = 0; page < kPages; ++page)
            EXPECT_EQ(at(self, page, 1), 100 + page);
        });
        EXPECT_EQ(faults(), before) << "a read";
        for (std::uint64_t page = 0; page < kPages; ++page)
          atomically(self.domain, [&] { at(self, page, 1) += 1; });
        EXPECT_EQ(faults(), (std::pair{before.first + kPages, before.second})) << "a store";
        turn.reach(1);
        turn.await(2);  // the other one has written all of them
        const auto then = faults();
        atomically(self.domain, [&] {
          for (std::uint64_t page = 0; page < kPages; ++page) {
            EXPECT_EQ(at(self, page, 1), 101 + page);
            EXPECT_EQ(at(self, page, 2), 7 + page);
          }
        });
        EXPECT_EQ(faults(), then) << "what another process has committed";
        turn.reach(3);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        for (std::uint64_t page = 0; page < kPages; ++page)
          atomically(self.domain, [&] { at(self, page, 2) = 7 + page; });
        turn.reach(2);
        turn.await(3);
      });
}

// What each of two does with word 0 of page 1; both write a word of their own.
enum class Use : std::uint8_t { kReads, kWrites, kPromotes };

void use(const Actor &self, Use how) {
  std::uint64_t &word = self.word(1);
  if (how == Use::kWrites) word += 1;
  if (how == Use::kPromotes) promote(word);
  if (how == Use::kReads) (void)load(word);
}

TEST_P(SnapshotIsolationTest, PromotionIsSymmetrical) {
  using enum Use;
  struct Row {
    Use first, second;
    bool may_both_commit;
  };
  constexpr Row kRows[] = {{kReads, kWrites, true},       {kReads, kPromotes, true},
                           {kWrites, kReads, true},       {kPromotes, kReads, true},
                           {kPromotes, kWrites, false},   {kWrites, kPromotes, false},
                           {kPromotes, kPromotes, false}, {kWrites, kWrites, false}};
  for (const Row &row : kRows) {
    run_pair(
        "isolation=snapshot",
        [&](Actor &self, Turn &turn) {
          self.commit(1, 7);
          self.domain.begin();
          use(self, row.first);
          self.set(2, self.get(3) + 1);
          turn.reach(1);
          turn.await(2);
          EXPECT_EQ(self.domain.end() == Status::kCommitted, row.may_both_commit)
              << "first " << static_cast<int>(row.first) << ", second "
              << static_cast<int>(row.second);
          const bool writes =
              row.second == kWrites || (row.may_both_commit && row.first == kWrites);
          EXPECT_EQ(self.committed(1), writes ? 8U : 7U);
        },
        [&](Actor &self, Turn &turn) {
          turn.await(1);
          self.domain.begin();
          use(self, row.second);
          self.set(3, self.get(2) + 1);
          EXPECT_EQ(self.domain.end(), Status::kCommitted);
          turn.reach(2);
        });
  }
}

// A serializable instance promotes against the skews of snapshot instances.
TEST_P(SnapshotIsolationTest, ASerializableInstanceMayPromote) {
  for (const bool promotes : {false, true}) {
    run_pair(
        "",
        [&](Actor &self, Turn &turn) {
          self.domain.begin(Isolation::kSnapshot);
          self.set(1, self.get(2) + 1);
          turn.reach(1);
          turn.await(2);
          EXPECT_EQ(self.domain.end(), promotes ? Status::kAborted : Status::kCommitted);
        },
        [&](Actor &self, Turn &turn) {
          turn.await(1);
          self.domain.begin(Isolation::kSerializable);
          self.set(2, self.get(1) + 1);
          if (promotes) promote(self.word(1));
          EXPECT_EQ(self.domain.end(), Status::kCommitted);
          turn.reach(2);
        });
  }
}

TEST_P(SnapshotIsolationTest, WhatIsPromotedMayBeAnything) {
  const Actor actor = this->actor("isolation=snapshot");
  const std::uint64_t before = actor.domain.counters().lines_written;
  const auto lines = [&] { return actor.domain.counters().lines_written - before; };
  const auto promotes = [&](std::uint64_t page, std::uint64_t offset, std::size_t bytes) {
    atomically(actor.domain,
               [&] { promote(reinterpret_cast<std::byte *>(&actor.word(page)) + offset, bytes); });
  };
  promotes(0, 0, 0);
  EXPECT_EQ(lines(), 0U);
  promotes(0, 63, 2);
  EXPECT_EQ(lines(), 2U);
  promotes(1, 4032, 128);
  EXPECT_EQ(lines(), 4U);
  promotes(0, 0, kStagePages * kPageBytes);
  EXPECT_EQ(lines(), 4U + kStagePages * 64U);
  atomically(actor.domain, [&] {  // what is written, too
    actor.set(5, 1);
    promote(actor.word(5));
    promote(actor.word(5));
    promote(actor.word(6));
    promote(actor.word(5));
  });
  EXPECT_EQ(lines(), 4U + kStagePages * 64U + 2U);
  query(actor.domain, [&] { promote(actor.word(0)); });
  EXPECT_EQ(lines(), 4U + kStagePages * 64U + 2U);
  expect_error(
      Errc::kEndWithoutBegin, [&] { promote(actor.word(0)); }, "promote()");
  int local = 0;
  atomically(actor.domain, [&] {
    expect_error(
        Errc::kNotMapped, [&] { promote(local); }, "segment");
    expect_error(Errc::kNotMapped, [&] { promote(&actor.word(0), kStagePages * kPageBytes + 1); });
    expect_error(Errc::kNotMapped, [&] { promote(&actor.word(0), ~std::size_t{0}); });
  });
  EXPECT_EQ(actor.committed(5), 1U);
  // An instance that aborts has promoted nothing.
  actor.domain.begin();
  promote(actor.word(9));
  actor.domain.abort();
  EXPECT_EQ(lines(), 4U + kStagePages * 64U + 2U);
  atomically(actor.domain, [&] { (void)actor.get(9); });
  EXPECT_EQ(lines(), 4U + kStagePages * 64U + 2U);
}

TEST_P(IsolationTest, CountersSayWhatRan) {
  const Actor self = actor();
  struct Counts {
    std::uint64_t commits, snapshots;
    bool operator==(const Counts &) const = default;
  };
  const auto counts = [&] {
    const Counters counters = self.domain.counters();
    return Counts{counters.commits, counters.snapshot_commits};
  };
  const std::uint64_t each = eager() ? 0 : 1;
  const auto expect_change = [&](const char *what, const Counts &change, const auto &act) {
    const Counts before = counts();
    act();
    EXPECT_EQ(counts().commits - before.commits, change.commits) << what;
    EXPECT_EQ(counts().snapshots - before.snapshots, change.snapshots) << what;
  };
  const auto write = [&] { self.set(1, self.get(1) + 1); };
  const auto begin_end = [&](Isolation isolation) {
    self.domain.begin(isolation);
    write();
    EXPECT_EQ(self.domain.end(), Status::kCommitted);
  };
  expect_change("none asked for", {1, 0}, [&] { begin_end(Isolation{}); });
  expect_change("serializable", {1, 0}, [&] { begin_end(Isolation::kSerializable); });
  expect_change("snapshot", {1, each}, [&] { begin_end(Isolation::kSnapshot); });
  expect_change("one that only reads", {1, each},
                [&] { atomically(self.domain, Isolation::kSnapshot, [&] { (void)self.get(1); }); });
  expect_change("a query", {0, 0}, [&] { (void)self.committed(1); });
  expect_change("an abort", {0, 0}, [&] {
    self.domain.begin(Isolation::kSnapshot);
    write();
    self.domain.abort();
  });
  expect_change("irrevocable", {1, 0}, [&] {
    atomically(self.domain, Isolation::kSnapshot, [&] {
      become_irrevocable();
      write();
    });
  });
  EXPECT_EQ(self.committed(1), 4U);
}

// The isolation of level 1 is no choice.
TEST_P(HybridIsolationTest, LevelOneIsSerializable) {
  const Actor self = actor("isolation=snapshot");
  const Site site(self.domain, "small", "on-capacity", Isolation::kSnapshot);
  auto &shared = reinterpret_cast<field<std::uint64_t> &>(self.word(1));
  const std::uint64_t before = self.domain.counters().snapshot_commits;
  for (int i = 0; i < 3; ++i) {
    atomically(site, [&](Fields) {
      shared += 1U;
      promote(self.word(1));  // nothing happens
    });
  }
  const SiteReport report = site.report();
  EXPECT_EQ(report.line_commits, 3U);
  EXPECT_EQ(report.isolation, Isolation::kSnapshot);
  EXPECT_EQ(self.domain.counters().snapshot_commits, before);
  EXPECT_EQ(self.committed(1), 3U);
}

// Each in a process of its own, for the variables.
TEST_P(IsolationTest, EachWayToAskForIt) {
  using enum Isolation;
  struct Way {
    const char *name;
    std::function<void(DomainOptions *)> open;
    std::function<void(const Actor &)> run;
    Isolation of_domain = kSerializable, of_instance = kSnapshot;
  };
  const auto plainly = [](const Actor &self) { self.commit(1, 1); };
  const auto none = [](DomainOptions *) {};
  const auto variable = [](const char *name, const char *value) {
    return [=](DomainOptions *) { setenv(name, value, 1); };
  };
  const auto option = [](DomainOptions *options) { options->policies.isolation = kSnapshot; };
  const Way ways[] = {
      {"nothing", none, plainly, kSerializable, kSerializable},
      {"an option", option, plainly, kSnapshot},
      {"a specification", [](DomainOptions *o) { o->policies.conflict = "isolation=snapshot"; },
       plainly, kSnapshot},
      {"TMH_ISOLATION", variable("TMH_ISOLATION", "snapshot"), plainly, kSnapshot},
      {"TMH_POLICY", variable("TMH_POLICY", "isolation=snapshot"), plainly, kSnapshot},
      {"TMH_POLICIES", variable("TMH_POLICIES", "isolation=snapshot"), plainly, kSnapshot},
      {"an option before a variable",
       [](DomainOptions *options) {
         setenv("TMH_ISOLATION", "snapshot", 1);
         options->policies.isolation = kSerializable;
       },
       plainly, kSerializable, kSerializable},
      {"set_policy", none,
       [&](const Actor &self) {
         self.domain.set_policy("isolation=snapshot");
         EXPECT_EQ(self.domain.policy().isolation, kSnapshot);
         self.commit(1, 1);
       }},
      {"set_policy back", option,
       [&](const Actor &self) {
         self.domain.set_policy("isolation=serializable");
         self.commit(1, 1);
       },
       kSnapshot, kSerializable},
      {"begin", none,
       [](const Actor &self) {
         self.domain.begin(kSnapshot);
         self.set(1, 1);
         EXPECT_EQ(self.domain.end(), Status::kCommitted);
       }},
      {"begin, against the domain", option,
       [](const Actor &self) {
         self.domain.begin(kSerializable);
         self.set(1, 1);
         EXPECT_EQ(self.domain.end(), Status::kCommitted);
       },
       kSnapshot, kSerializable},
      {"atomically", none,
       [](const Actor &self) {
         EXPECT_EQ(atomically(self.domain, kSnapshot, [&] { return self.set(1, 1), 5; }), 5);
       }},
      {"a site", none,
       [](const Actor &self) {
         const Site site(self.domain, "snapshot", "always", kSnapshot);
         EXPECT_EQ(site.report().isolation, kSnapshot);
         atomically(site, [&] { self.set(1, 1); });
       }},
      {"a site of the domain's", option,
       [](const Actor &self) {
         const Site site(self.domain, "default", "always");
         EXPECT_EQ(site.report().isolation, kSnapshot);
         atomically(site, [&] { self.set(1, 1); });
       },
       kSnapshot},
      {"a site against the domain", option,
       [](const Actor &self) {
         const Site site(self.domain, "serializable", "always", kSerializable);
         EXPECT_EQ(site.report().isolation, kSerializable);
         atomically(site, [&] { self.set(1, 1); });
       },
       kSnapshot, kSerializable},
  };
  for (const Way &way : ways) {
    const TempFolder folder(place_for(GetParam()));
    expect_child(way.name, [&] {
      for (const char *name : {"TMH_ISOLATION", "TMH_POLICY", "TMH_POLICIES"}) unsetenv(name);
      DomainOptions asked = options();
      way.open(&asked);
      Actor self(folder.path(), asked);
      EXPECT_EQ(self.domain.policy().isolation, way.of_domain) << way.name;
      const std::uint64_t before = self.domain.counters().snapshot_commits;
      way.run(self);
      EXPECT_EQ(self.domain.counters().snapshot_commits - before,
                way.of_instance == kSnapshot && !eager() ? 1U : 0U)
          << way.name;
      EXPECT_EQ(self.committed(1), 1U) << way.name;
      self.domain.close();
    });
  }
}

TEST_P(IsolationTest, WrongOnesAreRefused) {
  const Actor self = actor();
  constexpr auto kNone = static_cast<Isolation>(9);
  const std::string right = isolation_values();
  expect_error(
      Errc::kBadPolicy, [&] { self.domain.begin(kNone); }, right);
  EXPECT_EQ(self.domain.depth(), 0U);
  expect_error(
      Errc::kBadPolicy, [&] { atomically(self.domain, kNone, [] { FAIL(); }); }, right);
  expect_error(
      Errc::kBadPolicy, [&] { const Site site(self.domain, "", "", kNone); }, right);
  expect_error(
      Errc::kBadPolicy, [&] { self.domain.set_policy("isolation=none"); }, "isolation=");
  expect_error(Errc::kBadPolicy,
               [&] { self.domain.set_policy("isolation=snapshot,isolation=serializable"); });
  EXPECT_EQ(self.domain.policy().isolation, Isolation::kSerializable);
  expect_child("wrong variable", [&] {
    const TempFolder folder(place_for(GetParam()));
    setenv("TMH_ISOLATION", "none", 1);
    expect_error(
        Errc::kBadPolicy, [&] { Domain::open(folder.path(), options()).close(); }, "TMH_ISOLATION");
  });
  self.commit(1, 1);
}

// They have no writer beside a reader: neither skew nor merges.
TEST_P(EagerIsolationTest, EagerDomainsRunSerializably) {
  run_pair(
      "isolation=snapshot,oldest-wins,fresh-age,backoff=none",
      [&](Actor &self, Turn &turn) {
        self.domain.begin(Isolation::kSnapshot);
        self.set(1, self.get(2) + 1);
        promote(self.word(3));  // nothing happens
        turn.reach(1);
        turn.await(2);
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
        EXPECT_EQ(self.domain.counters().snapshot_commits, 0U);
        turn.reach(3);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.domain.begin(Isolation::kSnapshot);
        store(at(self, 1, 1), std::uint64_t{1});  // another line
        EXPECT_EQ(self.domain.validate(), Status::kFailed);
        EXPECT_EQ(self.domain.end(), Status::kAborted);
        turn.reach(2);
        turn.await(3);
      });
}

}  // namespace
}  // namespace tmh::test
