// tests/kill_counters_test.cpp -- after a run with kills a domain's counters say what the recorded history of the same run says.
// Invariants: (1) commits of each level, and in durable domains those in the log, are exactly the instances of the history that committed;
//             what a killed process left unsaid its values tell: every write is recorded before it is stored, every reader names its writer.
//             (2) participants reaped are exactly the kills. (3) begins, queries, aborts (by cause) and escalations are exactly those recorded,
//             but for what a killed process did after its last record: that is at most one of each per kill, never less than recorded, and
//             begins, commits and aborts of a level still add up exactly.
// Size:       TMH_COUNTER_KILLS deaths in all (default 300), shared by the modes; half at a random step, half at a random instruction.
#include <gtest/gtest.h>

#include <csignal>
#include <ctime>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "platform/steps.h"
#include "tests/support/children.h"
#include "tests/support/crowd.h"
#include "tests/support/modes.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using history::Instance;
using history::Kind;
using history::Operation;
using history::Outcome;
using history::RanAt;

constexpr std::size_t kWorkers = 4;
constexpr std::uint64_t kEntriesPerLane = 2'000'000;  // address space only
constexpr long kAimNs = 400'000;  // a kill at a random instruction falls into so much time: a few transactions

constexpr Mode kPageStrict = {"PageStrict",  Detection::kLazy,  Tracking::kKernelHot,
                              Levels::kPage, LineChoice::kAuto, Durability::kStrict};

// A number of which the history knows part: what a killed process did after its last record may add to it.
struct Range {
  std::uint64_t least = 0, perhaps = 0;
};
void expect_in(const char *what, std::uint64_t counted, Range recorded) {
  EXPECT_GE(counted, recorded.least) << what;
  EXPECT_LE(counted, recorded.least + recorded.perhaps) << what;
}

struct LevelSums {
  std::uint64_t commits = 0;
  Range begins;
  std::uint64_t aborts = 0;  // recorded
  std::uint64_t lost = 0;    // begun for certain, not committed, and nothing more is known
  Range user, died;
};

// What the history says of the counters.
class Recorded {
 public:
  explicit Recorded(const history::History &history) {
    for (const Instance &instance : history.instances)
      for (const Operation &operation : instance.operations)
        if (operation.type == Operation::Type::kRead && operation.value >> history::kCounterBits != instance.id.process)
          read_by_others_.insert(operation.value);
    for (std::size_t i = 0; i < history.instances.size(); ++i) {
      const Instance &instance = history.instances[i];
      const bool is_last =
          i + 1 == history.instances.size() || history.instances[i + 1].id.process != instance.id.process;
      if (instance.kind == Kind::kQuery)
        add_query(instance);
      else
        add_update(instance);
      if (instance.kind == Kind::kUpdate) add_escalation(instance, is_last ? nullptr : &history.instances[i + 1]);
    }
  }

  LevelSums pages, lines;
  std::uint64_t hardware_commits = 0;
  Range queries, escalations;
  std::uint64_t queries_lost = 0;         // begun, and died before their bodies were done
  std::uint64_t queries_ending = 0;       // ... afterwards, or ended well
  std::uint64_t resolved = 0;             // killed instances whose values tell that they committed
  std::uint64_t updates_maybe_begun = 0;  // killed before their bodies said where they ran

 private:
  // Of a killed process's last instance: nobody of that process came after it.
  [[nodiscard]] bool is_seen(const Instance &instance) const {
    for (const Operation &operation : instance.operations)
      if (operation.type == Operation::Type::kWrite && read_by_others_.contains(operation.value)) return true;
    return false;
  }

  LevelSums *level(RanAt where) { return where == RanAt::kPages ? &pages : where == RanAt::kLines ? &lines : nullptr; }

  void add_query(const Instance &instance) {
    if (instance.outcome != Outcome::kUnknown || instance.ran_at != RanAt::kUnknown)
      ++queries.least;
    else
      ++queries.perhaps;
    if (instance.outcome != Outcome::kUnknown || instance.ran_at == RanAt::kUnknown) return;
    ++(instance.was_ending ? queries_ending : queries_lost);
  }

