// tests/page/multi_semantics_test.cpp -- what instances of two processes do to each other, in every
// mode, in a fixed order of events.
// Invariants: the thesis's section 2.2 (synchronous abort, consistent view, what is rolled back),
//             2.3 (queries), and docs/design.md 8 (fork). Who fails of two in an eager domain:
//             multi_rulings_test.cpp.
// Order:      the two roles hand each other the turn; a comment at the side tells who runs.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "hierarchy/transaction/policies.h"
#include "platform/process.h"
#include "tests/support/process_state.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

using TwoProcessTest = ModeTest;

constexpr std::uint32_t kEnds = 1'000'000;  // the last turn of an unknown number

INSTANTIATE_TEST_SUITE_P(Modes, TwoProcessTest, testing::ValuesIn(kModes), mode_name);

// In eager domains the writer that finds a reader wins, so that the second process can commit; lazy
// ones need no help.
constexpr const char *kDiscovererWins = "selfish-abort,fresh-age,backoff=none";

// FAILED is certain; PENDING is only forbidden where conflicts are found at the access.
void expect_doomed(const Actor &self, bool eager) {
  const Status status = self.domain.validate();
  if (eager) {
    EXPECT_EQ(status, Status::kFailed);
  } else {
    EXPECT_TRUE(status == Status::kFailed || status == Status::kPending);
  }
}

// Thesis, figure 2-4: two programs on x[0] = 42, locals count what happened.
TEST_P(TwoProcessTest, ConflictAbortsAtTheEndAndLocalsStay) {
  int a = 0, y = 0;
  std::uint64_t b = 0, z = 0;
  run_pair(
      kDiscovererWins,
      [&](Actor &self, Turn &turn) {
        self.commit(0, 42);
        turn.reach(1);
        while (true) {
          ++a;
          self.domain.begin();
          b += self.get();
          ++y;
          if (a == 1) {
            turn.reach(2);
            turn.await(3);  // the other one commits 41
            expect_doomed(self, eager());
            EXPECT_EQ(self.get(), 42U) << "a failed instance lost its consistent view";
          }
          self.set(0, self.get() + 1);
          z += self.get() - 1;
          const Status status = self.domain.end();
          EXPECT_EQ(status, a == 1 ? Status::kAborted : Status::kCommitted);
          if (status == Status::kCommitted) break;
        }
        EXPECT_EQ(a, 2);
        EXPECT_EQ(y, 2);
        EXPECT_EQ(b, z);
        EXPECT_EQ(b, 42U + 41U);
        EXPECT_EQ(self.committed(), 42U);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(2);
        self.domain.begin();
        self.set(0, self.get() - 1);
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
        turn.reach(3);
      });
}

TEST_P(TwoProcessTest, FailedInstanceSeesOneSnapshotAlsoInPagesItHadNotTouched) {
  run_pair(
      kDiscovererWins,
      [&](Actor &self, Turn &turn) {
        for (std::uint64_t page = 0; page < 8; ++page) self.commit(page, 1);
        self.domain.begin();
        EXPECT_EQ(self.get(0), 1U);
        self.set(10, 5);
        turn.reach(1);
        turn.await(2);  // the other one has committed 2, then 3, to pages 0 to 7
        for (std::uint64_t page = 0; page < 8; ++page)
          EXPECT_EQ(self.get(page), 1U) << "page " << page;
        EXPECT_EQ(load(self.second_word(3)), 0U) << "not even in another segment";
        EXPECT_EQ(self.get(10), 5U) << "its own store";
        EXPECT_EQ(self.domain.end(), Status::kAborted);
        EXPECT_EQ(self.committed(10), 0U);
        EXPECT_EQ(self.committed(7), 3U);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        for (const std::uint64_t value : {2U, 3U}) {
          atomically(self.domain, [&] {
            for (std::uint64_t page = 0; page < 8; ++page) self.set(page, value);
            store(self.second_word(3), value);
          });
          static_cast<void>(self.domain.collect());
        }
        turn.reach(2);
      });
}

