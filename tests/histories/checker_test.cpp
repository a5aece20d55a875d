// tests/histories/checker_test.cpp -- the judge on trial: planted faults are caught and named,
// right histories are accepted.
// Invariants: (1) every planted fault is reported as what it is, with its instances and cells.
//             (2) on small histories the verdict equals that of a search through every serial order
//                 (an independent oracle).
//             (3) on large ones, a simulated multiversion run is accepted and almost every altered
//                 read is caught.
#include <algorithm>
#include <iterator>
#include <random>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/histories/checker.h"
#include "tests/histories/simulation.h"
#include "tests/support/seed.h"
#include "tests/support/slowdown.h"

namespace tmh::history {
namespace {

constexpr Cell kX = 1, kY = 2, kZ = 3;

// One instance of process p, alive in [begin, end] microseconds.
Instance instance(std::uint32_t p, std::uint32_t number, std::uint64_t begin_us,
                  std::uint64_t end_us, std::vector<Operation> operations,
                  Outcome outcome = Outcome::kCommitted, Kind kind = Kind::kUpdate) {
  return {{p, number}, begin_us * 1000, end_us * 1000, kind, outcome, std::move(operations)};
}

constexpr Value v(std::uint32_t process, std::uint64_t counter) {
  return unique_value(process, counter);
}

void expect_only(const Verdict &verdict, Fault fault, const std::vector<InstanceId> &instances,
                 const std::vector<Cell> &cells) {
  ASSERT_EQ(verdict.violations.size(), 1U) << verdict.report();
  const Violation &violation = verdict.violations.front();
  EXPECT_EQ(violation.fault, fault) << verdict.report();
  std::vector<InstanceId> named = violation.instances, wanted = instances;
  std::sort(named.begin(), named.end());
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(named, wanted) << verdict.report();
  EXPECT_EQ(violation.cells, cells) << verdict.report();
}

TEST(CheckerTest, SerialHistoryIsAccepted) {
  const History history{
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}),
       instance(2, 0, 20, 30, {read(kX, v(1, 1)), write(kX, v(2, 1)), read(kX, v(2, 1))}),
       instance(3, 0, 40, 50, {read(kX, v(2, 1))}, Outcome::kCommitted, Kind::kQuery)}};
  const Verdict verdict = check(history);
  EXPECT_TRUE(verdict.ok()) << verdict.report();
  EXPECT_EQ(verdict.committed, 2U);
  EXPECT_EQ(verdict.queries, 1U);
}

TEST(CheckerTest, ListedInitialValuesAreValues) {
  const History history{{{kX, v(9, 5)}},
                        {instance(1, 0, 0, 10, {read(kX, v(9, 5)), write(kX, v(1, 1))})}};
  EXPECT_TRUE(check(history).ok()) << check(history).report();
}

TEST(CheckerTest, LostUpdateIsCaught) {
  const History history{{},
                        {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}),
                         instance(2, 0, 0, 11, {read(kX, 0), write(kX, v(2, 1))})}};
  expect_only(check(history), Fault::kLostUpdate, {{1, 0}, {2, 0}}, {kX});
}

TEST(CheckerTest, WriteSkewIsCaught) {
  const History history{{},
                        {instance(1, 0, 0, 10, {read(kX, 0), read(kY, 0), write(kX, v(1, 1))}),
                         instance(2, 0, 0, 11, {read(kX, 0), read(kY, 0), write(kY, v(2, 1))})}};
  expect_only(check(history), Fault::kWriteSkew, {{1, 0}, {2, 0}}, {kX, kY});
}

TEST(CheckerTest, ThreeWayCycleOfCommittedUpdatesIsCaught) {
  const History history{{},
                        {instance(1, 0, 0, 10, {read(kX, 0), read(kY, 0), write(kX, v(1, 1))}),
                         instance(2, 0, 0, 10, {read(kY, 0), read(kZ, 0), write(kY, v(2, 1))}),
                         instance(3, 0, 0, 10, {read(kZ, 0), read(kX, 0), write(kZ, v(3, 1))})}};
  expect_only(check(history), Fault::kNotSerializable, {{1, 0}, {2, 0}, {3, 0}}, {kX, kY, kZ});
}

