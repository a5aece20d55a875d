// tests/domain/durable_test.cpp -- durable domains from outside: modes, acknowledgement, recovery,
// checkpoint, archive, backup.
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "platform/failure.h"
#include "platform/process.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/durable_folder.h"
#include "tests/support/sanitizers.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

// Never closed: what a child that is killed has open.
const Domain &open_for_good(const std::string &folder, const DomainOptions &options = {}) {
  return *new Domain(Domain::open(folder, options));
}

// Runs body in a child that dies by SIGKILL at its end.
template <class Body>
void in_killed_child(const Body &body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      body();
      kill(getpid(), SIGKILL);
    } catch (const std::exception &error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended before its kill, status " << status;
}

class DurableTest : public ::testing::Test {
 protected:
  TempFolder folder_;
  std::string path() const { return folder_.path() + "/domain"; }
};

TEST_F(DurableTest, AfterACloseThatFailedBufferedCommitsStillBecomeDurable) {
  if (const std::string why = why_descriptors_must_stay(); !why.empty()) GTEST_SKIP() << why;
  DomainOptions options = durable_options(Durability::kBuffered);
  options.flush_interval_ms = 1;
  Domain domain = Domain::open(path(), options);
  const Segment segment = domain.map("a.db", raw_pages(8));
  atomically(domain, [&] { word_of(segment, 0) = 1; });
  domain.flush();  // what is to be open for that is open
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_THROW(domain.close(), Error);  // no descriptor for the folder's lock
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::uint64_t before = domain.counters().log_commits;
  atomically(domain, [&] { word_of(segment, 0) = 2; });
  EXPECT_TRUE(poll_until([&] { return domain.counters().log_commits > before; }));
  domain.close();
}

TEST_F(DurableTest, CommitsSurviveACleanClose) {
  for (std::uint64_t round = 0; round < 4; ++round) {
    Domain domain = Domain::open(path(), durable_options());
    EXPECT_TRUE(domain.recovery().ran);
    EXPECT_TRUE(domain.recovery().was_clean);
    EXPECT_EQ(domain.recovery().transactions, 0u);
    const Segment segment = domain.map("a.db", raw_pages(8));
    EXPECT_EQ(query(domain, [&] { return word_of(segment, 3); }), round);
    atomically(domain, [&] { ++word_of(segment, 3); });
    domain.close();
  }
}

TEST_F(DurableTest, StrictCommitsSurviveTheLossOfSharedMemory) {
  in_killed_child([&] {
    const Domain &domain = open_for_good(path(), durable_options());
    const Segment segment = domain.map("a.db", raw_pages(64));
    for (std::uint64_t i = 1; i <= 100; ++i)
      atomically(domain, [&] { word_of(segment, i % 64) = i; });
  });
  lose_shared_memory(path());
  const Domain domain = Domain::open(path(), durable_options());
  EXPECT_FALSE(domain.recovery().was_clean);
  EXPECT_EQ(domain.recovery().transactions, 100u);
  const Segment segment = domain.map("a.db", raw_pages(64));
  for (std::uint64_t i = 37; i <= 100; ++i)
    EXPECT_EQ(query(domain, [&] { return word_of(segment, i % 64); }), i);
}

TEST_F(DurableTest, BufferedCommitsSurviveTheDeathOfAllProcesses) {
  in_killed_child([&] {
    DomainOptions options = durable_options(Durability::kBuffered);
    options.flush_interval_ms = 60'000;
    const Domain &domain = open_for_good(path(), options);
    const Segment segment = domain.map("a.db", raw_pages(8));
    for (std::uint64_t i = 1; i <= 1000; ++i)
      atomically(domain, [&] { word_of(segment, i % 8) = i; });
  });
  const Domain domain = Domain::open(path());
  EXPECT_EQ(domain.durability(), Durability::kBuffered);
  EXPECT_GT(domain.recovery().salvaged, 0u);
  const Segment segment = domain.map("a.db", raw_pages(8));
  for (std::uint64_t i = 993; i <= 1000; ++i)
    EXPECT_EQ(query(domain, [&] { return word_of(segment, i % 8); }), i);
}

