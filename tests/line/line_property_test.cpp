// tests/line/line_property_test.cpp -- level 1 against a sequential model, for random sequences of
// accesses; undo words and recovery by hand.
// Invariants: (1) one thread's instances do what the same accesses to an array of bytes do; aborted
//             ones do nothing. (2) undo words give the page as it was at the pinned stamp, however
//             many commits came after. (3) recovery is idempotent and all or nothing.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "levels/line/recovery.h"
#include "storage/participants.h"
#include "tests/support/at_step.h"
#include "tests/support/line_rig.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::size_t kBytes = 512;  // eight lines

// At the model.
std::uint64_t load(const std::array<std::uint8_t, kBytes> &model, std::size_t at,
                   std::size_t size) {
  std::uint64_t value = 0;
  std::memcpy(&value, model.data() + at, size);
  return value;
}

// One participant above, with a pin at a fixed stamp.
class PinnedAbove : public line::NoReleaser {
 public:
  PinnedAbove() noexcept { participant_.pin = storage::kNoPin; }
  storage::Pins pins() const noexcept override { return {&kHigh, &participant_}; }
  std::uint64_t oldest_line_pin() noexcept override { return participant_.line_pin; }
  void pin(std::uint64_t at) noexcept {
    participant_.line_pin = at;
    participant_.pin = at;
  }

 private:
  static constexpr std::atomic<std::uint32_t> kHigh{1};
  storage::Participant participant_{};
};

class LinePropertyTest : public testing::Test {
 protected:
  MemoryFolder folder_;
  LineRig rig_{folder_.path()};
  PinnedAbove above_;
  RigThread thread_{rig_, above_};
};

TEST_F(LinePropertyTest, InstancesAreArraysOfBytes) {
  static_cast<void>(seed());
  std::array<std::uint8_t, kBytes> model{};
  const bool right = rc::check("random accesses", [&] {
    const auto count = *rc::gen::inRange<std::size_t>(1, 40);
    const bool commits = *rc::gen::arbitrary<bool>();
    std::array<std::uint8_t, kBytes> own = model;
    thread_.begin({});
    for (std::size_t i = 0; i < count; ++i) {
      const auto size_log2 = *rc::gen::inRange<unsigned>(0, 4);
      const std::size_t size = std::size_t{1} << size_log2;
      const std::size_t at = *rc::gen::inRange<std::size_t>(0, kBytes / size) * size;
      std::byte *const address = rig_.view() + at;
      if (*rc::gen::arbitrary<bool>()) {
        const auto value = *rc::gen::arbitrary<std::uint64_t>();
        store_bytes(thread_, address, value, size);
        std::memcpy(own.data() + at, &value, size);
      } else {
        RC_ASSERT(load_bytes(thread_, address, size) == load(own, at, size));
      }
    }
    if (commits) {
      RC_ASSERT(thread_.commit() == Status::kCommitted);
      model = own;
    } else {
      thread_.abandon();
    }
    RC_ASSERT(std::memcmp(rig_.view(), model.data(), kBytes) == 0);
  });
  EXPECT_TRUE(right);
}

TEST_F(LinePropertyTest, UndoWordsGiveThePageAsItWasAtThePin) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 20; ++round) {
    std::vector<std::byte> then(rig_.view(), rig_.view() + kPageBytes);
    above_.pin(rig_.memory().state().clock.load());
    for (int commit = 0; commit < 50; ++commit) {
      thread_.update([&] {
        for (int i = 0; i < 5; ++i)
          thread_.store(rig_.words() + random() % (kPageBytes / 8), random());
        thread_.store(rig_.view() + random() % kPageBytes, std::byte{7});
      });
    }
    std::vector<std::byte> page(rig_.view(), rig_.view() + kPageBytes);
    ASSERT_NE(page, then);
    line::undo_page(rig_.memory(), storage::page_id(0, storage::PageIndex{0}),
                    above_.oldest_line_pin(), nullptr, page.data());
    ASSERT_EQ(page, then) << "round " << round;
  }
}

// Lists of the ring lead to words that were overwritten since, also by words of the same page.
TEST_F(LinePropertyTest, UndoWordsAreFoundWhenTheRingHasComeRound) {
  constexpr std::uint64_t kPages = 16, kWords = kPages * kPageBytes / 8;
  std::mt19937_64 random(seed());
  const auto page_at = [&](std::uint64_t page) { return rig_.view() + page * kPageBytes; };
  for (std::uint64_t saved = 0; saved < 3 * line::kUndoWords; saved += 1000) {
    above_.pin(rig_.memory().state().clock.load());
    const std::uint64_t first = random() % (kWords - 1000);
    thread_.update([&] {
      for (std::uint64_t i = 0; i < 1000; ++i) thread_.store(rig_.words() + first + i, random());
    });
    if (saved / 1000 % 16 != 0) continue;
    std::vector<std::byte> then(page_at(0), page_at(kPages));
    above_.pin(rig_.memory().state().clock.load());
    for (int commit = 0; commit < 20; ++commit)
      thread_.update([&] { thread_.store(rig_.words() + random() % kWords, random()); });
    for (std::uint64_t page = 0; page < kPages; ++page) {
      std::vector<std::byte> now(page_at(page), page_at(page + 1));
      line::undo_page(rig_.memory(), storage::page_id(0, storage::PageIndex{page}),
                      above_.oldest_line_pin(), nullptr, now.data());
      ASSERT_EQ(std::memcmp(now.data(), then.data() + page * kPageBytes, kPageBytes), 0)
          << "page " << page << " after " << saved << " words";
    }
  }
}