TEST(CheckerTest, DirtyReadIsCaught) {
  const History history{
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}, Outcome::kAborted),
       instance(2, 0, 5, 15, {read(kX, v(1, 1))})}};
  expect_only(check(history), Fault::kDirtyRead, {{1, 0}, {2, 0}}, {kX});
}

TEST(CheckerTest, DirtyReadInAnAbortedInstanceIsCaught) {
  const History history{
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}, Outcome::kAborted),
       instance(2, 0, 5, 15, {read(kX, v(1, 1))}, Outcome::kAborted)}};
  expect_only(check(history), Fault::kDirtyRead, {{1, 0}, {2, 0}}, {kX});
}

TEST(CheckerTest, IntermediateReadIsCaught) {
  const History history{
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1)), write(kX, v(1, 2))}),
       instance(2, 0, 5, 15, {read(kX, v(1, 1))})}};
  expect_only(check(history), Fault::kIntermediateRead, {{1, 0}, {2, 0}}, {kX});
}

TEST(CheckerTest, ValueFromNowhereIsCaught) {
  const History history{{}, {instance(1, 0, 0, 10, {read(kX, v(7, 7))})}};
  expect_only(check(history), Fault::kValueFromNowhere, {{1, 0}}, {kX});
}

TEST(CheckerTest, ValueOfAnotherCellIsCaught) {
  const History history{{},
                        {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}),
                         instance(2, 0, 20, 30, {read(kY, v(1, 1))})}};
  expect_only(check(history), Fault::kValueFromNowhere, {{2, 0}}, {kY});
}

TEST(CheckerTest, OwnWriteThatIsInvisibleIsCaught) {
  const History history{
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1)), read(kX, 0)}, Outcome::kAborted)}};
  expect_only(check(history), Fault::kOwnWriteInvisible, {{1, 0}}, {kX});
}

TEST(CheckerTest, UnstableReadIsCaught) {
  const History history{
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}),
       instance(2, 0, 0, 15, {read(kX, 0), read(kX, v(1, 1))}, Outcome::kAborted)}};
  expect_only(check(history), Fault::kUnstableRead, {{2, 0}}, {kX});
}

// Process 1 commits x and y together; the reader saw the new x with the old y.
History torn_view(Outcome outcome, Kind kind) {
  return {
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), read(kY, 0), write(kX, v(1, 1)), write(kY, v(1, 2))}),
       instance(2, 3, 0, 20, {read(kX, v(1, 1)), read(kY, 0)}, outcome, kind)}};
}

TEST(CheckerTest, InconsistentViewInAnAbortedInstanceIsCaught) {
  expect_only(check(torn_view(Outcome::kAborted, Kind::kUpdate)), Fault::kInconsistentView,
              {{1, 0}, {2, 3}}, {kX, kY});
}

TEST(CheckerTest, InconsistentViewInAQueryIsCaught) {
  expect_only(check(torn_view(Outcome::kCommitted, Kind::kQuery)), Fault::kInconsistentView,
              {{1, 0}, {2, 3}}, {kX, kY});
}

TEST(CheckerTest, InconsistentViewInAKilledInstanceIsCaught) {
  expect_only(check(torn_view(Outcome::kUnknown, Kind::kUpdate)), Fault::kInconsistentView,
              {{1, 0}, {2, 3}}, {kX, kY});
}

TEST(CheckerTest, InconsistentViewInACommittedUpdateIsCaught) {
  expect_only(check(torn_view(Outcome::kCommitted, Kind::kUpdate)), Fault::kNotSerializable,
              {{1, 0}, {2, 3}}, {kX, kY});
}

