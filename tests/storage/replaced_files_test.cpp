// tests/storage/replaced_files_test.cpp -- files put in the place of those of a domain that was
// killed, as by a copy of a folder over it: another domain's, or its own as they were before. Files
// taken away from under a domain that is in use.
// Invariants: (1) what the dead had in shared memory, committed or half committed, is of their
//             domain, and of its last life: the other one holds what it held. While they live it is
//             refused. (2) a folder without its control file is no new one while somebody is in it.
//             (3) who is left from before leaves alone what others have made in the folder since.
//             (4) a copy of a folder that is in use is refused, too.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "platform/files.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/forker.h"
#include "tests/support/process_state.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

struct Way {
  const char *name;
  Durability durability;
  Levels levels;
};
constexpr Way kWays[] = {{"Pages", Durability::kNone, Levels::kPage},
                         {"Hybrid", Durability::kNone, Levels::kHybrid},
                         {"DurablePages", Durability::kBuffered, Levels::kPage},
                         {"DurableHybrid", Durability::kBuffered, Levels::kHybrid}};
constexpr std::uint64_t kPages = 64, kOfTheDead = 1, kOfTheOther = 7;

class ReplacedFilesTest : public testing::TestWithParam<Way> {
 protected:
  [[nodiscard]] static DomainOptions options() {
    DomainOptions options = durable_options(GetParam().durability);
    options.levels = GetParam().levels;
    options.line = LineChoice::kSoftware;
    options.flush_interval_ms = 60'000;
    return options;
  }
  // A query keeps what others commit from going home; the last commit stands between its commit
  // point and home.
  void make_killed(std::uint64_t before = 0, const std::string &backup = {}) const {
    const Shared<Turn> turn;
    Children children;
    const std::size_t reader = children.spawn("reader", [&] {
      const Domain domain = Domain::open(dead_.path(), options());
      const Segment segment = domain.map("a.db", raw_pages(kPages));
      domain.begin_query();
      EXPECT_EQ(word_of(segment, 0), before);
      turn->reach(1);
      for (;;) pause();
    });
    const std::size_t writer = children.spawn("writer", [&] {
      turn->await(1);
      const Domain domain = Domain::open(dead_.path(), options());
      const Segment segment = domain.map("a.db", raw_pages(kPages));
      if (!backup.empty()) domain.backup(backup);
      for (std::uint64_t page = 0; page < kPages / 2; ++page)
        atomically(domain, [&] { word_of(segment, page) = kOfTheDead; });
      if (GetParam().levels == Levels::kPage) raise(SIGKILL);
      const Site lines(domain, "lines", "never");
      observe::crash_at(static_cast<std::uint32_t>(observe::Step::kLineCommitPoint), 1);
      atomically(lines, [&](Fields) {
        reinterpret_cast<field<std::uint64_t> &>(word_of(segment, kPages - 1)) = kOfTheDead;
      });
    });
    ASSERT_EQ(children.wait(writer).signal, SIGKILL);
    children.bury(reader);
  }
  void make_other() const { make_closed(other_.path()); }
  static void make_closed(const std::string &folder) {
    in_domain(folder, options(), Ending::kClosed, [](const Domain &domain, const Segment &segment) {
      for (std::uint64_t page = 0; page < kPages; ++page)
        atomically(domain, [&] { word_of(segment, page) = kOfTheOther; });
    });
  }

  // A domain, killed, with the files in its folder that it had when it was closed before.
  void kill_and_put_back_a_copy() const {
    make_closed(dead_.path());
    copy_files(dead_.path(), other_.path());
    make_killed(kOfTheOther);
    if (!HasFatalFailure()) replace_files();
  }
  void replace_files() const { copy_files(other_.path(), dead_.path()); }
  static void copy_files(const std::string &from, const std::string &to) {
    for (const auto &file : std::filesystem::directory_iterator(from))
      std::filesystem::copy_file(file, to + "/" + file.path().filename().string(),
                                 std::filesystem::copy_options::overwrite_existing);
  }

  void expect_other() const {
    Domain domain = Domain::open(dead_.path(), options());
    EXPECT_EQ(domain.recovery().salvaged, 0U);
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    for (std::uint64_t page = 0; page < kPages; ++page)
      EXPECT_EQ(query(domain, [&] { return word_of(segment, page); }), kOfTheOther) << page;
    atomically(domain, [&] { word_of(segment, 0) = kOfTheOther; });
    domain.close();
  }

  // Behind the look at what the dead have left.
  void die_in_open() const {
    const ChildEnd end = run_in_child("dies", [&] {
      observe::crash_at(static_cast<std::uint32_t>(observe::Step::kAttachSlotTaken), 1);
      (void)Domain::open(dead_.path(), options());
    });
    EXPECT_EQ(end.signal, SIGKILL);
  }

