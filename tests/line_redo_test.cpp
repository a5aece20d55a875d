// tests/line_redo_test.cpp -- level 1's redo rings: what a commit leaves there, and who may take it.
// Invariants: (1) the records of all contexts, applied in the order of their stamps to an empty copy, give home. (2) aborted instances leave
//             none. (3) a ring comes round only over what was forgotten; without room the instance escalates. (4) a record that its dead
//             owner had not shown counts exactly when the commit point was passed.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "levels/line/recovery.h"
#include "levels/line/redo.h"
#include "levels/storage/log_record.h"
#include "tests/support/line_rig.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kBytes = 1u << 20;

// A log that keeps what it is given, applied to a copy.
class CopyLog final : public line::RedoLog {
 public:
  explicit CopyLog(LineRig &rig) : rig_(rig), copy_(kBytes) {}

  [[nodiscard]] Errc reserve(std::uint64_t bytes) noexcept override {
    if (is_full) return Errc::kDiskFull;
    reserved_ += bytes;
    return Errc::kOk;
  }
  void give_back(std::uint64_t bytes) noexcept override { reserved_ -= bytes; }
  [[nodiscard]] Errc promise(storage::PageId) noexcept override { return Errc::kOk; }
  [[nodiscard]] Errc drain() noexcept override {
    ++drains;
    if (!is_stuck) take();
    return Errc::kOk;
  }

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
      while (cursor.next(&delta)) storage::apply_delta(delta, copy_.data() + storage::page_offset(delta.page));
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
  std::uint64_t count = 0, drains = 0;

 private:
  LineRig &rig_;
  std::vector<std::byte> copy_;
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
      thread.store_long(reinterpret_cast<std::uintptr_t>(rig_.view()) + at, random(), bytes);
    }
  }
  MemoryFolder folder_;
  LineRig rig_{folder_.path(), kBytes};
  CopyLog log_{rig_};
  line::SoftwareThread thread_{rig_.memory(), rig_.upper(), &log_};
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
      line::SoftwareThread mine(rig_.memory(), rig_.upper(), &log_);
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
  const auto fill = [&] {
    for (;;) {
      thread_.begin({});
      store_randomly(thread_, random, 400);
      if (thread_.commit() != Status::kCommitted) return;
    }
  };
  log_.is_stuck = true;
  fill();
  EXPECT_EQ(thread_.cause(), AbortCause::kCapacity);
  EXPECT_GT(log_.drains, 0U);
  log_.is_stuck = false;
  log_.take();
  log_.is_full = true;
  thread_.begin({});
  store_randomly(thread_, random, 1);
  EXPECT_EQ(thread_.commit(), Status::kAborted);
  EXPECT_EQ(thread_.cause(), AbortCause::kNoSpace);
  EXPECT_EQ(thread_.error(), Errc::kDiskFull);
  log_.is_full = false;
  thread_.begin({});
  for (std::uint64_t at = 0; at < kBytes / 2; at += 8) thread_.store(rig_.words() + at / 8, at);
  EXPECT_EQ(thread_.commit(), Status::kAborted) << "more than half of the ring";
  EXPECT_EQ(thread_.cause(), AbortCause::kCapacity);
}

TEST_F(LineRedoTest, ADeadOwnersRecordCountsFromItsCommitPointOn) {
  thread_.begin({});
  thread_.store(rig_.words(), std::uint64_t{7});
  ASSERT_EQ(thread_.commit(), Status::kCommitted);
  line::LineContextV1 &context = rig_.memory().context(thread_.context_number());
  const std::uint64_t head = context.redo_head.load(), status = context.status.load();
  for (const line::State state : {line::State::kPending, line::State::kFailed, line::State::kIdle}) {
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
