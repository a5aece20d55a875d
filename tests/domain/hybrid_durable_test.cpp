// tests/domain/hybrid_durable_test.cpp -- durable domains with both levels, from outside:
// acknowledgement, recovery, checkpoint, backup, refusals.
// Invariants: docs/design.md D1 to D3 for commits of level 1, of level 2, and of both on the same
//             pages.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "levels/line/layout.h"
#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/schedule.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kTablePages = 64;  // of in_domain()'s segment
constexpr std::uint32_t kNever = 60'000;   // ms: the housekeeper flushes nothing in a test's time

DomainOptions hybrid(Durability durability = Durability::kStrict) {
  DomainOptions options = durable_options(durability);
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;  // whatever TMH_LINE says
  options.policies.detection = Detection::kLazy;
  options.flush_interval_ms = kNever;
  return options;
}

using Word = field<std::uint64_t>;
Word &cell(const Segment &segment, std::uint64_t page, std::uint64_t index = 0) {
  return reinterpret_cast<Word *>(segment.data() + page * kPageBytes)[index];
}

// Both in one process, so that a test says at which level something commits.
struct Sites {
  explicit Sites(const Domain &domain)
      : lines(domain, "lines", "never"), pages(domain, "pages", "always") {}
  Site lines, pages;
};

// What `folder` holds after its recovery.
std::vector<std::uint64_t> recovered(const std::string &folder, RecoveryInfo *info = nullptr) {
  Domain domain = Domain::open(folder);
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  if (info != nullptr) *info = domain.recovery();
  std::vector<std::uint64_t> words;
  query(domain, [&] {
    for (std::uint64_t page = 0; page < kTablePages; ++page)
      words.push_back(cell(segment, page).load());
  });
  domain.close();
  return words;
}

// The data file as it is, whatever a log says.
std::uint64_t in_data_file(const std::string &folder, std::uint64_t page) {
  std::ifstream file(folder + "/a.db", std::ios::binary);
  file.seekg(static_cast<std::streamoff>(page * kPageBytes));
  std::uint64_t word = 0;
  file.read(reinterpret_cast<char *>(&word), sizeof word);
  return word;
}

class HybridDurableTest : public ::testing::Test {
 protected:
  TempFolder folder_;
  std::string path() const { return folder_.path() + "/domain"; }
};

TEST_F(HybridDurableTest, CommitsOfBothLevelsSurviveACleanClose) {
  for (std::uint64_t round = 0; round < 4; ++round) {
    Domain domain = Domain::open(path(), hybrid());
    EXPECT_TRUE(domain.recovery().was_clean);
    const Segment segment = domain.map("a.db", raw_pages(kTablePages));
    const Sites sites(domain);
    EXPECT_EQ(query(domain, [&] { return cell(segment, 3).load(); }), 2 * round);
    atomically(sites.lines, [&](Fields) { ++cell(segment, 3); });
    atomically(sites.pages, [&](Fields) { ++cell(segment, 3); });
    EXPECT_EQ(sites.lines.report().line_commits, 1U);
    domain.close();
    EXPECT_EQ(in_data_file(path(), 3), 2 * round + 2);
  }
  for (const auto &entry : std::filesystem::directory_iterator(path())) {
    const std::string name = entry.path().filename();
    EXPECT_FALSE(name.starts_with("tmh.home.") || name.starts_with("tmh.changes."))
        << name << " was left";
  }
}

// The last close cannot write the log: what would note a changed page is no file.
TEST_F(HybridDurableTest, ACloseThatCannotWriteTheLogLeavesTheCommitsToTheNextOpen) {
  Domain domain = Domain::open(path(), hybrid(Durability::kBuffered));
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  const Sites sites(domain);
  const std::string notes = path() + "/tmh.changes.0";
  std::filesystem::rename(notes, path() + "/notes");
  std::filesystem::create_directory(notes);
  atomically(sites.lines, [&](Fields) { cell(segment, 3).store(7); });
  EXPECT_THROW(domain.close(), Error);
  std::filesystem::remove(notes);
  EXPECT_EQ(recovered(path())[3], 7U);
}

