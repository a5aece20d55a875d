// tests/itm/pages_heap_test.cpp -- the heap of method pages, on a shared mapping, with an engine of
// the test's own.
// Invariants: (1) blocks in use do not overlap, and keep what is stored in them, whichever thread
//             or process allocates and frees. (2) what is freed can be allocated again, also as
//             another class, or by another task. (3) no two tasks, and no two sides of a
//             transaction, share a page. (4) after SIGKILL anywhere, the others go on by (1). (5) a
//             block that is freed twice, or is none, ends the program with a message.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "levels/process/ground/own_task.h"
#include "levels/process/heap/allocator.h"
#include "levels/process/heap/size_classes.h"
#include "tests/support/seed.h"

namespace tmh::itm::pages {

namespace {
thread_local int test_slot = 0;
thread_local bool test_inside = false;
Range test_range{0, 0};

void *map_shared(std::size_t bytes) {
  void *const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
}  // namespace

bool is_inside() noexcept { return test_inside; }
std::uint32_t own_slot() noexcept { return static_cast<std::uint32_t>(test_slot); }
Range heap_range() noexcept { return test_range; }
// reserve_shared() is that of pages_log_test.cpp: what lies behind its memory is a fault.

}  // namespace tmh::itm::pages

namespace tmh::test {
namespace {

using namespace itm::pages;

// Of its own for each test: what the one before has left is in no way.
class PagesHeap : public testing::Test {
 protected:
  void SetUp() override { start(std::size_t{4} << 30); }
  void TearDown() override {
    test_slot = 0;
    test_inside = false;
  }
  static void start(std::size_t bytes) {
    // Two pages before the first whole chunk, as the heap may begin anywhere.
    char *const memory = static_cast<char *>(map_shared(bytes + kChunkBytes));
    ASSERT_NE(memory, nullptr);
    test_range = {reinterpret_cast<std::uintptr_t>(memory), bytes + kChunkBytes};
    ASSERT_TRUE(heap_start());
  }
};

[[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = 16) {
  return heap_allocate(bytes, alignment);
}

// What its user keeps in a block: its size, and bytes that follow from a number.
constexpr std::size_t kStampBytes = 16, kSizeMost = 150'000;

void stamp(void *block, std::uint64_t bytes, std::uint64_t number) {
  const std::uint64_t head[2] = {bytes, number};
  std::memcpy(block, head, sizeof head);
  std::memset(static_cast<char *>(block) + kStampBytes, static_cast<unsigned char>(number * 37),
              bytes - kStampBytes);
}

[[nodiscard]] bool is_as_stamped(const void *block) {
  std::uint64_t head[2];
  std::memcpy(head, block, sizeof head);
  if (head[0] < kStampBytes || head[0] > kSizeMost + kStampBytes) return false;
  const auto *bytes = static_cast<const unsigned char *>(block) + kStampBytes;
  const std::size_t count = head[0] - kStampBytes;
  // All are as the first.
  return count == 0 || (bytes[0] == static_cast<unsigned char>(head[1] * 37) &&
                        std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

// Mostly small, some above the classes.
[[nodiscard]] std::size_t some_size(std::mt19937_64 &random) {
  constexpr std::size_t kMost[] = {64, 64, 64, 300, 300, 2000, 40'000, kSizeMost};
  return kStampBytes + random() % kMost[std::min<std::size_t>(random() % 20, random() % 8)];
}

TEST(PagesHeapClasses, WasteAQuarterAtMostAndFindBlocksByMultiplication) {
  for (std::size_t bytes = 1; bytes <= kSmallMax; ++bytes) {
    const SizeClass &size = kSizeClasses[class_of(bytes)];
    ASSERT_GE(size.bytes, bytes);
    if (class_of(bytes) > 0) {
      ASSERT_LT(kSizeClasses[class_of(bytes) - 1].bytes, bytes);
    }
    if (bytes > 256) {
      ASSERT_LE(size.bytes - bytes, size.bytes / 3) << bytes;
    }
  }
  for (const SizeClass &size : kSizeClasses)
    for (std::size_t offset = 0; offset < size.chunks * kChunkBytes; ++offset)
      ASSERT_EQ(offset * size.inverse >> kInverseShift, offset / size.bytes);
}

TEST_F(PagesHeap, GivesBlocksThatAreAlignedAndApart) {
  std::mt19937_64 random(seed());
  std::map<std::uintptr_t, std::size_t> taken;
  std::vector<void *> blocks;
  for (int i = 0; i < 40'000; ++i) {
    if (!blocks.empty() && random() % 5 < 2) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ASSERT_TRUE(is_as_stamped(blocks.back()));
      taken.erase(reinterpret_cast<std::uintptr_t>(blocks.back()));
      heap_release(blocks.back());
      blocks.pop_back();
      continue;
    }
    const std::size_t bytes = some_size(random);
    const std::size_t alignment =
        random() % 4 == 0 ? std::size_t{1} << (random() % 18) : std::size_t{16};
    test_inside = random() % 2 == 0;
    void *const block = allocate(bytes, alignment);
    ASSERT_NE(block, nullptr);
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    ASSERT_EQ(at % std::max<std::size_t>(alignment, 16), 0U) << bytes << " " << alignment;
    const std::size_t usable = heap_usable(block);
    ASSERT_GE(usable, bytes);
    const auto after = taken.lower_bound(at);
    if (after != taken.end()) {
      ASSERT_LE(at + usable, after->first);
    }
    if (after != taken.begin()) {
      ASSERT_LE(std::prev(after)->first + std::prev(after)->second, at);
    }
    taken[at] = usable;
    stamp(block, bytes, random());
    blocks.push_back(block);
  }
  for (void *const block : blocks) heap_release(block);
  heap_slot_freed(0);
  EXPECT_EQ(heap_chunks_used(), 0U);
}

TEST_F(PagesHeap, AlignsBlocksOfWholeLinesByLines) {
  for (const std::size_t bytes : {64U, 128U, 192U, 256U, 320U, 1024U, 5120U})
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(allocate(bytes)) % 64, 0U) << bytes;
}

TEST_F(PagesHeap, AlignsAsMuchAsIsAskedForAndRefusesWhatIsNoPowerOfTwo) {
  for (std::size_t alignment = 1; alignment <= std::size_t{1} << 28; alignment *= 2) {
    for (const std::size_t bytes : {1U, 100U, 5000U, 40'000U, 1'000'000U}) {
      void *const block = allocate(bytes, alignment);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
      heap_release(block);
    }
  }
  EXPECT_EQ(allocate(10, 48), nullptr);
  EXPECT_EQ(allocate(10, 0), nullptr);
  EXPECT_EQ(allocate(10, std::size_t{1} << 63), nullptr);
  EXPECT_EQ(allocate(~std::size_t{0}), nullptr);
  EXPECT_EQ(allocate(~std::size_t{0} - 4095), nullptr);
}

TEST_F(PagesHeap, UsesAFreedBlockAgainAtOnce) {
  for (const std::size_t bytes : {16U, 64U, 1000U, 8192U, 32'768U, 100'000U}) {
    void *const first = allocate(bytes);
    heap_release(first);
    EXPECT_EQ(allocate(bytes), first) << bytes;
  }
}

// Every block of the heap, then the same again as another class.
TEST_F(PagesHeap, GivesEmptySpansToOtherClasses) {
  start(std::size_t{32} << 20);
  std::vector<void *> blocks;
  std::size_t most = 0;
  for (const std::size_t bytes : {48U, 4096U, 200'000U, 32'768U, 16U, 8192U, 20'000U, 300'000U}) {
    for (void *block; (block = allocate(bytes)) != nullptr;) blocks.push_back(block);
    const std::size_t all = blocks.size() * bytes;
    // A quarter may be lost behind the last block of each span or run.
    EXPECT_GE(all, (std::size_t{32} << 20) * 3 / 4) << bytes;
    most = std::max(most, all);
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937_64(seed()));
    for (void *const block : blocks) heap_release(block);
    blocks.clear();
    EXPECT_LE(heap_chunks_used(), 4U * kClassCount) << bytes;
    heap_slot_freed(0);
    EXPECT_EQ(heap_chunks_used(), 0U) << bytes;
  }
  EXPECT_GE(most, (std::size_t{32} << 20) * 99 / 100);
}

TEST_F(PagesHeap, JoinsFreeNeighbours) {
  start(std::size_t{64} << 20);
  std::vector<void *> blocks;
  for (void *block; (block = allocate(65'536 * 3)) != nullptr;) blocks.push_back(block);
  EXPECT_EQ(allocate(std::size_t{20} << 20), nullptr);
  // Every second first, so that there is a time of holes.
  for (std::size_t i = 1; i + 1 < blocks.size(); i += 2) heap_release(blocks[i]);
  EXPECT_EQ(allocate(65'536 * 4), nullptr);
  for (std::size_t i = 0; i < blocks.size(); i += 2) heap_release(blocks[i]);
  if (blocks.size() % 2 == 0) heap_release(blocks.back());
  void *const large = allocate(std::size_t{64} << 20);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(heap_usable(large), std::size_t{64} << 20);
  heap_release(large);
}

TEST_F(PagesHeap, SharesNoPageBetweenTasksAndSidesOfATransaction) {
  std::mt19937_64 random(seed());
  std::map<std::uintptr_t, int> pages;
  std::vector<void *> blocks[6];
  for (int i = 0; i < 20'000; ++i) {
    const auto who = static_cast<int>(random() % 6);
    test_slot = who / 2;
    test_inside = who % 2 == 0;
    auto &own = blocks[who];
    if (!own.empty() && random() % 3 == 0) {  // of one's own: a page may pass on when it is empty
      heap_release(own.back());
      own.pop_back();
      continue;
    }
    own.push_back(allocate(some_size(random)));
  }
  for (int who = 0; who < 6; ++who) {
    for (void *const block : blocks[who]) {
      const auto at = reinterpret_cast<std::uintptr_t>(block);
      for (std::uintptr_t page = at / 4096; page <= (at + heap_usable(block) - 1) / 4096; ++page)
        ASSERT_EQ(pages.emplace(page, who).first->second, who);
    }
  }
}

TEST_F(PagesHeap, GivesWhatAnEndedTaskHadToOthers) {
  start(std::size_t{16} << 20);
  for (const bool is_full : {false, true}) {
    test_slot = 1;
    std::vector<void *> blocks;
    for (void *block; (block = allocate(64)) != nullptr;) blocks.push_back(block);
    std::size_t freed = 0;
    for (std::size_t i = 0; i < blocks.size(); i += 2, ++freed) {
      // By its owner, or, when all spans are full and without owner, by a task that ends, too.
      test_slot = is_full ? 3 : 1;
      heap_release(blocks[i]);
      blocks[i] = nullptr;
    }
    heap_slot_freed(3);
    heap_slot_freed(1);
    test_slot = 2;
    for (std::size_t i = 0; i < freed; ++i) {
      void *const block = allocate(64);
      ASSERT_NE(block, nullptr) << i << " of " << freed;
      blocks.push_back(block);
    }
    EXPECT_EQ(allocate(64), nullptr);
    EXPECT_EQ(std::set<void *>(blocks.begin(), blocks.end()).size(),
              blocks.size() - freed + 1);  // one is null
    for (void *const block : blocks)
      if (block != nullptr) heap_release(block);
    heap_slot_freed(2);
    EXPECT_EQ(heap_chunks_used(), 0U);
  }
}

TEST_F(PagesHeap, GrowsALargeBlockWithinItsChunks) {
  void *const block = allocate(70'000);
  EXPECT_EQ(heap_usable(block), 73'728U);
  EXPECT_TRUE(heap_grow(block, 131'072));
  EXPECT_EQ(heap_usable(block), 131'072U);
  EXPECT_TRUE(heap_grow(block, 80'000));
  EXPECT_EQ(heap_usable(block), 131'072U);
  EXPECT_FALSE(heap_grow(block, 131'073));
  void *const small = allocate(100);
  EXPECT_TRUE(heap_grow(small, 128));
  EXPECT_FALSE(heap_grow(small, 129));
}

TEST_F(PagesHeap, KnowsWhatHasNeverBeenUsed) {
  void *const first = allocate(1'000'000);
  EXPECT_TRUE(heap_is_zero(first));
  heap_release(first);
  EXPECT_EQ(allocate(500'000), first);
  EXPECT_FALSE(heap_is_zero(first));
  EXPECT_FALSE(heap_is_zero(allocate(100)));
  EXPECT_FALSE(heap_is_zero(heap_map(10'000'000)));  // in part
  EXPECT_TRUE(heap_is_zero(heap_map(10'000'000)));
}

TEST_F(PagesHeap, OwnsItsAddressesAlone) {
  void *const block = allocate(10);
  EXPECT_TRUE(heap_owns(block));
  int local = 0;
  EXPECT_FALSE(heap_owns(&local));
  EXPECT_FALSE(heap_owns(nullptr));
  EXPECT_FALSE(heap_owns(reinterpret_cast<void *>(~std::uintptr_t{0})));
  EXPECT_EQ(heap_usable(&local), 0U);
  EXPECT_EQ(heap_usable(static_cast<char *>(block) + 8), 0U);
}

std::vector<void *> emptied_chunks;
void release_emptied(void *chunk) {
  emptied_chunks.push_back(chunk);
  heap_release(chunk);
}

TEST_F(PagesHeap, UnmapsPartsAndReleasesAChunkWithItsLastPage) {
  constexpr std::size_t kPages = 40;  // two chunks and a half
  const auto at = reinterpret_cast<std::uintptr_t>(heap_map(kPages * 4096));
  const auto unmap = [&](std::size_t page, std::size_t pages) {
    emptied_chunks.clear();
    heap_unmap(at + page * 4096, pages * 4096, release_emptied);
    return emptied_chunks.size();
  };
  EXPECT_TRUE(heap_is_mapped(at, kPages * 4096));
  EXPECT_FALSE(heap_is_mapped(at, (kPages + 1) * 4096));
  EXPECT_EQ(heap_chunks_used(), 3U);
  EXPECT_EQ(unmap(10, 10), 0U);
  EXPECT_FALSE(heap_is_mapped(at, kPages * 4096));
  EXPECT_TRUE(heap_is_mapped(at, 10 * 4096));
  EXPECT_FALSE(heap_is_mapped(at + 10 * 4096, 4096));
  EXPECT_TRUE(heap_is_mapped(at + 20 * 4096, 20 * 4096));
  EXPECT_EQ(unmap(0, 10), 1U);
  EXPECT_EQ(emptied_chunks.front(), reinterpret_cast<void *>(at));
  EXPECT_EQ(unmap(0, 16), 0U);  // once more: nothing is there
  EXPECT_EQ(unmap(32, 8), 1U);
  EXPECT_EQ(heap_chunks_used(), 1U);
  EXPECT_EQ(unmap(16, 16), 1U);
  EXPECT_EQ(heap_chunks_used(), 0U);
  // All at once; and a block that is none of mmap()'s is left alone.
  const auto all = reinterpret_cast<std::uintptr_t>(heap_map(100 * 4096));
  void *const block = allocate(100);
  emptied_chunks.clear();
  heap_unmap(all, std::size_t{1} << 30, release_emptied);
  EXPECT_EQ(emptied_chunks.size(), 7U);
  EXPECT_EQ(heap_usable(block), 128U);
  heap_release(block);
}

using PagesHeapDeathTest = PagesHeap;

TEST_F(PagesHeapDeathTest, EndsTheProgramAtBlocksThatAreFreedTwiceOrAreNone) {
  std::vector<char *> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(static_cast<char *>(allocate(32)));
  heap_release(blocks[199]);
  EXPECT_DEATH(heap_release(blocks[199]), "freed twice");  // of the word in the claim
  heap_release(blocks[5]);
  EXPECT_DEATH(heap_release(blocks[5]), "freed twice");
  EXPECT_DEATH(heap_release(blocks[7] + 8), "no block begins at");
  EXPECT_DEATH(heap_release(blocks[7] + (16 << 16)), "no block begins at");
  test_slot = 1;  // by another task
  heap_release(blocks[8]);
  EXPECT_DEATH(heap_release(blocks[8]), "freed twice");
  char *const large = static_cast<char *>(allocate(100'000));
  EXPECT_DEATH(heap_release(large + 4096), "no block begins at");
  EXPECT_DEATH(heap_release(large + 65'536), "no block begins at");
  heap_release(large);
  EXPECT_DEATH(heap_release(large), "no block begins at");
  char *const middle = static_cast<char *>(allocate(20'000));
  EXPECT_DEATH(heap_release(middle + 4096), "no block begins at");
  int local = 0;
  EXPECT_DEATH(heap_release(&local), "no block begins at");
}

// Each task puts blocks into places of a shared table. The block that was there, of any task, it
// takes out, checks and frees.
constexpr std::size_t kPlaces = 512;
struct Exchange {
  std::atomic<void *> places[kPlaces];
  std::atomic<std::uint64_t> rounds;
  std::atomic<std::uint64_t> wrong;
};

void exchange_blocks(Exchange &exchange, std::uint64_t random_seed, std::uint64_t rounds) {
  std::mt19937_64 random(random_seed);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    test_inside = random() % 2 == 0;
    const std::size_t bytes = some_size(random);
    void *block = allocate(bytes);
    if (block == nullptr) {
      exchange.wrong.fetch_add(1);
      return;
    }
    stamp(block, bytes, random());
    block = exchange.places[random() % kPlaces].exchange(block);
    exchange.rounds.fetch_add(1);
    if (block == nullptr) continue;
    if (!is_as_stamped(block)) exchange.wrong.fetch_add(1);
    test_inside = random() % 2 == 0;
    heap_release(block);
  }
}

void take_all_out(Exchange &exchange) {
  for (std::atomic<void *> &place : exchange.places) {
    void *const block = place.exchange(nullptr);
    if (block == nullptr) continue;
    EXPECT_TRUE(is_as_stamped(block));
    heap_release(block);
  }
  EXPECT_EQ(exchange.wrong.load(), 0U);
}

TEST_F(PagesHeap, ServesThreadsThatFreeEachOthersBlocks) {
  static Exchange exchange;
  std::vector<std::thread> threads;
  for (int i = 1; i <= 4; ++i)
    threads.emplace_back([i] {
      test_slot = i;
      exchange_blocks(exchange, seed() + static_cast<std::uint64_t>(i), 30'000);
    });
  for (std::thread &thread : threads) thread.join();
  take_all_out(exchange);
  for (int i = 0; i <= 4; ++i) heap_slot_freed(i);
  EXPECT_EQ(heap_chunks_used(), 0U);
}

[[nodiscard]] pid_t start_process(Exchange &exchange, int slot, std::uint64_t random_seed,
                                  std::uint64_t rounds) {
  const pid_t child = fork();
  if (child != 0) return child;
  test_slot = slot;
  exchange_blocks(exchange, random_seed, rounds);
  _exit(0);
}

TEST_F(PagesHeap, ServesProcessesThatFreeEachOthersBlocks) {
  auto &exchange = *static_cast<Exchange *>(map_shared(sizeof(Exchange)));
  std::vector<pid_t> processes;
  for (int i = 1; i <= 4; ++i)
    processes.push_back(start_process(exchange, i, seed() + static_cast<std::uint64_t>(i), 30'000));
  for (const pid_t process : processes) {
    int status = 0;
    ASSERT_EQ(waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
  take_all_out(exchange);
  for (int i = 0; i <= 4; ++i) heap_slot_freed(i);
  EXPECT_EQ(heap_chunks_used(), 0U);
}

// A killed process leaves the blocks that it has just allocated or taken out, perhaps a claim or a
// span that is half made. The others work on, and a new process comes into its slot.
TEST_F(PagesHeap, OutlivesProcessesThatAreKilledAnywhere) {
  constexpr int kProcesses = 3, kKills = 100;
  auto &exchange = *static_cast<Exchange *>(map_shared(sizeof(Exchange)));
  std::mt19937_64 random(seed());
  std::vector<pid_t> processes;
  for (int i = 0; i < kProcesses; ++i)
    processes.push_back(start_process(exchange, i + 1, random(), ~std::uint64_t{0}));
  for (int kill_number = 0; kill_number < kKills + kProcesses; ++kill_number) {
    const std::uint64_t until = exchange.rounds.load() + random() % 500;
    while (exchange.rounds.load() < until && exchange.wrong.load() == 0) sched_yield();
    // Not at the step that shows the number: anywhere in the next round.
    for (std::uint64_t spin = random() % 4000; spin > 0; --spin)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    const std::size_t which = random() % processes.size();
    ASSERT_EQ(kill(processes[which], SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(processes[which], &status, 0), processes[which]);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    heap_slot_freed(static_cast<int>(which) + 1);
    processes[which] =
        start_process(exchange, static_cast<int>(which) + 1, random(), ~std::uint64_t{0});
    ASSERT_EQ(exchange.wrong.load(), 0U);
  }
  for (std::size_t i = 0; i < processes.size(); ++i) {
    ASSERT_EQ(kill(processes[i], SIGKILL), 0);
    ASSERT_EQ(waitpid(processes[i], nullptr, 0), processes[i]);
    heap_slot_freed(static_cast<int>(i) + 1);
  }
  take_all_out(exchange);
  heap_slot_freed(0);
  // Each kill loses two blocks at most, of 6 chunks or of a span of 4.
  EXPECT_LE(heap_chunks_used(), (kKills + 2 * kProcesses) * 16U);
}

// What a process holds: a block comes in when it has been allocated, and is out before it is freed.
struct Held {
  std::atomic<void *> blocks[48];
  // Of the foreign blocks that it frees, how many it has begun to.
  std::atomic<std::size_t> foreign;
  std::atomic<bool> is_done;
};

constexpr std::size_t kForeign = 40;

// Allocates and frees, also what others have allocated, and takes over what slot 2 has left.
[[noreturn]] void be_stepped(Held &held, const std::vector<void *> &foreign, std::uint64_t seed) {
  test_slot = 1;
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(3);
  raise(SIGSTOP);
  for (std::size_t i = 0; i < kForeign; ++i) {
    seed = seed * 6'364'136'223'846'793'005u + 1;
    std::atomic<void *> &place = held.blocks[(seed >> 33) % 48];
    if (void *const block = place.exchange(nullptr); block != nullptr) heap_release(block);
    constexpr std::size_t kSizes[] = {16, 48, 48, 1000, 8000, 20'000, 100'000};
    test_inside = i % 3 == 0;
    if (i % 4 != 0) place.store(allocate(kSizes[(seed >> 41) % 7]));
    held.foreign.store(i + 1);
    heap_release(foreign[i]);
  }
  heap_slot_freed(2);
  for (std::atomic<void *> &place : held.blocks)
    if (place.load() == nullptr) place.store(allocate(32));
  held.is_done.store(true);
  for (;;) pause();
}

// True: the process has done all that it had to do. It is dead.
[[nodiscard]] bool kill_after(pid_t process, std::uint64_t steps, const Held &held) {
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  while (steps-- > 0 && WIFSTOPPED(status) && !held.is_done.load()) {
    if (ptrace(PTRACE_SINGLESTEP, process, nullptr, nullptr) != 0) break;
    waitpid(process, &status, 0);
  }
  EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) != SIGABRT) << status;
  kill(process, SIGKILL);
  waitpid(process, &status, 0);
  return held.is_done.load();
}

// Dead between any two instructions: what it held is not given out again, and can be freed; and all
// else but a few blocks can be allocated.
TEST_F(PagesHeap, OutlivesAProcessThatIsKilledBetweenAnyTwoInstructions) {
  std::mt19937_64 random(seed());
  std::uint64_t steps_max = 30'000;
  constexpr int kRounds = 25;
  int done = 0;
  for (int round = 0; round < kRounds; ++round) {
    start(std::size_t{8} << 20);
    auto &held = *static_cast<Held *>(map_shared(sizeof(Held)));
    test_slot = 2;
    std::vector<void *> foreign;
    for (int i = 0; i < 3000; ++i) foreign.push_back(allocate(i % 2 == 0 ? 32 : 3000));
    const std::uint64_t child_seed = random();
    const pid_t child = fork();
    if (child == 0) be_stepped(held, foreign, child_seed);
    const std::uint64_t steps = random() % steps_max;
    if (kill_after(child, steps, held)) {
      ++done;
      steps_max = std::max<std::uint64_t>(steps, 1000);
    }
    test_slot = 0;
    heap_slot_freed(1);
    heap_slot_freed(2);
    std::map<std::uintptr_t, std::size_t> taken;
    const auto take = [&](void *block) {
      const auto at = reinterpret_cast<std::uintptr_t>(block);
      const auto after = taken.lower_bound(at);
      ASSERT_TRUE(after == taken.end() || at + heap_usable(block) <= after->first);
      ASSERT_TRUE(after == taken.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= at);
      taken[at] = heap_usable(block);
    };
    for (std::atomic<void *> &place : held.blocks)
      if (place.load() != nullptr) take(place.load());
    std::vector<void *> blocks;
    for (const std::size_t bytes : {100'000U, 20'000U, 8000U, 1000U, 48U, 32U, 16U})
      for (void *block; (block = allocate(bytes)) != nullptr;) {
        take(block);
        if (HasFatalFailure()) return;
        blocks.push_back(block);
      }
    for (void *const block : blocks) heap_release(block);
    for (std::atomic<void *> &place : held.blocks)
      if (place.load() != nullptr) heap_release(place.load());
    for (std::size_t i = held.foreign.load(); i < foreign.size(); ++i) heap_release(foreign[i]);
    heap_slot_freed(0);
    // What it was about: a block or a claim, in a span of 4 chunks at most.
    EXPECT_LE(heap_chunks_used(), 4U) << steps;
    munmap(reinterpret_cast<void *>(test_range.begin), test_range.bytes);
    if (HasFailure()) return;
  }
  EXPECT_LT(done, kRounds) << "all were killed too late";
}

}  // namespace
}  // namespace tmh::test
