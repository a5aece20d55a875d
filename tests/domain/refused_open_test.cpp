// tests/domain/refused_open_test.cpp -- an open that is refused for its options, and the corrected
// one: of a new durable folder, of a closed domain, of one that was killed.
// Invariants: (1) what a domain keeps for good is what the open asked for that made it, and not one
//             that was refused before. (2) what the refused one has not made stays. (3) one that
//             dies while it takes back what it has made leaves what a corrected open can use. (4) a
//             closed domain stays closed, and one whose processes died keeps what they have left.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include <tmh/tmh.hpp>

#include "platform/disk.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/forbid.h"
#include "tests/support/leaks.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

DomainOptions strict(std::uint64_t log_file_bytes) {
  DomainOptions options;
  options.durability = Durability::kStrict;
  options.log_file_bytes = log_file_bytes;
  return options;
}

struct Refused {
  const char *name;
  void (*make_wrong)(DomainOptions *options);
  Errc error;
};
const Refused kRefused[] = {
    {"Policy", [](DomainOptions *options) { options->policies.conflict = "nonsense"; },
     Errc::kBadPolicy},
    {"GroupCommit", [](DomainOptions *options) { options->policies.group_commit = "nonsense"; },
     Errc::kBadDurability},
    {"Latency",
     [](DomainOptions *options) { options->policies.latency = static_cast<Latency>(77); },
     Errc::kBadArgument},
    {"Capacity",
     [](DomainOptions *options) {
       options->levels = Levels::kHybrid;
       options->policies.capacity = "nonsense";
     },
     Errc::kBadLevels}};

class RefusedOpenTest : public testing::TestWithParam<Refused> {
 protected:
  const MemoryFolder parent_;
  const std::string folder_ = parent_.path() + "/new";
};

TEST_P(RefusedOpenTest, ACorrectedOpenMakesWhatItAsksFor) {
  DomainOptions wrong = strict(2 * kMiB);
  GetParam().make_wrong(&wrong);
  for (const DomainOptions &right : {strict(4 * kMiB), DomainOptions{}}) {
    expect_error(GetParam().error, [&] { (void)Domain::open(folder_, wrong); });
    for (const auto &entry : std::filesystem::directory_iterator(folder_))
      EXPECT_EQ(entry.path().filename(), "tmh.lock");
    Domain domain = Domain::open(folder_, right);
    const bool is_durable = right.durability == Durability::kStrict;
    EXPECT_EQ(domain.durability(), is_durable ? Durability::kStrict : Durability::kNone);
    if (is_durable) {
      EXPECT_EQ(std::filesystem::file_size(folder_ + "/tmh.log.0000000000"), right.log_file_bytes);
    }
    domain.close();
    std::filesystem::remove_all(folder_);
  }
}

// Its control file may come back from a backup.
TEST_P(RefusedOpenTest, ALogWithoutItsControlFileStays) {
  Domain::open(folder_, strict(kMiB)).close();
  const std::string control = folder_ + "/tmh.control", aside = folder_ + "/aside";
  std::filesystem::rename(control, aside);
  DomainOptions wrong = strict(kMiB);
  GetParam().make_wrong(&wrong);
  expect_error(Errc::kControlMissing, [&] { (void)Domain::open(folder_, wrong); });
  EXPECT_FALSE(std::filesystem::exists(control));
  std::filesystem::rename(aside, control);
  EXPECT_EQ(Domain::open(folder_).durability(), Durability::kStrict);
}

