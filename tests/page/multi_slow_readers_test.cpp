// tests/page/multi_slow_readers_test.cpp -- participants whose snapshots keep versions, seen by a
// process that watches: told, asked to end, killed.
// Invariants: (1) who keeps versions is told, with how much; who keeps none is not. (2) an update
//             that was asked runs again; a query's body learns it, and its next snapshot is new.
//             (3) a killed reader's versions go home; no other process is hit, also when it has got
//             the reader's slot meanwhile, nor is the own one. (4) what the function throws or
//             returns harms no commit; it may run instances, and close the domain.
// Order:      roles hand each other the turn; each test's head says who has it.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kKept = 0, kRead = 5;

struct Told {
  std::uint64_t held_bytes;
  double seconds;
  ParticipantInfo reader;
};

class SlowReadersTest : public ModeTest {
 protected:
  using Play = std::function<void(const Actor &self, Turn &turn)>;
  using Answer = std::function<SlowReader(const Told &)>;

  // Joins when `turn` is reached.
  std::size_t spawn(const char *name, std::uint32_t turn, const Play &play) {
    return children_.spawn(name, role(*turn_, [this, name, turn, play] {
                             turn_->await(turn);
                             DomainOptions named = options();
                             named.name = name;
                             const Actor self(folder_.path(), named);
                             play(self, *turn_);
                           }));
  }
  // The same; a reader is slow at once, and `answer` is asked about it.
  std::size_t spawn_watcher(std::uint32_t turn, const Answer &answer, const Play &play,
                            std::uint32_t slow_reader_ms = 0,
                            std::uint64_t slow_reader_bytes = DomainOptions().slow_reader_bytes) {
    return children_.spawn("watcher", role(*turn_, [=, this] {
                             turn_->await(turn);
                             DomainOptions watching = options();
                             watching.name = "watcher";
                             watching.slow_reader_ms = slow_reader_ms;
                             watching.slow_reader_bytes = slow_reader_bytes;
                             watching.on_slow_reader = [&answer](std::uint64_t bytes,
                                                                 double seconds,
                                                                 const ParticipantInfo &reader) {
                               return answer({bytes, seconds, reader});
                             };
                             const Actor self(folder_.path(), watching);
                             play(self, *turn_);
                           }));
  }
  // Has a snapshot from turn 1 on until `to`, and leaves then.
  void spawn_reader(std::uint32_t to) {
    spawn("reader", 0, [to](const Actor &self, Turn &turn) {
      query(self.domain, [&] {
        EXPECT_EQ(self.get(kKept), 0U);
        turn.reach(1);
        turn.await(to);
        EXPECT_EQ(self.get(kKept), 0U);
      });
    });
  }

  const Shared<Turn> turn_;
  Children children_;
};

INSTANTIATE_TEST_SUITE_P(Modes, SlowReadersTest, testing::ValuesIn(kModes), mode_name);
INSTANTIATE_TEST_SUITE_P(Snapshots, SlowReadersTest, testing::ValuesIn(kSnapshotModes), mode_name);

// Turns: 1 reader has a snapshot, 2 watcher has committed.
TEST_P(SlowReadersTest, AQueryThatKeepsVersionsIsToldAtEachCommit) {
  std::vector<Told> told;
  const auto note = [&told](const Told &one) {
    told.push_back(one);
    return SlowReader::kReport;
  };
  spawn_reader(2);
  spawn_watcher(1, note, [&](const Actor &self, Turn &turn) {
    EXPECT_EQ(told.size(), 0U);
    self.commit(kKept, 1);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].reader.name, "reader");
    EXPECT_NE(told[0].reader.pid, getpid());
    EXPECT_TRUE(told[0].reader.query && told[0].reader.active);
    EXPECT_EQ(told[0].reader.versions_held, 1U);
    EXPECT_GE(told[0].held_bytes, kPageBytes);
    EXPECT_LT(told[0].held_bytes, 2 * kPageBytes);
    EXPECT_GE(told[0].seconds, 0.0);
    self.commit(kKept + 1, 1);
    ASSERT_EQ(told.size(), 2U);
    EXPECT_EQ(told[1].reader.versions_held, 2U);
    // One that has not committed does not look, collect() does.
    self.domain.begin();
    self.domain.abort();
    EXPECT_EQ(told.size(), 2U);
    EXPECT_EQ(self.domain.collect(), 2U);
    EXPECT_EQ(told.size(), 3U);
    EXPECT_EQ(self.domain.counters().slow_readers, 1U);
    turn.reach(2);
  });
  children_.expect_success();
}

