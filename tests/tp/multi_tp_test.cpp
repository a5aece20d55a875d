// tests/tp/multi_tp_test.cpp -- processes that transfer amounts between accounts, in steps, with
// locks that they wait for; some, or all, are killed.
// Invariants: (1) all accounts together have what they had, whoever dies when.
//             (2) each worker's count of its own commits, which is an account of its own, is what
//                 it was told, or one more that it was not told of.
//             (3) nobody waits for the dead, and nothing of theirs is left.
//             (4) a power cut takes nothing that was told.
// Planted:    an undo left out, or done twice; an update without its record; a commit that is told
//             before it is in the log.
#include <gtest/gtest.h>
#include <tp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "observe/planted.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"
#include "tests/tp/bank.h"

namespace tmh::test {
namespace {

// Accounts, then the workers' counts.
constexpr std::size_t kWorkers = 4, kAccounts = 12, kAll = kAccounts + kWorkers;
struct Notes {
  // Told, by worker.
  std::atomic<std::uint64_t> commits[kWorkers];
  std::atomic<std::uint64_t> ends, deadlocks, aborts;
  std::atomic<bool> stop;
};

class Worker {
 public:
  Worker(const std::string &folder, Notes &notes, std::size_t number, std::uint64_t seed)
      : bank_(folder, kAll), notes_(notes), number_(number), random_(seed) {}

  void run() {
    while (!notes_.stop.load()) {
      transfer();
      notes_.ends.fetch_add(1);
    }
  }

 private:
  // A few transfers, each between two accounts, and its own count.
  void transfer() {
    tp_txn *txn = nullptr;
    ASSERT_EQ(tp_begin(bank_.env(), &txn), TP_OK) << tp_last_error();
    const std::size_t moves = 1 + random_() % 3;
    tp_savepoint point{};
    bool has_point = false;
    for (std::size_t i = 0; i < moves; ++i) {
      const std::size_t from = random_() % kAccounts;
      const std::size_t to = (from + 1 + random_() % (kAccounts - 1)) % kAccounts;
      if (!take(txn, from) || !take(txn, to)) return;
      const std::uint64_t amount = random_() % 100;
      if (!move(txn, from, 0 - amount)) return;
      if (random_() % 16 == 0 && !move_to_and_fro(txn, to)) return;
      if (!move(txn, to, amount)) return;
      if (has_point && random_() % 4 == 0) {
        ASSERT_EQ(tp_roll_back(txn, &point), TP_OK) << tp_last_error();
        has_point = false;
      } else if (random_() % 4 == 0) {
        ASSERT_EQ(tp_save(txn, &point), TP_OK);
        has_point = true;
      }
    }
    if (random_() % 8 == 0) {
      ASSERT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
      notes_.aborts.fetch_add(1);
      return;
    }
    if (!move(txn, kAccounts + number_, 1)) return;
    ASSERT_EQ(tp_commit(txn), TP_OK) << tp_last_error();
    notes_.commits[number_].fetch_add(1);
  }

  // False: the transaction has ended.
  bool take(tp_txn *txn, std::size_t account) {
    const bool reads_first = random_() % 4 == 0;
    int error = TP_OK;
    if (reads_first) error = tp_lock(txn, {1, account}, TP_SHARED, TP_FOREVER);
    if (error == TP_OK) error = tp_lock(txn, {1, account}, TP_EXCLUSIVE, TP_FOREVER);
    if (error == TP_OK) return true;
    EXPECT_EQ(error, TP_EDEADLOCK) << tp_last_error();
    EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
    notes_.deadlocks.fetch_add(1);
    return false;
  }
  bool move(tp_txn *txn, std::size_t account, std::uint64_t amount) {
    const bool by_bytes = random_() % 2 == 0;
    const std::uint64_t how = random_() % 8;
    const int error =
        how == 0 ? bank_.add_pinned(txn, account, amount, by_bytes)
                 : bank_.add(txn, account, amount, how == 1 ? TP_PAGES : TP_FIELDS, by_bytes);
    EXPECT_EQ(error, TP_OK) << tp_last_error();
    return error == TP_OK;
  }
  bool move_to_and_fro(tp_txn *txn, std::size_t account) {
    return move(txn, account, 17) && move(txn, account, std::uint64_t{0} - 17);
  }

  Bank bank_;
  Notes &notes_;
  const std::size_t number_;
  std::mt19937_64 random_;
};

class Storm {
 public:
  explicit Storm(const std::string &folder) : folder_(folder) {
    for (std::size_t i = 0; i < kWorkers; ++i) start(i);
  }

