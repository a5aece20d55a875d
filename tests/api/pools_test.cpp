// tests/api/pools_test.cpp -- tmh::pools: what one process sees of them at either level, and who
// shares a list with whom.
// Invariants: (1) what an aborted instance allocated is free, what it freed is not.
//             (2) instances at level 1 stay there: a list is filled by an instance of its own. For
//                 a block of the heap, and when they need more than a list holds, they go to level
//                 2.
//             (3) blocks are aligned to lines, and to what they ask for up to a page, overlap
//                 nothing, and cross no page; other requests are the heap's, and come back to it.
//             (4) who only allocates is fed by who only frees: chunks are as many as live blocks
//                 need.
//             (5) threads, and a forked child and its parent, use different lists. (6) destroyed
//                 pools leave nothing in the heap.
//             (7) a segment, or what the device has room for, is used up before it is full for a
//             block that needs no more than the smallest chunk. (8) between two attempts it may be
//             unmapped.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "platform/disk.h"
#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/pool_blocks.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

// A heap segment with its pools.
struct Pooled {
  explicit Pooled(const std::string &folder, Levels levels = Levels::kHybrid,
                  std::uint64_t max_bytes = 128 * kMiB, Tracking tracking = Tracking::kAuto)
      : domain(Domain::open(folder, options(levels, tracking))) {
    SegmentOptions heap;
    heap.size_bytes = kMiB;
    heap.max_bytes = max_bytes;
    segment = domain.map("heap", heap);
    own = segment.root<pools>("tmh.pools");
  }
  static DomainOptions options(Levels levels, Tracking tracking = Tracking::kAuto) {
    DomainOptions options;
    options.levels = levels;
    options.tracking = tracking;
    options.line = LineChoice::kSoftware;  // whatever TMH_LINE says
    return options;
  }
  [[nodiscard]] Site site(const char *escalation = "on-capacity") const {
    return Site(domain, escalation, escalation);
  }
  // One block, allocated and freed: its list is not empty then.
  void fill(std::size_t bytes) const {
    atomically(domain, [&] { own->deallocate(own->allocate(bytes), bytes); });
  }
  [[nodiscard]] std::uint64_t free_blocks(std::size_t bytes, std::size_t alignment = 64) const {
    return query(domain, [&] { return own->free_blocks(bytes, alignment); });
  }
  [[nodiscard]] std::uint64_t chunks() const {
    return query(domain, [&] { return own->chunks(); });
  }
  [[nodiscard]] storage::HeapCensus census() const {
    return query(domain, [&] {
      storage::HeapCensus counted;
      const Errc error = storage::heap_check(segment.data(), segment.size_bytes(), &counted);
      EXPECT_EQ(error, Errc::kOk) << message(error);
      return counted;
    });
  }
  Domain domain;
  Segment segment;
  pools *own = nullptr;
};

bool operator==(const storage::HeapCensus &a, const storage::HeapCensus &b) {
  return a.small_blocks == b.small_blocks && a.medium_blocks == b.medium_blocks &&
         a.large_runs == b.large_runs;
}

class PoolsTest : public testing::Test {
 protected:
  MemoryFolder folder_;
};

TEST_F(PoolsTest, WhatAnAbortedInstanceAllocatedIsFreeAgain) {
  const Pooled pooled(folder_.path());
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{500}, std::size_t{4096}}) {
    pooled.fill(bytes);
    ASSERT_EQ(pooled.free_blocks(bytes), 1U);
    for (const char *level : {"never", "always"}) {
      const Site site = pooled.site(level);
      EXPECT_THROW(atomically(site,
                              [&](Fields) {
                                (void)pooled.own->allocate(bytes);
                                EXPECT_EQ(pooled.own->free_blocks(bytes), 0U);
                                throw std::runtime_error("undone");
                              }),
                   std::runtime_error);
      EXPECT_EQ(pooled.free_blocks(bytes), 1U) << level;
    }
    const std::uint64_t chunks = pooled.chunks();
    pooled.domain.begin();
    for (int i = 0; i < 2000; ++i) (void)pooled.own->allocate(bytes);  // through several chunks
    pooled.domain.abort();
    EXPECT_EQ(pooled.free_blocks(bytes), 1U);
    EXPECT_EQ(pooled.chunks(), chunks);
  }
}

