// tests/multi_versions_test.cpp -- commits that a reader's snapshot keeps from going home, seen by a process that has not touched their pages.
// Invariants: (1) whoever begins after a commit sees it, though home lacks it: at a page's first version, at one that came on top of another, at pages
//             that are opened ahead of their touch. (2) the reader goes on seeing its snapshot.
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
  // Has a snapshot from the turn `from` on until `to`, and stays in the domain until `end`: who leaves brings home what may go.
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

// Turns: 1 looker has instances behind it, 2 reader has a snapshot, 3 writer has committed, 4 looker has looked.
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

// Turns: 1 looker has instances behind it, 2 first reader has a snapshot, 3 writer has committed, 4 looker has begun, 5 second reader has a snapshot, 6
// first reader is done, 7 writer has committed on top, and what the first one kept is home, 8 looker has asked for the page, and looked in its next
// instance.
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

// Turns: 1 all pages are home, 2 reader has a snapshot, 3 writer has committed, 4 looker, who has touched nothing before, has read page after page.
TEST_P(VersionsTest, VersionsOfPagesThatFollowEachOther) {
  constexpr std::uint64_t kPages = 16;
  const auto is_changed = [](std::uint64_t page) { return page == kRead || page == kRead + 2 || page == kPages - 1; };
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
      for (std::uint64_t page = 0; page < kPages; ++page) EXPECT_EQ(self.get(page), is_changed(page) ? 2U : 1U) << page;
    });
    turn.reach(4);
  });
  children_.expect_success();
}

}  // namespace
}  // namespace tmh::test