TEST_F(DurableTest, BufferedCommitsBecomeDurableInTime) {
  in_killed_child([&] {
    DomainOptions options = durable_options(Durability::kBuffered);
    options.flush_interval_ms = 5;
    const Domain &domain = open_for_good(path(), options);
    const Segment segment = domain.map("a.db", raw_pages(8));
    atomically(domain, [&] { word_of(segment, 1) = 77; });
    while (domain.counters().log_commits < 1) usleep(1000);
    atomically(domain, [&] { word_of(segment, 2) = 78; });
    domain.flush();
  });
  lose_shared_memory(path());
  const Domain domain = Domain::open(path());
  const Segment segment = domain.map("a.db", raw_pages(8));
  EXPECT_EQ(query(domain, [&] { return word_of(segment, 1); }), 77u);
  EXPECT_EQ(query(domain, [&] { return word_of(segment, 2); }), 78u);
}

TEST_F(DurableTest, OneCommitMayBeBufferedInAStrictDomainAndTheOtherWayRound) {
  for (const Durability of_domain : {Durability::kStrict, Durability::kBuffered}) {
    DomainOptions options = durable_options(of_domain);
    options.flush_interval_ms = 60'000;
    Domain domain = Domain::open(path() + to_string(of_domain), options);
    const Segment segment = domain.map("a.db", raw_pages(8));
    domain.begin();
    word_of(segment, 0) = 1;
    const std::uint64_t before = domain.counters().log_commits;
    EXPECT_EQ(domain.end(Durability::kBuffered), Status::kCommitted);
    EXPECT_EQ(domain.counters().log_commits, before);
    domain.begin();
    word_of(segment, 0) = 2;
    EXPECT_EQ(domain.end(Durability::kStrict), Status::kCommitted);
    EXPECT_EQ(domain.counters().log_commits, before + 2);
    domain.close();
  }
}

// Nobody is acknowledged before what it read: a strict instance that only read waits for the
// writer's record.
TEST_F(DurableTest, AStrictReaderWaitsForWhatItRead) {
  DomainOptions options = durable_options();
  options.flush_interval_ms = 60'000;
  const Domain domain = Domain::open(path(), options);
  const Segment segment = domain.map("a.db", raw_pages(8));
  domain.begin();
  word_of(segment, 0) = 1;
  EXPECT_EQ(domain.end(Durability::kBuffered), Status::kCommitted);
  const std::uint64_t before = domain.counters().log_commits;
  EXPECT_EQ(query(domain, [&] { return word_of(segment, 0); }), 1u);
  EXPECT_EQ(domain.counters().log_commits, before + 1);
}

TEST_F(DurableTest, WithoutEarlyReleaseNobodyReadsWhatIsNotDurable) {
  DomainOptions options = durable_options();
  options.policies.early_release = EarlyRelease::kOff;
  options.flush_interval_ms = 60'000;
  const Domain domain = Domain::open(path(), options);
  const Segment segment = domain.map("a.db", raw_pages(8));
  domain.begin();
  word_of(segment, 0) = 1;
  EXPECT_EQ(domain.end(Durability::kBuffered), Status::kCommitted);
  const std::uint64_t before = domain.counters().log_commits;
  domain.begin();
  EXPECT_EQ(domain.counters().log_commits, before + 1);
  EXPECT_EQ(domain.end(Durability::kBuffered), Status::kCommitted);
}

// With each first touch the snapshot moves on.
TEST_F(DurableTest, WithoutEarlyReleaseAnEagerSnapshotMovesOnToWhatIsDurableAlone) {
  DomainOptions options = durable_options(Durability::kBuffered);
  options.policies.detection = Detection::kEager;
  options.policies.early_release = EarlyRelease::kOff;
  options.flush_interval_ms = 60'000;
  const Domain domain = Domain::open(path(), options);
  const Segment segment = domain.map("a.db", raw_pages(8));
  bool is_set = false;
  std::uint64_t before = 0;
  const std::uint64_t seen = atomically(domain, [&] {
    EXPECT_EQ(word_of(segment, 1), 0U);
    if (!is_set) {
      before = domain.counters().log_commits;
      const ChildEnd end = run_in_child("commits", [&] {
        const Domain own = Domain::open(path(), options);
        const Segment same = own.map("a.db", raw_pages(8));
        atomically(own, [&] { word_of(same, 0) = 1; });
        static_cast<void>(kill(getpid(), SIGKILL));  // it closes nothing, which would write the log
      });
      EXPECT_EQ(end.signal, SIGKILL);
      is_set = true;
      EXPECT_EQ(domain.counters().log_commits, before);
    }
    const std::uint64_t value = word_of(segment, 0);
    EXPECT_EQ(domain.counters().log_commits, before + value);
    return value;
  });
  EXPECT_EQ(seen, 1U);
}