TEST_F(HybridDurableTest, AStrictCommitOfEitherLevelSurvivesTheLossOfSharedMemory) {
  in_domain(path(), hybrid(), Ending::kPowerCut, [&](const Domain &domain, const Segment &segment) {
    const Sites sites(domain);
    for (std::uint64_t i = 0; i < 200; ++i)
      atomically(i % 3 == 0 ? sites.pages : sites.lines,
                 [&](Fields) { cell(segment, i % 8).store(i + 1); });
    EXPECT_GT(sites.lines.report().line_commits, 100U);
  });
  RecoveryInfo info;
  const std::vector<std::uint64_t> words = recovered(path(), &info);
  EXPECT_EQ(info.transactions, 200U);
  for (std::uint64_t i = 192; i < 200; ++i) EXPECT_EQ(words[i % 8], i + 1);
}

// One word is counted up by both levels: what was lost would be missed, what came in another order,
// too.
TEST_F(HybridDurableTest, BothLevelsOnOneWordRecoverInTheirOrder) {
  in_domain(path(), hybrid(), Ending::kPowerCut, [&](const Domain &domain, const Segment &segment) {
    const Sites sites(domain);
    for (std::uint64_t i = 0; i < 100; ++i) {
      atomically(i % 2 == 0 ? sites.lines : sites.pages, [&](Fields) {
        ++cell(segment, 0);
        cell(segment, 1 + i % 7).store(cell(segment, 0).load());
      });
    }
  });
  const std::vector<std::uint64_t> words = recovered(path());
  EXPECT_EQ(words[0], 100U);
  for (std::uint64_t i = 93; i < 100; ++i) EXPECT_EQ(words[1 + i % 7], i + 1);
}

TEST_F(HybridDurableTest, BytesBesideAWrittenByteAreNotLogged) {
  in_domain(path(), hybrid(), Ending::kPowerCut, [&](const Domain &domain, const Segment &segment) {
    const Sites sites(domain);
    auto *bytes = reinterpret_cast<field<std::uint8_t> *>(segment.data());
    for (std::uint8_t i = 0; i < 64; ++i)
      atomically(sites.lines, [&](Fields) { bytes[i * 67].store(i); });
    for (std::uint8_t i = 0; i < 64; ++i)
      atomically(sites.lines, [&](Fields) { bytes[i * 67 + 1].store(i); });
  });
  Domain domain = Domain::open(path());
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  query(domain, [&] {
    for (std::size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(static_cast<std::size_t>(segment.data()[i * 67]), i);
      EXPECT_EQ(static_cast<std::size_t>(segment.data()[i * 67 + 1]), i);
    }
  });
}

TEST_F(HybridDurableTest, BufferedCommitsSurviveTheDeathOfAllProcesses) {
  in_domain(path(), hybrid(Durability::kBuffered), Ending::kKilled,
            [&](const Domain &domain, const Segment &segment) {
              const Sites sites(domain);
              for (std::uint64_t i = 0; i < 1000; ++i)
                atomically(i % 50 == 0 ? sites.pages : sites.lines,
                           [&](Fields) { cell(segment, i % 8).store(i + 1); });
            });
  RecoveryInfo info;
  const std::vector<std::uint64_t> words = recovered(path(), &info);
  EXPECT_EQ(info.transactions, 1000U);
  for (std::uint64_t i = 992; i < 1000; ++i) EXPECT_EQ(words[i % 8], i + 1);
}

