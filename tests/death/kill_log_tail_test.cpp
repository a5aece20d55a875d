// tests/death/kill_log_tail_test.cpp -- the redo log is followed while those that write it die, at
// each step of the log, of a checkpoint and of a recovery, and anywhere.
// Invariants: (1) what the follower is given is every durable transaction, in order, whatever dies:
//             all that was acknowledged as durable when it looks, but while a recoverer is at it;
//             nothing that is not durable. (2) after the recovery it goes on in the next
//             generation, without a gap where files are archived; where they are recycled, gaps are
//             told. (3) a follower that is killed holds no writer up.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/log_follower.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using observe::Step;
using Start = storage::TailStart::Kind;

class KillLogTail : public testing::Test {
 protected:
  struct Board {
    // Of the largest number that was committed strictly.
    std::atomic<std::uint64_t> acknowledged;
    std::atomic<bool> stop;
  };

  // Commits until it is told to stop, or dies. Every eighth one is strict, and all are where the
  // domain is.
  void write(Durability durability, std::uint64_t words) const {
    DomainOptions options = durable_options(durability);
    options.levels = levels_;
    options.keep_log = keeps_log_;
    const Domain domain = Domain::open(folder_.path(), options);
    const Segment segment = domain.map("a.db", raw_pages(64));
    for (std::uint64_t i = 1; !board_->stop.load() && i <= 2'000; ++i) {
      const bool is_strict = durability == Durability::kStrict || i % 8 == 0;
      const std::uint64_t number =
          count_up(domain, segment, is_strict ? Durability::kStrict : Durability::kBuffered, words);
      if (i % 20 == 0) checkpoint(domain);
      if (!is_strict) continue;
      std::uint64_t before = board_->acknowledged.load();
      while (before < number && !board_->acknowledged.compare_exchange_weak(before, number)) {
      }
    }
  }
  // Whether data files are on disk is not known once a process has died that synced them.
  static void checkpoint(const Domain &domain) {
    try {
      domain.checkpoint();
    } catch (const Error &error) {
      EXPECT_EQ(error.errc(), Errc::kIo) << error.what();
    }
  }
  void follow(LogFollower *follower) const {
    const std::uint64_t acknowledged = board_->acknowledged.load();
    if (follower->take_all() == 0) follower->tail().wait(storage::LogBound::kLookNs);
    const storage::DurableBound &bound = follower->tail().bound();
    if (follower->is_behind_gap()) return;
    // A recoverer has removed shared memory, and has not made it anew: until then the follower
    // knows what it has seen of it, and the checkpoint.
    if (bound.source == storage::DurableBound::Source::kCheckpoint) return;
    EXPECT_GE(follower->last(), acknowledged)
        << "at LSN " << follower->tail().position() << " of generation "
        << follower->tail().generation() << ", durable up to LSN " << bound.lsn << " of generation "
        << bound.generation << ", source " << static_cast<int>(bound.source);
  }
  // One more, by the next participant, which finds all that was published.
  void settle(LogFollower *follower, Durability durability) {
    DomainOptions options = durable_options(durability);
    options.levels = levels_;
    options.keep_log = keeps_log_;
    std::uint64_t last = 0;
    const Shared<std::atomic<std::uint64_t>> number;
    in_domain(folder_.path(), options, Ending::kClosed, [&](const Domain &d, const Segment &s) {
      number->store(count_up(d, s, Durability::kStrict));
    });
    last = number->load();
    ASSERT_GT(last, board_->acknowledged.load());
    board_->acknowledged.store(last);
    follower->take_all();
    EXPECT_EQ(follower->last(), last);
    EXPECT_EQ(follower->undone().size(), 0u);
  }

  const MemoryFolder folder_;
  const Shared<Board> board_;
  Levels levels_ = Levels::kPage;
  bool keeps_log_ = true;
};

class KillLogTailStep : public KillLogTail,
                        public testing::WithParamInterface<std::tuple<Levels, std::uint32_t>> {};

