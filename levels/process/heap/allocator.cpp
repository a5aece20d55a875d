// levels/process/heap/allocator.cpp -- spans of small blocks by bitmaps, runs of chunks, mapped
// chunks.
#include "levels/process/heap/allocator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "levels/process/ground/ground.h"
#include "levels/process/heap/chunk_map.h"
#include "levels/process/heap/span.h"

namespace tmh::itm::pages {

namespace {

constexpr std::size_t kChunkShift = 16;
static_assert(kChunkBytes == std::size_t{1} << kChunkShift);
constexpr std::size_t kWords = kChunkBytes / 16 / 64;
constexpr std::uint64_t kAllPages = (1u << (kChunkBytes / kPageBytes)) - 1;

using Word = std::atomic<std::uint64_t>;

// In shared memory.
struct Tables {
  ChunkMap map;
  // Spans in state kLeft.
  alignas(64) std::atomic<std::uint32_t> left[2][kClassCount];
  TaskHeap tasks[kTasksMax];
};

// Each task has a copy of these; start stores them before the first task is made.
std::uintptr_t first_address = 0;
std::size_t heap_bytes = 0;
Tables *tables = nullptr;
Span *spans = nullptr;
Word (*bitmaps)[kWords] = nullptr;

[[noreturn]] void die(const char *what, const void *block) noexcept {
  char text[160] = "tmh itm: the heap: ";
  char *at = text + std::strlen(text);
  at = std::copy_n(what, std::strlen(what), at);
  for (int shift = 60; shift >= 0; shift -= 4)
    *at++ = "0123456789abcdef"[(reinterpret_cast<std::uintptr_t>(block) >> shift) & 15];
  *at++ = '\n';
  static_cast<void>(!write(2, text, static_cast<std::size_t>(at - text)));
  std::abort();
}

[[nodiscard]] std::uintptr_t address_of(std::size_t chunk) noexcept {
  return first_address + (chunk << kChunkShift);
}
[[nodiscard]] void *pointer_to(std::uintptr_t address) noexcept {
  return reinterpret_cast<void *>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Bits of a word that stand for no block: always set.
[[nodiscard]] std::uint64_t no_blocks(const SizeClass &size, std::size_t word) noexcept {
  const std::size_t blocks = std::min<std::size_t>(64, size.blocks - word * 64);
  return blocks == 64 ? 0 : ~std::uint64_t{0} << blocks;
}

// The calling task's heap.
class Own {
 public:
  Own() noexcept : slot_(own_slot()), heap_(tables->tasks[slot_]) {}

  [[nodiscard]] void *allocate(std::size_t size_class, std::size_t inside) noexcept {
    TMH_ASSERT(size_class < kClassCount && inside < 2);
    Claim &claim = heap_.claims[inside][size_class];
    std::uint64_t free = claim.free.load(std::memory_order_relaxed);
    if (free == 0) [[unlikely]] {
      if (!refill(claim, size_class, inside)) return nullptr;
      free = claim.free.load(std::memory_order_relaxed);
    }
    claim.free.store(free & (free - 1), std::memory_order_relaxed);
    const auto index = static_cast<std::size_t>(std::countr_zero(free));
    TMH_ASSERT(claim.word * 64 + index < kSizeClasses[size_class].blocks);
    return pointer_to(claim.first_block + index * kSizeClasses[size_class].bytes);
  }
  void release(std::size_t chunk, State state, std::size_t index, const void *block) noexcept;
  [[nodiscard]] bool owns(State state) const noexcept {
    return state.use == Use::kSpan && state.owner == slot_;
  }

 private:
  [[nodiscard]] Claim &claim_of(State state) noexcept {
    return heap_.claims[state.is_inside][state.size_class];
  }
  [[nodiscard, gnu::noinline]] bool refill(Claim &claim, std::size_t size_class,
                                           std::size_t inside) noexcept;
  [[nodiscard]] bool claim_word(Claim &claim, std::size_t chunk, const SizeClass &size) noexcept;
  // The claim, which has no block, is of that word from now on.
  void point(Claim &claim, std::size_t chunk, std::size_t word) noexcept;
  [[nodiscard]] bool keep(Claim &claim, std::size_t chunk, std::size_t index,
                          const void *block) noexcept;
  [[gnu::noinline]] void clear(std::size_t chunk, std::size_t index, const void *block) noexcept;
  void let_go(std::size_t chunk, State state) noexcept;
  [[nodiscard, gnu::noinline]] bool take_over(std::size_t chunk, State seen) noexcept;
  [[nodiscard]] std::size_t find_left(std::size_t size_class, std::size_t inside) noexcept;
  [[nodiscard]] std::size_t make_span(std::size_t size_class, std::size_t inside) noexcept;
  void list(std::size_t chunk, Claim &claim) noexcept;
  void unlist(std::size_t chunk, Claim &claim) noexcept;

  const std::uint32_t slot_;
  TaskHeap &heap_;
};

[[nodiscard]] bool is_empty(std::size_t chunk, const SizeClass &size) noexcept {
  for (std::size_t word = 0; word < size.words; ++word)
    // acquire: pairs with the release of a task that freed a block.
    if (bitmaps[chunk][word].load(std::memory_order_acquire) != no_blocks(size, word)) return false;
  return true;
}

// The caller owns the span and has seen that it has no block.
void give_span(std::size_t chunk, const SizeClass &size) noexcept {
  for (std::size_t i = 0; i < size.chunks; ++i)
    spans[chunk + i].state.store(State{}, std::memory_order_relaxed);
  tables->map.give(chunk, size.chunks);
}

void Own::point(Claim &claim, std::size_t chunk, std::size_t word) noexcept {
  const State state = spans[chunk].state.load(std::memory_order_relaxed);
  TMH_ASSERT(owns(state) && word < kSizeClasses[state.size_class].words);
  TMH_ASSERT(claim.free.load(std::memory_order_relaxed) == 0);
  claim.chunk_plus_1 = static_cast<std::uint32_t>(chunk + 1);
  claim.word = static_cast<std::uint32_t>(word);
  claim.first_block = address_of(chunk) + word * 64 * kSizeClasses[state.size_class].bytes;
  // Before the claim has a block: a death may come here.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Makes the claim of a word with free blocks. False: the span has none.
bool Own::claim_word(Claim &claim, std::size_t chunk, const SizeClass &size) noexcept {
  std::size_t word = spans[chunk].next_word;
  TMH_ASSERT(word < size.words);
  for (std::size_t i = 0; i < size.words; ++i, word = word + 1 == size.words ? 0 : word + 1) {
    Word &bits = bitmaps[chunk][word];
    // Others only clear bits. seq_cst: let_go() looks after its store of the state.
    if (~bits.load(std::memory_order_seq_cst) == 0) continue;
    spans[chunk].next_word = static_cast<std::uint32_t>(word);
    point(claim, chunk, word);
    // acquire: pairs with the release of a task that freed a block.
    const std::uint64_t taken = bits.exchange(~std::uint64_t{0}, std::memory_order_acq_rel);
    claim.free.store(~taken, std::memory_order_release);
    return true;
  }
  return false;
}

void Own::list(std::size_t chunk, Claim &claim) noexcept {
  Span &span = spans[chunk];
  TMH_ASSERT(!span.is_listed && owns(span.state.load(std::memory_order_relaxed)));
  span.next = claim.listed_plus_1;
  span.previous = 0;
  span.is_listed = true;
  if (span.next != 0) spans[span.next - 1].previous = static_cast<std::uint32_t>(chunk + 1);
  claim.listed_plus_1 = static_cast<std::uint32_t>(chunk + 1);
}

void Own::unlist(std::size_t chunk, Claim &claim) noexcept {
  Span &span = spans[chunk];
  if (!span.is_listed) return;
  TMH_ASSERT(span.previous != 0 || claim.listed_plus_1 == chunk + 1);
  span.is_listed = false;
  if (span.next != 0) spans[span.next - 1].previous = span.previous;
  if (span.previous != 0)
    spans[span.previous - 1].next = span.next;
  else
    claim.listed_plus_1 = span.next;
}

bool Own::take_over(std::size_t chunk, State seen) noexcept {
  State own = seen;
  own.use = Use::kSpan;
  own.owner = slot_;
  // acquire: pairs with let_go(), heap_slot_freed().
  if (!spans[chunk].state.compare_exchange_strong(seen, own, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed))
    return false;
  spans[chunk].is_listed = false;
  if (seen.use == Use::kLeft)
    tables->left[seen.is_inside][seen.size_class].fetch_sub(1, std::memory_order_relaxed);
  return true;
}

// The span has been seen full. Either the owner sees a block that another task frees, or that task
// sees that the span has no owner: each stores, then loads, seq_cst.
void Own::let_go(std::size_t chunk, State state) noexcept {
  TMH_ASSERT(owns(state));
  State full = state;
  full.use = Use::kFull;
  full.owner = 0;
  const SizeClass &size = kSizeClasses[state.size_class];
  spans[chunk].state.store(full, std::memory_order_seq_cst);
  for (std::size_t word = 0; word < size.words; ++word) {
    if (~bitmaps[chunk][word].load(std::memory_order_seq_cst) == 0) continue;
    if (take_over(chunk, full)) list(chunk, claim_of(state));
    return;
  }
}

std::size_t Own::find_left(std::size_t size_class, std::size_t inside) noexcept {
  std::atomic<std::uint32_t> &left = tables->left[inside][size_class];
  std::uint32_t seen = left.load(std::memory_order_relaxed);
  if (seen == 0) return ChunkMap::kNone;
  const std::size_t end = tables->map.mark();
  for (std::size_t chunk = 0; chunk < end; ++chunk) {
    const State state = spans[chunk].state.load(std::memory_order_relaxed);
    if (state.use == Use::kLeft && state.size_class == size_class && state.is_inside == inside &&
        take_over(chunk, state))
      return chunk;
  }
  // A task died after it had counted, or before it could; or others were faster.
  left.compare_exchange_strong(seen, 0, std::memory_order_relaxed, std::memory_order_relaxed);
  return ChunkMap::kNone;
}

std::size_t Own::make_span(std::size_t size_class, std::size_t inside) noexcept {
  const SizeClass &size = kSizeClasses[size_class];
  bool is_fresh = false;
  const std::size_t chunk = tables->map.take(size.chunks, 1, 0, &is_fresh);
  if (chunk == ChunkMap::kNone) return chunk;
  for (std::size_t word = 0; word < size.words; ++word)
    bitmaps[chunk][word].store(no_blocks(size, word), std::memory_order_relaxed);
  Span &span = spans[chunk];
  TMH_ASSERT(span.state.load(std::memory_order_relaxed).use == Use::kNone);
  span.next_word = 0;
  span.is_listed = false;
  for (std::size_t i = 1; i < size.chunks; ++i)
    spans[chunk + i].state.store(State{Use::kMore, 0, 0, 0, static_cast<std::uint32_t>(chunk)},
                                 std::memory_order_relaxed);
  // release: a task that sees the state sees the bitmap.
  span.state.store(State{Use::kSpan, static_cast<std::uint8_t>(size_class),
                         static_cast<std::uint8_t>(inside), 0, slot_},
                   std::memory_order_release);
  return chunk;
}

bool Own::refill(Claim &claim, std::size_t size_class, std::size_t inside) noexcept {
  const SizeClass &size = kSizeClasses[size_class];
  const State own{Use::kSpan, static_cast<std::uint8_t>(size_class),
                  static_cast<std::uint8_t>(inside), 0, slot_};
  if (claim.chunk_plus_1 != 0) {
    const std::size_t chunk = claim.chunk_plus_1 - 1;
    if (claim_word(claim, chunk, size)) return true;
    claim.chunk_plus_1 = 0;
    let_go(chunk, own);
  }
  while (claim.listed_plus_1 != 0) {
    const std::size_t chunk = claim.listed_plus_1 - 1;
    unlist(chunk, claim);
    if (claim_word(claim, chunk, size)) return true;
    let_go(chunk, own);
  }
  for (std::size_t chunk; (chunk = find_left(size_class, inside)) != ChunkMap::kNone;) {
    if (claim_word(claim, chunk, size)) return true;
    let_go(chunk, own);
  }
  const std::size_t chunk = make_span(size_class, inside);
  return chunk != ChunkMap::kNone && claim_word(claim, chunk, size);
}

// The block comes to the claim: its bit stays set. So a task that frees and allocates in turns
// stores in no bitmap.
bool Own::keep(Claim &claim, std::size_t chunk, std::size_t index, const void *block) noexcept {
  TMH_ASSERT(index <
             kSizeClasses[spans[chunk].state.load(std::memory_order_relaxed).size_class].blocks);
  const std::size_t word = index / 64;
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  const bool is_same = claim.chunk_plus_1 == chunk + 1 && claim.word == word;
  const std::uint64_t free = claim.free.load(std::memory_order_relaxed);
  if (!is_same && free != 0) return false;
  if ((free & bit) != 0 || (bitmaps[chunk][word].load(std::memory_order_relaxed) & bit) == 0)
      [[unlikely]]
    die("freed twice: ", block);
  if (!is_same) {
    if (claim.chunk_plus_1 != chunk + 1) {
      if (claim.chunk_plus_1 != 0) list(claim.chunk_plus_1 - 1, claim);
      unlist(chunk, claim);
    }
    point(claim, chunk, word);
  }
  claim.free.store(free | bit, std::memory_order_release);
  return true;
}

// state: as it was when the caller looked; any task may own the span.
void Own::release(std::size_t chunk, State state, std::size_t index, const void *block) noexcept {
  // The block is taken: the span stays a span of its class, whichever task owns it.
  if (state.use != Use::kSpan && take_over(chunk, state)) {
    state.use = Use::kSpan;
    state.owner = slot_;
    list(chunk, claim_of(state));
  }
  if (!owns(state) || !keep(claim_of(state), chunk, index, block)) clear(chunk, index, block);
}

void Own::clear(std::size_t chunk, std::size_t index, const void *block) noexcept {
  const std::size_t word = index / 64;
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  // release: what this task has done to the block comes before what its next user does. seq_cst:
  // see let_go().
  const std::uint64_t old = bitmaps[chunk][word].fetch_and(~bit, std::memory_order_seq_cst);
  if ((old & bit) == 0) [[unlikely]]
    die("freed twice: ", block);
  const State state = spans[chunk].state.load(std::memory_order_seq_cst);
  if (state.use == Use::kFull || state.use == Use::kLeft) {
    if (!take_over(chunk, state)) return;
    list(chunk, claim_of(state));
  } else if (!owns(state)) {
    return;
  }
  const SizeClass &size = kSizeClasses[state.size_class];
  if (word >= size.words || (old & ~bit) != no_blocks(size, word)) return;
  Claim &claim = claim_of(state);
  if (claim.chunk_plus_1 == chunk + 1 || !is_empty(chunk, size)) return;
  unlist(chunk, claim);
  give_span(chunk, size);
}

[[nodiscard]] void *allocate_chunks(std::size_t bytes, std::size_t alignment, Use use) noexcept {
  const std::size_t count = (bytes + kChunkBytes - 1) >> kChunkShift;
  const std::size_t chunk_alignment = std::max<std::size_t>(1, alignment >> kChunkShift);
  bool is_fresh = false;
  const std::size_t chunk = tables->map.take(
      count, chunk_alignment, (first_address >> kChunkShift) & (chunk_alignment - 1), &is_fresh);
  if (chunk == ChunkMap::kNone) return nullptr;
  const std::size_t states = use == Use::kMapped ? count : 1;
  for (std::size_t i = 0; i < states; ++i) {
    Span &span = spans[chunk + i];
    span.chunks = static_cast<std::uint32_t>(use == Use::kMapped ? 1 : count);
    span.is_fresh = is_fresh;
    span.bytes.store(bytes, std::memory_order_relaxed);
    if (use == Use::kMapped) {
      const std::size_t pages = std::min(
          kChunkBytes / kPageBytes, (bytes - (i << kChunkShift) + kPageBytes - 1) / kPageBytes);
      bitmaps[chunk + i][0].store((std::uint64_t{1} << pages) - 1, std::memory_order_relaxed);
      span.bytes.store(pages * kPageBytes, std::memory_order_relaxed);
    }
    span.state.store(State{use, 0, 0, 0, 0}, std::memory_order_release);
  }
  return pointer_to(address_of(chunk));
}

// Where a block begins, and what it is of; use kNone: nothing.
struct Place {
  std::size_t chunk;
  State state;
  std::size_t index;
};
[[nodiscard, gnu::always_inline]] inline Place place_of(const void *block) noexcept {
  const Place none{0, State{}, 0};
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(block) - first_address;
  if (at >= heap_bytes) return none;
  std::size_t chunk = at >> kChunkShift;
  // acquire: pairs with the stores of tasks that make spans and runs.
  State state = spans[chunk].state.load(std::memory_order_acquire);
  if (state.use == Use::kMore) {
    chunk = state.owner;
    state = spans[chunk].state.load(std::memory_order_acquire);
  }
  const std::size_t offset = at - (chunk << kChunkShift);
  if (state.use == Use::kRun || state.use == Use::kMapped)
    return offset == 0 ? Place{chunk, state, 0} : none;
  if (state.use == Use::kNone || state.use == Use::kMore) return none;
  const SizeClass &size = kSizeClasses[state.size_class];
  const std::size_t index = offset * size.inverse >> kInverseShift;
  if (index >= size.blocks || index * size.bytes != offset) return none;
  return {chunk, state, index};
}

// Calls visit(chunk, its pages in the range) for each mapped chunk.
template <class Visit>
void for_mapped(std::uintptr_t at, std::size_t bytes, Visit visit) noexcept {
  const std::uintptr_t begin = std::max(at, first_address) - first_address;
  const std::uintptr_t end = std::min(at + bytes, first_address + heap_bytes) - first_address;
  for (std::uintptr_t from = begin; from < end;) {
    const std::size_t chunk = from >> kChunkShift;
    const std::uintptr_t chunk_end = std::min(end, (chunk + 1) << kChunkShift);
    const std::size_t page = from % kChunkBytes / kPageBytes;
    const std::size_t pages = (chunk_end - from + kPageBytes - 1) / kPageBytes;
    const std::uint64_t mask = ((std::uint64_t{1} << pages) - 1) << page;
    const bool is_mapped = spans[chunk].state.load(std::memory_order_acquire).use == Use::kMapped;
    visit(chunk, is_mapped ? mask : 0);
    from = chunk_end;
  }
}

}  // namespace

bool heap_start() noexcept {
  const Range range = heap_range();
  first_address = (range.begin + kChunkBytes - 1) & ~(kChunkBytes - 1);
  if (range.bytes < kChunkBytes + (first_address - range.begin)) return false;
  const std::size_t chunks = (range.begin + range.bytes - first_address) >> kChunkShift;
  if (chunks >= kNoChunk) return false;
  void *const all = reserve_shared(sizeof(Tables) + 4096);
  void *const words = reserve_shared(ChunkMap::bytes_for(chunks) + 64);
  void *const records = reserve_shared(chunks * sizeof(Span) + 64);
  void *const bits = reserve_shared(chunks * sizeof(Word[kWords]) + 64);
  if (all == nullptr || words == nullptr || records == nullptr || bits == nullptr) return false;
  const auto aligned = [](void *memory, std::size_t alignment) {
    return pointer_to((reinterpret_cast<std::uintptr_t>(memory) + alignment - 1) &
                      ~(alignment - 1));
  };
  tables = static_cast<Tables *>(aligned(all, 4096));
  spans = static_cast<Span *>(aligned(records, 64));
  bitmaps = static_cast<Word(*)[kWords]>(aligned(bits, 64));
  tables->map.start(static_cast<Word *>(aligned(words, 64)), chunks);
  heap_bytes = chunks << kChunkShift;
  TMH_ASSERT(first_address % kChunkBytes == 0 && first_address + heap_bytes > first_address);
  return true;
}

void *heap_allocate(std::size_t bytes, std::size_t alignment) noexcept {
  // Not std::has_single_bit(): a call of a function, where no POPCNT may be assumed.
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) return nullptr;
  if (bytes <= kSmallMax && alignment <= kPageBytes) [[likely]] {
    std::size_t size_class = class_of(std::max(bytes, alignment));
    // The last class is a multiple of every such alignment.
    while ((kSizeClasses[size_class].bytes & (alignment - 1)) != 0) ++size_class;
    return Own().allocate(size_class, is_inside() ? 1 : 0);
  }
  if (bytes > heap_bytes || alignment > heap_bytes) return nullptr;
  const std::size_t whole = (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  return allocate_chunks(std::max(whole, kPageBytes), alignment, Use::kRun);
}

namespace {
void release_chunks(const Place &place, void *block) noexcept {
  if (place.state.use == Use::kNone) die("no block begins at ", block);
  Span &span = spans[place.chunk];
  const std::size_t chunks = span.chunks;
  State seen = place.state;
  // Of two that free it, one.
  if (!span.state.compare_exchange_strong(seen, State{}, std::memory_order_acq_rel,
                                          std::memory_order_relaxed))
    die("freed twice: ", block);
  tables->map.give(place.chunk, chunks);
}
}  // namespace

void heap_release(void *block) noexcept {
  const Place place = place_of(block);
  if (place.state.use == Use::kSpan || place.state.use == Use::kFull ||
      place.state.use == Use::kLeft)
    return Own().release(place.chunk, place.state, place.index, block);
  release_chunks(place, block);
}

std::size_t heap_usable(const void *block) noexcept {
  const Place place = place_of(block);
  if (place.state.use == Use::kNone) return 0;
  if (place.state.use == Use::kRun || place.state.use == Use::kMapped)
    return spans[place.chunk].bytes.load(std::memory_order_relaxed);
  return kSizeClasses[place.state.size_class].bytes;
}

bool heap_owns(const void *block) noexcept {
  return reinterpret_cast<std::uintptr_t>(block) - first_address < heap_bytes;
}

bool heap_is_zero(const void *block) noexcept {
  const Place place = place_of(block);
  return (place.state.use == Use::kRun || place.state.use == Use::kMapped) &&
         spans[place.chunk].is_fresh;
}

bool heap_grow(void *block, std::size_t bytes) noexcept {
  const Place place = place_of(block);
  if (place.state.use != Use::kRun) return bytes <= heap_usable(block);
  Span &span = spans[place.chunk];
  if (bytes > std::size_t{span.chunks} << kChunkShift) return false;
  const std::size_t whole = (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  if (whole > span.bytes.load(std::memory_order_relaxed))
    span.bytes.store(whole, std::memory_order_relaxed);
  return true;
}

void *heap_map(std::size_t bytes) noexcept {
  return bytes == 0 || bytes > heap_bytes ? nullptr : allocate_chunks(bytes, 1, Use::kMapped);
}

void heap_unmap(std::uintptr_t at, std::size_t bytes, void (*emptied)(void *chunk)) noexcept {
  for_mapped(at, bytes, [&](std::size_t chunk, std::uint64_t pages) {
    if (pages == 0) return;
    const std::uint64_t old = bitmaps[chunk][0].fetch_and(~pages, std::memory_order_acq_rel);
    if ((old & kAllPages & pages) != 0 && (old & kAllPages & ~pages) == 0)
      emptied(pointer_to(address_of(chunk)));
  });
}

bool heap_is_mapped(std::uintptr_t at, std::size_t bytes) noexcept {
  bool is_mapped = at - first_address < heap_bytes && bytes <= heap_bytes - (at - first_address);
  for_mapped(at, bytes, [&](std::size_t chunk, std::uint64_t pages) {
    is_mapped = is_mapped && pages != 0 &&
                (~bitmaps[chunk][0].load(std::memory_order_relaxed) & pages) == 0;
  });
  return is_mapped;
}

void heap_slot_freed(int slot) noexcept {
  TMH_ASSERT(slot >= 0 && static_cast<std::uint32_t>(slot) < kTasksMax);
  TaskHeap &heap = tables->tasks[slot];
  for (auto &claims : heap.claims) {
    for (Claim &claim : claims) {
      const std::uint64_t free = claim.free.load(std::memory_order_acquire);
      claim.free.store(0, std::memory_order_relaxed);
      TMH_ASSERT(free == 0 || claim.chunk_plus_1 != 0);
      if (free != 0)
        bitmaps[claim.chunk_plus_1 - 1][claim.word].fetch_and(~free, std::memory_order_release);
      claim.chunk_plus_1 = 0;
      claim.listed_plus_1 = 0;
    }
  }
  const std::size_t end = tables->map.mark();
  for (std::size_t chunk = 0; chunk < end; ++chunk) {
    State state = spans[chunk].state.load(std::memory_order_acquire);
    if (state.use != Use::kSpan || state.owner != static_cast<std::uint32_t>(slot)) continue;
    const SizeClass &size = kSizeClasses[state.size_class];
    if (is_empty(chunk, size)) {
      give_span(chunk, size);
      continue;
    }
    state.use = Use::kLeft;
    state.owner = 0;
    spans[chunk].state.store(state, std::memory_order_release);
    tables->left[state.is_inside][state.size_class].fetch_add(1, std::memory_order_relaxed);
  }
}

std::size_t heap_chunks_used() noexcept { return tables->map.used(); }

}  // namespace tmh::itm::pages