TEST_F(HybridDurableTest, FlushAndTheIntervalMakeBufferedCommitsDurable) {
  DomainOptions options = hybrid(Durability::kBuffered);
  in_domain(path(), options, Ending::kPowerCut, [&](const Domain &domain, const Segment &segment) {
    const Sites sites(domain);
    atomically(sites.lines, [&](Fields) { cell(segment, 1).store(11); });
    domain.flush();
    atomically(sites.lines, [&](Fields) { cell(segment, 2).store(12); });
  });
  EXPECT_EQ(recovered(path())[1], 11U);
  options.flush_interval_ms = 5;
  in_domain(path(), options, Ending::kPowerCut, [&](const Domain &domain, const Segment &segment) {
    const Sites sites(domain);
    const std::uint64_t before = domain.counters().log_commits;
    atomically(sites.lines, [&](Fields) { cell(segment, 3).store(13); });
    while (domain.counters().log_commits == before) usleep(1000);
  });
  EXPECT_EQ(recovered(path())[3], 13U);
}

TEST_F(HybridDurableTest, OneCommitMayBeBufferedInAStrictDomainAndTheOtherWayRound) {
  for (const Durability of_domain : {Durability::kStrict, Durability::kBuffered}) {
    const Domain domain = Domain::open(path() + to_string(of_domain), hybrid(of_domain));
    const Segment segment = domain.map("a.db", raw_pages(kTablePages));
    const Sites sites(domain);
    const std::uint64_t before = domain.counters().log_commits;
    atomically(sites.lines, Durability::kBuffered, [&](Fields) { cell(segment, 0).store(1); });
    EXPECT_EQ(domain.counters().log_commits, before);
    atomically(sites.pages, Durability::kBuffered, [&](Fields) { cell(segment, 5).store(1); });
    EXPECT_EQ(domain.counters().log_commits, before);
    atomically(sites.lines, Durability::kStrict, [&](Fields) { cell(segment, 0).store(2); });
    EXPECT_EQ(domain.counters().log_commits, before + 3);
  }
}

// Nobody is acknowledged before what it read, at whatever level it was written and is read.
TEST_F(HybridDurableTest, AStrictReaderWaitsForWhatItRead) {
  const Domain domain = Domain::open(path(), hybrid());
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  const Sites sites(domain);
  const auto logged = [&] { return domain.counters().log_commits; };
  atomically(sites.lines, Durability::kBuffered, [&](Fields) { cell(segment, 0).store(1); });
  std::uint64_t before = logged();
  EXPECT_EQ(atomically(sites.lines, [&](Fields) { return cell(segment, 1).load(); }), 0U);
  EXPECT_EQ(logged(), before) << "it read nothing that is not durable";
  EXPECT_EQ(atomically(sites.lines, [&](Fields) { return cell(segment, 0).load(); }), 1U);
  EXPECT_EQ(logged(), before + 1);
  atomically(sites.lines, Durability::kBuffered, [&](Fields) { cell(segment, 0).store(2); });
  before = logged();
  EXPECT_EQ(query(domain, [&] { return cell(segment, 0).load(); }), 2U);
  EXPECT_EQ(logged(), before + 1);
  atomically(sites.pages, Durability::kBuffered, [&](Fields) { cell(segment, 0).store(3); });
  before = logged();
  EXPECT_EQ(atomically(sites.lines, [&](Fields) { return cell(segment, 0).load(); }), 3U);
  EXPECT_EQ(logged(), before + 1);
}

TEST_F(HybridDurableTest, WithoutEarlyReleaseNobodyReadsWhatIsNotDurable) {
  DomainOptions options = hybrid();
  options.policies.early_release = EarlyRelease::kOff;
  const Domain domain = Domain::open(path(), options);
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  const Sites sites(domain);
  for (const Site *next : {&sites.lines, &sites.pages}) {
    atomically(sites.lines, Durability::kBuffered, [&](Fields) { ++cell(segment, 0); });
    const std::uint64_t before = domain.counters().log_commits;
    atomically(*next, Durability::kBuffered,
               [&](Fields) { EXPECT_EQ(domain.counters().log_commits, before + 1); });
  }
}

