// include/tmh/root.hpp -- Segment::root<T>(): named objects that a segment's data structures hang
// from.
// Contexts:  as domain.hpp. Runs in an instance of its own unless one is running.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <tmh/allocator.hpp>
#include <tmh/detail/forced_unwinding.hpp>
#include <tmh/detail/line_access.hpp>
#include <tmh/domain.hpp>
#include <tmh/may_lie_in_segment.hpp>
#include <tmh/transaction.hpp>

namespace tmh {

namespace detail {
// The segment's, for an instance that looks up a root. In a body at level 1 it ends the attempt.
[[nodiscard]] Domain domain_for_root(const Segment &segment);

// A container whose allocator can be made from a segment, as allocator and pool_allocator can.
template <class T>
concept AllocatesInSegments = requires(const Segment &segment) {
  typename T::allocator_type;
  T(typename T::allocator_type(segment));
};
template <class T>
concept HasAllocatorType = requires {
  typename T::allocator_type;
};

// A container that is given no allocator and makes one for each call, as nlohmann::basic_json: any
// object's is the same, so that its get_allocator() is static. Made empty it takes no memory.
template <class T>
concept MakesItsAllocator = HasAllocatorType<T> && requires {
  T::get_allocator();
};

template <class T>
inline constexpr bool kIsPair = false;
template <class First, class Second>
inline constexpr bool kIsPair<std::pair<First, Second>> = true;

template <class T>
void construct_root(const Segment &segment, void *memory) {
  const allocator<std::byte> heap(segment);
  constexpr bool uses_heap = std::uses_allocator_v<T, allocator<std::byte>>;
  if constexpr (MakesItsAllocator<T>) {
    ::new (memory) T();
  } else if constexpr (uses_heap && HasAllocatorType<T>) {
    ::new (memory) T(typename T::allocator_type(heap));
  } else if constexpr (AllocatesInSegments<T>) {
    ::new (memory) T(typename T::allocator_type(segment));
  } else if constexpr (uses_heap || kIsPair<T>) {
    // And container adaptors and tuples: what they hold gets it.
    std::uninitialized_construct_using_allocator(static_cast<T *>(memory), heap);
  } else {
    ::new (memory) T();
  }
}

// A body around may catch what its constructor throws, and commit. What is none of its own undoes
// the whole attempt.
template <class T>
TMH_CATCHES_FORCED_UNWINDING void make_root(const Segment &segment, void *memory) {
  try {
    construct_root<T>(segment, memory);
  } catch (const LineAbort &) {
    throw;
  } catch (const RetryNow &) {
    throw;
  } catch (abi::__forced_unwind &) {
    throw;
  } catch (...) {
    segment.deallocate(memory, sizeof(T));
    throw;
  }
}
}  // namespace detail

template <class T>
T *Segment::root(std::string_view name) const {
  static_assert(alignof(T) <= kPageBytes);
  detail::require_fit_for_segment<T>();
  return atomically(detail::domain_for_root(*this), [&]() -> T * {
    void **cell = unclaimed_root_cell(name, sizeof(T));
    // A relocatable segment has another address in every process: its cells hold distances from the
    // segment's first byte.
    const std::uintptr_t origin = is_relocatable() ? reinterpret_cast<std::uintptr_t>(data()) : 0;
    if (*cell == nullptr) {
      void *memory = allocate(sizeof(T), alignof(T));
      detail::make_root<T>(*this, memory);
      *cell = reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(memory) - origin);
      claim_root(cell, sizeof(T));
    }
    return reinterpret_cast<T *>(reinterpret_cast<std::uintptr_t>(*cell) + origin);
  });
}

}  // namespace tmh