  void add_update(const Instance &instance) {
    const bool committed = instance.outcome == Outcome::kCommitted ||
                           (instance.outcome == Outcome::kUnknown && !instance.gave_up && is_seen(instance));
    if (instance.outcome == Outcome::kUnknown && committed) ++resolved;
    LevelSums *at = level(instance.ran_at);
    if (at == nullptr) {
      if (instance.ran_at == RanAt::kHardware)
        hardware_commits += committed ? 1 : 0;  // an attempt that aborts takes its record with it
      else if (!committed)
        ++updates_maybe_begun;
      return;
    }
    ++at->begins.least;
    if (committed) {
      ++at->commits;
    } else if (instance.outcome == Outcome::kAborted) {
      ++at->aborts;
      if (instance.gave_up) ++at->user.least;
    } else {
      ++at->lost;
      if (instance.gave_up) ++at->user.perhaps;
      // Level 1 may abort in the middle of a body.
      if (!instance.was_ending && instance.ran_at == RanAt::kPages)
        ++at->died.least;
      else
        ++at->died.perhaps;
    }
  }

  void add_escalation(const Instance &instance, const Instance *next) {
    if (instance.ran_at != RanAt::kLines || instance.gave_up || instance.outcome == Outcome::kCommitted) return;
    const bool goes_on = next != nullptr && next->attempt == instance.attempt + 1;
    if (goes_on && next->ran_at == RanAt::kPages)
      ++escalations.least;
    else if (!goes_on || next->ran_at == RanAt::kUnknown)
      ++escalations.perhaps;
  }

  std::unordered_set<history::Value> read_by_others_;
};

// Every update writes, so its values tell whether it committed.
class Steps {
 public:
  Steps(Player &player, std::uint64_t seed) : player_(player), random_(seed) {}