// A page that level 1 changes while an instance runs which has not read it yet.
TEST_F(HybridDurableTest, WithoutEarlyReleaseASnapshotMovesOnToWhatIsDurableAlone) {
  DomainOptions options = hybrid(Durability::kBuffered);
  options.policies.early_release = EarlyRelease::kOff;
  const Domain domain = Domain::open(path(), options);
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  const Sites sites(domain);
  std::uint64_t page = 0;
  for (const Site *site : {&sites.lines, &sites.pages}) {
    page += 2;
    bool is_set = false;
    std::uint64_t before = 0;
    const std::uint64_t seen = atomically(*site, [&](Fields) {
      EXPECT_EQ(cell(segment, page + 1).load(), 0U);
      if (!is_set) {
        before = domain.counters().log_commits;
        std::thread([&] {
          atomically(sites.lines, [&](Fields) { ++cell(segment, page); });
        }).join();
        is_set = true;
        EXPECT_EQ(domain.counters().log_commits, before);
      }
      const std::uint64_t value = cell(segment, page).load();
      EXPECT_EQ(domain.counters().log_commits, before + value);
      return value;
    });
    EXPECT_EQ(seen, 1U);
  }
}

// What level 1 commits while a query runs is durable when it looks at the second one of two pages,
// and was not at the first one.
TEST_F(HybridDurableTest, WithoutEarlyReleaseAQueryThatHasReadOldWordsStaysAtItsSnapshot) {
  DomainOptions options = hybrid(Durability::kBuffered);
  options.policies.early_release = EarlyRelease::kOff;
  options.flush_interval_ms = 60'000;
  const Domain domain = Domain::open(path(), options);
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  const Sites sites(domain);
  query(domain, [&] {
    EXPECT_EQ(cell(segment, 4).load(), 0U);
    std::thread([&] {
      atomically(sites.lines, [&](Fields) {
        ++cell(segment, 0);
        ++cell(segment, 2);
      });
    }).join();
    const std::uint64_t first = cell(segment, 0).load();
    domain.flush();
    EXPECT_EQ(cell(segment, 2).load(), first);
  });
  EXPECT_EQ(sites.lines.report().line_commits, 1U);
}

// One that died when it had told, and had not given back yet what its records took of the rings.
// Nobody else commits, and the site may not leave level 1.
TEST_F(HybridDurableTest, ADeadWriterOfTheLogLeavesNobodysRingFull) {
  expect_child("goes on", [&] {
    const Domain domain = Domain::open(path(), hybrid(Durability::kBuffered));
    const Segment segment = domain.map("a.db", raw_pages(kTablePages));
    const Sites sites(domain);
    const auto commit = [&](std::uint64_t value) {
      atomically(sites.lines, [&](Fields) {
        for (std::uint64_t i = 0; i < kTablePages * kPageBytes / 8; ++i)
          cell(segment, 0, i).store(value);
      });
    };
    // With their headers.
    constexpr std::uint64_t kFit = line::kRedoBytes / (kTablePages * kPageBytes) - 1;
    // The housekeeper is rung at half a ring, and may be quicker: then once more.
    std::uint64_t commits = 0;
    ChildEnd end;
    do {
      for (std::uint64_t i = 1; i <= kFit; ++i) commit(++commits);
      end = run_in_child("writer", [&] {
        const Domain own = Domain::open(path(), hybrid(Durability::kBuffered));
        observe::crash_at(static_cast<std::uint32_t>(observe::Step::kLogPublished), 1);
        own.flush();
      });
    } while (end.succeeded());
    EXPECT_EQ(end.signal, SIGKILL);
    commit(++commits);
    EXPECT_EQ(sites.lines.report().line_commits, commits);
  });
}