TEST_F(LinePropertyTest, NoUndoWordIsStoredForNobody) {
  thread_.update([&] { thread_.store(rig_.words(), std::uint64_t{1}); });
  EXPECT_EQ(rig_.memory().context(thread_.context_number()).undo_head.load(), 0U);
}

// Else a pin that comes between the two is not seen, and does not cover the stamp.
TEST_F(LinePropertyTest, PinsAreLookedForBehindTheStamp) {
  const AtStep step(observe::Step::kLineStamp,
                    [&] { above_.pin(rig_.memory().state().clock.load() - 1); });
  thread_.update([&] { thread_.store(rig_.words(), std::uint64_t{1}); });
  EXPECT_EQ(rig_.memory().context(thread_.context_number()).undo_head.load(), 1U);
}

TEST_F(LinePropertyTest, FullUndoRingAbortsAndAPassedPinFreesIt) {
  above_.pin(rig_.memory().state().clock.load());
  line::Begin options;
  std::uint64_t commits = 0;
  const auto body = [&] {
    for (std::uint64_t line = 0; line < 1000; ++line)
      thread_.store(rig_.words() + 8 * line, commits);
  };
  while (line::attempt(thread_, options, body) == Status::kCommitted) ++commits;
  EXPECT_EQ(commits, line::kUndoWords / 1000);
  EXPECT_EQ(thread_.cause(), AbortCause::kCapacity);
  EXPECT_EQ(rig_.words()[0], commits - 1);
  // One that needs little still finds room, also after the one that did not.
  EXPECT_EQ(line::attempt(thread_, options, [&] { thread_.store(rig_.words(), std::uint64_t{1}); }),
            Status::kCommitted);
  above_.pin(rig_.memory().state().clock.load());
  EXPECT_EQ(line::attempt(thread_, options, body), Status::kCommitted);
}

TEST_F(LinePropertyTest, RecoveryWritesBackWhatWasCommittedAndOnlyThat) {
  for (const line::State state :
       {line::State::kPending, line::State::kFailed, line::State::kCommitted}) {
    // As a thread leaves it that dies between line-lock and line-unlock, one of its two lines being
    // unlocked already.
    std::uint32_t number = 0;
    ASSERT_EQ(rig_.memory().take_context(3, 9, &number), Errc::kOk);
    line::LineContextV1 &context = rig_.memory().context(number);
    const std::uint64_t before = rig_.memory().state().clock.load();
    context.lines.store(2);
    context.stamp.store(before + 1);
    for (std::uint64_t i = 0; i < 2; ++i) {
      line::LineWrite &entry = context.writes[i];
      entry.at = line::where(0, 64 * i);
      entry.before.store(before);
      entry.mask = 0xff00;
      entry.data[1] = 77;
      rig_.words()[8 * i] = 5;
      rig_.words()[8 * i + 1] = 5;
    }
    rig_.word_of(rig_.words()).store(line::locked_by(number, 0));
    rig_.word_of(rig_.words() + 8).store(before + 5);
    context.status.store(line::status_word(4, state));
    context.in_flight.store(before + 1);
    const std::uint64_t redo_head = context.redo_head.load();
    context.redo_next.store(redo_head + 64);
    rig_.memory().state().priority.store(number + 1ull);
    for (int twice = 0; twice < 2; ++twice) {
      EXPECT_TRUE(line::recover_contexts(rig_.memory(), 3, 9));
      const bool committed = state == line::State::kCommitted;
      EXPECT_EQ(rig_.words()[0], 5U);
      EXPECT_EQ(rig_.words()[1], committed ? 77U : 5U);
      EXPECT_EQ(rig_.words()[9], 5U) << "a line that is not locked by the dead is not its own";
      EXPECT_EQ(rig_.word_of(rig_.words()).load(), committed ? before + 1 : before);
      EXPECT_EQ(rig_.memory().state().priority.load(), 0U);
      EXPECT_EQ(context.in_flight.load(), 0U) << "whoever writes the log would wait for it";
      EXPECT_EQ(context.redo_head.load(), redo_head + (committed ? 64 : 0))
          << "its record is there, or is not";
      EXPECT_EQ(context.owner.load(), line::Owner{});
    }
  }
}

TEST_F(LinePropertyTest, RecoveryLeavesWhatItDoesNotKnow) {
  std::uint32_t number = 0;
  ASSERT_EQ(rig_.memory().take_context(3, 9, &number), Errc::kOk);
  line::LineContextV1 &context = rig_.memory().context(number);
  context.lines.store(1);
  context.writes[0].at = line::where(200, 0);  // no such segment here
  context.status.store(line::status_word(1, line::State::kCommitted));
  EXPECT_FALSE(line::recover_contexts(rig_.memory(), 3, 9));
  EXPECT_NE(context.owner.load(), line::Owner{});
}

}  // namespace
}  // namespace tmh::test
