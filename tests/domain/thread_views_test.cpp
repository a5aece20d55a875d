// tests/domain/thread_views_test.cpp -- threads of one process that run instrumented instances of
// level 2 at once, each on views of its own.
// Order:      threads hand each other the turn; a comment at the side tells who runs.
// Source:     thesis, appendix A.1, first restriction; hierarchy/threads/thread_views.h.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "platform/files.h"
#include "platform/process.h"
#include "storage/participants.h"
#include "tests/support/children.h"
#include "tests/support/modes.h"
#include "tests/support/stray_allowed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

class ThreadViewsTest : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (const std::string why = why_unavailable(mode()); !why.empty()) GTEST_SKIP() << why;
  }
  [[nodiscard]] const Mode &mode() const { return kModes[GetParam()]; }
  MemoryFolder folder_;
};

TEST_P(ThreadViewsTest, InstancesOfTwoThreadsOverlap) {
  const Table table(folder_.path(), threaded(mode()));
  std::atomic<int> inside{0};
  const auto meet = [&] {  // each is in the middle of its instance when it has seen the other there
    inside.fetch_add(1);
    EXPECT_TRUE(poll_until([&] { return inside.load() >= 2; }));
  };
  {
    Thread other([&] {
      atomically(table.site, [&](Fields) {
        table.word(1).store(11);
        meet();
        EXPECT_EQ(table.word(1).load(), 11U);
        EXPECT_EQ(table.word(0).load(), 0U);  // nobody else's uncommitted stores
      });
    });
    atomically(table.site, [&](Fields) {
      table.word(2).store(22);
      meet();
      EXPECT_EQ(table.word(2).load(), 22U);
      EXPECT_EQ(table.word(1, 1).load(), 0U);
    });
  }
  EXPECT_EQ(table.committed(1), 11U);
  EXPECT_EQ(table.committed(2), 22U);
  EXPECT_GE(table.domain.counters().thread_view_instances, 2U);
  EXPECT_EQ(table.domain.counters().thread_view_fallbacks, 0U);
}

TEST_P(ThreadViewsTest, ASnapshotStaysWhileAnotherThreadCommits) {
  const Table table(folder_.path(), threaded(mode()));
  if (table.domain.detection() == Detection::kEager)
    GTEST_SKIP() << "eager: the reader or the writer is failed at once";
  std::atomic<int> turn{0};
  Thread writer([&] {
    EXPECT_TRUE(poll_until([&] { return turn.load() == 1; }));
    atomically(table.site, [&](Fields) {  //                        writer
      ++table.word(3);
      ++table.word(4);
    });
    turn.store(2);
  });
  int attempts = 0;
  atomically(table.site, [&](Fields) {
    const std::uint64_t first = table.word(3).load();
    if (++attempts == 1) {
      turn.store(1);
      EXPECT_TRUE(poll_until([&] { return turn.load() == 2; }));  //   reader
    }
    EXPECT_EQ(table.word(4).load(), first) << "attempt " << attempts;
    EXPECT_EQ(table.word(3).load(), first);
    table.word(3).store(first + 10);
  });
  EXPECT_EQ(attempts, 2) << "what it had read was committed by another thread";
  EXPECT_EQ(table.committed(3), 11U);
  EXPECT_EQ(table.committed(4), 1U);
}

TEST_P(ThreadViewsTest, CountersOfManyThreadsAddUp) {
  constexpr std::uint64_t kThreads = 4, kEach = 200;
  const Table table(folder_.path(), threaded(mode()));
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.push_back(std::make_unique<Thread>([&, t] {
        for (std::uint64_t i = 0; i < kEach; ++i) {
          atomically(table.site, [&](Fields) {
            ++table.word(5);
            ++table.word(6 + t);
          });
          // Plain, on the process's view.
          if (i % 16 == 0) atomically(table.domain, [&] { ++table.word(15); });
        }
      }));
    }
  }
  EXPECT_EQ(table.committed(5), kThreads * kEach);
  for (std::uint64_t t = 0; t < kThreads; ++t) EXPECT_EQ(table.committed(6 + t), kEach);
  EXPECT_EQ(table.committed(15), kThreads * ((kEach + 15) / 16));
  EXPECT_EQ(table.site.report().page_commits, kThreads * kEach);
}

