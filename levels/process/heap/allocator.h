// levels/process/heap/allocator.h -- the heap of method pages: all malloc() of a program whose
// threads are tasks with page tables of their own.
// Shape:     the heap's addresses are chunks of 64 KiB. A span (one chunk; four for classes above 8
//            KiB) has blocks of one size class; a run of chunks is one larger block; a mapped chunk
//            serves mmap(). What the heap knows of a chunk lies apart, in memory of
//            reserve_shared(): it never touches a block, since that may cost a fault.
// Invariant: (1) a chunk has one use, and its page one task that allocates from it, inside of
//            transactions or outside. (2) a block is taken when its bit is set and the owner's
//            claim does not have it. (3) a task that dies anywhere in here leaks at most what it
//            was about to hand out, or to take back; nothing waits for it: there is no lock.
// Sharing:   between tasks. A slot is used by one thread at a time. A fork()ed child of the program
//            is no task and must not call heap_allocate() or heap_release(): it would be its
//            parent's twin in the parent's slot. heap_calls.cpp serves it from libc.
// Contexts:  NOT async-signal-safe. No rollback may leave a call of the heap by a jump; none needs
//            to, as the heap touches no memory of the program.
// Not here:  memory of free chunks is not given back to the kernel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::itm::pages {

// A chunk is the heap's grain; no block above the classes shares one.
inline constexpr std::size_t kChunkBytes = 64 * 1024;

// Once, before the first task is made. False: heap_range() is too small, or there is no memory for
// the heap's tables (600 bytes a chunk, of which only used chunks' are touched).
[[nodiscard]] bool heap_start() noexcept;

// Null: none left, or the alignment is no power of two. At least 16 bytes aligned; from a class
// that is a multiple of 64: by lines. Blocks of a task lie in chunks of its own, those allocated
// inside of transactions in others than those outside.
[[nodiscard]] void *heap_allocate(std::size_t bytes, std::size_t alignment) noexcept;
// A block of heap_allocate(), or a mapped chunk's first byte. Anything else, or a block that is
// free: a message and abort(), as far as the bitmaps show it.
void heap_release(void *block) noexcept;
// 0: no block begins there.
[[nodiscard]] std::size_t heap_usable(const void *block) noexcept;
// The address is one of the heap's, whatever is there.
[[nodiscard]] bool heap_owns(const void *block) noexcept;
// Of a block that has just been allocated: nothing has ever been stored in it.
[[nodiscard]] bool heap_is_zero(const void *block) noexcept;
// Makes heap_usable() of a block at least that, without moving it. False: it must move.
[[nodiscard]] bool heap_grow(void *block, std::size_t bytes) noexcept;

// Chunks for pages of mmap(); null: none. Each chunk is released on its own, by its first byte.
[[nodiscard]] void *heap_map(std::size_t bytes) noexcept;
// The pages are mapped no longer. Calls emptied(chunk) for each chunk of which that were the last.
// Pages that are not mapped are left alone.
void heap_unmap(std::uintptr_t at, std::size_t bytes, void (*emptied)(void *chunk)) noexcept;
// All pages are mapped.
[[nodiscard]] bool heap_is_mapped(std::uintptr_t at, std::size_t bytes) noexcept;

// The slot's task has ended or died, and no other has the slot yet: other tasks may take over what
// it has. free_slot() calls it.
void heap_slot_freed(int slot) noexcept;

// For tests: chunks in use.
[[nodiscard]] std::size_t heap_chunks_used() noexcept;

}  // namespace tmh::itm::pages
