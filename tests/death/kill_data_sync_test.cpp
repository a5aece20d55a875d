// tests/death/kill_data_sync_test.cpp -- a process dies of a data file's sync before it has said
// how that ended.
// Invariants: (1) no later checkpoint says that all is on disk unless descriptors that are older
//             than the dead one's sync were told so; the log stays, and the next open replays it.
//             (2) an older participant goes on taking checkpoints, and younger ones after it. (3)
//             where home is another file, a younger one writes everything again, and then hears
//             what became of it.
// Method:     the disk hook stands for the kernel: it kills the victim inside fdatasync(), and
//             tells the others what their descriptors hear.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

#include "platform/disk.h"
#include "platform/files.h"
#include "storage/log/log_format.h"
#include "storage/log/log_state.h"
#include "tests/support/children.h"
#include "tests/support/forker.h"
#include "tests/support/process_state.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using platform::DiskEvent;
using platform::DiskOp;

bool is_data_sync(const DiskEvent &event) {
  return event.op == DiskOp::kSync && std::string_view(event.path).ends_with("/a.db");
}
int die_in_data_write(const DiskEvent &event) {
  const bool is_changed_page = event.bytes == kPageBytes;  // before the sync has begun
  if (event.op == DiskOp::kWrite && std::string_view(event.path).ends_with("/a.db") &&
      !is_changed_page)
    raise(SIGKILL);
  return 0;
}
int die_in_data_sync(const DiskEvent &event) {
  if (is_data_sync(event)) raise(SIGKILL);
  return 0;
}
int die_in_any_sync(const DiskEvent &event) {
  if (event.op == DiskOp::kSync && std::string_view(event.path).ends_with(".db")) raise(SIGKILL);
  return 0;
}
// A file of its own, which no segment is in then.
int die_in_sync_of_new_file(const DiskEvent &event) {
  if (event.op == DiskOp::kSync && std::string_view(event.path).ends_with("/new.db"))
    raise(SIGKILL);
  return 0;
}
// Of each two syncs of one checkpoint the first is the old descriptor's.
int data_syncs = 0, data_sync_to_fail = 0;
int count_data_sync(const DiskEvent &event) {
  if (!is_data_sync(event)) return 0;
  return ++data_syncs == data_sync_to_fail ? EIO : 0;
}

// Pages of a.db written since the death, a bit each; a sync fails, or must find them all.
std::uint64_t pages_written = 0;
std::uint64_t pages_when_synced = 0;
bool sync_fails = false;
int note_pages(const DiskEvent &event) {
  if (event.op == DiskOp::kWrite && std::string_view(event.path).ends_with("/a.db")) {
    for (std::uint64_t at = event.offset; at < event.offset + event.bytes; at += kPageBytes)
      pages_written |= 1ull << (at / kPageBytes);
  }
  if (!is_data_sync(event)) return 0;
  pages_when_synced = pages_written;
  return sync_fails ? EIO : 0;
}

// Who dies: a checkpoint, or who makes a second segment in the same file.
enum class Victim : std::uint8_t { kCheckpoint, kSegment };

// kOwn: the test's, and those behind it
enum Errand : std::size_t { kVictim, kYoungerInVain, kYounger, kEager, kOwn };

