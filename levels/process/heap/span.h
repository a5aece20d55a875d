// levels/process/heap/span.h -- what the heap knows of a chunk, and a task's claims.
// Shape:     a record per chunk; a state in one word, so that a task can take a span over only as
//            what it has seen it as.
// Sharing:   between tasks. `state` is everybody's; other members are the owner's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "levels/process/heap/size_classes.h"

namespace tmh::itm::pages {

enum class Use : std::uint8_t {
  kNone,
  // Of one class; its owner allocates from it.
  kSpan,
  // No task's. Its owner found it full. The task that frees a block of it becomes its owner.
  kFull,
  // Nobody's, may have free blocks. Counted in Tables::left.
  kLeft,
  // A chunk of a span but its first, which is `owner`.
  kMore,
  // The first chunk of a large block.
  kRun,
  // Pages of mmap(): those whose bits are set in the chunk's first word.
  kMapped
};

// Aligned as the word that it is: clang calls a function otherwise.
struct alignas(8) State {
  Use use;
  std::uint8_t size_class;
  std::uint8_t is_inside;
  std::uint8_t unused;
  std::uint32_t owner;
  bool operator==(const State &) const = default;
};
static_assert(sizeof(State) == 8 && std::atomic<State>::is_always_lock_free);

inline constexpr std::uint32_t kNoChunk = ~std::uint32_t{0};

struct alignas(64) Span {
  // All zero: kNone.
  std::atomic<State> state;
  // Of a run. A task that is not its owner reads it, after state.
  std::atomic<std::uint64_t> bytes;
  std::uint32_t chunks;
  bool is_fresh;
  // The span is in its owner's list.
  bool is_listed;
  std::uint32_t next, previous;
  // Where the owner looks for free blocks first.
  std::uint32_t next_word;
};
static_assert(sizeof(Span) == 64);

// The blocks of a word of a span's bitmap that its owner may hand out: their bits are set in the
// bitmap, so that no other task takes them for free.
struct Claim {
  // Set bits: free. Stored last when a claim is made; 0 while it is made.
  std::atomic<std::uint64_t> free;
  std::uintptr_t first_block;
  // Plus one; 0: no span.
  std::uint32_t chunk_plus_1;
  std::uint32_t word;
  // Head of the list of the owner's other spans that may have free blocks. Plus one.
  std::uint32_t listed_plus_1;
  std::uint32_t unused;
};
static_assert(sizeof(Claim) == 32 && std::atomic<std::uint64_t>::is_always_lock_free);

struct alignas(4096) TaskHeap {
  Claim claims[2][kClassCount];
};
static_assert(kClassCount <= 1u << 8);  // State::size_class

}  // namespace tmh::itm::pages
