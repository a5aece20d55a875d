// tests/tp/tp_history_test.cpp -- random transactions of four processes on few pages, recorded and
// judged: steps at lines, at pages and in pinned pages, aborts, deadlocks, deaths.
// Invariants: (1) the history is strictly serializable; who aborts, or dies before its commit, is
//             seen by nobody.
//             (2) planted faults are found by the judge.
#include <gtest/gtest.h>
#include <tp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "observe/planted.h"
#include "tests/histories/checker.h"
#include "tests/support/children.h"
#include "tests/support/recorder.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/tp/bank.h"

namespace tmh::test {
namespace {

using history::Outcome;

constexpr std::size_t kCells = 10, kWorkers = 4;
constexpr std::uint64_t kEntriesPerTransaction = 64;

struct Plan {
  int durability = 1;
  std::uint64_t steps = 250;  // transactions of each life of a worker
  std::uint64_t deaths = 0;
  // All at once; then the next life begins.
  bool all_die = false;
};

class Player {
 public:
  Player(const Bank &bank, const Lane &lane, std::uint64_t seed)
      : bank_(bank), lane_(lane), random_(seed) {}

  void play(std::uint64_t transactions) {
    for (std::uint64_t i = 0; i < transactions && lane_.has_room(kEntriesPerTransaction); ++i)
      transaction();
  }
  // One that reads all.
  void look() {
    lane_.begin(history::Kind::kUpdate);
    tp_txn *txn = begin();
    for (std::size_t cell = 0; cell < kCells; ++cell)
      EXPECT_TRUE(lock(txn, cell, TP_SHARED) && read(txn, cell)) << tp_last_error();
    commit(txn);
  }

 private:
  tp_txn *begin() {
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(bank_.env(), &txn), TP_OK) << tp_last_error();
    return txn;
  }
  void transaction() {
    lane_.begin(history::Kind::kUpdate);
    tp_txn *txn = begin();
    const std::size_t count = 1 + random_() % 4;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t cell = random_() % kCells;
      const bool writes = random_() % 2 == 0, reads_first = random_() % 4 == 0;
      if ((!writes || reads_first) && !(lock(txn, cell, TP_SHARED) && read(txn, cell)))
        return abort(txn);
      if (writes && !(lock(txn, cell, TP_EXCLUSIVE) && read(txn, cell) && write(txn, cell)))
        return abort(txn);
    }
    lane_.ending();
    if (random_() % 8 == 0) return abort(txn);
    commit(txn);
  }
  void commit(tp_txn *txn) {
    EXPECT_EQ(tp_commit(txn), TP_OK) << tp_last_error();
    lane_.end(Outcome::kCommitted, true);
  }
  void abort(tp_txn *txn) {
    EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
    lane_.end(Outcome::kAborted);
  }
  // False: it is a victim.
  bool lock(tp_txn *txn, std::size_t cell, unsigned mode) {
    const int error = tp_lock(txn, {1, cell}, mode, TP_FOREVER);
    EXPECT_TRUE(error == TP_OK || error == TP_EDEADLOCK) << tp_last_error();
    return error == TP_OK;
  }
  bool read(tp_txn *txn, std::size_t cell) {
    std::uint64_t value = 0;
    const int error =
        bank_.step(txn, random_() % 4 == 0 ? TP_PAGES : TP_FIELDS, [&](tp_step_t *step) {
          value = load(step, bank_.word(cell));
          return 0;
        });
    EXPECT_EQ(error, TP_OK) << tp_last_error();
    lane_.read(cell, value);
    return error == TP_OK;
  }
  bool write(tp_txn *txn, std::size_t cell) {
    const history::Value value = lane_.fresh_value();
    lane_.write(cell, value);
    const auto put = [&](tp_step_t *step) {
      const int error = tp_log_bytes(step, bank_.word(cell), sizeof *bank_.word(cell), nullptr);
      store(step, bank_.word(cell), value);
      return error;
    };
    int error = TP_OK;
    const std::uint64_t how = random_() % 4;
    if (how == 0) {
      void *page = nullptr;
      error = tp_buf_pin(txn, bank_.fid(), cell, nullptr, &page);
      if (error == TP_OK) error = put(tp_running_step(txn));
      if (error == TP_OK) error = tp_buf_unpin(txn, page);
    } else {
      error = bank_.step(txn, how == 1 ? TP_PAGES : TP_FIELDS, put);
    }
    EXPECT_EQ(error, TP_OK) << tp_last_error();
    return error == TP_OK;
  }

