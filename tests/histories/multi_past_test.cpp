// tests/histories/multi_past_test.cpp -- queries of the past against a recorded history, while
// writers commit, readers hold snapshots, and processes are killed.
// Invariants: (1) query_at() at any moment that is held shows exactly what the commits up to it
//             have made, in every page, in every mode. (2) a moment that is refused is older than
//             the horizon. (3) what is held stays within its bound. (4) so it is whichever process
//             dies at whatever step. (5) planted faults are found.
// Shape:     commit number n writes n to cells that a function of n chooses, and to the cell that
//            counts commits. So the clock says which commit a moment is behind, and the record of
//            the history is that function.
// Size:      TMH_PAST_MOMENTS moments per run (default 2,000; 10,000 with kills).
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "observe/planted.h"
#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/modes.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

using observe::Planted;

constexpr std::uint64_t kPages = 24, kCells = 4 * kPages;
constexpr std::uint64_t kHistoryPages = 512;
using State = std::array<std::uint64_t, kCells>;

struct Board {
  std::uint64_t first_clock;
  std::atomic<std::uint64_t> commits, checked, refused, wrong;
  std::atomic<std::uint64_t> wrong_clock, wrong_cell, wrong_found, wrong_wanted;
  std::atomic<std::uint64_t> most_pages;
  std::atomic<bool> is_over;
};

// Four cells per page, in lines of their own.
std::uint64_t &cell_of(const Actor &self, std::uint64_t cell) {
  return *(&self.word(1 + cell / 4) + cell % 4 * 64);
}

void apply(std::uint64_t commit, State *state) {
  std::minstd_rand random(static_cast<std::uint32_t>(commit * 2654435761u + 1));
  for (std::uint64_t left = 1 + random() % 4; left > 0; --left)
    (*state)[random() % kCells] = commit;
}

void commit_next(const Actor &self) {
  atomically(self.domain, [&] {
    const std::uint64_t commit = self.get(0) + 1;
    self.set(0, commit);
    State state{};
    apply(commit, &state);
    for (std::uint64_t cell = 0; cell < kCells; ++cell)
      if (state[cell] != 0) store(cell_of(self, cell), commit);
  });
}

DomainOptions with_history(const Mode &mode) {
  DomainOptions options = options_for(mode);
  options.history.bytes = kHistoryPages * (kPageBytes + 128);
  return options;
}

// Writers wait for those who look back, which keep a state of each commit: however little processor
// time they get, the commits of 10,000 moments take 250 MB of each.
bool is_far_ahead(const Board &board) { return board.commits > 1000 + 30 * board.checked.load(); }

void write_on(const std::string &folder, const Mode &mode, Board *board, std::uint64_t step) {
  const Actor self(folder, with_history(mode));
  if (step != 0) observe::crash_at(static_cast<std::uint32_t>(step), 40);
  while (!board->is_over) {
    if (is_far_ahead(*board)) {
      std::this_thread::yield();
      continue;
    }
    commit_next(self);
    ++board->commits;
  }
}

// Keeps versions from going home while many are committed.
void hold_on(const std::string &folder, const Mode &mode, Board *board) {
  const Actor self(folder, with_history(mode));
  while (!board->is_over) {
    query(self.domain, [&] {
      const std::uint64_t seen = self.get(0), from = board->commits;
      while (!board->is_over && board->commits < from + 60) {
        if (self.get(0) != seen) ++board->wrong;
        std::this_thread::yield();
      }
    });
    const std::uint64_t from = board->commits;
    while (!board->is_over && board->commits < from + 60) std::this_thread::yield();
  }
}

