// tests/death/kill_checkpoint_test.cpp -- what is lost when checkpoints, archives and backups are
// not what they say.
// Invariants: (1) a checkpoint starts in front of what is committed while it runs, and says how far
//             the log was durable, (2) what was folded while it ran, and pages that a reader kept
//             from home, are not behind it: the next one has them, too, (3) recovery from the older
//             slot finds its log, whatever was recycled or archived, (4) a backup is on disk when
//             it has its name, and cannot be taken back to before its end, (5) an archive's name is
//             on disk before a file is moved there.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "platform/disk.h"
#include "storage/checkpoint_file.h"
#include "storage/log/log_files.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/durable_folder.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using platform::DiskEvent;
using platform::DiskOp;
using storage::CheckpointV1;

class CheckpointLossTest : public testing::Test {
 protected:
  void TearDown() override { platform::set_disk_hook(nullptr); }
  [[nodiscard]] std::string domain() const { return folder_ / "domain"; }
  // Checkpoints when the test asks for them.
  static DomainOptions quiet(Durability durability = Durability::kBuffered) {
    DomainOptions options = durable_options(durability);
    options.checkpoint_bytes = 1ull << 40;
    options.checkpoint_interval_ms = 3'600'000;
    return options;
  }
  [[nodiscard]] static CheckpointV1 newest_slot(const std::string &folder,
                                                std::size_t *number = nullptr) {
    const std::string bytes = read_file(storage::checkpoint_path(folder));
    CheckpointV1 slots[2] = {};
    std::memcpy(slots, bytes.data(), std::min(bytes.size(), sizeof slots));
    const std::size_t newest = slots[1].sequence > slots[0].sequence ? 1 : 0;
    if (number != nullptr) *number = newest;
    return slots[newest];
  }
  TempFolder folder_;
};

// The reader holds all back, so each version takes in the one before it, while checkpoints look for
// what is not home.
TEST_F(CheckpointLossTest, NothingIsFoldedAcrossTheFenceOfACheckpoint) {
  constexpr std::uint64_t kPages = 16, kRounds = 400;
  const Shared<Turn> turn;
  const Shared<std::atomic<std::uint64_t>> done;
  Children children;
  const std::size_t reader = children.spawn("reader", [&] {
    const Domain domain = Domain::open(this->domain(), durable_options());
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    domain.begin_query();
    EXPECT_EQ(word_of(segment, 0), 0u);
    turn->reach(1);
    turn->await(2);
    die_unless_failed();
  });
  const std::size_t writer = children.spawn("writer", [&] {
    const Domain domain = Domain::open(this->domain(), durable_options());
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    turn->await(1);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < kPages; ++page)
          (&word_of(segment, page))[round] = round;
      });
      done->store(round);
    }
    turn->await(2);
    die_unless_failed();
  });
  const std::size_t checkpointer = children.spawn("checkpointer", [&] {
    const Domain domain = Domain::open(this->domain(), durable_options());
    turn->await(1);
    while (done->load() < kRounds) domain.checkpoint();
    die_unless_failed();
  });
  EXPECT_EQ(children.wait(checkpointer).signal, SIGKILL);
  turn->reach(2);
  EXPECT_EQ(children.wait(writer).signal, SIGKILL);
  EXPECT_EQ(children.wait(reader).signal, SIGKILL);
  lose_shared_memory(domain());
  const Domain domain = Domain::open(this->domain());
  const Segment segment = domain.map("a.db", raw_pages(kPages));
  query(domain, [&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round)
      ASSERT_EQ((&word_of(segment, 7))[round], round);
  });
}