  void step() {
    const history::Cell a = random_() % Board::kCells, b = (a + 1 + random_() % (Board::kCells - 1)) % Board::kCells;
    const std::uint64_t what = random_() % 8;
    if (what == 0) return player_.query([&] { static_cast<void>(player_.read(a) + player_.read(b)); });
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

class Battle {
 public:
  Battle(const Mode &mode, std::uint64_t first_seed, std::uint64_t kills)
      : options_(options_for(mode)),
        kills_wanted_(kills),
        random_(first_seed),
        recorder_(static_cast<std::uint32_t>(kWorkers + kills) + 1, kEntriesPerLane) {}

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

  void expect_agreement() {
    const history::History history = recorder_.read();
    const history::Verdict verdict = history::check(history);
    EXPECT_TRUE(verdict.ok()) << verdict.report();
    const Recorded recorded(history);
    const Counters &counters = *counters_;
    EXPECT_EQ(counters.commits, recorded.pages.commits);
    EXPECT_EQ(counters.line_commits, recorded.lines.commits);
    EXPECT_EQ(counters.hardware_commits, recorded.hardware_commits);
    EXPECT_EQ(counters.participants_reaped, kills_);
    if (options_.durability != Durability{}) {
      EXPECT_EQ(counters.log_commits, recorded.pages.commits + recorded.lines.commits);
    }
    expect_level("pages", recorded.pages, counters.begins, counters.commits, counters.aborts);
    expect_level("lines", recorded.lines, counters.line_begins, counters.line_commits, counters.line_aborts);
    EXPECT_LE(counters.begins + counters.line_begins,
              recorded.pages.begins.least + recorded.lines.begins.least + recorded.updates_maybe_begun);
    expect_in("queries", counters.queries, recorded.queries);
    const std::uint64_t escalations =
        counters.escalations_capacity + counters.escalations_needs_pages + counters.escalations_attempts;
    if (options_.line != LineChoice::kRtm)  // there attempts that failed at level 1 leave no record
      expect_in("escalations", escalations, recorded.escalations);
    std::printf(
        "%llu kills; commits %llu pages, %llu lines, %llu RTM, of which %llu by killed ones that could not say so; "
        "%llu conflicts, %llu "
        "given up, %llu died, %llu queries, %llu escalations; may be one more or less of what is no commit: %llu\n",
        number(kills_), number(counters.commits), number(counters.line_commits), number(counters.hardware_commits),
        number(recorded.resolved),
        number(recorded.pages.aborts + recorded.lines.aborts - recorded.pages.user.least - recorded.lines.user.least),
        number(recorded.pages.user.least + recorded.lines.user.least),
        number(of(counters.aborts, AbortCause::kDied) + of(counters.line_aborts, AbortCause::kDied)),
        number(counters.queries), number(escalations),
        number(recorded.updates_maybe_begun + recorded.queries.perhaps + recorded.queries_ending +
               recorded.pages.died.perhaps + recorded.lines.died.perhaps));
  }

 private:
  static unsigned long long number(std::uint64_t value) { return value; }
  static std::uint64_t of(const std::uint64_t (&aborts)[kAbortCauseCount], AbortCause cause) {
    return aborts[static_cast<std::size_t>(cause)];
  }

  // Of queries only those that aborted are in `aborts`: they died.
  void expect_level(const char *name, const LevelSums &recorded, std::uint64_t begins, std::uint64_t commits,
                    const std::uint64_t (&aborts)[kAbortCauseCount]) {
    SCOPED_TRACE(name);
    const Recorded all(recorder_.read());
    const bool has_queries = &aborts == &counters_->aborts;
    std::uint64_t total = 0;
    for (const std::uint64_t count : aborts) total += count;
    EXPECT_GE(begins, recorded.begins.least);
    const std::uint64_t unsaid = begins - recorded.begins.least;  // begun, and killed before their bodies began
    Range expected{recorded.aborts + recorded.lost + unsaid, 0};
    Range died{recorded.died.least + unsaid, recorded.died.perhaps};
    if (has_queries) {
      const std::uint64_t queries_unsaid = counters_->queries - all.queries.least;
      for (Range *range : {&expected, &died}) {
        range->least += all.queries_lost + queries_unsaid;
        range->perhaps += all.queries_ending;
      }
    } else {
      EXPECT_EQ(begins, commits + total);
    }
    expect_in("aborts", total, expected);
    expect_in("died", of(aborts, AbortCause::kDied), died);
    expect_in("gave up", of(aborts, AbortCause::kUser), recorded.user);
  }

  // Keeps the domain, and with it its counters, while all others come and go.
  void observe() {
    Board board(folder_.path(), options_);
    Player player(board, recorder_.open_lane());
    player.update([&] {
      for (history::Cell cell = 0; cell < Board::kCells; ++cell) player.write(cell, 1);
    });
    state_->gate.reach(1);
    EXPECT_TRUE(poll_until([&] { return is_over_->load(); }, std::chrono::minutes(10)));
    player.query([&] {
      for (history::Cell cell = 0; cell < Board::kCells; ++cell) static_cast<void>(player.read(cell));
    });
    EXPECT_EQ(board.domain().collect(), 0U);
    if (options_.durability != Durability{}) board.domain().flush();
    *counters_ = board.domain().counters();
    board.close();
  }

  std::size_t start(Children *children, std::size_t index) {
    const std::uint64_t seed = random_();
    const bool jostles = random_() % 2 == 0;
    state_->finished[index].store(0);
    return children->spawn("worker " + std::to_string(index), [this, index, seed, jostles] {
      state_->gate.await(1);
      Board board(folder_.path(), options_);
      Player player(board, recorder_.open_lane(), jostles ? &state_->attempts : nullptr);
      Steps steps(player, seed);
      while (!state_->stop.load()) {
        if (const std::uint64_t order = state_->armed[index].exchange(0); order != 0)
          platform::crash_at(static_cast<std::uint32_t>(order), static_cast<std::uint32_t>(order >> 32));
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
      EXPECT_TRUE(poll_until([&] { return !children->running(child) || state_->finished[victim].load() >= wanted; }))
          << "worker " << victim << " is hung";
    };
    wait_for(1 + random_() % 8);
    EXPECT_TRUE(children->running(child)) << "worker " << victim << " ended by itself";
    if (random_() % 2 == 0) {
      const timespec pause{0, static_cast<long>(random_() % kAimNs)};
      nanosleep(&pause, nullptr);
    } else {
      constexpr std::uint64_t kChances = 20;  // then it does not pass that step: it is killed where it is
      state_->arm(victim, static_cast<std::uint32_t>(random_() % platform::kStepCount),
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
  std::mt19937_64 random_;
  Recorder recorder_;
  Shared<CrowdState> state_;
  Shared<std::atomic<bool>> is_over_;
  Shared<Counters> counters_;
};

class KillCountersTest : public testing::TestWithParam<Mode> {};

TEST_P(KillCountersTest, CountersAreWhatTheHistorySays) {
  if (const std::string why = why_unavailable(GetParam()); !why.empty()) GTEST_SKIP() << why;
  constexpr std::size_t kModeCount = std::size(kModes) + std::size(kDurableHybridModes) + 1;
  const std::uint64_t kills = (environment_number("TMH_COUNTER_KILLS", 300) + kModeCount - 1) / kModeCount;
  Battle battle(GetParam(), seed(), kills);
  battle.play();
  battle.expect_agreement();
}

INSTANTIATE_TEST_SUITE_P(Modes, KillCountersTest, testing::ValuesIn(kModes), mode_name);
INSTANTIATE_TEST_SUITE_P(DurableModes, KillCountersTest, testing::ValuesIn(kDurableHybridModes), mode_name);
INSTANTIATE_TEST_SUITE_P(DurablePages, KillCountersTest, testing::Values(kPageStrict), mode_name);

}  // namespace
}  // namespace tmh::test
