// tests/death/kill_hybrid_recovery_test.cpp -- the only process of a durable domain with both
// levels dies at each step of commits, moves of pages, the log and checkpoints; the next open finds
// a prefix with all that was acknowledged.
// Invariants: (1) every word is as the last recovered commit left it: nothing of a later one, all
//             of the earlier ones. (2) strict commits that returned are there, also when shared
//             memory is lost. (3) buffered ones that returned are there when it is not.
//             (4) a damaged word of the log's shared memory makes no log files without end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "platform/disk.h"
#include "storage/log/log_state.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/durable_folder.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using observe::Step;

constexpr std::uint64_t kPages = 64, kPageWords = kPageBytes / 8, kCommits = 400;
// Pages 1 to 11 in turn.
constexpr std::uint64_t kFirstFull = 40, kFullWords = 8 * kPageWords, kRing = 11;

DomainOptions options_of(Durability durability) {
  DomainOptions options = durable_options(durability);
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;  // whatever TMH_LINE says
  options.policies.detection = Detection::kLazy;
  options.flush_interval_ms = 20;
  return options;
}

struct Table {
  Table(const std::string &folder, Durability durability)
      : domain(Domain::open(folder, options_of(durability))),
        segment(domain.map("a.db", raw_pages(kPages))) {}
  [[nodiscard]] field<std::uint64_t> &word(std::uint64_t page, std::uint64_t index = 0) const {
    return reinterpret_cast<field<std::uint64_t> *>(segment.data())[page * kPageWords + index];
  }
  Domain domain;
  Segment segment;
};

// What commit i stores. Every fourth one is level 2's and fills eight pages, so that log files do
// not last long.
bool is_large(std::uint64_t i) { return i % 4 == 3; }
void store(const Table &table, std::uint64_t i) {
  table.word(0).store(i);
  table.word(1 + i % kRing).store(i);
  if (!is_large(i)) return;
  for (std::uint64_t at = 0; at < kFullWords; ++at) table.word(kFirstFull, at).store(i + at);
}

// As after commit `last`.
void expect_prefix(const Table &table, std::uint64_t last) {
  for (std::uint64_t page = 0; page < kRing; ++page) {
    // 0: nobody has stored there
    const std::uint64_t newest = last < page ? 0 : last - (last - page) % kRing;
    EXPECT_EQ(table.word(1 + page).load(), newest) << "page " << 1 + page << " after " << last;
  }
  const std::uint64_t large = last < 3 ? 0 : last - (last + 1) % 4;
  for (std::uint64_t at = 0; at < kFullWords; ++at)
    ASSERT_EQ(table.word(kFirstFull, at).load(), large == 0 ? 0 : large + at) << "after " << last;
}

class KillHybridRecoveryTest
    : public testing::TestWithParam<std::tuple<Durability, std::uint32_t>> {};

TEST_P(KillHybridRecoveryTest, TheNextOpenFindsAPrefixWithAllThatWasAcknowledged) {
  const Durability durability = std::get<0>(GetParam());
  const std::uint32_t step = std::get<1>(GetParam());
  for (const bool loses_memory : {false, true}) {
    for (const std::uint32_t passage : {1u, 2u, 7u}) {
      // 3 MiB of log
      if (passage > 2 && step == static_cast<std::uint32_t>(Step::kLogFileMade)) continue;
      SCOPED_TRACE("passage " + std::to_string(passage) +
                   (loses_memory ? ", shared memory is lost" : ""));
      const MemoryFolder folder;
      const std::string path = folder / "domain";
      const Shared<std::atomic<std::uint64_t>> acknowledged;
      const ChildEnd end = run_in_child("victim", [&] {
        auto *table = new Table(path, durability);  // never closed
        const Site lines(table->domain, "lines", "on-capacity"),
            pages(table->domain, "pages", "always");
        observe::crash_at(step, passage);
        for (std::uint64_t i = 1; i <= kCommits; ++i) {
          atomically(is_large(i) ? pages : lines, [&](Fields) { store(*table, i); });
          acknowledged->store(i);
          if (i % 16 == 0) table->domain.checkpoint();
        }
      });
      ASSERT_EQ(end.signal, SIGKILL) << "the step was not passed";
      if (loses_memory) lose_shared_memory(path);
      expect_child("next", [&] {
        const Table table(path, durability);
        const std::uint64_t last = query(table.domain, [&] { return table.word(0).load(); });
        if (durability == Durability::kStrict || !loses_memory) {
          EXPECT_GE(last, acknowledged->load());
        }
        query(table.domain, [&] { expect_prefix(table, last); });
        const Site lines(table.domain, "lines", "on-capacity");
        atomically(lines, [&](Fields) { store(table, last + 1); });
        query(table.domain, [&] { EXPECT_EQ(table.word(0).load(), last + 1); });
      });
    }
  }
}

