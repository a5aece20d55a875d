// include/tmh/root.hpp -- Segment::root<T>(): named objects that a segment's data structures hang from.
// Contexts:  as domain.hpp. Runs in an instance of its own unless one is running.
#pragma once

#include <memory>
#include <new>
#include <type_traits>

#include <tmh/allocator.hpp>
#include <tmh/domain.hpp>
#include <tmh/transaction.hpp>

namespace tmh {

namespace detail {
[[nodiscard]] Domain domain_of(const Segment &segment) noexcept;
}  // namespace detail

template <class T>
T *Segment::root(std::string_view name) const {
  static_assert(alignof(T) <= kPageBytes);
  return atomically(detail::domain_of(*this), [&]() -> T * {
    void **cell = root_cell(name, sizeof(T));
    if (*cell == nullptr) {
      void *memory = allocate(sizeof(T), alignof(T));
      if constexpr (std::uses_allocator_v<T, allocator<std::byte>>) {
        ::new (memory) T(typename T::allocator_type(allocator<std::byte>(*this)));
      } else {
        ::new (memory) T();
      }
      *cell = memory;
    }
    return static_cast<T *>(*cell);
  });
}

}  // namespace tmh
