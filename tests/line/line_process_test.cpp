// tests/line/line_process_test.cpp -- level 1 over any memory of a process (open_process()): lines
// that share a word, blocks of bytes, stores in place that are undone.
// Invariants: (1) lines with one word commit, abort and validate as others do. (2) loads see the
//             instance's own stores and else the snapshot, in blocks of any size and place; memory
//             has the same. (3) an abort, or the end of a nested instance that is undone, leaves
//             each byte as it was, and words that a reader has not seen before. (4) accounts whose
//             lines share words add up to the same sum in every attempt.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "levels/line/process_inline.h"
#include "levels/line/process_lines.h"
#include "levels/line/run.h"
#include "tests/support/code_of.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

using line::Begin;
using line::SoftwareThread;

constexpr std::uint64_t kLinesApart = line::kProcessWords;  // 64 MiB
constexpr std::uint64_t kMapBytes = 3 * kLinesApart * kLineBytes;

class TestThread : public line::ProcessThread {
 public:
  TestThread(line::LineMemory &memory, line::Releaser &releaser)
      : ProcessThread(memory, releaser, nullptr) {
    EXPECT_EQ(attach(0, 1), Errc::kOk);
  }
  std::uint64_t load(const std::uint64_t *at) {
    return detail::line_load_by<line::ProcessLines>(
        *this, at, [&] { return load_word(reinterpret_cast<std::uintptr_t>(at), sizeof *at); });
  }
  void store(std::uint64_t *at, std::uint64_t value) {
    EXPECT_TRUE(store_block(reinterpret_cast<std::uintptr_t>(at), &value, sizeof value));
  }
  std::vector<std::byte> load_bytes(const std::byte *at, std::size_t size) {
    std::vector<std::byte> found(size);
    each_line(at, size, [&](std::uintptr_t from, std::size_t done, std::uint32_t part) {
      load_block(found.data() + done, from, part);
    });
    return found;
  }
  void store_bytes(std::byte *at, const std::vector<std::byte> &from) {
    each_line(at, from.size(), [&](std::uintptr_t to, std::size_t done, std::uint32_t part) {
      EXPECT_TRUE(store_block(to, from.data() + done, part));
    });
  }

 private:
  template <class Each>
  static void each_line(const std::byte *at, std::size_t size, const Each &each) {
    for (std::size_t done = 0; done < size;) {
      const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(at) + done;
      const std::size_t part = std::min(size - done, kLineBytes - place % kLineBytes);
      each(place, done, static_cast<std::uint32_t>(part));
      done += part;
    }
  }
};

