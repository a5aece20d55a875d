// tests/death/kill_counters_test.cpp -- after a run with kills a domain's counters say what the
// recorded history of the same run says.
// Invariants: (1) commits of each level, and in durable domains those in the log, are exactly the
//             instances of the history that committed; what a killed process left unsaid its values
//             tell: every write is recorded before it is stored, every reader names its writer.
//             (2) participants reaped are exactly the kills. (3) begins, queries, aborts by cause
//             and escalations by reason are exactly the sums of what each process said
//             (tests/support/ledger.h): of a living one its statements and the engine's events,
//             looked at after each call; of a killed one the same, and for the one call under way
//             one of the few ways in which it can have gone on.
//             (4) The check can fail: mistakes in the engine's counting, planted, are found and
//                 named.
// Size:       TMH_COUNTER_KILLS deaths in all (default 300), shared by the modes; half at a random
//             step, half at a random instruction.
#include <gtest/gtest.h>

#include <csignal>
#include <ctime>
#include <iterator>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "observe/planted.h"
#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/ledger.h"
#include "tests/support/modes.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/watched_workers.h"

namespace tmh::test {
namespace {

using history::Instance;
using history::Kind;
using history::Operation;
using history::Outcome;
using history::RanAt;

constexpr std::size_t kWorkers = 4;
constexpr std::uint64_t kEntriesPerLane = 2'000'000;  // address space only
// A kill at a random instruction falls into so much time: a few transactions.
constexpr long kAimNs = 400'000;

constexpr Mode kPageStrict = {"PageStrict",  Detection::kLazy,  Tracking::kKernelHot,
                              Levels::kPage, LineChoice::kAuto, Durability::kStrict};

// What the values say of commits. Of a query they say nothing: it committed when its process said
// so, and may have when that was killed.
class Recorded {
 public:
  explicit Recorded(const history::History &history) {
    for (const Instance &instance : history.instances)
      for (const Operation &operation : instance.operations)
        if (operation.type == Operation::Type::kRead &&
            operation.value >> history::kCounterBits != instance.id.process)
          read_by_others_.insert(operation.value);
    for (const Instance &instance : history.instances) {
      if (instance.kind == Kind::kQuery) {
        if (instance.ran_at != RanAt::kLines) continue;
        if (instance.outcome == Outcome::kCommitted) ++line_queries;
        if (instance.outcome == Outcome::kUnknown) ++line_queries_unsaid;
        continue;
      }
      const bool is_unsaid = instance.outcome == Outcome::kUnknown && is_seen(instance);
      if (is_unsaid) resolved_.insert(instance.id.process);
      if (!is_unsaid && instance.outcome != Outcome::kCommitted) continue;
      ++(instance.ran_at == RanAt::kPages   ? pages
         : instance.ran_at == RanAt::kLines ? lines
                                            : hardware);
    }
  }

  std::uint64_t pages = 0, lines = 0, hardware = 0;  // commits of updates
  std::uint64_t line_queries = 0, line_queries_unsaid = 0;
  // Did the process's last instance commit, of which it could not say so?
  [[nodiscard]] bool committed_unsaid(std::uint32_t process) const {
    return resolved_.contains(process);
  }
  [[nodiscard]] std::size_t resolved() const { return resolved_.size(); }

 private:
  // Of a killed process's last instance: nobody of that process came after it.
  [[nodiscard]] bool is_seen(const Instance &instance) const {
    for (const Operation &operation : instance.operations)
      if (operation.type == Operation::Type::kWrite && read_by_others_.contains(operation.value))
        return true;
    return false;
  }

  std::unordered_set<history::Value> read_by_others_;
  std::unordered_set<std::uint32_t> resolved_;
};

// Every update writes, so its values tell whether it committed.
class Steps {
 public:
  Steps(Player &player, std::uint64_t seed) : player_(player), random_(seed) {}

  void step() {
    const history::Cell a = random_() % Board::kCells,
                        b = (a + 1 + random_() % (Board::kCells - 1)) % Board::kCells;
    const std::uint64_t what = random_() % 8;
    if (what == 0)
      return player_.query([&] { static_cast<void>(player_.read(a) + player_.read(b)); });
    if (what == 1) {
      static_cast<void>(player_.attempt([&] {
        player_.write(a, 1);
        Player::give_up();
      }));
      return;
    }
    player_.update([&] {
      const std::uint64_t sum = player_.read(a) + player_.read(b);
      player_.write(a, sum + 1);
      if (what % 2 == 0) player_.write(b, sum);
    });
  }