// Turns: 1 reader has a snapshot, 2 watcher has looked.
TEST_P(SlowReadersTest, WhoKeepsNothingOrIsNotSlowYetIsNotTold) {
  const auto fail = [](const Told &) {
    ADD_FAILURE() << "told";
    return SlowReader::kReport;
  };
  spawn_reader(2);
  constexpr std::uint32_t kHourMs = 3'600'000;
  const std::size_t patient = spawn_watcher(
      1, fail, [&](const Actor &self, Turn &) { self.commit(kKept, 1); }, kHourMs);
  EXPECT_TRUE(children_.wait(patient).succeeded());
  turn_->reach(2);
  children_.expect_success();

  const std::size_t idle = spawn_watcher(0, fail, [](const Actor &self, Turn &) {
    query(self.domain, [&] { EXPECT_EQ(self.get(kKept), 1U); });
    self.commit(kKept, 2);
    EXPECT_EQ(self.domain.collect(), 0U);
    EXPECT_EQ(self.domain.counters().slow_readers, 0U);
  });
  EXPECT_TRUE(children_.wait(idle).succeeded());
}

// Turns: 1 reader has a snapshot, 2 watcher is done.
TEST_P(SlowReadersTest, AReaderThatHoldsMuchIsToldBeforeItsTime) {
  constexpr std::uint32_t kHourMs = 3'600'000;
  constexpr std::uint64_t kMuch = 3 * (kPageBytes + 128);
  std::vector<Told> told;
  const auto note = [&told](const Told &one) {
    told.push_back(one);
    return SlowReader::kReport;
  };
  const auto play = [&](const Actor &self, Turn &turn) {
    const auto age_us = [&self] {
      for (const ParticipantInfo &one : self.domain.participants())
        if (one.name == "reader") return one.age_us;
      return std::uint64_t{0};
    };
    for (std::uint64_t page = kKept; page < kKept + 2; ++page) self.commit(page, 1);
    EXPECT_TRUE(poll_until([&] {
      self.domain.collect();
      return age_us() > 300'000;
    }));
    EXPECT_TRUE(told.empty()) << "it holds too little";
    self.commit(kKept + 2, 1);
    EXPECT_TRUE(poll_until([&] {
      self.domain.collect();
      return !told.empty();
    }));
    if (!told.empty()) {
      EXPECT_EQ(told[0].held_bytes, kMuch);
      EXPECT_LT(told[0].seconds, 3600);
    }
    turn.reach(2);
  };
  spawn_reader(2);
  spawn_watcher(1, note, play, kHourMs, kMuch);
  children_.expect_success();
}

// Turns: 1 update has a snapshot, 2 watcher has committed, 3 update has run again and committed.
TEST_P(SlowReadersTest, AnUpdateThatIsAskedRunsAgain) {
  spawn("update", 0, [](const Actor &self, Turn &turn) {
    std::uint32_t attempts = 0;
    EXPECT_FALSE(should_end());
    atomically(self.domain, [&] {
      (void)self.get(kRead);
      EXPECT_FALSE(should_end());
      if (++attempts > 1) return;
      turn.reach(1);
      turn.await(2);
      EXPECT_TRUE(should_end());
      EXPECT_EQ(self.domain.validate(), Status::kFailed);
    });
    EXPECT_EQ(attempts, 2U);
    turn.reach(3);
  });
  const auto ask = [](const Told &one) {
    EXPECT_FALSE(one.reader.query);
    return SlowReader::kAskToEnd;
  };
  spawn_watcher(1, ask, [](const Actor &self, Turn &turn) {
    self.commit(kKept, 1);
    turn.reach(2);
    turn.await(3);
    EXPECT_EQ(self.domain.collect(), 0U);
  });
  children_.expect_success();
}

// Turns: 1 query has a snapshot, 2 watcher has committed, 3 query has ended.
TEST_P(SlowReadersTest, AQueryThatIsAskedLearnsItAndBeginsAnew) {
  spawn("query", 0, [](const Actor &self, Turn &turn) {
    const bool was_asked = query(self.domain, [&] {
      EXPECT_EQ(self.get(kKept), 0U);
      EXPECT_FALSE(should_end());
      turn.reach(1);
      turn.await(2);
      EXPECT_EQ(self.domain.validate(), Status::kPending);
      EXPECT_EQ(self.get(kKept), 0U);
      return should_end();
    });
    EXPECT_TRUE(was_asked);
    EXPECT_FALSE(should_end());
    query(self.domain, [&] {
      EXPECT_FALSE(should_end());
      EXPECT_EQ(self.get(kKept), 1U);
    });
    turn.reach(3);
  });
  const auto ask = [](const Told &) { return SlowReader::kAskToEnd; };
  spawn_watcher(1, ask, [](const Actor &self, Turn &turn) {
    self.commit(kKept, 1);
    EXPECT_EQ(self.domain.collect(), 1U);  // it goes on
    turn.reach(2);
    turn.await(3);
    EXPECT_EQ(self.domain.collect(), 0U);
  });
  children_.expect_success();
}