// A checkpoint that starts further back, because of a reader, leaves pages for the next one, beside
// those that are noted since.
TEST_F(CheckpointLossTest, PagesThatAReaderKeptFromHomeAreTheNextCheckpointsToo) {
  constexpr std::uint64_t kPages = 32, kHeldPage = 20, kLaterPage = 21;
  EXPECT_EQ(run_in_child("user",
                         [&] {
                           DomainOptions options = quiet();
                           options.levels = Levels::kHybrid;
                           const Shared<Turn> turn;
                           Children readers;
                           const auto read_from = [&](std::uint32_t begun, std::uint32_t until) {
                             readers.spawn("reader", [&, begun, until] {
                               turn->await(begun - 1);
                               const Domain own = Domain::open(this->domain(), options);
                               const Segment there = own.map("a.db", raw_pages(kPages));
                               own.begin_query();
                               EXPECT_EQ(word_of(there, kHeldPage), 0U);
                               turn->reach(begun);
                               turn->await(until);
                               own.end_query();
                               if (begun == 2) turn->reach(4);  // the next one's
                             });
                           };
                           // Before there is a thread that checkpoints: see tests/support/forker.h.
                           read_from(2, 3);
                           read_from(5, 6);
                           const Domain domain = Domain::open(this->domain(), options);
                           const Segment segment = domain.map("a.db", raw_pages(kPages));
                           turn->reach(1);
                           turn->await(2);
                           for (std::uint64_t i = 1; i <= 40; ++i)
                             atomically(domain, [&] {
                               for (std::uint64_t at = 0; at < 4096; ++at)
                                 (&word_of(segment, 0))[at] = i + at;
                             });
                           domain.checkpoint();  // moves the fence
                           turn->reach(3);
                           turn->await(5);
                           atomically(domain, [&] { word_of(segment, kHeldPage) = 1; });
                           const std::uint64_t before = domain.counters().checkpoints;
                           domain.checkpoint();
                           EXPECT_EQ(domain.counters().checkpoints, before + 1)
                               << "in front of what the reader holds";
                           atomically(domain, [&] { word_of(segment, kLaterPage) = 2; });
                           turn->reach(6);
                           readers.expect_success();
                           domain.checkpoint();
                           EXPECT_EQ(domain.counters().checkpoints, before + 2);
                           die_unless_failed();
                         })
                .signal,
            SIGKILL);
  lose_shared_memory(domain());
  const Domain domain = Domain::open(this->domain());
  const Segment segment = domain.map("a.db", raw_pages(kPages));
  EXPECT_EQ(domain.recovery().transactions, 0U) << "the last checkpoint has all";
  query(domain, [&] {
    EXPECT_EQ(word_of(segment, 0), 40U);
    EXPECT_EQ(word_of(segment, kHeldPage), 1U);
    EXPECT_EQ(word_of(segment, kLaterPage), 2U);
  });
}

Turn *checkpoint_turn = nullptr;
void stop_when_collected(observe::Step step) {
  if (step != observe::Step::kCheckpointCollected) return;
  checkpoint_turn->reach(2);
  checkpoint_turn->await(3);
}

// It is in the log, and home knows nothing of it.
TEST_F(CheckpointLossTest, ACheckpointStartsInFrontOfWhatIsCommittedWhileItRuns) {
  const Shared<Turn> turn;
  Children children;
  const std::size_t writer = children.spawn("writer", [&] {
    const Domain domain = Domain::open(this->domain(), quiet(Durability::kStrict));
    const Segment segment = domain.map("a.db", raw_pages(4));
    atomically(domain, [&] { word_of(segment, 0) = 1; });
    turn->reach(1);
    turn->await(2);
    atomically(domain, [&] { word_of(segment, 1) = 2; });
    turn->reach(3);
    turn->await(4);
    die_unless_failed();
  });
  const std::size_t checkpointer = children.spawn("checkpointer", [&] {
    turn->await(1);
    const Domain domain = Domain::open(this->domain(), quiet(Durability::kStrict));
    checkpoint_turn = &*turn;
    observe::set_step_hook(stop_when_collected);
    const std::uint64_t before = domain.counters().checkpoints;
    domain.checkpoint();
    EXPECT_GT(domain.counters().checkpoints, before);
    die_unless_failed();
  });
  EXPECT_EQ(children.wait(checkpointer).signal, SIGKILL);
  turn->reach(4);
  EXPECT_EQ(children.wait(writer).signal, SIGKILL);
  const CheckpointV1 newest = newest_slot(domain());
  EXPECT_GT(newest.durable_lsn, newest.lsn)
      << "damage to what was acknowledged by then is no torn tail";
  lose_shared_memory(domain());
  const Domain domain = Domain::open(this->domain());
  const Segment segment = domain.map("a.db", raw_pages(4));
  query(domain, [&] {
    EXPECT_EQ(word_of(segment, 0), 1U);
    EXPECT_EQ(word_of(segment, 1), 2U);
  });
}