class LineProcessTest : public testing::Test {
 protected:
  LineProcessTest() {
    EXPECT_EQ(memory_.open_process(), Errc::kOk);
    map_ = static_cast<std::byte *>(mmap(nullptr, kMapBytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    EXPECT_NE(map_, MAP_FAILED);
  }
  ~LineProcessTest() override { munmap(map_, kMapBytes); }

  [[nodiscard]] std::byte *line(std::uint64_t number) const { return map_ + number * kLineBytes; }
  [[nodiscard]] std::uint64_t *word(std::uint64_t number, std::uint64_t index = 0) const {
    return reinterpret_cast<std::uint64_t *>(line(number)) + index;
  }
  [[nodiscard]] line::LineWord &word_of(std::uint64_t number) {
    return *memory_.segment(0).word_at(reinterpret_cast<std::uintptr_t>(line(number)));
  }
  // Another line with the word of this one.
  [[nodiscard]] std::uint64_t twin_of(std::uint64_t number) {
    for (std::uint64_t i = kLinesApart / 2;; ++i)
      if (&word_of(number + i) == &word_of(number)) return number + i;
  }

  line::LineMemory memory_;
  line::NoReleaser nobody_;
  std::byte *map_ = nullptr;
};

TEST_F(LineProcessTest, NeighboursHaveWordsSideBySideAndHeapsOfThreadsDoNotShareThem) {
  EXPECT_EQ(&word_of(1), &word_of(0) + 1);
  for (std::uint64_t i = 0; i < 4096; ++i) EXPECT_NE(&word_of(i), &word_of(kLinesApart + i));
}

TEST_F(LineProcessTest, LinesWithOneWordCommitTogether) {
  TestThread one(memory_, nobody_);
  const std::uint64_t twin = twin_of(7);
  line::run(one, {}, [&] {
    one.store(word(7), 1);
    one.store(word(twin), 2);
    one.store(word(8), 3);
    EXPECT_EQ(one.load(word(7)), 1U);
    EXPECT_EQ(one.load(word(twin)), 2U);
  });
  EXPECT_EQ(*word(7), 1U);
  EXPECT_EQ(*word(twin), 2U);
  EXPECT_EQ(*word(8), 3U);
  EXPECT_EQ(word_of(7).load(), one.rv);
}

TEST_F(LineProcessTest, AReadLineWhoseWordTheCommitHasLockedForAnotherIsValid) {
  TestThread one(memory_, nobody_), two(memory_, nobody_);
  const std::uint64_t twin = twin_of(7);
  one.begin({});
  EXPECT_EQ(one.load(word(7)), 0U);
  one.store(word(twin), 2);
  line::run(two, {}, [&] { two.store(word(100), 1); });  // the commit must validate
  EXPECT_EQ(one.commit(), Status::kCommitted);
}

TEST_F(LineProcessTest, ACommitToTheOtherLineOfAWordFailsOneThatHasReadAndGoesOn) {
  TestThread one(memory_, nobody_), two(memory_, nobody_);
  const std::uint64_t twin = twin_of(7);
  one.begin({});
  EXPECT_EQ(one.load(word(7)), 0U);
  one.store(word(9), 2);
  line::run(two, {}, [&] { two.store(word(twin), 1); });
  EXPECT_EQ(one.commit(), Status::kAborted);
  EXPECT_EQ(one.cause(), AbortCause::kValidation);
  EXPECT_GT(word_of(9).load(), two.rv) << "who has loaded a byte meanwhile must notice";
  EXPECT_TRUE(line::is_free(word_of(9).load()));
  EXPECT_EQ(*word(9), 0U);
}

TEST_F(LineProcessTest, AFailedCommitGivesASharedWordBackOnce) {
  TestThread one(memory_, nobody_), two(memory_, nobody_);
  const std::uint64_t twin = twin_of(7);
  one.begin({});
  EXPECT_EQ(one.load(word(50)), 0U);
  one.store(word(7), 1);
  one.store(word(twin), 2);
  line::run(two, {}, [&] { two.store(word(50), 1); });
  EXPECT_EQ(one.commit(), Status::kAborted);
  EXPECT_TRUE(line::is_free(word_of(7).load()));
  EXPECT_EQ(*word(7), 0U);
  EXPECT_EQ(*word(twin), 0U);
}

TEST_F(LineProcessTest, ANestedInstanceIsUndoneAlone) {
  TestThread one(memory_, nobody_), two(memory_, nobody_);
  const std::uint64_t twin = twin_of(3);
  *word(3, 1) = 5;
  one.begin({});
  one.store(word(3), 1);
  const line::ProcessThread::Mark mark = one.mark();
  one.store(word(3), 2);
  one.store(word(3, 1), 6);
  one.store(word(4), 7);
  one.store(word(twin), 8);
  EXPECT_EQ(*word(3), 2U) << "in place";
  one.roll_back_to(mark);
  EXPECT_EQ(one.load(word(3)), 1U);
  EXPECT_EQ(one.load(word(3, 1)), 5U);
  EXPECT_EQ(one.load(word(4)), 0U);
  EXPECT_EQ(one.load(word(twin)), 0U);
  one.store(word(4, 1), 8);
  EXPECT_TRUE(line::is_locked(word_of(3).load()));
  EXPECT_EQ(one.commit(), Status::kCommitted);
  EXPECT_EQ(*word(3), 1U);
  EXPECT_EQ(*word(3, 1), 5U);
  EXPECT_EQ(*word(4), 0U);
  EXPECT_EQ(*word(4, 1), 8U);
  for (const std::uint64_t line : {std::uint64_t{3}, std::uint64_t{4}, twin})
    EXPECT_EQ(word_of(line).load(), one.rv);
}

TEST_F(LineProcessTest, WhatANestedInstanceHasStoredIsUndoneWithTheWhole) {
  TestThread one(memory_, nobody_);
  *word(3) = 5;
  one.begin({});
  one.store(word(3), 1);
  const line::ProcessThread::Mark mark = one.mark();
  one.store(word(3), 2);
  one.store(word(3, 1), 2);
  one.drop_mark(mark);
  one.store(word(3), 3);
  one.store(word(3, 2), 3);
  one.abandon();
  EXPECT_EQ(*word(3), 5U);
  EXPECT_EQ(*word(3, 1), 0U);
  EXPECT_EQ(*word(3, 2), 0U);
}

// A reader has looked at the word, and then loads what an attempt has stored that is undone.
TEST_F(LineProcessTest, AnAbortChangesTheWord) {
  TestThread one(memory_, nobody_);
  const std::uint64_t before = word_of(3).load();
  one.begin({});
  one.store(word(3), 1);
  one.abandon();
  EXPECT_GT(word_of(3).load(), before);
  one.begin({});
  EXPECT_EQ(one.load(word(3)), 0U);
  one.abandon();
}

// A byte array beside the memory says what loads must see.
TEST_F(LineProcessTest, BlocksAreWhatAModelSays) {
  constexpr std::size_t kBytes = 40 * kLineBytes;
  TestThread one(memory_, nobody_);
  std::mt19937_64 random(seed());
  std::vector<std::byte> committed(kBytes);
  const auto some = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  for (int instance = 0; instance < 400; ++instance) {
    one.begin({});
    std::vector<std::byte> now = committed;
    std::vector<std::pair<line::ProcessThread::Mark, std::vector<std::byte>>> nested;
    for (int i = 0; i < 60; ++i) {
      const std::size_t at = some(kBytes - 1);
      const std::size_t bytes = 1 + some(std::min<std::size_t>(kBytes - at, 200));
      switch (some(10)) {
        case 0:
          nested.emplace_back(one.mark(), now);
          break;
        case 1:
          if (nested.empty()) break;
          one.roll_back_to(nested.back().first);
          now = nested.back().second;
          nested.pop_back();
          break;
        case 9:
          if (nested.empty()) break;
          one.drop_mark(nested.back().first);
          nested.pop_back();
          break;
        case 2:
        case 3:
        case 4: {
          std::vector<std::byte> written(bytes);
          for (std::byte &each : written) each = static_cast<std::byte>(random());
          one.store_bytes(map_ + at, written);
          std::copy(written.begin(), written.end(), now.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        }
        case 5: {
          const std::size_t from = some(kBytes - bytes);
          if (std::max(at, from) - std::min(at, from) < bytes + kLineBytes) break;
          one.copy_lines(reinterpret_cast<std::uintptr_t>(map_ + at),
                         reinterpret_cast<std::uintptr_t>(map_ + from), bytes);
          std::copy_n(now.begin() + static_cast<std::ptrdiff_t>(from), bytes,
                      now.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        }
        default: {
          const auto found = one.load_bytes(map_ + at, bytes);
          ASSERT_TRUE(
              std::equal(found.begin(), found.end(), now.begin() + static_cast<std::ptrdiff_t>(at)))
              << "instance " << instance << ", seed " << seed();
          const std::size_t aligned = at / 8 * 8;
          std::uint64_t expected = 0;
          std::memcpy(&expected, now.data() + aligned, sizeof expected);
          ASSERT_EQ(one.load(reinterpret_cast<std::uint64_t *>(map_ + aligned)), expected);
          ASSERT_EQ(std::memcmp(map_, now.data(), kBytes), 0) << "instance " << instance;
        }
      }
    }
    if (some(3) == 0) {
      one.abandon();
    } else {
      ASSERT_EQ(one.commit(), Status::kCommitted);
      committed = now;
    }
    ASSERT_EQ(std::memcmp(map_, committed.data(), kBytes), 0) << "instance " << instance;
  }
}

TEST_F(LineProcessTest, ExtendingShowsTheSnapshot) {
  TestThread one(memory_, nobody_), two(memory_, nobody_);
  std::atomic<std::uint64_t> shown{0};
  one.show_snapshot_at(&shown);
  one.begin({});
  line::run(two, {}, [&] { two.store(word(3), 1); });
  EXPECT_EQ(one.load(word(3)), 1U);
  EXPECT_EQ(shown.load(), one.rv);
  EXPECT_GE(shown.load(), two.rv);
  EXPECT_EQ(one.commit(), Status::kCommitted);
}

TEST_F(LineProcessTest, AnObjectServesOneThreadAfterAnother) {
  TestThread one(memory_, nobody_);
  for (std::uint64_t i = 1; i < 4; ++i) {
    line::run(one, {}, [&] { one.store(word(3), i); });
    one.detach();
    EXPECT_EQ(*word(3), i);
    EXPECT_EQ(one.attach(0, 1), Errc::kOk);
  }
}

TEST_F(LineProcessTest, OneThatIsAskedMovesItsSnapshotOnOrFails) {
  TestThread one(memory_, nobody_), two(memory_, nobody_);
  one.begin({});
  EXPECT_EQ(one.load(word(3)), 0U);
  line::run(two, {}, [&] { two.store(word(5), 1); });
  line::ask_to_move_on(&one.bytes);
  EXPECT_EQ(one.load(word(3)), 0U);  // the line read last is read the short way
  EXPECT_LT(one.rv, two.rv);
  EXPECT_EQ(one.load(word(4)), 0U);
  EXPECT_GE(one.rv, two.rv);
  line::run(two, {}, [&] { two.store(word(3), 1); });
  const std::uint64_t read_so_far = one.reads().size();
  for (std::uint64_t i = 0; i < read_so_far; ++i) EXPECT_EQ(one.load(word(100 + i)), 0U);
  line::ask_to_move_on(&one.bytes);
  EXPECT_THROW((void)one.load(word(200)), detail::LineAbort);
  one.abandon();
}

// One that has moved on reads a quarter more first; how much another one had read does not count.
TEST_F(LineProcessTest, OneThatIsAskedForTheFirstTimeMovesOnAtOnce) {
  TestThread one(memory_, nobody_), two(memory_, nobody_);
  one.begin({});
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(one.load(word(100 + i)), 0U);
  line::run(two, {}, [&] { two.store(word(5), 1); });
  line::ask_to_move_on(&one.bytes);
  EXPECT_EQ(one.load(word(3)), 0U);
  EXPECT_EQ(one.rv, two.rv);
  EXPECT_EQ(one.commit(), Status::kCommitted);
  one.begin({});
  EXPECT_EQ(one.load(word(3)), 0U);
  line::run(two, {}, [&] { two.store(word(5), 2); });
  line::ask_to_move_on(&one.bytes);
  EXPECT_EQ(one.load(word(4)), 0U);
  EXPECT_EQ(one.rv, two.rv);
  one.abandon();
}

// Two threads store the same to all bytes of a block, others load it and copy it.
TEST_F(LineProcessTest, BlocksThatOthersStoreAreWhole) {
  constexpr std::size_t kBytes = 4 * kLineBytes;
  constexpr int kInstances = 2000;
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      TestThread thread(memory_, nobody_);
      std::byte *const own = line(100 + 10 * number);
      for (int i = 0; i < kInstances; ++i) {
        std::byte value{};
        line::run(thread, {}, [&] {
          const std::vector<std::byte> seen = thread.load_bytes(line(0) + 8, kBytes - 8);
          value = seen.front();
          EXPECT_EQ(std::count(seen.begin(), seen.end(), value), kBytes - 8);
          if (number < 2) {
            value = static_cast<std::byte>(std::to_integer<unsigned>(value) + 1);
            thread.store_bytes(line(0), std::vector<std::byte>(kBytes, value));
          } else {
            thread.copy_lines(reinterpret_cast<std::uintptr_t>(own),
                              reinterpret_cast<std::uintptr_t>(line(0)), kBytes);
          }
        });
        if (number >= 2) {
          EXPECT_EQ(std::count(own, own + kBytes, value), kBytes);
        }
      }
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(std::to_integer<int>(*line(0)), 2 * kInstances % 256);
}

TEST_F(LineProcessTest, AccountsThatShareWordsAddUp) {
  constexpr std::uint64_t kAccounts = 8;
  constexpr int kInstances = 4000;
  std::vector<std::uint64_t> accounts;
  for (std::uint64_t i = 0; i < kAccounts / 2; ++i) {
    accounts.push_back(i);
    accounts.push_back(twin_of(i));
  }
  for (const std::uint64_t account : accounts) *word(account) = 100;
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 3; ++number)
    threads.emplace_back([&, number] {
      TestThread thread(memory_, nobody_);
      std::mt19937_64 random(seed() + number);
      for (int i = 0; i < kInstances; ++i) {
        std::uint64_t *from = word(accounts[random() % kAccounts]);
        std::uint64_t *to = word(accounts[random() % kAccounts]);
        line::run(thread, {}, [&] {
          if (i % 4 == 0) {
            std::uint64_t sum = 0;
            for (const std::uint64_t account : accounts) sum += thread.load(word(account));
            EXPECT_EQ(sum, 100 * kAccounts);
          }
          thread.store(from, thread.load(from) - 1);
          thread.store(to, thread.load(to) + 1);
        });
      }
    });
  for (std::thread &thread : threads) thread.join();
  std::uint64_t sum = 0;
  for (const std::uint64_t account : accounts) sum += *word(account);
  EXPECT_EQ(sum, 100 * kAccounts);
}

}  // namespace
}  // namespace tmh::test
