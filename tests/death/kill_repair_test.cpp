// tests/death/kill_repair_test.cpp -- what others see while the links of the version store are
// rebuilt after a death, and after all have died.
// Invariants: (1) a snapshot stays what it is while a peer repairs: pages with pending versions are
//             never read from home, (2) when every participant is killed, the next one finds each
//             committed instance, whole, and nothing else, (3) what a repair has linked again, and
//             others have committed on top of, is no secret to whoever committed elsewhere
//             meanwhile.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>

#include "observe/steps.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"
#include "tests/support/watched_workers.h"

namespace tmh::test {
namespace {

class RepairTest : public ModeTest {};

INSTANTIATE_TEST_SUITE_P(Modes, RepairTest, testing::ValuesIn(kModes), mode_name);

// A repair then takes some hundred microseconds: many first touches fall into it.
constexpr std::uint64_t kPages = 8000;
constexpr int kDeaths = 12;

struct Field {
  Domain domain;
  Segment segment;
  Field(const std::string &folder, const DomainOptions &options)
      : domain(Domain::open(folder, options)),
        segment(domain.map("field.raw", raw_segment((kPages + 1) * kPageBytes))) {}
  [[nodiscard]] std::uint64_t &word(std::uint64_t page) const {
    return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
  }
  void count_up() const {
    atomically(domain, [&] { store(word(kPages), load(word(kPages)) + 1); });
  }
};

// The step hook of the repairing process tells the reader when to start touching.
std::atomic<bool> *repairing = nullptr;
void tell_repair(observe::Step step) {
  if (step == observe::Step::kRepairStart) repairing->store(true);
}

// Per death: the reader has its snapshot and has touched nothing; the victim dies with the lock;
// the writer inherits it and repairs; the reader touches everything meanwhile. Turns of a round: +1
// reader ready, +2 victim dead, +3 repaired, +4 read.
TEST_P(RepairTest, SnapshotsHoldWhileAPeerRepairs) {
  const std::string folder = folder_.path();
  const Shared<Turn> turn;
  Shared<std::atomic<bool>> flag;
  repairing = &*flag;
  constexpr std::uint32_t kFirst = 2, kPerRound = 4, kLast = kFirst + kDeaths * kPerRound;
  Children children;
  children.spawn("holder", [&] {  // its old snapshot keeps all versions from going home
    const Field field(folder, options());
    query(field.domain, [&] {
      static_cast<void>(load(field.word(kPages)));
      turn->reach(1);
      turn->await(kLast);
    });
  });
  children.spawn("writer", [&] {
    const Field field(folder, options());
    observe::set_step_hook(tell_repair);
    turn->await(1);
    atomically(field.domain, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page) store(field.word(page), std::uint64_t{1});
    });
    turn->reach(kFirst);
    for (std::uint32_t round = kFirst; round < kLast; round += kPerRound) {
      turn->await(round + 2);
      field.count_up();
      turn->reach(round + 3);
    }
  });
  children.spawn("reader", [&] {
    for (std::uint32_t round = kFirst; round < kLast; round += kPerRound) {
      turn->await(round);
      // Opened anew: every touch is a first one, in every mode.
      const Field field(folder, options());
      query(field.domain, [&] {
        turn->reach(round + 1);
        while (!flag->load() && turn->now() < round + 3) continue;  // spins: the repair is short
        // Whoever touches too early waits for the lock, and sees nothing: other moments and other
        // first pages each round.
        const std::uint64_t patience_ns = (round - kFirst) / kPerRound / 2 * 20'000;
        for (const std::uint64_t until = monotonic_ns() + patience_ns; monotonic_ns() < until;)
          continue;
        const bool backwards = (round - kFirst) / kPerRound % 2 != 0;
        for (std::uint64_t i = 0; i < kPages; ++i) {
          const std::uint64_t page = backwards ? kPages - 1 - i : i;
          ASSERT_EQ(load(field.word(page)), 1U) << "page " << page;
        }
      });
      turn->await(round + 3);
      flag->store(false);
      turn->reach(round + 4);
    }
  });
  for (std::uint32_t round = kFirst; round < kLast; round += kPerRound) {
    turn->await(round + 1);
    const ChildEnd end = run_in_child("victim", [&] {
      setenv("TMH_CRASH_AT", "commit-linked", 1);
      Field(folder, options()).count_up();
    });
    EXPECT_EQ(end.signal, SIGKILL);
    turn->reach(round + 2);
  }
  children.expect_success();
}

