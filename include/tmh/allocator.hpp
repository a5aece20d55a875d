// include/tmh/allocator.hpp -- lets unmodified standard containers live in a heap segment.
// Shape:     one word. The segment's first byte in its view: the same in every process (fixed
//            addresses), so it may itself lie inside the segment. Or null: the process's heap. Or
//            a number that says why there is neither.
// Contexts:  allocate and deallocate in a segment REQUIRE a running instance, and are rolled back
//            with it. Containers in a relocatable segment are one process's. Containers of
//            containers: std::scoped_allocator_adaptor<tmh::allocator<T>>.
// Default:   allocator() has the segment of the running instance: in an update the one heap segment
//            of its domain that this process has mapped and that is not relocatable. In a query it
//            has the process's heap. Otherwise it allocates nothing, and says why: see allocate().
// Copies:    the copy of a container made in an update has its segment. A copy made in a query, or
//            outside an instance, lies in the process's heap: it outlives the query, and any code
//            may use and destroy it. In an update a copy of that one has allocator()'s segment.
// Between:   two allocators are equal when they have the same segment. A container keeps its own in
//            every assignment: from a container of another segment, or of the process's heap, the
//            elements are copied or moved one by one (moved ones that are containers themselves
//            need std::scoped_allocator_adaptor). swap() exchanges segments with the content.
//            Memory of the process never gets into a segment that way: swap(), or a container that
//            is made in a segment by moving from one of the process's heap, is std::terminate(),
//            with an Error that says so. Copy there.
// Caveat:    What leaves the body of an update is made with another allocator, as
//            std::vector<T>(kept.begin(), kept.end()): its destructor outside an instance is
//            std::terminate(). Containers that keep no allocator but make one for each call, as
//            nlohmann::basic_json, are not known when they are moved: assign them by copying.
// Source:    thesis, appendix A.1 item 7 (the prototype had none).
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <type_traits>

#include <boost/interprocess/offset_ptr.hpp>

#include <tmh/domain.hpp>

namespace tmh {

namespace detail {
// `base`: Segment::data() of the heap segment, null for the process's heap, or a reason.
// Throws as Segment::allocate; kNotMapped when this process has not mapped it.
[[nodiscard]] void *heap_allocate(std::byte *base, std::size_t bytes, std::size_t alignment);
// The block goes back to where it lies, also when `base` is another heap.
void heap_deallocate(std::byte *base, void *pointer, std::size_t bytes, std::size_t alignment);
// Of an allocator that is made by default, and of a container's copy.
[[nodiscard]] std::byte *heap_here() noexcept;
[[nodiscard]] std::byte *heap_of_copy(std::byte *base) noexcept;
[[nodiscard]] std::byte *heap_of(const Segment &segment) noexcept;
// `allocator` has no segment. Throws Error(kBadArgument) when it lies in one.
void check_place(const void *allocator);
}  // namespace detail

// A pointer stored as distance from itself: for segments mapped `relocatable`.
template <class T>
using offset_ptr = boost::interprocess::offset_ptr<T>;

template <class T>
class allocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::false_type;
  using propagate_on_container_swap = std::true_type;

  allocator() noexcept : base_(detail::heap_here()) {}
  explicit allocator(const Segment &segment) noexcept : base_(detail::heap_of(segment)) {}
  allocator(const allocator &other) noexcept : base_(other.base_) { check_place(); }
  template <class U>
  allocator(const allocator<U> &other) noexcept : base_(other.base()) {
    check_place();
  }
  allocator &operator=(const allocator &other) noexcept {
    base_ = other.base_;
    check_place();
    return *this;
  }

  // Errors: as Segment::allocate. Of an allocator that was made by default: kEndWithoutBegin,
  // outside an instance; kNotAHeap, where the domain had no heap segment mapped; kBadArgument,
  // where it had several. kNotMapped: made from an empty Segment.
  [[nodiscard]] T *allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
      throw std::bad_array_new_length();
    return static_cast<T *>(detail::heap_allocate(base_, count * sizeof(T), alignof(T)));
  }
  void deallocate(T *pointer, std::size_t count) {
    detail::heap_deallocate(base_, pointer, count * sizeof(T), alignof(T));
  }
  [[nodiscard]] allocator select_on_container_copy_construction() const noexcept {
    return allocator(detail::heap_of_copy(base_));
  }
  // The segment's first byte; below kPageBytes: it has no segment.
  [[nodiscard]] std::byte *base() const noexcept { return base_; }

  template <class U>
  friend bool operator==(const allocator &a, const allocator<U> &b) noexcept {
    return a.base() == b.base();
  }

 private:
  explicit allocator(std::byte *base) noexcept : base_(base) {}
  void check_place() const {
    if (reinterpret_cast<std::uintptr_t>(base_) < kPageBytes) [[unlikely]]
      detail::check_place(this);
  }

  std::byte *base_;
};

}  // namespace tmh
