// tests/exchange/hybrid_crossing_test.cpp -- what the levels do about a page that both want: the
// five cross-level policies are told apart by what each does.
// Order:      two processes hand each other the turn.
// Source:     thesis, section 6.2; hierarchy/exchange/PROTOCOL.md.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <set>
#include <stdexcept>
#include <vector>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "hierarchy/transaction/policies.h"
#include "tests/support/children.h"
#include "tests/support/hybrid_table.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

// The library's pauses, in the thread that is `is_asker`: noted instead of slept.
bool is_asker = false;
std::vector<long> pauses_of_asker;     // nanoseconds
std::function<void()> in_first_pause;  // if there is one

int pause_of_asker(const timespec &pause) {
  pauses_of_asker.push_back(pause.tv_nsec);
  if (in_first_pause && pauses_of_asker.size() == 1) in_first_pause();
  return 0;
}

// What level 1 does about a page that an instance of level 2 uses: what is seen of each policy.
struct Crossing {
  CrossPolicy cross;
  bool is_upper_failed;  // before anybody commits: the holder's own look at its instance
  enum class Pauses : std::uint8_t { kNone, kEqual, kGrowing } pauses;  // of the asker
};
constexpr Crossing kCrossings[] = {
    {CrossPolicy::kAbortLower, false, Crossing::Pauses::kNone},
    {CrossPolicy::kAbortUpper, true, Crossing::Pauses::kEqual},
    {CrossPolicy::kRecallAndWait, false, Crossing::Pauses::kEqual},
    {lab::kWaitForUpper, false, Crossing::Pauses::kGrowing},
    {lab::kUpperYields, false, Crossing::Pauses::kEqual},
};

// A wait begins with the shortest pause; only wait-for-upper makes the next ones longer.
void expect_pauses(Crossing::Pauses wanted) {
  const std::set<long> lengths(pauses_of_asker.begin(), pauses_of_asker.end());
  switch (wanted) {
    case Crossing::Pauses::kNone:
      EXPECT_EQ(lengths.size(), 0U);
      break;
    case Crossing::Pauses::kEqual:
      EXPECT_EQ(lengths.size(), 1U);
      break;
    case Crossing::Pauses::kGrowing:
      // A thread that does not run for the whole budget pauses once.
      if (pauses_of_asker.size() > 1) {
        EXPECT_GT(lengths.size(), 1U);
      }
      EXPECT_EQ(pauses_of_asker.front(), *lengths.begin());
      for (const long length : lengths) EXPECT_EQ(length % *lengths.begin(), 0);
      break;
  }
}

// The holder goes on until the asker has been answered.
TEST(CrossPolicyTest, EveryAskerIsAnsweredUnderEveryCrossPolicy) {
  for (const Crossing &crossing : kCrossings) {
    SCOPED_TRACE(to_string(crossing.cross));
    const MemoryFolder folder;
    Shared<Turn> turn;
    Children children;
    children.spawn("pages", [&] {
      const Table table(folder.path());
      table.domain.begin();
      table.word(4).store(table.word(4) + 1);
      turn->reach(1);
      turn->await(2);  // level 1 has asked for the page, and been refused
      EXPECT_EQ(table.domain.validate(),
                crossing.is_upper_failed ? Status::kFailed : Status::kPending);
      turn->reach(3);
      turn->await(4);
      // By level 1 (abort-upper), or because the escalated instance committed first, as between any
      // two of level 2.
      EXPECT_EQ(table.domain.end(), Status::kAborted);
      const Counters counters = table.domain.counters();
      EXPECT_EQ(counters.aborts[static_cast<std::size_t>(AbortCause::kConflictOther)],
                crossing.is_upper_failed ? 1U : 0U);
      EXPECT_EQ(counters.aborts[static_cast<std::size_t>(AbortCause::kValidation)],
                crossing.is_upper_failed ? 0U : 1U);
    });
    children.spawn("lines", [&] {
      turn->await(1);
      DomainOptions options = hybrid();
      options.policies.cross = crossing.cross;
      options.policies.conflict = "backoff=none";  // each pause is one of a wait for the page
      const Table table(folder.path(), options);
      const Site site(table.domain, "small", "after-n=8");
      pauses_of_asker.clear();
      is_asker = true;
      atomically(site, [&](Fields) {
        // another line of the page: at level 2 it is the same block
        ++table.word(4, 9);
        is_asker = false;  // it runs at level 2: the page was not given
        turn->reach(2);
        turn->await(3);
      });
      turn->reach(4);
      const SiteReport report = site.report();
      EXPECT_EQ(report.line_commits, 0U);
      EXPECT_EQ(report.line_aborts_by_cause[static_cast<std::size_t>(AbortCause::kCrossLevel)],
                crossing.pauses == Crossing::Pauses::kNone ? 8U : 1U)
          << "who has waited for the whole budget does not ask again";
      EXPECT_EQ(report.escalations_attempts, 1U) << "every asker is answered";
      expect_pauses(crossing.pauses);
    });
    children.expect_success();
  }
}