class KillDataSyncTest : public testing::TestWithParam<Victim> {
 protected:
  void TearDown() override { platform::set_disk_hook(nullptr); }
  [[nodiscard]] Domain open() const {
    DomainOptions options;
    options.durability = Durability::kStrict;
    options.log_file_bytes = storage::kLogFileBytesMin;
    options.checkpoint_interval_ms = 3'600'000;
    options.levels = levels_;
    return Domain::open(folder_ / "domain", options);
  }
  static SegmentOptions part(std::uint64_t number) {
    SegmentOptions options;
    options.layout = Layout::kRaw;
    options.size_bytes = options.max_bytes = 4 * kPageBytes;
    options.offset_bytes = number * options.size_bytes;
    return options;
  }
  static void commit(const Domain &domain, const Segment &segment, std::uint64_t commits) {
    auto *word = reinterpret_cast<std::uint64_t *>(segment.data());
    for (std::uint64_t i = 0; i < commits; ++i) atomically(domain, [&] { ++*word; });
  }
  void kill_victim() const {
    const ChildEnd end = run_in_child("victim", [&] {
      const Domain domain = open();
      platform::set_disk_hook(die_in_data_sync);
      if (GetParam() == Victim::kCheckpoint)
        domain.checkpoint();
      else
        (void)domain.map("a.db", part(1));
    });
    EXPECT_EQ(end.signal, SIGKILL);
  }
  // A process that comes after the death. Its descriptors hear nothing.
  void expect_younger(bool may_checkpoint) const {
    expect_child("younger", [&] {
      Domain domain = open();
      std::error_code ec;
      const Segment segment = domain.map("a.db", part(0));
      commit(domain, segment, 1);
      if (may_checkpoint)
        domain.checkpoint();
      else
        EXPECT_THROW(domain.checkpoint(), Error);
      domain.unmap(segment);
      domain.close();
    });
  }
  // One whose housekeeper would take checkpoints all the time.
  void expect_eager(const std::function<void(const Domain &)> &wait) const {
    expect_child("eager", [&] {
      DomainOptions options;
      options.levels = levels_;
      options.checkpoint_interval_ms = options.flush_interval_ms = 1;
      Domain eager = Domain::open(folder_ / "domain", options);
      commit(eager, eager.map("a.db", part(0)), 1);
      wait(eager);
      eager.close();
    });
  }
  void expect_eager_in_vain() const {
    // The housekeeper waits once at each of its ticks, and seldom else.
    expect_eager([](const Domain &) {
      const std::uint64_t before = most_waits_of_others();
      EXPECT_TRUE(poll_until([&] { return most_waits_of_others() >= before + 50; }));
    });
  }
  // One commits, another dies in its sync, `body` goes on with what the first one has open; then
  // that dies, too.
  void go_on_after_the_death(
      const std::function<void(const Domain &, const Segment &, Forker *)> &body,
      const std::vector<std::function<void()>> &own_errands = {}) const {
    const ChildEnd end = run_in_child("older", [&] {
      std::vector<std::function<void()>> errands{
          [&] { kill_victim(); }, [&] { expect_younger(false); }, [&] { expect_younger(true); },
          [&] { expect_eager_in_vain(); }};
      errands.insert(errands.end(), own_errands.begin(), own_errands.end());
      Forker forker(std::move(errands));
      const Domain domain = open();
      const Segment segment = domain.map("a.db", part(0));
      commit(domain, segment, 10);
      forker.run(kVictim);
      body(domain, segment, &forker);
      forker.expect_success();
      die_unless_failed();
    });
    EXPECT_EQ(end.signal, SIGKILL);
  }
  [[nodiscard]] std::uint64_t replayed_by_next_open() const {
    return open().recovery().transactions;
  }

  // Three pages of one segment hold something and one of another in the same file, and a clean
  // close has brought it there.
  // More than was stored to where a file system takes several pages at a time, as tmpfs may.
  static std::uint64_t pages_with_data(const std::string &path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::uint64_t pages = 0;
    for (std::uint64_t page = 0; page < 64; ++page)
      if (platform::has_data(fd, page * kPageBytes, kPageBytes)) pages |= std::uint64_t{1} << page;
    ::close(fd);
    return pages;
  }
  static constexpr std::uint64_t kFilledPages = 0b0010'0000'0111;
  void fill_pages() {
    expect_child("before", [&] {
      Domain domain = open();
      const Segment segment = domain.map("a.db", part(0));
      const Segment later = domain.map("a.db", part(2));
      auto *words = reinterpret_cast<std::uint64_t *>(segment.data());
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < 3; ++page) words[page * kPageBytes / 8] = 1;
        reinterpret_cast<std::uint64_t *>(later.data())[kPageBytes / 8] = 1;
      });
      domain.close();
    });
  }

  Levels levels_ = Levels::kPage;
  TempFolder folder_;
};

TEST_P(KillDataSyncTest, WhoCameBeforeHearsOfTheFailureAndTheLogStays) {
  go_on_after_the_death([&](const Domain &domain, const Segment &segment, Forker *forker) {
    forker->run(kYoungerInVain);
    data_syncs = 0, data_sync_to_fail = 1;
    platform::set_disk_hook(count_data_sync);
    EXPECT_THROW(domain.checkpoint(), Error) << "the kernel has told its descriptor";
    EXPECT_THROW(domain.checkpoint(), Error) << "and never tells again";
    commit(domain, segment, 1);
  });
  EXPECT_EQ(replayed_by_next_open(), 12U);
}