// Bytes of commits that the log has to come.
std::uint64_t reserved_in_log(const std::string &path) {
  const std::string bytes = read_file(path + "/tmh.log.state");
  std::uint64_t reserved = 0;
  std::memcpy(&reserved, bytes.data() + offsetof(storage::LogState, pending_bytes),
              sizeof reserved);
  return reserved;
}

// Or log files would come earlier with each death.
TEST(KillBesideOthersTest, RoomInTheLogThatTheDeadHadReservedIsGivenBack) {
  const MemoryFolder folder;
  const std::string path = folder / "domain";
  const Table table(path, Durability::kStrict);
  const Site mine(table.domain, "mine", "on-capacity");
  for (std::uint32_t step = 0; step < observe::kStepCount; ++step) {
    const ChildEnd end = run_in_child("victim", [&] {
      auto *own = new Table(path, Durability::kStrict);  // never closed
      const Site lines(own->domain, "lines", "on-capacity"), pages(own->domain, "pages", "always");
      observe::crash_at(step, 1);
      for (std::uint64_t i = 1; i <= 8; ++i)
        atomically(is_large(i) ? pages : lines, [&](Fields) { store(*own, i); });
      _exit(0);
    });
    EXPECT_TRUE(end.signal == SIGKILL || end.succeeded());
    table.domain.collect();
    atomically(mine, [&](Fields) { store(table, 1); });
    table.domain.flush();
    ASSERT_EQ(reserved_in_log(path), 0U)
        << "after a death at " << observe::step_name(static_cast<Step>(step));
  }
}

// So many log files may be made with little in them; then the disk is said to be full.
constexpr int kFilesEnough = 300;
std::atomic<int> g_files_left;

int refuse_endless_files(const platform::DiskEvent &event) {
  if (event.op != platform::DiskOp::kRename || std::strstr(event.path2, "/tmh.log.0") == nullptr)
    return 0;
  return g_files_left-- > 0 ? 0 : ENOSPC;
}

void damage_log_state(const std::string &path, std::size_t at) {
  const int fd = ::open((path + "/tmh.log.state").c_str(), O_WRONLY | O_CLOEXEC);
  const std::uint64_t value = 1ull << 40;
  EXPECT_EQ(pwrite(fd, &value, sizeof value, static_cast<off_t>(at)),
            static_cast<ssize_t>(sizeof value));
  ::close(fd);
}

class DamagedLogStateTest : public testing::Test {
 protected:
  DamagedLogStateTest() {
    g_files_left = kFilesEnough;
    platform::set_disk_hook(refuse_endless_files);
  }
  ~DamagedLogStateTest() override { platform::set_disk_hook(nullptr); }
  const TempFolder folder_;  // on disk: nobody's memory is at risk
  const std::string path_ = folder_ / "domain";
};

// Each page that may be reserved for is a version slot's or a ring's.
TEST_F(DamagedLogStateTest, BytesThatNobodyCanHaveReservedAreDropped) {
  const Table table(path_, Durability::kStrict);
  const Site lines(table.domain, "lines", "on-capacity"), pages(table.domain, "pages", "always");
  std::uint64_t i = 0;
  for (const Site *site : {&lines, &pages}) {
    damage_log_state(path_, offsetof(storage::LogState, pending_bytes));
    EXPECT_NO_THROW(atomically(*site, [&](Fields) { store(table, i + 1); }));
    ++i;
  }
  EXPECT_GT(g_files_left, 0);
  query(table.domain, [&] { expect_prefix(table, i); });
}

TEST_F(DamagedLogStateTest, NoCommitEndsWhereTheLogCannotReach) {
  DomainOptions options = options_of(Durability::kStrict);
  options.levels = Levels::kPage;
  const auto open = [&](const auto &body) {
    const Domain domain = Domain::open(path_, options);
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    body([&](std::uint64_t value) { atomically(domain, [&] { word_of(segment, 1) = value; }); });
    query(domain, [&] { EXPECT_EQ(word_of(segment, 1), 1U); });
  };
  open([&](const auto &store) {
    store(1);
    for (const std::size_t at : {0U, 8U})
      damage_log_state(path_, offsetof(storage::LogState, append_lsn) + at);
    EXPECT_EQ(code_of([&] { store(2); }), Errc::kCorrupt);
    EXPECT_GT(g_files_left, 0);
  });
  open([](const auto &store) { store(1); });
}

