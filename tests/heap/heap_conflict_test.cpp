// tests/heap/heap_conflict_test.cpp -- which pages the heap reads and writes, since pages are what
// instances conflict on.
// Method:    all pages of a test heap are made inaccessible before an operation; a SIGSEGV handler
//            notes the page, and whether it was read or written, and lets the operation go on: the
//            same way in which level 2 sees it.
// Invariants: (1) a small allocation reads its arena's page and writes its block's page, no more,
// unless a slab begins or fills.
//             (2) participants that only allocate and free their own blocks write no common page
//                 but for the taking of chunks.
//             (3) freeing another participant's block does not touch that participant's arena page.
//             (4) roots are looked up without a write; allocation never touches root pages.
#include <signal.h>

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "storage/heap/heap_arena.h"
#include "tests/support/heap_region.h"

namespace tmh::storage {
namespace {

using test::HeapRegion;
using Pages = std::set<std::uint64_t>;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kPagesTracked = 64 * kMiB / kPageBytes;

// Written by the handler: plain bytes, one thread.
struct Tracker {
  std::byte *base = nullptr;
  std::uint64_t bytes = 0;
  unsigned char touched[kPagesTracked];  // 1: read, 2: written
};
Tracker g_tracker;

// The first fault of a page opens it for reading; when that was not enough, it faults again, and
// then it is a write.
void on_fault(int, siginfo_t *info, void *) {
  auto *address = static_cast<std::byte *>(info->si_addr);
  if (address < g_tracker.base || address >= g_tracker.base + g_tracker.bytes) {
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  const auto page = static_cast<std::size_t>(address - g_tracker.base) / kPageBytes;
  const bool write = g_tracker.touched[page] == 1;
  g_tracker.touched[page] = write ? 2 : 1;
  mprotect(g_tracker.base + page * kPageBytes, kPageBytes,
           write ? PROT_READ | PROT_WRITE : PROT_READ);
}

struct Touched {
  Pages read;  // and not written
  Pages written;
};

class HeapPagesTouched : public testing::Test {
 protected:
  void SetUp() override {
    struct sigaction action {};
    action.sa_sigaction = &on_fault;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
  }
  void TearDown() override { sigaction(SIGSEGV, &before_, nullptr); }

  template <class Operation>
  Touched track(const Operation &operation) {
    g_tracker.base = heap_.base();
    g_tracker.bytes = heap_.size_bytes();
    std::fill(std::begin(g_tracker.touched), std::end(g_tracker.touched),
              static_cast<unsigned char>(0));
    heap_.protect(0, heap_.size_bytes(), PROT_NONE);
    operation();
    heap_.protect(0, heap_.size_bytes(), PROT_READ | PROT_WRITE);
    Touched touched;
    for (std::size_t page = 0; page < kPagesTracked; ++page) {
      if (g_tracker.touched[page] == 1) touched.read.insert(page);
      if (g_tracker.touched[page] == 2) touched.written.insert(page);
    }
    return touched;
  }
  static Pages arena_page(std::uint32_t arena) { return {raw(kFirstArenaPage) + arena}; }
  static bool is_shared_page(std::uint64_t page) { return page < raw(kFirstArenaPage); }

  HeapRegion heap_{64 * kMiB};
  struct sigaction before_ {};
};

TEST_F(HeapPagesTouched, TheMethodSeesReadsAndWrites) {
  auto *bytes = reinterpret_cast<volatile unsigned char *>(heap_.base());
  const Touched touched = track([&] {
    static_cast<void>(bytes[5 * kPageBytes]);
    bytes[7 * kPageBytes] = 1;
    bytes[9 * kPageBytes] = static_cast<unsigned char>(bytes[9 * kPageBytes] + 1);
  });
  EXPECT_EQ(touched.read, Pages{5});
  EXPECT_EQ(touched.written, (Pages{7, 9}));
}

TEST_F(HeapPagesTouched, SmallAllocationReadsTheArenaAndWritesTheBlock) {
  for (const std::size_t bytes : {16UL, 40UL, 100UL, 500UL}) {
    const auto *neighbour = heap_.allocate(bytes, 16, 3);
    void *block = nullptr;
    const Touched touched = track([&] { block = heap_.allocate(bytes, 16, 3); });
    EXPECT_EQ(touched.read, arena_page(3)) << bytes;
    EXPECT_EQ(touched.written, Pages{heap_.page_of(block)}) << bytes;
    EXPECT_EQ(heap_.page_of(block), heap_.page_of(neighbour))
        << "beside what this participant wrote last";
    const Touched freed = track([&] { ASSERT_EQ(heap_.deallocate(block, bytes, 3), Errc::kOk); });
    EXPECT_TRUE(freed.read.empty());
    EXPECT_EQ(freed.written, Pages{heap_.page_of(block)});
  }
}

// Over a whole run of allocations, slabs that begin and fill and chunks that are taken included: on
// average 2 pages.
TEST_F(HeapPagesTouched, TenThousandAllocationsTouchTwoPagesEachOnAverage) {
  std::uint64_t pages = 0;
  for (int i = 0; i < 10'000; ++i) {
    const Touched touched = track([&] { ASSERT_NE(heap_.allocate(48, 16, 1), nullptr); });
    pages += touched.read.size() + touched.written.size();
  }
  EXPECT_LT(pages, 20'100U);
}

TEST_F(HeapPagesTouched, MediumAllocationTouchesTheArenaAndItsHeader) {
  ASSERT_NE(heap_.allocate(9000, 16, 3), nullptr);
  void *block = nullptr;
  const Touched touched = track([&] { block = heap_.allocate(9000, 16, 3); });
  EXPECT_TRUE(touched.read.empty());
  EXPECT_EQ(touched.written, (Pages{*arena_page(3).begin(), heap_.page_of(block)}));
}

// Two participants in turn, each allocating, freeing and allocating again.
TEST_F(HeapPagesTouched, ParticipantsShareNoWrittenPageButForChunks) {
  Pages written[2];
  std::vector<std::pair<void *, std::size_t>> blocks[2];
  std::uint64_t operations = 0;
  std::uint64_t shared_writes = 0;
  for (std::size_t step = 0; step < 6000; ++step) {
    for (std::uint32_t who : {0U, 1U}) {
      const std::size_t bytes = 16 + step * 37 % 400;
      const Touched touched = track([&] {
        if (step % 3 == 2) {
          const auto [block, size] = blocks[who][step * 7 % blocks[who].size()];
          // Else: freed before, and refused.
          if (heap_.deallocate(block, size, who) == Errc::kOk) return;
        }
        blocks[who].emplace_back(heap_.allocate(bytes, 16, who), bytes);
      });
      ++operations;
      const bool shared =
          std::any_of(touched.written.begin(), touched.written.end(), is_shared_page);
      shared_writes += shared ? 1 : 0;
      if (shared) continue;
      written[who].insert(touched.written.begin(), touched.written.end());
      EXPECT_TRUE(std::none_of(touched.read.begin(), touched.read.end(), is_shared_page))
          << "step " << step;
    }
  }
  Pages common;
  std::set_intersection(written[0].begin(), written[0].end(), written[1].begin(), written[1].end(),
                        std::inserter(common, common.end()));
  EXPECT_EQ(common, Pages{});
  EXPECT_EQ(operations, 12'000U);
  EXPECT_LE(shared_writes, 16U) << "chunks of 16, 32, 64 ... pages";
  EXPECT_EQ(heap_.check(), Errc::kOk);
}

TEST_F(HeapPagesTouched, ChunksDoubleUpTo256Pages) {
  std::vector<std::uint64_t> taken;  // slabs begun between two writes of the page map
  std::uint64_t slabs = 0;
  for (int slab = 0; slab < 1500; ++slab) {
    const Touched touched = track([&] { ASSERT_NE(heap_.allocate(4032, 16, 2), nullptr); });
    if (touched.written.count(raw(kMapPage)) != 0 && slab != 0) {
      taken.push_back(slabs);
      slabs = 0;
    }
    ++slabs;
  }
  ASSERT_GE(taken.size(), 7U);
  taken.resize(7);
  EXPECT_EQ(taken, (std::vector<std::uint64_t>{16, 32, 64, 128, 256, 256, 256}));
}

// The other participant's slab is full, partly used, or loses its last block: its arena page stays
// untouched in each case.
TEST_F(HeapPagesTouched, FreeingForAnotherLeavesItsArenaAlone) {
  std::vector<void *> blocks;
  for (int i = 0; i < 300; ++i) blocks.push_back(heap_.allocate(100, 16, 1));
  ASSERT_NE(heap_.allocate(100, 16, 2), nullptr);
  for (void *block : blocks) {
    const Touched touched = track([&] { ASSERT_EQ(heap_.deallocate(block, 100, 2), Errc::kOk); });
    EXPECT_EQ(touched.read.count(*arena_page(1).begin()), 0U);
    EXPECT_EQ(touched.written.count(*arena_page(1).begin()), 0U);
    EXPECT_EQ(touched.written.count(heap_.page_of(block)), 1U);
  }
  EXPECT_EQ(heap_.check(), Errc::kOk);
  // Pages that were full went to participant 2, and serve its next slab.
  Pages freed;
  for (const void *block : blocks) freed.insert(heap_.page_of(block));
  EXPECT_EQ(freed.count(heap_.page_of(heap_.allocate(4032, 16, 2))), 1U);
}

// A producer allocates, a consumer frees: pages must find their way back, or the heap would grow
// for ever.
TEST_F(HeapPagesTouched, ProducerAndConsumerUseBoundedSpace) {
  std::vector<void *> queue;
  std::uint64_t span_bytes_max = 0;
  for (int round = 0; round < 400; ++round) {
    for (int i = 0; i < 500; ++i) {
      queue.push_back(heap_.allocate(200, 16, 1));
      ASSERT_NE(queue.back(), nullptr);
    }
    for (void *block : queue) ASSERT_EQ(heap_.deallocate(block, 200, 2), Errc::kOk);
    queue.clear();
    span_bytes_max = std::max(span_bytes_max, heap_stats(heap_.context()).span_bytes);
  }
  // 100 kB live at a time, a chunk of 1 MiB on each side, the fixed pages; 40 MB went through.
  EXPECT_LT(span_bytes_max, 4 * kMiB);
  EXPECT_EQ(heap_.check(), Errc::kOk);
}

TEST_F(HeapPagesTouched, RootsAreReadOnlyAndApartFromAllocation) {
  ASSERT_NE(heap_.root("first", 8), nullptr);
  const Touched found = track([&] { ASSERT_NE(heap_.root("first", 8), nullptr); });
  EXPECT_TRUE(found.written.empty());
  EXPECT_EQ(found.read.size(), 1U);
  const Touched added = track([&] { ASSERT_NE(heap_.root("second", 8), nullptr); });
  EXPECT_EQ(added.written.size(), 1U);
  EXPECT_LT(*added.written.begin(), raw(kFirstArenaPage));
  const Touched used = track([&] {
    for (const std::size_t bytes : {16UL, 5000UL, 100000UL})
      ASSERT_NE(heap_.allocate(bytes), nullptr);
  });
  for (std::uint32_t chain = 0; chain < kRootChainCount; ++chain) {
    EXPECT_EQ(used.read.count(raw(kFirstRootPage) + chain) +
                  used.written.count(raw(kFirstRootPage) + chain),
              0U);
  }
}

}  // namespace
}  // namespace tmh::storage