TEST_F(PoolsTest, WhatAnAbortedInstanceFreedIsNobodyElses) {
  const Pooled pooled(folder_.path());
  void *const block = atomically(pooled.domain, [&] { return pooled.own->allocate(64); });
  for (const char *level : {"never", "always"}) {
    const Site site = pooled.site(level);
    EXPECT_THROW(atomically(site,
                            [&](Fields) {
                              pooled.own->deallocate(block, 64);
                              throw std::runtime_error("undone");
                            }),
                 std::runtime_error);
    EXPECT_EQ(pooled.free_blocks(64), 0U) << level;
    EXPECT_NE(atomically(site, [&](Fields) { return pooled.own->allocate(64); }), block) << level;
  }
}

TEST_F(PoolsTest, ListsAreFilledByInstancesOfTheirOwn) {
  constexpr std::uint64_t kBlocks = 3000;
  const Pooled pooled(folder_.path());
  const Site stays = pooled.site("never");
  std::vector<void *> blocks;
  for (std::uint64_t i = 0; i < kBlocks; ++i)
    blocks.push_back(atomically(stays, [&](Fields) { return pooled.own->allocate(64); }));
  EXPECT_EQ(pooled.chunks(), 2U) << "of 64 and of 128 KiB";
  for (void *block : blocks) atomically(stays, [&](Fields) { pooled.own->deallocate(block, 64); });
  EXPECT_EQ(pooled.free_blocks(64), kBlocks);
  for (std::uint64_t i = 0; i < kBlocks; ++i)
    (void)atomically(stays, [&](Fields) { return pooled.own->allocate(64); });
  EXPECT_EQ(pooled.free_blocks(64), 0U);
  const SiteReport report = stays.report();
  EXPECT_EQ(report.line_commits, 3 * kBlocks);
  EXPECT_EQ(report.page_commits, 0U);
  EXPECT_EQ(report.escalations_needs_pages, 0U);
}

TEST_F(PoolsTest, WhoEmptiesAListInOneInstanceGoesUp) {
  constexpr std::uint64_t kBlocks = 3000;  // three chunks' worth; a list filled anew would not do
  const Pooled pooled(folder_.path());
  const Site site = pooled.site(), stays = pooled.site("never");
  const auto all_at_once = [&] {
    for (std::uint64_t i = 0; i < kBlocks; ++i) (void)pooled.own->allocate(64);
  };
  atomically(site, [&](Fields) { return all_at_once(); });
  const SiteReport report = site.report();
  EXPECT_EQ(report.page_commits, 1U);
  EXPECT_EQ(report.escalations_needs_pages, 1U);
  EXPECT_THROW(atomically(stays, [&](Fields) { return all_at_once(); }), Error);
  EXPECT_EQ(stays.report().line_commits, 0U);
}

// As Domain::unmap() allows: who unmaps has told the bodies before.
TEST_F(PoolsTest, ASegmentThatIsUnmappedBetweenTwoAttemptsIsLeftAlone) {
  const Pooled pooled(folder_.path());
  bool is_mapped = true;
  int attempts = 0;
  const Site site = pooled.site("never");
  atomically(site, [&](Fields) {
    ++attempts;
    if (!is_mapped) return;
    on_abort([&] {
      pooled.domain.unmap(pooled.segment);
      is_mapped = false;
    });
    (void)pooled.own->allocate(64);
  });
  EXPECT_EQ(attempts, 2);
  EXPECT_FALSE(is_mapped);
}

// A field for instances that are to fail.
struct Crossed {
  alignas(64) field<std::uint64_t> read;
  alignas(64) field<std::uint64_t> written;
};

TEST_F(PoolsTest, AnAttemptThatFillsAListFailsNotAndForgetsNoFailure) {
  const Pooled pooled(folder_.path());
  auto *const words = pooled.segment.root<Crossed>("words");
  const Site site = pooled.site("after-n=2"), others = pooled.site("never");
  int attempts = 0;
  atomically(site, [&](Fields) {
    ++attempts;
    words->written = words->read + 1;
    if (attempts == 2) (void)pooled.own->allocate(64);
    if (attempts == 1 || attempts == 3)
      Thread([&] { atomically(others, [&](Fields) { ++words->read; }); }).join();
  });
  EXPECT_EQ(attempts, 4);
  EXPECT_EQ(pooled.chunks(), 1U);
  const SiteReport report = site.report();
  EXPECT_EQ(report.escalations_attempts, 1U);
  EXPECT_EQ(report.page_commits, 1U) << "the third attempt was the second that failed";
}

