// tests/exchange/multi_recall_test.cpp -- instances of level 2 that touch one page after another
// take pages ahead of their touches, while level 1 works on the same pages.
// Invariants:
//   (1) every scan, of a query or of an update, doomed or not, sees the same sum: the newest
//       version of each page that was taken is one of its snapshot. Transfers at either level keep
//       the sum.
//   (2) a scan of untouched pages takes each of them once, with far fewer signals than pages
//       (kernel tracking).
//   (3) pages that were taken ahead and not touched are in nobody's read set: a commit to them
//       fails nobody. And the next instance reads what was committed to them.
#include <cstdint>

#include <tmh/field.hpp>
#include <tmh/site.hpp>

#include "tests/support/schedule.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kPages = 256, kStart = 1000;
constexpr int kRounds = 300, kSmallPerScan = 20;
constexpr std::uint32_t kProcesses = 2;

struct Player {
  explicit Player(const std::string &folder, const DomainOptions &options)
      : domain(Domain::open(folder, options)),
        segment(domain.map("data", raw_segment(kPages * kPageBytes))),
        site(domain, "transfer") {}
  [[nodiscard]] std::uint64_t &word(std::uint64_t page) const {
    return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes +
                                              page % 64 * kLineBytes);
  }
  [[nodiscard]] field<std::uint64_t> &shared(std::uint64_t page) const {
    return reinterpret_cast<field<std::uint64_t> &>(word(page));
  }
  [[nodiscard]] std::uint64_t sum() const {
    std::uint64_t total = 0;
    for (std::uint64_t page = 0; page < kPages; ++page) total += load(word(page));
    return total;
  }
  void fill() const {
    atomically(domain, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page) store(word(page), kStart);
    });
  }
  Domain domain;
  Segment segment;
  Site site;
};

class MultiRecallTest : public ModeTest {
 protected:
  [[nodiscard]] DomainOptions quick() const {
    DomainOptions chosen = options();
    chosen.policies.escalation = "after-n=4";
    return chosen;
  }
};

TEST_P(MultiRecallTest, EveryScanSeesOneSumWhileLevelOneTransfers) {
  const Player first(folder_.path(), quick());
  first.fill();
  Children children;
  for (std::uint32_t number = 0; number < kProcesses; ++number) {
    children.spawn("player " + std::to_string(number), [&, number] {
      const Player self(folder_.path(), quick());
      std::uint64_t random = seed() + number;
      const auto draw = [&random] {
        return (random = random * 6364136223846793005ull + 1442695040888963407ull) >> 33;
      };
      for (int round = 0; round < kRounds; ++round) {
        for (int i = 0; i < kSmallPerScan; ++i) {
          const std::uint64_t from = draw() % kPages, to = draw() % kPages;
          atomically(self.site, [&](Fields) {
            --self.shared(from);
            ++self.shared(to);
          });
        }
        if (round % 2 == 0) {
          ASSERT_EQ(query(self.domain, [&] { return self.sum(); }), kPages * kStart)
              << "round " << round;
          continue;
        }
        const std::uint64_t from = draw() % kPages, to = draw() % kPages;
        atomically(self.domain, [&] {
          EXPECT_EQ(self.sum(), kPages * kStart) << "round " << round;
          store(self.word(from), load(self.word(from)) - 1);
          store(self.word(to), load(self.word(to)) + 1);
        });
      }
      EXPECT_GT(self.site.report().line_commits, 0U);
    });
  }
  children.expect_success();
  EXPECT_EQ(query(first.domain, [&] { return first.sum(); }), kPages * kStart);
  const Counters counters = first.domain.counters();
  EXPECT_GT(counters.releases, 0U);
}

TEST_P(MultiRecallTest, AScanTakesEachPageOnceWithFewSignals) {
  const Player self(folder_.path(), quick());
  EXPECT_EQ(query(self.domain, [&] { return self.sum(); }), 0U);
  const Counters counters = self.domain.counters();
  EXPECT_EQ(counters.recalls, kPages);
  if (GetParam().tracking != Tracking::kSignalHot) {
    EXPECT_LT(counters.faults_signal, kPages / 8);
  }
}

TEST_P(MultiRecallTest, PagesTakenAheadAreNotRead) {
  const Player first(folder_.path(), quick());
  constexpr std::uint64_t kTouched = 6;  // the last of these touches takes pages ahead
  run_pair(
      "",
      [&](Actor &, Turn &turn) {
        const Player self(folder_.path(), options());  // as the Actor has it
        self.domain.begin();
        for (std::uint64_t page = 0; page < kTouched; ++page) (void)load(self.word(page));
        store(self.word(0), std::uint64_t{1});
        turn.reach(1);
        turn.await(2);
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
      },
      [&](Actor &, Turn &turn) {
        const Player self(folder_.path(), options());  // as the Actor has it
        turn.await(1);
        for (std::uint64_t page = kTouched; page < kTouched + 8; ++page)
          atomically(self.domain, [&] { store(self.word(page), std::uint64_t{7}); });
        turn.reach(2);
      });
  EXPECT_EQ(query(first.domain, [&] { return first.sum(); }), 1 + 8 * 7U);
}

// The page has two versions when the instance takes it ahead of a touch that never comes: the older
// one, which its snapshot reads, has just gone home, and the newer one, which a second query keeps
// where it is, has been committed since. Its next instance must not read the former.
TEST_P(MultiRecallTest, PageTakenAheadBetweenTwoOfItsVersionsIsReadAnewByTheNextInstance) {
  constexpr std::uint64_t kPage = 3;  // behind two touches
  const std::string folder = folder_.path();
  const auto set = [](const Player &self, std::uint64_t value) {
    atomically(self.domain, [&] { store(self.word(kPage), value); });
  };
  Schedule schedule;
  const auto add_query = [&](const char *name, std::uint64_t page) {
    return schedule.add(name, [&, page] {
      const Player self(folder, quick());
      query(self.domain, [&] {
        static_cast<void>(load(self.word(page)));
        Schedule::mark(1);
      });
    });
  };
  const auto older = add_query("older query", kPages - 1),
             newer = add_query("newer query", kPages - 2);
  const auto writer = schedule.add("writer", [&] {
    const Player self(folder, quick());
    set(self, 1);
    Schedule::mark(1);
    set(self, 2);
    Schedule::mark(2);
    EXPECT_EQ(self.domain.collect(), 1U);
    Schedule::mark(3);
  });
  const auto scanner = schedule.add("scanner", [&] {
    const Player self(folder, quick());
    self.domain.begin();
    Schedule::mark(1);
    for (std::uint64_t page = 0; page < 2; ++page) static_cast<void>(load(self.word(page)));
    store(self.word(0), std::uint64_t{7});
    EXPECT_EQ(self.domain.end(), Status::kCommitted);
    atomically(self.domain, [&] { store(self.word(kPage), load(self.word(kPage)) + 1); });
  });
  schedule.run(older, to_mark(1));
  schedule.run(writer, to_mark(1));
  schedule.run(scanner, to_mark(1));
  schedule.run(newer, to_mark(1));
  schedule.run(writer, to_mark(2));
  schedule.run(older, kToEnd);
  schedule.run(writer, to_mark(3));
  schedule.run(scanner, kToEnd);
  schedule.finish();
  expect_child("auditor", [&] {
    const Player self(folder, quick());
    EXPECT_EQ(query(self.domain, [&] { return load(self.word(kPage)); }), 3U);
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, MultiRecallTest,
                         testing::ValuesIn(std::begin(kModes) + 5, std::end(kModes)), mode_name);

}  // namespace
}  // namespace tmh::test
