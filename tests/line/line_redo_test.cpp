// tests/line/line_redo_test.cpp -- level 1's redo rings: what a commit leaves there, and who may
// take it.
// Invariants: (1) the records of all contexts, applied in the order of their stamps to an empty
//             copy, give home. (2) aborted instances leave none. (3) a ring comes round only over
//             what was forgotten; without room the instance escalates; a commit asks for no memory.
//             (4) a record that its dead owner had not shown counts exactly when the commit point
//             was passed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "levels/line/log_reserver.h"
#include "levels/line/recovery.h"
#include "levels/line/redo.h"
#include "observe/steps.h"
#include "storage/log/log_record.h"
#include "tests/support/failing_new.h"
#include "tests/support/line_rig.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kBytes = 1u << 20;

// A log that keeps what it is given, applied to a copy.
class CopyLog final : public line::LogReserver {
 public:
  explicit CopyLog(LineRig &rig) : rig_(rig), copy_(kBytes) {}

  [[nodiscard]] Errc look() noexcept override { return Errc::kOk; }
  [[nodiscard]] Errc reserve(std::uint64_t bytes) noexcept override {
    if (is_full) return Errc::kDiskFull;
    reserved_ += bytes;
    return Errc::kOk;
  }
  void give_back(std::uint64_t bytes) noexcept override { reserved_ -= bytes; }
  [[nodiscard]] Errc promise(storage::PageId page) noexcept override {
    promised_[static_cast<std::uint64_t>(storage::page_index(page))] = true;
    return Errc::kOk;
  }
  [[nodiscard]] Errc drain() noexcept override {
    ++drains;
    if (!is_stuck) take();
    return Errc::kOk;
  }
  void free_room() noexcept override {}
  void write_soon() noexcept override { ++asked; }

  // REQUIRES: no commit is in flight.
  void take() {
    const std::uint64_t now = rig_.memory().state().clock.load();
    std::vector<line::RedoRecord> records;
    ASSERT_EQ(line::gather_redo(rig_.memory(), done_, now, &records), Errc::kOk);
    for (const line::RedoRecord &record : records) {
      EXPECT_GT(record.header.stamp, done_);
      done_ = record.header.stamp;
      ++count;
      EXPECT_GE(record.header.reserved_bytes, record.header.bytes);
      reserved_ -= record.header.reserved_bytes;
      storage::DeltaCursor cursor(record.deltas, record.header.bytes - sizeof record.header);
      storage::PageDelta delta;
      while (cursor.next(&delta)) {
        EXPECT_TRUE(promised_[static_cast<std::uint64_t>(storage::page_index(delta.page))]);
        storage::apply_delta(delta, copy_.data() + storage::page_offset(delta.page));
      }
      EXPECT_FALSE(cursor.is_malformed());
    }
    done_ = now;
    line::forget_redo(rig_.memory(), now);
  }
  void expect_home() {
    take();
    EXPECT_EQ(std::memcmp(copy_.data(), rig_.view(), kBytes), 0);
    EXPECT_EQ(reserved_.load(), 0U);
  }

  std::atomic<bool> is_full{false}, is_stuck{false};
  std::atomic<std::uint64_t> asked{0};
  std::uint64_t count = 0, drains = 0;

 private:
  LineRig &rig_;
  std::vector<std::byte> copy_;
  std::array<std::atomic<bool>, kBytes / kPageBytes> promised_{};
  std::uint64_t done_ = 0;
  std::atomic<std::uint64_t> reserved_{0};
};

class LineRedoTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(thread_.attach(0, LineRig::kIncarnation), Errc::kOk); }
  // Stores of 1 to 8 bytes anywhere.
  void store_randomly(line::SoftwareThread &thread, std::mt19937_64 &random, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto bytes = 1u << random() % 4;
      const std::uint64_t at = random() % (kBytes / bytes) * bytes;
      store_bytes(thread, rig_.view() + at, random(), bytes);
    }
  }
  MemoryFolder folder_;
  LineRig rig_{folder_.path(), kBytes};
  CopyLog log_{rig_};
  line::SoftwareThread thread_{rig_.memory(), rig_.releaser(), &log_};
};

TEST_F(LineRedoTest, RecordsGiveHomeAndAbortedOnesLeaveNone) {
  std::mt19937_64 random(seed());
  std::uint64_t committed = 0;
  for (int i = 0; i < 8000; ++i) {
    thread_.begin({});
    store_randomly(thread_, random, 1 + random() % 30);
    if (random() % 5 == 0) {
      thread_.abandon();
      continue;
    }
    ASSERT_EQ(thread_.commit(), Status::kCommitted);
    ++committed;
    if (random() % 50 == 0) log_.take();
  }
  log_.expect_home();
  EXPECT_EQ(log_.count, committed);
  EXPECT_GT(rig_.memory().context(thread_.context_number()).redo_head.load(), 2 * line::kRedoBytes)
      << "the ring did not come round";
}

