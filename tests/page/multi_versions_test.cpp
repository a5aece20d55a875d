// tests/page/multi_versions_test.cpp -- commits that a reader's snapshot keeps from going home,
// seen by a process that has not touched their pages.
// Invariants: (1) whoever begins after a commit sees it, though home lacks it: at a page's first
//             version, at one that came on top of another, at pages that are opened ahead of their
//             touch. (2) the reader goes on seeing its snapshot. (3)
//             a page keeps what some snapshot reads, and one version more: not what a snapshot
//             needed that has gone since.
// Order:      roles hand each other the turn; each test's head says who has it.
#include <cstdint>
#include <functional>

#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

class VersionsTest : public ModeTest {
 protected:
  using Play = std::function<void(const Actor &self, Turn &turn)>;
  // Joins when `turn` is reached.
  void spawn(const char *name, std::uint32_t turn, const Play &play) {
    children_.spawn(name, role(*turn_, [this, turn, play] {
                      turn_->await(turn);
                      const Actor self(folder_.path(), options());
                      play(self, *turn_);
                    }));
  }
  // Has a snapshot from the turn `from` on until `to`, and stays in the domain until `end`: who
  // leaves brings home what may go.
  void spawn_reader(std::uint32_t from, std::uint32_t to, std::uint32_t end) {
    spawn("reader", 0, [from, to, end](const Actor &self, Turn &turn) {
      turn.await(from);
      query(self.domain, [&] {
        const std::uint64_t seen = self.get(kRead);
        turn.reach(from + 1);
        turn.await(to);
        EXPECT_EQ(self.get(kRead), seen);
      });
      if (to < end) turn.reach(to + 1);
      turn.await(end);
    });
  }

  static constexpr std::uint64_t kKept = 0, kRead = 5;
  const Shared<Turn> turn_;
  Children children_;
};

INSTANTIATE_TEST_SUITE_P(Modes, VersionsTest, testing::ValuesIn(kModes), mode_name);

// Turns: 1 looker has instances behind it, 2 reader has a snapshot, 3 writer has committed, 4
//        looker has looked.
TEST_P(VersionsTest, FirstVersionOfAPageThatWasNeverTouched) {
  spawn("looker", 0, [](const Actor &self, Turn &turn) {
    for (std::uint64_t i = 1; i <= 3; ++i) self.commit(kKept, i);
    turn.reach(1);
    turn.await(3);
    atomically(self.domain, [&] {
      EXPECT_EQ(self.get(kKept), 3U);
      EXPECT_EQ(self.get(kRead), 7U);
    });
    turn.reach(4);
  });
  spawn_reader(1, 4, 4);
  spawn("writer", 0, [](const Actor &self, Turn &turn) {
    turn.await(2);
    self.commit(kRead, 7);
    turn.reach(3);
    turn.await(4);
  });
  children_.expect_success();
}

// Turns: 1 looker has instances behind it, 2 first reader has a snapshot, 3 writer has committed, 4
// looker has begun, 5 second reader has a snapshot, 6 first reader is done, 7 writer has committed
// on top, and what the first one kept is home, 8 looker has asked for the page, and looked in its
// next instance.
TEST_P(VersionsTest, VersionOnTopOfAnotherOfAPageThatWasAskedForAndNotTouched) {
  spawn("looker", 0, [](const Actor &self, Turn &turn) {
    for (std::uint64_t i = 1; i <= 3; ++i) self.commit(kKept, i);
    turn.reach(1);
    turn.await(3);
    atomically(self.domain, [&] {
      turn.reach(4);
      turn.await(7);
      self.domain.advise(&self.word(kRead), Access::kRead);
    });
    atomically(self.domain, [&] { EXPECT_EQ(self.get(kRead), 8U); });
    turn.reach(8);
  });
  spawn_reader(1, 5, 8);
  spawn_reader(4, 8, 8);
  spawn("writer", 0, [](const Actor &self, Turn &turn) {
    turn.await(2);
    self.commit(kRead, 7);
    turn.reach(3);
    turn.await(6);
    self.commit(kRead, 8);
    EXPECT_EQ(self.domain.collect(), 1U);
    turn.reach(7);
    turn.await(8);
  });
  children_.expect_success();
}