// Turns: 1 victim has a snapshot, 2 bystander is there, 3 victim is dead, 4 its versions are home.
TEST_P(SlowReadersTest, AReaderThatIsEndedIsTheOnlyOneAndItsVersionsGoHome) {
  const std::size_t victim = spawn("victim", 0, [](const Actor &self, Turn &turn) {
    query(self.domain, [&] {
      (void)self.get(kKept);
      turn.reach(1);
      turn.await(4);
      ADD_FAILURE() << "it lives";
    });
  });
  spawn("bystander", 1, [](const Actor &self, Turn &turn) {
    turn.reach(2);
    turn.await(4);
    EXPECT_EQ(self.committed(kKept), 1U);
  });
  std::vector<Told> told;
  const auto end = [&told](const Told &one) {
    told.push_back(one);
    return SlowReader::kEndProcess;
  };
  spawn_watcher(2, end, [&told](const Actor &self, Turn &turn) {
    self.commit(kKept, 1);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].reader.name, "victim");
    turn.await(3);
    EXPECT_EQ(self.domain.collect(), 0U);
    EXPECT_EQ(self.domain.counters().participants_reaped, 1U);
    turn.reach(4);
  });
  EXPECT_EQ(children_.wait(victim).signal, SIGKILL);
  turn_->reach(3);
  children_.expect_success();
}

// Turns: 1 first has a snapshot, 2 watcher is told, 3 first has left, 4 second has its slot and a
//        snapshot, 5 watcher has done what it does.
TEST_P(SlowReadersTest, WhoHasGotTheSlotMeanwhileIsNotHit) {
  for (const SlowReader what : {SlowReader::kAskToEnd, SlowReader::kEndProcess}) {
    const Shared<Turn> turns;
    Turn &turn = *turns;
    const auto named = [this](const char *name) {
      DomainOptions all = options();
      all.name = name;
      return all;
    };
    Children children;
    children.spawn("first", role(turn, [&] {
                     Actor self(folder_.path(), named("first"));
                     query(self.domain, [&] {
                       (void)self.get(kKept);
                       turn.reach(1);
                       turn.await(2);
                     });
                     self.domain.close();
                     turn.reach(3);
                   }));
    children.spawn("second", role(turn, [&] {
                     turn.await(3);
                     const Actor self(folder_.path(), named("second"));
                     query(self.domain, [&] {
                       (void)self.get(kKept);
                       turn.reach(4);
                       turn.await(5);
                       EXPECT_FALSE(should_end());
                     });
                   }));
    children.spawn("watcher", role(turn, [&] {
                     turn.await(1);
                     std::vector<std::uint32_t> slots;
                     DomainOptions watching = named("watcher");
                     watching.slow_reader_ms = 0;
                     watching.on_slow_reader = [&](auto, auto, const ParticipantInfo &reader) {
                       slots.push_back(reader.slot);
                       turn.reach(2);
                       turn.await(4);
                       return what;
                     };
                     const Actor self(folder_.path(), watching);
                     self.commit(kKept, self.committed(kKept) + 1);
                     ASSERT_EQ(slots.size(), 1U);
                     bool has_slot = false;
                     for (const ParticipantInfo &one : self.domain.participants())
                       has_slot = has_slot || (one.name == "second" && one.slot == slots[0]);
                     EXPECT_TRUE(has_slot);
                     turn.reach(5);
                   }));
    children.expect_success();
  }
}

