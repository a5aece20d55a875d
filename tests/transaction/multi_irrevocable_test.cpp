// tests/transaction/multi_irrevocable_test.cpp -- tmh::become_irrevocable(): what cannot be undone
// happens once, and for an instance that commits.
// Invariants: (1) after the call returned the instance commits, whatever others do and whatever
//             their policies. (2) nobody else commits at level 2, nor changes at level 1 what it
//             has touched, until it has ended. (3) its death frees the others within a second. The
//             random workloads of the history and kill tests become irrevocable, too
//             (support/workload.cpp).
#include <sched.h>
#include <signal.h>

#include <tmh/field.hpp>
#include <tmh/site.hpp>

#include "tests/support/schedule.h"
#include "tests/support/seed.h"
#include "tests/support/slowdown.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

struct Effects {
  std::atomic<std::uint64_t> done;  // what cannot be undone
  std::atomic<std::uint64_t> other_commits;
  std::atomic<std::uint64_t> aborts;
  std::atomic<std::uint32_t> ready;
  std::atomic<bool> stop;
};

[[nodiscard]] field<std::uint64_t> &shared_word(const Actor &actor, std::uint64_t page) {
  return reinterpret_cast<field<std::uint64_t> &>(actor.word(page));
}

class MultiIrrevocableTest : public ModeTest {
 protected:
  [[nodiscard]] bool hybrid() const { return GetParam().levels == Levels::kHybrid; }
  Shared<Effects> effects_;
};
class HybridIrrevocableTest : public MultiIrrevocableTest {};

TEST_P(MultiIrrevocableTest, NobodyElseCommitsUntilItHasEnded) {
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        int attempts = 0;
        atomically(self.domain, [&] {
          ++attempts;
          const std::uint64_t before = self.get(0);
          become_irrevocable();
          become_irrevocable();  // it is already
          turn.reach(1);
          for (int i = 0; i < 20; ++i) {
            EXPECT_EQ(self.domain.validate(), Status::kPending);
            const timespec pause{0, 2'000'000};
            nanosleep(&pause, nullptr);
          }
          EXPECT_EQ(effects_->other_commits.load(), 0U);
          self.set(0, before + 1);
          self.set(5, self.get(5) + 1);
        });
        EXPECT_EQ(attempts, 1);
        turn.await(2);
        EXPECT_EQ(self.committed(0), 2U);
        EXPECT_EQ(self.committed(5), 2U);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        atomically(self.domain, [&] {
          self.set(0, self.get(0) + 1);
          self.set(5, self.get(5) + 1);
        });
        effects_->other_commits = 1;
        turn.reach(2);
      });
}

TEST_P(MultiIrrevocableTest, FailedInstanceBeginsAgainAtTheCall) {
  run_pair(
      eager() ? "selfish-abort" : "",
      [&](Actor &self, Turn &turn) {
        int attempts = 0;
        std::uint64_t seen = 0;
        atomically(self.domain, [&] {
          ++attempts;
          seen = self.get(0);
          self.set(1, seen);
          if (attempts == 1) {
            turn.reach(1);
            turn.await(2);
          }
          atomically(self.domain, [&] { become_irrevocable(); });  // for the outermost
          effects_->done.fetch_add(1);
        });
        EXPECT_EQ(attempts, 2);
        EXPECT_EQ(effects_->done.load(), 1U);
        EXPECT_EQ(seen, 7U);
        EXPECT_EQ(self.committed(1), 7U);
        EXPECT_EQ(self.domain.counters().irrevocables, 1U);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.commit(0, 7);
        turn.reach(2);
      });
}