// More than one record, more than one log file, and wider than the commit log ring lists.
// One version per page and distinct snapshot, and those whose records are not written yet: the log
// lags, but never far.
TEST_F(DurableTest, VersionsOfABufferedDomainStayFewWhileAQueryIsOpen) {
  constexpr std::uint64_t kCommits = 30'000, kPages = 2, kLagMax = 500,
                          kVersionsMax = 4 * kLagMax * kPages;
  DomainOptions options = durable_options(Durability::kBuffered);
  options.flush_interval_ms = 1;
  const Shared<Turn> turn;
  Children children;
  children.spawn("reader", [&] {
    const Domain domain = Domain::open(path(), options);
    const Segment segment = domain.map("a.db", raw_pages(8));
    query(domain, [&] {
      EXPECT_EQ(word_of(segment, 0), 0u);
      turn->reach(1);
      turn->await(2);
      EXPECT_EQ(word_of(segment, 1), 0u);
    });
  });
  turn->await(1);
  expect_child("writer", [&] {
    const Domain domain = Domain::open(path(), options);
    const Segment segment = domain.map("a.db", raw_pages(8));
    std::uint64_t versions = 0;
    for (std::uint64_t i = 1; i <= kCommits; ++i) {
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < kPages; ++page) word_of(segment, page) = i;
      });
      // At a pace that the log keeps up with, though never quite.
      for (const std::uint64_t start = platform::monotonic_ns();
           platform::monotonic_ns() - start < 15'000;)
        continue;
      if (i % 100 != 0) continue;
      while (i - domain.counters().log_commits > kLagMax) usleep(20);
      versions = std::max(versions, domain.counters().versions_live);
    }
    std::printf("at most %llu versions\n", static_cast<unsigned long long>(versions));
    EXPECT_LT(versions, kVersionsMax);
  });
  turn->reach(2);
  children.expect_success();
}

// Every word is stored once, so what a record lacks no later one brings. In no order: a slot that
// is used again too early then soon holds another word of a line that the log still asks it for.
TEST_F(DurableTest, WhatIsFoldedUnderAnOpenQueryIsInTheLogBefore) {
  constexpr std::uint64_t kPages = 64, kPageWords = 512, kCommits = kPages * kPageWords;
  std::vector<std::uint64_t> words(kPageWords);
  std::iota(words.begin(), words.end(), 0);
  std::shuffle(words.begin(), words.end(), std::mt19937_64(seed()));
  const auto word = [&](const Segment &segment, std::uint64_t i) -> std::uint64_t & {
    return word_of(segment, i / kPageWords, words[i % kPageWords]);
  };
  DomainOptions options = durable_options(Durability::kBuffered);
  options.flush_interval_ms = 1;
  const Shared<Turn> turn;
  Children children;
  const std::size_t reader = children.spawn("reader", [&] {
    const Domain domain = Domain::open(path(), options);
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    query(domain, [&] {
      EXPECT_EQ(word(segment, 0), 0u);
      turn->reach(1);
      turn->await(2);
    });
  });
  turn->await(1);
  in_killed_child([&] {
    const Domain &domain = open_for_good(path(), options);
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    for (std::uint64_t i = 0; i < kCommits; ++i)
      atomically(domain, [&] { word(segment, i) = i + 1; });
    domain.flush();
  });
  children.bury(reader);
  lose_shared_memory(path());
  const Domain domain = Domain::open(path());
  const Segment segment = domain.map("a.db", raw_pages(kPages));
  std::uint64_t lost = 0;
  query(domain, [&] {
    for (std::uint64_t i = 0; i < kCommits; ++i) lost += word(segment, i) == i + 1 ? 0u : 1u;
  });
  EXPECT_EQ(lost, 0u);
}