// Each aborted instance alone saw a possible state, but they disagree on the order of two
// independent commits.
TEST(CheckerTest, AbortedInstancesThatDisagreeOnTheOrderAreCaught) {
  const History history{
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}),
       instance(2, 0, 0, 10, {read(kY, 0), write(kY, v(2, 1))}),
       instance(3, 0, 0, 20, {read(kX, v(1, 1)), read(kY, 0)}, Outcome::kAborted),
       instance(4, 0, 0, 20, {read(kX, 0), read(kY, v(2, 1))}, Outcome::kAborted)}};
  expect_only(check(history), Fault::kInconsistentView, {{1, 0}, {2, 0}, {3, 0}, {4, 0}}, {kX, kY});
}

TEST(CheckerTest, WritesOfAnAbortedInstanceDoNotCount) {
  const History history{
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}, Outcome::kAborted),
       instance(2, 0, 5, 15, {read(kX, 0), write(kX, v(2, 1))})}};
  EXPECT_TRUE(check(history).ok()) << check(history).report();
}

TEST(CheckerTest, KilledInstanceWithAllWritesVisibleIsAccepted) {
  const History history{
      {},
      {instance(1, 0, 0, 0, {read(kX, 0), read(kY, 0), write(kX, v(1, 1)), write(kY, v(1, 2))},
                Outcome::kUnknown),
       instance(2, 0, 20, 30, {read(kX, v(1, 1)), read(kY, v(1, 2))}, Outcome::kCommitted,
                Kind::kQuery)}};
  const Verdict verdict = check(history);
  EXPECT_TRUE(verdict.ok()) << verdict.report();
  EXPECT_EQ(verdict.unknown, 1U);
  EXPECT_EQ(verdict.unknown_committed, 1U);
}

TEST(CheckerTest, KilledInstanceWithNoWriteVisibleIsAccepted) {
  const History history{
      {},
      {instance(1, 0, 0, 0, {read(kX, 0), read(kY, 0), write(kX, v(1, 1)), write(kY, v(1, 2))},
                Outcome::kUnknown),
       instance(2, 0, 20, 30, {read(kX, 0), read(kY, 0), write(kX, v(2, 1))})}};
  const Verdict verdict = check(history);
  EXPECT_TRUE(verdict.ok()) << verdict.report();
  EXPECT_EQ(verdict.unknown_committed, 0U);
}

TEST(CheckerTest, PartialCommitOfAKilledProcessIsCaughtByAReader) {
  const History history{
      {},
      {instance(1, 0, 0, 0, {read(kX, 0), read(kY, 0), write(kX, v(1, 1)), write(kY, v(1, 2))},
                Outcome::kUnknown),
       instance(2, 0, 20, 30, {read(kX, v(1, 1)), read(kY, 0)}, Outcome::kCommitted,
                Kind::kQuery)}};
  expect_only(check(history), Fault::kPartialCommit, {{1, 0}, {2, 0}}, {kX, kY});
}

TEST(CheckerTest, PartialCommitOfAKilledProcessIsCaughtByWriters) {
  const History history{
      {},
      {instance(1, 0, 0, 0, {read(kX, 0), read(kY, 0), write(kX, v(1, 1)), write(kY, v(1, 2))},
                Outcome::kUnknown),
       instance(2, 0, 20, 30, {read(kX, v(1, 1)), write(kX, v(2, 1))}),
       instance(3, 0, 20, 30, {read(kY, 0), write(kY, v(3, 1))})}};
  expect_only(check(history), Fault::kPartialCommit, {{1, 0}, {3, 0}}, {kY});
}

TEST(CheckerTest, StaleReadAgainstRealTimeIsCaughtOnlyInStrictOrder) {
  const History history{{},
                        {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}),
                         instance(2, 0, 20, 30, {read(kX, 0)}, Outcome::kCommitted, Kind::kQuery)}};
  expect_only(check(history), Fault::kRealTime, {{1, 0}, {2, 0}}, {kX});
  EXPECT_TRUE(check(history, Order::kSerializable).ok());
}