TEST_P(KillLogTailStep, IsFollowed) {
  levels_ = std::get<0>(GetParam());
  const auto step = static_cast<Step>(std::get<1>(GetParam()));
  in_domain(
      folder_.path(),
      [&] {
        DomainOptions options = durable_options();
        options.levels = levels_;
        options.keep_log = true;
        return options;
      }(),
      Ending::kClosed, [](const auto &, const auto &) {});
  LogFollower follower(folder_.path());
  const bool is_of_recovery = step >= Step::kRecoverySalvaged && step <= Step::kRecoveryDone;
  for (const int times : {1, 3}) {
    if (is_of_recovery) {
      Children writer;
      writer.spawn("writer", [&] {
        setenv("TMH_CRASH_AT", "log-written:9", 1);
        write(Durability::kStrict, 0);
      });
      while (writer.running(0)) follow(&follower);
    }
    Children victim;
    victim.spawn("victim", [&] {
      setenv(
          "TMH_CRASH_AT",
          (std::string(observe::step_name(step)) + ":" + std::to_string(is_of_recovery ? 1 : times))
              .c_str(),
          1);
      write(Durability::kStrict, 30'000);
    });
    while (victim.running(0)) follow(&follower);
    EXPECT_EQ(victim.wait(0).signal, SIGKILL) << "the step was not passed";
    follow(&follower);
    settle(&follower, Durability::kStrict);
  }
  EXPECT_EQ(follower.first(), 1u);
  EXPECT_EQ(follower.gaps().size(), 0u);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Levels, std::uint32_t>> &one) {
  std::string name = std::string(to_string(std::get<0>(one.param))) + "_" +
                     observe::step_name(static_cast<Step>(std::get<1>(one.param)));
  for (char &c : name) c = c == '-' ? '_' : c;
  return name;
}

std::vector<std::tuple<Levels, std::uint32_t>> log_steps() {
  std::vector<std::tuple<Levels, std::uint32_t>> steps;
  for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
    for (auto step = static_cast<std::uint32_t>(Step::kLogStart);
         step <= static_cast<std::uint32_t>(Step::kCheckpointStored); ++step) {
      const bool is_of_both = Step{step} == Step::kLogCut || Step{step} == Step::kCheckpointWritten;
      if (levels == Levels::kHybrid || !is_of_both) steps.emplace_back(levels, step);
    }
  }
  return steps;
}

INSTANTIATE_TEST_SUITE_P(Log, KillLogTailStep, testing::ValuesIn(log_steps()), name_of);
INSTANTIATE_TEST_SUITE_P(
    Recovery, KillLogTailStep,
    testing::Combine(testing::Values(Levels::kPage),
                     testing::Range(static_cast<std::uint32_t>(Step::kRecoverySalvaged),
                                    static_cast<std::uint32_t>(Step::kRecoveryDone) + 1)),
    name_of);

// Two writers, of which one dies at any moment; now and then both.
TEST_F(KillLogTail, WritersDieAtAnyMoment) {
  std::mt19937_64 random(seed());
  for (const bool keeps : {true, false}) {
    for (const Durability durability : {Durability::kBuffered, Durability::kStrict}) {
      KillLogTail::keeps_log_ = keeps;
      SCOPED_TRACE(keeps);
      std::filesystem::remove_all(folder_.path());
      std::filesystem::create_directory(folder_.path());
      board_->acknowledged.store(0);
      expect_child("first", [&] {
        board_->stop.store(true);
        write(durability, 0);
      });
      board_->stop.store(false);
      LogFollower follower(folder_.path());
      for (int round = 0; round < 8; ++round) {
        Children children;
        const std::uint64_t words = random() % 3 == 0 ? 2'000 : random() % 100;
        for (int i = 0; i < 2; ++i) children.spawn("writer", [&] { write(durability, words); });
        children.spawn("other follower", [&] {
          LogFollower other(folder_.path());
          for (;;) other.tail().wait(storage::LogBound::kLookNs), other.take_all();
        });
        const std::uint64_t until = board_->acknowledged.load() + random() % 100;
        while (board_->acknowledged.load() < until && children.running(0)) follow(&follower);
        children.bury(0);
        children.bury(2);
        const std::uint64_t more = board_->acknowledged.load() + random() % 20;
        while (board_->acknowledged.load() < more && children.running(1)) follow(&follower);
        if (random() % 2 == 0) {
          children.bury(1);
        } else {
          board_->stop.store(true);
          EXPECT_TRUE(children.wait(1).succeeded());
          board_->stop.store(false);
        }
        follow(&follower);
        settle(&follower, durability);
      }
      if (keeps) {
        EXPECT_EQ(follower.gaps().size(), 0u);
      }
    }
  }
}

}  // namespace
}  // namespace tmh::test