// Turns: 1 reader has a snapshot, 2 watcher is done.
TEST_P(SlowReadersTest, WhatTheFunctionThrowsOrReturnsHarmsNoCommit) {
  std::uint32_t calls = 0;
  const auto misbehave = [&calls](const Told &) {
    if (++calls == 1) throw std::runtime_error("of the program");
    return static_cast<SlowReader>(calls == 2 ? 0 : 9);
  };
  spawn_reader(2);
  spawn_watcher(1, misbehave, [&calls](const Actor &self, Turn &turn) {
    for (std::uint64_t i = 1; i <= 3; ++i) {
      self.domain.begin();
      self.set(kKept, i);
      EXPECT_EQ(self.domain.end(), Status::kCommitted);
      EXPECT_EQ(calls, i);
    }
    EXPECT_EQ(self.committed(kKept), 3U);
    turn.reach(2);
  });
  children_.expect_success();
}

// Turns: 1 reader has a snapshot, 2 watcher is done.
TEST_P(SlowReadersTest, TheFunctionMayRunInstancesAndCloseTheDomain) {
  const Actor *here = nullptr;
  std::uint32_t calls = 0;
  const auto close = [&](const Told &) {
    ++calls;
    EXPECT_EQ(here->domain.depth(), 0U);
    EXPECT_EQ(here->committed(kKept), 1U);
    here->commit(kKept, 2);  // whose end asks nothing more
    EXPECT_EQ(here->committed(kKept), 2U);
    Domain handle = here->domain;
    handle.close();
    return SlowReader::kAskToEnd;
  };
  spawn_reader(2);
  spawn_watcher(1, close, [&](const Actor &self, Turn &turn) {
    here = &self;
    bool ran = false;
    self.domain.begin();
    self.set(kKept, 1);
    on_commit([&] {
      ran = true;
      EXPECT_EQ(calls, 0U);
    });
    EXPECT_EQ(self.domain.end(), Status::kCommitted);
    EXPECT_TRUE(ran);
    EXPECT_EQ(calls, 1U);
    expect_error(Errc::kNotInitialized, [&] { self.domain.begin(); });
    turn.reach(2);
  });
  children_.expect_success();
}

// The variable serves programs that know nothing of slow readers.
TEST(SlowReaderVariable, ReportsOnStandardErrorAndAsks) {
  const MemoryFolder folder;
  const Shared<Turn> turn;
  Children children;
  children.spawn("reader", role(*turn, [&] {
                   const Actor self(folder.path(), {});
                   const bool was_asked = query(self.domain, [&] {
                     (void)self.get(kKept);
                     turn->reach(1);
                     turn->await(2);
                     return should_end();
                   });
                   EXPECT_TRUE(was_asked);
                 }));
  children.spawn("watcher", role(*turn, [&] {
                   turn->await(1);
                   setenv("TMH_SLOW_READER", "ask:0s", 1);
                   const Actor self(folder.path(), {});
                   testing::internal::CaptureStderr();
                   self.commit(kKept, 1);
                   const std::string line = testing::internal::GetCapturedStderr();
                   EXPECT_NE(line.find("slow reader: process "), std::string::npos) << line;
                   EXPECT_NE(line.find("a query for "), std::string::npos) << line;
                   EXPECT_NE(line.find("asked to end\n"), std::string::npos) << line;
                   turn->reach(2);
                 }));
  children.expect_success();
}

TEST(SlowReaderVariable, AWrongValueIsRefusedWithTheRightOnes) {
  expect_child("opener", [] {
    const MemoryFolder folder;
    for (const char *wrong :
         {"kill", "report:", "report:10", "report:-1s", "end:1e99s", "off:1s"}) {
      setenv("TMH_SLOW_READER", wrong, 1);
      expect_error(
          Errc::kBadArgument, [&] { (void)Domain::open(folder.path()); }, "report:10s");
    }
  });
}

TEST(SlowReaderOptions, ASecondOpenAgreesWithTheFirst) {
  expect_child("opener", [] {
    const MemoryFolder folder;
    DomainOptions watching;
    watching.on_slow_reader = [](auto, auto, const ParticipantInfo &) {
      return SlowReader::kReport;
    };
    {
      const Domain first = Domain::open(folder.path());
      expect_error(
          Errc::kAlreadyInitialized, [&] { (void)Domain::open(folder.path(), watching); },
          "on_slow_reader");
    }
    const Domain first = Domain::open(folder.path(), watching);
    EXPECT_TRUE(Domain::open(folder.path(), watching));
    EXPECT_TRUE(Domain::open(folder.path()));
    DomainOptions sooner;
    sooner.slow_reader_ms = 1;
    expect_error(
        Errc::kAlreadyInitialized, [&] { (void)Domain::open(folder.path(), sooner); },
        "slow_reader_ms");
  });
}