TEST(CheckerTest, StaleReadThroughAThirdInstanceIsCaught) {
  // 2 overlaps both; 3 began after 1 had ended and 2 reads 1's write before 3, which read around
  // it.
  const History history{
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}),
       instance(2, 0, 0, 12, {read(kX, v(1, 1)), read(kY, 0), write(kY, v(2, 1))}),
       instance(3, 0, 13, 30, {read(kY, 0)}, Outcome::kAborted)}};
  expect_only(check(history), Fault::kRealTime, {{2, 0}, {3, 0}}, {kY});
}

TEST(CheckerTest, LostCommitIsCaughtByTheFinalQuery) {
  const History history{{},
                        {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}),
                         instance(0, 0, 90, 99, {read(kX, 0)}, Outcome::kCommitted, Kind::kQuery)}};
  expect_only(check(history), Fault::kRealTime, {{0, 0}, {1, 0}}, {kX});
}

TEST(CheckerTest, ReadFromTheFutureIsCaught) {
  const History history{{},
                        {instance(1, 0, 20, 30, {read(kX, 0), write(kX, v(1, 1))}),
                         instance(2, 0, 0, 10, {read(kX, v(1, 1))}, Outcome::kAborted)}};
  expect_only(check(history), Fault::kRealTime, {{1, 0}, {2, 0}}, {kX});
}

TEST(CheckerTest, WriteSkewIsRightUnderSnapshotIsolationAlone) {
  for (const auto &[first, second] :
       {std::pair{true, true}, std::pair{true, false}, std::pair{false, false}}) {
    History skew{{},
                 {instance(1, 0, 0, 10, {read(kX, 0), read(kY, 0), write(kX, v(1, 1))}),
                  instance(2, 0, 0, 11, {read(kX, 0), read(kY, 0), write(kY, v(2, 1))})}};
    skew.instances[0].is_snapshot = first;
    skew.instances[1].is_snapshot = second;
    const Verdict verdict = check(skew);
    EXPECT_EQ(verdict.ok(), first || second) << verdict.report();
    EXPECT_FALSE(verdict.is_serializable);
  }
}

TEST(CheckerTest, LostUpdatesAreWrongUnderSnapshotIsolation) {
  History lost{{},
               {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}),
                instance(2, 0, 0, 11, {read(kX, 0), write(kX, v(2, 1))})}};
  for (Instance &each : lost.instances) each.is_snapshot = true;
  EXPECT_TRUE(check(lost).has(Fault::kLostUpdate));
}

// It reads x behind the first commit and y before the second: no moment shows both.
TEST(CheckerTest, ASnapshotInstanceReadsOneMoment) {
  History torn{
      {},
      {instance(1, 0, 0, 10, {read(kX, 0), read(kY, 0), write(kX, v(1, 1)), write(kY, v(1, 2))}),
       instance(2, 0, 0, 11, {read(kX, v(1, 1)), read(kY, 0), read(kZ, 0), write(kZ, v(2, 1))})}};
  for (Instance &each : torn.instances) each.is_snapshot = true;
  EXPECT_TRUE(check(torn).has(Fault::kNotSerializable)) << check(torn).report();
}

TEST(CheckerTest, MalformedHistoriesAreRefused) {
  const Instance blind = instance(1, 0, 0, 10, {write(kX, v(1, 1))});
  const Instance writer = instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))});
  const Instance same_value = instance(2, 0, 20, 30, {read(kX, v(1, 1)), write(kX, v(1, 1))});
  const Instance backwards = instance(1, 0, 10, 5, {read(kX, 0)});
  const Instance writing_query =
      instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}, Outcome::kCommitted, Kind::kQuery);
  EXPECT_TRUE(check({{}, {blind}}).has(Fault::kMalformed));
  EXPECT_TRUE(check({{}, {writer, same_value}}).has(Fault::kMalformed));
  EXPECT_TRUE(check({{}, {writer, writer}}).has(Fault::kMalformed));
  EXPECT_TRUE(check({{}, {backwards}}).has(Fault::kMalformed));
  EXPECT_TRUE(check({{}, {writing_query}}).has(Fault::kMalformed));
}

