// tests/storage/recovery_test.cpp -- what recovery leaves in data files, whatever log a crash left.
// Invariants: (1) exactly the effect of a prefix of the transactions, with everything that was
//             durable. (2) recovery that was cut, at any write and any number of times, and run
//             again gives the same; to another end (an earlier moment, or without the archive's
//             files) it is refused. (3) recovering from an older backup through all generations
//             gives what the live folder has; so does a point in time. (4) records of earlier
//             lives, in recycled files and behind torn tails, count for nothing. (5) a full disk, a
//             short data file, an unknown page are errors, and change nothing.
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "platform/failure.h"
#include "tests/support/children.h"
#include "tests/support/log_rig.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using namespace storage;
namespace fs = std::filesystem;
using Random = std::mt19937_64;

std::vector<LogRig::Write> any_writes(Random &random, std::size_t count_max) {
  std::vector<LogRig::Write> writes(random() % (count_max + 1));
  for (LogRig::Write &write : writes)
    write = {static_cast<std::uint32_t>(random() % LogRig::kSegments), random() % LogRig::kPages,
             static_cast<std::uint32_t>(random() % 512), random() % 4 == 0 ? 0 : random()};
  return writes;
}

// Mostly small; some of several parts; some that fill files.
void commit_any(LogRig &rig, Random &random) {
  const auto kind = random() % 20;
  if (kind == 0)
    rig.commit(any_writes(random, 8000));
  else if (kind < 4)
    rig.commit(any_writes(random, 60), 64 + random() % 500);
  else
    rig.commit(any_writes(random, 12));
}

void expect_recovery(LogRig &rig, RecoveryReport *report, const RecoveryOptions &options = {}) {
  const Errc error = rig.recover(report, options);
  ASSERT_EQ(error, Errc::kOk) << platform::failure_detail();
}

// Power cut: each unsynced sector is old or new.
void crash(LogRig &rig, Random &random) {
  const auto kept_percent = random() % 101;
  rig.lose_unsynced([&] { return random() % 100 < kept_percent; });
}

// One life of a domain: transactions, syncs, a crash, recovery; the model afterwards has exactly
// what was recovered.
void live_and_crash(LogRig &rig, Random &random) {
  for (auto steps = random() % 30; steps > 0; --steps) {
    commit_any(rig, random);
    if (random() % 4 == 0) rig.sync();
  }
  if (random() % 4 == 0) rig.append_orphan(any_writes(random, 5));
  const std::size_t durable = rig.durable_count();
  crash(rig, random);
  RecoveryReport report;
  RecoveryOptions options;
  options.threads = static_cast<unsigned>(1 + random() % 3);
  const Errc error = rig.recover(&report, options);
  if (error != Errc::kOk) RC_LOG(platform::failure_detail());
  RC_ASSERT(error == Errc::kOk);
  const std::size_t kept = rig.count_before(report.end_lsn);
  RC_ASSERT(kept >= durable);
  RC_ASSERT(rig.home() == rig.expected(kept));
  const std::uint64_t last_stamp = kept == 0 ? 1 : rig.transactions()[kept - 1].stamp;
  RC_ASSERT(report.last_stamp == last_stamp);
  rig.keep(kept);
}

TEST(RecoveryTest, EveryCrashLeavesAPrefixWithEverythingDurable) {
  static_cast<void>(seed());
  const bool holds = rc::check("prefix", [](std::uint64_t own_seed) {
    Random random(own_seed);
    const MemoryFolder folder;
    LogRig rig(folder.path());
    const LogRig::Files base = rig.snapshot();
    for (int life = 0; life < 5; ++life) {
      live_and_crash(rig, random);
      if (random() % 3 != 0) continue;
      const bool clean = random() % 2 == 0;
      rig.checkpoint(clean);
      RecoveryReport report;
      if (clean) RC_ASSERT(rig.recover(&report) == Errc::kOk && report.was_clean);
    }
    // All of it once more from the first backup, through all generations.
    LogRig::Files old = base;
    for (const auto &[name, bytes] : rig.snapshot()) {
      if (name.starts_with("tmh.log.")) old[name] = bytes;
    }
    rig.restore(old);
    RecoveryReport report;
    RC_ASSERT(rig.recover_only(&report) == Errc::kOk);
    RC_ASSERT(rig.home() == rig.expected());
    RC_ASSERT(report.transactions == rig.transactions().size());
  });
  EXPECT_TRUE(holds);
}

