// storage/heap/heap_arena.cpp -- see heap_arena.h. Blocks; then whole pages: an arena's chunk and
// cache, the page map, growth, reclaim.
#include "storage/heap/heap_arena.h"

#include <algorithm>
#include <bit>

#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::storage {
namespace {

constexpr bool is_taken(const RunHeaderV1 &slab, std::uint32_t block) noexcept {
  return ((slab.taken[block / 64] >> (block % 64)) & 1) != 0;
}

// First free block of the slab; `block_count` when its bits are all set.
std::uint32_t first_free_block(const RunHeaderV1 &slab, std::uint32_t block_count) noexcept {
  for (std::uint32_t word = 0; word * 64 < block_count; ++word) {
    if (~slab.taken[word] != 0) {
      return std::min(word * 64 + static_cast<std::uint32_t>(std::countr_one(slab.taken[word])),
                      block_count);
    }
  }
  return block_count;
}

constexpr std::uint32_t pages_for(std::uint64_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + kPageBytes - 1) / kPageBytes);
}

// Growing stops every participant for a moment, and the commit that needs it, in a durable domain,
// for a wait for the disk (1 to 2 ms here: the p99.9 of small commits). So it is done in steps of a
// quarter of the segment, at least 8 MiB: 1 GiB is reached from 1 MiB in about 20 steps. The file
// is sparse; unused pages cost nothing.
constexpr std::uint64_t kGrowBytesMin = std::uint64_t{8} << 20;

// Makes the segment at least pages_needed long.
Errc grow_to(HeapContext &context, std::uint64_t pages_needed) noexcept {
  const std::uint64_t limit =
      std::min(context.max_bytes, kHeapPagesMax * kPageBytes) / kPageBytes * kPageBytes;
  const std::uint64_t needed = pages_needed * kPageBytes;
  if (needed > limit || needed <= context.size_bytes || context.grow == nullptr)
    return Errc::kSegmentFull;
  const std::uint64_t step =
      std::max(kGrowBytesMin, context.size_bytes / 4 / kPageBytes * kPageBytes);
  const std::uint64_t generous = std::max(needed, std::min(limit, context.size_bytes + step));
  // A nearly full device may still have what is needed.
  for (const std::uint64_t target : {generous, needed}) {
    Errc why = Errc::kSegmentFull;
    if (context.grow(context.grow_context, target, &why)) {
      context.size_bytes = std::max(context.size_bytes, target);
      return Errc::kOk;
    }
    // A callback that fails without a reason is a fault of the system below.
    if (why == Errc::kOk) return Errc::kIo;
    if (target == needed || why != Errc::kDiskFull) return why;
  }
  return Errc::kSegmentFull;
}

// Without growing: first fit, else the top.
Errc take_or_extend(const HeapContext &context, std::uint32_t page_count, RunUse use,
                    HeapPage *first, std::uint64_t *pages_needed) noexcept {
  PageMap map(HeapPages(context.base, context.size_bytes));
  if (const Errc error = map.take(page_count, use, first); error != Errc::kSegmentFull)
    return error;
  return map.extend(page_count, use, first, pages_needed);
}

Errc take_or_grow(HeapContext &context, std::uint32_t page_count, RunUse use,
                  HeapPage *first) noexcept {
  std::uint64_t pages_needed = 0;
  Errc error = take_or_extend(context, page_count, use, first, &pages_needed);
  if (error != Errc::kSegmentFull) return error;
  if (error = grow_to(context, pages_needed); error != Errc::kOk) return error;
  return take_or_extend(context, page_count, use, first, &pages_needed);
}

constexpr bool is_shortage(Errc error) noexcept {
  return error == Errc::kSegmentFull || error == Errc::kDiskFull;
}

}  // namespace

// A slab of this class that is in this arena's partial list; null when the bytes say otherwise.
RunHeaderV1 *Arena::partial_slab(HeapPage page, std::uint32_t class_index) const noexcept {
  RunHeaderV1 *slab = pages_.run(page, RunKind::kSlab);
  return slab != nullptr && slab->class_index == class_index && slab->owner == index_ + 1 ? slab
                                                                                          : nullptr;
}

Errc Arena::push_partial(HeapPage page, RunHeaderV1 *slab) noexcept {
  TMH_ASSERT(slab != nullptr && slab->class_index < kClassBytes.size());
  auto &head = arena_->partial_head[slab->class_index];
  if (head != 0) {
    RunHeaderV1 *next = partial_slab(HeapPage{head}, slab->class_index);
    if (next == nullptr) return Errc::kCorrupt;
    next->previous_page = raw(page);
  }
  slab->next_page = head;
  slab->previous_page = 0;
  slab->owner = index_ + 1;
  head = raw(page);
  return Errc::kOk;
}

