// tests/heap/heap_test.cpp -- the heap of a segment, function by function, without an engine.
// Invariants: (1) every Errc of heap.h appears for the cause that it names, and then nothing was
//             changed.
//             (2) blocks are aligned, disjoint and inside; freed memory is used again; a full heap
//                 frees and recovers.
// Elsewhere:  pages touched heap_conflict_test.cpp, roots heap_roots_test.cpp, models
//             heap_property_test.cpp, hostile bytes heap_hostile_test.cpp.
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "storage/heap/heap_arena.h"
#include "storage/heap/heap_check.h"
#include "tests/support/heap_region.h"

namespace tmh::storage {
namespace {

using test::HeapRegion;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// --- format and verify ---

TEST(HeapFormat, EmptyHeapIsRightAndTouchesFourPages) {
  HeapRegion heap(kHeapBytesMin);
  ASSERT_EQ(heap.format_error, Errc::kOk);
  EXPECT_TRUE(heap_is_formatted(heap.base()));
  EXPECT_EQ(heap_verify(heap.base(), heap.size_bytes()), Errc::kOk);
  HeapCensus census;
  EXPECT_EQ(heap.check(&census), Errc::kOk);
  EXPECT_EQ(census.small_blocks + census.medium_blocks + census.large_runs + census.roots, 0U);
  std::set<std::uint64_t> written;
  for (std::uint64_t at = 0; at < heap.size_bytes(); ++at) {
    if (heap.base()[at] != std::byte{0}) written.insert(at / kPageBytes);
  }
  EXPECT_EQ(written, (std::set<std::uint64_t>{0, 1, 2, 3}));
}

// The first bytes of every heap of version 1, so that a change of layout cannot pass unseen.
TEST(HeapFormat, HeaderBytesAreFrozen) {
  HeapRegion heap(kHeapBytesMin);
  const unsigned char golden[] = {
      'T', 'M', 'H', 'H', 'E', 'A', 'P', '1',  // magic
      1,   0,   0,   0,   128, 0,   0,   0,    // version, header_bytes
      0,   0,   0,   0,   0,   0,   0,   0,    // features
      0,   16,  0,   0,   0,   64,  0,   0,    // page_bytes, zone_pages
      64,  0,   0,   0,   12,  0,   0,   0,    // arenas
      8,   0,   0,   0,   4,   0,   0,   0,    // root chains
      76,  0,   0,   0,   25,  0,   0,   0,    // first_run_page, class_count
  };
  EXPECT_EQ(std::memcmp(heap.base(), golden, sizeof golden), 0);
  EXPECT_EQ(heap.at<HeaderV1>(HeapPage{0}).checksum, 0xd0a8'0465'f4e5'0bb3U);
  EXPECT_EQ(std::memcmp(heap.base() + kPageBytes, "TMHPMAP1", 8), 0);
}

TEST(HeapFormat, WrongSizesAreRefused) {
  HeapRegion heap(kHeapBytesMin);
  EXPECT_EQ(heap_format(heap.base(), kHeapBytesMin + 1), Errc::kMisalignedLength);
  EXPECT_EQ(heap_format(heap.base(), kHeapBytesMin - kPageBytes), Errc::kBadArgument);
  EXPECT_EQ(heap_format(heap.base(), 0), Errc::kBadArgument);
  EXPECT_EQ(heap_format(heap.base(), (kHeapPagesMax + 1) * kPageBytes), Errc::kBadArgument);
  EXPECT_EQ(heap_format(nullptr, kHeapBytesMin), Errc::kBadArgument);
}

// Each wrong field alone, with the checksum made right again, has its own Errc.
TEST(HeapVerify, EachFieldHasItsOwnError) {
  HeapRegion heap(kHeapBytesMin);
  auto &header = heap.at<HeaderV1>(HeapPage{0});
  const HeaderV1 right = header;
  const auto expect = [&](Errc error, auto change) {
    header = right;
    change();
    EXPECT_EQ(heap_verify(heap.base(), heap.size_bytes()), error);
    EXPECT_EQ(heap.check(), error);
    header = right;
  };
  expect(Errc::kNotAHeap, [&] { header.magic ^= 1; });
  expect(Errc::kForeignVersion, [&] { header.format_version = 2; });
  expect(Errc::kUnsupportedFeature, [&] { header.features_incompat = 4; });
  expect(Errc::kUnsupportedFeature, [&] { header.features_ro_compat = 1; });
  expect(Errc::kSegmentMismatch, [&] { header.header_bytes = 64; });
  expect(Errc::kSegmentMismatch, [&] { header.page_bytes = 8192; });
  expect(Errc::kSegmentMismatch, [&] { header.zone_pages = 1; });
  expect(Errc::kSegmentMismatch, [&] { header.arena_count = 65; });
  expect(Errc::kSegmentMismatch, [&] { header.first_arena_page = 13; });
  expect(Errc::kSegmentMismatch, [&] { header.root_chain_count = 7; });
  expect(Errc::kSegmentMismatch, [&] { header.first_root_page = 5; });
  expect(Errc::kSegmentMismatch, [&] { header.first_run_page = 0; });
  expect(Errc::kSegmentMismatch, [&] { header.class_count = 24; });
  expect(Errc::kBadArgument, [&] { header.reserved_zero[13] = 1; });
  expect(Errc::kCorrupt, [&] { header.checksum ^= 1; });
  expect(Errc::kOk, [] {});
}

TEST(HeapVerify, HeapIsBoundToOneAddress) {
  HeapRegion heap(kHeapBytesMin);
  ASSERT_EQ(heap_bind_address(heap.base(), 0x2000'0000'0000), Errc::kOk);
  EXPECT_EQ(heap.check(), Errc::kOk);
  const auto before = heap.snapshot();
  EXPECT_EQ(heap_bind_address(heap.base(), 0x2000'0000'0000), Errc::kOk);
  EXPECT_EQ(heap_bind_address(heap.base(), 0x2000'0000'1000), Errc::kSegmentMismatch);
  EXPECT_TRUE(heap.equals(before));
  heap.at<HeaderV1>(HeapPage{0}).view_address ^= 1;
  EXPECT_EQ(heap_verify(heap.base(), heap.size_bytes()), Errc::kCorrupt)
      << "the checksum covers it";
}

TEST(HeapVerify, ZerosAndOtherFilesAreNoHeap) {
  std::array<std::byte, sizeof(HeaderV1)> bytes{};
  EXPECT_EQ(heap_verify(bytes.data(), bytes.size()), Errc::kNotAHeap);
  EXPECT_FALSE(heap_is_formatted(bytes.data()));
  std::memcpy(bytes.data(),
              "\x7f"
              "ELF",
              4);
  EXPECT_EQ(heap_verify(bytes.data(), bytes.size()), Errc::kNotAHeap);
}

// The usable bytes are moved against the guard page, so that one byte read too far is a crash.
TEST(HeapVerify, ShortFilesAreRefusedWithoutReadingBeyondThem) {
  HeapRegion heap(kHeapBytesMin);
  const auto image = heap.snapshot();
  const std::uint64_t whole = heap.size_bytes();
  for (std::uint64_t bytes = 0; bytes < 3 * kPageBytes; bytes += bytes < 256 ? 1 : 61) {
    std::byte *tail = heap.base() + whole - bytes;
    std::memcpy(tail, image.data(), bytes);
    EXPECT_EQ(heap_verify(tail, bytes), Errc::kShortFile) << bytes;
    EXPECT_EQ(heap_check(tail, bytes), Errc::kShortFile) << bytes;
  }
}

TEST(HeapVerify, FileShorterThanItsPageMapIsFoundByCheck) {
  HeapRegion heap(4 * kMiB);
  ASSERT_NE(heap.allocate(3 * kMiB), nullptr);
  EXPECT_EQ(heap_verify(heap.base(), kMiB), Errc::kOk);
  EXPECT_EQ(heap_check(heap.base(), kMiB), Errc::kShortFile);
}

// --- allocation ---

TEST(HeapAllocate, EverySizeAndAlignmentIsAlignedDisjointAndInside) {
  HeapRegion heap(2 * kMiB, kGiB);
  std::map<std::byte *, std::size_t> blocks;
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 0; bytes <= 5000; bytes += bytes < 600 ? 1 : 37) sizes.push_back(bytes);
  for (const std::size_t bytes :
       {4032UL, 4033UL, 8128UL, 8129UL, 32767UL, 32768UL, 32769UL, 65536UL, 1'000'001UL})
    sizes.push_back(bytes);
  for (std::size_t alignment = 1; alignment <= kPageBytes; alignment *= 2) {
    for (const std::size_t bytes : sizes) {
      auto *block = static_cast<std::byte *>(heap.allocate(bytes, alignment));
      ASSERT_NE(block, nullptr) << bytes << " at " << alignment << ": " << message(heap.why);
      EXPECT_EQ(static_cast<std::size_t>(block - heap.base()) % alignment, 0U)
          << bytes << " at " << alignment;
      EXPECT_GE(heap.page_of(block), raw(kFirstRunPage));
      ASSERT_LE(block - heap.base() + static_cast<std::ptrdiff_t>(bytes),
                static_cast<std::ptrdiff_t>(heap.size_bytes()));
      blocks[block] = bytes;
    }
  }
  EXPECT_EQ(heap.check(), Errc::kOk);
  std::byte *end = nullptr;
  for (const auto &[block, bytes] : blocks) {
    ASSERT_GE(block, end);
    end = block + bytes;
    // Writing all of every block must leave the heap's own bytes alone.
    std::memset(block, 0xa5, bytes);
  }
  EXPECT_EQ(heap.check(), Errc::kOk);
  for (const auto &[block, bytes] : blocks)
    ASSERT_EQ(heap.deallocate(block, bytes), Errc::kOk) << bytes;
  HeapCensus census;
  EXPECT_EQ(heap.check(&census), Errc::kOk);
  EXPECT_EQ(census.small_blocks + census.medium_blocks + census.large_runs, 0U);
}

TEST(HeapAllocate, AllocatesAtLeast16ByteAlignmentForEverySize) {
  HeapRegion heap(2 * kMiB);
  for (std::size_t bytes = 1; bytes < 500; ++bytes) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(heap.allocate(bytes, 1)) % 16, 0U) << bytes;
  }
}

