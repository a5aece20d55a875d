// compat/libitm/calls/heap_calls.cpp -- malloc() and its family, from the heap of method pages.
// Before the engine runs, and in a fork()ed child, libc serves them. A block of libc's that the
// program reallocates later moves to the heap, where all tasks see it.
// In a transaction: note_allocated() comes before anything is stored in the block, because the
// store may roll the transaction back. Of libc's blocks none is freed there: libc's heap is not
// undone, so such a block is lost.
// In a fork()ed child, blocks of the heap are the parent's: free() leaves them alone.
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "levels/process/ground/ground.h"
#include "levels/process/heap/heap.h"
#include "levels/process/process.h"

extern "C" {
void *__libc_malloc(std::size_t bytes) noexcept;
void *__libc_calloc(std::size_t count, std::size_t bytes) noexcept;
void *__libc_realloc(void *block, std::size_t bytes) noexcept;
void *__libc_memalign(std::size_t alignment, std::size_t bytes) noexcept;
void __libc_free(void *block) noexcept;
}

namespace tmh::itm::pages {

namespace {

// Without errno.
[[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (!is_started()) [[unlikely]]
    return alignment <= 16 ? __libc_malloc(bytes) : __libc_memalign(alignment, bytes);
  TMH_ASSERT(std::has_single_bit(alignment));
  void *const block = heap_allocate(bytes, alignment);
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(block) % std::max<std::size_t>(alignment, 16) == 0);
  if (block != nullptr && is_inside()) note_allocated(block);
  return block;
}

[[nodiscard]] void *or_error(void *block) noexcept {
  if (block == nullptr) [[unlikely]]
    errno = ENOMEM;
  return block;
}

void give_back(void *block) noexcept {
  if (heap_owns(block)) {
    if (is_started()) note_freed(block);
  } else if (!is_started() || !is_inside()) {
    __libc_free(block);
  }
}

[[nodiscard]] std::size_t usable(void *block) noexcept {
  if (heap_owns(block)) return heap_usable(block);
  using Usable = std::size_t (*)(void *);
  // Tasks may look it up at the same time: they find the same.
  static constinit Usable of_libc = nullptr;
  if (of_libc == nullptr)
    of_libc = reinterpret_cast<Usable>(dlsym(RTLD_NEXT, "malloc_usable_size"));  // NOLINT
  return of_libc(block);
}

// The least power of two that is not smaller; 0: none.
[[nodiscard]] std::size_t as_power_of_two(std::size_t alignment) noexcept {
  return alignment > (SIZE_MAX >> 1) + 1 ? 0 : std::bit_ceil(alignment);
}

}  // namespace

extern "C" {

void *malloc(std::size_t bytes) noexcept { return or_error(allocate(bytes, 16)); }

void free(void *block) noexcept {
  if (block != nullptr) give_back(block);
}

void *calloc(std::size_t count, std::size_t bytes) noexcept {
  if (!is_started()) return __libc_calloc(count, bytes);
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return or_error(nullptr);
  void *const block = allocate(all, 16);
  if (block == nullptr) return or_error(nullptr);
  TMH_ASSERT(heap_usable(block) >= all);
  if (!heap_is_zero(block)) std::memset(block, 0, all);
  return block;
}

void *realloc(void *block, std::size_t bytes) noexcept {
  if (block == nullptr) return malloc(bytes);
  if (!is_started() && !heap_owns(block)) return __libc_realloc(block, bytes);
  if (bytes == 0) {
    give_back(block);
    return nullptr;
  }
  const std::size_t before = usable(block);
  // It stays unless it grows, or more than half of it would be for nothing. A smaller block keeps
  // its usable bytes: the transaction may be undone.
  if (is_started() && heap_owns(block) &&
      (bytes <= before ? bytes >= before / 2 || before <= 64 : heap_grow(block, bytes)))
    return block;
  void *const moved = allocate(bytes, 16);
  if (moved == nullptr) return or_error(nullptr);
  std::memcpy(moved, block, std::min(before, bytes));
  give_back(block);
  return moved;
}

void *reallocarray(void *block, std::size_t count, std::size_t bytes) noexcept {
  std::size_t all = 0;
  return __builtin_mul_overflow(count, bytes, &all) ? or_error(nullptr) : realloc(block, all);
}

void *memalign(std::size_t alignment, std::size_t bytes) noexcept {
  const std::size_t power = as_power_of_two(alignment);
  if (power == 0) {
    errno = EINVAL;
    return nullptr;
  }
  return or_error(allocate(bytes, power));
}

void *aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memalign(alignment, bytes);
}

int posix_memalign(void **block, std::size_t alignment, std::size_t bytes) noexcept {
  if (!std::has_single_bit(alignment) || alignment < sizeof(void *)) return EINVAL;
  const int error = errno;
  void *const made = allocate(bytes, alignment);
  errno = error;
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

void *valloc(std::size_t bytes) noexcept { return or_error(allocate(bytes, kPageBytes)); }

void *pvalloc(std::size_t bytes) noexcept {
  std::size_t whole = 0;
  if (__builtin_add_overflow(bytes, kPageBytes - 1, &whole)) return or_error(nullptr);
  return valloc(whole & ~(kPageBytes - 1));
}

std::size_t malloc_usable_size(void *block) noexcept {
  return block == nullptr ? 0 : usable(block);
}

}  // extern "C"

}  // namespace tmh::itm::pages
