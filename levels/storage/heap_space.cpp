// levels/storage/heap_space.cpp -- whole pages for a heap: an arena's chunk and cache, the page
// map, growth, reclaim. See heap_arena.h.
#include <algorithm>

#include "levels/storage/heap_arena.h"
#include "platform/try.h"

namespace tmh::storage {
namespace {

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
