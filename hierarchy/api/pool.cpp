// hierarchy/api/pool.cpp -- tmh::pools: size classes, lanes, and what an empty list does.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <tmh/pool.hpp>
#include <tmh/site.hpp>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain.h"
#include "hierarchy/transaction/transaction.h"
#include "levels/line/software.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"

namespace tmh {

namespace {

constexpr std::size_t kLine = 64, kSmallClasses = 8, kSmallBytesMax = kSmallClasses * kLine;

// 64, 128, ... 512; then four to each power of two: 640, 768, 896, 1024, 1280, ...
constexpr std::size_t class_of(std::size_t bytes) noexcept {
  if (bytes <= kSmallBytesMax) return bytes == 0 ? 0 : (bytes - 1) / kLine;
  // 2^power < bytes <= 2^(power + 1)
  const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
  const std::size_t quarter = (bytes - 1) >> (power - 2) & 3;
  return kSmallClasses + (power - 9) * 4 + quarter;
}
constexpr std::size_t bytes_of(std::size_t size_class) noexcept {
  if (size_class < kSmallClasses) return (size_class + 1) * kLine;
  const std::size_t power = 9 + (size_class - kSmallClasses) / 4,
                    quarter = (size_class - kSmallClasses) % 4;
  return (std::size_t{1} << power) + (quarter + 1) * (std::size_t{1} << (power - 2));
}
static_assert(class_of(512) == 7 && class_of(513) == 8 && bytes_of(8) == 640 &&
              class_of(1024) == 11 && class_of(1025) == 12 &&
              bytes_of(class_of(pools::kBlockBytesMax)) == pools::kBlockBytesMax);

// A block of a power of two lies at a multiple of its size.
constexpr std::size_t class_of(std::size_t bytes, std::size_t alignment) noexcept {
  return class_of(alignment <= kLine ? bytes : std::bit_ceil(std::max(bytes, alignment)));
}
static_assert(class_of(1, 128) == class_of(128) && class_of(129, 128) == class_of(256) &&
              class_of(600, 128) == class_of(1024) && class_of(1, 4096) == class_of(4096));

bool is_of_the_heap(std::size_t bytes, std::size_t alignment) noexcept {
  TMH_ASSERT(std::has_single_bit(alignment));
  return bytes > pools::kBlockBytesMax || alignment > kPageBytes;
}

// In a segment that is nearly full, or on a device that is: less.
void *chunk_of_at_most(std::byte *heap, std::size_t *bytes) {
  for (;; *bytes /= 2) {
    try {
      return detail::heap_allocate(heap, *bytes, kPageBytes);
    } catch (const Error &error) {
      const bool is_shortage =
          error.errc() == Errc::kSegmentFull || error.errc() == Errc::kDiskFull;
      if (!is_shortage || *bytes <= pools::kChunkBytesMin) throw;
    }
  }
}

// Neighbours in time, forked processes and the threads of one, get different ones.
detail::PoolLane &lane_here() noexcept {
  static std::atomic<std::uint32_t> threads{0};
  detail::PoolLane &lane = detail::current().lane;
  const std::uint32_t generation = platform::fork_generation();
  if (!lane.is_known || lane.fork_generation != generation)
    lane = {static_cast<std::uint32_t>(getpid()) + threads.fetch_add(1, std::memory_order_relaxed),
            generation, true, 0};
  return lane;
}

}  // namespace

pools::pools(const allocator_type &heap) {
  // Files hold them. Another layout, or other size classes, need another size of this class:
  // Segment::root() then refuses those of before.
  static_assert(sizeof(List) == 64 && offsetof(List, free) == 0 && offsetof(List, unused) == 8 &&
                offsetof(List, end) == 16 && offsetof(List, chunks) == 24);
  static_assert(sizeof(Chunk) == 64 && offsetof(Chunk, next) == 0 && offsetof(Chunk, bytes) == 8 &&
                offsetof(Block, next) == 0);
  static_assert(sizeof(Lane) == kPageBytes && sizeof(pools) == kLanes * kPageBytes &&
                offsetof(Lane, lists) == 0 && offsetof(Lane, heap) == 64 * kClasses &&
                kLanes == 16 && kClasses == 20);
  static_assert(kLineBytes == kLine && kClasses == class_of(kBlockBytesMax) + 1);
  const Segment segment = segment_of(heap.base());
  if (!segment) {
    platform::fail(Errc::kNotMapped, "pools of a segment that is not mapped in this process");
    detail::raise(Errc::kNotMapped);
  }
  if (segment.is_relocatable()) {
    platform::fail(Errc::kBadArgument,
                   segment.name() + ": pools need a segment that has one address in all processes");
    detail::raise(Errc::kBadArgument);
  }
  for (Lane &lane : lanes_) lane.heap = heap.base();
}

pools::~pools() {
  for (Lane &lane : lanes_) {
    for (List &list : lane.lists) {
      for (Chunk *chunk = list.chunks; chunk != nullptr;) {
        Chunk *const next = chunk->next;
        detail::heap_deallocate(lane.heap, chunk, chunk->bytes, kPageBytes);
        chunk = next;
      }
    }
  }
}

void *pools::pop(List &list) {
  Block *const block = list.free;
  if (block != nullptr) list.free = block->next;
  return block;
}

namespace {
// The next block of the newest chunk that crosses no page and lies as class_of() says; null: none
// is left.
std::byte *next_block(std::byte *unused, const std::byte *end, std::size_t bytes) noexcept {
  TMH_ASSERT(bytes >= kLine && bytes <= kPageBytes);
  if (unused == nullptr) return nullptr;
  const std::size_t in_page = reinterpret_cast<std::uintptr_t>(unused) % kPageBytes;
  const std::size_t rest = kPageBytes - in_page;
  const std::size_t skipped = rest < bytes                 ? rest
                              : std::has_single_bit(bytes) ? -in_page & (bytes - 1)
                                                           : 0;
  std::byte *const block = unused + skipped;
  return block + bytes <= end ? block : nullptr;
}
}  // namespace

// The whole list of another lane's at level 2, where looking for it has read a page of each lane on
// the way, and made this instance one that fails when another one commits there. At level 1 one
// block: the attempt may still have `own` filled, if it leaves it alone.
void *pools::take_from(List &other, List &own) {
  TMH_ASSERT(&other != &own);
  Block *const block = other.free;
  if (block == nullptr) return nullptr;
  Block *const rest = block->next;
  if (detail::current().lines.depth != 0) {
    other.free = rest;
  } else {
    other.free = nullptr;
    own.free = rest;
  }
  return block;
}

void *pools::take_from_others(std::uint32_t own, std::size_t size_class) {
  TMH_ASSERT(own < kLanes && size_class < kClasses);
  std::uint32_t &fed_by = lane_here().fed_by;
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    const std::uint32_t away = (fed_by + i) % kLanes;
    if (away == 0) continue;
    List &other = lanes_[(own + away) % kLanes].lists[size_class];
    void *const block = take_from(other, lanes_[own].lists[size_class]);
    if (block == nullptr) continue;
    fed_by = away;
    return block;
  }
  return nullptr;
}