// The new head keeps its stale previous_page: writing it would touch a page that this instance may
// have no other business with.
Errc Arena::unlink_partial(HeapPage page, RunHeaderV1 *slab) noexcept {
  TMH_ASSERT(slab != nullptr && slab->class_index < kClassBytes.size());
  auto &head = arena_->partial_head[slab->class_index];
  if (head == raw(page)) {
    head = slab->next_page;
  } else {
    RunHeaderV1 *previous = partial_slab(HeapPage{slab->previous_page}, slab->class_index);
    if (previous == nullptr || previous->next_page != raw(page)) return Errc::kCorrupt;
    if (slab->next_page != 0) {
      RunHeaderV1 *next = partial_slab(HeapPage{slab->next_page}, slab->class_index);
      if (next == nullptr) return Errc::kCorrupt;
      next->previous_page = slab->previous_page;
    }
    previous->next_page = slab->next_page;
  }
  slab->next_page = 0;
  slab->previous_page = 0;
  slab->owner = 0;
  return Errc::kOk;
}

Errc Arena::allocate_small(std::uint32_t class_index, void **block) noexcept {
  TMH_ASSERT(class_index < kClassBytes.size());
  const std::uint32_t block_count = class_block_count(class_index);
  if (arena_->partial_head[class_index] == 0) {
    HeapPage fresh{};
    TMH_TRY(take_run(1, &fresh));
    auto *header = pages_.at<RunHeaderV1>(fresh);
    *header = RunHeaderV1{};
    header->magic = kRunMagic + raw(fresh);
    header->kind = RunKind::kSlab;
    header->class_index = static_cast<std::uint8_t>(class_index);
    header->page_count = 1;
    // Not assumed empty: take_run() may have reclaimed, but it never fills a list.
    TMH_TRY(push_partial(fresh, header));
  }
  const HeapPage page{arena_->partial_head[class_index]};
  RunHeaderV1 *slab = partial_slab(page, class_index);
  if (slab == nullptr) return Errc::kCorrupt;
  const std::uint32_t index = first_free_block(*slab, block_count);
  if (index == block_count || slab->live_count >= block_count) return Errc::kCorrupt;
  if (slab->live_count + 1U == block_count) {
    TMH_TRY(unlink_partial(page, slab));
  }
  slab->taken[index / 64] |= std::uint64_t{1} << (index % 64);
  ++slab->live_count;
  *block = pages_.at<std::byte>(page) +
           (kPageBytes - (index + 1) * std::uint32_t{kClassBytes[class_index]});
  return Errc::kOk;
}

Errc Arena::allocate_medium(std::size_t bytes, std::size_t alignment, void **block) noexcept {
  TMH_ASSERT(alignment > 0 && (alignment & (alignment - 1)) == 0);
  TMH_ASSERT(alignment <= kPageBytes);
  const auto block_offset =
      static_cast<std::uint32_t>(std::max<std::size_t>(kRunHeaderBytes, alignment));
  const std::uint32_t page_count = pages_for(block_offset + bytes);
  HeapPage first{};
  TMH_TRY(take_run(page_count, &first));
  auto *header = pages_.at<RunHeaderV1>(first);
  *header = RunHeaderV1{};
  header->magic = kRunMagic + raw(first);
  header->kind = RunKind::kMedium;
  header->page_count = page_count;
  header->block_offset = block_offset;
  header->taken[0] = bytes;
  *block = pages_.at<std::byte>(first) + block_offset;
  return Errc::kOk;
}

Errc Arena::deallocate(std::uint64_t offset, std::size_t bytes) noexcept {
  TMH_ASSERT(offset % kPageBytes != 0);
  const HeapPage page{static_cast<std::uint32_t>(offset / kPageBytes)};
  const auto in_page = static_cast<std::uint32_t>(offset % kPageBytes);
  if (pages_.run(page, RunKind::kSlab) != nullptr) return deallocate_small(page, in_page, bytes);
  if (pages_.run(page, RunKind::kMedium) != nullptr) return deallocate_medium(page, in_page, bytes);
  return Errc::kBadFree;
}