TEST_P(ThreadViewsTest, ExceptionsRetriesAndActionsWork) {
  const Table table(folder_.path(), threaded(mode()));
  EXPECT_THROW(atomically(table.site,
                          [&](Fields) {
                            table.word(0).store(1);
                            throw std::runtime_error("undo");
                          }),
               std::runtime_error);
  EXPECT_EQ(table.committed(0), 0U);
  int committed = 0, aborted = 0;
  EXPECT_THROW(atomically(table.site,
                          [&](Fields) {
                            on_abort([&] { ++aborted; });
                            throw std::runtime_error("undo");
                          }),
               std::runtime_error);
  EXPECT_EQ(aborted, 1);
  Thread waker([&] { atomically(table.site, [&](Fields) { table.word(0).store(5); }); });
  const std::uint64_t seen = atomically(table.site, [&](Fields) {
    on_commit([&] { ++committed; });
    if (table.word(0).load() == 0) retry();
    return table.word(0).load();
  });
  EXPECT_EQ(seen, 5U);
  EXPECT_EQ(committed, 1);
}

TEST_P(ThreadViewsTest, QueriesOfTwoThreadsOverlapAndStayOnTheirSnapshots) {
  const StrayAllowed allowed;
  const Table table(folder_.path(), threaded(mode()));
  atomically(table.site, [&](Fields) { table.word(0).store(1); });
  std::atomic<int> inside{0};
  const auto read_twice = [&] {
    query(table.site, [&](Fields) {
      EXPECT_EQ(table.word(0).load(), 1U);
      inside.fetch_add(1);
      // Both are inside, and then there was a commit.
      EXPECT_TRUE(poll_until([&] { return inside.load() == 3; }));
      EXPECT_EQ(table.word(0).load(), 1U);
      EXPECT_EQ(table.word(1).load(), 0U);  // first touched now
    });
  };
  {
    Thread one(read_twice), two(read_twice);
    EXPECT_TRUE(poll_until([&] { return inside.load() == 2; }));
    atomically(table.domain, [&] {
      table.word(0).store(2);
      table.word(1).store(2);
    });
    inside.fetch_add(1);
  }
  EXPECT_EQ(query(table.site, [&](Fields) { return table.word(1).load(); }), 2U);
  EXPECT_EQ(table.domain.counters().aborts_total(), 0U);
  try {
    query(table.site, [&](Fields) { table.word(3, 2).store(9); });
    ADD_FAILURE() << "a query stored";
  } catch (const Error &error) {
    EXPECT_EQ(error.errc(), Errc::kQueryWrote);
    char at[32];
    std::snprintf(at, sizeof at, "%p", static_cast<const void *>(&table.word(3, 2)));
    EXPECT_NE(std::string(error.what()).find(at), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("words.raw"), std::string::npos) << error.what();
  }
  EXPECT_EQ(table.committed(3, 2), 0U);
}

TEST_P(ThreadViewsTest, NestedInstancesAreSubsumed) {
  const Table table(folder_.path(), threaded(mode()));
  const Site inner(table.domain, "inner", "always");
  EXPECT_THROW(atomically(table.site,
                          [&](Fields) {
                            atomically(inner, [&](Fields) { table.word(0).store(7); });
                            EXPECT_EQ(table.word(0).load(), 7U);
                            EXPECT_EQ(table.domain.depth(), 1U);
                            throw std::runtime_error("all of it");
                          }),
               std::runtime_error);
  EXPECT_EQ(table.committed(0), 0U);
  EXPECT_EQ(table.domain.counters().thread_view_fallbacks, 0U);
}

// What needs plain loads and stores runs on the process's view, and all of it there.
TEST_P(ThreadViewsTest, PlainWorkInsideEndsTheAttemptAndRunsOnTheProcessView) {
  const Table table(folder_.path(), threaded(mode()));
  const Site plain(table.domain, "plain", "always");
  const Segment heap = table.domain.map("heap.tmh");
  const auto expect_fallback = [&](const std::function<void()> &in_the_middle) {
    const std::uint64_t before = table.domain.counters().thread_view_fallbacks;
    const Site site(table.domain, "mixed", "always");  // has learned nothing yet
    int attempts = 0;
    EXPECT_THROW(atomically(site,
                            [&](Fields) {
                              ++attempts;
                              ++table.word(0);
                              in_the_middle();
                              EXPECT_EQ(table.word(0).load(), 1U);
                              throw std::runtime_error("undo");
                            }),
                 std::runtime_error);
    EXPECT_EQ(attempts, 2);
    EXPECT_EQ(table.committed(0), 0U);
    EXPECT_EQ(table.domain.counters().thread_view_fallbacks, before + 1);
  };
  auto *const raw = reinterpret_cast<std::uint64_t *>(table.segment.data()) + kWordsPerPage;
  expect_fallback([&] { new (heap.allocate(64, 8)) std::uint64_t(3); });
  expect_fallback([&] { atomically(table.domain, [&] { raw[0] = 9; }); });
  expect_fallback([&] { atomically(plain, [&] { raw[0] = 9; }); });
  expect_fallback([&] { EXPECT_EQ(query(table.domain, [&] { return raw[0]; }), 0U); });
  expect_fallback([&] {
    try {  // who swallows it gets it again
      (void)heap.allocate(64, 8);
    } catch (...) {
    }
  });
  EXPECT_EQ(table.committed(1), 0U);
}