// What others committed after its begin and before its first touch of the page is there already;
// the call does not bring it once more.
TEST_P(MultiIrrevocableTest, KeepsItsStoresToPagesThatChangedSinceItBegan) {
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        int attempts = 0;
        atomically(self.domain, [&] {
          self.set(0, 3);
          if (++attempts == 1) {
            turn.reach(1);
            turn.await(2);
          }
          self.set(9, 5);
          const std::uint64_t seen = self.get(11);  // made of versions, and not stored to
          if (attempts == 1) {
            turn.reach(3);
            turn.await(4);
          }
          become_irrevocable();
          EXPECT_EQ(seen, 8U);
          EXPECT_EQ(self.get(9), 5U);
        });
        EXPECT_EQ(self.committed(9), 5U);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.commit(9, 8);
        self.commit(11, 8);
        turn.reach(2);
        turn.await(3);
        self.commit(13, 8);  // the clock is behind nobody's touch
        turn.reach(4);
      });
}

// The same where it began between a commit's clock and its word of how far the commit log is
// published. The reader keeps page 0 in versions.
TEST_P(MultiIrrevocableTest, KeepsItsStoresWhenItBeganInTheMiddleOfACommit) {
  const std::string folder = folder_.path();
  Schedule schedule;
  const auto reader = schedule.add("reader", [&] {
    const Actor self(folder, options());
    query(self.domain, [&] {
      static_cast<void>(self.get(7));
      Schedule::mark(1);
    });
  });
  const auto writer = schedule.add("writer", [&] {
    const Actor self(folder, options());
    self.commit(0, 1);
    Schedule::mark(1);
    self.commit(0, 2);
    Schedule::mark(2);
    self.commit(5, 1);  // the clock is behind nobody's touch
  });
  const auto irrevocable = schedule.add("irrevocable", [&] {
    const Actor self(folder, options());
    static_cast<void>(self.committed(9));
    Schedule::mark(1);
    atomically(self.domain, [&] {
      self.set(0, self.get(0) + 10);
      Schedule::mark(2);
      become_irrevocable();
      EXPECT_EQ(self.get(0), 12U);
    });
    EXPECT_EQ(self.committed(0), 12U);
  });
  for (const std::size_t actor : {reader, writer, irrevocable}) schedule.run(actor, to_mark(1));
  schedule.run(writer, to_step(observe::Step::kCommitPoint));
  schedule.run(irrevocable, to_step(observe::Step::kBeginPinned));
  schedule.run(writer, to_mark(2));
  schedule.run(irrevocable, to_mark(2));
  schedule.run(writer, kToEnd);
  schedule.run(irrevocable, kToEnd);
  schedule.finish();
}

// The snapshot moves to the call: what others committed before it and this instance has not read is
// seen.
TEST_P(MultiIrrevocableTest, SeesWhatWasCommittedBeforeIt) {
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        int attempts = 0;
        atomically(self.domain, [&] {
          ++attempts;
          self.set(0, 3);
          turn.reach(1);
          turn.await(2);
          become_irrevocable();
          EXPECT_EQ(self.get(9), 8U);
          self.set(9, self.get(9) + self.get(0));
        });
        EXPECT_EQ(attempts, 1);
        EXPECT_EQ(self.committed(9), 11U);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.commit(9, 8);
        turn.reach(2);
      });
}