// One slot of the checkpoint file is bad at every recovery; the log files are recycled as soon as
// both slots allow it.
TEST(RecoveryTest, RecycledFilesAndABadCheckpointSlotLoseNothing) {
  static_cast<void>(seed());
  const bool holds = rc::check("recycled", [](std::uint64_t own_seed) {
    Random random(own_seed);
    const MemoryFolder folder;
    LogRig rig(folder.path());
    for (int life = 0; life < 6; ++life) {
      for (auto steps = random() % 12; steps > 0; --steps) {
        random() % 3 == 0 ? static_cast<void>(rig.commit(any_writes(random, 20'000)))
                          : commit_any(rig, random);
        if (random() % 3 == 0) rig.checkpoint();
        while (rig.recycle()) {
        }
        if (random() % 3 == 0) rig.sync();
      }
      const std::size_t durable = rig.durable_count();
      crash(rig, random);
      if (random() % 2 == 0) {
        const auto slot = random() % 2;  // never both: a patch of two bytes stays in its slot
        patch_file(checkpoint_path(folder.path()),
                   slot * sizeof(CheckpointV1) + random() % (sizeof(CheckpointV1) - 1), "ab");
      }
      RecoveryReport report;
      const Errc error = rig.recover(&report);
      if (error != Errc::kOk) RC_LOG(platform::failure_detail());
      RC_ASSERT(error == Errc::kOk);
      const std::size_t kept = rig.count_before(report.end_lsn);
      RC_ASSERT(kept >= durable);
      RC_ASSERT(rig.home() == rig.expected(kept));
      rig.keep(kept);
    }
  });
  EXPECT_TRUE(holds);
}

TEST(RecoveryTest, AnyPointInTimeIsRecoveredAndLivesOn) {
  static_cast<void>(seed());
  const bool holds = rc::check("point in time", [](std::uint64_t own_seed) {
    Random random(own_seed);
    const MemoryFolder folder;
    const MemoryFolder archive;
    LogRig rig(folder.path());
    const LogRig::Files base = rig.snapshot();
    rig.commit({{0, 0, 0, 1}});
    for (int round = 0; round < 4; ++round) {
      live_and_crash(rig, random);
      if (rig.transactions().empty()) rig.commit({{0, 0, 0, 1}});
      const LogRig::Files now = rig.snapshot();
      const std::size_t count = random() % (rig.transactions().size() + 1);
      // Log files lie in the domain's folder or in the archive; everything else is the backup's.
      LogRig::Files files;
      for (const auto &[name, bytes] : base) {
        if (!name.starts_with("tmh.log.")) files[name] = bytes;
      }
      for (const auto &entry : fs::directory_iterator(archive.path())) fs::remove(entry.path());
      for (const auto &[name, bytes] : now) {
        if (!name.starts_with("tmh.log.")) continue;
        if (random() % 2 == 0)
          files[name] = bytes;
        else
          write_file(archive / name, bytes);
      }
      rig.restore(files);
      RecoveryOptions options;
      options.log_folder = archive.path();
      if (random() % 2 == 0)
        options.until_lsn =
            count == 0 ? kFirstLsn : rig.transactions()[count - 1].end + 8 * (random() % 2);
      else
        options.until_time_ns =
            count == 0 ? 0 : rig.transactions()[count - 1].time_ns + random() % 10;
      RecoveryReport report;
      const Errc error = rig.recover(&report, options);
      if (error != Errc::kOk) RC_LOG(platform::failure_detail());
      RC_ASSERT(error == Errc::kOk);
      RC_ASSERT(rig.home() == rig.expected(count));
      RC_ASSERT(report.transactions == count);
      rig.keep(count);
      // The domain goes on with all its files.
      for (const auto &entry : fs::directory_iterator(archive.path())) {
        if (!fs::exists(folder / entry.path().filename()))
          fs::copy(entry.path(), folder / entry.path().filename());
      }
    }
    // Through all forks from the first backup.
    LogRig::Files old = base;
    for (const auto &[name, bytes] : rig.snapshot()) {
      if (name.starts_with("tmh.log.")) old[name] = bytes;
    }
    rig.restore(old);
    RecoveryReport report;
    RC_ASSERT(rig.recover_only(&report) == Errc::kOk);
    RC_ASSERT(rig.home() == rig.expected());
  });
  EXPECT_TRUE(holds);
}

TEST(RecoveryTest, CleanDomainIsOpenedWithoutReplay) {
  const MemoryFolder folder;
  LogRig rig(folder.path());
  rig.commit({{1, 2, 3, 4}});
  rig.checkpoint(true);
  RecoveryReport report;
  expect_recovery(rig, &report);
  EXPECT_TRUE(report.was_clean);
  EXPECT_EQ(report.transactions, 0U);
  EXPECT_EQ(report.generation, 2U);
  EXPECT_EQ(report.open.previous_end, report.end_lsn);
  EXPECT_EQ(rig.home(), rig.expected());
  expect_recovery(rig, &report);
  EXPECT_FALSE(report.was_clean) << "opened and not closed";
  EXPECT_EQ(report.records, 1U) << "the opening record";
}

// A checkpoint that says clean and is older than the log: the newer slot was lost. Trusting it
// would lose transactions.
TEST(RecoveryTest, OlderCleanCheckpointIsNotTrusted) {
  const MemoryFolder folder;
  LogRig rig(folder.path());
  rig.commit({{0, 0, 0, 1}});
  rig.checkpoint(true);
  RecoveryReport report;
  expect_recovery(rig, &report);
  rig.commit({{0, 0, 1, 2}});
  CheckpointFile file;
  ASSERT_EQ(file.open(folder.path(), rig.control().header.domain_id), Errc::kOk);
  patch_file(checkpoint_path(folder.path()), (file.current().sequence % 2) * 4096 + 50, "xx");
  expect_recovery(rig, &report);
  EXPECT_FALSE(report.was_clean);
  EXPECT_EQ(report.transactions, 1U);
  EXPECT_EQ(rig.home(), rig.expected());
}

TEST(RecoveryTest, RecordBehindACleanEndIsDamage) {
  const MemoryFolder folder;
  LogRig rig(folder.path());
  rig.commit({{0, 0, 0, 1}});
  rig.checkpoint(true);
  rig.commit({{0, 0, 1, 2}});  // without opening the domain first
  RecoveryReport report;
  EXPECT_EQ(rig.recover(&report), Errc::kLogDamaged);
}

// A folder that was copied when it was closed, and the log of what came later: from the archive, or
// into the folder.
TEST(RecoveryTest, DamageBehindACopyOfAClosedDomainIsDamage) {
  for (const bool is_archived : {true, false}) {
    const MemoryFolder folder;
    const MemoryFolder archive;
    LogRig rig(folder.path());
    rig.commit({{0, 0, 0, 1}});
    rig.checkpoint(true);
    LogRig::Files copy = rig.snapshot();
    RecoveryReport report;
    expect_recovery(rig, &report);
    for (std::uint32_t i = 0; i < 6; ++i) rig.commit({{0, 0, i, i + 2}});
    rig.sync();
    rig.commit({{0, 0, 9, 9}});
    patch_file(rig.log_path(0), rig.transactions()[3].begin + 70, "xx");
    const std::string log = read_file(rig.log_path(0));
    RecoveryOptions options;
    if (is_archived) {
      write_file(archive / log_file_name(0), log);
      options.log_folder = archive.path();
    } else {
      copy[log_file_name(0)] = log;
    }
    rig.restore(copy);
    EXPECT_EQ(rig.recover_only(&report, options), Errc::kLogDamaged);
    EXPECT_NE(platform::failure_detail().find(std::to_string(rig.transactions()[3].begin)),
              std::string::npos);
    EXPECT_EQ(rig.home(), rig.expected(1)) << "nothing is stored";
  }
}

TEST(RecoveryTest, AGapBehindACopyOfAClosedDomainIsDamage) {
  const MemoryFolder folder;
  const MemoryFolder archive;
  LogRig rig(folder.path());
  rig.commit({{0, 0, 0, 1}});
  rig.checkpoint(true);
  const LogRig::Files copy = rig.snapshot();
  RecoveryReport report;
  expect_recovery(rig, &report);
  Random random(1);
  while (rig.end() < 3 * LogRig::kFileBytes / 2) rig.commit(any_writes(random, 8000));
  rig.sync();
  rig.commit({{0, 0, 9, 9}});
  const LogRig::Files later = rig.snapshot();
  LogRig::Files mixed = copy;  // the later log, but for what the copy has itself
  mixed[log_file_name(1)] = later.at(log_file_name(1));
  rig.restore(mixed);
  EXPECT_EQ(rig.recover_only(&report), Errc::kLogDamaged);
  rig.restore(copy);
  write_file(archive / log_file_name(1), later.at(log_file_name(1)));
  RecoveryOptions options;
  options.log_folder = archive.path();
  EXPECT_EQ(rig.recover_only(&report, options), Errc::kLogDamaged);
  write_file(archive / log_file_name(0), later.at(log_file_name(0)));
  ASSERT_EQ(rig.recover_only(&report, options), Errc::kOk) << platform::failure_detail();
  EXPECT_EQ(rig.home(), rig.expected());
}

// --- recovery that is cut
// -------------------------------------------------------------------------------------------------

std::atomic<int> g_operations_left;
bool g_dies = false;

int cut_hook(const platform::DiskEvent &event) {
  if (g_operations_left.fetch_sub(1) > 0) return 0;
  if (g_dies) _exit(99);
  return event.op == platform::DiskOp::kHomeWrite ? 0 : EIO;
}

class CutRecoveryTest : public testing::Test {
 protected:
  void SetUp() override {
    Random random(seed());
    for (int i = 0; i < 12; ++i) commit_any(rig_, random);
    rig_.sync();
    rig_.commit(any_writes(random, 5));
    patch_file(rig_.log_path(rig_.end() / LogRig::kFileBytes),
               (rig_.end() - 8) % LogRig::kFileBytes, "torn");
    rig_.keep(12);
    files_ = rig_.snapshot();
  }
  void TearDown() override { platform::set_disk_hook(nullptr); }

  MemoryFolder folder_;
  LogRig rig_{folder_.path()};
  LogRig::Files files_;
};

TEST_F(CutRecoveryTest, EveryOperationThatFailsIsReportedAndMayBeRepeated) {
  platform::set_disk_hook(cut_hook);
  for (int at = 0;; ++at) {
    rig_.restore(files_);
    g_operations_left = at;
    RecoveryReport report;
    const Errc error = rig_.recover_only(&report);
    if (error == Errc::kOk && g_operations_left.load() >= 0) break;
    ASSERT_TRUE(error == Errc::kOk || error == Errc::kIo) << at;
    g_operations_left = 1 << 30;
    ASSERT_EQ(rig_.recover_only(&report), Errc::kOk)
        << "cut at operation " << at << ": " << platform::failure_detail();
    ASSERT_EQ(rig_.home(), rig_.expected()) << "cut at operation " << at;
    ASSERT_LT(at, 1 << 20);
  }
}

TEST_F(CutRecoveryTest, DeathAtAnyStoreAndOperationIsHarmless) {
  g_operations_left = 1 << 30;
  platform::set_disk_hook(cut_hook);
  RecoveryReport report;
  ASSERT_EQ(rig_.recover_only(&report), Errc::kOk);
  const int operations = (1 << 30) - g_operations_left.load();
  ASSERT_GT(operations, 20);
  platform::set_disk_hook(nullptr);
  Random random(seed());
  const auto die_at = [&](int at, bool may_end) {
    const ChildEnd end = run_in_child("recovery", [&] {
      g_dies = true;
      g_operations_left = at;
      platform::set_disk_hook(cut_hook);
      RecoveryReport ignored;
      static_cast<void>(rig_.recover_only(&ignored));
    });
    EXPECT_TRUE(end.exit_code == 99 || (may_end && end.succeeded())) << "operation " << at;
  };
  for (int trial = 0; trial < 60; ++trial) {
    rig_.restore(files_);
    // The last ten each (sync, checkpoint), a sample of the others; sometimes the second attempt is
    // cut as well.
    die_at(trial < 10 ? operations - 1 - trial
                      : static_cast<int>(random() % static_cast<unsigned>(operations)),
           false);
    if (trial % 3 == 0 && trial >= 10) die_at(static_cast<int>(random() % 20), true);
    ASSERT_EQ(rig_.recover_only(&report), Errc::kOk) << platform::failure_detail();
    ASSERT_EQ(rig_.home(), rig_.expected()) << "trial " << trial << " of seed " << seed();
  }
}

// --- errors
// -------------------------------------------------------------------------------------------------

TEST(RecoveryTest, PageThatDoesNotExistIsDamageAndNothingIsStored) {
  for (const LogRig::Write wrong :
       {LogRig::Write{0, LogRig::kPages, 0, 1}, LogRig::Write{2, 0, 0, 1},
        LogRig::Write{255, 0, 0, 1}, LogRig::Write{1000, 0, 0, 1},
        LogRig::Write{1, (1ull << 40) - 1, 0, 1}}) {
    const MemoryFolder folder;
    LogRig rig(folder.path());
    rig.commit({{0, 0, 0, 1}});
    rig.commit({wrong});
    RecoveryReport report;
    EXPECT_EQ(rig.recover(&report), Errc::kLogDamaged);
    rig.keep(0);
    EXPECT_EQ(rig.home(), rig.expected());
  }
}

TEST(RecoveryTest, ShortOrMissingDataFileIsAnError) {
  const MemoryFolder folder;
  LogRig rig(folder.path());
  rig.commit({{1, 0, 0, 1}});
  RecoveryReport report;
  const std::string file = folder / "data.1";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_EQ(rig.recover(&report), Errc::kFileShrunk);
  fs::remove(file);
  EXPECT_EQ(rig.recover(&report), Errc::kIo);
  write_file(folder / "data.0", "");  // not named by the log: of no interest
  write_file(file, std::string((3 + LogRig::kPages) * kPageBytes, '\0'));
  EXPECT_EQ(rig.recover(&report), Errc::kOk) << platform::failure_detail();
}

TEST(RecoveryTest, PointBeforeTheCheckpointIsABadArgument) {
  const MemoryFolder folder;
  LogRig rig(folder.path());
  rig.commit({{1, 0, 0, 1}});
  rig.checkpoint();
  RecoveryOptions options;
  options.until_lsn = kFirstLsn;
  RecoveryReport report;
  EXPECT_EQ(rig.recover(&report, options), Errc::kBadArgument);
}

// Damage behind the point in time that is asked for does not matter; in front of it, it does.
TEST(RecoveryTest, PointInTimeBeforeTheDamageIsRecovered) {
  const MemoryFolder folder;
  LogRig rig(folder.path());
  for (std::uint32_t i = 0; i < 6; ++i) rig.commit({{0, 0, i, i + 1}});
  rig.sync();
  rig.commit({{0, 0, 9, 9}});
  patch_file(rig.log_path(0), rig.transactions()[3].begin + 70, "xx");
  RecoveryReport report;
  EXPECT_EQ(rig.recover(&report), Errc::kLogDamaged);
  RecoveryOptions options;
  options.until_lsn = rig.transactions()[4].end;
  EXPECT_EQ(rig.recover(&report, options), Errc::kLogDamaged);
  options.until_lsn = rig.transactions()[2].end;
  expect_recovery(rig, &report, options);
  EXPECT_EQ(rig.home(), rig.expected(3));
  rig.keep(3);
  expect_recovery(rig, &report);
  EXPECT_EQ(rig.home(), rig.expected(3)) << "and stays recovered";
}

// Commits three transactions. Returns the point in time behind the first.
RecoveryOptions behind_the_first_of_three(LogRig &rig) {
  for (std::uint32_t i = 0; i < 3; ++i) rig.commit({{0, 0, i, i + 1}});
  rig.sync();
  RecoveryOptions until;
  until.until_lsn = rig.transactions()[0].end;
  return until;
}

// Whoever died of it, or does not know whether it came to its end, asks for the same again.
TEST(RecoveryTest, RecoveryOfAPointInTimeMayBeCutAndRunAgain) {
  const MemoryFolder folder;
  LogRig rig(folder.path());
  const RecoveryOptions until = behind_the_first_of_three(rig);
  RecoveryReport report;
  for (int times = 0; times < 3; ++times) {
    EXPECT_EQ(rig.recover_only(&report, until), Errc::kOk)
        << times << ": " << platform::failure_detail();
    EXPECT_EQ(rig.home(), rig.expected(1));
  }
  RecoveryOptions earlier;
  earlier.until_lsn = rig.transactions()[0].begin;
  EXPECT_EQ(rig.recover_only(&report, earlier), Errc::kBadArgument);
  expect_recovery(rig, &report, until);
  rig.keep(1);
  for (int times = 0; times < 3; ++times) {
    expect_recovery(rig, &report, until);
    EXPECT_EQ(rig.home(), rig.expected()) << times;
  }
  EXPECT_EQ(rig.recover_only(&report, earlier), Errc::kBadArgument);
  rig.checkpoint(true);
  expect_recovery(rig, &report, until);
  EXPECT_EQ(rig.home(), rig.expected()) << "opened and closed meanwhile";
  rig.commit({{0, 0, 5, 5}});
  rig.sync();
  rig.checkpoint();
  EXPECT_EQ(rig.recover_only(&report, until), Errc::kBadArgument) << "a transaction came behind it";
}

// The data files may hold what comes behind an earlier moment, and behind the end of the log that
// the folder itself has.
class HalfRestoredTest : public testing::Test {
 protected:
  void SetUp() override {
    for (std::uint32_t i = 0; i < 3; ++i) {
      rig_.commit({{0, 2ull * i, 0, i + 1}, {0, (2ull * i) + 1, 0, i + 1}});
      if (i == 0) rig_.sync();
      if (i == 0) backup_ = rig_.snapshot();
    }
    rig_.sync();
  }
  void TearDown() override { platform::set_disk_hook(nullptr); }

  // Dies when it has stored half of the second transaction.
  void cut(const RecoveryOptions &options) {
    const ChildEnd end = run_in_child("recovery", [&] {
      g_stores_left = 2;
      platform::set_disk_hook([](const platform::DiskEvent &event) {
        if (event.op == platform::DiskOp::kHomeWrite && g_stores_left-- == 0) _exit(99);
        return 0;
      });
      RecoveryReport ignored;
      static_cast<void>(rig_.recover_only(&ignored, options));
    });
    EXPECT_EQ(end.exit_code, 99);
    EXPECT_EQ(rig_.prefix_of(rig_.home()), -1);
  }

  static inline std::atomic<int> g_stores_left;
  MemoryFolder folder_;
  LogRig rig_{folder_.path()};
  LogRig::Files backup_;
  RecoveryReport report_;
};

TEST_F(HalfRestoredTest, HasNoEarlierMoment) {
  RecoveryOptions until;
  until.threads = 1;
  until.until_lsn = rig_.transactions()[1].end;
  cut(until);
  RecoveryOptions earlier;
  earlier.until_lsn = rig_.transactions()[0].end;
  EXPECT_EQ(rig_.recover_only(&report_, earlier), Errc::kBadArgument);
  ASSERT_EQ(rig_.recover_only(&report_, until), Errc::kOk) << platform::failure_detail();
  EXPECT_EQ(rig_.home(), rig_.expected(2));
}

TEST_F(HalfRestoredTest, NeedsTheArchiveAgain) {
  const MemoryFolder archive;
  write_file(archive / log_file_name(0), rig_.snapshot().at(log_file_name(0)));
  rig_.restore(backup_);
  RecoveryOptions all;
  all.threads = 1;
  all.log_folder = archive.path();
  cut(all);
  EXPECT_EQ(rig_.recover_only(&report_), Errc::kLogDamaged);
  ASSERT_EQ(rig_.recover_only(&report_, all), Errc::kOk) << platform::failure_detail();
  EXPECT_EQ(rig_.home(), rig_.expected());
}

// What was undone is in the log all the same.
TEST(RecoveryTest, APointInTimeOutlivesTheLossOfASlot) {
  const MemoryFolder folder;
  LogRig rig(folder.path());
  const RecoveryOptions until = behind_the_first_of_three(rig);
  RecoveryReport report;
  ASSERT_EQ(rig.recover_only(&report, until), Errc::kOk) << platform::failure_detail();
  CheckpointFile file;
  ASSERT_EQ(file.open(folder.path(), rig.control().header.domain_id), Errc::kOk);
  patch_file(checkpoint_path(folder.path()),
             file.current().sequence % 2 * sizeof(CheckpointV1) + 50, "damage");
  expect_recovery(rig, &report);
  EXPECT_EQ(rig.home(), rig.expected(1));
}

// Made while the clock was ahead, and undone: it is in the log, but no reason to stop in front of
// what followed.
TEST(RecoveryTest, AnUndoneTransactionIsNoPointInTime) {
  const MemoryFolder folder;
  LogRig rig(folder.path());
  const LogRig::Files base = rig.snapshot();
  rig.commit({{0, 0, 0, 1}});
  const std::uint64_t noon = rig.transactions()[0].time_ns;
  rig.set_clock(noon + 1'000'000);
  rig.commit({{0, 0, 0, 2}});
  rig.sync();
  RecoveryOptions until;
  until.until_lsn = rig.transactions()[0].end;
  RecoveryReport report;
  expect_recovery(rig, &report, until);
  rig.keep(1);
  rig.set_clock(noon + 1000);
  rig.commit({{0, 0, 1, 3}});
  rig.sync();
  LogRig::Files old = base;
  for (const auto &[name, bytes] : rig.snapshot()) {
    if (name.starts_with("tmh.log.")) old[name] = bytes;
  }
  rig.restore(old);
  until = {};
  until.until_time_ns = noon + 10'000;
  expect_recovery(rig, &report, until);
  EXPECT_EQ(report.transactions, 2u);
  EXPECT_EQ(rig.home(), rig.expected());
}

// Both have it, and one holds the beginning of the other: a backup that is older than the archived
// file, or younger than the copy of it.
TEST(RecoveryTest, OfTwoCopiesOfALogFileTheFullerOneIsRead) {
  for (const bool is_backup_older : {true, false}) {
    const MemoryFolder folder;
    const MemoryFolder archive;
    LogRig rig(folder.path());
    rig.commit({{0, 0, 0, 1}});
    rig.sync();
    const LogRig::Files older = rig.snapshot();
    rig.commit({{0, 0, 0, 2}});
    rig.sync();
    rig.checkpoint();
    rig.commit({{0, 0, 1, 3}});
    rig.sync();
    const LogRig::Files younger = rig.snapshot();
    write_file(archive / log_file_name(0),
               (is_backup_older ? younger : older).at(log_file_name(0)));
    rig.restore(is_backup_older ? older : younger);
    RecoveryOptions options;
    options.log_folder = archive.path();
    RecoveryReport report;
    expect_recovery(rig, &report, options);
    EXPECT_EQ(rig.home(), rig.expected());
  }
}

// The name of a log file promises that it is whole, also when it was restored from an archive that
// was copied in part.
TEST(RecoveryTest, AShortLogFileFromTheArchiveIsMadeWhole) {
  const MemoryFolder folder;
  const MemoryFolder archive;
  LogRig rig(folder.path());
  rig.commit({{0, 0, 0, 1}});
  rig.sync();
  const std::string log = rig.log_path(0);
  write_file(archive / log_file_name(0), read_file(log).substr(0, 3 * 4096));
  fs::remove(log);
  RecoveryOptions options;
  options.log_folder = archive.path();
  RecoveryReport report;
  ASSERT_EQ(rig.recover_only(&report, options), Errc::kOk) << platform::failure_detail();
  EXPECT_EQ(report.transactions, 1u);
  EXPECT_EQ(verify_log_file(log, rig.identity(), 0), Errc::kOk) << platform::failure_detail();
}

TEST(RecoveryTest, FullDiskIsAnErrorAndNotASignal) {
  const MemoryFolder folder;
  if (mount("tmh-test", folder.path().c_str(), "tmpfs", 0, "size=2m") != 0)
    GTEST_SKIP() << "needs the right to mount a small tmpfs";
  struct Unmount {
    const std::string &path;
    ~Unmount() { umount2(path.c_str(), MNT_DETACH); }
  } unmount{folder.path()};
  LogRig rig(folder.path());  // 1 MiB of log
  const std::string data = folder / "data.0";
  fs::resize_file(data, 0);
  fs::resize_file(data, LogRig::kPages * kPageBytes);  // all holes
  for (std::uint64_t page = 0; page < LogRig::kPages; ++page) rig.commit({{0, page, 0, page + 1}});
  const std::string filler = folder / "filler";
  {
    platform::DiskFile file;
    ASSERT_EQ(file.open(filler, platform::DiskFile::Mode::kCreate), Errc::kOk);
    const std::string block(4096, 'f');
    std::uint64_t at = 0;
    while (file.write(at, block.data(), block.size()) == Errc::kOk) at += block.size();
  }
  RecoveryReport report;
  EXPECT_EQ(rig.recover(&report), Errc::kDiskFull);
  fs::remove(filler);
  expect_recovery(rig, &report);
  EXPECT_EQ(rig.home(), rig.expected());
}

TEST(RecoveryTest, ProgressIsToldOnlyWhenItTakesLong) {
  const MemoryFolder folder;
  LogRig rig(folder.path());
  rig.commit({{1, 0, 0, 1}});
  RecoveryOptions options;
  int calls = 0;
  options.progress = [&](std::uint64_t, std::uint64_t) { ++calls; };
  RecoveryReport report;
  expect_recovery(rig, &report, options);
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace tmh::test