TEST_F(LineRedoTest, ThreadsThatMeetLeaveTheirRecordsInTheOrderOfStamps) {
  constexpr int kThreads = 3, kCommits = 400;
  std::vector<std::thread> threads;
  const std::uint64_t first_seed = seed();
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      line::SoftwareThread mine(rig_.memory(), rig_.releaser(), &log_);
      ASSERT_EQ(mine.attach(0, LineRig::kIncarnation), Errc::kOk);
      std::mt19937_64 random(first_seed + static_cast<std::uint64_t>(t));
      for (int i = 0; i < kCommits; ++i) {
        line::Begin options;
        for (;; ++options.attempt) {
          const Status status = line::attempt(mine, options, [&] {
            for (int j = 0; j < 4; ++j) {
              auto *word = rig_.words() + random() % 64;
              mine.store(word, mine.load(word) + 1);
            }
          });
          if (status == Status::kCommitted) break;
        }
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  log_.expect_home();
  EXPECT_EQ(log_.count, std::uint64_t{kThreads} * kCommits);
}

TEST_F(LineRedoTest, WithoutRoomItAbortsBeforeItsFirstStepAndSaysWhy) {
  std::mt19937_64 random(seed());
  std::uint64_t commits = 0;
  const auto fill = [&](std::uint64_t count) {
    for (;; ++commits) {
      thread_.begin({});
      store_randomly(thread_, random, count);
      if (thread_.commit() != Status::kCommitted) return;
    }
  };
  log_.is_stuck = true;
  fill(400);
  EXPECT_EQ(thread_.cause(), AbortCause::kCapacity);
  EXPECT_GT(log_.drains, 0U);
  EXPECT_EQ(log_.asked, 1U);
  fill(1);
  EXPECT_EQ(log_.asked, 1U);
  log_.is_stuck = false;
  log_.expect_home();
  EXPECT_EQ(log_.count, commits);
  while (log_.asked == 1) {
    thread_.begin({});
    store_randomly(thread_, random, 400);
    ASSERT_EQ(thread_.commit(), Status::kCommitted);
  }
  EXPECT_EQ(log_.asked, 2U) << "the ring had been below half";
  log_.is_full = true;
  thread_.begin({});
  store_randomly(thread_, random, 1);
  EXPECT_EQ(thread_.commit(), Status::kAborted);
  EXPECT_EQ(thread_.cause(), AbortCause::kNoSpace);
  EXPECT_EQ(thread_.committing().redo().error(), Errc::kDiskFull);
  log_.is_full = false;
  thread_.begin({});
  for (std::uint64_t at = 0; at < kBytes / 2; at += 8) thread_.store(rig_.words() + at / 8, at);
  EXPECT_EQ(thread_.commit(), Status::kAborted) << "more than half of the ring";
  EXPECT_EQ(thread_.cause(), AbortCause::kCapacity);
}

// The ring is empty each time, and where its head stands is the size of a record before.
TEST_F(LineRedoTest, WhatFitsIntoAnEmptyRingFitsWhereverThatBegins) {
  const auto commits = [&](line::SoftwareThread &thread, std::uint64_t words) {
    thread.begin({});
    for (std::uint64_t i = 0; i < words; ++i) thread.store(rig_.words() + i, i);
    const bool is_committed = thread.commit() == Status::kCommitted;
    log_.take();
    return is_committed;
  };
  std::uint64_t largest = 0, too_many = line::kRedoBytes / 2 / 8;
  while (too_many - largest > 1) {
    const std::uint64_t words = (largest + too_many) / 2;
    line::SoftwareThread thread(rig_.memory(), rig_.releaser(), &log_);
    ASSERT_EQ(thread.attach(0, LineRig::kIncarnation), Errc::kOk);
    const std::uint64_t begin = rig_.memory().context(thread.context_number()).redo_head.load();
    ASSERT_EQ(begin % line::kRedoBytes, 0U);
    (commits(thread, words) ? largest : too_many) = words;
    rig_.memory().context(thread.context_number()).redo_head.store(begin);
    rig_.memory().context(thread.context_number()).redo_tail.store(begin);
  }
  ASSERT_GT(largest, 60'000U);
  std::vector<std::unique_ptr<line::SoftwareThread>> threads;  // each has a ring of its own
  for (std::uint64_t less = 0; less < 8; ++less) {
    line::SoftwareThread &thread = *threads.emplace_back(
        std::make_unique<line::SoftwareThread>(rig_.memory(), rig_.releaser(), &log_));
    ASSERT_EQ(thread.attach(0, LineRig::kIncarnation), Errc::kOk);
    ASSERT_TRUE(commits(thread, largest - less));
    EXPECT_TRUE(commits(thread, largest)) << "behind a record of " << less << " words less";
  }
}

// A header says that the rest is empty; where there is no room for one, a record ends with the ring
// or begins it.
TEST_F(LineRedoTest, WhatIsLeftOfTheRingIsSkippedHoweverLittle) {
  std::vector<std::unique_ptr<line::SoftwareThread>> threads;
  for (std::uint64_t left = 0; left <= 40; left += 8) {
    line::SoftwareThread &thread = *threads.emplace_back(
        std::make_unique<line::SoftwareThread>(rig_.memory(), rig_.releaser(), &log_));
    ASSERT_EQ(thread.attach(0, LineRig::kIncarnation), Errc::kOk);
    const line::LineContextV1 &context = rig_.memory().context(thread.context_number());
    const auto commit = [&](std::uint64_t words) {
      thread.begin({});
      for (std::uint64_t i = 0; i < words; ++i) thread.store(rig_.words() + i, left + i + words);
      ASSERT_EQ(thread.commit(), Status::kCommitted);
      log_.take();
    };
    const auto rest = [&] {
      return line::kRedoBytes - context.redo_head.load() % line::kRedoBytes;
    };
    const auto bytes_of = [](std::uint64_t words) {
      return sizeof(line::RedoHeader) + sizeof(storage::PageDeltaV1) + (words + 63) / 64 * 8 +
             8 * words;
    };
    while (rest() > 4000) commit(300);
    std::uint64_t last = 1;
    while (bytes_of(last) < rest() - left) ++last;
    ASSERT_EQ(bytes_of(last), rest() - left) << "another number to begin with";
    commit(last);
    for (const std::uint64_t words : {7UL, 1UL}) commit(words);
    log_.expect_home();
  }
}

TEST_F(LineRedoTest, RecordsOfSeveralContextsComeInTheOrderOfStamps) {
  line::SoftwareThread other(rig_.memory(), rig_.releaser(), &log_);
  ASSERT_EQ(other.attach(0, LineRig::kIncarnation), Errc::kOk);
  ASSERT_GT(other.context_number(), thread_.context_number());
  const auto set = [&](line::SoftwareThread &thread, std::uint64_t value) {
    ASSERT_EQ(line::run(thread, {}, [&] { thread.store(rig_.words(), value); }), 1U);
  };
  set(other, 1);
  set(thread_, 2);
  log_.expect_home();
}

// The log has one of two.
TEST_F(LineRedoTest, WhatIsNotInTheLogIsNotForgotten) {
  for (std::uint64_t value = 1; value <= 2; ++value)
    ASSERT_EQ(line::run(thread_, {}, [&] { thread_.store(rig_.words(), value); }), 1U);
  line::forget_redo(rig_.memory(), thread_.stamp() - 1);
  std::vector<line::RedoRecord> records;
  ASSERT_EQ(line::gather_redo(rig_.memory(), 0, thread_.stamp(), &records), Errc::kOk);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].header.stamp, thread_.stamp());
}