// The same, but somebody commits, and writes the log, before anybody finds a ring full.
TEST_F(HybridDurableTest, WhatADeadWriterHasWrittenIsNotWrittenAgain) {
  in_domain(path(), hybrid(Durability::kBuffered), Ending::kPowerCut,
            [&](const Domain &domain, const Segment &segment) {
              const Sites sites(domain);
              atomically(sites.lines, [&](Fields) { cell(segment, 0).store(1); });
              const ChildEnd end = run_in_child("writer", [&] {
                const Domain own = Domain::open(path(), hybrid(Durability::kBuffered));
                observe::crash_at(static_cast<std::uint32_t>(observe::Step::kLogPublished), 1);
                own.flush();
              });
              EXPECT_EQ(end.signal, SIGKILL);
              atomically(sites.lines, [&](Fields) { cell(segment, 0).store(2); });
              domain.flush();
              EXPECT_EQ(domain.counters().log_commits, 2U);
            });
  EXPECT_EQ(recovered(path())[0], 2U);
}

// docs/design.md D2: level 1 stores to home at once; the data file has nothing of it before a
// checkpoint, and then only what is durable.
TEST_F(HybridDurableTest, TheDataFileHoldsNothingThatIsNotDurable) {
  const Domain domain = Domain::open(path(), hybrid(Durability::kBuffered));
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  const Sites sites(domain);
  atomically(sites.lines, [&](Fields) { cell(segment, 4).store(44); });
  atomically(sites.pages, [&](Fields) { cell(segment, 5).store(55); });
  EXPECT_EQ(in_data_file(path(), 4), 0U);
  EXPECT_EQ(in_data_file(path(), 5), 0U);
  domain.flush();
  EXPECT_EQ(in_data_file(path(), 4), 0U);
  domain.checkpoint();
  EXPECT_EQ(in_data_file(path(), 4), 44U);
  EXPECT_EQ(in_data_file(path(), 5), 55U);
}

TEST_F(HybridDurableTest, CheckpointsUnderLoadShortenRecoveryAndLoseNothing) {
  constexpr std::uint64_t kThreads = 3, kCommits = 4000;
  in_domain(path(), hybrid(Durability::kBuffered), Ending::kPowerCut,
            [&](const Domain &domain, const Segment &segment) {
              const Sites sites(domain);
              std::atomic<std::uint64_t> running{kThreads};
              std::vector<std::thread> threads;
              for (std::uint64_t t = 0; t < kThreads; ++t) {
                threads.emplace_back([&, t] {
                  for (std::uint64_t i = 1; i <= kCommits; ++i) {
                    atomically(i % 100 == 0 ? sites.pages : sites.lines, [&](Fields) {
                      cell(segment, 20 * t + i % 20, t).store(i);
                      cell(segment, 63, t).store(i);
                    });
                  }
                  --running;
                });
              }
              do domain.checkpoint();
              while (running != 0);
              for (std::thread &thread : threads) thread.join();
              domain.checkpoint();
              atomically(sites.lines, Durability::kStrict,
                         [&](Fields) { cell(segment, 62).store(1); });
              EXPECT_GT(domain.counters().checkpoints, 1U);
            });
  Domain domain = Domain::open(path());
  EXPECT_LE(domain.recovery().transactions, 1U);
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  query(domain, [&] {
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      EXPECT_EQ(cell(segment, 63, t).load(), kCommits);
      for (std::uint64_t i = kCommits - 19; i <= kCommits; ++i)
        EXPECT_EQ(cell(segment, 20 * t + i % 20, t).load(), i);
    }
    EXPECT_EQ(cell(segment, 62).load(), 1U);
  });
}