void check(const Actor &self, std::uint64_t clock, std::vector<State> *states, Board *board) {
  const std::uint64_t commit = clock - board->first_clock;
  while (states->size() <= commit) {
    State next = states->back();
    apply(states->size(), &next);
    states->push_back(next);
  }
  const State &wanted = (*states)[commit];
  query_at(self.domain, Moment::clock(clock), [&] {
    const auto compare = [&](std::uint64_t cell, std::uint64_t found, std::uint64_t right) {
      if (found == right || board->wrong++ != 0) return;
      board->wrong_clock = commit;
      board->wrong_cell = cell;
      board->wrong_found = found;
      board->wrong_wanted = right;
    };
    compare(kCells, self.get(0), commit);
    for (std::uint64_t cell = 0; cell < kCells; ++cell)
      compare(cell, load(cell_of(self, cell)), wanted[cell]);
  });
}

void look_back(const std::string &folder, const Mode &mode, Board *board, std::uint64_t number) {
  const Actor self(folder, with_history(mode));
  std::mt19937_64 random(number);
  std::vector<State> states(1);
  std::uint64_t named = 0;
  const std::string name = "kept " + std::to_string(number % 8);
  while (!board->is_over) {
    const PastInfo past = self.domain.past();
    std::uint64_t most = board->most_pages;
    while (most < past.pages && !board->most_pages.compare_exchange_weak(most, past.pages)) {
    }
    std::uint64_t clock = past.oldest + random() % (past.now - past.oldest + 1);
    if (named != 0 && random() % 4 == 0) clock = named;
    if (random() % 64 == 0) {
      for (const NamedMoment &each : past.moments)
        if (each.name == name) self.domain.forget(name);
      named = self.domain.keep(name);
    }
    try {
      check(self, clock, &states, board);
      ++board->checked;
    } catch (const Error &error) {
      if (error.errc() != Errc::kNotHeld) throw;
      if (clock == named || self.domain.past().oldest <= clock) ++board->wrong;
      ++board->refused;
    }
    // An instance of the present in between: the views come back.
    if (random() % 4 == 0) {
      query(self.domain, [&] {
        const std::uint64_t now = self.get(0);
        State state{};
        apply(now, &state);
        for (std::uint64_t cell = 0; cell < kCells; ++cell)
          if (state[cell] != 0 && load(cell_of(self, cell)) != now) ++board->wrong;
      });
    }
  }
}

struct Plan {
  Mode mode;
  std::uint64_t moments;
  bool kills = false;
  Planted planted{};
};

constexpr std::uint64_t kWriters = 2, kHolder = 2, kAll = 5;  // the rest look into the past

void run(const Plan &plan, Board *board) {
  const TempFolder folder(place_for(plan.mode));
  observe::plant(plan.planted);
  // Stays: so no file is made anew when all others are dead.
  const Shared<Turn> turn;
  Children children;
  children.spawn("keeper", [&] {
    const Actor self(folder.path(), with_history(plan.mode));
    board->first_clock = self.domain.past().now;
    turn->reach(1);
    // As long as the run takes.
    EXPECT_TRUE(poll_until([&] { return turn->now() >= 2; }, 60 * hang_deadline()));
  });
  turn->await(1);
  std::mt19937_64 random(seed());
  std::array<std::size_t, kAll> child_of{};
  const auto start = [&](std::uint64_t number) {
    const std::uint64_t one = random();
    const std::uint64_t step =
        plan.kills && one % 2 == 0 ? 1 + one / 2 % (observe::kStepCount - 1) : 0;
    child_of[number] = children.spawn("process " + std::to_string(number), [&, number, one, step] {
      if (number < kWriters) return write_on(folder.path(), plan.mode, board, step);
      if (number == kHolder) return hold_on(folder.path(), plan.mode, board);
      look_back(folder.path(), plan.mode, board, 8 * one + number);
    });
  };
  for (std::uint64_t i = 0; i < kAll; ++i) start(i);
  std::uint64_t kills = 0;
  while (board->checked < plan.moments && board->wrong == 0 && !testing::Test::HasFailure()) {
    const std::uint64_t enough =
        plan.kills ? std::min(plan.moments, board->checked + random() % 100) : plan.moments;
    const auto is_over = [&] { return board->wrong != 0 || board->checked >= enough; };
    ASSERT_TRUE(poll_until(is_over))
        << "nothing moves after " << board->checked << " moments, " << board->commits << " commits";
    if (!plan.kills) continue;
    const std::uint64_t victim = random() % kAll;
    children.bury(child_of[victim]);
    // One that died at its step.
    for (std::uint64_t i = 0; i < kWriters; ++i)
      if (i != victim && !children.running(child_of[i])) {
        children.bury(child_of[i]);
        start(i);
      }
    start(victim);
    ++kills;
  }
  board->is_over = true;
  for (std::uint64_t i = 0; i < kAll; ++i) {
    const ChildEnd end = children.wait(child_of[i]);
    EXPECT_TRUE(end.signal == SIGKILL || end.succeeded() || board->wrong != 0) << i;
  }
  turn->reach(2);
  children.wait(0);
  observe::plant(Planted{});
  std::printf("%llu moments, %llu refused, %llu commits, %llu kills, at most %llu pages held\n",
              static_cast<unsigned long long>(board->checked),
              static_cast<unsigned long long>(board->refused),
              static_cast<unsigned long long>(board->commits),
              static_cast<unsigned long long>(kills),
              static_cast<unsigned long long>(board->most_pages));
}