TEST_F(LineRedoTest, ACommitAsksForNoMemory) {
  thread_.begin({});
  for (std::uint64_t line = 0; line < 300; ++line) thread_.store(rig_.words() + 8 * line, line);
  new_failure.after = 0;
  const Status status = thread_.commit();
  EXPECT_EQ(std::exchange(new_failure.after, -1), 0);
  EXPECT_EQ(status, Status::kCommitted);
  log_.expect_home();
}

// Its line may have been read, and another one may make the commit look for it.
TEST_F(LineRedoTest, AStoreThatFindsNoMemoryHasNotHappened) {
  constexpr std::uint64_t kLines = 200, kNone = kLines;
  std::uint64_t failures = 0;
  for (std::uint64_t value = 1;; ++value) {
    RigThread one(rig_), two(rig_);  // anew, as what is allocated stays
    const std::vector<std::uint64_t> before(rig_.words(), rig_.words() + 8 * kLines);
    one.begin({});
    for (std::uint64_t line = 0; line < kLines; ++line)
      EXPECT_EQ(one.load(rig_.words() + 8 * line), before[8 * line]);
    std::uint64_t lost = kNone;
    new_failure.after = static_cast<int>(value) - 1;
    for (std::uint64_t line = 0; line < kLines; ++line) {
      try {
        one.store(rig_.words() + 8 * line, value);
      } catch (const std::bad_alloc &) {
        lost = line;
      }
    }
    new_failure.after = -1;
    two.update([&] { two.store(rig_.words() + 8 * kLines, value); });
    ASSERT_EQ(one.commit(), Status::kCommitted);
    for (std::uint64_t line = 0; line < kLines; ++line)
      ASSERT_EQ(rig_.words()[8 * line], line == lost ? before[8 * line] : value)
          << "line " << line << ", allocation " << value;
    if (lost == kNone) break;
    ++failures;
  }
  EXPECT_GE(failures, 3U);
}