TEST_F(PoolsTest, BlocksOfEverySizeLieInLinesAndCrossNoPage) {
  struct Block {
    std::uintptr_t address;
    std::size_t bytes;
  };
  const Pooled pooled(folder_.path());
  const Site lines = pooled.site(), pages = pooled.site("always");
  std::vector<Block> blocks;
  const auto is_at_a_border = [](std::size_t bytes) { return (bytes + 1) % 64 <= 2; };
  for (std::size_t bytes = 0; bytes <= pools::kBlockBytesMax; ++bytes) {
    if (!is_at_a_border(bytes)) continue;
    for (const Site *site : {&lines, &pages, &lines})
      blocks.push_back({reinterpret_cast<std::uintptr_t>(
                            atomically(*site, [&](Fields) { return pooled.own->allocate(bytes); })),
                        bytes});
  }
  EXPECT_GT(lines.report().line_commits, 0U);
  std::sort(blocks.begin(), blocks.end(),
            [](const Block &a, const Block &b) { return a.address < b.address; });
  const auto first = reinterpret_cast<std::uintptr_t>(pooled.segment.data());
  std::uintptr_t end = first;
  for (const Block &block : blocks) {
    EXPECT_EQ(block.address % 64, 0U) << block.bytes;
    EXPECT_GE(block.address, end) << block.bytes;
    end = block.address + std::max<std::size_t>(block.bytes, 1);
    EXPECT_EQ(block.address / kPageBytes, (end - 1) / kPageBytes) << block.bytes;
  }
  EXPECT_LE(end, first + pooled.segment.size_bytes());
  for (const Block &block : blocks) {
    const auto free = [&] {
      pooled.own->deallocate(reinterpret_cast<void *>(block.address), block.bytes);
    };
    atomically(block.address % 128 == 0 ? lines : pages, [&](Fields) { return free(); });
  }
  std::uint64_t free = 0;
  for (const std::uint64_t bytes : pool_classes()) free += pooled.free_blocks(bytes);
  EXPECT_EQ(free, blocks.size());
}

TEST_F(PoolsTest, BlocksOfEveryAlignmentUpToAPageAreAllocatedAtLevelOne) {
  const Pooled pooled(folder_.path());
  const Site site = pooled.site("never");
  std::vector<PoolBlock> blocks;
  std::vector<std::size_t> alignments;
  for (std::size_t alignment = 1; alignment <= kPageBytes; alignment *= 2) {
    for (const std::size_t bytes : {1U, 64U, 65U, 128U, 600U, 1024U, 3000U, 4096U}) {
      for (int i = 0; i < 3; ++i) {
        void *const block =
            atomically(site, [&](Fields) { return pooled.own->allocate(bytes, alignment); });
        const auto at = reinterpret_cast<std::uintptr_t>(block);
        EXPECT_EQ(at % alignment, 0U) << bytes << " at " << alignment;
        EXPECT_EQ(at / kPageBytes, (at + bytes - 1) / kPageBytes) << bytes << " at " << alignment;
        blocks.push_back({block, bytes, blocks.size()});
        alignments.push_back(alignment);
      }
    }
  }
  expect_no_overlap(blocks);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    atomically(site, [&](Fields) {
      pooled.own->deallocate(blocks[i].address, blocks[i].bytes, alignments[i]);
    });
  EXPECT_EQ(site.report().page_commits, 0U);
  EXPECT_EQ(pooled.free_blocks(1, 4096), pooled.free_blocks(4096)) << "one class";
  std::uint64_t free = 0;
  for (const std::uint64_t bytes : pool_classes()) free += pooled.free_blocks(bytes);
  EXPECT_EQ(free, blocks.size());
  // what was freed under one alignment is right for every other one of its class
  for (int i = 0; i < 3; ++i) {
    void *const block = atomically(site, [&](Fields) { return pooled.own->allocate(100, 128); });
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 128, 0U);
  }
}

