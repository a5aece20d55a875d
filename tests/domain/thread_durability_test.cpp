// tests/domain/thread_durability_test.cpp -- durable commits of threads with views of their own.
// Source:     docs/design.md D1; hierarchy/threads/thread_views.h.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <vector>

#include <tmh/lab.hpp>

#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

class ThreadDurabilityTest : public testing::TestWithParam<Levels> {
 protected:
  [[nodiscard]] static DomainOptions options() {
    DomainOptions options;
    options.levels = GetParam();
    options.policies.thread_views = lab::kOwnViewAlways;
    options.durability = Durability::kStrict;
    return options;
  }
  TempFolder folder_;
};

// When a strict commit of a thread returns, it survives a crash of the whole process.
TEST_P(ThreadDurabilityTest, StrictCommitsOfThreadsAreInTheLog) {
  constexpr std::uint64_t kThreads = 3, kEach = 40;
  Shared<std::atomic<std::uint64_t>> acknowledged;
  const ChildEnd end = run_in_child("committer", [&] {
    const Table table(folder_.path(), options());
    std::vector<std::unique_ptr<Thread>> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.push_back(std::make_unique<Thread>([&, t] {
        for (std::uint64_t i = 0; i < kEach; ++i) {
          atomically(table.site, [&](Fields) {
            ++table.word(0);
            ++table.word(1 + t);
          });
          acknowledged->fetch_add(1);
        }
      }));
    }
    threads.clear();
    EXPECT_EQ(table.domain.counters().thread_view_instances - table.site.report().page_aborts,
              kThreads * kEach);
    die_unless_failed();
  });
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_EQ(acknowledged->load(), kThreads * kEach);
  const Table table(folder_.path(), options());
  EXPECT_EQ(table.committed(0), kThreads * kEach);
  for (std::uint64_t t = 0; t < kThreads; ++t) EXPECT_EQ(table.committed(1 + t), kEach);
}

// Killed in the middle of its threads' commits, again and again: each thread's acknowledged commits
// are there, and no half of one.
TEST_P(ThreadDurabilityTest, AcknowledgedCommitsSurviveTheDeathOfTheProcess) {
  constexpr std::uint64_t kThreads = 3;
  constexpr int kDeaths = 6;
  Shared<std::array<std::atomic<std::uint64_t>, kThreads>> acknowledged;
  for (int death = 1; death <= kDeaths; ++death) {
    Children children;
    const std::size_t child = children.spawn("committer", [&] {
      const Table table(folder_.path(), options());
      // At lines and pages, or plain on the process's view.
      const Site mixed(table.domain, "mixed");
      std::vector<std::unique_ptr<Thread>> threads;
      for (std::uint64_t t = 0; t < kThreads; ++t) {
        threads.push_back(std::make_unique<Thread>([&, t] {
          for (;;) {
            atomically(t == 0 ? mixed : table.site, [&](Fields) {
              ++table.word(0);
              ++table.word(1 + t);
            });
            (*acknowledged)[t].fetch_add(1);
          }
        }));
      }
      threads.clear();
    });
    const std::uint64_t enough = (*acknowledged)[0].load() + 20;
    EXPECT_TRUE(poll_until([&] { return (*acknowledged)[0].load() >= enough; }));
    children.bury(child);
    expect_child("auditor", [&] {
      const Table table(folder_.path(), options());
      std::uint64_t sum = 0;
      for (std::uint64_t t = 0; t < kThreads; ++t) {
        const std::uint64_t there = table.committed(1 + t);
        EXPECT_GE(there, (*acknowledged)[t].load()) << "death " << death << ", thread " << t;
        // One commit more per death may have become durable without having been acknowledged.
        EXPECT_LE(there, (*acknowledged)[t].load() + static_cast<std::uint64_t>(death))
            << "thread " << t;
        sum += there;
      }
      EXPECT_EQ(table.committed(0), sum);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ThreadDurabilityTest,
                         testing::Values(Levels::kPage, Levels::kHybrid), [](const auto &each) {
                           return each.param == Levels::kPage ? "Page" : "Hybrid";
                         });

}  // namespace
}  // namespace tmh::test