TEST_F(DurableTest, LargeTransactionsAreLoggedInParts) {
  constexpr std::uint64_t kPages = 1500;
  in_killed_child([&] {
    const Domain &domain = open_for_good(path(), durable_options());
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    for (std::uint64_t round = 1; round <= 3; ++round) {
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < kPages; ++page)
          for (std::uint64_t at = 0; at < 512; ++at)
            (&word_of(segment, page))[at] = page * round + at;
      });
    }
  });
  lose_shared_memory(path());
  const Domain domain = Domain::open(path());
  EXPECT_EQ(domain.recovery().transactions, 3u);
  const Segment segment = domain.map("a.db", raw_pages(kPages));
  query(domain, [&] {
    for (std::uint64_t page = 0; page < kPages; ++page)
      for (std::uint64_t at = 0; at < 512; ++at)
        ASSERT_EQ((&word_of(segment, page))[at], page * 3 + at);
  });
}

TEST_F(DurableTest, ACommitWiderThanTheRingIsLogged) {
  constexpr std::uint64_t kPages = 140'000;
  DomainOptions options = durable_options();
  options.log_file_bytes = 8u << 20;
  in_killed_child([&] {
    const Domain &domain = open_for_good(path(), options);
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    atomically(domain, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page) word_of(segment, page) = page + 1;
    });
    atomically(domain, [&] { word_of(segment, 5) = 55; });
  });
  lose_shared_memory(path());
  const Domain domain = Domain::open(path());
  EXPECT_EQ(domain.recovery().transactions, 2u);
  const Segment segment = domain.map("a.db", raw_pages(kPages));
  query(domain, [&] {
    for (std::uint64_t page = 0; page < kPages; ++page)
      ASSERT_EQ(word_of(segment, page), page == 5 ? 55 : page + 1);
  });
}

TEST_F(DurableTest, CheckpointShortensRecoveryAndRecyclesFiles) {
  in_killed_child([&] {
    const Domain &domain = open_for_good(path(), durable_options(Durability::kBuffered));
    const Segment segment = domain.map("a.db", raw_pages(256));
    for (std::uint64_t i = 1; i <= 20'000; ++i) {
      atomically(domain, [&] {
        for (std::uint64_t at = 0; at < 64; ++at) (&word_of(segment, i % 256))[at] = i;
      });
      if (i % 1000 == 0) domain.checkpoint();
    }
    domain.flush();
    if (domain.counters().checkpoints < 10) _exit(3);
  });
  std::uint64_t log_files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(path()))
    log_files += entry.path().filename().string().starts_with("tmh.log.0") ? 1u : 0u;
  // 20,000 commits of 600 bytes are 12 MiB: 12 files, were they not used again
  EXPECT_LE(log_files, 8u);
  lose_shared_memory(path());
  const Domain domain = Domain::open(path());
  EXPECT_LE(domain.recovery().transactions, 1000u);
  const Segment segment = domain.map("a.db", raw_pages(256));
  for (std::uint64_t i = 20'000 - 255; i <= 20'000; ++i)
    EXPECT_EQ(query(domain, [&] { return word_of(segment, i % 256); }), i);
}

DomainOptions without_automatic_checkpoints(Levels levels) {
  DomainOptions options = durable_options();
  options.levels = levels;
  options.line = LineChoice::kSoftware;
  options.checkpoint_interval_ms = 3'600'000;
  return options;
}

