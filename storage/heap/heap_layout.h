// storage/heap/heap_layout.h -- the bytes of a heap inside a segment.
// Shape:     pages of 4 KiB from the segment's base; every reference is a page index from there, 0
//            means none.
//
//   page  0       HeaderV1      static; written by heap_format() and once by heap_bind_address()
//   page  1       MapHeaderV1   how far the heap reaches, where the directories are
//   page  2       directory 0   256 ZoneV1; more directories are taken on demand
//   page  3       leaf 0        2 bits for each of the 16384 pages (64 MiB) of zone 0; more leaves
//                               on demand
//   pages 4..11   RootPageV1    one chain of root pages per name hash
//   pages 12..75  ArenaV1       one page per arena
//   pages 76..    runs          large runs: the user's bytes only. Runs of arenas: RunHeaderV1,
//                               then blocks
//
// Invariant: (1) zeros are a valid empty arena, root page, zone and leaf, so that formatting writes
//            four pages only.
//            (2) pages at or above MapHeaderV1::top_page are free, whatever their bytes are; page
//                top_page - 1 is not free.
//            (3) RunHeaderV1::magic is right only in the first page of a run that an arena owns
//                now: it holds the page's own index, so that a copy elsewhere is no header, and it
//                is cleared when the page leaves the arena.
// Sharing:   ordinary transactional memory: read and written by plain loads and stores inside
//            instances. No atomics.
// Durable:   all of it, little-endian. Never edited after release: add ...V2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tmh/options.hpp>