TEST_P(ThreadViewsTest, ASwallowedEndOfTheAttemptDoesNotCommit) {
  const Table table(folder_.path(), threaded(mode()));
  const Segment heap = table.domain.map("heap.tmh");
  int attempts = 0;
  atomically(table.site, [&](Fields) {
    ++table.word(0);
    try {
      if (++attempts == 1) (void)heap.allocate(64, 8);
    } catch (...) {
    }
  });
  EXPECT_EQ(attempts, 2);
  EXPECT_EQ(table.committed(0), 1U);
}

TEST_P(ThreadViewsTest, SlotsComeBackWhenThreadsEnd) {
  const Table table(folder_.path(), threaded(mode()));
  const std::size_t alone = table.domain.participants().size();
  for (int i = 0; i < 20; ++i) {
    Thread([&] {
      atomically(table.site, [&](Fields) { ++table.word(0); });
      EXPECT_EQ(table.domain.participants().size(), alone + 1);
    }).join();
    EXPECT_EQ(table.domain.participants().size(), alone);
  }
  EXPECT_EQ(table.committed(0), 20U);
  EXPECT_EQ(table.domain.counters().thread_view_instances, 20U);
}

TEST_P(ThreadViewsTest, WithoutAFreeSlotTheyRunOnTheProcessView) {
  const Table table(folder_.path(), threaded(mode()));
  {
    // All other slots are a living process's.
    platform::GrowingFile file;
    constexpr std::uint64_t kBytes = storage::kParticipantsMax * sizeof(storage::Participant);
    ASSERT_EQ(file.open(folder_ / "tmh.participants", kBytes, kBytes,
                        platform::GrowingFile::Blocks::kSparse),
              Errc::kOk);
    auto *records = reinterpret_cast<storage::Participant *>(file.base());
    platform::ProcessId self;
    ASSERT_TRUE(platform::this_process(&self));
    for (std::uint32_t i = 1; i < storage::kParticipantsMax; ++i) {
      records[i].pid = self.pid;
      records[i].start_time = self.start_time;
      records[i].state.store(1);
    }
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 3; ++t) {
      threads.push_back(std::make_unique<Thread>([&] {
        for (int i = 0; i < 50; ++i) atomically(table.site, [&](Fields) { ++table.word(0); });
      }));
    }
    threads.clear();
    for (std::uint32_t i = 1; i < storage::kParticipantsMax; ++i) records[i].state.store(0);
  }
  EXPECT_EQ(table.committed(0), 150U);
  EXPECT_EQ(table.domain.counters().thread_view_instances, 0U);
  EXPECT_EQ(table.domain.counters().thread_view_fallbacks, 150U);
}

TEST_P(ThreadViewsTest, TheyFollowMappingAndUnmapping) {
  Table table(folder_.path(), threaded(mode()));
  std::atomic<int> turn{0};
  Segment second;
  const auto word_of = [&] { return reinterpret_cast<field<std::uint64_t> *>(second.data()); };
  Thread other([&] {
    int attempts = 0;
    atomically(table.site, [&](Fields) {
      ++table.word(0);
      if (++attempts == 1) {
        turn.store(1);
        // Mapped while this instance runs.
        EXPECT_TRUE(poll_until([&] { return turn.load() == 2; }));
      }
      word_of()->store(1);
    });
    EXPECT_EQ(attempts, 2);
    atomically(table.site, [&](Fields) { ++*word_of(); });  // in the thread's view now
    turn.store(3);
    EXPECT_TRUE(poll_until([&] { return turn.load() == 4; }));  // unmapped and mapped again
    atomically(table.site, [&](Fields) { ++*word_of(); });
  });
  EXPECT_TRUE(poll_until([&] { return turn.load() == 1; }));
  second = table.domain.map("second.raw", words_options());
  turn.store(2);
  EXPECT_TRUE(poll_until([&] { return turn.load() == 3; }));
  EXPECT_EQ(query(table.domain, [&] { return word_of()->load(); }), 2U);
  table.domain.unmap(second);
  second = table.domain.map("second.raw", words_options());
  turn.store(4);
  other.join();
  EXPECT_EQ(query(table.domain, [&] { return word_of()->load(); }), 3U);
  EXPECT_EQ(table.committed(0), 1U);
}

