// include/tmh/allocator.hpp -- lets unmodified standard containers live in a heap segment.
// Shape:     one pointer, to the segment's first byte in its view; the same in every process (fixed addresses), so it may
//            itself lie inside the segment. Containers of containers: std::scoped_allocator_adaptor<tmh::allocator<T>>.
// Contexts:  allocate and deallocate REQUIRE a running instance, and are rolled back with it. Containers in a relocatable segment are one process's.
// Caveat:    A copy of a container has its allocator, and so lies in the segment as well: made in a query it is a store, and its destructor outside
//            an instance is std::terminate(). What leaves a body is made with another allocator: std::vector<T>(kept.begin(), kept.end()).
// Source:    thesis, appendix A.1 item 7 (the prototype had none).
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstddef>
#include <limits>
#include <new>

#include <boost/interprocess/offset_ptr.hpp>

#include <tmh/domain.hpp>

namespace tmh {

namespace detail {
// `base`: Segment::data() of the heap segment. Throws as Segment::allocate; kNotMapped when this process has not mapped it.
[[nodiscard]] void *heap_allocate(std::byte *base, std::size_t bytes, std::size_t alignment);
void heap_deallocate(std::byte *base, void *pointer, std::size_t bytes);
}  // namespace detail

// A pointer stored as distance from itself: for segments mapped `relocatable`.
template <class T>
using offset_ptr = boost::interprocess::offset_ptr<T>;

template <class T>
class allocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  explicit allocator(const Segment &segment) noexcept : base_(segment.data()) {}
  template <class U>
  allocator(const allocator<U> &other) noexcept : base_(other.base()) {}

  [[nodiscard]] T *allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T *>(detail::heap_allocate(base_, count * sizeof(T), alignof(T)));
  }
  void deallocate(T *pointer, std::size_t count) { detail::heap_deallocate(base_, pointer, count * sizeof(T)); }
  [[nodiscard]] std::byte *base() const noexcept { return base_; }

  template <class U>
  friend bool operator==(const allocator &a, const allocator<U> &b) noexcept {
    return a.base() == b.base();
  }

 private:
  std::byte *base_;
};

}  // namespace tmh