Errc Arena::deallocate_small(HeapPage page, std::uint32_t in_page, std::size_t bytes) noexcept {
  auto *slab = pages_.at<RunHeaderV1>(page);
  const std::uint32_t class_index = slab->class_index;
  if (class_index >= kClassCount) return Errc::kCorrupt;
  const std::uint32_t block_bytes = kClassBytes[class_index];
  const std::uint32_t from_end = static_cast<std::uint32_t>(kPageBytes) - in_page;
  if (from_end % block_bytes != 0 || bytes > block_bytes) return Errc::kBadFree;
  const std::uint32_t index = from_end / block_bytes - 1;
  if (index >= class_block_count(class_index) || !is_taken(*slab, index)) return Errc::kBadFree;
  if (slab->live_count == 0 ||
      (slab->owner == 0) != (slab->live_count == class_block_count(class_index))) {
    return Errc::kCorrupt;
  }

  const bool now_empty = slab->live_count == 1;
  const bool was_full = slab->owner == 0;
  bool to_cache = now_empty && was_full;  // a slab of one block
  if (was_full && !now_empty) {
    TMH_TRY(push_partial(page, slab));
  } else if (now_empty && slab->owner == index_ + 1) {
    // The last slab of its class stays, or a lone block that comes and goes would take and return a
    // page each time.
    const bool last_of_class =
        arena_->partial_head[class_index] == raw(page) && slab->next_page == 0;
    if (!last_of_class) {
      TMH_TRY(unlink_partial(page, slab));
      to_cache = true;
    }
    // An empty slab in another arena's list stays there: taking it out would write that arena's
    // pages.
  }
  slab->taken[index / 64] &= ~(std::uint64_t{1} << (index % 64));
  --slab->live_count;
  return to_cache ? cache_run(page, 1) : Errc::kOk;
}

Errc Arena::deallocate_medium(HeapPage page, std::uint32_t in_page, std::size_t bytes) noexcept {
  auto *header = pages_.at<RunHeaderV1>(page);
  const std::uint32_t page_count = header->page_count;
  const std::uint64_t block_bytes = header->taken[0];
  if (header->block_offset != in_page || (bytes != 0 && bytes != block_bytes))
    return Errc::kBadFree;
  const bool sizes_agree =
      block_bytes <= kMediumBytesMax && pages_for(in_page + block_bytes) == page_count;
  if (!sizes_agree || !pages_.has(page, page_count)) return Errc::kCorrupt;
  return cache_run(page, page_count);
}

Errc reclaim_arenas(HeapContext &context, std::uint64_t *released_pages) noexcept {
  *released_pages = 0;
  for (std::uint32_t index = 0; index < kArenaCount; ++index) {
    TMH_TRY(Arena(context, index).reclaim(released_pages));
  }
  return Errc::kOk;
}

Errc acquire_pages(HeapContext &context, std::uint32_t page_count, RunUse use,
                   HeapPage *first) noexcept {
  const Errc shortage = take_or_grow(context, page_count, use, first);
  if (!is_shortage(shortage)) return shortage;
  std::uint64_t released_pages = 0;
  TMH_TRY(reclaim_arenas(context, &released_pages));
  return released_pages == 0 ? shortage : take_or_grow(context, page_count, use, first);
}

// A chunk of the size that is due; else smaller ones, as `least` allows, before giving up. Before
// growing only down to the smallest regular chunk, since a fragment of a page or two would soon
// bring the next write of the shared page map.
Errc Arena::acquire_chunk(std::uint32_t least, HeapPage *first,
                          std::uint32_t *page_count) noexcept {
  const std::uint32_t wanted = std::clamp(arena_->chunk_pages, kChunkPagesMin, kChunkPagesMax);
  // Halves from `from` to `down_to` until one fits; a full device counts as a full segment here.
  const auto try_sizes = [&](std::uint32_t from, std::uint32_t down_to, bool may_grow) {
    std::uint64_t pages_needed = 0;
    for (*page_count = from;; *page_count = std::max(*page_count / 2, down_to)) {
      const Errc error =
          may_grow ? take_or_grow(context_, *page_count, RunUse::kReserved, first)
                   : take_or_extend(context_, *page_count, RunUse::kReserved, first, &pages_needed);
      if (!is_shortage(error) || *page_count == down_to) return error;
    }
  };
  Errc error = try_sizes(wanted, kChunkPagesMin, false);
  if (is_shortage(error)) error = try_sizes(wanted, least, true);
  if (!is_shortage(error)) return error;
  std::uint64_t released_pages = 0;
  TMH_TRY(reclaim_arenas(context_, &released_pages));
  return released_pages == 0 ? error : try_sizes(kChunkPagesMin, least, true);
}

Errc Arena::take_chunk(std::uint32_t page_count_min) noexcept {
  HeapPage first{};
  std::uint32_t page_count = 0;
  TMH_TRY(acquire_chunk(page_count_min, &first, &page_count));
  pages_ = HeapPages(context_.base, context_.size_bytes);  // it may have grown
  // Too short for the run that is wanted now, so at most 8 pages: it fits a list of the cache.
  const std::uint32_t rest = arena_->chunk_end - arena_->chunk_next;
  if (rest != 0) push_cached(HeapPage{arena_->chunk_next}, rest);
  arena_->chunk_next = raw(first);
  arena_->chunk_end = raw(first) + page_count;
  arena_->chunk_pages =
      std::min(std::clamp(arena_->chunk_pages, kChunkPagesMin, kChunkPagesMax) * 2, kChunkPagesMax);
  return Errc::kOk;
}