TEST_P(KillDataSyncTest, WhoCameBeforeHearsOfSuccessAndCheckpointsGoOn) {
  go_on_after_the_death([&](const Domain &domain, const Segment &, Forker *forker) {
    forker->run(kYoungerInVain);
    domain.checkpoint();
    forker->run(kYounger);
  });
  EXPECT_EQ(replayed_by_next_open(), 0U);
}

TEST(DataSyncsTest, WhatComesIntoDoubtWhileACheckpointRunsIsUnknownToIt) {
  constexpr std::uint32_t kFile = 7;
  storage::DataSyncs syncs{};
  syncs.begin(storage::DataSyncer::kCheckpoint, kFile);
  const std::uint64_t doubts = syncs.doubts(kFile);
  EXPECT_EQ(syncs.oldest_unknown(kFile), 0U);
  syncs.begin(storage::DataSyncer::kSegment, kFile);
  const std::uint32_t dead = syncs.begun;
  EXPECT_EQ(syncs.oldest_unknown(kFile), dead) << "it may live";
  EXPECT_FALSE(syncs.is_in_doubt(kFile, dead));
  syncs.begin(storage::DataSyncer::kSegment, kFile);  // another maker
  EXPECT_EQ(syncs.oldest_unknown(kFile), dead);
  syncs.end(storage::DataSyncer::kSegment);
  EXPECT_EQ(syncs.oldest_unknown(kFile), dead);
  EXPECT_TRUE(syncs.is_in_doubt(kFile, dead));
  syncs.settle(kFile, doubts);
  EXPECT_EQ(syncs.oldest_unknown(kFile), dead) << "that checkpoint has not synced it";
}

TEST(DataSyncsTest, ACheckpointUnderWayIsUnknownToThoseWhoTakeNone) {
  storage::DataSyncs syncs{};
  syncs.begin(storage::DataSyncer::kCheckpoint, 7);
  const std::uint32_t checkpoint = syncs.begun;
  EXPECT_EQ(syncs.oldest_open(7), checkpoint);
  EXPECT_EQ(syncs.oldest_open(6), 0U);
  syncs.begin(storage::DataSyncer::kSegment, 7);
  EXPECT_EQ(syncs.oldest_open(7), checkpoint);
  syncs.end(storage::DataSyncer::kCheckpoint);
  EXPECT_EQ(syncs.oldest_open(7), syncs.oldest_unknown(7));
  syncs.end(storage::DataSyncer::kSegment);
  EXPECT_EQ(syncs.oldest_open(7), 0U);
}

TEST(DataSyncsTest, OtherFilesAreNotInDoubt) {
  storage::DataSyncs syncs{};
  syncs.begin(storage::DataSyncer::kSegment, 7);
  EXPECT_EQ(syncs.oldest_unknown(6), 0U);
  syncs.begin(storage::DataSyncer::kSegment, 6);  // another maker
  EXPECT_NE(syncs.oldest_unknown(7), 0U);
  syncs.end(storage::DataSyncer::kSegment);
  EXPECT_EQ(syncs.oldest_unknown(6), 0U);
  EXPECT_EQ(syncs.oldest_unknown(0), 0U);
  syncs.settle(6, syncs.doubts(7));
  EXPECT_TRUE(syncs.has_doubts());
  syncs.settle(7, syncs.doubts(7));
  EXPECT_FALSE(syncs.has_doubts());
}

// A segment made after the death has descriptors that are all younger. What the dead one was told
// was not about its file; and of one in the same file, the descriptor that the older one has of it
// tells.
TEST_P(KillDataSyncTest, ASegmentMadeAfterTheDeathKeepsNobodyFromCheckpoints) {
  go_on_after_the_death([&](const Domain &domain, const Segment &, Forker *forker) {
    const Segment fresh = domain.map("b.db", part(0));
    commit(domain, fresh, 1);
    const Segment in_the_same = domain.map("a.db", part(1));
    commit(domain, in_the_same, 1);
    EXPECT_NO_THROW(domain.checkpoint());
    forker->run(kYounger);
  });
  EXPECT_EQ(replayed_by_next_open(), 0U);
}

