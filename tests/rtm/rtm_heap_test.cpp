// tests/rtm/rtm_heap_test.cpp -- the heap inside RTM: plain code like any other, until it must grow
// or has something to tell.
// Invariants: (1) a block that a committed transaction allocated is there, once; one of an aborted
//             or killed transaction never was.
//             (2) what needs level 2 (growing, an error's words) happens there.
// Skipped:    where RTM does not work, with the library's sentence.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "tests/support/children.h"
#include "tests/support/rtm_table.h"
#include "tests/support/shared.h"

namespace tmh::test {
namespace {

struct Node {
  Node *next = nullptr;
  std::uint64_t value = 0;
};
constexpr int kStacks = 3;
struct Stacks {
  struct alignas(64) Stack {
    Node *top = nullptr;
  } of[kStacks];
};

// A heap segment with stacks of nodes.
struct RtmHeap {
  explicit RtmHeap(const std::string &folder) : domain(Domain::open(folder, hybrid_options())) {
    SegmentOptions heap;
    heap.size_bytes = 1u << 20;
    heap.max_bytes = 16u << 20;
    segment = domain.map("heap", heap);
    stacks = segment.root<Stacks>("stacks");
  }
  [[nodiscard]] Site site() const { return Site(domain, "plain", "on-capacity"); }
  void push(Node **top, std::uint64_t value) const {
    *top = new (segment.allocate(sizeof(Node), alignof(Node))) Node{*top, value};
  }
  void pop(Node **top) const {
    Node *node = *top;
    *top = node->next;
    segment.deallocate(node, sizeof(Node));
  }
  // Of one snapshot.
  struct Count {
    std::uint64_t reachable = 0, blocks = 0;
  };
  [[nodiscard]] Count count() const {
    return query(domain, [&] {
      Count count;
      for (const auto &stack : stacks->of)
        for (const Node *node = stack.top; node != nullptr; node = node->next) ++count.reachable;
      storage::HeapCensus census;
      const Errc error = storage::heap_check(segment.data(), segment.size_bytes(), &census);
      EXPECT_EQ(error, Errc::kOk) << message(error);
      count.blocks = census.small_blocks;
      return count;
    });
  }
  Domain domain;
  Segment segment;
  Stacks *stacks = nullptr;
};

class RtmHeapTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_rtm(); !why.empty()) GTEST_SKIP() << why;
  }
  MemoryFolder folder_;
};

TEST_F(RtmHeapTest, BlocksComeAndGoInHardware) {
  const RtmHeap heap(folder_.path());
  const Site site = heap.site();
  const std::uint64_t others = heap.count().blocks;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    atomically(site, [&] {
      heap.push(&heap.stacks->of[0].top, i);
      if (i % 3 == 2) heap.pop(&heap.stacks->of[0].top);
    });
  }
  const SiteReport report = site.report();
  EXPECT_GT(report.hardware_commits, 0U) << to_text(report);
  EXPECT_EQ(heap.count().reachable, 2000U);
  EXPECT_EQ(heap.count().blocks, others + 2000);
}

TEST_F(RtmHeapTest, WhatAbortedNeverWas) {
  const RtmHeap heap(folder_.path());
  const Site site = heap.site();
  for (int i = 0; i < 100; ++i) atomically(site, [&] { heap.push(&heap.stacks->of[0].top, 1); });
  const std::uint64_t blocks = heap.count().blocks;
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(atomically(site,
                            [&] {
                              heap.push(&heap.stacks->of[0].top, 2);
                              throw std::runtime_error("undone");
                            }),
                 std::runtime_error);
  }
  EXPECT_EQ(heap.count().blocks, blocks);
  EXPECT_EQ(heap.count().reachable, 100U);
}

