// tests/itm/heap_calls.cpp -- a program whose malloc(), mmap() and their families are those of
// method pages (levels/process/heap), with an engine of its own: threads in one process.
// Compiled with -fno-builtin: else the compiler moves stores that the engine looks at across
// malloc().
// Invariants: (1) results, errno and contents are as glibc's. (2) new, libstdc++, strdup() and
//             others of libc allocate from the heap. (3) a block that a transaction allocated is
//             noted before anything is stored in it. (4) blocks of before the start stay libc's
//             until they are reallocated; a fork()ed child leaves its parent's blocks alone.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "levels/process/for_calls.h"
#include "levels/process/ground/own_task.h"
#include "levels/process/heap/allocator.h"

namespace tmh::itm::pages {

namespace {
// Some blocks are libc's: those of libraries' constructors.
bool is_running = false;
std::atomic<int> slots_taken{0};
constinit thread_local int test_slot = -1;
constinit thread_local bool test_inside = false;
bool is_irrevocable = false;
constexpr std::size_t kNotesMax = 4096;
void *allocated[kNotesMax];
std::size_t allocated_count = 0;
void *freed[kNotesMax];
std::size_t freed_count = 0;

void *map_shared(std::size_t bytes) noexcept {
  void *const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
}  // namespace

bool is_inside() noexcept { return test_inside; }
bool is_started() noexcept { return is_running; }
std::uint32_t own_slot() noexcept {
  if (test_slot < 0) test_slot = slots_taken.fetch_add(1);
  return static_cast<std::uint32_t>(test_slot);
}
Range heap_range() noexcept {
  constexpr std::size_t kBytes = std::size_t{8} << 30;
  static void *const memory = map_shared(kBytes);
  return {reinterpret_cast<std::uintptr_t>(memory), kBytes};
}
void *reserve_shared(std::size_t bytes) noexcept { return map_shared(bytes); }
void note_allocated(void *block) noexcept { allocated[allocated_count++] = block; }
void note_freed(void *block) noexcept {
  if (!test_inside) return heap_release(block);
  freed[freed_count++] = block;
}
void go_irrevocable() {
  is_irrevocable = true;
  test_inside = false;
}

}  // namespace tmh::itm::pages

namespace tmh::test {
namespace {

using namespace itm::pages;

// What the compiler must not know the origin of: it would leave out calls, or warn.
template <class T>
[[nodiscard]] T hidden(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

[[nodiscard]] bool is_zero(const void *block, std::size_t bytes) {
  const auto *at = static_cast<const unsigned char *>(block);
  return std::all_of(at, at + bytes, [](unsigned char byte) { return byte == 0; });
}

struct Transaction {
  Transaction() {
    allocated_count = freed_count = 0;
    is_irrevocable = false;
    test_inside = true;
  }
  ~Transaction() { test_inside = false; }
};

TEST(HeapCalls, ServeNewAndLibc) {
  EXPECT_TRUE(heap_owns(std::make_unique<int>(1).get()));
  EXPECT_TRUE(heap_owns(std::string(100, 'x').data()));
  EXPECT_TRUE(heap_owns(std::unique_ptr<char[]>(new char[1'000'000]).get()));
  struct alignas(256) Aligned {
    char bytes[256];
  };
  const auto aligned = std::make_unique<Aligned>();
  EXPECT_TRUE(heap_owns(aligned.get()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned.get()) % 256, 0U);
  char *const copy = strdup("a string that is long enough for any compiler");
  EXPECT_TRUE(heap_owns(copy));
  std::free(copy);
}

TEST(HeapCalls, ReportWantOfMemoryAsGlibc) {
  const auto fails = [](auto call, int error) {
    errno = 0;
    EXPECT_EQ(call(), nullptr);
    EXPECT_EQ(errno, error);
  };
  const std::size_t huge = hidden(~std::size_t{0} / 2), half = hidden(std::size_t{1} << 33);
  fails([&] { return std::malloc(huge); }, ENOMEM);
  fails([&] { return std::calloc(half, half); }, ENOMEM);
  fails([&] { return std::calloc(1, huge); }, ENOMEM);
  fails([&] { return memalign(64, huge); }, ENOMEM);
  fails([&] { return memalign(hidden((std::size_t{1} << 63) + 1), 8); }, EINVAL);
  fails([&] { return valloc(huge); }, ENOMEM);
  fails([&] { return pvalloc(~std::size_t{0}); }, ENOMEM);
  void *block = std::malloc(100);
  std::memset(block, 7, 100);
  fails([&] { return std::realloc(block, huge); }, ENOMEM);
  fails([&] { return reallocarray(block, half, half); }, ENOMEM);
  EXPECT_EQ(static_cast<char *>(block)[99], 7);
  std::free(block);
  block = &block;
  errno = 0;
  EXPECT_EQ(posix_memalign(&block, 48, 8), EINVAL);
  EXPECT_EQ(posix_memalign(&block, 4, 8), EINVAL);
  EXPECT_EQ(posix_memalign(&block, 0, 8), EINVAL);
  EXPECT_EQ(posix_memalign(&block, 16, huge), ENOMEM);
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(block, &block);
}

TEST(HeapCalls, AlignAsTheyAreNamed) {
  const auto check = [](void *block, std::size_t alignment, std::size_t bytes) {
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
    EXPECT_GE(malloc_usable_size(block), bytes);
    std::memset(block, 1, bytes);
    std::free(block);
  };
  check(std::malloc(0), 16, 0);
  check(std::calloc(0, 5), 16, 0);
  check(memalign(4096, 10), 4096, 10);
  check(memalign(hidden(std::size_t{100}), 10), 128, 10);
  check(std::aligned_alloc(64, 640), 64, 640);
  check(valloc(5000), 4096, 5000);
  check(pvalloc(5000), 4096, 8192);
  void *block = nullptr;
  ASSERT_EQ(posix_memalign(&block, std::size_t{1} << 21, 100), 0);
  check(block, std::size_t{1} << 21, 100);
  std::free(nullptr);
  EXPECT_EQ(malloc_usable_size(nullptr), 0U);
}

TEST(HeapCalls, ZeroMemoryThatWasUsedBefore) {
  for (const std::size_t bytes : {1U, 24U, 64U, 1000U, 8000U, 30'000U, 100'000U, 3'000'000U}) {
    for (int i = 0; i < 20; ++i) {
      auto *const block = static_cast<char *>(std::calloc(1, bytes));
      ASSERT_TRUE(is_zero(block, bytes)) << bytes;
      std::memset(block, 0x55, malloc_usable_size(block));
      std::free(hidden(block));
    }
  }
}

TEST(HeapCalls, KeepContentsWhenTheyReallocate) {
  std::size_t bytes = 1;
  auto *block = static_cast<unsigned char *>(std::realloc(nullptr, bytes));
  block[0] = 1;
  const auto resize = [&](std::size_t to) {
    block = static_cast<unsigned char *>(std::realloc(block, to));
    ASSERT_NE(block, nullptr);
    ASSERT_GE(malloc_usable_size(block), to);
    for (std::size_t i = 0; i < std::min(bytes, to); ++i)
      ASSERT_EQ(block[i], static_cast<unsigned char>(i * 7 + 1));
    for (std::size_t i = bytes; i < to; ++i) block[i] = static_cast<unsigned char>(i * 7 + 1);
    bytes = to;
  };
  while (bytes < 3'000'000) resize(bytes + bytes / 3 + 1);
  while (bytes > 10) resize(bytes - bytes / 4 - 1);
  resize(300'000);
  EXPECT_EQ(std::realloc(hidden(block), 0), nullptr);
}

TEST(HeapCalls, NoteBlocksOfTransactions) {
  void *const before = std::malloc(100);
  {
    const Transaction transaction;
    void *const block = std::malloc(100);
    EXPECT_EQ(allocated_count, 1U);
    EXPECT_EQ(allocated[0], block);
    std::free(hidden(before));
    EXPECT_EQ(freed_count, 1U);
    EXPECT_EQ(freed[0], before);
    void *const moved = std::realloc(block, 1000);
    EXPECT_EQ(allocated_count, 2U);
    EXPECT_EQ(allocated[1], moved);
    EXPECT_EQ(freed_count, 2U);
    EXPECT_EQ(freed[1], block);
    EXPECT_TRUE(heap_owns(std::calloc(10, 10)));
    EXPECT_EQ(allocated_count, 3U);
  }
  // Rolled back.
  for (std::size_t i = 0; i < allocated_count; ++i) heap_release(allocated[i]);
  EXPECT_EQ(heap_usable(before), 128U);
  std::free(before);
}

TEST(HeapCalls, MapPagesOfTheHeapAndUnmapParts) {
  const std::size_t used = heap_chunks_used();
  for (int round = 0; round < 3; ++round) {
    auto *const pages = static_cast<char *>(
        mmap(nullptr, 200'000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_TRUE(heap_owns(pages));
    ASSERT_TRUE(is_zero(pages, 200'704));
    std::memset(pages, 3, 200'704);
    EXPECT_EQ(munmap(pages + 8192, 100'000), 0);
    EXPECT_TRUE(pages[8191] == 3 && pages[8192 + 102'400] == 3);
    EXPECT_EQ(munmap(pages, 8192), 0);
    EXPECT_EQ(madvise(pages + 131'072, 4096, MADV_DONTNEED), 0);
    EXPECT_TRUE(is_zero(pages + 131'072, 4096));
    EXPECT_EQ(pages[131'072 + 4096], 3);
    EXPECT_EQ(mprotect(pages + 131'072, 4096, PROT_NONE), 0);
    EXPECT_EQ(munmap(pages, 200'000), 0);
    EXPECT_EQ(heap_chunks_used(), used);
  }
  errno = 0;
  EXPECT_EQ(munmap(reinterpret_cast<void *>(heap_range().begin + 1), 4096), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mmap(nullptr, std::size_t{1} << 45, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            MAP_FAILED);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(HeapCalls, RemapPages) {
  auto *pages = static_cast<char *>(
      mmap(nullptr, 65'536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(pages, 9, 65'536);
  EXPECT_EQ(mremap(pages, 65'536, 131'072, 0), MAP_FAILED);
  EXPECT_EQ(errno, ENOMEM);
  pages = static_cast<char *>(mremap(pages, 65'536, 131'072, MREMAP_MAYMOVE));
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_TRUE(pages[0] == 9 && pages[65'535] == 9 && is_zero(pages + 65'536, 65'536));
  EXPECT_EQ(mremap(pages, 131'072, 4096, 0), pages);
  EXPECT_EQ(pages[4095], 9);
  EXPECT_EQ(mremap(pages, 8192, 16'384, MREMAP_MAYMOVE), MAP_FAILED);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(munmap(pages, 4096), 0);
}

TEST(HeapCalls, LeaveOtherMappingsToTheKernel) {
  const auto kernel = [](int protection, int flags, void *at = nullptr) {
    void *const pages = mmap(at, 8192, protection, flags, -1, 0);
    EXPECT_NE(pages, MAP_FAILED);
    EXPECT_FALSE(heap_owns(pages));
    return pages;
  };
  void *const shared = kernel(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  static_cast<char *>(shared)[5000] = 5;
  void *const fixed =
      kernel(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, shared);
  EXPECT_EQ(fixed, shared);
  EXPECT_EQ(static_cast<char *>(fixed)[5000], 0);
  EXPECT_EQ(mprotect(fixed, 8192, PROT_READ), 0);
  EXPECT_EQ(madvise(fixed, 8192, MADV_DONTNEED), 0);
  void *const moved = mremap(fixed, 8192, 16'384, MREMAP_MAYMOVE);
  EXPECT_NE(moved, MAP_FAILED);
  EXPECT_EQ(munmap(moved, 16'384), 0);
  EXPECT_EQ(munmap(kernel(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS), 8192), 0);
}

TEST(HeapCalls, UndoAMappingAndMakeAnUnmappingIrrevocable) {
  const std::size_t used = heap_chunks_used();
  void *pages = nullptr;
  {
    const Transaction transaction;
    pages = mmap(nullptr, 150'000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_EQ(allocated_count, 3U);
  }
  for (std::size_t i = 0; i < allocated_count; ++i) heap_release(allocated[i]);
  EXPECT_EQ(heap_chunks_used(), used);
  pages = mmap(nullptr, 150'000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  {
    const Transaction transaction;
    EXPECT_EQ(munmap(pages, 4096), 0);
    EXPECT_TRUE(is_irrevocable);
    EXPECT_EQ(munmap(pages, 150'000), 0);
  }
  EXPECT_EQ(heap_chunks_used(), used);
}

TEST(HeapCalls, MoveBlocksOfLibcToTheHeap) {
  is_running = false;
  auto *const first = static_cast<char *>(hidden(std::malloc(100)));
  void *const second = hidden(std::malloc(100));
  void *const third = hidden(std::malloc(100));
  is_running = true;
  EXPECT_FALSE(heap_owns(first) || heap_owns(second));
  std::strcpy(first, "text");
  EXPECT_GE(malloc_usable_size(first), 100U);
  auto *const moved = static_cast<char *>(std::realloc(first, 50));
  EXPECT_TRUE(heap_owns(moved));
  EXPECT_STREQ(moved, "text");
  std::free(moved);
  std::free(second);
  {
    const Transaction transaction;
    std::free(third);  // lost
    EXPECT_EQ(freed_count, 0U);
  }
}

TEST(HeapCalls, LeaveAParentsBlocksAloneInAForkedChild) {
  auto *const block = static_cast<char *>(std::malloc(100));
  std::strcpy(block, "text");
  const pid_t child = fork();
  if (child == 0) {
    is_running = false;  // as the engine does
    auto *const moved = static_cast<char *>(std::realloc(hidden(block), 200));
    std::free(hidden(block));
    std::free(hidden(block));
    void *const other = std::malloc(1000);
    _exit(heap_owns(moved) || heap_owns(other) || std::strcmp(moved, "text") != 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(heap_usable(block), 128U);
  std::free(block);
}

TEST(HeapCalls, ServeThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&wrong, i] {
      std::vector<std::string> strings;
      for (int round = 0; round < 20'000; ++round) {
        strings.emplace_back(static_cast<std::size_t>(round * 7 % 500), static_cast<char>('a' + i));
        if (round % 3 == 0) strings.erase(strings.begin() + round % 7);
        if (strings.size() > 300) strings.resize(100);
      }
      for (const std::string &text : strings)
        wrong += text.find_first_not_of(static_cast<char>('a' + i)) != std::string::npos;
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace tmh::test

int main(int count, char **arguments) {
  if (!tmh::itm::pages::heap_start()) return 2;
  tmh::itm::pages::is_running = true;
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