 private:
  Player &player_;
  std::mt19937_64 random_;
};

// One mistake in the engine's counting, and where a kill must fall for it to show.
struct Mistake {
  const char *name;
  observe::Planted planted;
  const char *finding;                       // says this
  std::uint32_t step = observe::kStepCount;  // half of the kills; kStepCount: any
};

class Battle {
 public:
  Battle(const Mode &mode, std::uint64_t first_seed, std::uint64_t kills,
         std::uint32_t step = observe::kStepCount)
      : options_(options_for(mode)),
        folder_(place_for(mode)),
        kills_wanted_(kills),
        step_(step),
        random_(first_seed),
        recorder_(static_cast<std::uint32_t>(kWorkers + kills) + 1, kEntriesPerLane),
        ledger_(static_cast<std::uint32_t>(kWorkers + kills) + 1) {}

  void play() {
    Children children;
    const std::size_t observer = children.spawn("observer", [this] { observe(); });
    for (std::size_t i = 0; i < kWorkers; ++i) child_of_[i] = start(&children, i);
    while (kills_ < kills_wanted_ && !testing::Test::HasFailure()) {
      const std::size_t victim = random_() % kWorkers;
      strike(&children, victim);
      ++kills_;
      child_of_[victim] = start(&children, victim);
    }
    state_->stop.store(true);
    for (const std::size_t child : child_of_) EXPECT_TRUE(children.wait(child).succeeded());
    is_over_->store(true);
    EXPECT_TRUE(children.wait(observer).succeeded());
  }

  // What is not as it was recorded. Empty: nothing.
  [[nodiscard]] std::vector<std::string> findings() {
    const history::History history = recorder_.read();
    const history::Verdict verdict = history::check(history);
    EXPECT_TRUE(verdict.ok()) << verdict.report();
    const Recorded recorded(history);
    Ledger::Result result = ledger_.audit(
        [&recorded](std::uint32_t process) { return recorded.committed_unsaid(process); });
    const Counters &counters = *counters_;
    const auto expect = [&result](const char *what, std::uint64_t counted, std::uint64_t wanted,
                                  std::uint64_t more = 0) {
      if (counted >= wanted && counted <= wanted + more) return;
      result.findings.push_back(std::string("in all ") + what + " " + std::to_string(counted) +
                                ", not " + std::to_string(wanted));
    };
    expect("page commits", counters.commits, recorded.pages);
    expect("line commits", counters.line_commits, recorded.lines + recorded.line_queries,
           recorded.line_queries_unsaid);
    expect("RTM commits", counters.hardware_commits, recorded.hardware);
    expect("participants reaped", counters.participants_reaped, kills_);
    if (options_.durability != Durability{})
      expect("log commits", counters.log_commits, recorded.pages + recorded.lines);
    if (const std::string text = difference(tally_of(counters, result.total), result.total);
        !text.empty())
      result.findings.push_back("the domain's totals are not those of its processes: " + text);
    print(counters, recorded, result);
    return result.findings;
  }

 private:
  static unsigned long long number(std::uint64_t value) { return value; }
  static std::uint64_t of(const std::uint64_t (&aborts)[kAbortCauseCount], AbortCause cause) {
    return aborts[static_cast<std::size_t>(cause)];
  }