TEST_P(TwoProcessTest, NestedEndOfAFailedInstanceTellsSoAndTheOutermostAborts) {
  run_pair(
      kDiscovererWins,
      [&](Actor &self, Turn &turn) {
        self.domain.begin();
        static_cast<void>(self.get(0));
        self.set(1, 1);
        self.domain.begin();
        turn.reach(1);
        turn.await(2);
        const Status inner = self.domain.end();
        if (eager()) {
          EXPECT_EQ(inner, Status::kFailed);
        } else {
          EXPECT_TRUE(inner == Status::kFailed || inner == Status::kPending);
        }
        EXPECT_EQ(self.domain.depth(), 1U);
        EXPECT_EQ(self.domain.end(), Status::kAborted);
        EXPECT_EQ(self.committed(1), 0U);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.commit(0, 9);
        turn.reach(2);
      });
}

// The doomed attempt's exception never happened: the body runs again. A sound one's propagates.
TEST_P(TwoProcessTest, ExceptionOfADoomedAttemptIsRetriedIfTheDoomIsKnown) {
  run_pair(
      kDiscovererWins,
      [&](Actor &self, Turn &turn) {
        int attempts = 0;
        const auto body = [&] {
          static_cast<void>(self.get(0));
          self.set(1, 1);
          if (++attempts == 1) {
            turn.reach(1);
            turn.await(2);
            const bool doomed = self.domain.validate() == Status::kFailed;
            if (doomed) throw std::domain_error("of a doomed attempt");
          }
        };
        EXPECT_NO_THROW(atomically(self.domain, body));
        EXPECT_EQ(attempts, 2);
        EXPECT_EQ(self.committed(1), 1U);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.commit(0, 9);
        turn.reach(2);
      });
}

TEST_P(TwoProcessTest, UncommittedStoresAreInvisible) {
  run_pair(
      kDiscovererWins,
      [&](Actor &self, Turn &turn) {
        self.domain.begin();
        self.set(0, 1);
        turn.reach(1);
        turn.await(2);
        self.domain.abort();
        turn.reach(3);
        turn.await(4);
        self.domain.begin();
        self.set(0, 2);
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
        turn.reach(5);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        EXPECT_EQ(self.committed(0), 0U) << "a store of a running instance";
        turn.reach(2);
        turn.await(3);
        EXPECT_EQ(self.committed(0), 0U) << "a store of an aborted instance";
        turn.reach(4);
        turn.await(5);
        EXPECT_EQ(self.committed(0), 2U);
      });
}