// Made and written by others since it came.
TEST_F(DurableTest, CheckpointCatchesUpWithSegmentsThatItsProcessHasNotMapped) {
  for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
    SCOPED_TRACE(to_string(levels));
    const std::string folder = path() + to_string(levels);
    const DomainOptions options = without_automatic_checkpoints(levels);
    const Shared<std::atomic<int>> stage;
    Children children;
    children.spawn("checkpoints", [&] {
      const Domain &domain = open_for_good(folder, options);
      *stage = 1;
      EXPECT_TRUE(poll_until([&] { return *stage == 2; }));
      domain.checkpoint();
      EXPECT_EQ(domain.counters().checkpoints, 1U);
      *stage = 3;
      die_unless_failed();
    });
    children.spawn("commits", [&] {
      EXPECT_TRUE(poll_until([&] { return *stage == 1; }));
      const Domain &domain = open_for_good(folder, options);
      const Segment segment = domain.map("a.db", raw_pages(64));
      commit(domain, segment, 10);
      *stage = 2;
      EXPECT_TRUE(poll_until([&] { return *stage == 3; }));
      die_unless_failed();
    });
    EXPECT_EQ(children.wait(0).signal, SIGKILL);
    EXPECT_EQ(children.wait(1).signal, SIGKILL);
    EXPECT_EQ(Domain::open(folder).recovery().transactions, 0U);
  }
}

// TSan sees whether a checkpoint looks at records of segments that are just being made.
TEST_F(DurableTest, SegmentsAreMadeBesideCheckpoints) {
  constexpr std::uint64_t kSegments = 40;  // their records are in three pages of the control file
  const auto name = [](std::uint64_t i) { return "s" + std::to_string(i); };
  for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
    SCOPED_TRACE(to_string(levels));
    const std::string folder = path() + to_string(levels);
    const DomainOptions options = without_automatic_checkpoints(levels);
    {
      const Domain domain = Domain::open(folder, options);
      const std::jthread checkpoints([&](const std::stop_token &stop) {
        while (!stop.stop_requested()) domain.checkpoint();
      });
      for (std::uint64_t i = 0; i < kSegments; ++i) {
        const Segment segment = domain.map(name(i), raw_pages(1));
        atomically(domain, [&] { word_of(segment, 0) = i + 1; });
      }
    }
    const Domain domain = Domain::open(folder, options);
    for (std::uint64_t i = 0; i < kSegments; ++i) {
      const Segment segment = domain.map(name(i), raw_pages(1));
      query(domain, [&] { EXPECT_EQ(word_of(segment, 0), i + 1); });
    }
  }
}

// ThreadSanitizer, which sees one process at a time, knows what is ordered by way of another one.
class ByWayOfOthersTest : public DurableTest, public testing::WithParamInterface<Levels> {
 protected:
  // More slots than a process keeps for its next commits.
  static constexpr std::uint64_t kPages = 200;
  enum class Writes : std::uint8_t { kLog, kNothing };
  struct Process {
    Process(const std::string &folder, Writes writes)
        : domain(Domain::open(folder, options(writes))) {
      segment = domain.map("a.db", raw_pages(kPages));
    }
    void store(std::uint64_t index, std::uint64_t value) const {
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < kPages; ++page)
          word_of(segment, page, index) = value + page;
      });
    }
    void await_log_commits(std::uint64_t count) const {
      EXPECT_TRUE(poll_until([&] { return domain.counters().log_commits == count; }));
    }
    Domain domain;
    Segment segment;
  };
  static DomainOptions options(Writes writes) {
    DomainOptions options = without_automatic_checkpoints(GetParam());
    options.durability = Durability::kBuffered;
    options.flush_interval_ms = writes == Writes::kLog ? 100 : 3'600'000;
    return options;
  }
  void expect(std::uint64_t index, std::uint64_t value) const {
    const Process process(path(), Writes::kNothing);
    query(process.domain, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page)
        EXPECT_EQ(word_of(process.segment, page, index), value + page);
    });
  }
  const Shared<Turn> turn_;
  Children children_;
};
INSTANTIATE_TEST_SUITE_P(Levels, ByWayOfOthersTest, testing::Values(Levels::kPage, Levels::kHybrid),
                         [](const auto &level) {
                           return level.param == Levels::kPage ? "Pages" : "Hybrid";
                         });

// The housekeeper has read versions for the log, another process frees their slots, and the next
// commit writes into them.
TEST_P(ByWayOfOthersTest, ACommitWritesIntoSlotsBehindTheLogsReads) {
  children_.spawn("writes", role(*turn_, [&] {
                    Process self(path(), Writes::kLog);
                    self.store(0, 1);
                    turn_->reach(1);
                    turn_->await(2);
                    self.store(0, 2);
                    self.domain.close();
                  }));
  children_.spawn("frees", role(*turn_, [&] {
                    turn_->await(1);
                    Process self(path(), Writes::kNothing);
                    self.await_log_commits(1);
                    self.domain.checkpoint();
                    turn_->reach(2);
                    self.domain.close();
                  }));
  children_.expect_success();
  expect(0, 2);
}

