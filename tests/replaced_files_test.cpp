// tests/replaced_files_test.cpp -- another domain's files put in the place of those of one that was killed, as by a copy of a folder over it.
// Invariant: what the dead had in shared memory, committed or half committed, is of their domain: the other one holds what it held. While they live it is
//            refused.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <tmh/tmh.hpp>

#include "platform/steps.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
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
  // A query keeps what others commit from going home; the last commit stands between its commit point and home.
  void make_killed() const {
    const Shared<Turn> turn;
    Children children;
    const std::size_t reader = children.spawn("reader", [&] {
      const Domain domain = Domain::open(dead_.path(), options());
      const Segment segment = domain.map("a.db", raw_pages(kPages));
      domain.begin_query();
      EXPECT_EQ(word_of(segment, 0), 0U);
      turn->reach(1);
      for (;;) pause();
    });
    const std::size_t writer = children.spawn("writer", [&] {
      turn->await(1);
      const Domain domain = Domain::open(dead_.path(), options());
      const Segment segment = domain.map("a.db", raw_pages(kPages));
      for (std::uint64_t page = 0; page < kPages / 2; ++page)
        atomically(domain, [&] { word_of(segment, page) = kOfTheDead; });
      if (GetParam().levels == Levels::kPage) raise(SIGKILL);
      const Site lines(domain, "lines", "never");
      platform::crash_at(static_cast<std::uint32_t>(platform::Step::kLineCommitPoint), 1);
      atomically(lines, [&] { reinterpret_cast<field<std::uint64_t> &>(word_of(segment, kPages - 1)) = kOfTheDead; });
    });
    ASSERT_EQ(children.wait(writer).signal, SIGKILL);
    children.bury(reader);
  }
  void make_other() const {
    in_domain(other_.path(), options(), Ending::kClosed, [](const Domain &domain, const Segment &segment) {
      for (std::uint64_t page = 0; page < kPages; ++page)
        atomically(domain, [&] { word_of(segment, page) = kOfTheOther; });
    });
  }

  void replace_files() const {
    for (const auto &file : std::filesystem::directory_iterator(other_.path()))
      std::filesystem::copy_file(file, dead_.path() + "/" + file.path().filename().string(),
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

  const TempFolder dead_, other_;
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
  const ChildEnd end = run_in_child("dies", [&] {
    platform::crash_at(static_cast<std::uint32_t>(platform::Step::kAttachSlotTaken), 1);
    (void)Domain::open(dead_.path(), options());
  });
  EXPECT_EQ(end.signal, SIGKILL);
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

INSTANTIATE_TEST_SUITE_P(Ways, ReplacedFilesTest, testing::ValuesIn(kWays),
                         [](const auto &way) { return std::string(way.param.name); });

}  // namespace
}  // namespace tmh::test