  void await(std::uint64_t ends) {
    EXPECT_TRUE(poll_until([&] { return notes_->ends.load() >= ends; }))
        << notes_->ends.load() << " of " << ends << " transactions";
  }
  // So long, and all the time.
  void go_on_for(std::chrono::seconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end && !testing::Test::HasFailure())
      await(notes_->ends.load() + 100);
  }
  void kill(std::size_t number) {
    children_.bury(indices_[number]);
    ++deaths_[number];
    start(number);
  }
  void kill_all() {
    for (std::size_t i = 0; i < kWorkers; ++i) children_.kill(indices_[i], SIGKILL);
    for (std::size_t i = 0; i < kWorkers; ++i) {
      children_.bury(indices_[i]);
      ++deaths_[i];
    }
  }
  void start_all() {
    for (std::size_t i = 0; i < kWorkers; ++i) start(i);
  }
  void end() {
    notes_->stop.store(true);
    children_.expect_success();
  }
  // What is wrong: the sum, and workers whose counts are not theirs.
  [[nodiscard]] std::string wrong() {
    const Bank bank(folder_, kAll);
    EXPECT_EQ(tp_settle(bank.env()), TP_OK) << tp_last_error();
    bank.expect_free(kAccounts);
    const std::vector<std::uint64_t> all = bank.read_all();
    std::string wrong;
    const std::uint64_t sum =
        std::accumulate(all.begin(), all.begin() + kAccounts, std::uint64_t{0});
    if (sum != 0) wrong += "the sum is " + std::to_string(static_cast<std::int64_t>(sum)) + "; ";
    for (std::size_t i = 0; i < kWorkers; ++i) {
      const std::uint64_t told = notes_->commits[i].load(), is = all[kAccounts + i];
      if (is < told || is > told + deaths_[i])
        wrong += "worker " + std::to_string(i) + " was told of " + std::to_string(told) +
                 " commits, and has " + std::to_string(is) + "; ";
    }
    return wrong;
  }
  [[nodiscard]] const Notes &notes() const { return *notes_; }

 private:
  void start(std::size_t number) {
    indices_[number] =
        children_.spawn("worker " + std::to_string(number), [this, number, life = ++lives_] {
          Worker(folder_, *notes_, number, seed() * 1000 + life).run();
        });
  }

  const std::string folder_;
  Shared<Notes> notes_;
  Children children_;
  std::array<std::size_t, kWorkers> indices_{};
  std::array<std::uint64_t, kWorkers> deaths_{};
  std::uint64_t lives_ = 0;
};

[[nodiscard]] std::uint64_t times(std::uint64_t usual, std::uint64_t many) {
  return std::getenv("TMH_LONG") != nullptr ? many : usual;
}

TEST(MultiTpTest, AStorm) {
  const MemoryFolder folder;
  Storm storm(folder.path());
  storm.go_on_for(std::chrono::seconds(times(0, 60)));
  storm.await(4'000);
  storm.end();
  EXPECT_EQ(storm.wrong(), "");
  EXPECT_GT(storm.notes().deadlocks.load(), 0u);
  EXPECT_GT(storm.notes().aborts.load(), 0u);
}

TEST(MultiTpTest, AStormWithDeaths) {
  const MemoryFolder folder;
  Storm storm(folder.path());
  std::mt19937_64 random(seed());
  for (std::uint64_t i = 1; i <= times(40, 1000); ++i) {
    storm.await(i * 50);
    storm.kill(random() % kWorkers);
  }
  storm.end();
  EXPECT_EQ(storm.wrong(), "");
}

// All of them, and what only shared memory has, at once.
TEST(MultiTpTest, APowerCutLosesNothingThatWasTold) {
  for (std::uint64_t i = 0; i < times(3, 50); ++i) {
    const TempFolder folder;
    Storm storm(folder.path());
    storm.await(300 + 37 * i);
    storm.kill_all();
    lose_shared_memory(folder.path());
    ASSERT_EQ(storm.wrong(), "") << "cut " << i;
  }
}

TEST(MultiTpTest, AllDieAndTheNextUndoesWhatTheyHadBegun) {
  const MemoryFolder folder;
  Storm storm(folder.path());
  for (std::uint64_t i = 1; i <= times(8, 300); ++i) {
    storm.await(i * 200);
    storm.kill_all();
    ASSERT_EQ(storm.wrong(), "") << "death " << i;
    storm.start_all();
  }
  storm.end();
  EXPECT_EQ(storm.wrong(), "");
}

#ifdef TMH_PLANTED_FAULTS
class PlantedUndoTest : public ::testing::TestWithParam<observe::Planted> {};

TEST(PlantedTpTest, ToldBeforeItIsInTheLogIsFound) {
  std::string wrong;
  observe::plant(observe::Planted::kToldTooSoon);  // forked processes, too
  for (int i = 0; i < 20 && wrong.empty(); ++i) {
    const TempFolder folder;
    Storm storm(folder.path());
    storm.await(1'000);
    storm.kill_all();
    lose_shared_memory(folder.path());
    wrong = storm.wrong();
  }
  observe::plant(observe::Planted{});
  EXPECT_NE(wrong, "");
}

TEST_P(PlantedUndoTest, IsFound) {
  const MemoryFolder folder;
  observe::plant(GetParam());  // forked processes, too
  std::string wrong;
  for (int i = 0; i < 20 && wrong.empty(); ++i) {
    const TempFolder inner(folder.path());
    Storm storm(inner.path());
    storm.await(1'000);
    storm.kill_all();
    wrong = storm.wrong();
  }
  observe::plant(observe::Planted{});
  EXPECT_NE(wrong, "");
}

std::string name_of(const ::testing::TestParamInfo<observe::Planted> &info) {
  constexpr const char *kNames[] = {"UndoLeftOut", "UndoneTwice", "NoUndoRecord"};
  return kNames[info.index];
}

INSTANTIATE_TEST_SUITE_P(Faults, PlantedUndoTest,
                         ::testing::Values(observe::Planted::kUndoLeftOut,
                                           observe::Planted::kUndoneTwice,
                                           observe::Planted::kNoUndoRecord),
                         name_of);
#endif

}  // namespace
}  // namespace tmh::test