  const Bank &bank_;
  Lane lane_;
  std::mt19937_64 random_;
};

[[nodiscard]] history::Verdict run(const Plan &plan) {
  const MemoryFolder folder;
  const auto lives = static_cast<std::uint32_t>(kWorkers * (plan.deaths + 1) + 1);
  Recorder recorder(lives, (plan.steps + 2) * kEntriesPerTransaction);
  std::mt19937_64 random(seed());
  Children children;
  std::array<std::size_t, kWorkers> indices{};
  std::uint64_t life = 0;
  const auto start = [&](std::size_t worker) {
    indices[worker] = children.spawn("worker " + std::to_string(worker), [&, number = ++life] {
      const Bank bank(folder.path(), kCells, plan.durability);
      Player(bank, recorder.open_lane(), seed() * 1000 + number).play(plan.steps);
    });
  };
  const auto bury = [&](std::size_t worker) {
    if (children.running(indices[worker])) children.bury(indices[worker]);
  };
  for (std::size_t i = 0; i < kWorkers; ++i) start(i);
  for (std::uint64_t i = 0; i < plan.deaths; ++i) {
    const std::uint64_t until = monotonic_ns() + 1'000'000 + random() % 40'000'000;
    EXPECT_TRUE(poll_until([&] { return monotonic_ns() >= until; }));
    if (plan.all_die) {
      for (std::size_t worker = 0; worker < kWorkers; ++worker)
        if (children.running(indices[worker])) children.kill(indices[worker], SIGKILL);
      for (std::size_t worker = 0; worker < kWorkers; ++worker) bury(worker);
      for (std::size_t worker = 0; worker < kWorkers; ++worker) start(worker);
    } else {
      const std::size_t worker = random() % kWorkers;
      bury(worker);
      start(worker);
    }
  }
  for (const std::size_t index : indices) EXPECT_TRUE(children.wait(index).succeeded());
  {
    const Bank bank(folder.path(), kCells, plan.durability);
    EXPECT_EQ(tp_settle(bank.env()), TP_OK) << tp_last_error();
    Player(bank, recorder.open_lane(), 0).look();
  }
  const history::Verdict verdict = history::check(recorder.read());
  printf("%s\n", verdict.report().c_str());
  return verdict;
}

[[nodiscard]] std::uint64_t deaths(std::uint64_t usual) {
  return std::getenv("TMH_LONG") != nullptr ? 20 * usual : usual;
}

TEST(TpHistoryTest, IsStrictlySerializable) {
  for (const int durability : {0, 1, 2}) {
    const history::Verdict verdict = run({.durability = durability});
    EXPECT_TRUE(verdict.ok());
    EXPECT_GT(verdict.committed, 400u);
  }
}
TEST(TpHistoryTest, DeathsAreSeenByNobody) {
  EXPECT_TRUE(run({.steps = 400, .deaths = deaths(20)}).ok());
}
TEST(TpHistoryTest, TheDeathOfAllIsSeenByNobody) {
  EXPECT_TRUE(run({.steps = 400, .deaths = deaths(6), .all_die = true}).ok());
}

#ifdef TMH_PLANTED_FAULTS
class PlantedTpHistoryTest : public testing::TestWithParam<observe::Planted> {};

TEST_P(PlantedTpHistoryTest, IsFoundByTheJudge) {
  observe::plant(GetParam());  // forked processes, too
  bool is_right = true;
  for (int i = 0; i < 20 && is_right; ++i)
    is_right = run({.steps = 200, .deaths = 6, .all_die = true}).ok();
  observe::plant(observe::Planted{});
  EXPECT_FALSE(is_right);
}

std::string name_of_fault(const testing::TestParamInfo<observe::Planted> &info) {
  return info.index == 0 ? "UndoLeftOut" : "NoUndoRecord";
}

INSTANTIATE_TEST_SUITE_P(Faults, PlantedTpHistoryTest,
                         testing::Values(observe::Planted::kUndoLeftOut,
                                         observe::Planted::kNoUndoRecord),
                         name_of_fault);
#endif

}  // namespace
}  // namespace tmh::test
