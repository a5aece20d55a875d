// tests/transaction/multi_wake_test.cpp -- who sleeps in retry() is woken by the commit of another
// process, at whatever level either runs.
// Invariants: (1) commits, and pages that change their level, wake who sleeps. (2) where nobody is
//             woken (planted), or the committer is killed before it could wake, the sleeper's own
//             looks find the change. (3) commits that are not what it waits for do not end its
//             sleep.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <tmh/tmh.hpp>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain_impl.h"
#include "hierarchy/domain/line_domain.h"
#include "observe/planted.h"
#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/schedule.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using Word = field<std::uint64_t>;
constexpr std::uint64_t kHandovers = 100;

// At which level each of the two processes runs.
struct Pair {
  const char *name;
  const char *one, *two;  // escalation
  Levels levels = Levels::kHybrid;
};
constexpr Pair kPairs[] = {{"Lines", "never", "never"},
                           {"Pages", "always", "always"},
                           {"LinesWaitForPages", "never", "always"},
                           {"PagesWaitForLines", "always", "never"},
                           {"PagesAlone", "", "", Levels::kPage}};

struct Totals {
  std::atomic<std::uint64_t> sleeps, wakes;  // of both
  std::atomic<int> there, through;
};

class WakeTest : public testing::TestWithParam<Pair> {
 protected:
  struct Player {
    Domain domain;
    Segment segment;
    Site site;
    [[nodiscard]] Word &word(std::uint64_t page = 0) const {
      return *reinterpret_cast<Word *>(static_cast<std::byte *>(segment.data()) +
                                       page * kPageBytes);
    }
    void set(std::uint64_t page, std::uint64_t value) const {
      atomically(site, [&](Fields) { word(page) = value; });
    }
    void await(std::uint64_t value) const {
      atomically(site, [&](Fields) {
        if (word() != value) retry();
      });
    }
  };
  [[nodiscard]] Player player(const char *escalation) const {
    DomainOptions options;
    options.levels = GetParam().levels;
    Domain domain = Domain::open(folder_.path(), options);
    Segment segment = domain.map("words.raw", raw_segment(4 * kPageBytes));
    Site site(domain, "wakes", escalation);
    return {std::move(domain), std::move(segment), std::move(site)};
  }
  void tell(const Player &player) {
    const Counters counters = player.domain.counters();
    totals_->sleeps += counters.retry_sleeps;
    totals_->wakes += counters.retry_wakes;
  }
  // Does somebody sleep at the first one's level?
  [[nodiscard]] static bool is_awaited(const Domain &domain) {
    const std::shared_ptr<detail::DomainImpl> impl = detail::impl_of(domain);
    return std::string(GetParam().one) == "never"
               ? impl->lines()->memory().state().changed.is_awaited()
               : impl->memory().state().changed.is_awaited();
  }
  // Who opens, maps or closes wakes, too.
  static void meet(std::atomic<int> *players) {
    players->fetch_add(1);
    EXPECT_TRUE(poll_until([&] { return players->load() == 2; }));
  }
  // The word goes to and fro between two processes, each of which waits for the other.
  void hand_to_and_fro() {
    Children children;
    const auto play = [this](const char *escalation, std::uint64_t parity) {
      const Player self = player(escalation);
      meet(&totals_->there);
      for (std::uint64_t i = 0; i < kHandovers; ++i) {
        self.await(2 * i + parity);
        self.set(0, 2 * i + parity + 1);
      }
      tell(self);
      meet(&totals_->through);
    };
    children.spawn("one", [&] { play(GetParam().one, 0); });
    children.spawn("two", [&] { play(GetParam().two, 1); });
    children.expect_success();
    expect_child("reader", [&] { player(GetParam().one).await(2 * kHandovers); });
  }

  MemoryFolder folder_;
  Shared<Totals> totals_;
};

TEST_P(WakeTest, HandoverWakes) {
  hand_to_and_fro();
  EXPECT_GT(totals_->sleeps.load(), 0U);
  EXPECT_GT(totals_->wakes.load(), 0U);
}

TEST_P(WakeTest, WhoIsNotWokenLooks) {
  observe::plant(observe::Planted::kNobodyWoken);
  hand_to_and_fro();
  observe::plant(observe::Planted::kNone);
  EXPECT_GT(totals_->sleeps.load(), 0U);
  EXPECT_EQ(totals_->wakes.load(), 0U);
}

