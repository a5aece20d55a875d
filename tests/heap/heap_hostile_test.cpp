// tests/heap/heap_hostile_test.cpp -- damaged heaps: every byte of the heap's own flipped, files
// cut, garbage.
// Invariants: (1) heap_check() finds every changed byte of the heap's own structs, but for what it
//             says it cannot know.
//             (2) no function crashes, leaves the mapping (guard pages) or runs for ever, whatever
//                 the bytes are.
//             (3) heap_check() writes nothing: it runs on a write-protected heap.
#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "storage/heap/heap_arena.h"
#include "storage/heap/heap_check.h"
#include "tests/support/heap_region.h"
#include "tests/support/seed.h"

namespace tmh::storage {
namespace {

using test::HeapRegion;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// A heap with something of everything: three arenas with full, partial and empty slabs, cached and
// medium runs, rests of chunks, large runs with holes between, roots in a fixed and an added page.
class HostileHeap : public testing::Test {
 protected:
  void SetUp() override {
    std::mt19937_64 random(1);  // always the same heap: the seed belongs to the damage
    for (int step = 0; step < 2500; ++step) {
      const auto arena = static_cast<std::uint32_t>(random() % 3);
      if (step % 5 < 3 || blocks_.empty()) {
        static constexpr std::size_t kSizes[] = {16,   16,   40,   100,   700,
                                                 1500, 4000, 6000, 20000, 40000};
        void *block = heap_.allocate(kSizes[random() % 10], 16, arena);
        if (block != nullptr) blocks_.push_back(block);
      } else {
        std::swap(blocks_[random() % blocks_.size()], blocks_.back());
        ASSERT_EQ(heap_.deallocate(blocks_.back(), 0, arena), Errc::kOk);
        blocks_.pop_back();
      }
    }
    for (int number = 0; number < 560; ++number)
      ASSERT_NE(heap_.root("root " + std::to_string(number), 8), nullptr);
    HeapCensus census;
    ASSERT_EQ(heap_.check(&census), Errc::kOk);
    ASSERT_GT(census.small_blocks, 100U);
    ASSERT_GT(census.medium_blocks, 3U);
    ASSERT_GT(census.large_runs, 1U);
    image_ = heap_.snapshot();
    find_headers();
  }

  // Offsets of all bytes that are the heap's own, and whether a change must be noticed.
  void find_headers() {
    for (std::uint64_t at = 0; at < raw(kFirstRunPage) * kPageBytes; ++at) add(at);
    for (std::uint64_t page = raw(kFirstRunPage); page < heap_.page_count(); ++page) {
      const auto &run = heap_.at<RunHeaderV1>(HeapPage{static_cast<std::uint32_t>(page)});
      if (run.magic != kRunMagic + page) continue;
      const std::uint64_t bytes = run.kind == RunKind::kRoots ? kPageBytes : kRunHeaderBytes;
      for (std::uint64_t at = 0; at < bytes; ++at) add(page * kPageBytes + at);
    }
  }
  void add(std::uint64_t offset) {
    const std::uint64_t page = offset / kPageBytes;
    const auto &run = heap_.at<RunHeaderV1>(HeapPage{static_cast<std::uint32_t>(page)});
    const bool in_root_page =
        (page >= raw(kFirstRootPage) && page < raw(kFirstArenaPage)) || run.kind == RunKind::kRoots;
    const std::uint64_t in_page = offset % kPageBytes;
    // An entry that is used: what users store there is theirs.
    const bool used_root =
        in_root_page && in_page >= kRunHeaderBytes && image_[offset / 64 * 64] != std::byte{0};
    // The first byte of an unused entry's name: any other value makes a root of one byte's name,
    // without claim or content, and where that name belongs to this chain it is a root like any
    // other. The format has nothing that could tell (heap_check.cpp's head).
    const bool new_name =
        in_root_page && in_page >= kRunHeaderBytes && in_page % sizeof(RootV1) == 0;
    // How large the next chunk shall be is a hint; another power of two is as right.
    const bool hint = page >= raw(kFirstArenaPage) && page < raw(kFirstRunPage) &&
                      in_page - offsetof(ArenaV1, chunk_pages) < sizeof(ArenaV1::chunk_pages);
    const bool is_run = run.magic == kRunMagic + page;
    const bool slab = is_run && run.kind == RunKind::kSlab;
    // The first slab of a list has no previous one, and does not say so.
    const bool stale =
        slab && run.owner != 0 &&
        heap_.at<ArenaV1>(kFirstArenaPage + (run.owner - 1)).partial_head[run.class_index] ==
            page &&
        in_page - offsetof(RunHeaderV1, previous_page) < sizeof(RunHeaderV1::previous_page);
    const std::uint64_t in_taken = in_page - offsetof(RunHeaderV1, taken);
    // A few bytes more or less fit the same pages.
    const bool medium_bytes = is_run && run.kind == RunKind::kMedium && in_taken < 2;
    own_.push_back({offset, !used_root && !new_name && !hint && !stale && !medium_bytes,
                    slab && in_taken < sizeof run.taken});
  }

  // Not in the zeros that follow the structs of the fixed pages.
  bool in_struct(std::uint64_t offset) const {
    return offset % kPageBytes < sizeof(MapHeaderV1) || image_[offset] != std::byte{0};
  }

  void restore() { std::memcpy(heap_.base(), image_.data(), image_.size()); }