// Transfers between words of many pages, at both levels, while backups are taken: each copy has a
// sum of 0.
TEST_F(HybridDurableTest, ABackupTakenUnderLoadIsConsistent) {
  const Shared<std::atomic<bool>> stop;
  Children children;
  children.spawn("transfers", [&] {
    const Domain domain = Domain::open(path(), hybrid(Durability::kBuffered));
    const Segment segment = domain.map("a.db", raw_pages(kTablePages));
    const Sites sites(domain);
    for (std::uint64_t i = 1; !stop->load(); ++i) {
      atomically(i % 20 == 0 ? sites.pages : sites.lines, [&](Fields) {
        ++cell(segment, i % kTablePages);
        --cell(segment, (7 * i + 1) % kTablePages, 64);
      });
    }
  });
  for (int i = 0; i < 3; ++i) {
    const std::string copy = folder_.path() + "/copy" + std::to_string(i);
    {  // closed again before the fork: this one's threads end
      Domain domain = Domain::open(path(), hybrid(Durability::kBuffered));
      const Segment segment = domain.map("a.db", raw_pages(kTablePages));
      ASSERT_TRUE(
          poll_until([&] { return query(domain, [&] { return cell(segment, 1).load(); }) != 0; }));
      domain.backup(copy);
      domain.close();
    }
    expect_child("restored", [&] {
      const Domain restored = Domain::open(copy, hybrid(Durability::kBuffered));
      const Segment there = restored.map("a.db", raw_pages(kTablePages));
      std::uint64_t sum = 0, moved = 0;
      query(restored, [&] {
        for (std::uint64_t page = 0; page < kTablePages; ++page) {
          sum += cell(there, page).load() + cell(there, page, 64).load();
          moved += cell(there, page).load();
        }
      });
      EXPECT_EQ(sum, 0U);
      EXPECT_GT(moved, 0U);
    });
  }
  stop->store(true);
  children.expect_success();
}

TEST_F(HybridDurableTest, TheRedoRingComesRoundAndLargeCommitsAreCutIntoParts) {
  constexpr std::uint64_t kRounds = 40;
  in_domain(path(), hybrid(Durability::kBuffered), Ending::kPowerCut,
            [&](const Domain &domain, const Segment &segment) {
              const Sites sites(domain);
              // 64 pages whole: 280 KiB, more than a record takes and a quarter of the ring.
              for (std::uint64_t round = 1; round <= kRounds; ++round) {
                atomically(sites.lines, [&](Fields) {
                  for (std::uint64_t page = 0; page < kTablePages; ++page)
                    for (std::uint64_t i = 0; i < kPageBytes / 8; ++i)
                      cell(segment, page, i).store(round * page + i);
                });
              }
              EXPECT_EQ(sites.lines.report().line_commits, kRounds);
              domain.flush();
            });
  Domain domain = Domain::open(path());
  EXPECT_EQ(domain.recovery().transactions, kRounds);
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  query(domain, [&] {
    for (std::uint64_t page = 0; page < kTablePages; ++page)
      for (std::uint64_t i = 0; i < kPageBytes / 8; ++i)
        ASSERT_EQ(cell(segment, page, i).load(), kRounds * page + i);
  });
}

// Three commits of 280 KiB: the ring is not full, and no interval ends.
TEST_F(HybridDurableTest, WhatFillsHalfTheRingIsWrittenAhead) {
  DomainOptions options = hybrid(Durability::kBuffered);
  options.flush_interval_ms = options.checkpoint_interval_ms = 3'600'000;
  in_domain(path(), options, Ending::kClosed, [&](const Domain &domain, const Segment &segment) {
    const Sites sites(domain);
    const std::uint64_t before = domain.counters().log_commits;
    for (std::uint64_t round = 1; round <= 3; ++round)
      atomically(sites.lines, [&](Fields) {
        for (std::uint64_t page = 0; page < kTablePages; ++page)
          for (std::uint64_t i = 0; i < kPageBytes / 8; ++i)
            cell(segment, page, i).store(round * page + i);
      });
    EXPECT_EQ(sites.lines.report().line_commits, 3u);
    EXPECT_TRUE(poll_until([&] { return domain.counters().log_commits >= before + 2; }));
  });
}