// Most concurrent structures keep nodes so far apart.
struct alignas(128) NodeOfTwoLines {
  field<std::uint64_t> key;
  field<NodeOfTwoLines *> next;
};

TEST_F(PoolsTest, AListOfNodesOfTwoLinesRunsAtLevelOne) {
  constexpr std::uint64_t kNodes = 500;
  const Pooled pooled(folder_.path());
  pool_allocator<NodeOfTwoLines> nodes(pooled.segment);
  auto *const head = pooled.segment.root<field<NodeOfTwoLines *>>("head");
  const Site site = pooled.site();
  for (std::uint64_t i = 0; i < kNodes; ++i)
    atomically(site, [&](Fields) {
      *head = ::new (nodes.allocate(1)) NodeOfTwoLines{i, head->load()};
    });
  const auto visit = [&] {
    return query(site, [&](Fields) {
      std::uint64_t visited = 0;
      for (const NodeOfTwoLines *node = *head; node != nullptr; node = node->next) ++visited;
      return visited;
    });
  };
  EXPECT_EQ(visit(), kNodes);
  for (std::uint64_t i = 0; i < kNodes; ++i)
    atomically(site, [&](Fields) {
      NodeOfTwoLines *const first = *head;
      *head = first->next.load();
      nodes.deallocate(first, 1);
    });
  EXPECT_EQ(visit(), 0U);
  const SiteReport report = site.report();
  EXPECT_EQ(report.page_commits, 0U);
  EXPECT_EQ(report.line_commits, 2 * kNodes + 2);
}