  // Ordinary work on a damaged heap: any answer will do.
  void work(std::uint64_t choice) {
    for (const std::size_t bytes : {16UL, 100UL, 4000UL, 6000UL, 20000UL, 40000UL}) {
      void *block = heap_.allocate(bytes, 16, static_cast<std::uint32_t>(choice % 3));
      if (block != nullptr)
        static_cast<void>(heap_.deallocate(block, bytes, static_cast<std::uint32_t>(choice % 2)));
    }
    for (std::size_t i = choice % 7; i < blocks_.size(); i += 7) {
      static_cast<void>(heap_.deallocate(blocks_[i], 0, static_cast<std::uint32_t>(i % 3)));
    }
    static_cast<void>(heap_.root("root 1", 8));
    static_cast<void>(heap_.root("new root", 8));
    static_cast<void>(heap_.allocate(600'000));  // full: reclaims
    static_cast<void>(heap_stats(heap_.context()));
  }

  struct Own {
    std::uint64_t offset;
    bool must_be_noticed;
    bool bitmap;  // of taken blocks: their number is checked
  };
  HeapRegion heap_{2 * kMiB};
  std::vector<void *> blocks_;
  std::vector<std::byte> image_;
  std::vector<Own> own_;
};

TEST_F(HostileHeap, EveryFlippedByteIsNoticed) {
  std::mt19937_64 random(test::seed());
  std::uint64_t noticed = 0;
  for (const Own &own : own_) {
    // Of the zeros behind the structs, one in 16: which ones is the seed's choice.
    if (!in_struct(own.offset) && random() % 16 != 0) continue;
    std::byte &byte = heap_.base()[own.offset];
    const auto one_bit = static_cast<std::byte>(1U << random() % 8);
    for (const std::byte flip : {one_bit, std::byte{0xff}}) {
      byte ^= flip;
      const Errc error = heap_.check();
      byte ^= flip;
      noticed += error != Errc::kOk ? 1 : 0;
      const bool same_count = std::popcount(std::to_integer<unsigned>(byte)) ==
                              std::popcount(std::to_integer<unsigned>(byte ^ flip));
      if (own.must_be_noticed && !(own.bitmap && same_count)) {
        ASSERT_NE(error, Errc::kOk)
            << "page " << own.offset / kPageBytes << " byte " << own.offset % kPageBytes << " flip "
            << static_cast<int>(flip);
      }
    }
  }
  EXPECT_GT(noticed, 20'000U);
  EXPECT_EQ(heap_.check(), Errc::kOk);
}

// One byte in four that matters to work; over several seeds, all of them.
TEST_F(HostileHeap, WorkOnAFlippedHeapNeverCrashes) {
  std::mt19937_64 random(test::seed());
  for (const Own &own : own_) {
    if (own.offset < kPageBytes || !in_struct(own.offset) || random() % 4 != 0) continue;
    restore();
    heap_.base()[own.offset] ^= static_cast<std::byte>(1 + random() % 255);
    work(random());
  }
}

TEST_F(HostileHeap, GarbageInManyPlacesNeverCrashesOrHangs) {
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 1500; ++round) {
    restore();
    for (std::uint64_t count = 1 + random() % 40; count > 0; --count) {
      const std::uint64_t offset = own_[random() % own_.size()].offset / 8 * 8;
      std::uint64_t value = random();
      // Likely page indexes.
      if (random() % 2 == 0) value = random() % 600 | (random() % 600 << 32);
      std::memcpy(heap_.base() + offset, &value, sizeof value);
    }
    const HeapRegion &damaged = heap_;
    static_cast<void>(damaged.check());
    work(random());
  }
}

TEST_F(HostileHeap, NothingButGarbageIsRefused) {
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 200; ++round) {
    for (std::uint64_t at = 0; at < heap_.size_bytes(); at += 8) {
      const std::uint64_t value = random();
      std::memcpy(heap_.base() + at, &value, sizeof value);
    }
    EXPECT_NE(heap_.check(), Errc::kOk);
    // With a right header in front, so that the rest is looked at too.
    std::memcpy(heap_.base(), image_.data(), (1 + random() % 3) * kPageBytes);
    EXPECT_NE(heap_.check(), Errc::kOk);
    work(random());
  }
}

TEST_F(HostileHeap, CutFilesAreRefusedAndNotReadBeyond) {
  const std::uint64_t whole = heap_.size_bytes();
  const std::uint64_t span = heap_stats(heap_.context()).span_bytes;
  for (std::uint64_t pages = heap_.page_count() - 1; pages > 0; --pages) {
    heap_.protect(pages * kPageBytes, whole - pages * kPageBytes, PROT_NONE);
    const Errc error = heap_check(heap_.base(), pages * kPageBytes);
    if (pages * kPageBytes >= span) {
      ASSERT_EQ(error, Errc::kOk) << pages;
    } else {
      ASSERT_EQ(error, Errc::kShortFile) << pages;
    }
  }
  heap_.protect(0, whole, PROT_READ | PROT_WRITE);
}

TEST_F(HostileHeap, CheckWritesNothing) {
  heap_.protect(0, heap_.size_bytes(), PROT_READ);
  EXPECT_EQ(heap_.check(), Errc::kOk);
  heap_.protect(0, heap_.size_bytes(), PROT_READ | PROT_WRITE);
}

}  // namespace
}  // namespace tmh::storage