TEST_P(TwoProcessTest, QuerySeesOneSnapshotWhileOthersCommitAndNeverAborts) {
  constexpr std::uint32_t kRounds = 40;
  run_pair(
      kDiscovererWins,
      [&](Actor &self, Turn &turn) {
        for (std::uint64_t page = 0; page < kRounds; ++page) self.commit(page, 1'000);
        const Counters before = self.domain.counters();
        self.domain.begin_query();
        EXPECT_EQ(self.get(0), 1'000U);
        // Each round touches one more page for the first time, after it was overwritten round after
        // round.
        for (std::uint32_t round = 1; round < kRounds; ++round) {
          turn.reach(2 * round - 1);
          turn.await(2 * round);
          EXPECT_EQ(self.get(round), 1'000U) << "page " << round;
          EXPECT_EQ(self.get(0), 1'000U);
        }
        EXPECT_EQ(self.domain.validate(), Status::kPending) << "a query never fails";
        EXPECT_NO_THROW(self.domain.end_query());
        EXPECT_EQ(self.domain.counters().aborts_total(), before.aborts_total());
        EXPECT_EQ(self.committed(kRounds - 1), kRounds - 1) << "the next query sees the newest";
        turn.reach(2 * kRounds);
      },
      [&](Actor &self, Turn &turn) {
        for (std::uint32_t round = 1; round < kRounds; ++round) {
          turn.await(2 * round - 1);
          atomically(self.domain, [&] {
            for (std::uint64_t page = 0; page < kRounds; ++page) self.set(page, round);
          });
          static_cast<void>(self.domain.collect());
          turn.reach(2 * round);
        }
        turn.await(2 * kRounds);
        EXPECT_EQ(self.domain.collect(), 0U) << "versions outlive their last reader";
      });
}

TEST_P(TwoProcessTest, AStuckReaderIsVisible) {
  run_pair(
      kDiscovererWins,
      [&](Actor &self, Turn &turn) {
        self.domain.begin_query();
        static_cast<void>(self.get(0));
        turn.reach(1);
        turn.await(2);
        self.domain.end_query();
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        for (std::uint64_t i = 1; i <= 10; ++i) self.commit(0, i);
        std::size_t readers = 0;
        for (const ParticipantInfo &participant : self.domain.participants()) {
          if (participant.pid == getpid()) continue;
          ++readers;
          EXPECT_TRUE(participant.active);
          EXPECT_TRUE(participant.query);
          EXPECT_EQ(kill(participant.pid, 0), 0) << "named by its pid";
        }
        EXPECT_EQ(readers, 1U);
        EXPECT_GE(self.domain.collect(), 1U) << "its snapshot's version must be kept";
        EXPECT_LE(self.domain.counters().versions_live, 3U)
            << "versions that nobody can read are kept";
        turn.reach(2);
      });
}

TEST_P(TwoProcessTest, VersionsOfAnIdleProcessAreSentHomeByWhoeverCommits) {
  run_pair(
      kDiscovererWins,
      [&](Actor &self, Turn &turn) {
        self.domain.begin_query();
        static_cast<void>(self.get(0));
        turn.reach(1);
        turn.await(2);  // the other one has committed, and commits no more
        EXPECT_GE(self.domain.counters().versions_live, 1U)
            << "the snapshot needs what was there before";
        self.domain.end_query();
        EXPECT_TRUE(poll_until([&] {
          self.commit(9, self.committed(9) + 1);
          return self.domain.counters().versions_live == 0;
        })) << "versions that nobody can read are kept";
        EXPECT_EQ(self.committed(0), 10U);
        turn.reach(3);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        for (std::uint64_t i = 1; i <= 10; ++i) {
          for (std::uint64_t page = 0; page < 8; ++page) self.commit(page, i);
        }
        turn.reach(2);
        turn.await(3);
      });
}

// Each reads both and writes one (write skew), or both write the same (lost update): exactly one
// commits.
struct Outcomes {
  std::atomic<std::uint32_t> committed{0};
};

TEST_P(TwoProcessTest, WriteSkewAndLostUpdateAreImpossible) {
  for (const std::uint64_t page_of_two : {std::uint64_t{1}, std::uint64_t{0}}) {
    const Shared<Outcomes> outcomes;
    const auto role = [&](std::uint64_t mine, std::uint32_t first_turn) {
      return [&outcomes, mine, first_turn](Actor &self, Turn &turn) {
        turn.await(first_turn);  // 0: one; 1: two
        self.domain.begin();
        const std::uint64_t sum = self.get(0) + self.get(1);
        turn.reach(first_turn + 1);
        turn.await(first_turn + 2);
        self.set(mine, sum + 1);
        turn.reach(first_turn + 3);
        turn.await(first_turn + 4);
        if (self.domain.end() == Status::kCommitted) outcomes->committed.fetch_add(1);
        turn.reach(first_turn + 5);
      };
    };
    // The turns interleave: one reads, two reads, one writes, two writes, one ends, two ends.
    run_pair("", role(0, 0), role(page_of_two, 1));
    EXPECT_EQ(outcomes->committed.load(), 1U) << (page_of_two == 1 ? "write skew" : "lost update");
  }
}

TEST_P(TwoProcessTest, DisjointPagesDoNotConflict) {
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        self.domain.begin();
        self.set(0, self.get(1) + 1);
        turn.reach(1);
        turn.await(2);
        EXPECT_EQ(self.domain.validate(), Status::kPending);
        store(self.second_word(0), std::uint64_t{1});
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
        turn.reach(3);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.domain.begin();
        self.set(20, self.get(21) + 1);
        store(self.second_word(20), std::uint64_t{1});
        turn.reach(2);
        turn.await(3);
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
      });
}

// The same pages in every instance so far, another one in this one, and during each of its attempts
// the other process commits to one of those: pages kept mapped from before (hot modes) may cost a
// false conflict, but only once.
TEST_P(TwoProcessTest, PagesOfEarlierInstancesDoNotBlockForever) {
  constexpr std::uint32_t kInstances = 8;
  const Tracking tracking = GetParam().tracking;
  const bool is_hot = tracking == Tracking::kKernelHot || tracking == Tracking::kSignalHot;
  run_pair(
      "self-abort,keep-age,backoff=none",
      [&](Actor &self, Turn &turn) {
        std::uint32_t turns = 0;  // odd: the other one's
        for (std::uint32_t i = 1; i <= kInstances; ++i) {
          for (std::uint64_t page = 0; page < 32; ++page) self.commit(page, i);
          std::uint32_t attempts = 0;
          atomically(self.domain, [&] {
            ++attempts;
            self.set(40, i);
            turn.reach(++turns);
            turn.await(++turns);  // the other one commits
          });
          EXPECT_LE(attempts, is_hot ? 2U : 1U);
          EXPECT_EQ(self.committed(40), i);
        }
        turn.reach(kEnds);
      },
      [&](Actor &self, Turn &turn) {
        for (std::uint32_t turns = 1;; turns += 2) {
          turn.await(turns);
          if (turn.now() == kEnds) break;
          self.commit(turns / 2 % 32, 1000 + turns);
          turn.reach(turns + 1);
        }
      });
}

TEST_P(TwoProcessTest, SegmentsCommitTogether) {
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        for (std::uint64_t i = 1; i <= 500; ++i) {
          atomically(self.domain, [&] {
            self.set(i % 4, i);
            store(self.second_word(i % 4), i);
          });
        }
        turn.reach(2);
      },
      [&](Actor &self, Turn &turn) {
        turn.reach(1);
        std::uint64_t queries = 0;
        for (; turn.now() < 2 || queries < 10; ++queries) {
          query(self.domain, [&] {
            for (std::uint64_t page = 0; page < 4; ++page)
              ASSERT_EQ(self.get(page), load(self.second_word(page)));
          });
        }
      });
}