TEST_F(PoolsTest, LargeBlocksAreTheHeaps) {
  const Pooled pooled(folder_.path());
  const Site site = pooled.site();
  pooled.fill(64);
  const storage::HeapCensus before = pooled.census();
  struct Request {
    std::size_t bytes, alignment;
  };
  std::uint64_t instances = 0;
  for (const Request &request :
       {Request{4097, 64}, Request{5000, 128}, Request{100'000, 8}, Request{8192, 4096}}) {
    void *const block = atomically(
        site, [&](Fields) { return pooled.own->allocate(request.bytes, request.alignment); });
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % request.alignment, 0U);
    EXPECT_EQ(pooled.chunks(), 1U);
    EXPECT_FALSE(pooled.census() == before);
    EXPECT_EQ(pooled.free_blocks(request.bytes, request.alignment), 0U) << "no list's";
    atomically(site,
               [&](Fields) { pooled.own->deallocate(block, request.bytes, request.alignment); });
    EXPECT_TRUE(pooled.census() == before);
    instances += 2;
  }
  EXPECT_EQ(site.report().escalations_needs_pages, instances);
  atomically(pooled.domain, [&] {
    pooled.own->deallocate(nullptr, 64);
    pooled.own->deallocate(nullptr, 64'000);
  });
}

// A queue of blocks, from one who allocates to one who frees.
struct Mailbox {
  static constexpr std::uint64_t kPlaces = 64;
  field<std::uint64_t> sent, received;
  field<void *> places[kPlaces];
};
constexpr std::uint64_t kPosted = 4000;

void allocate_only(const Pooled &pooled, Mailbox *mailbox) {
  const Site site = pooled.site();
  for (std::uint64_t i = 0; i < kPosted;) {
    const bool is_sent = atomically(site, [&](Fields) {
      if (mailbox->sent - mailbox->received == Mailbox::kPlaces) return false;
      mailbox->places[mailbox->sent % Mailbox::kPlaces] = pooled.own->allocate(64);
      ++mailbox->sent;
      return true;
    });
    if (is_sent)
      ++i;
    else
      sched_yield();
  }
}
void free_only(const Pooled &pooled, Mailbox *mailbox) {
  const Site site = pooled.site();
  for (std::uint64_t i = 0; i < kPosted;) {
    const bool is_received = atomically(site, [&](Fields) {
      if (mailbox->sent == mailbox->received) return false;
      pooled.own->deallocate(mailbox->places[mailbox->received % Mailbox::kPlaces], 64);
      ++mailbox->received;
      return true;
    });
    if (is_received)
      ++i;
    else
      sched_yield();
  }
}

TEST_F(PoolsTest, AThreadThatOnlyAllocatesIsFedByOneThatOnlyFrees) {
  const Pooled pooled(folder_.path());
  auto *const mailbox = pooled.segment.root<Mailbox>("mailbox");
  {
    Thread frees([&] { free_only(pooled, mailbox); });
    allocate_only(pooled, mailbox);
  }
  EXPECT_EQ(pooled.chunks(), 1U) << "never more than 64 blocks live";
}

TEST_F(PoolsTest, AProcessThatOnlyAllocatesIsFedByOneThatOnlyFrees) {
  Children children;
  for (const bool frees : {false, true}) {
    children.spawn(frees ? "frees" : "allocates", [&, frees] {
      const Pooled pooled(folder_.path());
      auto *const mailbox = pooled.segment.root<Mailbox>("mailbox");
      frees ? free_only(pooled, mailbox) : allocate_only(pooled, mailbox);
    });
  }
  children.expect_success();
  EXPECT_EQ(Pooled(folder_.path()).chunks(), 1U);
}

// A page that level 2 reads is one that level 1 gives up, and where every commit is a conflict.
TEST_F(PoolsTest, WhoIsFedAtLevelTwoLooksForItOnceAndNotForEachBlock) {
  constexpr std::uint64_t kBlocks = 12;
  constexpr std::size_t kBytes = 4096;  // a page each
  const Pooled pooled(folder_.path(), Levels::kPage, 128 * kMiB, Tracking::kSignal);
  std::vector<void *> blocks;
  std::vector<std::uint64_t> pages;  // read for each
  Thread fed([&] {
    pooled.fill(64);  // has its lane now,
    // These have the next ones,
    for (int i = 1; i < 15; ++i) Thread([&] { pooled.fill(64); }).join();
    // and this the last that is looked into.
    Thread([&] {
      for (std::uint64_t i = 0; i < kBlocks; ++i)
        blocks.push_back(atomically(pooled.domain, [&] { return pooled.own->allocate(kBytes); }));
      for (void *block : blocks)
        atomically(pooled.domain, [&] { pooled.own->deallocate(block, kBytes); });
    }).join();
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      const std::uint64_t before = pooled.domain.counters().pages_read;
      const void *const block =
          atomically(pooled.domain, [&] { return pooled.own->allocate(kBytes); });
      EXPECT_NE(std::find(blocks.begin(), blocks.end(), block), blocks.end());
      pages.push_back(pooled.domain.counters().pages_read - before);
    }
  });
  fed.join();
  EXPECT_EQ(pages[0], 17U) << "every lane, and the block";
  for (std::uint64_t i = 1; i < kBlocks; ++i)
    EXPECT_EQ(pages[i], 2U) << "the list and the block, at " << i;
}

// An instance at level 1 is in its middle, with a block, while `other` allocates and commits. True:
// that made it begin again.
bool conflicts_with(const Pooled &pooled, const std::function<void()> &other) {
  const Site site = pooled.site("never");
  int attempts = 0;
  atomically(site, [&](Fields) {
    void *const block = pooled.own->allocate(64);
    if (++attempts == 1) other();
    pooled.own->deallocate(block, 64);
  });
  return attempts > 1;
}
// So that a list has a block of its own.
void allocate_and_free(const Pooled &pooled) {
  atomically(pooled.site("never"),
             [&](Fields) { pooled.own->deallocate(pooled.own->allocate(64), 64); });
}
void leave_blocks_for(const Pooled &pooled, int others) {
  atomically(pooled.domain, [&] {
    std::vector<void *> blocks;
    for (int i = 0; i < 2 * others; ++i) blocks.push_back(pooled.own->allocate(64));
    for (void *block : blocks) pooled.own->deallocate(block, 64);
  });
}

TEST_F(PoolsTest, ThreadsUseDifferentLists) {
  // One of them may have this thread's list, after as many threads as there are lists.
  constexpr int kThreads = 2;
  const Pooled pooled(folder_.path());
  leave_blocks_for(pooled, kThreads);
  int conflicts = 0;
  for (int i = 0; i < kThreads; ++i) {
    std::atomic<int> turn{0};
    Thread other([&] {
      allocate_and_free(pooled);
      turn.store(1);
      EXPECT_TRUE(poll_until([&] { return turn.load() == 2; }));
      allocate_and_free(pooled);
      turn.store(3);
    });
    EXPECT_TRUE(poll_until([&] { return turn.load() == 1; }));
    conflicts += conflicts_with(pooled, [&] {
      turn.store(2);
      EXPECT_TRUE(poll_until([&] { return turn.load() == 3; }));
    });
  }
  EXPECT_LT(conflicts, kThreads);
}

TEST_F(PoolsTest, AForkedChildAndItsParentUseDifferentLists) {
  constexpr std::uint32_t kChildren = 4, kLists = 16;
  const Pooled pooled(folder_.path());
  leave_blocks_for(pooled, kChildren);
  const Shared<Turn> turn;
  Children children;
  std::map<pid_t, std::uint32_t> children_of;  // by what their lists depend on
  for (std::uint32_t i = 0; i < kChildren; ++i) {
    const std::size_t child = children.spawn("child", role(*turn, [&, i] {
                                               turn->await(4 * i + 1);
                                               const Pooled mine(folder_.path());
                                               allocate_and_free(mine);
                                               turn->reach(4 * i + 2);
                                               turn->await(4 * i + 3);
                                               allocate_and_free(mine);
                                               turn->reach(4 * i + 4);
                                             }));
    ++children_of[children.pid(child) % static_cast<pid_t>(kLists)];
  }
  std::uint32_t conflicts = 0, alike = 0;
  for (const auto &[list, count] : children_of) alike = std::max(alike, count);
  for (std::uint32_t i = 0; i < kChildren; ++i) {
    turn->reach(4 * i + 1);
    turn->await(4 * i + 2);
    conflicts += conflicts_with(pooled, [&] {
      turn->reach(4 * i + 3);
      turn->await(4 * i + 4);
    });
  }
  children.expect_success();
  EXPECT_LE(conflicts, alike) << "of " << kChildren
                              << ": only those whose number happens to be the parent's";
}

TEST_F(PoolsTest, DestroyedPoolsLeaveNothingInTheHeap) {
  const Pooled pooled(folder_.path());
  const storage::HeapCensus before = pooled.census();
  auto *const made = atomically(pooled.domain, [&] {
    return new (pooled.segment.allocate(sizeof(pools), alignof(pools)))
        pools(allocator<std::byte>(pooled.segment));
  });
  const auto allocate = [&] {
    const Site site = pooled.site();
    for (std::size_t bytes = 1; bytes <= pools::kBlockBytesMax; bytes += 97) {
      for (int i = 0; i < 20; ++i) {
        atomically(site, [&](Fields) {
          void *const block = made->allocate(bytes);
          if (i % 3 == 0) made->deallocate(block, bytes);
        });
      }
    }
  };
  allocate();
  Thread(allocate).join();  // in another lane
  EXPECT_EQ(query(pooled.domain, [&] { return pooled.own->chunks(); }), 0U);
  EXPECT_GT(query(pooled.domain, [&] { return made->chunks(); }), 40U);
  atomically(pooled.domain, [&] {
    std::destroy_at(made);
    pooled.segment.deallocate(made, sizeof(pools));
  });
  EXPECT_TRUE(pooled.census() == before);
}

TEST_F(PoolsTest, WorkInADomainOfPagesAlone) {
  const Pooled pooled(folder_.path(), Levels::kPage);
  const Site site = pooled.site();
  std::vector<void *> blocks;
  for (int i = 0; i < 500; ++i) {
    blocks.push_back(atomically(site, [&](Fields) { return pooled.own->allocate(200); }));
    blocks.push_back(atomically(pooled.domain, [&] { return pooled.own->allocate(200); }));
  }
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(std::unique(blocks.begin(), blocks.end()), blocks.end());
  for (void *block : blocks) atomically(site, [&](Fields) { pooled.own->deallocate(block, 200); });
  EXPECT_EQ(pooled.free_blocks(200), 1000U);
}

// All that there is, in blocks; the last one can be had again.
void use_up(const Pooled &pooled, std::uint64_t room_bytes, Errc full) {
  const Site site = pooled.site();
  std::vector<void *> blocks;
  const Errc why = code_of([&] {
    for (;;) blocks.push_back(atomically(site, [&](Fields) { return pooled.own->allocate(64); }));
  });
  EXPECT_EQ(why, full);
  EXPECT_GT(blocks.size() * 64, room_bytes * 9 / 10);
  void *const last = blocks.back();
  atomically(site, [&](Fields) { pooled.own->deallocate(last, 64); });
  EXPECT_EQ(atomically(site, [&](Fields) { return pooled.own->allocate(64); }), last);
}

TEST_F(PoolsTest, ASegmentIsUsedUpBeforeItIsFull) {
  use_up(Pooled(folder_.path(), Levels::kHybrid, 4 * kMiB), 4 * kMiB, Errc::kSegmentFull);
}

// As of a file system that has no holes, or a quota.
TEST_F(PoolsTest, ASegmentThatCannotGrowIsUsedUpBeforeTheDiskIsFull) {
  const Pooled pooled(folder_.path());
  platform::set_disk_hook([](const platform::DiskEvent &event) {
    return event.op == platform::DiskOp::kTruncate && event.offset > 4 * kMiB ? ENOSPC : 0;
  });
  use_up(pooled, 4 * kMiB, Errc::kDiskFull);
  platform::set_disk_hook(nullptr);
}

// At either level it is the body that meets the error.
TEST_F(PoolsTest, ABodyMayDoWithoutWhatAFullSegmentRefuses) {
  const Pooled pooled(folder_.path(), Levels::kHybrid, 4 * kMiB);
  auto *const words = pooled.segment.root<Crossed>("words");
  const Site lines = pooled.site("on-capacity"), pages = pooled.site("always"),
             stays = pooled.site("never");
  const auto fill = [&] {
    for (;;) (void)atomically(lines, [&](Fields) { return pooled.own->allocate(64); });
  };
  ASSERT_EQ(code_of(fill), Errc::kSegmentFull);
  std::uint64_t done = 0;
  for (const Site *site : {&lines, &pages}) {
    atomically(*site, [&](Fields) {
      EXPECT_EQ(code_of([&] { (void)pooled.own->allocate(64); }), Errc::kSegmentFull);
      ++words->written;
    });
    EXPECT_EQ(query(pooled.domain, [&] { return words->written.load(); }), ++done);
  }
  EXPECT_EQ(
      code_of([&] { (void)atomically(stays, [&](Fields) { return pooled.own->allocate(64); }); }),
      Errc::kSegmentFull);
}

TEST_F(PoolsTest, ABodyThatSwallowsTheEndOfItsAttemptFindsTheListFilled) {
  const Pooled pooled(folder_.path());
  const Site site = pooled.site("never");
  std::size_t bytes = 64;
  for (const bool waits : {false, true}) {
    void *block = nullptr;
    int attempts = 0;
    atomically(site, [&](Fields) {
      ++attempts;
      try {
        block = pooled.own->allocate(bytes);
      } catch (...) {
        if (waits) retry();
      }
    });
    EXPECT_EQ(attempts, 2);
    EXPECT_NE(block, nullptr);
    bytes += 64;
  }
  EXPECT_EQ(site.report().line_aborts, 0U);
}

TEST_F(PoolsTest, SegmentsThatWillNotDoAreRefused) {
  const Domain domain = Domain::open(folder_.path(), Pooled::options(Levels::kHybrid));
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = kPageBytes;
  SegmentOptions relocatable;
  relocatable.relocatable = true;
  const Segment words = domain.map("words", raw), moves = domain.map("moves", relocatable);
  EXPECT_EQ(code_of([&] { const pool_allocator<std::byte> refused(words); }), Errc::kNotAHeap);
  EXPECT_EQ(code_of([&] { const pool_allocator<std::byte> refused(moves); }), Errc::kBadArgument);
  EXPECT_EQ(code_of([&] { (void)moves.root<pools>("other"); }), Errc::kBadArgument);
  EXPECT_EQ(code_of([&] { const pool_allocator<std::byte> refused{Segment()}; }),
            Errc::kNotInitialized);
  EXPECT_EQ(code_of([&] { const pools refused{allocator<std::byte>(Segment())}; }),
            Errc::kNotMapped);
}

}  // namespace
}  // namespace tmh::test