std::set<std::string> files_of(const std::string &folder) {
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

// One more on word 0. Returns what it is then.
std::uint64_t count(const Domain &domain) {
  const Segment segment = domain.map("a.db", raw_pages(1));
  return atomically(domain, [&] { return ++word_of(segment, 0); });
}

TEST_P(RefusedOpenTest, AClosedDomainStaysClosed) {
  std::uint64_t counted = 0;
  for (const Durability durability : {Durability::kStrict, Durability::kBuffered}) {
    const std::string folder = folder_ + std::to_string(static_cast<int>(durability));
    DomainOptions right = strict(kMiB);
    right.durability = durability;
    Domain domain = Domain::open(folder, right);
    counted = count(domain);
    domain.close();
    const std::set<std::string> files = files_of(folder);
    DomainOptions wrong = right;
    GetParam().make_wrong(&wrong);
    expect_error(GetParam().error, [&] { (void)Domain::open(folder, wrong); });
    EXPECT_EQ(files_of(folder), files);
    RecoverOptions too_early;
    too_early.until_lsn = 5;
    expect_error(Errc::kBadArgument, [&] { (void)recover(folder, too_early); });
    EXPECT_EQ(files_of(folder), files);
    EXPECT_EQ(count(Domain::open(folder, right)), counted + 1);
  }
}

TEST(RefusedVolatileOpenTest, AClosedDomainStaysClosed) {
  for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
    const MemoryFolder folder;
    DomainOptions options;
    options.levels = levels;
    Domain domain = Domain::open(folder.path(), options);
    EXPECT_EQ(count(domain), 1U);
    domain.close();
    const std::set<std::string> files = files_of(folder.path());
    DomainOptions wrong = options;
    (levels == Levels::kPage ? wrong.policies.conflict : wrong.policies.capacity) = "nonsense";
    expect_error(levels == Levels::kPage ? Errc::kBadPolicy : Errc::kBadLevels,
                 [&] { (void)Domain::open(folder.path(), wrong); });
    EXPECT_EQ(files_of(folder.path()), files);
    EXPECT_EQ(count(Domain::open(folder.path(), options)), 2U);
  }
}

TEST_P(RefusedOpenTest, WhatTheDeadHaveLeftStays) {
  DomainOptions right = strict(kMiB);
  right.durability = Durability::kBuffered;
  right.flush_interval_ms = 60'000;  // what the dead one has committed is in shared memory only
  Children children;
  const std::size_t dies = children.spawn("dies", [&] {
    const Domain domain = Domain::open(folder_, right);
    EXPECT_EQ(count(domain), 1U);
    raise(SIGKILL);
  });
  EXPECT_EQ(children.wait(dies).signal, SIGKILL);
  DomainOptions wrong = right;
  GetParam().make_wrong(&wrong);
  expect_error(GetParam().error, [&] { (void)Domain::open(folder_, wrong); });
  EXPECT_EQ(count(Domain::open(folder_, right)), 2U);
}

// Whatever the open asks for: a new domain would be empty, and volatile by default.
TEST(MissingControlTest, TheLogOfALostControlFileIsNotBuriedUnderANewDomain) {
  struct Gone {
    std::set<std::string> names;
    std::string says;
  };
  const std::string log = "tmh.log.0000000000", checkpoint = "tmh.checkpoint";
  const Gone gone[] = {{{"tmh.control"}, checkpoint + " and " + log},
                       {{"tmh.control", checkpoint}, " holds " + log},
                       {{"tmh.control", log, "tmh.log.0000000001", "tmh.log.0000000002"},
                        " holds " + checkpoint + ":"}};
  DomainOptions buffered = strict(kMiB), hybrid;
  buffered.durability = Durability::kBuffered;
  hybrid.levels = Levels::kHybrid;
  hybrid.line = LineChoice::kSoftware;
  for (const bool is_killed : {false, true}) {
    for (const Gone &each : gone) {
      const MemoryFolder folder, aside;
      const ChildEnd end = run_in_child("maker", [&] {
        Domain domain = Domain::open(folder.path(), strict(kMiB));
        EXPECT_EQ(count(domain), 1U);
        if (is_killed) die_unless_failed();
        domain.close();
      });
      ASSERT_TRUE(is_killed ? end.signal == SIGKILL : end.succeeded());
      for (const std::string &name : each.names)
        if (std::filesystem::exists(folder / name))
          std::filesystem::rename(folder / name, aside / name);
      const std::set<std::string> left = files_of(folder.path());
      for (const DomainOptions &options : {DomainOptions{}, buffered, strict(kMiB), hybrid}) {
        expect_error(
            Errc::kControlMissing, [&] { (void)Domain::open(folder.path(), options); }, each.says);
        expect_error(
            Errc::kControlMissing, [&] { (void)Domain::open(folder.path(), options); },
            "put it back");
        if (!is_killed) {
          EXPECT_EQ(files_of(folder.path()), left);
        }
      }
      expect_error(
          Errc::kControlMissing, [&] { (void)recover(folder.path()); }, each.says);
      for (const auto &entry : std::filesystem::directory_iterator(aside.path()))
        std::filesystem::rename(entry.path(), folder / entry.path().filename().string());
      EXPECT_EQ(count(Domain::open(folder.path(), strict(kMiB))), 2U);
    }
  }
}