// Three processes on two pages, every third instance irrevocable. In hybrid domains level 1 storms
// as well, and fails instances of level 2.
TEST_P(MultiIrrevocableTest, EffectsHappenOncePerCommitInAStorm) {
  constexpr int kRounds = 100;
  std::uint64_t aborts = 0;
  for (const char *policy :
       {"self-abort", "oldest-wins", "selfish-abort", "youngest-wins", "strict"}) {
    const bool durable = std::string_view(policy) == "strict";
    if (durable && hybrid()) continue;  // refused
    const MemoryFolder folder;
    const std::uint64_t effects_before = effects_->done.load();
    effects_->ready = 0;
    DomainOptions chosen = options(durable ? "" : policy);
    if (durable) chosen.durability = Durability::kStrict;
    if (hybrid()) chosen.policies.cross = CrossPolicy::kAbortUpper;
    Children children;
    for (int number = 0; number < 3; ++number) {
      children.spawn("process " + std::to_string(number), [&, number] {
        const Actor self(folder.path(), chosen);
        const Site site(self.domain, "storm", "after-n=4");
        std::uint64_t random = seed() + static_cast<std::uint64_t>(number);
        effects_->ready.fetch_add(1);
        ASSERT_TRUE(poll_until([&] { return effects_->ready.load() == 3; }));
        for (int round = 0; round < kRounds; ++round) {
          random = random * 6364136223846793005ull + 1442695040888963407ull;
          const std::uint64_t page = random >> 60 & 1;
          const bool irrevocable = (random >> 40) % 3 == 0;
          bool promised = false;
          const auto body = [&] {
            EXPECT_FALSE(promised) << "it ran again after it had become irrevocable";
            ++shared_word(self, page);
            sched_yield();
            if (irrevocable) {
              become_irrevocable();
              promised = true;
              effects_->done.fetch_add(1);
              ++shared_word(self, 2);  // first touched after the call
            }
            sched_yield();
            ++shared_word(self, 1 - page);
          };
          if (round % 2 == 0)
            atomically(site, [&](Fields) { return body(); });
          else
            atomically(self.domain, body);
        }
        effects_->aborts.fetch_add(site.report().line_aborts);
        if (number == 0) effects_->aborts.fetch_add(self.domain.counters().aborts_total());
      });
    }
    children.expect_success();
    const Actor self(folder.path(), chosen);
    EXPECT_EQ(self.committed(0), 3U * kRounds) << policy;
    EXPECT_EQ(self.committed(1), 3U * kRounds) << policy;
    EXPECT_EQ(self.committed(2), effects_->done.load() - effects_before) << policy;
    aborts += effects_->aborts.exchange(0);
  }
  std::printf("%llu aborts\n", static_cast<unsigned long long>(aborts));
  EXPECT_GT(aborts, 0U) << "they never met";
}

// A second irrevocable instance waits for the first, which dies.
TEST_P(MultiIrrevocableTest, DeathFreesOthersWithinASecond) {
  Children children;
  const auto victim = children.spawn("victim", [&] {
    const Actor self(folder_.path(), options());
    self.domain.begin();
    self.set(0, 99);
    become_irrevocable();
    self.set(1, 99);
    effects_->ready.fetch_add(1);
    for (;;) pause();
  });
  ASSERT_TRUE(poll_until([&] { return effects_->ready.load() == 1; }));
  for (const bool irrevocable : {true, false}) {
    children.spawn(irrevocable ? "second" : "other", [&, irrevocable] {
      const Actor self(folder_.path(), options());
      effects_->ready.fetch_add(1);
      atomically(self.domain, [&] {
        self.set(4, self.get(4) + 1);
        if (irrevocable) become_irrevocable();
      });
      effects_->other_commits.fetch_add(1);
    });
  }
  ASSERT_TRUE(poll_until([&] { return effects_->ready.load() == 3; }));
  EXPECT_EQ(effects_->other_commits.load(), 0U);
  children.bury(victim);
  EXPECT_TRUE(goes_on(&children, [&] { return effects_->other_commits.load() == 2; }));
  children.expect_success();
  const Actor self(folder_.path(), options());
  EXPECT_EQ(self.committed(0), 0U);
  EXPECT_EQ(self.committed(1), 0U);
  EXPECT_EQ(self.committed(4), 2U);
}