// What a power cut leaves of a copy: of each file what it held when a sync of it began that is
// done, and the names in folders that were synced behind their making.
struct CopyWatch {
  std::map<std::string, std::string> under_way, synced;  // content by path
  std::vector<std::string> folders;
  std::string copy;
  bool is_named = false;
  std::function<void()> grow;  // once, when its file has been copied
};
CopyWatch *copy_watch = nullptr;
int watch_copy(const DiskEvent &event) {
  const std::string path = std::filesystem::path(event.path).lexically_normal().string();
  if (event.op == DiskOp::kFolderSyncDone && copy_watch->copy + "/.." == event.path)
    copy_watch->is_named = std::filesystem::exists(copy_watch->copy);
  if (path.find("/copy") == std::string::npos) return 0;
  if (event.op == DiskOp::kSyncDone && path.ends_with("/b.db") && copy_watch->grow)
    std::exchange(copy_watch->grow, nullptr)();
  if (event.op == DiskOp::kSync) copy_watch->under_way[path] = read_file(path);
  if (event.op == DiskOp::kSyncDone) copy_watch->synced[path] = copy_watch->under_way[path];
  if (event.op == DiskOp::kFolderSyncDone) copy_watch->folders.push_back(path);
  return 0;
}

TEST_F(CheckpointLossTest, ABackupThatHasItsNameIsOnDisk) {
  const Domain domain = Domain::open(this->domain(), quiet());
  std::filesystem::create_directories(this->domain() + "/deep/deeper");
  const Segment deep = domain.map("deep/deeper/a.db", raw_pages(4));
  const Segment segment = domain.map("b.db", raw_pages(4));
  for (std::uint64_t i = 0; i < 100; ++i)
    atomically(domain, [&] { word_of(deep, i % 4) = word_of(segment, i % 4) = i; });
  const std::string copy = folder_ / "copy", incomplete = copy + ".incomplete";
  CopyWatch watch;
  watch.copy = copy;
  watch.grow = [&] { segment.grow(8 * kPageBytes); };
  copy_watch = &watch;
  platform::set_disk_hook(watch_copy);
  domain.backup(copy);
  platform::set_disk_hook(nullptr);
  EXPECT_EQ(watch.grow, nullptr);
  EXPECT_TRUE(watch.is_named);
  EXPECT_EQ(std::filesystem::file_size(copy + "/b.db"), 8 * kPageBytes);
  std::vector<std::string> folders{incomplete};
  for (const auto &entry : std::filesystem::recursive_directory_iterator(copy)) {
    const std::string made = incomplete + "/" + entry.path().lexically_relative(copy).string();
    if (entry.is_directory()) folders.push_back(made);
    // tmh.checkpoint gets its name last, when it is whole.
    const std::string at = watch.synced.contains(made) ? made : made + ".new";
    if (!entry.is_regular_file()) continue;
    EXPECT_TRUE(watch.synced.contains(at) && watch.synced[at] == read_file(entry.path()))
        << entry.path();
  }
  for (const std::string &folder : folders)
    EXPECT_NE(std::find(watch.folders.begin(), watch.folders.end(), folder), watch.folders.end())
        << folder;
}

std::vector<std::string> *synced_folders = nullptr;
int note_synced_folders(const DiskEvent &event) {
  if (event.op == DiskOp::kFolderSyncDone) synced_folders->emplace_back(event.path);
  return 0;
}

TEST_F(CheckpointLossTest, AnArchivesNameIsOnDiskBeforeAFileIsMoved) {
  DomainOptions options = durable_options();
  options.keep_log = true;
  const Domain domain = Domain::open(this->domain(), options);
  const std::string archive = folder_ / "archive";
  std::filesystem::create_directory(archive);  // by a call that was killed
  std::vector<std::string> synced;
  synced_folders = &synced;
  platform::set_disk_hook(note_synced_folders);
  (void)domain.archive(archive);
  platform::set_disk_hook(nullptr);
  EXPECT_NE(std::find(synced.begin(), synced.end(), archive + "/.."), synced.end());
}

Turn *backup_turn = nullptr;
void stop_before_the_copy(observe::Step step) {
  if (step != observe::Step::kCheckpointStored || backup_turn == nullptr) return;
  backup_turn->reach(2);
  backup_turn->await(3);
}