// A commit folds older versions into its own, another process frees the slots and commits in them,
// and the housekeeper reads that for the log.
TEST_P(ByWayOfOthersTest, TheLogReadsSlotsBehindAFold) {
  constexpr std::uint64_t kNextLine = kLineBytes / 8;
  children_.spawn("folds", role(*turn_, [&] {
                    Process self(path(), Writes::kLog);
                    turn_->reach(1);
                    turn_->await(2);
                    self.store(0, 1);
                    self.await_log_commits(1);
                    self.store(kNextLine, 2);
                    turn_->reach(3);
                    turn_->await(4);
                    self.domain.close();
                  }));
  children_.spawn("frees", role(*turn_, [&] {
                    turn_->await(1);
                    Process self(path(), Writes::kNothing);
                    query(self.domain, [&] {
                      EXPECT_EQ(word_of(self.segment, 0), 0U);
                      turn_->reach(2);
                      turn_->await(3);
                      EXPECT_EQ(word_of(self.segment, 1), 0U);
                    });
                    self.domain.checkpoint();
                    self.store(0, 3);
                    self.await_log_commits(3);
                    turn_->reach(4);
                    self.domain.close();
                  }));
  children_.expect_success();
  expect(0, 3);
  expect(kNextLine, 2);
}

TEST_F(DurableTest, ArchivedLogRestoresAnyMoment) {
  DomainOptions options = durable_options();
  options.keep_log = true;
  std::vector<std::uint64_t> lsn;
  const std::string archive = folder_.path() + "/archive", base = folder_.path() + "/base";
  {
    Domain domain = Domain::open(path(), options);
    const Segment segment = domain.map("a.db", raw_pages(64));
    atomically(domain, [&] { word_of(segment, 0) = 1; });
    domain.backup(base);
    for (std::uint64_t i = 2; i <= 3000; ++i) {
      atomically(domain, [&] {
        for (std::uint64_t at = 0; at < 300; ++at) (&word_of(segment, at % 64))[at] = i;
        word_of(segment, 0) = i;
      });
      if (i == 1500) (void)domain.archive(archive);
    }
    const std::vector<std::string> moved = domain.archive(archive);
    EXPECT_FALSE(moved.empty());
    domain.close();
    for (const auto &entry : std::filesystem::directory_iterator(path())) {
      if (entry.path().filename().string().starts_with("tmh.log.0"))
        std::filesystem::copy(entry.path(), archive, std::filesystem::copy_options::skip_existing);
    }
  }
  RecoverOptions until;
  until.log_folder = archive;
  until.until_lsn = 4200;  // before the backup's end: its data files hold later commits
  EXPECT_THROW((void)recover(base, until), Error);
  until.until_lsn = 2u << 20;
  const RecoveryInfo info = recover(base, until);
  EXPECT_GT(info.transactions, 100u);
  EXPECT_LE(info.end_lsn, 2u << 20);
  const Domain domain = Domain::open(base);
  const Segment segment = domain.map("a.db", raw_pages(64));
  EXPECT_EQ(query(domain, [&] { return word_of(segment, 0); }), info.transactions + 1);
}

