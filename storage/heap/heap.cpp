// storage/heap/heap.cpp -- see heap.h: format, verify, and the way of each size to its source of
// memory.
#include "storage/heap/heap.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "platform/try.h"
#include "storage/heap/heap_arena.h"
#include "storage/heap/heap_layout.h"
#include "storage/heap/heap_page_map.h"

namespace tmh::storage {
namespace {

// FNV-1a, 64 bits: xor and odd multiplication are both invertible, so that any change of one byte
// changes the result.
std::uint64_t header_checksum(const HeaderV1 &header) noexcept {
  unsigned char bytes[offsetof(HeaderV1, checksum)];
  std::memcpy(bytes, &header, sizeof bytes);
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x0000'0100'0000'01b3;
  return hash;
}

HeaderV1 expected_header() noexcept {
  HeaderV1 header{};
  header.magic = kHeapMagic;
  header.format_version = kHeapVersion;
  header.header_bytes = sizeof(HeaderV1);
  header.page_bytes = kPageBytes;
  header.zone_pages = kZonePages;
  header.arena_count = kArenaCount;
  header.first_arena_page = raw(kFirstArenaPage);
  header.root_chain_count = kRootChainCount;
  header.first_root_page = raw(kFirstRootPage);
  header.first_run_page = raw(kFirstRunPage);
  header.class_count = kClassCount;
  header.checksum = header_checksum(header);
  return header;
}

// Smallest class for each multiple of 16 bytes up to the largest block.
constexpr std::uint32_t kGranuleBytes = 16;
constexpr std::uint32_t kSmallBytesMax = kClassBytes.back();
constexpr auto kClassOfGranules = [] {
  std::array<std::uint8_t, kSmallBytesMax / kGranuleBytes + 1> table{};
  std::uint8_t class_index = 0;
  for (std::uint32_t granules = 0; granules < table.size(); ++granules) {
    if (granules * kGranuleBytes > kClassBytes[class_index]) ++class_index;
    table[granules] = class_index;
  }
  return table;
}();
static_assert(kSmallBytesMax % kGranuleBytes == 0 && kClassOfGranules.back() == kClassCount - 1);

// kClassCount when no class has blocks of this size and alignment.
std::uint32_t class_for(std::size_t bytes, std::size_t alignment) noexcept {
  if (bytes > kSmallBytesMax) return kClassCount;
  std::uint32_t class_index = kClassOfGranules[(bytes + kGranuleBytes - 1) / kGranuleBytes];
  while (class_index < kClassCount && kClassBytes[class_index] % alignment != 0) ++class_index;
  return class_index;
}

Errc allocate_large(HeapContext &context, std::size_t bytes, void **block) noexcept {
  const std::uint64_t page_count = (std::uint64_t{bytes} + kPageBytes - 1) / kPageBytes;
  HeapPage first{};
  const Errc error =
      acquire_pages(context, static_cast<std::uint32_t>(page_count), RunUse::kLarge, &first);
  if (error == Errc::kOk) *block = HeapPages(context.base, context.size_bytes).at<std::byte>(first);
  return error;
}

Errc deallocate_large(HeapContext &context, HeapPage first, std::size_t bytes) noexcept {
  PageMap map(HeapPages(context.base, context.size_bytes));
  std::uint32_t page_count = 0;
  TMH_TRY(map.large_run_pages(first, &page_count));
  const std::uint64_t run_bytes = std::uint64_t{page_count} * kPageBytes;
  if (bytes != 0 && (bytes > run_bytes || run_bytes - bytes >= kPageBytes)) return Errc::kBadFree;
  return map.release(first, page_count, RunUse::kLarge);
}

}  // namespace

Errc heap_format(std::byte *base, std::uint64_t size_bytes) noexcept {
  if (size_bytes % kPageBytes != 0) return Errc::kMisalignedLength;
  if (base == nullptr || size_bytes < kHeapBytesMin || size_bytes / kPageBytes > kHeapPagesMax)
    return Errc::kBadArgument;
  const HeapPages pages(base, size_bytes);
  // The rest of page 0 and all other fixed pages are right as zeros: heap_layout.h, Invariant (1).
  *pages.at<HeaderV1>(HeapPage{0}) = expected_header();
  auto *map = pages.at<MapHeaderV1>(kMapPage);
  map->magic = kMapMagic;
  map->top_page = raw(kFirstRunPage);
  map->reserved_pages = raw(kFirstRunPage);
  map->directories[0] = raw(kFirstDirectoryPage);
  // Nothing is free below top_page.
  pages.at<ZoneV1>(kFirstDirectoryPage)->leaf_page = raw(kFirstLeafPage);
  auto *leaf = pages.at<LeafV1>(kFirstLeafPage);
  for (std::uint32_t page = 0; page < raw(kFirstRunPage); ++page) {
    leaf->low[page / 64] |= std::uint64_t{1} << (page % 64);
    leaf->high[page / 64] |= std::uint64_t{1} << (page % 64);
  }
  return Errc::kOk;
}

Errc heap_bind_address(std::byte *base, std::uint64_t view_address) noexcept {
  auto *header = reinterpret_cast<HeaderV1 *>(base);
  if (header->view_address == view_address) return Errc::kOk;
  if (header->view_address != 0) return Errc::kSegmentMismatch;
  header->view_address = view_address;
  header->checksum = header_checksum(*header);
  return Errc::kOk;
}

bool heap_is_bound(const std::byte *base) noexcept {
  return reinterpret_cast<const HeaderV1 *>(base)->view_address != 0;
}

bool heap_is_formatted(const std::byte *base) noexcept {
  std::uint64_t magic = 0;
  std::memcpy(&magic, base, sizeof magic);
  return magic == kHeapMagic;
}

Errc heap_verify(const std::byte *base, std::uint64_t size_bytes) noexcept {
  if (size_bytes < sizeof(HeaderV1)) return Errc::kShortFile;
  HeaderV1 header;
  std::memcpy(&header, base, sizeof header);
  const HeaderV1 expected = expected_header();
  if (header.magic != expected.magic) return Errc::kNotAHeap;
  if (header.format_version != expected.format_version) return Errc::kForeignVersion;
  if (header.features_incompat != 0 || header.features_ro_compat != 0)
    return Errc::kUnsupportedFeature;
  const bool same_sizes =
      header.header_bytes == expected.header_bytes && header.page_bytes == expected.page_bytes &&
      header.zone_pages == expected.zone_pages && header.arena_count == expected.arena_count &&
      header.first_arena_page == expected.first_arena_page &&
      header.root_chain_count == expected.root_chain_count &&
      header.first_root_page == expected.first_root_page &&
      header.first_run_page == expected.first_run_page &&
      header.class_count == expected.class_count;
  if (!same_sizes) return Errc::kSegmentMismatch;
  for (const std::uint32_t reserved : header.reserved_zero) {
    if (reserved != 0) return Errc::kBadArgument;
  }
  if (header.checksum != header_checksum(header)) return Errc::kCorrupt;
  if (size_bytes < std::uint64_t{raw(kFirstRunPage)} * kPageBytes) return Errc::kShortFile;
  return Errc::kOk;
}

void *heap_allocate(HeapContext &context, std::size_t bytes, std::size_t alignment,
                    Errc *why) noexcept {
  void *block = nullptr;
  *why = Errc::kSegmentFull;
  if (!std::has_single_bit(alignment) || alignment > kPageBytes) {
    *why = Errc::kBadArgument;
  } else if (bytes <= kHeapPagesMax * kPageBytes) {
    const std::size_t wanted = std::max<std::size_t>(bytes, 1);
    const std::uint32_t class_index = class_for(wanted, alignment);
    if (class_index < kClassCount) {
      *why = Arena(context).allocate_small(class_index, &block);
    } else if (wanted <= kMediumBytesMax && alignment <= kMediumAlignmentMax) {
      *why = Arena(context).allocate_medium(wanted, alignment, &block);
    } else {
      *why = allocate_large(context, wanted, &block);
    }
  }
  return block;
}

Errc heap_deallocate(HeapContext &context, void *pointer, std::size_t bytes) noexcept {
  if (pointer == nullptr) return Errc::kOk;
  const std::uint64_t offset =
      reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(context.base);
  const HeapPages pages(context.base, context.size_bytes);
  // A pointer below base wraps round to an offset beyond any size.
  if (offset / kPageBytes >= pages.page_count ||
      !pages.has(HeapPage{static_cast<std::uint32_t>(offset / kPageBytes)})) {
    return Errc::kBadFree;
  }
  // A header fills the first 64 bytes of slabs and medium runs, so that only large runs begin at a
  // page's first byte.
  if (offset % kPageBytes == 0) {
    return deallocate_large(context, HeapPage{static_cast<std::uint32_t>(offset / kPageBytes)},
                            bytes);
  }
  return Arena(context).deallocate(offset, bytes);
}

HeapStats heap_stats(const HeapContext &context) noexcept {
  const HeapPages pages(context.base, context.size_bytes);
  const auto *map = pages.at<MapHeaderV1>(kMapPage);
  std::uint64_t idle_pages = 0;
  for (std::uint32_t index = 0; index < kArenaCount; ++index) {
    const auto *arena = pages.at<ArenaV1>(kFirstArenaPage + index);
    idle_pages += std::uint64_t{arena->chunk_end} - arena->chunk_next + arena->cached_pages;
  }
  HeapStats stats;
  stats.size_bytes = context.size_bytes;
  stats.span_bytes = std::uint64_t{map->top_page} * kPageBytes;
  stats.large_bytes = std::uint64_t{map->large_pages} * kPageBytes;
  stats.reserved_bytes = std::uint64_t{map->reserved_pages} * kPageBytes;
  stats.arena_idle_bytes = idle_pages * kPageBytes;
  stats.free_bytes = stats.span_bytes - stats.large_bytes - stats.reserved_bytes;
  return stats;
}

}  // namespace tmh::storage
