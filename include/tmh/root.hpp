// include/tmh/root.hpp -- Segment::root<T>(): named objects that a segment's data structures hang from.
// Contexts:  as domain.hpp. Runs in an instance of its own unless one is running.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include <tmh/allocator.hpp>
#include <tmh/domain.hpp>
#include <tmh/transaction.hpp>

namespace tmh {

namespace detail {
[[nodiscard]] Domain domain_of(const Segment &segment) noexcept;

// A container whose allocator can be made from a segment, as allocator and pool_allocator can.
template <class T>
concept AllocatesInSegments = requires(const Segment &segment) {
  typename T::allocator_type;
  T(typename T::allocator_type(segment));
};
}  // namespace detail

template <class T>
T *Segment::root(std::string_view name) const {
  static_assert(alignof(T) <= kPageBytes);
  return atomically(detail::domain_of(*this), [&]() -> T * {
    void **cell = root_cell(name, sizeof(T));
    // A relocatable segment has another address in every process: its cells hold distances from the segment's first byte.
    const std::uintptr_t origin = is_relocatable() ? reinterpret_cast<std::uintptr_t>(data()) : 0;
    if (*cell == nullptr) {
      void *memory = allocate(sizeof(T), alignof(T));
      if constexpr (std::uses_allocator_v<T, allocator<std::byte>>) {
        ::new (memory) T(typename T::allocator_type(allocator<std::byte>(*this)));
      } else if constexpr (detail::AllocatesInSegments<T>) {
        ::new (memory) T(typename T::allocator_type(*this));
      } else {
        ::new (memory) T();
      }
      *cell = reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(memory) - origin);
    }
    return reinterpret_cast<T *>(reinterpret_cast<std::uintptr_t>(*cell) + origin);
  });
}

}  // namespace tmh