TEST_F(HybridDurableTest, WhatExceedsTheRedoRingEscalates) {
  const Domain domain = Domain::open(path(), hybrid());
  const Segment segment = domain.map("a.db", raw_pages(256));
  const Site site(domain, "large", "on-capacity");
  atomically(site, [&](Fields) {
    for (std::uint64_t page = 0; page < 256; ++page)
      for (std::uint64_t i = 0; i < kPageBytes / 8; ++i) cell(segment, page, i).store(i);
  });
  EXPECT_EQ(site.report().escalations_capacity, 1U);
  EXPECT_EQ(site.report().page_commits, 1U);
}

TEST_F(HybridDurableTest, ThreadsOfManyProcessesAreAcknowledgedInGroups) {
  constexpr std::uint64_t kProcesses = 3, kThreads = 3, kCommits = 100;
  Children children;
  for (std::uint64_t p = 0; p < kProcesses; ++p) {
    children.spawn("committer", [&, p] {
      const Domain domain = Domain::open(path(), hybrid());
      const Segment segment = domain.map("a.db", raw_pages(kTablePages));
      const Sites sites(domain);
      std::vector<std::thread> threads;
      for (std::uint64_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (std::uint64_t i = 0; i < kCommits; ++i)
            atomically(sites.lines,
                       [&](Fields) { ++cell(segment, p, 8 * t), ++cell(segment, 60); });
        });
      }
      for (std::thread &thread : threads) thread.join();
    });
  }
  children.expect_success();
  const Domain domain = Domain::open(path(), hybrid());
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  EXPECT_EQ(query(domain, [&] { return cell(segment, 60).load(); }),
            kProcesses * kThreads * kCommits);
}

// A segment that one process has made is written by another one's group commit.
TEST_F(HybridDurableTest, TheLogsWriterNeedNotKnowEverySegment) {
  const Shared<Turn> turn;
  Children children;
  children.spawn("writer of all", [&] {
    DomainOptions options = hybrid(Durability::kBuffered);
    options.flush_interval_ms = 2;
    const Domain domain = Domain::open(path(), options);
    turn->reach(1);
    turn->await(2);  // it runs no instance: its housekeeper writes the log and takes checkpoints
    domain.checkpoint();
    turn->reach(3);
  });
  turn->await(1);
  in_domain(path(), hybrid(Durability::kBuffered), Ending::kKilled,
            [&](const Domain &domain, const Segment &segment) {
              const Sites sites(domain);
              for (std::uint64_t i = 1; i <= 100; ++i)
                atomically(sites.lines, [&](Fields) { cell(segment, i % 8).store(i); });
              ASSERT_TRUE(poll_until([&] { return domain.counters().log_commits >= 100; }));
            });
  turn->reach(2);
  turn->await(3);
  children.expect_success();
  const std::vector<std::uint64_t> words = recovered(path());
  for (std::uint64_t i = 93; i <= 100; ++i) EXPECT_EQ(words[i % 8], i);
}

// The log's order is that of stamps: a write that went past one that is still in flight would leave
// it out for good, and tell it that it is durable.
TEST_F(HybridDurableTest, TheLogWaitsForWhatWasStampedBefore) {
  Schedule schedule;
  const auto add_committer = [&](std::uint64_t page) {
    const std::size_t actor = schedule.add("of page " + std::to_string(page), [this, page] {
      const Domain domain = Domain::open(path(), hybrid());
      const Segment segment = domain.map("a.db", raw_pages(kTablePages));
      const Sites sites(domain);
      atomically(sites.lines, [&](Fields) { cell(segment, page).store(1); });
      Schedule::mark(1);
      atomically(sites.lines, [&](Fields) { cell(segment, page).store(2); });
      Schedule::mark(2);
      Schedule::mark(3);
    });
    EXPECT_EQ(schedule.run(actor, to_mark(1)), Reached::kThere);
    return actor;
  };
  const std::size_t first = add_committer(3), second = add_committer(5);
  EXPECT_EQ(schedule.run(first, to_step(observe::Step::kLineValidate)), Reached::kThere);
  (void)schedule.run(second, to_mark(2));  // it waits
  for (const std::size_t actor : {first, second})
    EXPECT_EQ(schedule.run(actor, to_mark(3)), Reached::kThere);
  for (const std::size_t actor : {first, second}) schedule.kill(actor);
  lose_shared_memory(path());
  const std::vector<std::uint64_t> words = recovered(path());
  EXPECT_EQ(words[3], 2U);
  EXPECT_EQ(words[5], 2U);
}