TEST_F(RtmHeapTest, GrowingGoesToLevelTwo) {
  const RtmHeap heap(folder_.path());
  const Site site = heap.site();
  const std::uint64_t before = heap.segment.size_bytes(), others = heap.count().blocks;
  std::vector<void *> blocks;
  while (heap.segment.size_bytes() == before)
    blocks.push_back(atomically(site, [&] { return heap.segment.allocate(3000); }));
  const SiteReport report = site.report();
  EXPECT_GE(report.page_commits, 1U);
  EXPECT_EQ(report.escalations_needs_pages,
            report.escalations_by_need[static_cast<std::size_t>(Need::kHeapGrowth)]);
  for (void *block : blocks) atomically(site, [&] { heap.segment.deallocate(block, 3000); });
  EXPECT_EQ(heap.count().blocks, others);
}

TEST_F(RtmHeapTest, ErrorsAreToldWithTheirReason) {
  const RtmHeap heap(folder_.path());
  const Site site = heap.site();
  for (int i = 0; i < 10; ++i) atomically(site, [&] { heap.push(&heap.stacks->of[0].top, 1); });
  const auto code_of = [&](const auto &body) {
    try {
      atomically(site, body);
    } catch (const Error &error) {
      return error.code();
    }
    return std::error_code();
  };
  EXPECT_EQ(code_of([&] {
              heap.segment.deallocate(heap.stacks);
              heap.segment.deallocate(heap.stacks);
            }),
            make_error_code(Errc::kBadFree));
  EXPECT_EQ(code_of([&] { (void)heap.segment.allocate(64u << 20); }),
            make_error_code(Errc::kSegmentFull));
  EXPECT_EQ(code_of([&] { (void)heap.segment.allocate(8, 3); }),
            make_error_code(Errc::kBadArgument));
  const SiteReport report = site.report();
  const auto of = [&](Need need) {
    return report.escalations_by_need[static_cast<std::size_t>(need)];
  };
  EXPECT_EQ(report.escalations_needs_pages,
            of(Need::kAllocate) + of(Need::kDeallocate) + of(Need::kHeapGrowth));
  EXPECT_EQ(heap.count().reachable, 10U);
}

TEST_F(RtmHeapTest, KilledProcessesLeaveAWholeHeap) {
  constexpr int kKills = 12;
  const RtmHeap heap(folder_.path());
  const std::uint64_t others = heap.count().blocks;
  struct Rounds {
    std::atomic<std::uint64_t> of[kStacks];
  };
  const Shared<Rounds> rounds;
  Children children;
  const auto worker = [&](std::size_t number) {
    return [&, number] {
      const RtmHeap mine(folder_.path());
      const Site site = mine.site();
      for (std::uint64_t i = 0;; ++i) {
        atomically(site, [&] {
          Node **top = &mine.stacks->of[(number + i / 8) % kStacks].top;
          mine.push(top, i);
          if (i % 8 != 0) mine.pop(top);
        });
        rounds->of[number].fetch_add(1);
      }
    };
  };
  std::vector<std::size_t> running;
  for (std::size_t number = 0; number < kStacks; ++number)
    running.push_back(children.spawn("worker", worker(number)));
  for (int kill = 0; kill < kKills; ++kill) {
    const std::size_t victim = static_cast<std::size_t>(kill) % kStacks;
    const std::uint64_t at = rounds->of[victim].load();
    ASSERT_TRUE(poll_until([&] { return rounds->of[victim].load() > at + 50; }))
        << "hangs after " << kill << " kills";
    children.kill(running[victim], SIGKILL);
    children.bury(running[victim]);
    const RtmHeap::Count now = heap.count();  // while others go on
    EXPECT_EQ(now.blocks, others + now.reachable);
    running[victim] = children.spawn("worker", worker(victim));
  }
  for (const std::size_t child : running) {
    children.kill(child, SIGKILL);
    children.bury(child);
  }
  const RtmHeap::Count end = heap.count();
  EXPECT_EQ(end.blocks, others + end.reachable);
}

}  // namespace
}  // namespace tmh::test