void *pools::cut(List &list, std::size_t bytes) {
  std::byte *const block = next_block(list.unused, list.end, bytes);
  if (block != nullptr) list.unused = block + bytes;
  return block;
}

// Unless another thread has done so meanwhile.
void pools::refill(Lane &lane, std::size_t size_class) {
  TMH_ASSERT(size_class < kClasses);
  List &list = lane.lists[size_class];
  if (list.free != nullptr || next_block(list.unused, list.end, bytes_of(size_class)) != nullptr)
    return;
  const Chunk *const newest = list.chunks;
  std::size_t bytes =
      newest == nullptr ? kChunkBytesMin : std::min<std::size_t>(2 * newest->bytes, kChunkBytesMax);
  auto *const chunk = static_cast<Chunk *>(chunk_of_at_most(lane.heap, &bytes));
  auto *const first = reinterpret_cast<std::byte *>(chunk);
  chunk->next = list.chunks;
  chunk->bytes = bytes;
  list.chunks = chunk;
  list.unused = first + sizeof(Chunk);
  list.end = first + bytes;
}

// At level 2 what the attempt has seen would go up with it, and come down again. So the attempt is
// undone, and sees a full list the next time. But who has emptied it himself would find it as it
// was.
void pools::go_and_refill(Lane &lane, std::size_t size_class) {
  TMH_ASSERT(detail::current().lines.depth != 0);
  if (detail::current().lines.thread->has_written(&lane.lists[size_class]))
    detail::need_pages(Need::kPoolAllocate);
  const auto fill = [this, &lane, size_class, domain = detail::domain_of(segment_of(this))] {
    atomically(domain, [&] {
      // Between two attempts anybody may unmap: see Domain::unmap(). From here on he waits.
      if (segment_of(this)) refill(lane, size_class);
    });
  };
  detail::begin_again(Need::kPoolAllocate, fill);
}

void *pools::allocate(std::size_t bytes, std::size_t alignment) {
  const std::uint32_t own = lane_here().number % kLanes;
  Lane &lane = lanes_[own];
  if (is_of_the_heap(bytes, alignment))
    return detail::heap_allocate_for(Need::kPoolAllocate, lane.heap, bytes, alignment);
  if (detail::is_page_query_here()) [[unlikely]]
    detail::raise_query_wrote(segment_of(this).name(), "allocation");
  const std::size_t size_class = class_of(bytes, alignment), block_bytes = bytes_of(size_class);
  TMH_ASSERT(size_class < kClasses && block_bytes >= bytes);
  List &list = lane.lists[size_class];
  for (;;) {
    if (void *const block = pop(list); block != nullptr) return block;
    if (void *const block = cut(list, block_bytes); block != nullptr) return block;
    if (void *const block = take_from_others(own, size_class); block != nullptr) return block;
    if (detail::current().lines.depth != 0) go_and_refill(lane, size_class);
    refill(lane, size_class);
  }
}

void pools::deallocate(void *block, std::size_t bytes, std::size_t alignment) {
  if (block == nullptr) return;
  Lane &lane = lanes_[lane_here().number % kLanes];
  if (is_of_the_heap(bytes, alignment))
    return detail::heap_deallocate_for(Need::kPoolDeallocate, lane.heap, block, bytes, alignment);
  if (detail::is_page_query_here()) [[unlikely]]
    detail::raise_query_wrote(segment_of(this).name(), "deallocation");
  List &list = lane.lists[class_of(bytes, alignment)];
  auto *const freed = static_cast<Block *>(block);
  freed->next = list.free;
  list.free = freed;
}

std::uint64_t pools::free_blocks(std::size_t bytes, std::size_t alignment) const {
  if (is_of_the_heap(bytes, alignment)) return 0;
  std::uint64_t count = 0;
  for (const Lane &lane : lanes_)
    for (const Block *block = lane.lists[class_of(bytes, alignment)].free; block != nullptr;
         block = block->next)
      ++count;
  return count;
}

std::uint64_t pools::chunks() const {
  std::uint64_t count = 0;
  for (const Lane &lane : lanes_)
    for (const List &list : lane.lists)
      for (const Chunk *chunk = list.chunks; chunk != nullptr; chunk = chunk->next) ++count;
  return count;
}

}  // namespace tmh