TEST_F(HybridDurableTest, ADomainMayGoFromOneLevelToBothAndBack) {
  for (std::uint64_t round = 1; round <= 4; ++round) {
    DomainOptions options = hybrid();
    if (round % 2 == 0) options.levels = Levels::kPage;
    in_domain(path(), options, round < 3 ? Ending::kKilled : Ending::kClosed,
              [&](const Domain &domain, const Segment &segment) {
                const Site site(domain, "count");
                atomically(site, [&](Fields) { ++cell(segment, 9); });
                EXPECT_EQ(site.report().line_commits, round % 2);
              });
  }
  EXPECT_EQ(recovered(path())[9], 4U);
}

TEST_F(HybridDurableTest, SegmentsThatGrowAndComeLaterAreRecovered) {
  in_domain(path(), hybrid(), Ending::kPowerCut, [&](const Domain &domain, const Segment &segment) {
    const Sites sites(domain);
    Segment grown = segment;
    grown.grow(80 * kPageBytes);
    atomically(sites.lines, [&](Fields) { cell(segment, 79).store(79); });
    const Segment late = domain.map("late.db", raw_pages(4));
    atomically(sites.lines, [&](Fields) { cell(late, 3).store(cell(segment, 79).load() + 1); });
    domain.checkpoint();
    atomically(sites.lines, [&](Fields) { cell(late, 2).store(2); });
  });
  const Domain domain = Domain::open(path(), hybrid());
  const Segment late = domain.map("late.db", raw_pages(4));
  const Segment segment = domain.map("a.db", raw_pages(kTablePages));
  EXPECT_EQ(query(domain, [&] { return cell(segment, 79).load(); }), 79U);
  EXPECT_EQ(query(domain, [&] { return cell(late, 3).load(); }), 80U);
  EXPECT_EQ(query(domain, [&] { return cell(late, 2).load(); }), 2U);
}

// Each release takes an entry of the ring from which the log is written. Commits that are not in
// the log yet keep theirs.
TEST_F(HybridDurableTest, ReleasesWithoutEndDoNotOvertakeTheLog) {
  constexpr std::uint64_t kRingEntries = 1u << 18;
  {
    Domain domain = Domain::open(folder_.path(), hybrid(Durability::kBuffered));
    const Segment segment = domain.map("a.db", raw_pages(kTablePages));
    const Sites sites(domain);
    atomically(sites.pages, [&](Fields) { cell(segment, 0).store(7); });
    const auto sum = [&] {
      std::uint64_t all = 0;
      for (std::uint64_t page = 1; page < kTablePages; ++page) all += cell(segment, page).load();
      return all;
    };
    while (domain.counters().releases <= kRingEntries) {
      EXPECT_EQ(query(domain, sum), 0U);                                      // takes the pages
      EXPECT_EQ(atomically(sites.lines, [&](Fields) { return sum(); }), 0U);  // gets them back
    }
    domain.flush();
    EXPECT_EQ(domain.counters().log_commits, 1U);
    domain.close();
  }
  EXPECT_EQ(recovered(folder_.path())[0], 7U);
}

}  // namespace
}  // namespace tmh::test
