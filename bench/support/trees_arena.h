// bench/support/trees_arena.h -- memory for search trees where there is no transactional heap:
// handed out in order.
// Shape:     Arena: a range of bytes and how much of it is used. Small things come one after the
//            other; what is a page or larger begins at a page. Nothing is used twice, as the
//            thesis's trees allocated their blocks: "sequentially to improve locality on disk".
// Source:    thesis, section 5.2.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include <tmh/options.hpp>

#include "platform/assert.h"

namespace tmh::bench {

class Arena {
 public:
  // data: at a page.
  Arena(std::byte *data, std::uint64_t bytes) noexcept : data_(data), bytes_(bytes) {
    TMH_ASSERT(data != nullptr && reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0);
  }
  // Throws std::bad_alloc when the range is used up.
  [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment) {
    TMH_ASSERT(std::has_single_bit(alignment) && alignment <= kPageBytes);
    // Nodes of the trees are a line short of their block, so that an allocator's header fits: here
    // the line stays empty.
    const std::size_t multiple = bytes + kLineBytes >= kPageBytes ? kPageBytes : alignment;
    const std::uint64_t begin = (used_ + multiple - 1) / multiple * multiple;
    if (bytes > bytes_ || begin > bytes_ - bytes) throw std::bad_alloc();
    used_ = begin + bytes;
    return data_ + begin;
  }
  [[nodiscard]] std::byte *data() const noexcept { return data_; }
  [[nodiscard]] std::uint64_t used_bytes() const noexcept { return used_; }

 private:
  std::byte *data_;
  std::uint64_t bytes_, used_ = 0;
};

template <class T>
class ArenaAllocator {
 public:
  using value_type = T;
  explicit ArenaAllocator(Arena *arena) noexcept : arena_(arena) { TMH_ASSERT(arena != nullptr); }
  template <class U>
  ArenaAllocator(const ArenaAllocator<U> &other) noexcept : arena_(other.arena()) {}
  [[nodiscard]] T *allocate(std::size_t count) {
    return static_cast<T *>(arena_->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T *, std::size_t) noexcept {}
  [[nodiscard]] Arena *arena() const noexcept { return arena_; }
  template <class U>
  friend bool operator==(const ArenaAllocator &a, const ArenaAllocator<U> &b) noexcept {
    return a.arena() == b.arena();
  }

 private:
  Arena *arena_;
};

}  // namespace tmh::bench