namespace tmh::storage {

// Index of a page of the segment, counted from its base. 0: none (nobody asks for the header by
// index).
enum class HeapPage : std::uint32_t {};
inline constexpr HeapPage kNoPage{0};

[[nodiscard]] constexpr std::uint32_t raw(HeapPage page) noexcept {
  return static_cast<std::uint32_t>(page);
}
[[nodiscard]] constexpr HeapPage operator+(HeapPage page, std::uint32_t page_count) noexcept {
  return HeapPage{raw(page) + page_count};
}

inline constexpr std::uint64_t kHeapMagic = 0x3150'4145'4848'4d54;  // "TMHHEAP1"
inline constexpr std::uint64_t kMapMagic = 0x3150'414d'5048'4d54;   // "TMHPMAP1"
inline constexpr std::uint64_t kRunMagic = 0x4e52'484d'0000'0000;   // plus the page's own index
inline constexpr std::uint32_t kHeapVersion = 1;

// 1 TiB, the largest segment, and the bound of every table here.
inline constexpr std::uint64_t kHeapPagesMax = std::uint64_t{1} << 28;
// Below 1 MiB the fixed pages would outweigh the heap.
inline constexpr std::uint64_t kHeapBytesMin = std::uint64_t{1} << 20;

// 64 arenas of a page each: more participants than most machines have cores, for 256 KiB of
// (sparse) file.
inline constexpr std::uint32_t kArenaCount = 64;
// 8 chains of 63 roots before any chain grows; a lookup reads one page of them.
inline constexpr std::uint32_t kRootChainCount = 8;
// What 2 bits per page in one page describe.
inline constexpr std::uint32_t kZonePages = kPageBytes * 8 / 2;
inline constexpr std::uint32_t kZonesPerDirectory = 256;
inline constexpr std::uint32_t kDirectoryCount = 64;
static_assert(std::uint64_t{kZonePages} * kZonesPerDirectory * kDirectoryCount == kHeapPagesMax);

inline constexpr HeapPage kMapPage{1};
inline constexpr HeapPage kFirstDirectoryPage{2};
inline constexpr HeapPage kFirstLeafPage{3};
inline constexpr HeapPage kFirstRootPage{4};
inline constexpr HeapPage kFirstArenaPage = kFirstRootPage + kRootChainCount;
inline constexpr HeapPage kFirstRunPage = kFirstArenaPage + kArenaCount;

struct HeaderV1 {                   // offset
  std::uint64_t magic;              //   0  kHeapMagic
  std::uint32_t format_version;     //   8  kHeapVersion
  std::uint32_t header_bytes;       //  12  128
  std::uint32_t features_incompat;  //  16  unknown bit: refused
  //  20  unknown bit: refused as well, for a heap is never opened read-only
  std::uint32_t features_ro_compat;
  std::uint32_t page_bytes;        //  24  4096
  std::uint32_t zone_pages;        //  28  16384
  std::uint32_t arena_count;       //  32  64
  std::uint32_t first_arena_page;  //  36
  std::uint32_t root_chain_count;  //  40  8
  std::uint32_t first_root_page;   //  44
  std::uint32_t first_run_page;    //  48
  std::uint32_t class_count;       //  52  kClassBytes.size()
  //  56  where pointers inside point to, see heap_bind_address(); 0: not bound
  std::uint64_t view_address;
  std::uint32_t reserved_zero[14];  //  64  checked on open
  // 120  FNV-1a of bytes [0, 120): finds every change of one byte
  std::uint64_t checksum;
};
static_assert(sizeof(HeaderV1) == 128);
static_assert(offsetof(HeaderV1, magic) == 0 && offsetof(HeaderV1, format_version) == 8);
static_assert(offsetof(HeaderV1, header_bytes) == 12 &&
              offsetof(HeaderV1, features_incompat) == 16);
static_assert(offsetof(HeaderV1, features_ro_compat) == 20 && offsetof(HeaderV1, page_bytes) == 24);
static_assert(offsetof(HeaderV1, zone_pages) == 28 && offsetof(HeaderV1, arena_count) == 32);
static_assert(offsetof(HeaderV1, first_arena_page) == 36 &&
              offsetof(HeaderV1, root_chain_count) == 40);
static_assert(offsetof(HeaderV1, first_root_page) == 44 &&
              offsetof(HeaderV1, first_run_page) == 48);
static_assert(offsetof(HeaderV1, class_count) == 52 && offsetof(HeaderV1, view_address) == 56);
static_assert(offsetof(HeaderV1, reserved_zero) == 64 && offsetof(HeaderV1, checksum) == 120);

struct MapHeaderV1 {                // offset
  std::uint64_t magic;              //   0  kMapMagic
  std::uint32_t top_page;           //   8  first page that nothing above is taken from
  std::uint32_t large_pages;        //  12  pages in large runs
  std::uint32_t reserved_pages;     //  16  pages of the heap's own and of arenas
  std::uint32_t reserved_zero[11];  //  20
  // 64  page of each directory, 0: its zones lie above everything used
  std::uint32_t directories[kDirectoryCount];
};
static_assert(sizeof(MapHeaderV1) == 320);
static_assert(offsetof(MapHeaderV1, magic) == 0 && offsetof(MapHeaderV1, top_page) == 8);
static_assert(offsetof(MapHeaderV1, large_pages) == 12 &&
              offsetof(MapHeaderV1, reserved_pages) == 16);
static_assert(offsetof(MapHeaderV1, reserved_zero) == 20 &&
              offsetof(MapHeaderV1, directories) == 64);

// Summary of one zone, so that first fit reads a leaf only when the run is there. Counts are of
// free pages below top_page.
struct ZoneV1 {              // offset
  std::uint32_t leaf_page;   //   0  0: zone lies above everything used
  std::uint32_t free_pages;  //   4
  //   8  free run at the zone's beginning; kZonePages fits, it is 0x4000
  std::uint16_t prefix_pages;
  std::uint16_t suffix_pages;   //  10  free run at its end
  std::uint16_t longest_pages;  //  12  longest free run inside
  std::uint16_t reserved_zero;  //  14
};
static_assert(sizeof(ZoneV1) == 16 && sizeof(ZoneV1) * kZonesPerDirectory == kPageBytes);
static_assert(offsetof(ZoneV1, leaf_page) == 0 && offsetof(ZoneV1, free_pages) == 4);
static_assert(offsetof(ZoneV1, prefix_pages) == 8 && offsetof(ZoneV1, suffix_pages) == 10);
static_assert(offsetof(ZoneV1, longest_pages) == 12 && offsetof(ZoneV1, reserved_zero) == 14);
static_assert(kZonePages <= 0xffff);

// State of a page: bit from `low` plus twice the bit from `high`. DO NOT CHANGE THESE VALUES.
enum class PageState : std::uint8_t {
  kFree = 0,
  kLargeFirst = 1,  // first page of a large run; what a user's free() may name
  kLargeMore = 2,   // the rest of it
  kReserved = 3,    // the heap's own, or an arena's
};

struct LeafV1 {
  std::uint64_t low[kZonePages / 64];   //    0
  std::uint64_t high[kZonePages / 64];  // 2048
};
static_assert(sizeof(LeafV1) == kPageBytes && offsetof(LeafV1, high) == 2048);

// Block sizes of one-page slabs: a page holds a RunHeaderV1 and as many blocks as fit the other
// 4032 bytes, laid from the page's end, so that a block is aligned to the largest power of two in
// its size. Up to 128 every multiple of 16; above, the sizes that divide 4032 with little left,
// plus 512, 1024 and 2048 for their alignment. DO NOT CHANGE: part of format 1.
inline constexpr std::array<std::uint16_t, 25> kClassBytes = {
    16,  32,  48,  64,  80,  96,  112,  128,  160,  192,  224,  256, 320,
    384, 448, 512, 576, 672, 800, 1008, 1024, 1344, 2016, 2048, 4032};
inline constexpr std::uint32_t kClassCount = kClassBytes.size();
inline constexpr std::uint32_t kClassCountMax = 32;
static_assert(kClassCount <= kClassCountMax);

inline constexpr std::uint32_t kRunHeaderBytes = 64;
inline constexpr std::uint32_t kSlabBytes = kPageBytes - kRunHeaderBytes;
[[nodiscard]] constexpr std::uint32_t class_block_count(std::uint32_t class_index) noexcept {
  return kSlabBytes / kClassBytes[class_index];
}
static_assert(class_block_count(0) <= 256, "RunHeaderV1::taken has 256 bits");

// Medium blocks (above the slabs', up to 32 KiB) are runs of an arena: header, then the block at up
// to 2048 bytes' alignment.
inline constexpr std::uint64_t kMediumBytesMax = 32 * 1024;
inline constexpr std::uint32_t kMediumAlignmentMax = 2048;
inline constexpr std::uint32_t kMediumPagesMax =
    (kMediumBytesMax + kMediumAlignmentMax + kPageBytes - 1) / kPageBytes;
inline constexpr std::uint32_t kCacheBinCount = 16;
static_assert(kMediumPagesMax == 9 && kMediumPagesMax < kCacheBinCount);

struct ArenaV1 {  // offset
  //   0  the current chunk's pages that were never used: [chunk_next, chunk_end)
  std::uint32_t chunk_next;
  std::uint32_t chunk_end;     //   4
  std::uint32_t chunk_pages;   //   8  pages of the next chunk; 0: kChunkPagesMin
  std::uint32_t cached_pages;  //  12  pages in all cached runs
  // 16  list of free runs of exactly `index` pages; 0 and 10 to 15 unused
  std::uint32_t cached_head[kCacheBinCount];
  std::uint32_t reserved_zero[12];  //  80
  // 128  list of slabs with at least one free block, per class
  std::uint32_t partial_head[kClassCountMax];
};
static_assert(sizeof(ArenaV1) == 256);
static_assert(offsetof(ArenaV1, chunk_next) == 0 && offsetof(ArenaV1, chunk_end) == 4);
static_assert(offsetof(ArenaV1, chunk_pages) == 8 && offsetof(ArenaV1, cached_pages) == 12);
static_assert(offsetof(ArenaV1, cached_head) == 16 && offsetof(ArenaV1, reserved_zero) == 80);
static_assert(offsetof(ArenaV1, partial_head) == 128);

// DO NOT CHANGE THESE VALUES.
enum class RunKind : std::uint8_t {
  kNone = 0,
  kSlab = 1,    // one page of equal blocks
  kMedium = 2,  // one block over up to 9 pages
  kCached = 3,  // free run in an arena's cache
  kRoots = 4,   // root page that was added to a chain
};

struct RunHeaderV1 {            // offset
  std::uint64_t magic;          //   0  kRunMagic + page index
  RunKind kind;                 //   8
  std::uint8_t class_index;     //   9  slab
  std::uint16_t live_count;     //  10  slab: blocks taken
  std::uint32_t page_count;     //  12  pages of the run, this one included
  std::uint32_t next_page;      //  16  slab in a partial list, cached run, root page: the next one
  std::uint32_t previous_page;  //  20  slab in a partial list; stale in the list's head
  //  24  slab: arena whose partial list it is in, plus 1; 0: full, in no list
  std::uint32_t owner;
  std::uint32_t block_offset;  //  28  medium: from the page's first byte to the block
  //  32  slab: bit i: the block that ends i blocks before the page's end is taken      medium: [0]
  // the bytes asked for, from which page_count follows; [1..3] 0
  std::uint64_t taken[4];
};
static_assert(sizeof(RunHeaderV1) == kRunHeaderBytes);
static_assert(offsetof(RunHeaderV1, magic) == 0 && offsetof(RunHeaderV1, kind) == 8);
static_assert(offsetof(RunHeaderV1, class_index) == 9 && offsetof(RunHeaderV1, live_count) == 10);
static_assert(offsetof(RunHeaderV1, page_count) == 12 && offsetof(RunHeaderV1, next_page) == 16);
static_assert(offsetof(RunHeaderV1, previous_page) == 20 && offsetof(RunHeaderV1, owner) == 24);
static_assert(offsetof(RunHeaderV1, block_offset) == 28 && offsetof(RunHeaderV1, taken) == 32);

inline constexpr std::size_t kRootNameBytesMax = 47;
struct RootV1 {  // offset
  //   0  padded with zeros; first byte zero: unused, and so are all after it
  char name[kRootNameBytesMax + 1];
  std::uint64_t type_bytes;  //  48  size of the root's object; 0: not told
  std::uint64_t cell;        //  56  the caller's
};
static_assert(sizeof(RootV1) == 64 && offsetof(RootV1, type_bytes) == 48 &&
              offsetof(RootV1, cell) == 56);

inline constexpr std::uint32_t kRootsPerPage = (kPageBytes - kRunHeaderBytes) / sizeof(RootV1);
struct RootPageV1 {
  RunHeaderV1 header;           //  0  of the 8 fixed pages only next_page is used, the rest is zero
  RootV1 roots[kRootsPerPage];  // 64
};
static_assert(sizeof(RootPageV1) == kPageBytes && offsetof(RootPageV1, roots) == 64);

template <class T>
inline constexpr bool kIsMappable = std::is_trivially_copyable_v<T> &&std::is_standard_layout_v<T>
                                        &&std::has_unique_object_representations_v<T> &&
                                    sizeof(T) <= kPageBytes;
static_assert(kIsMappable<HeaderV1> && kIsMappable<MapHeaderV1> && kIsMappable<ZoneV1> &&
              kIsMappable<LeafV1>);
static_assert(kIsMappable<ArenaV1> && kIsMappable<RunHeaderV1> && kIsMappable<RootPageV1>);

}  // namespace tmh::storage
