// tests/exchange/patience_test.cpp -- who waits, without a lock, for a commit at level 1 whose
// thread does not get on: stopped, or with no processor.
// Invariant: it leaves the processor to whoever needs it, of whatever priority: it sleeps. It goes
//            on when the commit does.
// Steps:     a thread stands still in the middle of a commit at level 1 (support/schedule). Another
//            process wants what it holds: at level 2, for the log, or at level 1 under a policy
//            without backoff. Its processor time is little of the time that it waits.
// Why:       yielding does not do. It lets nobody run who has a lower priority than a real-time
//            thread; what that waits for then never comes.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/durable_folder.h"
#include "tests/support/schedule.h"
#include "tests/support/temp_folder.h"

#include <tmh/tmh.hpp>

namespace tmh::test {
namespace {

using Word = field<std::uint64_t>;

enum class Waits : std::uint8_t { kForPage, kForLog, kForLine };

struct Play {
  const char *name;
  Waits waits;
  Durability durability;
  observe::Step stands;
};
void PrintTo(const Play &play, std::ostream *out) { *out << play.name; }

constexpr Play kPlays[] = {
    {"Page", Waits::kForPage, Durability::kNone, observe::Step::kLineWriteBack},
    {"PageOfDurable", Waits::kForPage, Durability::kStrict, observe::Step::kLineWriteBack},
    {"Log", Waits::kForLog, Durability::kStrict, observe::Step::kLineStamp},
    {"Line", Waits::kForLine, Durability::kNone, observe::Step::kLineWriteBack},
};

class PatienceTest : public testing::TestWithParam<Play> {};

std::uint64_t ms_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000 +
         static_cast<std::uint64_t>(time.tv_nsec) / 1'000'000;
}

TEST_P(PatienceTest, WhoWaitsSleeps) {
  const Play &play = GetParam();
  const MemoryFolder folder;
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;
  options.durability = play.durability;
  options.policies.conflict = "backoff=none";
  if (play.durability != Durability::kNone) options.log_file_bytes = kSmallLogBytes;
  const auto words = [](const Segment &segment) {
    return reinterpret_cast<Word *>(segment.data());
  };
  Schedule schedule;
  const std::size_t stands = schedule.add("stands", [&] {
    const Domain domain = Domain::open(folder.path(), options);
    const Segment segment = domain.map("a.db", raw_pages(4));
    const Site site(domain, "site", "never");
    atomically(site, [&](Fields) { ++words(segment)[0]; });
    Schedule::mark(0);
    atomically(site, [&](Fields) { ++words(segment)[0]; });
  });
  const std::size_t waits = schedule.add("waits", [&] {
    const Domain domain = Domain::open(folder.path(), options);
    const Segment segment = domain.map("a.db", raw_pages(4));
    const Site site(domain, "site", "never");
    const std::size_t word = play.waits == Waits::kForLog ? kPageBytes / sizeof(Word) : 0;
    Schedule::mark(0);
    const std::uint64_t before_ms = ms_of(CLOCK_PROCESS_CPUTIME_ID),
                        begin_ms = ms_of(CLOCK_MONOTONIC);
    if (play.waits == Waits::kForLine)
      atomically(site, [&](Fields) { ++words(segment)[word]; });
    else
      atomically(domain, [&] { ++*reinterpret_cast<std::uint64_t *>(words(segment) + word); });
    const std::uint64_t waited_ms = ms_of(CLOCK_MONOTONIC) - begin_ms;
    // On a loaded machine it waits longer, and wakes up more often.
    EXPECT_LT(
        ms_of(CLOCK_PROCESS_CPUTIME_ID) - before_ms,
        std::max(slowdown() * static_cast<std::uint64_t>(kWaitsAfter.count()) / 3, waited_ms / 10));
    EXPECT_EQ(query(domain, [&] { return words(segment)[word].load(); }),
              play.waits == Waits::kForLog ? 1U : 3U);
  });
  EXPECT_EQ(schedule.run(stands, to_mark(0)), Reached::kThere);
  EXPECT_EQ(schedule.run(waits, to_mark(0)), Reached::kThere);
  EXPECT_EQ(schedule.run(stands, to_step(play.stands)), Reached::kThere);
  EXPECT_EQ(schedule.run(waits, kToEnd), Reached::kWaits);
  EXPECT_EQ(schedule.run(stands, kToEnd), Reached::kEnded);
  schedule.finish();
}

INSTANTIATE_TEST_SUITE_P(Plays, PatienceTest, testing::ValuesIn(kPlays),
                         [](const auto &of) { return std::string(of.param.name); });

}  // namespace
}  // namespace tmh::test