TEST(MissingControlTest, WhoMovesTheFilesAwayGetsANewDomain) {
  const MemoryFolder folder;
  Domain::open(folder.path(), strict(kMiB)).close();
  for (const std::string &name : files_of(folder.path())) std::filesystem::remove(folder / name);
  EXPECT_EQ(Domain::open(folder.path()).durability(), Durability::kNone);
}

// Counts every event of the disk.
int events_to_live = 0;
int die_creating(const platform::DiskEvent &) {
  if (events_to_live-- == 0) raise(SIGKILL);
  return 0;
}

TEST(MissingControlTest, ACreationThatIsCutAnywhereBeginsAgain) {
  int deaths = 0;
  for (bool is_cut = true; is_cut; ++deaths) {
    const MemoryFolder folder;
    const ChildEnd end = run_in_child("maker", [&] {
      events_to_live = deaths;
      platform::set_disk_hook(die_creating);
      Domain::open(folder.path(), strict(kMiB)).close();
    });
    is_cut = end.signal == SIGKILL;
    EXPECT_TRUE(is_cut || end.succeeded());
    EXPECT_EQ(count(Domain::open(folder.path(), strict(kMiB))), 1U)
        << "cut at event " << deaths << " of the disk";
  }
  EXPECT_GT(deaths, 10);
}

// Counts from the first file on that is taken back.
int steps_to_live = 0;
int die_taking_back(const platform::DiskEvent &event) {
  static bool takes_back = false;
  takes_back =
      takes_back || (event.op == platform::DiskOp::kUnlink && access(event.path, F_OK) == 0);
  if (takes_back && steps_to_live-- == 0) raise(SIGKILL);
  return 0;
}

TEST(RefusedOpenDeathTest, ACorrectedOpenUsesWhatIsLeft) {
  bool has_died = true;
  for (int steps = 0; has_died; ++steps) {
    SCOPED_TRACE(steps);
    const MemoryFolder folder;
    Children children;
    const std::size_t refused = children.spawn("refused", [&] {
      DomainOptions wrong = strict(2 * kMiB);
      wrong.policies.conflict = "nonsense";
      steps_to_live = steps;
      platform::set_disk_hook(die_taking_back);
      expect_error(Errc::kBadPolicy, [&] { (void)Domain::open(folder.path(), wrong); });
    });
    const ChildEnd end = children.wait(refused);
    has_died = end.signal == SIGKILL;
    EXPECT_TRUE(has_died || end.succeeded());
    for (const std::uint64_t count : {1U, 2U}) {
      Domain domain = Domain::open(folder.path(), strict(kMiB));
      const Segment segment = domain.map("a.db", raw_pages(1));
      atomically(domain, [&] { ++word_of(segment, 0); });
      EXPECT_EQ(query(domain, [&] { return word_of(segment, 0); }), count);
      domain.close();
    }
  }
}

// It has sent home what a dead reader had kept there, and reserved the slots.
TEST(RefusedOpenSlotsTest, AnOpenThatGetsNoThreadGivesSlotsOfVersionsBack) {
  const MemoryFolder folder;
  const Domain domain = Domain::open(folder.path(), strict(kMiB));
  const Segment segment = domain.map("a.db", raw_pages(64));
  Shared<Turn> turn;
  Children children;
  const std::size_t reader =
      children.spawn("reader", role(*turn, [&] {
                       const Domain theirs = Domain::open(folder.path(), strict(kMiB));
                       const Segment same = theirs.map("a.db", raw_pages(64));
                       theirs.begin_query();
                       EXPECT_EQ(word_of(same, 0), 0U);
                       turn->reach(1);
                       turn->await(2);
                     }));
  turn->await(1);
  atomically(domain, [&] {
    for (std::uint64_t page = 0; page < 64; ++page) word_of(segment, page) = page + 1;
  });
  EXPECT_EQ(domain.counters().versions_live, 64U);
  children.bury(reader);
  expect_child("refused", [&] {
    forbid(SYS_clone3);
    forbid(SYS_clone);
    expect_error(
        Errc::kOutOfMemory, [&] { (void)Domain::open(folder.path(), strict(kMiB)); },
        "housekeeper");
  });
  EXPECT_EQ(domain.collect(), 0U);
  expect_no_leaked_slots(folder.path());
}

INSTANTIATE_TEST_SUITE_P(Options, RefusedOpenTest, testing::ValuesIn(kRefused),
                         [](const auto &refused) { return std::string(refused.param.name); });

}  // namespace
}  // namespace tmh::test