TEST(CheckerTest, ReportNamesInstancesCellsAndEdges) {
  const std::string report = check(torn_view(Outcome::kAborted, Kind::kUpdate)).report();
  for (const char *part :
       {"inconsistent view", "p1#0 (committed update, 0 us to 10 us)", "p2#3 (aborted update",
        "wrote cell 1, which was read by p2#3", "read cell 2 before the version written by p1#0"}) {
    EXPECT_NE(report.find(part), std::string::npos) << report;
  }
}

// --- against the oracle
// -------------------------------------------------------------------------------------------------

// Tries every serial order that respects real time, replaying each operation on one plain array of
// cells: no graph, no version order. Exponential, for up to eight instances. A killed instance may
// take effect or not. A snapshot instance is placed twice: where it reads, and where its writes are
// applied, to cells that are as it has read them.
class Oracle {
 public:
  explicit Oracle(const History &history) : history_(history) {}

  [[nodiscard]] bool accepts() { return place(0, history_.initial); }

 private:
  bool place(std::uint32_t placed, const std::map<Cell, Value> &state) {
    const std::size_t count = history_.instances.size();
    if (placed == (1U << count) - 1U) return true;
    for (std::size_t i = 0; i < count; ++i) {
      if ((placed >> i & 1U) != 0) continue;
      const std::uint32_t now = placed | 1U << i;
      if (const auto found = begun_.find(i); found != begun_.end()) {
        const std::map<Cell, Value> snapshot = found->second;
        std::map<Cell, Value> after = state;
        if (!apply(history_.instances[i], snapshot, &after)) continue;
        begun_.erase(i);
        if (place(now, after)) return true;
        begun_[i] = snapshot;
        continue;
      }
      if (!may_be_next(placed, i)) continue;
      std::map<Cell, Value> after = state;
      if (!replay(history_.instances[i], &after)) continue;
      const Outcome outcome = history_.instances[i].outcome;
      if (history_.instances[i].is_snapshot && outcome != Outcome::kAborted) {
        begun_[i] = state;
        if (place(placed, state)) return true;
        begun_.erase(i);
        if (outcome == Outcome::kUnknown && place(now, state)) return true;
        continue;
      }
      if (outcome != Outcome::kAborted && place(now, after)) return true;
      if (outcome != Outcome::kCommitted && place(now, state)) return true;
    }
    return false;
  }

  bool may_be_next(std::uint32_t placed, std::size_t candidate) const {
    for (std::size_t other = 0; other < history_.instances.size(); ++other) {
      if ((placed >> other & 1U) != 0 || history_.instances[other].outcome == Outcome::kUnknown)
        continue;
      if (history_.instances[other].end_ns < history_.instances[candidate].begin_ns) return false;
    }
    return true;
  }

  static bool replay(const Instance &instance, std::map<Cell, Value> *state) {
    for (const Operation &operation : instance.operations) {
      Value &cell = (*state)[operation.cell];
      if (operation.type == Operation::Type::kRead && cell != operation.value) return false;
      cell = operation.value;
    }
    return true;
  }

  // False: another one has written such a cell since.
  static bool apply(const Instance &instance, const std::map<Cell, Value> &snapshot,
                    std::map<Cell, Value> *state) {
    std::map<Cell, Value> then = snapshot, writes;
    for (const Operation &operation : instance.operations)
      if (operation.type == Operation::Type::kWrite) writes[operation.cell] = operation.value;
    for (const auto &[cell, value] : writes) {
      if ((*state)[cell] != then[cell]) return false;
      (*state)[cell] = value;
    }
    return true;
  }