// The sleeper is at the first one's level.
TEST_P(WakeTest, KilledBeforeItCouldWakeIsFoundByLooking) {
  const bool at_lines = std::string(GetParam().two) == "never";
  const observe::Step step =
      at_lines ? observe::Step::kLineCounted : observe::Step::kCommitUnpinned;
  Shared<std::atomic<int>> asleep;
  Children children;
  const std::size_t sleeper = children.spawn("sleeper", [&] {
    const Player self = player(GetParam().one);
    atomically(self.site, [&](Fields) {
      asleep->store(1);
      if (self.word() != 1) retry();
    });
  });
  const std::size_t committer = children.spawn("committer", [&] {
    const Player self = player(GetParam().two);
    EXPECT_TRUE(poll_until([&] { return asleep->load() == 1; }));
    observe::crash_at(static_cast<std::uint32_t>(step), 1);
    self.set(0, 1);
  });
  EXPECT_EQ(children.wait(committer).signal, SIGKILL);
  EXPECT_TRUE(children.wait(sleeper).succeeded());
}

TEST_P(WakeTest, CommitsElsewhereDoNotEndTheSleep) {
  Shared<std::atomic<int>> runs;
  Children children;
  children.spawn("sleeper", [&] {
    const Player self = player(GetParam().one);
    atomically(self.site, [&](Fields) {
      runs->fetch_add(1);
      if (self.word() != 1) retry();
    });
    EXPECT_GE(self.domain.counters().retry_sleeps, 1U);
  });
  children.spawn("committer", [&] {
    const Player self = player(GetParam().two);
    EXPECT_TRUE(poll_until([&] { return runs->load() > 0; }));
    for (std::uint64_t i = 1; i <= 20; ++i) {
      EXPECT_TRUE(poll_until([&] { return is_awaited(self.domain); }));
      self.set(1, i);
    }
    EXPECT_TRUE(poll_until([&] { return is_awaited(self.domain); }));
    // Where pages stay mapped once more, to learn what it reads. From here on it may run as often
    // as it meets this process, or its locks.
    EXPECT_LE(runs->load(), std::string(GetParam().one) == "never" ? 1 : 2);
    self.set(0, 1);
  });
  children.expect_success();
}

// A snapshot that does not move on past the making of a segment: then level 1 may have changed what
// it reads first after that, and no clock of level 2 will tell.
void read_behind_a_change(
    const std::function<void(const Domain &, const std::function<void()> &)> &run) {
  const MemoryFolder folder;
  const auto open = [&folder] {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    return Domain::open(folder.path(), options);
  };
  Shared<std::atomic<int>> turn;
  Children children;
  const std::size_t sleeper = children.spawn("sleeper", [&] {
    const Domain domain = open();
    const Segment segment = domain.map("words.raw", raw_segment(4 * kPageBytes));
    const Word &word = *reinterpret_cast<Word *>(segment.data());
    run(domain, [&] {
      if (turn->load() == 0) turn->store(1);
      EXPECT_TRUE(poll_until([&] { return turn->load() == 2; }));
      if (word != 1) retry();
    });
    turn->store(3);
  });
  const std::size_t committer = children.spawn("committer", [&] {
    const Domain domain = open();
    const Segment segment = domain.map("words.raw", raw_segment(4 * kPageBytes));
    const Site site(domain, "lines", "never");
    Word &word = *reinterpret_cast<Word *>(segment.data());
    EXPECT_TRUE(poll_until([&] { return turn->load() == 1; }));
    const Segment more = domain.map("more.raw", raw_segment(4 * kPageBytes));
    atomically(site, [&](Fields) { word = 1; });
    turn->store(2);
    EXPECT_TRUE(poll_until([&] { return turn->load() == 3; }));
  });
  EXPECT_TRUE(children.wait(sleeper).succeeded());
  EXPECT_TRUE(children.wait(committer).succeeded());
}

TEST(WakeFromThePastTest, QueryThatHasReadBehindAChangeRunsAgain) {
  read_behind_a_change(
      [](const Domain &domain, const std::function<void()> &body) { query(domain, body); });
}

TEST(WakeFromThePastTest, UpdateThatHasReadBehindAChangeRunsAgain) {
  read_behind_a_change(
      [](const Domain &domain, const std::function<void()> &body) { atomically(domain, body); });
}

INSTANTIATE_TEST_SUITE_P(Levels, WakeTest, testing::ValuesIn(kPairs),
                         [](const auto &pair) { return pair.param.name; });

}  // namespace
}  // namespace tmh::test
