// bench/support/snapshots_memory.h -- memory of a process for the structures of the snapshots bench
// that no segment holds.
// Shape:     MallocAllocator: from malloc(), at the alignment of T, which malloc() does not give:
//            the word before each object says what free() takes. GCC libitm knows these two calls,
//            and no aligned operator new.
// Contexts:  included by code that is compiled with -fgnu-tm.
#pragma once

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace tmh::bench {

template <class T>
class MallocAllocator {
 public:
  using value_type = T;
  MallocAllocator() = default;
  template <class U>
  explicit(false) MallocAllocator(const MallocAllocator<U> &) noexcept {}

  [[nodiscard]] T *allocate(std::size_t count) {
    constexpr std::size_t alignment = alignof(T) < 16 ? 16 : alignof(T);
    void *const block = ::malloc(count * sizeof(T) + alignment);
    if (block == nullptr) throw std::bad_alloc();
    // malloc() aligns to 16, so that there is room for a word before the next boundary.
    const std::uintptr_t begin =
        (reinterpret_cast<std::uintptr_t>(block) + alignment) & ~(std::uintptr_t{alignment} - 1);
    auto *const first = reinterpret_cast<T *>(begin);
    reinterpret_cast<void **>(first)[-1] = block;
    return first;
  }
  void deallocate(T *first, std::size_t) { ::free(reinterpret_cast<void **>(first)[-1]); }
  template <class U>
  friend bool operator==(const MallocAllocator &, const MallocAllocator<U> &) noexcept {
    return true;
  }
};

}  // namespace tmh::bench