// Exact fit from the cache, else the chunk, else a longer cached run, else a new chunk.
Errc Arena::take_run(std::uint32_t page_count, HeapPage *first) noexcept {
  if (arena_->cached_head[page_count] != 0) return pop_cached(page_count, first);
  const std::uint32_t rest = arena_->chunk_end - arena_->chunk_next;
  if (rest != 0 &&
      (arena_->chunk_end < arena_->chunk_next || !pages_.has(HeapPage{arena_->chunk_next}, rest))) {
    return Errc::kCorrupt;
  }
  if (rest < page_count) {
    for (std::uint32_t longer = page_count + 1; longer <= kMediumPagesMax; ++longer) {
      if (arena_->cached_head[longer] == 0) continue;
      TMH_TRY(pop_cached(longer, first));
      push_cached(*first + page_count, longer - page_count);
      return Errc::kOk;
    }
    TMH_TRY(take_chunk(page_count));
  }
  *first = HeapPage{arena_->chunk_next};
  arena_->chunk_next += page_count;
  // A chunk that is used up is forgotten: its pages may go back to the page map, and more.
  if (arena_->chunk_next == arena_->chunk_end) arena_->chunk_next = arena_->chunk_end = 0;
  return Errc::kOk;
}

void Arena::push_cached(HeapPage first, std::uint32_t page_count) noexcept {
  auto *header = pages_.at<RunHeaderV1>(first);
  *header = RunHeaderV1{};
  header->magic = kRunMagic + raw(first);
  header->kind = RunKind::kCached;
  header->page_count = page_count;
  header->next_page = arena_->cached_head[page_count];
  arena_->cached_head[page_count] = raw(first);
  arena_->cached_pages += page_count;
}

// The run leaves without a valid header: heap_layout.h, Invariant (3).
Errc Arena::pop_cached(std::uint32_t page_count, HeapPage *first) noexcept {
  const HeapPage head{arena_->cached_head[page_count]};
  RunHeaderV1 *header = pages_.run(head, RunKind::kCached);
  if (header == nullptr || header->page_count != page_count || !pages_.has(head, page_count) ||
      arena_->cached_pages < page_count) {
    return Errc::kCorrupt;
  }
  arena_->cached_head[page_count] = header->next_page;
  arena_->cached_pages -= page_count;
  header->magic = 0;
  *first = head;
  return Errc::kOk;
}

Errc Arena::cache_run(HeapPage first, std::uint32_t page_count) noexcept {
  push_cached(first, page_count);
  const std::uint32_t pages_max = std::clamp(arena_->chunk_pages, kChunkPagesMin, kChunkPagesMax);
  if (arena_->cached_pages <= pages_max) return Errc::kOk;
  std::uint64_t released_pages = 0;
  // Half, so that the next flush is as far away again.
  return flush_cache(pages_max / 2, &released_pages);
}

// Longest first: they are the best pieces for others, and this arena can make single pages of
// anything.
Errc Arena::flush_cache(std::uint32_t keep_pages, std::uint64_t *released_pages) noexcept {
  PageMap map(pages_);
  for (std::uint32_t length = kMediumPagesMax; length >= 1; --length) {
    while (arena_->cached_pages > keep_pages && arena_->cached_head[length] != 0) {
      HeapPage first{};
      TMH_TRY(pop_cached(length, &first));
      TMH_TRY(map.release(first, length, RunUse::kReserved));
      *released_pages += length;
    }
  }
  return Errc::kOk;
}

Errc Arena::reclaim(std::uint64_t *released_pages) noexcept {
  PageMap map(pages_);
  for (std::uint32_t class_index = 0; class_index < kClassCount; ++class_index) {
    std::uint32_t at = arena_->partial_head[class_index];
    for (std::uint32_t visited = 0; at != 0; ++visited) {
      RunHeaderV1 *slab = partial_slab(HeapPage{at}, class_index);
      // The latter: a ring.
      if (slab == nullptr || visited > pages_.page_count) return Errc::kCorrupt;
      const HeapPage page{at};
      at = slab->next_page;
      if (slab->live_count != 0) continue;
      TMH_TRY(unlink_partial(page, slab));
      slab->magic = 0;
      TMH_TRY(map.release(page, 1, RunUse::kReserved));
      ++*released_pages;
    }
  }
  TMH_TRY(flush_cache(0, released_pages));
  const std::uint32_t rest = arena_->chunk_end - arena_->chunk_next;
  if (rest != 0) {
    TMH_TRY(map.release(HeapPage{arena_->chunk_next}, rest, RunUse::kReserved));
    *released_pages += rest;
    arena_->chunk_next = 0;
    arena_->chunk_end = 0;
  }
  return Errc::kOk;
}

}  // namespace tmh::storage