  // Ends of queries are not among a domain's counters: they are as `like` has them.
  static Tally tally_of(const Counters &counters, const Tally &like) {
    Tally tally;
    using line::LineCount;
    using storage::Count;
    tally = tally.with(Count::kBegins, counters.begins)
                .with(Count::kCommits, counters.commits)
                .with(Count::kQueries, counters.queries)
                .with(Count::kThreadViewInstances, counters.thread_view_instances)
                .with(Count::kThreadViewFallbacks, counters.thread_view_fallbacks)
                .with(Count::kIrrevocables, counters.irrevocables)
                .with(LineCount::kBegins, counters.line_begins)
                .with(LineCount::kCommits, counters.line_commits)
                .with(LineCount::kHardwareCommits, counters.hardware_commits)
                .with(LineCount::kForCapacity, counters.escalations_capacity)
                .with(LineCount::kForAttempts, counters.escalations_attempts);
    for (std::size_t i = 0; i < kAbortCauseCount; ++i)
      tally =
          tally.with(storage::abort_count(static_cast<AbortCause>(i)), counters.aborts[i])
              .with(line::line_abort_count(static_cast<AbortCause>(i)), counters.line_aborts[i]);
    for (std::size_t i = 0; i < kNeedCount; ++i)
      tally =
          tally.with(line::line_need_count(static_cast<Need>(i)), counters.escalations_by_need[i]);
    const auto ends = static_cast<std::size_t>(Count::kQueryEnds);
    tally.pages[ends] = like.pages[ends];
    return tally;
  }

  void print(const Counters &counters, const Recorded &recorded,
             const Ledger::Result &result) const {
    const std::uint64_t user =
        of(counters.aborts, AbortCause::kUser) + of(counters.line_aborts, AbortCause::kUser);
    const std::uint64_t died =
        of(counters.aborts, AbortCause::kDied) + of(counters.line_aborts, AbortCause::kDied);
    std::printf(
        "%llu kills, %llu within calls or bodies that may have been counted in %llu ways; commits "
        "%llu pages, %llu "
        "lines, %llu "
        "RTM, of which %llu by killed ones that could not say so; %llu conflicts, %llu given up, "
        "%llu died, %llu "
        "queries, %llu "
        "escalations\n",
        number(kills_), number(result.cut), number(result.ways), number(counters.commits),
        number(counters.line_commits), number(counters.hardware_commits),
        number(recorded.resolved()),
        number(counters.aborts_total() + counters.line_aborts_total() - user - died), number(user),
        number(died), number(counters.queries),
        number(counters.escalations_capacity + counters.escalations_needs_pages +
               counters.escalations_attempts));
  }

  // Keeps the domain, and with it its counters, while all others come and go.
  void observe() {
    Board board(folder_.path(), options_);
    Lane lane = recorder_.open_lane();
    Bookkeeper bookkeeper(ledger_, board.domain(), lane.process());
    lane.tell(&bookkeeper);
    Player player(board, lane);
    player.update([&] {
      for (history::Cell cell = 0; cell < Board::kCells; ++cell) player.write(cell, 1);
    });
    state_->gate.reach(1);
    EXPECT_TRUE(poll_until([&] { return is_over_->load(); }, 10 * hang_deadline()));
    player.query([&] {
      for (history::Cell cell = 0; cell < Board::kCells; ++cell)
        static_cast<void>(player.read(cell));
    });
    EXPECT_EQ(board.domain().collect(), 0U);
    if (options_.durability != Durability{}) board.domain().flush();
    *counters_ = board.domain().counters();
    ledger_.close(board.domain());
    board.close();
  }

  std::size_t start(Children *children, std::size_t index) {
    const std::uint64_t seed = random_();
    const bool jostles = random_() % 2 == 0;
    state_->finished[index].store(0);
    return children->spawn("worker " + std::to_string(index), [this, index, seed, jostles] {
      state_->gate.await(1);
      Board board(folder_.path(), options_);
      Lane lane = recorder_.open_lane();
      Bookkeeper bookkeeper(ledger_, board.domain(), lane.process());
      lane.tell(&bookkeeper);
      Player player(board, lane, jostles ? &state_->attempts : nullptr);
      Steps steps(player, seed);
      while (!state_->stop.load()) {
        if (const std::uint64_t order = state_->armed[index].exchange(0); order != 0)
          observe::crash_at(static_cast<std::uint32_t>(order),
                            static_cast<std::uint32_t>(order >> 32));
        steps.step();
        state_->finished[index].fetch_add(1);
      }
      board.close();
    });
  }