// Turns: 1 watcher has a history, 2 reader has a snapshot, 3 watcher has committed.
TEST(SlowReaderOptions, AHistoryIsKeptByNoReader) {
  if (const std::string why = why_unavailable(kModes[0]); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder(place_for(kModes[0]));
  const Shared<Turn> turn;
  Children children;
  children.spawn("watcher", role(*turn, [&] {
                   std::vector<std::uint64_t> held;
                   DomainOptions options = options_for(kModes[0]);
                   options.history.bytes = 8u << 20;
                   options.slow_reader_ms = 0;
                   options.on_slow_reader = [&](auto, auto, const ParticipantInfo &reader) {
                     held.push_back(reader.versions_held);
                     return SlowReader::kReport;
                   };
                   const Actor self(folder.path(), options);
                   for (std::uint64_t i = 1; i <= 20; ++i) self.commit(kKept, i);
                   EXPECT_GT(self.domain.past().pages, 10U);
                   turn->reach(1);
                   turn->await(2);
                   self.commit(kKept, 21);
                   EXPECT_EQ(held, std::vector<std::uint64_t>{1});
                   turn->reach(3);
                 }));
  children.spawn("reader", role(*turn, [&] {
                   turn->await(1);
                   const Actor self(folder.path(), options_for(kModes[0]));
                   query(self.domain, [&] {
                     EXPECT_EQ(self.get(kKept), 20U);
                     turn->reach(2);
                     turn->await(3);
                   });
                 }));
  children.expect_success();
}

// Turns: 1 the collector is done. It gives the end of the version store back, many times, while
// the watcher counts what is in it.
TEST(SlowReaderOptions, ALookSurvivesWhatCollectorsGiveBack) {
  if (const std::string why = why_unavailable(kModes[0]); !why.empty()) GTEST_SKIP() << why;
  constexpr std::uint64_t kWide = 6000, kRounds = 60;
  const TempFolder folder(place_for(kModes[0]));
  const Shared<Turn> turn;
  const Shared<std::atomic<std::uint64_t>> commits;
  Children children;
  children.spawn(
      "collector", role(*turn, [&] {
        const Actor self(folder.path(), options_for(kModes[0]));
        const Segment wide = self.domain.map("wide.raw", raw_segment(kWide * kPageBytes));
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
          atomically(self.domain, [&] {
            for (std::uint64_t page = 0; page < kWide; ++page)
              *reinterpret_cast<std::uint64_t *>(wide.data() + page * kPageBytes) = round;
          });
          self.domain.collect();
        }
        turn->reach(1);
      }));
  children.spawn("reader", role(*turn, [&] {
                   const Actor self(folder.path(), options_for(kModes[0]));
                   while (turn->now() < 1) {
                     query(self.domain, [&] {
                       (void)self.get(kKept);
                       const std::uint64_t from = *commits;
                       while (turn->now() < 1 && *commits < from + 4) std::this_thread::yield();
                     });
                   }
                 }));
  children.spawn("watcher", role(*turn, [&] {
                   std::uint64_t told = 0;
                   DomainOptions options = options_for(kModes[0]);
                   options.slow_reader_ms = 0;
                   options.on_slow_reader = [&](auto, auto, const ParticipantInfo &) {
                     ++told;
                     return SlowReader::kReport;
                   };
                   const Actor self(folder.path(), options);
                   while (turn->now() < 1) self.commit(kKept, ++*commits);
                   EXPECT_GT(told, 0U);
                 }));
  children.expect_success();
}

// The reader is a thread of the process: that is not killed, so the reader is asked.
TEST(SlowReaderOptions, TheOwnProcessIsNotEnded) {
  if (const std::string why = why_unavailable(kModes[0]); !why.empty()) GTEST_SKIP() << why;
  expect_child("process", [] {
    const MemoryFolder folder;
    DomainOptions options = threaded(kModes[0]);
    options.slow_reader_ms = 0;
    options.on_slow_reader = [](auto, auto, const ParticipantInfo &reader) {
      EXPECT_EQ(reader.pid, getpid());
      return SlowReader::kEndProcess;
    };
    const Table table(folder.path(), options);
    Turn turn;
    Thread reader([&] {
      const bool was_asked = query(table.site, [&](Fields) {
        (void)table.word(1).load();
        turn.reach(1);
        turn.await(2);
        return should_end();
      });
      EXPECT_TRUE(was_asked);
    });
    turn.await(1);
    atomically(table.site, [&](Fields) { table.word(1).store(1); });
    turn.reach(2);
  });
}

}  // namespace
}  // namespace tmh::test