// The holder ends while the asker waits: who waits commits at level 1, in its first attempt.
TEST(CrossPolicyTest, WhoWaitsForAPageGetsItWhenItsHolderEnds) {
  for (const Crossing &crossing : kCrossings) {
    SCOPED_TRACE(to_string(crossing.cross));
    const bool waits = crossing.pauses != Crossing::Pauses::kNone;
    const MemoryFolder folder;
    Shared<Turn> turn;
    Children children;
    children.spawn("pages", [&] {
      const Table table(folder.path());
      table.domain.begin();
      table.word(4).store(table.word(4) + 1);
      turn->reach(1);
      turn->await(2);
      EXPECT_EQ(table.domain.end(),
                crossing.is_upper_failed ? Status::kAborted : Status::kCommitted);
      turn->reach(3);
    });
    children.spawn("lines", [&] {
      turn->await(1);
      DomainOptions options = hybrid();
      options.policies.cross = crossing.cross;
      const Table table(folder.path(), options);
      const Site site(table.domain, "small", "never");
      pauses_of_asker.clear();
      in_first_pause = [&] {
        turn->reach(2);
        turn->await(3);
      };
      is_asker = true;
      int runs = 0;
      atomically(site, [&](Fields) {
        // abort-lower asks again in each attempt
        if (++runs == 2) in_first_pause();
        ++table.word(4, 9);
      });
      is_asker = false;
      EXPECT_EQ(site.report().line_commits, 1U);
      EXPECT_EQ(runs, waits ? 1 : 2);
      EXPECT_EQ(table.committed(4), crossing.is_upper_failed ? 0U : 1U);
    });
    children.expect_success();
  }
}

std::uint64_t cross_level_aborts(const Domain &domain) {
  return domain.counters().aborts[static_cast<std::size_t>(AbortCause::kCrossLevel)];
}

// Each attempt ends by an exception, which leaves the first that has not given way.
TEST(CrossPolicyTest, AnUpdateThatThrowsGivesWayNotForEver) {
  const MemoryFolder folder;
  DomainOptions options = hybrid();
  options.policies.cross = lab::kUpperYields;
  const Table table(folder.path(), options);
  const Site lines(table.domain, "lines", "never"), pages(table.domain, "pages", "always");
  for (const bool at_site : {false, true}) {
    atomically(lines, [&](Fields) { table.word(5).store(3); });
    std::uint32_t attempts = 0;
    const auto body = [&] {
      ++attempts;
      table.word(5).store(table.word(5) + 1);
      throw std::runtime_error("undone");
    };
    EXPECT_THROW(at_site ? atomically(pages, [&](Fields) { body(); })
                         : atomically(table.domain, [&] { body(); }),
                 std::runtime_error);
    EXPECT_EQ(attempts, hierarchy::kYieldsMax + 1);
    EXPECT_EQ(table.committed(5), 3U);
  }
}

// Level 1 has used the pages that an update of level 2 touches. It alone gives way under
// upper-yields: it takes nothing, keeps its snapshot, and aborts. Level 1 does not notice it.
TEST(CrossPolicyTest, AnUpdateGivesWayUnderUpperYieldsAlone) {
  for (const Crossing &crossing : kCrossings) {
    SCOPED_TRACE(to_string(crossing.cross));
    const bool gives_way = crossing.cross == lab::kUpperYields;
    const MemoryFolder folder;
    DomainOptions options = hybrid();
    options.policies.cross = crossing.cross;
    const auto store_at_lines = [](const Table &at, std::uint64_t value) {
      const Site site(at.domain, "small", "never");
      atomically(site, [&](Fields) {
        at.word(4, 9).store(value);
        at.word(5).store(value);
      });
      EXPECT_EQ(site.report().line_aborts, 0U);
    };
    Shared<Turn> turn;
    Children children;
    children.spawn("lines", [&] {
      turn->await(1);
      if (gives_way) store_at_lines(Table(folder.path(), options), 2);
      turn->reach(2);
    });
    const Table table(folder.path(), options);
    store_at_lines(table, 1);
    table.domain.begin();
    EXPECT_EQ(table.word(4, 9), 1U);
    turn->reach(1);
    turn->await(2);
    EXPECT_EQ(table.word(4, 9), 1U);
    EXPECT_EQ(table.word(5), 1U) << "as of its snapshot";
    table.word(4).store(7);
    EXPECT_EQ(table.word(4), 7U);
    EXPECT_EQ(table.domain.validate(), gives_way ? Status::kFailed : Status::kPending);
    EXPECT_EQ(table.domain.end(), gives_way ? Status::kAborted : Status::kCommitted);
    EXPECT_EQ(table.domain.counters().recalls == 0, gives_way);
    EXPECT_EQ(cross_level_aborts(table.domain), gives_way ? 1U : 0U);
    EXPECT_EQ(table.committed(4), gives_way ? 0U : 7U);
    EXPECT_EQ(table.committed(5), gives_way ? 2U : 1U);
    children.expect_success();
  }
}