// Whose commits are looked at, or fail at the last moment.
line::LineContextV1 *rivals = nullptr;
void expect_in_flight(observe::Step step) {
  using observe::Step;
  constexpr std::array kWith{Step::kLineStamp,       Step::kLineValidate,  Step::kLineSave,
                             Step::kLineCommitPoint, Step::kLineRedoShown, Step::kLineWriteBack,
                             Step::kLineUnlock,      Step::kLineCounted};
  const bool is_stamped = std::find(kWith.begin(), kWith.end(), step) != kWith.end();
  EXPECT_EQ(rivals->in_flight.load(), is_stamped ? rivals->stamp.load() : 0U)
      << observe::step_name(step);
}
void fail_at_save(observe::Step step) {
  if (step != observe::Step::kLineSave) return;
  std::uint64_t status = rivals->status.load();
  ASSERT_EQ(line::state_of(status), line::State::kPending);
  rivals->status.store(line::status_word(line::number_of(status), line::State::kFailed));
}

// A checkpoint that finds it home goes on.
TEST_F(LineRedoTest, ACommitIsInFlightFromItsStampUntilItIsHome) {
  rivals = &rig_.memory().context(thread_.context_number());
  thread_.begin({});
  thread_.store(rig_.words(), std::uint64_t{1});
  observe::set_step_hook(&expect_in_flight);
  EXPECT_EQ(thread_.commit(), Status::kCommitted);
  observe::set_step_hook(nullptr);
  EXPECT_EQ(rivals->in_flight.load(), 0U);
}

TEST_F(LineRedoTest, ACommitThatFailsGivesBackAllThatItHas) {
  const line::LineContextV1 &context = rig_.memory().context(thread_.context_number());
  rivals = &rig_.memory().context(thread_.context_number());
  for (const bool by_rival : {false, true}) {
    line::SoftwareThread other(rig_.memory(), rig_.releaser(), &log_);
    ASSERT_EQ(other.attach(0, LineRig::kIncarnation), Errc::kOk);
    thread_.begin({});
    thread_.store(rig_.words() + 8, thread_.load(rig_.words()) + 1);
    if (!by_rival)
      static_cast<void>(line::run(other, {}, [&] { other.store(rig_.words(), std::uint64_t{1}); }));
    observe::set_step_hook(by_rival ? &fail_at_save : nullptr);
    EXPECT_EQ(thread_.commit(), Status::kAborted);
    observe::set_step_hook(nullptr);
    EXPECT_EQ(thread_.cause(), by_rival ? AbortCause::kConflictOther : AbortCause::kValidation);
    EXPECT_EQ(line::state_of(context.status.load()), line::State::kIdle);
    EXPECT_EQ(context.in_flight.load(), 0U);
    EXPECT_EQ(context.redo_head.load(), 0U);
    EXPECT_EQ(rig_.word_of(rig_.words() + 8).load(), 0U);
    log_.expect_home();
    EXPECT_EQ(log_.count, 1U);
  }
}

TEST_F(LineRedoTest, ADeadOwnersRecordCountsFromItsCommitPointOn) {
  thread_.begin({});
  thread_.store(rig_.words(), std::uint64_t{7});
  ASSERT_EQ(thread_.commit(), Status::kCommitted);
  line::LineContextV1 &context = rig_.memory().context(thread_.context_number());
  const std::uint64_t head = context.redo_head.load(), status = context.status.load();
  for (const line::State state :
       {line::State::kPending, line::State::kFailed, line::State::kIdle}) {
    context.redo_head.store(0);
    context.status.store(line::status_word(line::number_of(status), state));
    line::settle_redo(context);
    EXPECT_EQ(context.redo_head.load(), 0U);
  }
  context.status.store(line::status_word(line::number_of(status), line::State::kCommitted));
  line::settle_redo(context);
  line::settle_redo(context);
  EXPECT_EQ(context.redo_head.load(), head);
  context.status.store(status);
}

}  // namespace
}  // namespace tmh::test