// Two of its segments go by names of their own: what the dead one's sync of one has lost may be
// pages of the other.
TEST_P(KillDataSyncTest, AFileIsOneWhateverItsNames) {
  for (const bool is_symbolic : {false, true}) {
    const std::string name = is_symbolic ? "symbolic.db" : "hard.db";
    const ChildEnd end = run_in_child("older", [&] {
      Forker forker({[&] {
                       const ChildEnd victim = run_in_child("victim", [&] {
                         const Domain domain = open();
                         platform::set_disk_hook(die_in_any_sync);
                         if (GetParam() == Victim::kSegment)
                           (void)domain.map(name, part(is_symbolic ? 2 : 1));
                         domain.checkpoint();
                       });
                       EXPECT_EQ(victim.signal, SIGKILL);
                     },
                     [&] { expect_younger(false); }});
      const Domain domain = open();
      commit(domain, domain.map("a.db", part(0)), 10);
      if (is_symbolic)
        std::filesystem::create_symlink("a.db", folder_ / ("domain/" + name));
      else
        std::filesystem::create_hard_link(folder_ / "domain/a.db", folder_ / ("domain/" + name));
      forker.run(kVictim);
      forker.run(1);
      forker.expect_success();
      die_unless_failed();
    });
    EXPECT_EQ(end.signal, SIGKILL) << name;
  }
}

std::uint64_t last_attempt_ns(const std::string &domain) {
  std::ifstream file(domain + "/tmh.log.state", std::ios::binary);
  std::uint64_t at_ns = 0;
  file.seekg(offsetof(storage::LogState, checkpoint_ns))
      .read(reinterpret_cast<char *>(&at_ns), sizeof at_ns);
  EXPECT_TRUE(file.good());
  return at_ns;
}

// Whether or not anybody has found the dead one's number yet.
TEST_P(KillDataSyncTest, AYoungerOnesHousekeeperLeavesTheCheckpointToTheOlder) {
  for (const bool is_found : {false, true}) {
    go_on_after_the_death([&](const Domain &domain, const Segment &, Forker *forker) {
      if (is_found) forker->run(kYoungerInVain);
      const std::uint64_t before_ns = last_attempt_ns(domain.folder());
      forker->run(kEager);
      EXPECT_EQ(last_attempt_ns(domain.folder()), before_ns);
      domain.checkpoint();
    });
  }
  EXPECT_EQ(replayed_by_next_open(), 0U);
}

TEST_P(KillDataSyncTest, WithNobodyWhoCameBeforeALastCloseLeavesTheLogToTheNextOpen) {
  const Shared<std::atomic<std::uint32_t>> stage;
  Children children;
  children.spawn("older", [&] {
    const Domain domain = open();
    const Segment segment = domain.map("a.db", part(0));
    commit(domain, segment, 10);
    kill_victim();
    *stage = 1;
    (void)poll_until([&] { return *stage == 2; });
    die_unless_failed();
  });
  children.spawn("younger", [&] {
    EXPECT_TRUE(poll_until([&] { return *stage == 1; }));
    Domain domain = open();
    const Segment segment = domain.map("a.db", part(0));
    *stage = 2;
    EXPECT_TRUE(poll_until([&] {
      (void)domain.collect();
      return domain.participants().size() == 1;
    })) << "reaped";
    commit(domain, segment, 1);
    EXPECT_THROW(domain.checkpoint(), Error);
    domain.unmap(segment);
    domain.close();
  });
  EXPECT_EQ(children.wait(0).signal, SIGKILL);
  EXPECT_TRUE(children.wait(1).succeeded());
  EXPECT_EQ(replayed_by_next_open(), 11U);
}

