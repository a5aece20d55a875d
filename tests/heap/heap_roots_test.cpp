// tests/heap/heap_roots_test.cpp -- named cells of a heap, and its totals.
// Invariants: (1) a name leads to one cell for ever, zero at first; names of every kind and number
//             stay apart.
//             (2) wrong names and other sizes are refused, and nothing changes.
//             (3) totals and census add up to what was allocated.
#include <cstring>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "storage/heap/heap_check.h"
#include "tests/support/heap_region.h"

namespace tmh::storage {
namespace {

using test::HeapRegion;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(HeapRoots, CellIsZeroFirstAndFoundAgain) {
  HeapRegion heap(kHeapBytesMin);
  void **cell = heap.root("index", 40);
  ASSERT_NE(cell, nullptr);
  EXPECT_EQ(*cell, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cell) % alignof(void *), 0U);
  *cell = heap.base() + 12345;
  EXPECT_EQ(heap.root("index", 40), cell);
  EXPECT_EQ(*heap.root("index"), heap.base() + 12345);
  EXPECT_NE(heap.root("index2", 40), cell);
  HeapCensus census;
  EXPECT_EQ(heap.check(&census), Errc::kOk);
  EXPECT_EQ(census.roots, 2U);
}

TEST(HeapRoots, WrongNamesAreRefused) {
  HeapRegion heap(kHeapBytesMin);
  const auto before = heap.snapshot();
  for (const std::string &name : {std::string(), std::string(48, 'x'), std::string(1000, 'x'),
                                  std::string("a\0b", 3), std::string(1, '\0')}) {
    EXPECT_EQ(heap.root(name), nullptr);
    EXPECT_EQ(heap.why, Errc::kBadArgument);
  }
  EXPECT_TRUE(heap.equals(before));
  EXPECT_NE(heap.root(std::string(47, 'x')), nullptr);
  EXPECT_NE(heap.root(std::string(46, 'x')), heap.root(std::string(47, 'x')));
  EXPECT_EQ(heap.check(), Errc::kOk);
}

TEST(HeapRoots, OtherSizeIsAMismatchAndNoSizeIsNoClaim) {
  HeapRegion heap(kHeapBytesMin);
  void **sized = heap.root("sized", 40);
  EXPECT_EQ(heap.root("sized", 48), nullptr);
  EXPECT_EQ(heap.why, Errc::kRootMismatch);
  EXPECT_EQ(heap.root("sized", 0), sized);
  void **plain = heap.root("plain", 0);
  EXPECT_EQ(heap.root("plain", 8), plain);
}

TEST(HeapRoots, ThousandsOfRootsAllStay) {
  HeapRegion heap(kHeapBytesMin, 8 * kMiB);
  std::map<std::string, void **> cells;
  for (int number = 0; number < 3000; ++number) {
    const std::string name = "root " + std::to_string(number);
    void **cell = heap.root(name, 8);
    ASSERT_NE(cell, nullptr);
    *cell = heap.base() + number;
    cells[name] = cell;
  }
  std::set<void **> distinct;
  for (const auto &[name, cell] : cells) {
    EXPECT_EQ(heap.root(name, 8), cell);
    EXPECT_EQ(*cell, heap.base() + std::stoi(name.substr(5)));
    distinct.insert(cell);
  }
  EXPECT_EQ(distinct.size(), cells.size());
  HeapCensus census;
  EXPECT_EQ(heap.check(&census), Errc::kOk);
  EXPECT_EQ(census.roots, 3000U);
}

TEST(HeapRoots, NoRoomForAnotherRootPageIsFull) {
  HeapRegion heap(kHeapBytesMin);
  while (heap.allocate(4032) != nullptr) {
  }
  int added = 0;
  while (heap.root("r" + std::to_string(added)) != nullptr) ++added;
  EXPECT_EQ(heap.why, Errc::kSegmentFull);
  EXPECT_GT(added, 100);
  EXPECT_NE(heap.root("r0"), nullptr) << "those that exist are still found";
  EXPECT_EQ(heap.check(), Errc::kOk);
}

TEST(HeapStatsTest, TotalsAddUp) {
  HeapRegion heap(16 * kMiB);
  for (int i = 0; i < 1000; ++i) ASSERT_NE(heap.allocate(100, 16, 1), nullptr);
  void *large = heap.allocate(kMiB);
  ASSERT_NE(heap.allocate(2 * kMiB), nullptr);
  ASSERT_EQ(heap.deallocate(large), Errc::kOk);
  const HeapStats stats = heap_stats(heap.context());
  EXPECT_EQ(stats.size_bytes, 16 * kMiB);
  EXPECT_EQ(stats.large_bytes, 2 * kMiB);
  EXPECT_EQ(stats.free_bytes, kMiB);
  EXPECT_EQ(stats.span_bytes, stats.large_bytes + stats.reserved_bytes + stats.free_bytes);
  EXPECT_GT(stats.arena_idle_bytes, 0U);
  EXPECT_LT(stats.arena_idle_bytes, stats.reserved_bytes);
  HeapCensus census;
  ASSERT_EQ(heap.check(&census), Errc::kOk);
  EXPECT_EQ(census.small_blocks, 1000U);
  EXPECT_EQ(census.small_bytes, 112'000U);
  EXPECT_EQ(census.large_bytes, 2 * kMiB);
}

}  // namespace
}  // namespace tmh::storage