// An attempt that fails behind the reservation has given it back, once: its process's death gives
// back nothing more.
TEST(KillBesideOthersTest, RoomInTheLogOfAnAbortIsGivenBackOnce) {
  const MemoryFolder folder;
  const std::string path = folder / "domain";
  const Table table(path, Durability::kStrict);
  for (const bool at_pages : {false, true}) {
    const char *const escalation = at_pages ? "always" : "never";
    const Shared<Turn> turn;  // 1 the victim has read, 2 what it has read is changed
    Children children;
    const std::size_t victim =
        children.spawn("victim", role(*turn, [&] {
                         // Never closed.
                         auto *own = new Table(path, Durability::kStrict);
                         const Site site(own->domain, "site", escalation);
                         int attempts = 0;
                         atomically(site, [&](Fields) {
                           if (++attempts == 2) die_unless_failed();
                           own->word(1).store(own->word(0).load() + (at_pages ? 10 : 20));
                           if (attempts > 1) return;
                           turn->reach(1);
                           turn->await(2);
                         });
                       }));
    turn->await(1);
    atomically(Site(table.domain, "rival", escalation), [&](Fields) { ++table.word(0); });
    turn->reach(2);
    EXPECT_EQ(children.wait(victim).signal, SIGKILL);
    table.domain.collect();
    table.domain.flush();
    EXPECT_EQ(reserved_in_log(path), 0U) << at_pages;
  }
}

// The flusher dies between a write and its publication, after another thread has committed more.
// What it had begun is of one cut, and that later commit of none.
class KillWhileLoggingTest : public testing::TestWithParam<Step> {};

std::atomic<Step> awaited_step;
std::atomic<bool> at_step, goes_on;

TEST_P(KillWhileLoggingTest, WhatWasAcknowledgedMeanwhileIsSalvaged) {
  const MemoryFolder folder;
  const std::string path = folder / "domain";
  const ChildEnd end = run_in_child("victim", [&] {
    auto *table = new Table(path, Durability::kBuffered);  // never closed
    const Site lines(table->domain, "lines", "on-capacity"),
        pages(table->domain, "pages", "always");
    awaited_step = GetParam();
    observe::set_step_hook([](Step step) {
      if (step != awaited_step.load()) return;
      at_step = true;
      while (!goes_on) sched_yield();
      (void)raise(SIGKILL);
    });
    atomically(lines, [&](Fields) { store(*table, 1); });
    ASSERT_TRUE(poll_until([] { return at_step.load(); })) << "nobody writes the log";
    atomically(lines, [&](Fields) { store(*table, 2); });
    atomically(pages, [&](Fields) { store(*table, 3); });
    goes_on = true;
    for (;;) pause();
  });
  ASSERT_EQ(end.signal, SIGKILL);
  const Table table(path, Durability::kBuffered);
  EXPECT_EQ(query(table.domain, [&] { return table.word(0).load(); }), 3U);
  query(table.domain, [&] { expect_prefix(table, 3); });
}

INSTANTIATE_TEST_SUITE_P(Steps, KillWhileLoggingTest,
                         testing::Values(Step::kLogCut, Step::kLogWrite, Step::kLogWritten,
                                         Step::kLogPointFilled, Step::kLogPointCounted),
                         [](const testing::TestParamInfo<Step> &one) {
                           std::string name = observe::step_name(one.param);
                           for (char &c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

std::string case_name(const testing::TestParamInfo<std::tuple<Durability, std::uint32_t>> &one) {
  std::string name = std::string(to_string(std::get<0>(one.param))) + "_" +
                     observe::step_name(static_cast<Step>(std::get<1>(one.param)));
  for (char &c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    LogAndCheckpoint, KillHybridRecoveryTest,
    testing::Combine(testing::Values(Durability::kStrict, Durability::kBuffered),
                     testing::Range(static_cast<std::uint32_t>(Step::kLogStart),
                                    static_cast<std::uint32_t>(Step::kCheckpointStored) + 1)),
    case_name);
INSTANTIATE_TEST_SUITE_P(
    LevelOne, KillHybridRecoveryTest,
    testing::Combine(testing::Values(Durability::kStrict, Durability::kBuffered),
                     testing::Range(static_cast<std::uint32_t>(Step::kLineLock),
                                    static_cast<std::uint32_t>(Step::kLineCounted) + 1)),
    case_name);
INSTANTIATE_TEST_SUITE_P(
    Moves, KillHybridRecoveryTest,
    testing::Combine(testing::Values(Durability::kStrict, Durability::kBuffered),
                     testing::Range(static_cast<std::uint32_t>(Step::kRecallStart),
                                    static_cast<std::uint32_t>(Step::kReleaseOpen) + 1)),
    case_name);

}  // namespace
}  // namespace tmh::test
