// storage/heap/heap_arena.h -- one participant's arena: small and medium blocks, and where their
// pages come from.
// Shape:     ArenaV1 in a page of its own; its slabs and runs carry RunHeaderV1 (heap_layout.h).
//              chunk    pages taken from the page map at once, handed out from the front
//              cache    free runs of 1 to 9 pages, one list per length
//              partial  slabs with a free block, one doubly linked list per size class
// Invariant: (1) a slab is in exactly one partial list when it has a free block, and in none when
//                it is full. Its list belongs to any arena; only that arena takes it out again, but
//                for reclaim().
//            (2) the cache holds at most as many pages as the next chunk has, so that pages go back
//                to the page map no more often than they come from there.
// Sharing, contexts, hostile bytes: as heap.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/error.hpp>

#include "platform/assert.h"
#include "storage/heap/heap.h"
#include "storage/heap/heap_layout.h"
#include "storage/heap/heap_page_map.h"

namespace tmh::storage {

// 64 KiB for the first chunk, for a participant that allocates a little; doubled with each up to 1
// MiB: one write of the shared page map per 256 pages, and not more than 1 MiB idle per
// participant.
inline constexpr std::uint32_t kChunkPagesMin = 16;
inline constexpr std::uint32_t kChunkPagesMax = 256;

// `page_count` pages: first fit, else from the top, else after growing the segment, else what
// reclaim_arenas() frees.
// Errors: kSegmentFull, kCorrupt, or what grow() said.
[[nodiscard]] Errc acquire_pages(HeapContext &context, std::uint32_t page_count, RunUse use,
                                 HeapPage *first) noexcept;

// Gives everything that all arenas keep idle back to the page map: cached runs, rests of chunks,
// empty slabs. Writes many participants' pages, so it is the last resort of a full segment.
// *released_pages may be zero.
[[nodiscard]] Errc reclaim_arenas(HeapContext &context, std::uint64_t *released_pages) noexcept;

class Arena {
 public:
  explicit Arena(HeapContext &context) noexcept : Arena(context, context.arena % kArenaCount) {}
  Arena(HeapContext &context, std::uint32_t index) noexcept
      : context_(context),
        pages_(context.base, context.size_bytes),
        index_(index),
        arena_(pages_.at<ArenaV1>(kFirstArenaPage + index)) {
    TMH_ASSERT(context.base != nullptr && index < kArenaCount);
  }

  [[nodiscard]] Errc allocate_small(std::uint32_t class_index, void **block) noexcept;
  [[nodiscard]] Errc allocate_medium(std::size_t bytes, std::size_t alignment,
                                     void **block) noexcept;
  // offset: of the pointer from base, not a multiple of 4096. bytes: as in heap_deallocate().
  [[nodiscard]] Errc deallocate(std::uint64_t offset, std::size_t bytes) noexcept;
  // See reclaim_arenas().
  [[nodiscard]] Errc reclaim(std::uint64_t *released_pages) noexcept;

 private:
  [[nodiscard]] Errc deallocate_small(HeapPage page, std::uint32_t in_page,
                                      std::size_t bytes) noexcept;
  [[nodiscard]] Errc deallocate_medium(HeapPage page, std::uint32_t in_page,
                                       std::size_t bytes) noexcept;

  [[nodiscard]] Errc take_run(std::uint32_t page_count, HeapPage *first) noexcept;
  [[nodiscard]] Errc take_chunk(std::uint32_t page_count_min) noexcept;
  [[nodiscard]] Errc acquire_chunk(std::uint32_t least, HeapPage *first,
                                   std::uint32_t *page_count) noexcept;
  [[nodiscard]] Errc pop_cached(std::uint32_t page_count, HeapPage *first) noexcept;
  void push_cached(HeapPage first, std::uint32_t page_count) noexcept;
  [[nodiscard]] Errc cache_run(HeapPage first, std::uint32_t page_count) noexcept;
  [[nodiscard]] Errc flush_cache(std::uint32_t keep_pages, std::uint64_t *released_pages) noexcept;

  [[nodiscard]] RunHeaderV1 *partial_slab(HeapPage page, std::uint32_t class_index) const noexcept;
  [[nodiscard]] Errc push_partial(HeapPage page, RunHeaderV1 *slab) noexcept;
  [[nodiscard]] Errc unlink_partial(HeapPage page, RunHeaderV1 *slab) noexcept;

  HeapContext &context_;
  HeapPages pages_;
  std::uint32_t index_;
  ArenaV1 *arena_;
};

}  // namespace tmh::storage