TEST_F(DurableTest, ABackupTakenUnderLoadIsConsistent) {
  struct Shared {
    std::atomic<bool> stop;
  };
  auto *shared = static_cast<Shared *>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) try {
      const Domain domain = Domain::open(path(), durable_options(Durability::kBuffered));
      const Segment segment = domain.map("a.db", raw_pages(128));
      for (std::uint64_t i = 1; !shared->stop.load(); ++i) {
        atomically(domain, [&] {
          for (std::uint64_t page = 0; page < 128; page += 1 + i % 3)
            ++word_of(segment, page), --word_of(segment, 127 - page);  // the sum stays 0
        });
      }
      _exit(0);
    } catch (const std::exception &error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      _exit(1);
    }
  for (int i = 0; i < 3; ++i) {
    const std::string copy = folder_.path() + "/copy" + std::to_string(i);
    {  // closed again before the fork: this one's threads end
      Domain domain = Domain::open(path(), durable_options(Durability::kBuffered));
      const Segment segment = domain.map("a.db", raw_pages(128));
      EXPECT_TRUE(
          poll_until([&] { return query(domain, [&] { return word_of(segment, 0); }) != 0; }));
      domain.backup(copy);
      domain.close();
    }
    in_killed_child([&] {  // in a process of its own: a copy has its original's addresses
      const Domain &restored = open_for_good(copy);
      const Segment there = restored.map("a.db", raw_pages(128));
      std::uint64_t sum = 0;
      query(restored, [&] {
        for (std::uint64_t page = 0; page < 128; ++page) sum += word_of(there, page);
      });
      if (sum != 0) _exit(2);
    });
  }
  shared->stop.store(true);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  munmap(shared, 4096);
}

// A copy names its segments as the domain does: what leads out of the folder would lead to the
// original's file, or to a stranger's.
TEST_F(DurableTest, ABackupIsRefusedWhenASegmentLiesOutsideTheFolder) {
  std::filesystem::create_directories(folder_ / "data");
  std::filesystem::create_directories(folder_ / "elsewhere/data");
  for (const std::string &name : {std::string("../data/a.db"), folder_ / "data/b.db"}) {
    const std::string home = folder_ / (name == "../data/a.db" ? "domain" : "other");
    const Domain domain = Domain::open(home, durable_options());
    const Segment segment = domain.map(name, raw_pages(4));
    atomically(domain, [&] { word_of(segment, 0) = 1; });
    for (const std::string &copy : {folder_ / "copy", folder_ / "elsewhere/copy"}) {
      EXPECT_EQ(code_of([&] { domain.backup(copy); }), Errc::kBadArgument) << copy << ' ' << name;
      EXPECT_FALSE(std::filesystem::exists(copy));
      EXPECT_FALSE(std::filesystem::exists(copy + ".incomplete"));
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "elsewhere/data"))
      << "nothing is written outside the copy";
}

TEST_F(DurableTest, BadInputIsRefused) {
  Domain strict = Domain::open(path(), durable_options());
  EXPECT_EQ(code_of([&] { (void)recover(path()); }), Errc::kDomainInUse);
  const std::string refused = platform::failure_detail();
  EXPECT_NE(refused.find("process " + std::to_string(getpid()) + " (" +
                         program_invocation_short_name + ") has it open"),
            std::string::npos)
      << refused;
  strict.close();
  EXPECT_EQ(code_of([&] { (void)Domain::open(path(), durable_options(Durability::kBuffered)); }),
            Errc::kDurabilityMismatch);
  EXPECT_EQ(code_of([&] { (void)Domain::open(path(), durable_options(Durability::kNone)); }),
            Errc::kDurabilityMismatch);
  EXPECT_EQ(code_of([&] { (void)recover(folder_.path()); }), Errc::kNotADomain);
  DomainOptions odd = durable_options();
  odd.log_file_bytes = 5000;
  EXPECT_EQ(code_of([&] { (void)Domain::open(path(), odd); }), Errc::kBadDurability);
  odd = durable_options();
  odd.policies.group_commit = "active=0";
  EXPECT_EQ(code_of([&] { (void)Domain::open(path(), odd); }), Errc::kBadDurability);
  const Domain plain = Domain::open(folder_.path() + "/volatile");
  EXPECT_EQ(plain.durability(), Durability::kNone);
  EXPECT_EQ(code_of([&] { plain.flush(); }), Errc::kNotDurable);
  EXPECT_EQ(code_of([&] { plain.checkpoint(); }), Errc::kNotDurable);
  EXPECT_EQ(code_of([&] { plain.backup(folder_.path() + "/x"); }), Errc::kNotDurable);
  EXPECT_EQ(code_of([&] { (void)recover(folder_.path() + "/volatile"); }), Errc::kNotDurable);
}

}  // namespace
}  // namespace tmh::test