void expect_right(const Board &board) {
  EXPECT_EQ(board.wrong, 0U) << "first at commit " << board.wrong_clock << ", cell "
                             << board.wrong_cell << ": " << board.wrong_found << ", wanted "
                             << board.wrong_wanted;
  EXPECT_GT(board.commits, kHistoryPages) << "the bound was never met";
  // Eight names at most, each of them a page's copy per page; as many for those who read.
  EXPECT_LE(board.most_pages, kHistoryPages + 16 * (kPages + 1));
}

std::vector<Mode> modes_with_past() {
  std::vector<Mode> modes = page_modes();
  modes.push_back(kSnapshotModes[0]);
  modes.push_back(kSnapshotModes[1]);
  modes.push_back({"Buffered", Detection::kLazy, Tracking::kKernelHot, Levels::kPage,
                   LineChoice::kAuto, Durability::kBuffered});
  return modes;
}

class PastHistoryTest : public testing::TestWithParam<Mode> {};

TEST_P(PastHistoryTest, EachMomentShowsWhatWasCommittedUpToIt) {
  if (const std::string why = why_unavailable(GetParam()); !why.empty()) GTEST_SKIP() << why;
  const Shared<Board> board;
  run({GetParam(), environment_number("TMH_PAST_MOMENTS", 2000)}, &*board);
  expect_right(*board);
}

INSTANTIATE_TEST_SUITE_P(Modes, PastHistoryTest, testing::ValuesIn(modes_with_past()), mode_name);

class PastKillTest : public testing::TestWithParam<Mode> {};

TEST_P(PastKillTest, DeathsChangeNoMoment) {
  if (const std::string why = why_unavailable(GetParam()); !why.empty()) GTEST_SKIP() << why;
  const Shared<Board> board;
  Plan plan{GetParam(), environment_number("TMH_PAST_MOMENTS", 10000)};
  plan.kills = true;
  run(plan, &*board);
  expect_right(*board);
}

INSTANTIATE_TEST_SUITE_P(Modes, PastKillTest, testing::Values(kModes[0], kModes[3]), mode_name);

class PastDefectTest : public testing::TestWithParam<Planted> {};

TEST_P(PastDefectTest, IsFound) {
  if (const std::string why = why_unavailable(kModes[0]); !why.empty()) GTEST_SKIP() << why;
  const Shared<Board> board;
  Plan plan{kModes[0], 20000};
  plan.planted = GetParam();
  run(plan, &*board);
  EXPECT_NE(board->wrong, 0U) << "the recorded history does not find it";
}

INSTANTIATE_TEST_SUITE_P(Planted, PastDefectTest,
                         testing::Values(Planted::kPastFolded, Planted::kNoBeforeImage),
                         [](const auto &one) {
                           return std::string(one.param == Planted::kPastFolded ? "PastFolded"
                                                                                : "NoBeforeImage");
                         });

}  // namespace
}  // namespace tmh::test