// Turns: 1 to 3 all are there, 4 victim is dead, its version home and not freed, 5 bystander runs
// an update, 6 stuck reader has a snapshot, 7 writer has repaired and committed on top of the
// version, 8 bystander has committed to a page of its own, and looked.
TEST_P(RepairTest, ACommitterElsewhereSeesWhatWasCommittedOnTopOfAVersionLinkedAgain) {
  const std::string folder = folder_.path();
  const Shared<Turn> turn;
  Children children;
  const auto spawn = [&](const char *name, std::uint32_t place,
                         const std::function<void(const Actor &)> &body) {
    children.spawn(name, role(*turn, [&, place, body] {
                     turn->await(place - 1);
                     const Actor self(folder, options());
                     turn->reach(place);
                     body(self);
                   }));
  };
  spawn("bystander", 1, [&](const Actor &self) {
    turn->await(4);
    atomically(self.domain, [&] {
      self.set(8, 1);
      turn->reach(5);
      turn->await(7);
    });
    EXPECT_EQ(self.committed(0), 2U);
    turn->reach(8);
  });
  spawn("stuck reader", 2, [&](const Actor &self) {
    turn->await(5);
    query(self.domain, [&] {  // keeps the writer's commit from going home
      turn->reach(6);
      turn->await(8);
      EXPECT_EQ(self.get(0), 1U);
    });
  });
  spawn("writer", 3, [&](const Actor &self) {
    turn->await(6);
    self.commit(0, 2);
    turn->reach(7);
    turn->await(8);
  });
  turn->await(3);
  const ChildEnd end = run_in_child("victim", [&] {
    const Actor self(folder, options());
    observe::crash_at(static_cast<std::uint32_t>(observe::Step::kGcUnlinked), 1);
    self.commit(0, 1);
  });
  EXPECT_EQ(end.signal, SIGKILL);
  turn->reach(4);
  children.expect_success();
}

TEST_P(RepairTest, CommitsSurviveTheDeathOfAllParticipants) {
  constexpr std::size_t kWorkers = 3;
  constexpr int kMassacres = 5;
  const std::uint64_t first_seed = seed();
  Recorder recorder(2 + (kWorkers + 1) * kMassacres, 1'000'000);
  expect_child("set-up", [&] {
    Board board(folder_.path(), options());
    Player player(board, recorder.open_lane());
    Workload(player, first_seed).set_up();
    board.close();
  });
  for (int massacre = 0; massacre < kMassacres; ++massacre) {
    Shared<WatchedWorkers> state;
    state->gate.reach(1);
    Children children;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      children.spawn("worker " + std::to_string(i), [&, i] {
        WorkerOptions worker;
        worker.index = i;
        worker.seed = first_seed + i + 10 * static_cast<std::size_t>(massacre);
        worker.slow_reader = i == 0;  // versions pile up that only shared memory holds
        work(folder_.path(), options(), &recorder, &*state, worker);
      });
    }
    ASSERT_TRUE(
        poll_until([&] { return state->finished[1].load() + state->finished[2].load() >= 100; }));
    for (std::size_t i = 0; i < kWorkers; ++i) children.kill(i, SIGKILL);
    for (std::size_t i = 0; i < kWorkers; ++i) children.bury(i);
    audit_alone(folder_.path(), options(), &recorder);
  }
  expect_right_history(recorder, "after all had died");
}

}  // namespace
}  // namespace tmh::test