TEST_P(ThreadViewsTest, TheDomainMayCloseBeforeItsThreadsEnd) {
  std::atomic<int> turn{0};
  Table table(folder_.path(), threaded(mode()));
  Thread other([&] {
    atomically(table.site, [&](Fields) { ++table.word(0); });
    turn.store(1);
    EXPECT_TRUE(poll_until([&] { return turn.load() == 2; }));
    try {
      atomically(table.site, [&](Fields) { ADD_FAILURE() << "ran in a closed domain"; });
      ADD_FAILURE() << "began in a closed domain";
    } catch (const Error &error) {
      EXPECT_EQ(error.errc(), Errc::kNotInitialized);
    }
    turn.store(3);
    EXPECT_TRUE(poll_until([&] { return turn.load() == 4; }));
  });
  EXPECT_TRUE(poll_until([&] { return turn.load() == 1; }));
  table.domain.close();
  turn.store(2);
  EXPECT_TRUE(poll_until([&] { return turn.load() == 3; }));
  const Table again(folder_.path(), threaded(mode()));
  turn.store(4);
  other.join();
  EXPECT_EQ(again.domain.participants().size(), 1U);
  EXPECT_EQ(again.committed(0), 1U);
}

TEST_P(ThreadViewsTest, AForkedChildHasNoneOfThem) {
  const Table table(folder_.path(), threaded(mode()));
  atomically(table.site, [&](Fields) {
    ++table.word(0);
    const pid_t child = fork();
    if (child == 0) {
      // What the parent's instance holds is the parent's: the child opens the domain for itself.
      bool detached = false;
      try {
        atomically(table.site, [](Fields) {});
      } catch (const Error &error) {
        detached = error.errc() == Errc::kDetached;
      }
      bool works = false;
      std::thread([&] {
        const Table own(folder_.path(), threaded(mode()));
        atomically(own.site, [&](Fields) { ++own.word(1); });
        works = own.committed(1) == 1;
      }).join();
      _exit(detached && works ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  });
  EXPECT_EQ(table.committed(0), 1U);
  EXPECT_EQ(table.committed(1), 1U);
}

TEST_P(ThreadViewsTest, AutoLeavesASingleThreadOnTheProcessView) {
  const Table table(folder_.path(), threaded(mode(), ThreadViewUse::kAuto));
  for (int i = 0; i < 5; ++i) atomically(table.site, [&](Fields) { ++table.word(0); });
  EXPECT_EQ(table.domain.counters().thread_view_instances, 0U);
  EXPECT_EQ(table.committed(0), 5U);
  // As never.
  if (mode().tracking != Tracking::kKernelHot && mode().tracking != Tracking::kSignalHot) return;
  atomically(table.domain, [&] {  // the process's view is taken: another thread gets its own
    Thread([&] { atomically(table.site, [&](Fields) { ++table.word(2); }); }).join();
  });
  EXPECT_EQ(table.domain.counters().thread_view_instances, 1U);
  EXPECT_EQ(table.domain.counters().thread_view_fallbacks, 0U);
  EXPECT_EQ(table.committed(2), 1U);
}

TEST_P(ThreadViewsTest, NeverRunsThemOneAfterTheOther) {
  const Table table(folder_.path(), threaded(mode(), ThreadViewUse::kNever));
  atomically(table.site, [&](Fields) { ++table.word(0); });
  Thread([&] { atomically(table.site, [&](Fields) { ++table.word(0); }); }).join();
  EXPECT_EQ(table.domain.counters().thread_view_instances, 0U);
  EXPECT_EQ(table.domain.counters().thread_view_fallbacks, 0U);
  EXPECT_EQ(table.committed(0), 2U);
}

std::string mode_of(const testing::TestParamInfo<std::size_t> &info) {
  return kModes[info.param].name;
}
INSTANTIATE_TEST_SUITE_P(Modes, ThreadViewsTest, testing::Range(std::size_t{0}, std::size(kModes)),
                         mode_of);

TEST(ThreadViewBodies, AreThoseThatTakeFieldsAndNoOthersOfTheSameSite) {
  const MemoryFolder folder;
  DomainOptions options;
  options.policies.thread_views = lab::kOwnViewAlways;
  const Table table(folder.path(), options);
  atomically(table.site, [&] { ++table.word(0); });
  EXPECT_EQ(table.domain.counters().thread_view_instances, 0U);
  atomically(table.site, [&](Fields) { ++table.word(0); });
  EXPECT_EQ(table.domain.counters().thread_view_instances, 1U);
}

}  // namespace
}  // namespace tmh::test