TEST_P(TwoProcessTest, GrowingWhileTheOtherRuns) {
  constexpr std::uint64_t kNew = kStagePages + 100;
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        self.domain.begin();
        self.set(0, 1);
        turn.reach(1);
        turn.await(2);  // the other one has grown the segment and committed a store in the new part
        EXPECT_EQ(self.first.size_bytes(), (kNew + 1) * kPageBytes);
        EXPECT_EQ(self.get(0), 1U);
        self.set(kNew - 1, 7);  // usable at once, also in the running instance
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
        EXPECT_EQ(self.committed(kNew), 5U);
        turn.reach(3);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.first.grow((kNew + 1) * kPageBytes);
        self.commit(kNew, 5);
        turn.reach(2);
        turn.await(3);
        EXPECT_EQ(self.committed(kNew - 1), 7U);
        EXPECT_EQ(self.committed(0), 1U);
      });
}

TEST_P(TwoProcessTest, SegmentsLieAtTheSameAddressAndPointersHold) {
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        atomically(self.domain, [&] {
          store(self.second_word(9), std::uint64_t{77});
          self.set(0, reinterpret_cast<std::uintptr_t>(&self.second_word(9)));
        });
        turn.reach(1);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        const std::uint64_t value = query(
            self.domain, [&] { return load(*reinterpret_cast<std::uint64_t *>(self.get(0))); });
        EXPECT_EQ(value, 77U);
      });
}

// What the second process tells the first one, which cannot wait for its turn.
struct OtherCommitter {
  std::atomic<pid_t> process{0};
  // Of its commits: how many it has begun, how many have ended.
  std::atomic<std::uint32_t> begun{0}, ended{0};

  // It has committed for the `number`th time, or its commit waits for the turn.
  void await_commit_or_wait(std::uint32_t number) const {
    ASSERT_TRUE(poll_until([&] {
      return ended >= number ||
             (begun >= number && is_sleeping("/proc/" + std::to_string(process)));
    }));
  }
};