// Turns: 1 all pages are home, 2 reader has a snapshot, 3 writer has committed, 4 looker, who has
//        touched nothing before, has read page after page.
TEST_P(VersionsTest, VersionsOfPagesThatFollowEachOther) {
  constexpr std::uint64_t kPages = 16;
  const auto is_changed = [](std::uint64_t page) {
    return page == kRead || page == kRead + 2 || page == kPages - 1;
  };
  spawn("writer", 0, [=](const Actor &self, Turn &turn) {
    atomically(self.domain, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page) self.set(page, 1);
    });
    turn.reach(1);
    turn.await(2);
    atomically(self.domain, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page)
        if (is_changed(page)) self.set(page, 2);
    });
    turn.reach(3);
    turn.await(4);
  });
  spawn_reader(1, 4, 4);
  spawn("looker", 3, [=](const Actor &self, Turn &turn) {
    atomically(self.domain, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page)
        EXPECT_EQ(self.get(page), is_changed(page) ? 2U : 1U) << page;
    });
    turn.reach(4);
  });
  children_.expect_success();
}

// Step k (turn k + 1): writer k % 3 commits the instance that it began at step k - 3, and begins
// one that changes the pages k % 4 of 4 groups. So whenever a page gets a version, instances of the
// two others stand between that one and the page's last, and no two of them meet on a page.
TEST_P(VersionsTest, OneQueryUnderThreeWritersKeepsTwoVersionsOfAPage) {
  constexpr std::uint32_t kWriters = 3, kGroups = kWriters + 1, kSteps = 20 * kGroups,
                          kEnd = kSteps + 2;
  constexpr std::uint64_t kPagesOfGroup = kStagePages / kGroups;
  const auto change = [](const Actor &self, std::uint32_t step) {
    self.domain.begin();
    const std::uint64_t first = step % kGroups * kPagesOfGroup;
    for (std::uint64_t page = first; page < first + kPagesOfGroup; ++page) self.set(page, step + 1);
  };
  spawn_reader(0, kEnd, kEnd);
  for (std::uint32_t writer = 0; writer < kWriters; ++writer) {
    spawn("writer", 1, [=](const Actor &self, Turn &turn) {
      for (std::uint32_t step = writer; step < kSteps; step += kWriters) {
        turn.await(step + 1);
        // Kept pages may have made it fail. Nobody else commits in this step, so it does not fail
        // again.
        if (step >= kWriters && self.domain.end() != Status::kCommitted) {
          change(self, step - kWriters);
          EXPECT_EQ(self.domain.end(), Status::kCommitted);
        }
        change(self, step);
        if (step + 1 < kSteps) turn.reach(step + 2);
        if (step + 1 == kSteps) {
          EXPECT_GE(self.domain.counters().versions_live, kStagePages);
          EXPECT_LE(self.domain.counters().versions_live, 2 * kStagePages);
          turn.reach(kEnd);
        }
      }
      turn.await(kEnd);
      self.domain.abort();
    });
  }
  children_.expect_success();
}

// Turns: 2 i + 1 reader i has a snapshot, 2 i + 2 writer has changed the pages once more, kLast the
// snapshots but that of reader 0 have gone.
TEST_P(VersionsTest, WhatASnapshotNeededThatHasGoneIsFoldedThoughNobodyWritesThePageAgain) {
  constexpr std::uint32_t kReaders = 5, kGo = 2 * kReaders, kLast = kGo + kReaders - 1,
                          kEnd = kLast + 1;
  constexpr std::uint64_t kPages = 16, kOther = kPages;
  for (std::uint32_t reader = 0; reader < kReaders; ++reader) {
    spawn("reader", 2 * reader, [=](const Actor &self, Turn &turn) {
      query(self.domain, [&] {
        EXPECT_EQ(self.get(0), reader);
        turn.reach(2 * reader + 1);
        turn.await(reader == 0 ? kEnd : kGo + reader - 1);
        EXPECT_EQ(self.get(0), reader);
      });
      if (reader != 0) turn.reach(kGo + reader);
      turn.await(kEnd);
    });
  }
  spawn("writer", 1, [=](const Actor &self, Turn &turn) {
    for (std::uint32_t reader = 0; reader < kReaders; ++reader) {
      turn.await(2 * reader + 1);
      atomically(self.domain, [&] {
        for (std::uint64_t page = 0; page < kPages; ++page) self.set(page, reader + 1);
      });
      if (reader + 1 < kReaders) turn.reach(2 * reader + 2);
    }
    EXPECT_GE(self.domain.counters().versions_live, kReaders * kPages);
    turn.reach(kGo);
    turn.await(kLast);
    EXPECT_TRUE(poll_until([&] {
      self.commit(kOther, self.committed(kOther) + 1);
      return self.domain.counters().versions_live <= kPages + 2;
    })) << self.domain.counters().versions_live
        << " versions of " << kPages + 1 << " pages";
    turn.reach(kEnd);
  });
  children_.expect_success();
}

}  // namespace
}  // namespace tmh::test