  const MemoryFolder dead_, other_;
};

TEST_P(ReplacedFilesTest, NothingOfTheDeadGetsIntoAnotherDomain) {
  make_killed();
  make_other();
  if (HasFatalFailure()) return;
  replace_files();
  expect_other();
  expect_other();
}

TEST_P(ReplacedFilesTest, NorWhenTheFirstOneToOpenItDies) {
  make_killed();
  make_other();
  if (HasFatalFailure()) return;
  replace_files();
  die_in_open();
  expect_other();
}

TEST_P(ReplacedFilesTest, AFolderWhoseOldDomainIsInUseIsRefused) {
  const Shared<Turn> turn;
  Children children;
  const std::size_t user = children.spawn("user", [&] {
    const Domain domain = Domain::open(dead_.path(), options());
    turn->reach(1);
    for (;;) pause();
  });
  turn->await(1);
  make_other();
  if (HasFatalFailure()) return;
  replace_files();
  expect_error(Errc::kDomainInUse, [&] { (void)Domain::open(dead_.path(), options()); });
  children.bury(user);
  const Domain domain = Domain::open(dead_.path(), options());
  const Segment segment = domain.map("a.db", raw_pages(kPages));
  EXPECT_EQ(query(domain, [&] { return word_of(segment, 1); }), kOfTheOther);
}

TEST_P(ReplacedFilesTest, NorIntoTheSameOneAsItWasBefore) {
  kill_and_put_back_a_copy();
  if (HasFatalFailure()) return;
  expect_other();
  expect_other();
}

TEST_P(ReplacedFilesTest, NorIntoItsCopyWhoseFirstOpenDies) {
  kill_and_put_back_a_copy();
  if (HasFatalFailure()) return;
  die_in_open();
  expect_other();
}

TEST_P(ReplacedFilesTest, AFolderInUseWithoutItsControlFileIsNoNewOne) {
  enum Errand : std::size_t { kRefused, kAnother };
  Forker forker({[&] {
                   expect_child("refused", [&] {
                     for (int times = 0; times < 2; ++times)
                       expect_error(Errc::kDomainInUse,
                                    [&] { (void)Domain::open(dead_.path(), options()); });
                   });
                 },
                 [&] {
                   expect_child("another", [&] {
                     const Domain domain = Domain::open(dead_.path(), options());
                     EXPECT_EQ(domain.participants().size(), 2U);
                     const Segment here = domain.map("a.db", raw_pages(kPages));
                     atomically(domain, [&] { word_of(here, 0) = kOfTheOther; });
                   });
                 }});
  Domain user = Domain::open(dead_.path(), options());
  const Segment segment = user.map("a.db", raw_pages(kPages));
  const std::string control = dead_.path() + "/tmh.control", aside = dead_.path() + "/aside";
  std::filesystem::rename(control, aside);
  forker.run(kRefused);
  EXPECT_FALSE(std::filesystem::exists(control));
  std::filesystem::rename(aside, control);
  forker.run(kAnother);
  forker.expect_success();
  EXPECT_EQ(query(user, [&] { return word_of(segment, 0); }), kOfTheOther);
}

// Who is in the one is not in the other; what they share was copied at any moment. Once they have
// gone it is a domain like others.
TEST_P(ReplacedFilesTest, ACopyOfAFolderInUseIsRefused) {
  expect_child("the user", [&] {
    Domain user = Domain::open(dead_.path(), options());
    const Segment segment = user.map("a.db", raw_pages(kPages));
    // Knows holes.
    ASSERT_EQ(std::system(("cp -a " + dead_.path() + "/. " + other_.path()).c_str()), 0);
    expect_child("refused", [&] {
      for (int times = 0; times < 2; ++times)
        expect_error(Errc::kDomainInUse, [&] { (void)Domain::open(other_.path(), options()); });
    });
    atomically(user, [&] { word_of(segment, 0) = kOfTheOther; });
    user.close();
  });
  Forker forker({[&] {
    expect_child("its second participant", [&] { (void)Domain::open(other_.path(), options()); });
  }});
  const Domain copy = Domain::open(other_.path(), options());
  const Segment copied = copy.map("a.db", raw_pages(kPages));
  EXPECT_EQ(query(copy, [&] { return word_of(copied, 0); }), 0U);
  forker.run(0);
  forker.expect_success();
}