TEST(HeapAllocate, BadAlignmentsAndImpossibleSizesAreRefused) {
  HeapRegion heap(kHeapBytesMin);
  const auto before = heap.snapshot();
  for (const std::size_t alignment :
       {std::size_t{0}, std::size_t{3}, std::size_t{24}, 2 * kPageBytes, ~std::size_t{0}}) {
    EXPECT_EQ(heap.allocate(64, alignment), nullptr);
    EXPECT_EQ(heap.why, Errc::kBadArgument) << alignment;
  }
  for (const std::size_t bytes :
       {~std::size_t{0}, ~std::size_t{0} - 4095, std::size_t{1} << 63, (std::size_t{1} << 40) + 1,
        std::size_t{1} << 40, std::size_t{2 * kMiB}}) {
    EXPECT_EQ(heap.allocate(bytes), nullptr);
    EXPECT_EQ(heap.why, Errc::kSegmentFull) << bytes;
  }
  EXPECT_TRUE(heap.equals(before));
}

TEST(HeapAllocate, AnyArenaNumberWillDo) {
  HeapRegion heap(4 * kMiB);
  for (const std::uint32_t arena : {0U, 1U, 63U, 64U, 1'000'000'007U, ~0U}) {
    void *block = heap.allocate(100, 16, arena);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(heap.deallocate(block, 100, arena), Errc::kOk);
  }
  EXPECT_EQ(heap.check(), Errc::kOk);
}

TEST(HeapAllocate, FreedBlocksAreUsedAgain) {
  HeapRegion heap(4 * kMiB);
  for (const std::size_t bytes :
       {16UL, 100UL, 2000UL, 4032UL, 5000UL, 32768UL, 40000UL, 500000UL}) {
    void *first = heap.allocate(bytes);
    ASSERT_EQ(heap.deallocate(first, bytes), Errc::kOk);
    EXPECT_EQ(heap.allocate(bytes), first) << bytes;
    ASSERT_EQ(heap.deallocate(first, bytes), Errc::kOk);
  }
}

// Slabs leave their arena's list when they become empty: from its middle, beside the gap, from its
// head and its end.
TEST(HeapAllocate, SlabsLeaveTheListFromEveryPlace) {
  for (const std::array<std::size_t, 5> &order : {std::array<std::size_t, 5>{2, 1, 3, 0, 4},
                                                  {2, 3, 1, 4, 0},
                                                  {1, 2, 3, 4, 0},
                                                  {3, 2, 1, 0, 4},
                                                  {0, 4, 2, 1, 3}}) {
    HeapRegion heap(2 * kMiB);
    std::array<std::array<void *, 4>, 5> slabs{};
    for (auto &slab : slabs) {
      for (void *&block : slab) block = heap.allocate(1000);  // four fill a slab
    }
    // All five in the list.
    for (auto &slab : slabs) ASSERT_EQ(heap.deallocate(slab[0]), Errc::kOk);
    for (const std::size_t which : order) {
      for (std::size_t block = 1; block < 4; ++block)
        ASSERT_EQ(heap.deallocate(slabs[which][block]), Errc::kOk);
      ASSERT_EQ(heap.check(), Errc::kOk);
    }
    HeapCensus census;
    ASSERT_EQ(heap.check(&census), Errc::kOk);
    EXPECT_EQ(census.slabs, 1U) << "the last of its class stays";
  }
}

// --- wrong frees ---

// Frees that must be refused, and must leave every byte of the heap as it was.
class HeapBadFree : public testing::Test {
 protected:
  void refuse(void *pointer, std::size_t bytes = 0, Errc error = Errc::kBadFree) {
    const auto before = heap_.snapshot();
    EXPECT_EQ(heap_.deallocate(pointer, bytes), error);
    EXPECT_TRUE(heap_.equals(before));
  }
  HeapRegion heap_{4 * kMiB};
};

TEST_F(HeapBadFree, DoubleFreeIsFoundForEverySize) {
  for (const std::size_t bytes :
       {1UL, 16UL, 48UL, 1000UL, 2016UL, 4032UL, 4033UL, 20000UL, 32768UL, 32769UL, 300000UL}) {
    auto *keeper = heap_.allocate(bytes);  // so that the slab or run's neighbourhood stays in use
    auto *block = heap_.allocate(bytes);
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(heap_.deallocate(block, bytes), Errc::kOk);
    refuse(block, bytes);
    refuse(block);
    ASSERT_EQ(heap_.deallocate(keeper, bytes), Errc::kOk);
    refuse(keeper);
    refuse(block);
  }
  EXPECT_EQ(heap_.check(), Errc::kOk);
}

TEST_F(HeapBadFree, ForeignPointersAreRefused) {
  std::uint64_t outside = 0;
  refuse(&outside);
  refuse(heap_.base() - 1);
  refuse(heap_.base() - kPageBytes);
  refuse(heap_.base() + heap_.size_bytes());
  refuse(heap_.base() + heap_.size_bytes() + 100 * kPageBytes);
  refuse(reinterpret_cast<void *>(std::uintptr_t{1}));
  refuse(reinterpret_cast<void *>(~std::uintptr_t{0}));
  for (std::uint32_t page = 0; page < raw(kFirstRunPage); ++page) {
    refuse(heap_.base() + page * kPageBytes);
    refuse(heap_.base() + page * kPageBytes + 64);
  }
  refuse(heap_.base() + (raw(kFirstRunPage) + 3) * kPageBytes);  // free pages
  refuse(heap_.base() + (raw(kFirstRunPage) + 3) * kPageBytes + 64);
}

TEST_F(HeapBadFree, PointersIntoBlocksAreRefused) {
  for (const std::size_t bytes : {16UL, 48UL, 1000UL, 4032UL, 5000UL, 32768UL, 32769UL, 100000UL}) {
    auto *block = static_cast<std::byte *>(heap_.allocate(bytes));
    std::memset(block, 0xff, bytes);
    for (const std::size_t inside : {std::size_t{1}, std::size_t{8}, bytes / 2, bytes - 1})
      refuse(block + inside);
    if (bytes > kPageBytes) {
      refuse(block + kPageBytes);
      // The next page's first byte.
      refuse(block - std::size_t(block - heap_.base()) % kPageBytes + kPageBytes);
    }
    // The header.
    if (bytes <= kMediumBytesMax)
      refuse(block - std::size_t(block - heap_.base()) % kPageBytes + 16);
    ASSERT_EQ(heap_.deallocate(block), Errc::kOk) << bytes;
  }
}

TEST_F(HeapBadFree, SizesThatCannotBeRightAreRefused) {
  auto *small = heap_.allocate(48);
  refuse(small, 49);
  refuse(small, ~std::size_t{0});
  auto *medium = heap_.allocate(5000);
  refuse(medium, 48);
  refuse(medium, 5001);
  refuse(medium, 10000);
  refuse(medium, ~std::size_t{0});
  auto *large = heap_.allocate(40000);
  refuse(large, 20000);
  refuse(large, 40961);
  refuse(large, ~std::size_t{0});
  EXPECT_EQ(heap_.deallocate(small, 48), Errc::kOk);
  EXPECT_EQ(heap_.deallocate(medium, 5000), Errc::kOk);
  EXPECT_EQ(heap_.deallocate(large, 40000), Errc::kOk);
}

TEST_F(HeapBadFree, NullIsIgnored) { refuse(nullptr, 0, Errc::kOk); }

// A page that was a slab may become the inside of a large block that keeps its old bytes.
TEST_F(HeapBadFree, OldHeadersInsideALargeBlockAreNone) {
  std::vector<std::byte *> blocks;
  while (auto *block = static_cast<std::byte *>(heap_.allocate(1000))) blocks.push_back(block);
  for (auto *block : blocks) ASSERT_EQ(heap_.deallocate(block), Errc::kOk);
  auto *large = heap_.allocate(2 * kMiB);  // full: takes the slabs' pages
  ASSERT_NE(large, nullptr);
  for (std::uint64_t page = heap_.page_of(large);
       page < heap_.page_of(large) + 2 * kMiB / kPageBytes; ++page) {
    EXPECT_NE(heap_.at<RunHeaderV1>(HeapPage{static_cast<std::uint32_t>(page)}).magic,
              kRunMagic + page);
  }
  for (std::size_t i = 0; i < blocks.size(); i += 41)
    refuse(blocks[i]);  // 41: shares no factor with 4, so every place in a page comes up
}

// --- full heaps ---

class HeapFull : public testing::TestWithParam<std::size_t> {};

TEST_P(HeapFull, FreesWhenFullAndGivesEverythingBack) {
  const std::size_t bytes = GetParam();
  HeapRegion heap(2 * kMiB);
  const std::uint64_t usable = heap.size_bytes() - raw(kFirstRunPage) * kPageBytes;
  // What whole pages allow; runs of several pages leave some unused at the ends of chunks.
  const std::uint64_t possible =
      usable / kPageBytes * std::max<std::uint64_t>(1, 4032 / bytes) /
      ((bytes + (bytes > 4032 && bytes <= kMediumBytesMax ? 64 : 0) + kPageBytes - 1) / kPageBytes);
  for (int round = 0; round < 3; ++round) {
    std::vector<void *> blocks;
    while (void *block = heap.allocate(bytes, 16, static_cast<std::uint32_t>(blocks.size() % 3)))
      blocks.push_back(block);
    EXPECT_EQ(heap.why, Errc::kSegmentFull);
    ASSERT_EQ(heap.check(), Errc::kOk);
    EXPECT_LE(blocks.size(), possible);
    EXPECT_GE(blocks.size(), possible * 17 / 20);
    // One block more after one block less, in the full heap.
    ASSERT_EQ(heap.deallocate(blocks.back(), bytes, 1), Errc::kOk);
    blocks.back() = heap.allocate(bytes, 16, 2);
    ASSERT_NE(blocks.back(), nullptr);
    for (void *block : blocks) ASSERT_EQ(heap.deallocate(block, bytes, 3), Errc::kOk);
    ASSERT_EQ(heap.check(), Errc::kOk);
    void *everything = heap.allocate(usable, 16, 5);
    ASSERT_NE(everything, nullptr) << "small pieces must become one run again";
    EXPECT_EQ(heap.allocate(1), nullptr);
    ASSERT_EQ(heap.deallocate(everything, usable, 6), Errc::kOk);
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, HeapFull,
                         testing::Values(16, 100, 1008, 2048, 4032, 4096, 12000, 32768, 32769,
                                         100000));

TEST(HeapFullUse, SmallBlocksFillAlmostAllOfIt) {
  HeapRegion heap(4 * kMiB);
  std::uint64_t bytes = 0;
  while (heap.allocate(64) != nullptr) bytes += 64;
  // 64 bytes of 4096 are each slab's header; the fixed pages are not available.
  const std::uint64_t possible = (heap.page_count() - raw(kFirstRunPage)) * (kPageBytes - 64);
  EXPECT_EQ(bytes, possible);
}

// --- large runs ---

TEST(HeapLarge, FirstFitAndCoalescing) {
  HeapRegion heap(8 * kMiB);
  std::array<void *, 5> run{};
  for (auto &r : run) r = heap.allocate(10 * kPageBytes, kPageBytes);
  ASSERT_EQ(heap.deallocate(run[1]), Errc::kOk);
  ASSERT_EQ(heap.deallocate(run[3]), Errc::kOk);
  EXPECT_EQ(heap.allocate(10 * kPageBytes, kPageBytes), run[1]) << "the first hole that fits";
  ASSERT_EQ(heap.deallocate(run[1]), Errc::kOk);
  ASSERT_EQ(heap.deallocate(run[2]), Errc::kOk);
  EXPECT_EQ(heap.allocate(30 * kPageBytes, kPageBytes), run[1]) << "three holes that became one";
  ASSERT_EQ(heap.deallocate(run[4]), Errc::kOk);
  ASSERT_EQ(heap.deallocate(run[1]), Errc::kOk);
  ASSERT_EQ(heap.deallocate(run[0]), Errc::kOk);
  const HeapStats stats = heap_stats(heap.context());
  EXPECT_EQ(stats.span_bytes, raw(kFirstRunPage) * kPageBytes) << "the end is free again";
  EXPECT_EQ(stats.large_bytes + stats.free_bytes, 0U);
  EXPECT_EQ(heap.check(), Errc::kOk);
}

// 64 MiB of pages per leaf, 16 GiB per directory: runs that begin, end or lie across both bounds.
// Only the map is touched.
TEST(HeapLarge, RunsCrossZonesAndDirectories) {
  HeapRegion heap(40 * kGiB);
  ASSERT_EQ(heap.format_error, Errc::kOk);
  void *a = heap.allocate(100 * kMiB);
  void *b = heap.allocate(17 * kGiB);
  void *c = heap.allocate(40);
  void *d = heap.allocate(16 * kGiB);
  ASSERT_TRUE(a != nullptr && b != nullptr && c != nullptr && d != nullptr);
  EXPECT_EQ(heap.check(), Errc::kOk);
  EXPECT_EQ(heap.allocate(10 * kGiB), nullptr);
  ASSERT_EQ(heap.deallocate(b, 17 * kGiB), Errc::kOk);
  EXPECT_EQ(heap.check(), Errc::kOk);
  void *e = heap.allocate(17 * kGiB - kPageBytes);
  EXPECT_EQ(e, b);
  void *f = heap.allocate(32769);  // does not fit the page between e and c
  EXPECT_NE(f, nullptr);
  for (void *run : {a, d, e, f}) ASSERT_EQ(heap.deallocate(run), Errc::kOk);
  EXPECT_EQ(heap.check(), Errc::kOk);
  // After the leaves' pages only: they stay where they were put.
  EXPECT_NE(heap.allocate(20 * kGiB), nullptr);
  EXPECT_EQ(heap.check(), Errc::kOk);
}

// The last runs go in both orders, so that the free end reaches back into the zone before.
TEST(HeapLarge, FreeEndReachesBackOverAZone) {
  HeapRegion heap(kGiB);
  void *first = heap.allocate(60 * kMiB);
  void *across = heap.allocate(20 * kMiB);  // from the first zone into the second
  void *last = heap.allocate(10 * kMiB);
  ASSERT_EQ(heap.deallocate(across), Errc::kOk);
  ASSERT_EQ(heap.check(), Errc::kOk);
  ASSERT_EQ(heap.deallocate(last), Errc::kOk);
  EXPECT_EQ(heap.check(), Errc::kOk);
  EXPECT_LT(heap_stats(heap.context()).span_bytes, 62 * kMiB);
  ASSERT_EQ(heap.deallocate(first), Errc::kOk);
  EXPECT_EQ(heap.check(), Errc::kOk);
}

// A leaf may come to lie where users' bytes were.
TEST(HeapLarge, TablesOnUsedPagesBeginEmpty) {
  HeapRegion heap(kGiB);
  void *run = heap.allocate(40 * kMiB);
  std::memset(run, 0xff, 4 * kPageBytes);
  ASSERT_EQ(heap.deallocate(run), Errc::kOk);
  ASSERT_NE(heap.allocate(70 * kMiB), nullptr);  // needs the second zone's leaf
  EXPECT_EQ(heap.check(), Errc::kOk);
  ASSERT_NE(heap.allocate(100), nullptr);
  EXPECT_EQ(heap.check(), Errc::kOk);
}

// --- growth ---

TEST(HeapGrow, GrowsInStepsUpToTheMaximum) {
  HeapRegion heap(kMiB, 64 * kMiB);
  std::vector<void *> blocks;
  while (void *block = heap.allocate(1000)) blocks.push_back(block);
  EXPECT_EQ(heap.why, Errc::kSegmentFull);
  EXPECT_EQ(heap.size_bytes(), 64 * kMiB);
  EXPECT_LT(heap.grow_calls.size(), 24U) << "geometric, not page by page";
  EXPECT_EQ(heap.check(), Errc::kOk);
  for (void *block : blocks) ASSERT_EQ(heap.deallocate(block, 1000), Errc::kOk);
  EXPECT_EQ(heap.check(), Errc::kOk);
}

TEST(HeapGrow, OneRequestGrowsByWhatItNeeds) {
  HeapRegion heap(kMiB, 256 * kMiB);
  ASSERT_NE(heap.allocate(200 * kMiB), nullptr);
  EXPECT_EQ(heap.grow_calls.size(), 1U);
  EXPECT_EQ(heap.allocate(100 * kMiB), nullptr);
  EXPECT_EQ(heap.why, Errc::kSegmentFull);
  EXPECT_EQ(heap.grow_calls.size(), 1U) << "beyond the maximum it does not even ask";
}

TEST(HeapGrow, FullDeviceIsTriedWithLessAndThenReported) {
  HeapRegion heap(kMiB, 256 * kMiB);
  heap.grow_error = Errc::kDiskFull;
  heap.grow_bytes_max = 17 * kMiB;
  ASSERT_NE(heap.allocate(16 * kMiB - 512 * 1024), nullptr) << "as much as is needed fits";
  ASSERT_EQ(heap.check(), Errc::kOk);
  const auto before = heap.snapshot();
  EXPECT_EQ(heap.allocate(4 * kMiB), nullptr);
  EXPECT_EQ(heap.why, Errc::kDiskFull);
  EXPECT_TRUE(heap.equals(before));
}

TEST(HeapGrow, OtherErrorsAreHandedOnAndNothingChanges) {
  for (const Errc error : {Errc::kIo, Errc::kOutOfMemory, Errc::kSegmentFull}) {
    HeapRegion heap(kMiB, 256 * kMiB);
    heap.grow_error = error;
    heap.grow_bytes_max = 0;
    const auto before = heap.snapshot();
    EXPECT_EQ(heap.allocate(4 * kMiB), nullptr);
    EXPECT_EQ(heap.why, error);
    EXPECT_TRUE(heap.equals(before));
  }
}

TEST(HeapGrow, FailureWithoutAReasonIsAnError) {
  HeapRegion heap(kMiB, 256 * kMiB);
  heap.grow_error = Errc::kOk;
  heap.grow_bytes_max = 0;
  EXPECT_EQ(heap.allocate(4 * kMiB), nullptr);
  EXPECT_EQ(heap.why, Errc::kIo);
}

// The last megabyte goes to a heap that may not grow by whole chunks any more.
TEST(HeapGrow, LastPagesBelowAnOddMaximumAreUsed) {
  HeapRegion heap(kMiB, kMiB + 3 * kPageBytes);
  std::uint64_t slabs = 0;
  while (heap.allocate(4032) != nullptr) ++slabs;
  EXPECT_EQ(heap.size_bytes(), kMiB + 3 * kPageBytes);
  EXPECT_EQ(slabs, heap.page_count() - raw(kFirstRunPage));
  EXPECT_EQ(heap.check(), Errc::kOk);
}

}  // namespace
}  // namespace tmh::storage