// During each attempt the other process commits to what it has read, so that it is aborted, until
// it has the turn: then the other's commit waits.
TEST_P(TwoProcessTest, AnInstanceThatKeepsItsAgeIsNotStarved) {
  // Eager detection fails the other one, who comes later, until that one gets the turn.
  const std::uint32_t losses = eager() ? 0 : hierarchy::kTurnAttempts;
  constexpr std::uint64_t kLongNs = 100'000'000;
  const Shared<OtherCommitter> other;
  run_pair(
      "self-abort,keep-age,backoff=none",
      [&](Actor &self, Turn &turn) {
        std::uint32_t attempts = 0, interrupted = 0;
        std::uint64_t begin_ns = platform::monotonic_ns();
        atomically(self.domain, [&] {
          const std::uint64_t now_ns = platform::monotonic_ns();
          interrupted += attempts > losses && now_ns - begin_ns > kLongNs ? 1 : 0;
          begin_ns = now_ns;
          ++attempts;
          self.set(kStagePages - 1, 100 + self.get(0));
          turn.reach(2 * attempts - 1);
          if (attempts <= losses)
            turn.await(2 * attempts);  // the other one has committed
          else                         // it would have if nothing made it wait
            other->await_commit_or_wait(attempts);
        });
        // A holder that runs for 200 ms loses the turn.
        EXPECT_GE(attempts, losses + 1);
        EXPECT_LE(attempts, hierarchy::kTurnAttempts + 1 + interrupted);
        EXPECT_EQ(self.committed(kStagePages - 1), 100U + attempts - 1);
        turn.reach(kEnds);
      },
      [&](Actor &self, Turn &turn) {
        other->process = getpid();
        for (std::uint32_t i = 1;; ++i) {
          turn.await(2 * i - 1);
          if (turn.now() == kEnds) break;
          other->begun = i;
          self.commit(0, i);
          other->ended = i;
          if (i <= losses) turn.reach(2 * i);
        }
      });
}

TEST_P(TwoProcessTest, DataOfAClosedProcessIsInTheFilesAfterTheLastClose) {
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        self.commit(5, 0x1122334455667788U);
        turn.reach(1);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        EXPECT_EQ(self.committed(5), 0x1122334455667788U);
      });
  const std::string bytes = read_file(folder_ / "first.raw");
  std::uint64_t word = 0;
  bytes.copy(reinterpret_cast<char *>(&word), sizeof word, 5 * kPageBytes);
  EXPECT_EQ(word, 0x1122334455667788U);
}

// --- fork
// -------------------------------------------------------------------------------------------------

TEST_P(TwoProcessTest, ForkedChildIsDetachedUntilItOpensTheDomainItself) {
  expect_child("parent", [&] {
    const Actor self = actor();
    self.commit(0, 1);
    expect_child("child", [&] {
      expect_error(Errc::kDetached, [&] { self.domain.begin(); });
      expect_error(Errc::kDetached, [&] { self.domain.begin_query(); });
      expect_error(Errc::kDetached,
                   [&] { static_cast<void>(self.domain.map("x.raw", raw_segment())); });
      Actor own = actor();
      EXPECT_EQ(own.committed(0), 1U);
      own.commit(0, 2);
      EXPECT_EQ(own.domain.participants().size(), 2U);
      own.domain.close();
    });
    EXPECT_EQ(self.committed(0), 2U) << "the child's end took the parent's domain with it";
    self.commit(0, 3);
    EXPECT_EQ(self.committed(0), 3U);
    static_cast<void>(self.domain.collect());
    EXPECT_EQ(self.domain.participants().size(), 1U);
  });
}

TEST_P(TwoProcessTest, ForkInsideAnInstanceLeavesTheParentsInstanceAlone) {
  expect_child("parent", [&] {
    const Actor self = actor();
    self.domain.begin();
    self.set(0, 1);
    expect_child("child", [&] {
      EXPECT_EQ(self.domain.depth(), 0U);
      expect_error(Errc::kDetached, [&] { static_cast<void>(self.domain.end()); });
      Actor own = actor();
      EXPECT_EQ(own.committed(0), 0U);
      own.commit(30, 4);
      own.domain.close();
    });
    self.set(1, 1);
    EXPECT_EQ(self.domain.end(), Status::kCommitted);
    EXPECT_EQ(self.committed(0) + self.committed(1) + self.committed(30), 6U);
  });
}

TEST_P(TwoProcessTest, ChildThatOnlyExitsHarmsNobody) {
  expect_child("parent", [&] {
    const Actor self = actor();
    for (std::uint64_t i = 1; i <= 5; ++i) {
      expect_child("child", [] {});
      self.commit(0, i);
      EXPECT_EQ(self.committed(0), i);
    }
  });
}

}  // namespace
}  // namespace tmh::test