TEST_P(ReplacedFilesTest, WhoIsLeftFromBeforeLeavesTheNewDomainAlone) {
  const Shared<Turn> turn;
  Children children;
  children.spawn("new", [&] {  // before this process has threads
    turn->await(1);
    const Domain domain = Domain::open(dead_.path(), options());
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    atomically(domain, [&] { word_of(segment, 0) = kOfTheOther; });
    turn->reach(2);
    turn->await(3);
    EXPECT_EQ(query(domain, [&] { return word_of(segment, 1); }), kOfTheOther);
  });
  Domain left = Domain::open(dead_.path(), options());
  (void)left.map("a.db", raw_pages(kPages));
  for (const auto &file : std::filesystem::directory_iterator(dead_.path()))
    std::filesystem::remove(file);
  turn->reach(1);
  turn->await(2);
  expect_error(Errc::kFileReplaced, [&] { (void)left.map("b.db", raw_pages(1)); });
  EXPECT_FALSE(std::filesystem::exists(dead_.path() + "/b.db"));
  expect_error(Errc::kFileReplaced, [&] { left.close(); });
  expect_child("joins", [&] {
    const Domain domain = Domain::open(dead_.path(), options());
    EXPECT_EQ(domain.participants().size(), 2U);
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    EXPECT_EQ(query(domain, [&] { return word_of(segment, 0); }), kOfTheOther);
    atomically(domain, [&] { word_of(segment, 1) = kOfTheOther; });
  });
  turn->reach(3);
  children.expect_success();
}

TEST(ReplacedLockTest, WhoeverWaitedForAFolderThatWasEmptiedLocksTheNewOne) {
  const MemoryFolder folder;
  const std::string path = folder.path() + "/tmh.lock";
  Children children;
  std::optional<platform::FolderLock> before(std::in_place), since(std::in_place);
  ASSERT_EQ(before->acquire(path), Errc::kOk);
  const std::size_t waiter = children.spawn("waiter", [&] {
    platform::FolderLock waits;
    EXPECT_EQ(waits.acquire(path), Errc::kOk);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_NE(flock(fd, LOCK_EX | LOCK_NB), 0);
  });
  ASSERT_TRUE(
      poll_until([&] { return is_sleeping("/proc/" + std::to_string(children.pid(waiter))); }));
  std::filesystem::remove(path);
  ASSERT_EQ(since->acquire(path), Errc::kOk);
  before.reset();
  EXPECT_TRUE(children.running(waiter));
  since.reset();
  children.expect_success();
}

class DurableFilesTest : public ReplacedFilesTest {};

TEST_P(DurableFilesTest, NothingGetsIntoACopyThatWasMadeMeanwhile) {
  make_closed(dead_.path());
  const std::string backup = other_.path() + "/backup";
  make_killed(kOfTheOther, backup);
  if (HasFatalFailure()) return;
  copy_files(backup, dead_.path());
  expect_other();
  expect_other();
}

// Its log goes on where it has files; it makes no more.
TEST_P(DurableFilesTest, WhoIsLeftFromBeforeMakesNoLogFilesOfTheNewDomains) {
  DomainOptions small = options();
  small.log_file_bytes = kSmallLogBytes;
  small.durability = Durability::kStrict;
  const auto store = [](const Domain &domain, const Segment &to, std::uint64_t value) {
    atomically(domain, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page)
        for (std::uint64_t word = 0; word < kPageBytes / 8; ++word) word_of(to, page, word) = value;
    });
  };
  enum Errand : std::size_t { kMake, kLook };
  Forker forker(
      {[&] {
         in_domain(dead_.path(), small, Ending::kKilled,
                   [&](const Domain &domain, const Segment &there) {
                     for (std::uint64_t value = 1; value <= 20; ++value)
                       store(domain, there, value);
                   });
       },
       [&] {
         in_domain(
             dead_.path(), small, Ending::kClosed, [&](const Domain &domain, const Segment &there) {
               for (std::uint64_t page = 0; page < kPages; ++page)
                 EXPECT_EQ(query(domain, [&] { return word_of(there, page, 511); }), 20U) << page;
             });
       }});
  Domain left = Domain::open(dead_.path(), small);
  const Segment segment = left.map("a.db", raw_pages(kPages));
  for (const auto &file : std::filesystem::directory_iterator(dead_.path()))
    std::filesystem::remove(file);
  forker.run(kMake);
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto &file : std::filesystem::directory_iterator(dead_.path()))
      all.insert(file.path().filename());
    return all;
  };
  const std::set<std::string> before = names();
  EXPECT_THROW(for (std::uint64_t value = 1; value < 100; ++value)
                   store(left, segment, 1000 + value),
               Error);
  EXPECT_EQ(names(), before);
  forker.run(kLook);
  forker.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Ways, DurableFilesTest, testing::Values(kWays[2], kWays[3]),
                         [](const auto &way) { return std::string(way.param.name); });

INSTANTIATE_TEST_SUITE_P(Ways, ReplacedFilesTest, testing::ValuesIn(kWays),
                         [](const auto &way) { return std::string(way.param.name); });

}  // namespace
}  // namespace tmh::test
