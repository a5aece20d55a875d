// storage/heap/heap_check.h -- walks a whole heap and compares everything that is stored twice.
// Invariants checked: those of heap_layout.h, heap_page_map.h and heap_arena.h; every page below
//            top_page is accounted for once; every list holds exactly the runs that say they are in
//            it; unused bytes of the heap's own structs are zero.
// Not checked: users' bytes, cells and type sizes of roots; which blocks of a slab are taken (only
// how many).
// Shape:     no heap memory and no marks: lists are counted from both sides (heads along the links,
//            pages in address order).
// Hostile bytes: every index is bounded before it is followed; every walk along links has an upper
// bound.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/error.hpp>

namespace tmh::storage {

// What heap_check() counted.
struct HeapCensus {
  std::uint64_t small_blocks = 0, small_bytes = 0;    // taken; bytes by block size
  std::uint64_t medium_blocks = 0, medium_bytes = 0;  // bytes by pages
  std::uint64_t large_runs = 0, large_bytes = 0;
  std::uint64_t slabs = 0;
  std::uint64_t roots = 0;
};

// heap_verify(), then walks everything: page map, summaries, arenas, every run's header and list,
// roots. Safe on hostile bytes. Time and pages read grow with the heap's used span. Errors: as
// heap_verify(); kShortFile (map says more pages than size_bytes), kCorrupt. census may be null; it
// is meaningless after an error.
[[nodiscard]] Errc heap_check(const std::byte *base, std::uint64_t size_bytes,
                              HeapCensus *census = nullptr) noexcept;

}  // namespace tmh::storage