  const History &history_;
  // Snapshot instances that have read and not committed, with the state that they have read.
  std::map<std::size_t, std::map<Cell, Value>> begun_;
};

SimulationOptions small_run(bool kills) {
  SimulationOptions options;
  options.processes = 3;
  options.instances_max = 7;
  options.cells = 3;
  options.operations_max = 4;
  options.kill_percent = kills ? 12 : 0;
  return options;
}

// A read is altered to another value that the cell had, has or will have, or the value of an
// aborted writer: the kinds of mistakes an engine makes. Returns false when the history offers
// nothing to alter.
bool alter_one_read(History *history, std::mt19937_64 *random) {
  std::vector<std::pair<std::size_t, std::size_t>> reads;
  for (std::size_t i = 0; i < history->instances.size(); ++i) {
    const auto &operations = history->instances[i].operations;
    for (std::size_t k = 0; k < operations.size(); ++k) {
      if (operations[k].type == Operation::Type::kRead) reads.emplace_back(i, k);
    }
  }
  if (reads.empty()) return false;
  const auto [i, k] = reads[(*random)() % reads.size()];
  Operation &target = history->instances[i].operations[k];
  std::vector<Value> others{0};
  for (const Instance &instance : history->instances) {
    for (const Operation &operation : instance.operations) {
      if (operation.type == Operation::Type::kWrite && operation.cell == target.cell)
        others.push_back(operation.value);
    }
  }
  std::erase(others, target.value);
  if (others.empty()) return false;
  target.value = others[(*random)() % others.size()];
  return true;
}

// One costs 10 us: cheaper than a further property with its set-up.
// Fewer where each takes longer: rapidcheck asks a hundred times, and some oracles take seconds.
const int kHistoriesPerProperty = static_cast<int>(std::max(1u, 20 / test::build_slowdown()));

// All serializable, all under snapshot isolation, or some.
std::uint32_t snapshot_percent(std::uint64_t random) {
  constexpr std::uint32_t kPercents[] = {0, 50, 100};
  return kPercents[random % std::size(kPercents)];
}

RC_GTEST_PROP(CheckerPropertyTest, RightSmallHistoriesAreAcceptedByCheckerAndOracle,
              (std::uint64_t first_seed, bool kills)) {
  std::mt19937_64 random(first_seed);
  for (int repeat = 0; repeat < kHistoriesPerProperty; ++repeat) {
    SimulationOptions options = small_run(kills);
    options.snapshot_percent = snapshot_percent(random());
    const History history = simulate(options, random());
    RC_ASSERT(Oracle(history).accepts());
    const Verdict verdict = check(history);
    RC_LOG() << verdict.report();
    RC_ASSERT(verdict.ok());
  }
}

RC_GTEST_PROP(CheckerPropertyTest, VerdictOnAlteredSmallHistoriesEqualsTheOracle,
              (std::uint64_t first_seed, bool kills)) {
  std::mt19937_64 random(first_seed);
  for (int repeat = 0; repeat < kHistoriesPerProperty; ++repeat) {
    SimulationOptions options = small_run(kills);
    options.snapshot_percent = snapshot_percent(random());
    History history = simulate(options, random());
    if (!alter_one_read(&history, &random)) continue;
    const Verdict verdict = check(history);
    RC_LOG() << verdict.report();
    RC_ASSERT(verdict.ok() == Oracle(history).accepts());
  }
}

TEST(CheckerPropertyTest, OracleItselfTellsRightFromWrong) {
  const History skew{{},
                     {instance(1, 0, 0, 10, {read(kX, 0), read(kY, 0), write(kX, v(1, 1))}),
                      instance(2, 0, 0, 11, {read(kX, 0), read(kY, 0), write(kY, v(2, 1))})}};
  EXPECT_FALSE(Oracle(skew).accepts());
  EXPECT_FALSE(Oracle(torn_view(Outcome::kAborted, Kind::kUpdate)).accepts());
  const History serial{{},
                       {instance(1, 0, 0, 10, {read(kX, 0), write(kX, v(1, 1))}),
                        instance(2, 0, 20, 30, {read(kX, v(1, 1))})}};
  EXPECT_TRUE(Oracle(serial).accepts());
}

