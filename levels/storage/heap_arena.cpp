// levels/storage/heap_arena.cpp -- see heap_arena.h. Blocks; where the pages come from is in
// heap_space.cpp.
#include "levels/storage/heap_arena.h"

#include <algorithm>
#include <bit>

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

}  // namespace

// A slab of this class that is in this arena's partial list; null when the bytes say otherwise.
RunHeaderV1 *Arena::partial_slab(HeapPage page, std::uint32_t class_index) const noexcept {
  RunHeaderV1 *slab = pages_.run(page, RunKind::kSlab);
  return slab != nullptr && slab->class_index == class_index && slab->owner == index_ + 1 ? slab
                                                                                          : nullptr;
}

Errc Arena::push_partial(HeapPage page, RunHeaderV1 *slab) noexcept {
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

}  // namespace tmh::storage