TEST_P(KillDataSyncTest, WithSeparateHomesAYoungerOneWritesAllOfItAgain) {
  levels_ = Levels::kHybrid;
  fill_pages();
  const auto dies_writing = [&] {
    const ChildEnd end = run_in_child("dies writing", [&] {
      const Domain domain = open();
      platform::set_disk_hook(die_in_data_write);
      domain.checkpoint();
    });
    EXPECT_EQ(end.signal, SIGKILL);
  };
  const auto writes = [&] {
    expect_child("younger", [&] {
      const Domain domain = open();
      const Segment segment = domain.map("a.db", part(0));
      commit(domain, segment, 1);
      platform::set_disk_hook(note_pages);
      EXPECT_NO_THROW(domain.checkpoint());
      EXPECT_EQ(pages_when_synced & kFilledPages, kFilledPages)
          << "also what has not changed since";
      EXPECT_EQ(pages_when_synced, pages_with_data(domain.folder() + "/tmh.home.0") |
                                       pages_with_data(domain.folder() + "/tmh.home.1") << 8)
          << "nothing that nobody has stored to";
      pages_written = 0;
      commit(domain, segment, 1);
      EXPECT_NO_THROW(domain.checkpoint());
      EXPECT_EQ(pages_written, 0b001U) << "nothing is in doubt any more";
    });
  };
  go_on_after_the_death(
      [&](const Domain &, const Segment &, Forker *forker) {
        forker->run(kOwn);
        forker->run(kOwn + 1);
      },
      {dies_writing, writes});
  EXPECT_EQ(replayed_by_next_open(), 0U);
}

TEST_P(KillDataSyncTest, WithSeparateHomesAYoungerOneHearsOfWhatItWroteAgain) {
  levels_ = Levels::kHybrid;
  const auto hears = [&] {
    expect_child("younger", [&] {
      const Domain domain = open();
      commit(domain, domain.map("a.db", part(0)), 1);
      sync_fails = true;
      platform::set_disk_hook(note_pages);
      EXPECT_THROW(domain.checkpoint(), Error);
      EXPECT_NE(pages_when_synced, 0U) << "its own sync";
      sync_fails = false;
      EXPECT_THROW(domain.checkpoint(), Error) << "the kernel takes the pages for clean now";
    });
  };
  go_on_after_the_death([&](const Domain &, const Segment &, Forker *forker) { forker->run(kOwn); },
                        {hears});
  EXPECT_EQ(replayed_by_next_open(), 11U);
}

class KillNewFileTest : public KillDataSyncTest {};
INSTANTIATE_TEST_SUITE_P(Victims, KillNewFileTest, testing::Values(Victim::kSegment));

TEST_P(KillNewFileTest, KeepsNoHousekeeperFromCheckpoints) {
  const auto dies = [&] {
    const ChildEnd end = run_in_child("dies", [&] {
      const Domain domain = open();
      platform::set_disk_hook(die_in_sync_of_new_file);
      (void)domain.map("new.db", part(0));
    });
    EXPECT_EQ(end.signal, SIGKILL);
  };
  const auto eager = [&] {
    expect_eager([](const Domain &domain) {
      EXPECT_TRUE(poll_until([&] { return domain.counters().checkpoints != 0; }));
    });
  };
  expect_child("older", [&] {
    Forker forker({dies, eager});
    const Domain domain = open();
    (void)domain.map("a.db", part(0));  // before: another number, which nobody uses again
    forker.run(0);
    forker.run(1);
    forker.expect_success();
  });
}

// Nobody older takes checkpoints: this one's interval is an hour.
TEST_P(KillDataSyncTest, WithSeparateHomesAYoungerOnesHousekeeperDoesItInTheEnd) {
  levels_ = Levels::kHybrid;
  const auto eager = [&] {
    expect_eager([](const Domain &domain) {
      EXPECT_TRUE(poll_until([&] { return domain.counters().checkpoints != 0; }));
    });
  };
  go_on_after_the_death([&](const Domain &, const Segment &, Forker *forker) { forker->run(kOwn); },
                        {eager});
  EXPECT_LE(replayed_by_next_open(), 1U) << "the last commit may have come while it was at work";
}

INSTANTIATE_TEST_SUITE_P(Victims, KillDataSyncTest,
                         testing::Values(Victim::kCheckpoint, Victim::kSegment),
                         [](const auto &victim) {
                           return std::string(victim.param == Victim::kCheckpoint ? "Checkpoint"
                                                                                  : "Segment");
                         });

}  // namespace
}  // namespace tmh::test
