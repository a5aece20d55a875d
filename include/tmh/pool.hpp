// include/tmh/pool.hpp -- memory of a heap segment for instances of every level: tmh::pools, and
// tmh::pool_allocator<T> on them.
// Why:       the heap is plain code, so an instance of software level 1 that allocates runs again
//            at level 2. Pools are lists in the segment that are reached through tmh::field:
//            allocating and freeing there is part of the instance at either level, and rolled back
//            with it. Only an empty list goes to the heap, each time for twice as much: at level 1
//            the attempt is undone, an instance of its own at level 2 fills the list, and the
//            attempt runs again.
// Shape:     blocks of one size class lie in chunks and never cross a page. Each class has kLanes
//            lists; a thread uses that of its lane, so that threads and processes in different ones
//            write no line in common. A list that is empty takes a free block of another lane (at
//            level 2 all that its list has) before it takes a chunk: who only allocates is fed by
//            who only frees.
// Sizes:     1 to kBlockBytesMax bytes, rounded up to lines of 64 and above 512 to quarters of a
//            power of two. A block that wants more than a line's alignment, up to a page's, is
//            rounded up to a power of two that is not below it. Larger blocks are the heap's.
// Errors:    what Segment::allocate throws, where the body calls; at a site that may not leave
//            level 1 it leaves atomically() instead. Memory that pools hold free is theirs until
//            they are destroyed.
// Objects:   `::new (allocator.allocate(1)) Node{key, nullptr}` makes one in its instance at every
//            level, if Node consists of tmh::field and each gets a value; a member without one is
//            zeroed plainly, and level 1 does not see that (tmh/field.hpp, Caveat 3).
// Contexts:  every call REQUIRES a running instance. Not for relocatable segments (kBadArgument):
//            blocks are reached by pointers.
// Source:    Magazines and vmem (lists per processor in front of one allocator); C++ standard,
//            std::pmr's pool resources (the shape).
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>

#include <tmh/allocator.hpp>
#include <tmh/field.hpp>
#include <tmh/root.hpp>

namespace tmh {

class pools {
 public:
  using allocator_type = allocator<std::byte>;  // Segment::root<pools>() makes them
  static constexpr std::size_t kBlockBytesMax = kPageBytes;
  // Of what a list takes from the heap: the first time, and at most.
  static constexpr std::size_t kChunkBytesMin = 16 * kPageBytes, kChunkBytesMax = 1024 * kPageBytes;

  // REQUIRES: inside atomically(domain, body), as Segment::root() is. Errors: kBadArgument: the
  // segment is relocatable; kNotMapped.
  explicit pools(const allocator_type &heap);
  // Every chunk goes back to the heap, and with it every block. REQUIRES: inside atomically(domain,
  // body); in a site's own body the heap may end the attempt by an exception, and std::terminate()
  // follows.
  ~pools();
  pools(const pools &) = delete;
  pools &operator=(const pools &) = delete;

  // alignment: a power of two; a block that wants more than a page's is the heap's, too. Not
  // initialised.
  [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = kLineBytes);
  // bytes, alignment: as they were asked for. Anything else leaves the pools damaged.
  void deallocate(void *block, std::size_t bytes, std::size_t alignment = kLineBytes);

  // Free blocks in all lists for such blocks; a walk, for tests and tools.
  [[nodiscard]] std::uint64_t free_blocks(std::size_t bytes,
                                          std::size_t alignment = kLineBytes) const;
  [[nodiscard]] std::uint64_t chunks() const;

 private:
  static constexpr std::size_t kLineBytes = 64, kLanes = 16, kClasses = 8 + 3 * 4;
  struct Block {
    field<Block *> next;
  };
  struct alignas(kLineBytes) Chunk {
    field<Chunk *> next;
    field<std::uint64_t> bytes;
  };
  struct alignas(kLineBytes) List {
    field<Block *> free = nullptr;
    field<std::byte *> unused = nullptr, end = nullptr;  // what is left of the newest chunk
    field<Chunk *> chunks = nullptr;
  };

  // A page each: an instance that only fills a list takes no other one's from level 1. One that
  // allocates at level 2 does, with an empty list: once for all that it finds, or for a chunk.
  struct alignas(kPageBytes) Lane {
    std::array<List, kClasses> lists;
    field<std::byte *> heap;  // the segment's first byte
  };

  [[nodiscard]] static void *pop(List &list);
  [[nodiscard]] static void *take_from(List &other, List &own);
  [[nodiscard]] void *take_from_others(std::uint32_t own, std::size_t size_class);
  [[nodiscard]] static void *cut(List &list, std::size_t bytes);
  static void refill(Lane &lane, std::size_t size_class);
  [[noreturn]] void go_and_refill(Lane &lane, std::size_t size_class);

  std::array<Lane, kLanes> lanes_;
};

// For containers whose code and elements are made of tmh::field; nodes of any other are plain
// accesses, which level 1 does not see.
template <class T>
class pool_allocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  explicit pool_allocator(tmh::pools *pools) noexcept : pools_(pools) {}
  pool_allocator(const pool_allocator &other) : pools_(other.pools()) {}
  pool_allocator &operator=(const pool_allocator &) = default;
  // The segment's own, which its first use makes. Errors: as Segment::root.
  explicit pool_allocator(const Segment &segment) : pools_(segment.root<tmh::pools>("tmh.pools")) {}
  template <class U>
  pool_allocator(const pool_allocator<U> &other) : pools_(other.pools()) {}

  [[nodiscard]] T *allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
      throw std::bad_array_new_length();
    return static_cast<T *>(pools()->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T *pointer, std::size_t count) {
    pools()->deallocate(pointer, count * sizeof(T), alignof(T));
  }
  [[nodiscard]] tmh::pools *pools() const { return pools_; }

  template <class U>
  friend bool operator==(const pool_allocator &a, const pool_allocator<U> &b) {
    return a.pools() == b.pools();
  }

 private:
  field<tmh::pools *> pools_;  // lies in the segment with the container that has it
};

}  // namespace tmh
