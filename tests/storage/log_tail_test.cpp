// tests/storage/log_tail_test.cpp -- the redo log read beside those that write it.
// Invariants: (1) what a tail gives is every durable transaction from its start on, in order, and
//             none that is not durable; all that was acknowledged is there at once. (2) recycled
//             files are a gap that is told; archived ones are read. (3) a recovery, a close and a
//             reopening are followed; what a point in time undoes is told. (4) a start is an LSN, a
//             stamp, or where another tail ended. (5) whatever tmh.log.state holds, no record
//             behind what is durable is given. (6) a tail that waits is woken by the writer, and
//             leaves nothing behind.
#include "storage/log/log_tail.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <string>

#include <tmh/tmh.hpp>

#include "platform/failure.h"
#include "platform/process.h"
#include "storage/log/log_state.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/log_follower.h"
#include "tests/support/log_rig.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using namespace storage;
using Start = TailStart::Kind;
using Kind = TailEntry::Kind;
namespace fs = std::filesystem;

class LogTailTest : public testing::Test {
 protected:
  // `count` more transactions in a child, which ends as it is told.
  void count(std::uint64_t count, Ending ending, DomainOptions options = durable_options(),
             std::uint64_t words = 0) const {
    in_domain(folder_.path(), options, ending, [&](const Domain &domain, const Segment &segment) {
      for (std::uint64_t i = 0; i < count; ++i)
        count_up(domain, segment, Durability::kStrict, words);
    });
  }
  void patch_state(std::size_t at, const std::string &bytes) const {
    patch_file(folder_ / "tmh.log.state", at, bytes);
  }

  MemoryFolder folder_;
};

TEST_F(LogTailTest, GivesWhatIsAcknowledgedAtOnce) {
  for (const Durability durability : {Durability::kStrict, Durability::kBuffered}) {
    const MemoryFolder folder;
    const Domain domain = Domain::open(folder.path(), durable_options());
    const Segment segment = domain.map("a.db", raw_pages(64));
    LogFollower follower(folder.path());
    for (std::uint64_t i = 1; i <= 50; ++i) {
      // Now and then more than a record holds.
      ASSERT_EQ(count_up(domain, segment, durability, i % 16 == 0 ? 60 * 512 : 0), i);
      if (durability == Durability::kBuffered && i % 10 == 0) domain.flush();
      follower.take_all();
      if (durability == Durability::kStrict || i % 10 == 0) {
        EXPECT_EQ(follower.last(), i);
      }
    }
    EXPECT_EQ(follower.first(), 1u);
    EXPECT_EQ(follower.gaps().size() + follower.undone().size(), 0u);
  }
}