  void strike(Children *children, std::size_t victim) {
    const std::size_t child = child_of_[victim];
    const auto wait_for = [&](std::uint64_t count) {
      const std::uint64_t wanted = state_->finished[victim].load() + count;
      EXPECT_TRUE(poll_until([&] {
        return !children->running(child) || state_->finished[victim].load() >= wanted;
      })) << "worker "
          << victim << " is hung";
    };
    wait_for(1 + random_() % 8);
    EXPECT_TRUE(children->running(child)) << "worker " << victim << " ended by itself";
    if (random_() % 2 == 0) {
      const timespec pause{0, static_cast<long>(random_() % kAimNs)};
      nanosleep(&pause, nullptr);
    } else {
      // Then it does not pass that step: it is killed where it is.
      constexpr std::uint64_t kChances = 20;
      const auto any = static_cast<std::uint32_t>(random_() % observe::kStepAndGapCount);
      state_->arm(victim, step_ == observe::kStepCount ? any : step_,
                  1 + static_cast<std::uint32_t>(random_() % 3));
      wait_for(kChances);
    }
    children->bury(child);
    state_->armed[victim].store(0);
  }

  DomainOptions options_;
  TempFolder folder_;
  std::size_t child_of_[kWorkers] = {};
  std::uint64_t kills_wanted_, kills_ = 0;
  std::uint32_t step_;
  std::mt19937_64 random_;
  Recorder recorder_;
  Ledger ledger_;
  Shared<WatchedWorkers> state_;
  Shared<std::atomic<bool>> is_over_;
  Shared<Counters> counters_;
};

std::string text_of(const std::vector<std::string> &findings) {
  std::string text;
  for (const std::string &finding : findings) text.append(finding).append("\n");
  return text;
}

class KillCountersTest : public testing::TestWithParam<Mode> {};

TEST_P(KillCountersTest, CountersAreWhatTheHistorySays) {
  if (const std::string why = why_unavailable(GetParam()); !why.empty()) GTEST_SKIP() << why;
  constexpr std::size_t kModeCount = std::size(kModes) + std::size(kDurableHybridModes) + 1;
  const std::uint64_t kills =
      (environment_number("TMH_COUNTER_KILLS", 300) + kModeCount - 1) / kModeCount;
  Battle battle(GetParam(), seed(), kills);
  battle.play();
  const std::vector<std::string> findings = battle.findings();
  EXPECT_TRUE(findings.empty()) << text_of(findings);
}

INSTANTIATE_TEST_SUITE_P(Modes, KillCountersTest, testing::ValuesIn(kModes), mode_name);
INSTANTIATE_TEST_SUITE_P(DurableModes, KillCountersTest, testing::ValuesIn(kDurableHybridModes),
                         mode_name);
INSTANTIATE_TEST_SUITE_P(DurablePages, KillCountersTest, testing::Values(kPageStrict), mode_name);

// The check can fail: a mistake in the engine's counting, planted, is found, and named.
constexpr Mistake kMistakes[] = {
    {"DeathUncounted", observe::Planted::kDeathUncounted, "died 0, not 1"},
    {"DeathCountedTwice", observe::Planted::kDeathCountedTwice, "died 2, not 1"},
    {"AbortMiscounted", observe::Planted::kAbortMiscounted, "query-wrote 1, not 0"},
    {"QueryUncounted", observe::Planted::kQueryUncounted, "queries "},
    {"EscalationEarly", observe::Planted::kEscalationEarly, "escalations: attempts "},
    {"CountNotTakenBack", observe::Planted::kCountNotTakenBack, "page commits",
     static_cast<std::uint32_t>(observe::Step::kCommitCounted)},
};

class KillCountersMistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(KillCountersMistakeTest, IsFound) {
  const Mode mode = {"HybridSignalHot", Detection::kLazy, Tracking::kSignalHot, Levels::kHybrid};
  if (const std::string why = why_unavailable(mode); !why.empty()) GTEST_SKIP() << why;
  constexpr std::uint64_t kKills = 24;  // half of them within an instance
  Battle battle(mode, seed(), kKills, GetParam().step);
  observe::plant(GetParam().planted);
  battle.play();
  observe::plant(observe::Planted::kNone);
  const std::vector<std::string> findings = battle.findings();
  const std::string text = text_of(findings);
  EXPECT_NE(text.find(GetParam().finding), std::string::npos) << text;
}

std::string mistake_name(const testing::TestParamInfo<Mistake> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Planted, KillCountersMistakeTest, testing::ValuesIn(kMistakes),
                         mistake_name);

}  // namespace
}  // namespace tmh::test