// The copy's data files may hold what was committed behind its checkpoint, until they were copied.
TEST_F(CheckpointLossTest, APointInTimeWhileABackupWasTakenIsRefused) {
  const Shared<Turn> turn;
  Children children;
  children.spawn("writer", [&] {
    const Domain domain = Domain::open(this->domain(), durable_options());
    const Segment segment = domain.map("a.db", raw_pages(4));
    atomically(domain, [&] { word_of(segment, 0) = 1; });
    turn->reach(1);
    turn->await(2);
    atomically(domain, [&] { word_of(segment, 0) = 2; });
    domain.flush();
    turn->reach(3);
  });
  const std::string copy = folder_ / "copy";
  expect_child("backup", [&] {
    turn->await(1);
    const Domain domain = Domain::open(this->domain(), durable_options());
    backup_turn = &*turn;
    observe::set_step_hook(stop_before_the_copy);
    domain.backup(copy);
    backup_turn = nullptr;
  });
  children.expect_success();
  RecoverOptions until;
  until.until_lsn = newest_slot(copy).lsn;
  EXPECT_EQ(code_of([&] { (void)recover(copy, until); }), Errc::kBadArgument);
  const Domain domain = Domain::open(copy);
  const Segment segment = domain.map("a.db", raw_pages(4));
  EXPECT_EQ(query(domain, [&] { return word_of(segment, 0); }), 2U);
}

// Each slot of tmh.checkpoint has the log files that it starts from, also where the newest one is
// lost: see damage_newest_slot().
class OlderSlotTest : public CheckpointLossTest {
 protected:
  static constexpr std::uint64_t kPages = 64;
  // Some three log files.
  void fill(const Domain &domain, const Segment &segment, std::uint64_t round) const {
    for (std::uint64_t i = 0; i < 12; ++i) {
      atomically(domain, [&] {
        auto *const words = reinterpret_cast<std::uint64_t *>(segment.data());
        for (std::uint64_t at = 0; at < kPages * kPageBytes / 8; ++at)
          words[at] = 100 * round + i + at;
      });
    }
    domain.flush();
  }
  void damage_newest_slot() const {
    std::size_t number = 0;
    const CheckpointV1 newest = newest_slot(domain(), &number);
    EXPECT_LT(newest.previous_lsn / kSmallLogBytes, newest.lsn / kSmallLogBytes);
    patch_file(storage::checkpoint_path(domain()), number * sizeof newest + 50, "damage");
  }
  // What fill() made last.
  void expect_round(std::uint64_t round) const {
    const Domain domain = Domain::open(this->domain(), quiet());
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    EXPECT_GE(domain.recovery().transactions, 12U) << "it started from the older slot";
    query(domain, [&] {
      const auto *const words = reinterpret_cast<const std::uint64_t *>(segment.data());
      for (std::uint64_t at = 0; at < kPages * kPageBytes / 8; at += 100)
        EXPECT_EQ(words[at], 100 * round + 11 + at) << at;
    });
  }
};

TEST_F(OlderSlotTest, FindsItsLogWhenFilesWereRecycled) {
  EXPECT_EQ(run_in_child("user",
                         [&] {
                           const Domain domain = Domain::open(this->domain(), quiet());
                           const Segment segment = domain.map("a.db", raw_pages(kPages));
                           for (std::uint64_t round = 1; round <= 4; ++round) {
                             if (round > 1) domain.checkpoint();
                             fill(domain, segment, round);
                           }
                           EXPECT_FALSE(
                               std::filesystem::exists(storage::log_file_path(this->domain(), 0)));
                           die_unless_failed();
                         })
                .signal,
            SIGKILL);
  damage_newest_slot();
  expect_round(4);
}

TEST_F(OlderSlotTest, FindsItsLogWhenFilesWereArchived) {
  const std::string archive = folder_ / "archive";
  EXPECT_EQ(run_in_child("user",
                         [&] {
                           DomainOptions options = quiet();
                           options.keep_log = true;
                           const Domain domain = Domain::open(this->domain(), options);
                           const Segment segment = domain.map("a.db", raw_pages(kPages));
                           for (std::uint64_t round = 1; round <= 3; ++round) {
                             fill(domain, segment, round);
                             EXPECT_EQ(domain.archive(archive).empty(), round == 1) << round;
                           }
                           die_unless_failed();
                         })
                .signal,
            SIGKILL);
  damage_newest_slot();
  expect_round(3);
}

}  // namespace
}  // namespace tmh::test