TEST_F(LogTailTest, FollowsAProcessThatCommits) {
  count(0, Ending::kClosed);
  const Shared<std::atomic<std::uint64_t>> acknowledged;
  Children children;
  children.spawn("writer", [&] {
    const Domain domain = Domain::open(folder_.path(), durable_options());
    const Segment segment = domain.map("a.db", raw_pages(64));
    for (int i = 0; i < 400; ++i)
      acknowledged->store(count_up(domain, segment, Durability::kStrict, i % 100 == 0 ? 512 : 0));
  });
  LogFollower follower(folder_.path());
  while (follower.last() < 400 && children.running(0)) {
    const std::uint64_t before = acknowledged->load();
    if (follower.take_all() == 0) follower.tail().wait(1'000'000'000);
    EXPECT_GE(follower.last(), before);
  }
  children.expect_success();
  follower.take_all();
  EXPECT_EQ(follower.first(), 1u);
  EXPECT_EQ(follower.last(), 400u);
}

TEST_F(LogTailTest, GoesOnWhenTheDomainIsClosedAndOpenedAgain) {
  count(3, Ending::kClosed);
  LogFollower follower(folder_.path(), {Start::kLsn, 0});
  follower.take_all();
  EXPECT_EQ(follower.last(), 3u);
  for (std::uint64_t life = 1; life <= 5; ++life) {
    count(3, life % 2 == 0 ? Ending::kClosed : Ending::kKilled);
    if (life % 3 != 0) follower.take_all();
    if (life % 3 != 0) {
      EXPECT_EQ(follower.last(), 3 + 3 * life);
    }
  }
  in_domain(folder_.path(), durable_options(), Ending::kPowerCut,
            [](const auto &, const auto &) {});
  follower.take_all();
  EXPECT_EQ(follower.last(), 18u);
  EXPECT_EQ(follower.openings(), 7u);
  EXPECT_EQ(follower.gaps().size() + follower.undone().size(), 0u);
}

TEST_F(LogTailTest, BuffersThatNoWriterWroteComeWithTheNextOpen) {
  DomainOptions buffered = durable_options(Durability::kBuffered);
  buffered.flush_interval_ms = 1'000'000;
  const auto live = [&](Ending ending, std::uint64_t more) {
    in_domain(folder_.path(), buffered, ending, [&](const Domain &d, const Segment &s) {
      count_up(d, s, Durability::kStrict);
      for (std::uint64_t i = 0; i < more; ++i) count_up(d, s, Durability::kBuffered);
    });
  };
  live(Ending::kKilled, 5);
  LogFollower follower(folder_.path());
  follower.take_all();
  EXPECT_EQ(follower.last(), 1u);
  live(Ending::kClosed, 0);
  follower.take_all();
  EXPECT_EQ(follower.last(), 7u);
}

TEST_F(LogTailTest, StartsAtAnLsnOrAStamp) {
  count(10, Ending::kClosed);
  count(10, Ending::kClosed);
  LogFollower all(folder_.path(), {Start::kLsn, 0});
  all.take_all();
  ASSERT_EQ(all.given().size(), 20u);
  for (const LogFollower::Given &one : all.given()) {
    for (const Lsn lsn : {one.lsn, one.lsn - 8, one.lsn - 1}) {
      LogFollower follower(folder_.path(), {Start::kLsn, lsn});
      follower.take_all();
      EXPECT_EQ(follower.first(), one.number) << lsn;
      EXPECT_EQ(follower.last(), 20u);
    }
    LogFollower behind(folder_.path(), {Start::kStamp, one.stamp});
    behind.take_all();
    EXPECT_EQ(behind.first(), one.number == 20 ? 0 : one.number + 1);
    LogFollower resumed(folder_.path(), {Start::kResume, one.end, one.generation});
    resumed.take_all();
    EXPECT_EQ(resumed.first(), one.number == 20 ? 0 : one.number + 1);
  }
  LogFollower at_end(folder_.path(), {Start::kLsn, all.tail().position()});
  at_end.take_all();
  count(1, Ending::kKilled);
  at_end.take_all();
  EXPECT_EQ(at_end.first(), 21u);
}

TEST_F(LogTailTest, AStartBehindTheEndIsRefused) {
  count(3, Ending::kClosed);
  for (const Ending ending : {Ending::kClosed, Ending::kKilled}) {
    count(1, ending);
    LogTail tail(folder_.path(), {}, log_identity(folder_.path()), {Start::kLsn, 1'000'000});
    TailEntry entry;
    EXPECT_EQ(tail.next(&entry), Errc::kBadArgument);
    EXPECT_NE(platform::failure_detail().find("behind the end"), std::string::npos);
  }
}

TEST_F(LogTailTest, RecycledFilesAreAGap) {
  Domain domain = Domain::open(folder_.path(), durable_options());
  Segment segment = domain.map("a.db", raw_pages(64));
  LogFollower follower(folder_.path());
  for (int i = 0; i < 3; ++i) count_up(domain, segment, Durability::kStrict);
  follower.take_all();
  ASSERT_EQ(follower.last(), 3u);
  std::uint64_t last = 0;
  for (int i = 0; i < 8; ++i) {
    for (int k = 0; k < 5; ++k) last = count_up(domain, segment, Durability::kStrict, 30'000);
    domain.checkpoint();
  }
  // Files that are recycled while a tail reads would be another gap.
  segment = {};
  domain.close();
  follower.take_all();
  EXPECT_EQ(follower.last(), last);
  ASSERT_GT(follower.given().size(), 3u);
  ASSERT_EQ(follower.gaps().size(), 1u);
  EXPECT_EQ(follower.gaps()[0].lsn, follower.given()[2].end);
  EXPECT_LE(follower.gaps()[0].end, follower.given()[3].lsn);
  EXPECT_FALSE(follower.gaps()[0].may_undo);
  // From an LSN that is not there any more; 0 asks for what there is.
  LogFollower late(folder_.path(), {Start::kLsn, 5000});
  late.take_all();
  EXPECT_EQ(late.gaps().size(), 1u);
  EXPECT_EQ(late.last(), last);
  LogFollower oldest(folder_.path(), {Start::kLsn, 0});
  oldest.take_all();
  EXPECT_EQ(oldest.gaps().size(), 0u);
  EXPECT_LE(oldest.first(), late.first());
  LogFollower stamp(folder_.path(), {Start::kStamp, 1});
  stamp.take_all();
  EXPECT_EQ(stamp.gaps().size(), 1u);
}

TEST_F(LogTailTest, ArchivedFilesAreRead) {
  DomainOptions kept = durable_options();
  kept.keep_log = true;
  const MemoryFolder archive;
  const Domain domain = Domain::open(folder_.path(), kept);
  const Segment segment = domain.map("a.db", raw_pages(64));
  LogFollower follower(folder_.path(), {}, archive.path()),
      slow(folder_.path(), {}, archive.path()), without(folder_.path());
  count_up(domain, segment, Durability::kStrict);
  for (LogFollower *one : {&follower, &slow, &without}) one->take_all();
  std::uint64_t last = 0;
  for (int i = 0; i < 6; ++i) {
    for (int k = 0; k < 5; ++k) last = count_up(domain, segment, Durability::kStrict, 30'000);
    if (i % 2 == 0) follower.take_all();
    (void)domain.archive(archive.path());
  }
  for (LogFollower *one : {&follower, &slow, &without}) {
    one->take_all();
    EXPECT_EQ(one->last(), last);
    EXPECT_EQ(one->gaps().size(), one == &without ? 1u : 0u);
  }
}

TEST_F(LogTailTest, AMissingFileIsNoGap) {
  const Domain domain = Domain::open(folder_.path(), durable_options());
  const Segment segment = domain.map("a.db", raw_pages(64));
  LogFollower follower(folder_.path());
  count_up(domain, segment, Durability::kStrict);
  follower.take_all();
  for (int k = 0; k < 12; ++k) count_up(domain, segment, Durability::kStrict, 30'000);
  const std::string lost = log_file_path(folder_.path(), 1), aside = folder_ / "aside";
  fs::rename(lost, aside);
  TailEntry entry;
  Errc error = Errc::kOk;
  for (int i = 0; i < 20 && error == Errc::kOk; ++i) error = follower.tail().next(&entry);
  EXPECT_EQ(error, Errc::kLogMissing) << platform::failure_detail();
  fs::rename(aside, lost);
  EXPECT_EQ(follower.tail().next(&entry), Errc::kOk) << "it looks again";
  EXPECT_EQ(entry.kind, Kind::kTransaction);
}

// The folder as it was is put back, and recovered up to a moment of the log that went on from
// there.
TEST_F(LogTailTest, APointInTimeUndoesWhatWasGiven) {
  DomainOptions kept = durable_options();
  kept.keep_log = true;
  const TempFolder parent;
  const std::string shop = parent / "shop", copy = parent / "copy", logs = parent / "logs";
  const auto run = [&](std::uint64_t count, Ending ending) {
    in_domain(shop, kept, ending, [&](const Domain &domain, const Segment &segment) {
      for (std::uint64_t i = 0; i < count; ++i) count_up(domain, segment, Durability::kStrict, 100);
    });
  };
  run(5, Ending::kClosed);
  fs::copy(shop, copy, fs::copy_options::recursive);
  LogFollower follower(shop, {Start::kLsn, 0}), late(shop, {Start::kLsn, 0});
  run(40, Ending::kClosed);
  follower.take_all();
  late.take_all();
  ASSERT_EQ(follower.last(), 45u);
  const LogFollower::Given point = follower.given()[24];  // up to number 25
  const LogFollower::Given last = follower.given().back();
  fs::rename(shop, logs);
  fs::copy(copy, shop, fs::copy_options::recursive);
  RecoverOptions how;
  how.until_lsn = point.end;
  how.log_folder = logs;
  expect_child("recovering", [&] { (void)recover(shop, how); });
  follower.take_all();
  EXPECT_EQ(follower.last(), 25u);
  EXPECT_EQ(follower.undone().size(), 1u);
  run(3, Ending::kKilled);
  follower.take_all();
  EXPECT_EQ(follower.last(), 28u);
  // After more lives, too, and for one that comes back and says where it was.
  run(60, Ending::kClosed);
  run(2, Ending::kKilled);
  LogFollower resumed(shop, {Start::kResume, last.end, last.generation});
  for (LogFollower *one : {&follower, &late, &resumed}) {
    one->take_all();
    EXPECT_EQ(one->last(), 90u);
    ASSERT_EQ(one->undone().size(), 1u);
    EXPECT_GE(one->undone()[0].lsn, point.end);
    EXPECT_LT(one->undone()[0].lsn, follower.given()[25].lsn);
    EXPECT_EQ(one->gaps().size(), 0u);
  }
}

TEST_F(LogTailTest, ReadsWhatRecoveryWouldReadWhereNoParticipantIs) {
  LogRig rig(folder_.path());
  ASSERT_EQ(rig.write_small_log(), Errc::kOk);
  write_file(folder_ / "tmh.control",
             {reinterpret_cast<const char *>(&rig.control()), sizeof(ControlFile)});
  LogTail tail(folder_.path(), {}, rig.identity(), {Start::kLsn, 0});
  std::size_t transactions = 0;
  for (TailEntry entry;;) {
    ASSERT_EQ(tail.next(&entry), Errc::kOk) << platform::failure_detail();
    if (entry.kind == Kind::kNothing) break;
    if (entry.kind != Kind::kTransaction) continue;
    const LogRig::Transaction &wanted = rig.transactions().at(transactions++);
    EXPECT_EQ(entry.lsn, wanted.begin);
    EXPECT_EQ(entry.end, wanted.end);
    EXPECT_EQ(entry.stamp, wanted.stamp);
    EXPECT_EQ(entry.time_ns, wanted.time_ns);
  }
  EXPECT_EQ(transactions, rig.transactions().size());
}

// Records lie behind the durable point: written, and not said to be.
class HostileStateTest : public LogTailTest {
 protected:
  void SetUp() override {
    count(20, Ending::kClosed);
    const ChildEnd end = run_in_child("writer", [&] {
      setenv("TMH_CRASH_AT", "log-written:20", 1);
      const Domain domain = Domain::open(folder_.path(), durable_options());
      const Segment segment = domain.map("a.db", raw_pages(64));
      for (int i = 0; i < 30; ++i) {
        written_->store(written_->load() + 1);
        count_up(domain, segment, Durability::kStrict);
      }
    });
    ASSERT_EQ(end.signal, SIGKILL);
    state_ = read_file(folder_ / "tmh.log.state");
    std::memcpy(&durable_, state_.data() + offsetof(LogState, durable_lsn), sizeof durable_);
  }
  // Whatever it says, it ends.
  void expect_nothing_else(const std::string &what) const {
    LogTail tail(folder_.path(), {}, log_identity(folder_.path()), {Start::kLsn, 0});
    Lsn end = 0;
    for (int i = 0; i < 200; ++i) {
      TailEntry entry;
      if (tail.next(&entry) != Errc::kOk || entry.kind == Kind::kNothing) break;
      if (entry.kind == Kind::kTransaction) {
        EXPECT_GE(entry.lsn, end) << what;
        end = entry.end;
      }
    }
    EXPECT_LE(end, durable_) << what;
    tail.wait(1);
  }
  const Shared<std::atomic<std::uint64_t>> written_;
  std::string state_;
  Lsn durable_ = 0;
};

TEST_F(HostileStateTest, NoByteOfSharedMemoryLeadsTooFar) {
  {
    LogFollower follower(folder_.path(), {Start::kLsn, 0});
    follower.take_all();
    EXPECT_EQ(follower.last(), 20 + written_->load() - 1) << "the last one is not durable";
  }
  for (std::size_t at = 0; at < sizeof(LogState); ++at) {
    for (const int flipped : {1, 0x80, 0xff}) {
      patch_state(at, std::string(1, static_cast<char>(state_[at] ^ flipped)));
      expect_nothing_else("byte " + std::to_string(at) + " by " + std::to_string(flipped));
    }
    patch_state(at, state_.substr(at, 1));
  }
}

TEST_F(HostileStateTest, NorDoesAFileThatIsCutOrGone) {
  LogTail waiting(folder_.path(), {}, log_identity(folder_.path()), {});
  TailEntry entry;
  ASSERT_EQ(waiting.next(&entry), Errc::kOk);
  for (const std::size_t bytes : {std::size_t{4096}, sizeof(LogState), sizeof(LogState) - 1,
                                  std::size_t{100}, std::size_t{8}, std::size_t{0}}) {
    fs::resize_file(folder_ / "tmh.log.state", bytes);
    expect_nothing_else("cut to " + std::to_string(bytes));
    waiting.wait(1'000);  // on what was mapped when the file was longer
    (void)waiting.next(&entry);
  }
  fs::remove(folder_ / "tmh.log.state");
  expect_nothing_else("no file");
  write_file(folder_ / "tmh.log.state", std::string(state_.size(), '\xff'));
  expect_nothing_else("all ones");
}

TEST_F(LogTailTest, IsWokenByTheWriterAndLeavesNothingBehind) {
  const Domain domain = Domain::open(folder_.path(), durable_options());
  const Segment segment = domain.map("a.db", raw_pages(64));
  count_up(domain, segment, Durability::kStrict);
  LogFollower follower(folder_.path());
  follower.take_all();
  const auto word_at = [&](std::size_t at) {
    const std::string bytes = read_file(folder_ / "tmh.log.state", sizeof(LogState));
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return word;
  };
  const std::string before = read_file(folder_ / "tmh.log.state");
  follower.tail().wait(1'000'000);
  EXPECT_TRUE(read_file(folder_ / "tmh.log.state") == before);
  Children children;
  const Shared<std::atomic<bool>> ready;
  children.spawn("follower", [&] {
    LogFollower woken(folder_.path());
    woken.take_all();
    ready->store(true);
    while (woken.last() < 2)
      if (woken.take_all() == 0) woken.tail().wait(LogBound::kLookNs);
  });
  ASSERT_TRUE(poll_until([&] { return ready->load(); }));
  EXPECT_TRUE(poll_until([&] { return word_at(offsetof(LogState, sleepers)) == 1; }));
  count_up(domain, segment, Durability::kStrict);
  children.expect_success();
  EXPECT_EQ(word_at(offsetof(LogState, sleepers)), 0u);
}

}  // namespace
}  // namespace tmh::test
