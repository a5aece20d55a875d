// tests/page/multi_wide_commit_test.cpp -- commits of many pages, which are validated before they
// take the domain lock, and under it against what has come meanwhile.
// Invariants: (1) a conflict ends the instance whether it was committed before the first look or
//             between that and the lock; nothing of the loser is to be seen, and it succeeds when
//             it is tried again. (2) what others commit elsewhere, or to other lines of a page
//             under snapshot isolation, ends no instance, and stays. (3) an instance that has lost
//             before its end takes no version slot.
// Order:      the two roles hand each other the turn; the window is a step of the commit.
// Source:     EXCITE-VM, section 4.5.
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include "tests/support/at_step.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

// More than a commit must have to be validated ahead; the rest of the stage is for reading.
constexpr std::uint64_t kWritten = 24, kRead = 30, kElsewhere = 40;
constexpr std::uint64_t kWordsPerLine = 64 / sizeof(std::uint64_t);

// Where the other one commits.
enum class When : std::uint8_t { kBeforeEnd, kInWindow };
constexpr std::array<When, 2> kWhen = {When::kBeforeEnd, When::kInWindow};

class WideCommitTest : public ModeTest {
 protected:
  // One writes kWritten pages and reads kRead; two does `other` meanwhile.
  void expect_end(Isolation isolation, When when, const std::function<void(Actor &)> &other,
                  Status expected, const std::function<void(Actor &)> &look) const {
    run_pair(
        "",
        [&](Actor &self, Turn &turn) {
          const auto write_all = [&] {
            for (std::uint64_t page = 0; page < kWritten; ++page) self.set(page, 100 + page);
          };
          const auto let_other = [&turn] {
            turn.reach(1);
            turn.await(2);
          };
          self.domain.begin(isolation);
          EXPECT_EQ(self.get(kRead), self.get(kRead + 1));
          write_all();
          if (when == When::kBeforeEnd) {
            let_other();
            EXPECT_EQ(self.domain.end(), expected);
          } else {
            const AtStep window(observe::Step::kCommitSlotsFilled, let_other);
            EXPECT_EQ(self.domain.end(), expected);
          }
          look(self);
          for (std::uint64_t page = 1; page < kWritten; ++page)
            EXPECT_EQ(self.committed(page), expected == Status::kCommitted ? 100 + page : 0U)
                << page;
          self.domain.begin(isolation);
          write_all();
          EXPECT_EQ(self.domain.end(), Status::kCommitted) << "the next one is alone";
          for (std::uint64_t page = 0; page < kWritten; ++page)
            EXPECT_EQ(self.committed(page), 100 + page);
          // The next pair's stage.
          atomically(self.domain, [&] {
            for (std::uint64_t page = 0; page < kStagePages; ++page)
              for (std::uint64_t line = 0; line < 2; ++line)
                store((&self.word(page))[line * kWordsPerLine], std::uint64_t{0});
          });
        },
        [&](Actor &self, Turn &turn) {
          turn.await(1);
          other(self);
          turn.reach(2);
        });
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, WideCommitTest, testing::ValuesIn(lazy_modes()), mode_name);

TEST_P(WideCommitTest, APageReadThatWasCommittedEndsASerializableInstance) {
  for (const When when : kWhen)
    expect_end(
        Isolation::kSerializable, when, [](Actor &self) { self.commit(kRead, 7); },
        Status::kAborted, [](Actor &self) { EXPECT_EQ(self.committed(kRead), 7U); });
}

TEST_P(WideCommitTest, APageReadThatWasCommittedConcernsNoSnapshotInstance) {
  for (const When when : kWhen)
    expect_end(
        Isolation::kSnapshot, when, [](Actor &self) { self.commit(kRead, 7); }, Status::kCommitted,
        [](Actor &self) { EXPECT_EQ(self.committed(kRead), 7U); });
}

TEST_P(WideCommitTest, ALineWrittenThatWasCommittedEndsEither) {
  for (const When when : kWhen)
    for (const Isolation isolation : {Isolation::kSerializable, Isolation::kSnapshot})
      expect_end(
          isolation, when, [](Actor &self) { self.commit(0, 7); }, Status::kAborted,
          [](Actor &self) { EXPECT_EQ(self.committed(0), 7U); });
}

TEST_P(WideCommitTest, OtherLinesOfThePagesMergeUnderSnapshotIsolation) {
  for (const When when : kWhen)
    expect_end(
        Isolation::kSnapshot, when,
        [](Actor &self) {
          atomically(self.domain, [&] {
            for (std::uint64_t page = 0; page < kWritten; ++page)
              store((&self.word(page))[kWordsPerLine], 200 + page);
          });
        },
        Status::kCommitted,
        [](Actor &self) {
          query(self.domain, [&] {
            for (std::uint64_t page = 0; page < kWritten; ++page)
              EXPECT_EQ(load((&self.word(page))[kWordsPerLine]), 200 + page) << page;
          });
        });
}

// As many commits in the window as the commit log is looked through for, and more.
TEST_P(WideCommitTest, CommitsElsewhereEndNobody) {
  for (const std::uint64_t commits : {1U, 100U})
    for (const When when : kWhen)
      for (const Isolation isolation : {Isolation::kSerializable, Isolation::kSnapshot})
        expect_end(
            isolation, when,
            [commits](Actor &self) {
              for (std::uint64_t i = 0; i < commits; ++i) self.commit(kElsewhere + i % 8, i + 1);
            },
            Status::kCommitted,
            [commits](Actor &self) {
              EXPECT_EQ(self.committed(kElsewhere + (commits - 1) % 8), commits);
            });
}

// The conflict is the last of many, or hidden behind a later commit to another line of its page.
TEST_P(WideCommitTest, AConflictAmongManyCommitsIsFound) {
  for (const std::uint64_t commits : {3U, 100U})
    for (const When when : kWhen)
      for (const Isolation isolation : {Isolation::kSerializable, Isolation::kSnapshot})
        expect_end(
            isolation, when,
            [commits](Actor &self) {
              for (std::uint64_t i = 0; i < commits; ++i) self.commit(kElsewhere + i % 8, i + 1);
              self.commit(0, 7);
              atomically(self.domain,
                         [&] { store((&self.word(0))[kWordsPerLine], std::uint64_t{8}); });
            },
            Status::kAborted,
            [](Actor &self) {
              EXPECT_EQ(self.committed(0), 7U);
              query(self.domain, [&] { EXPECT_EQ(load((&self.word(0))[kWordsPerLine]), 8U); });
            });
}

// What has been looked at once is not taken for what comes: an extension in between, a promotion
// of a page that is only read.
TEST_P(WideCommitTest, APromotedLineCountsInTheWindowToo) {
  for (const When when : kWhen)
    run_pair(
        "isolation=snapshot",
        [&](Actor &self, Turn &turn) {
          const auto let_other = [&turn] {
            turn.reach(1);
            turn.await(2);
          };
          self.domain.begin();
          promote(self.word(kRead));
          for (std::uint64_t page = 0; page < kWritten; ++page) self.set(page, 1);
          if (when == When::kBeforeEnd) {
            let_other();
            EXPECT_EQ(self.domain.end(), Status::kAborted);
          } else {
            const AtStep window(observe::Step::kCommitSlotsFilled, let_other);
            EXPECT_EQ(self.domain.end(), Status::kAborted);
          }
          EXPECT_EQ(self.committed(0), 0U);
          EXPECT_EQ(self.committed(kRead), 7U);
          self.commit(kRead, 0);
        },
        [&](Actor &self, Turn &turn) {
          turn.await(1);
          self.commit(kRead, 7);
          turn.reach(2);
        });
}

std::atomic<int> slots_reserved;

TEST_P(WideCommitTest, WhoHasLostBeforeItsEndTakesNoSlot) {
  for (const Isolation isolation : {Isolation::kSerializable, Isolation::kSnapshot})
    run_pair(
        "",
        [&](Actor &self, Turn &turn) {
          self.domain.begin(isolation);
          (void)self.get(0);
          for (std::uint64_t page = 0; page < kWritten; ++page) self.set(page, 1);
          turn.reach(1);
          turn.await(2);  // the other one has committed a line that this one has written
          slots_reserved = 0;
          observe::set_step_hook([](observe::Step step) {
            if (step == observe::Step::kCommitSlotsReserved) ++slots_reserved;
          });
          EXPECT_EQ(self.domain.end(), Status::kAborted);
          EXPECT_EQ(slots_reserved, 0);
          self.domain.begin(isolation);
          for (std::uint64_t page = 0; page < kWritten; ++page) self.set(page, 2);
          EXPECT_EQ(self.domain.end(), Status::kCommitted);
          EXPECT_EQ(slots_reserved, 1);
          observe::set_step_hook(nullptr);
        },
        [&](Actor &self, Turn &turn) {
          turn.await(1);
          self.commit(0, 7);
          turn.reach(2);
        });
}

}  // namespace
}  // namespace tmh::test