SimulationOptions large_run() {
  SimulationOptions options;
  options.processes = 4;
  options.instances_max = 600;
  options.cells = 12;
  options.operations_max = 8;
  options.kill_percent = 2;
  return options;
}

// What a snapshot instance may do, a serializable one may not.
RC_GTEST_PROP(CheckerPropertyTest, OtherPromisesOnSmallHistoriesEqualTheOracle,
              (std::uint64_t first_seed)) {
  std::mt19937_64 random(first_seed);
  for (int repeat = 0; repeat < kHistoriesPerProperty; ++repeat) {
    SimulationOptions options = small_run(false);
    options.snapshot_percent = 100;
    options.query_percent = 5;
    History history = simulate(options, random());
    const bool is_serializable = check(history).is_serializable;
    for (Instance &instance : history.instances)
      if (random() % 2 == 0) instance.is_snapshot = false;
    RC_ASSERT(check(history).ok() == Oracle(history).accepts());
    for (Instance &instance : history.instances) instance.is_snapshot = false;
    RC_ASSERT(check(history).is_serializable == is_serializable);
    RC_ASSERT(is_serializable || !check(history).ok());
  }
}

RC_GTEST_PROP(CheckerPropertyTest, LargeSimulatedRunsAreAccepted, (std::uint64_t seed)) {
  SimulationOptions options = large_run();
  options.snapshot_percent = snapshot_percent(seed);
  const History history = simulate(options, seed);
  const Verdict verdict = check(history);
  RC_LOG() << verdict.report();
  RC_ASSERT(verdict.ok());
}

TEST(CheckerPropertyTest, AlteredReadsInLargeRunsAreCaught) {
  // Some alterations stay right: an overlapping reader may as well have come before or after. The
  // oracle test above decides those exactly; here nearly all values are far off, so nearly all must
  // be caught.
  constexpr int kTrials = 400;
  const std::uint64_t seed = test::seed();
  std::mt19937_64 random(seed);
  int caught = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    History history = simulate(large_run(), random());
    if (alter_one_read(&history, &random) && !check(history).ok()) ++caught;
  }
  EXPECT_GE(caught, kTrials * 95 / 100) << "seed " << seed;
}

// Engines with one rule left out must be caught within a few runs: the simulation's histories are
// hard enough.
TEST(CheckerPropertyTest, SimulatedEnginesWithAMissingRuleAreCaught) {
  const std::uint64_t seed = test::seed();
  for (const Defect defect :
       {Defect::kNoReadValidation, Defect::kNoValidation, Defect::kMovingSnapshot,
        Defect::kDirtyWrites, Defect::kHalfCommitWhenKilled, Defect::kStaleSnapshot}) {
    int caught = 0;
    for (std::uint64_t run = 0; run < 10; ++run) {
      SimulationOptions options = large_run();
      options.defect = defect;
      // No defect of a snapshot instance.
      const bool is_of_both = defect != Defect::kNoReadValidation;
      options.snapshot_percent = is_of_both ? 50 : 0;
      options.kill_percent = 40;  // few kills hit an end that has two writes to tear apart
      // Of 600 instances one run in 1300 tears nothing apart, and is right; of 1800 some 21 are
      // torn.
      if (defect == Defect::kHalfCommitWhenKilled) options.instances_max *= 3;
      if (!check(simulate(options, seed + run)).ok()) ++caught;
    }
    EXPECT_EQ(caught, 10) << "defect " << static_cast<int>(defect) << ", seed " << seed;
  }
}

}  // namespace
}  // namespace tmh::history