// Pages from a domain in which updates of level 2 give way.
class UpperYieldsTest : public testing::Test {
 protected:
  static DomainOptions options() {
    DomainOptions options = hybrid();
    options.policies.cross = lab::kUpperYields;
    options.policies.conflict = "backoff=none";
    return options;
  }
  void use_at_lines() const {
    atomically(site_, [this](Fields) { ++table_.word(4, 9); });
  }
  [[nodiscard]] std::uint64_t recalls() const { return table_.domain.counters().recalls; }
  MemoryFolder folder_;
  Table table_{folder_.path(), options()};
  Site site_{table_.domain, "small", "never"};
};

// Else it never would: level 1 uses the page before each attempt. So it is after each commit.
TEST_F(UpperYieldsTest, FourAttemptsGiveWayAndTheNextTakesThePage) {
  for (std::uint64_t round = 1; round <= 3; ++round) {
    std::uint32_t attempts = 0;
    for (Status status = Status::kAborted; status != Status::kCommitted; ++attempts) {
      use_at_lines();
      const std::uint64_t before = recalls();
      table_.domain.begin();
      table_.word(4).store(round);
      status = table_.domain.end();
      EXPECT_EQ(recalls() > before, status == Status::kCommitted);
    }
    EXPECT_EQ(attempts, hierarchy::kYieldsMax + 1);
    EXPECT_EQ(cross_level_aborts(table_.domain), round * hierarchy::kYieldsMax);
    EXPECT_EQ(table_.committed(4), round);
  }
}

TEST_F(UpperYieldsTest, AtomicallyCommitsBesideBusyLines) {
  Shared<std::atomic<bool>> is_busy, is_over;
  Children children;
  children.spawn("lines", [&] {
    const Table table(folder_.path(), options());
    const Site site(table.domain, "small");
    while (!is_over->load()) {
      atomically(site, [&](Fields) { ++table.word(4, 9); });
      is_busy->store(true);
    }
  });
  ASSERT_TRUE(poll_until([&] { return is_busy->load(); }));
  constexpr std::uint64_t kUpdates = 50;
  for (std::uint64_t i = 0; i < kUpdates; ++i)
    atomically(table_.domain, [&] { table_.word(4).store(table_.word(4) + 1); });
  is_over->store(true);
  children.expect_success();
  EXPECT_EQ(table_.committed(4), kUpdates);
}

TEST_F(UpperYieldsTest, QueriesAndIrrevocableInstancesTakeThePageAtOnce) {
  use_at_lines();
  EXPECT_EQ(table_.committed(4, 9), 1U);
  const std::uint64_t before = recalls();
  EXPECT_GT(before, 0U);
  use_at_lines();
  int runs = 0;
  atomically(table_.domain, [&] {
    ++runs;
    become_irrevocable();
    ++table_.word(4, 9);
  });
  EXPECT_EQ(runs, 1);
  EXPECT_GT(recalls(), before);
  EXPECT_EQ(cross_level_aborts(table_.domain), 0U);
}

TEST_F(UpperYieldsTest, PagesThatLevel1HasNotUsedAreTakenAtOnce) {
  use_at_lines();
  table_.domain.begin();
  table_.word(7).store(1);
  EXPECT_EQ(table_.domain.end(), Status::kCommitted);
  EXPECT_GT(recalls(), 0U);
}

}  // namespace
}  // namespace tmh::test

// Before the C library's, which the library under test would call.
extern "C" int nanosleep(const timespec *pause, timespec *left) {
  if (tmh::test::is_asker) return tmh::test::pause_of_asker(*pause);
  return clock_nanosleep(CLOCK_REALTIME, 0, pause, left) == 0 ? 0 : -1;
}
