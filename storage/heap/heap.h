// storage/heap/heap.h -- transactional heap inside a segment: allocate, free, roots.
// Shape:     heap_layout.h. Three sources of memory, by size:
//              small   up to 4032 bytes: a block of a one-page slab. Its allocation bitmap lies in
//                      the same page, so that an allocation reads the arena's page and writes the
//                      block's page, and nothing else; a double free is found without another page;
//                      and a free block's bytes are never touched.
//              medium  up to 32 KiB: a run of pages of the arena, the block behind a 64-byte
//                      header.
//              large   beyond, and all that must be aligned to 4096: a run of whole pages from the
//                      segment-wide page map, first fit, coalesced when freed.
//            Arenas take pages from the page map in chunks, 64 KiB first and twice as much each
//            time up to 1 MiB, and give pages back in batches, so that the page map is seldom
//            written.
// Invariant: (1) an instance that only allocates small and medium blocks with its own arena writes
//                pages of that arena only, but for one chunk in 16 to 256 pages.
//            (2) freeing never needs memory: it works in a full segment.
//            (3) a block freed by another participant stays in its slab. A slab that was full joins
//                the freeing arena, which is the one with something to gain; any other keeps its
//                arena. Either way the former owner's arena page is not written, and the only pages
//                written besides the freeing arena's are the block's own and, when a slab joins or
//                leaves a list, its neighbours' there.
// Sharing:   plain loads and stores inside an instance, which answers for isolation, rollback and
//            owner death.
// Contexts:  NOT async-signal-safe. REQUIRES a running instance for every function that takes a
//            HeapContext, or exclusive access to the bytes. No locks, no heap memory, no process
//            pointers in the segment.
// Hostile bytes: every index that is read from the segment is checked before it is followed; damage
// is Errc::kCorrupt.
// Source:    thesis, appendix A.1 item 7 (the prototype had no allocator).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tmh/error.hpp>

namespace tmh::storage {

// One participant's access to one heap.
struct HeapContext {
  std::byte *base = nullptr;  // of the view
  // Usable now. REQUIRES: not less than what any committed instance saw, so read it anew in each
  // instance. The heap raises it after grow() when grow() has not.
  std::uint64_t size_bytes = 0;
  std::uint64_t max_bytes = 0;
  std::uint32_t arena = 0;  // participant slot; any number, taken modulo 64
  // Extends the segment to new_size_bytes (a multiple of 4096, at most max_bytes); false sets *why.
  // Null: cannot grow. The new size stays when the instance aborts.
  bool (*grow)(void *context, std::uint64_t new_size_bytes, Errc *why) noexcept = nullptr;
  void *grow_context = nullptr;
};

// Makes an empty heap; writes four pages. REQUIRES: [base, base + size_bytes) is zero-filled.
// Errors: kMisalignedLength (not a multiple of 4096), kBadArgument (below 1 MiB, beyond 1 TiB).
[[nodiscard]] Errc heap_format(std::byte *base, std::uint64_t size_bytes) noexcept;

// Checks the static header; reads nothing beyond size_bytes, and but one page. In this order:
// kShortFile (no room for the header), kNotAHeap (magic), kForeignVersion, kUnsupportedFeature
// (feature bits), kSegmentMismatch (sizes), kBadArgument (reserved fields), kCorrupt (checksum),
// kShortFile (file ends before the first allocatable page).
[[nodiscard]] Errc heap_verify(const std::byte *base, std::uint64_t size_bytes) noexcept;

// Records the fixed address of the segment's view, for plain pointers inside mean this address; a
// heap that is bound to another one (its file was copied, or the domain's segment table lost) is
// refused with kSegmentMismatch before they are followed. Not for relocatable segments. Writes on
// the first call only. REQUIRES: heap_verify() found it right.
[[nodiscard]] Errc heap_bind_address(std::byte *base, std::uint64_t view_address) noexcept;

// Does the header name an address? REQUIRES: heap_verify() found it right.
[[nodiscard]] bool heap_is_bound(const std::byte *base) noexcept;

// True when the first eight bytes say so. REQUIRES: 8 readable bytes.
[[nodiscard]] bool heap_is_formatted(const std::byte *base) noexcept;

// A block of at least `bytes` (0 counts as 1) at a multiple of `alignment` from base; base is
// page-aligned. Not zeroed. Null sets *why: kBadArgument (alignment is no power of two, or beyond
// 4096), kSegmentFull, kCorrupt, or grow()'s.
[[nodiscard]] void *heap_allocate(HeapContext &context, std::size_t bytes, std::size_t alignment,
                                  Errc *why) noexcept;

// Null is ignored. bytes: as allocated, or 0 when unknown. Errors: kBadFree (not a block of this
// heap, freed before, or `bytes` cannot be right, as far as the heap knows the size: small blocks
// by class, large ones by pages), kCorrupt. Nothing is changed by a kBadFree.
[[nodiscard]] Errc heap_deallocate(HeapContext &context, void *pointer, std::size_t bytes) noexcept;

// The cell of the root `name`, made with value zero on first use. type_bytes 0 makes no claim. Null
// sets *why: kBadArgument (name empty, longer than 47 bytes, or with a zero byte in it),
// kRootMismatch (exists with another type_bytes), kSegmentFull, kCorrupt.
// claim: kLater: a cell that is made now claims no size before heap_claim_root().
enum class RootClaim : std::uint8_t { kNow, kLater };
[[nodiscard]] void **heap_root_cell(HeapContext &context, std::string_view name,
                                    std::uint64_t type_bytes, Errc *why,
                                    RootClaim claim = RootClaim::kNow) noexcept;
// From here on its name is of objects of this size. REQUIRES: a cell that heap_root_cell() has
// returned for that size.
void heap_claim_root(void **cell, std::uint64_t type_bytes) noexcept;

// Page-level totals. Reads the pages of the map and of all arenas: in an instance, it conflicts
// with many others.
struct HeapStats {
  std::uint64_t size_bytes = 0;
  std::uint64_t span_bytes = 0;        // up to the highest page in use
  std::uint64_t large_bytes = 0;       // in large runs
  std::uint64_t reserved_bytes = 0;    // of the heap itself and of arenas
  std::uint64_t arena_idle_bytes = 0;  // thereof waiting in arenas for use
  std::uint64_t free_bytes = 0;        // free below span_bytes
};
[[nodiscard]] HeapStats heap_stats(const HeapContext &context) noexcept;

}  // namespace tmh::storage