TEST_P(MultiIrrevocableTest, MisuseIsRefused) {
  expect_child("misuser", [&] {
    const Actor self(folder_.path(), options());
    expect_error(
        Errc::kEndWithoutBegin, [] { become_irrevocable(); }, "become_irrevocable()");
    expect_error(
        Errc::kNestedMisuse, [&] { query(self.domain, [] { become_irrevocable(); }); }, "query");
    EXPECT_EQ(self.domain.depth(), 0U);
    expect_error(
        Errc::kNestedMisuse,
        [&] {
          atomically(self.domain, [&] {
            self.set(0, 5);
            become_irrevocable();
            retry();
          });
        },
        "retry()");
    EXPECT_EQ(self.domain.depth(), 0U);
    EXPECT_EQ(self.committed(0), 0U);
    // Its own exception ends it, and the next one can become irrevocable.
    EXPECT_THROW(atomically(self.domain,
                            [&] {
                              self.set(0, 5);
                              become_irrevocable();
                              throw std::runtime_error("no");
                            }),
                 std::runtime_error);
    EXPECT_EQ(self.committed(0), 0U);
    atomically(self.domain, [&] {
      become_irrevocable();
      self.set(0, 6);
    });
    EXPECT_EQ(self.committed(0), 6U);
  });
}

TEST_P(HybridIrrevocableTest, AtLevelOneItGoesUp) {
  expect_child("climber", [&] {
    const Actor self(folder_.path(), options());
    const Site site(self.domain, "climbs", "on-capacity"), stays(self.domain, "stays", "never");
    int attempts = 0, effects = 0;
    atomically(site, [&](Fields) {
      ++attempts;
      ++shared_word(self, 0);
      become_irrevocable();
      ++effects;
    });
    EXPECT_EQ(attempts, 2);
    EXPECT_EQ(effects, 1);
    EXPECT_EQ(site.report().escalations_needs_pages, 1U);
    EXPECT_EQ(site.report().page_commits, 1U);
    EXPECT_EQ(self.committed(0), 1U);
    expect_error(
        Errc::kNeedsPages, [&] { atomically(stays, [](Fields) { become_irrevocable(); }); },
        "irrevocable");
  });
}

// More releases of pages than an instance follows in the commit log, while it runs: one that can
// abort does or keeps its stores, one that cannot goes on.
TEST_P(HybridIrrevocableTest, OutlivesMoreReleasesThanItFollows) {
  constexpr std::uint64_t kReleases = (1u << 16) + 100;
  for (const bool irrevocable : {true, false}) {
    const MemoryFolder folder;
    effects_->ready = 0;
    Children children;
    children.spawn("long", [&] {
      const Actor self(folder.path(), options());
      self.domain.begin();
      self.set(0, 7);
      if (irrevocable) become_irrevocable();
      effects_->ready = 1;
      ASSERT_TRUE(poll_until([&] { return effects_->ready.load() == 2; }));
      const std::uint64_t seen = self.get(1);  // changed since: the snapshot has to move
      const Status status = self.domain.end();
      if (irrevocable) {
        EXPECT_EQ(status, Status::kCommitted);
      }
      if (status == Status::kCommitted) {
        EXPECT_EQ(seen, 1U);
      }
      EXPECT_EQ(self.committed(0), status == Status::kCommitted ? 7U : 0U);
    });
    children.spawn("to and fro", [&] {
      const Actor self(folder.path(), options());
      const Site site(self.domain, "lines", "never");
      ASSERT_TRUE(poll_until([&] { return effects_->ready.load() == 1; }));
      // Level 1 only reads: the undo words of so many commits would find no room while somebody
      // keeps a pin.
      for (std::uint64_t i = 0; i < kReleases; ++i) {
        EXPECT_EQ(self.committed(1), 0U);  // a recall
        EXPECT_EQ(atomically(site, [&](Fields) { return shared_word(self, 1).load(); }), 0U);
      }
      atomically(site, [&](Fields) { ++shared_word(self, 1); });
      EXPECT_GE(self.domain.counters().releases, kReleases);
      effects_->ready = 2;
    });
    children.expect_success();
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, MultiIrrevocableTest, testing::ValuesIn(kModes), mode_name);
// Those with software lines: RTM undoes the counting of attempts, and does not go on beside an
// instance of level 2.
INSTANTIATE_TEST_SUITE_P(Modes, HybridIrrevocableTest,
                         testing::ValuesIn(std::begin(kModes) + 5, std::begin(kModes) + 8),
                         mode_name);

}  // namespace
}  // namespace tmh::test
