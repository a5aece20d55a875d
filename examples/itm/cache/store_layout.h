// examples/itm/cache/store_layout.h -- how items lie in memory.
// Shape:     one block of pages of 1 MiB, reserved at the start; the kernel gives it when it is
//            used. A page belongs to one class for good: it is cut into the class's chunks, from
//            its start, one at a time. A chunk holds an item, or is in the class's list of free
//            ones. Chunks begin at multiples of 64 bytes: two items never share a line.
// Invariant: (1) an item that a bucket leads to is in the list of its class, and the other way
//            round. (2) newest and oldest are both null or both not. (3) `items` is the length of
//            the list.
// Sharing:   what transactions write stands apart from what they only read, class by class, in
//            pages of its own. Right under snapshot isolation, too: of two changes of which one has
//            to see the other, both store to the same word. What takes or leaves a chunk stores to
//            its class; what enters a chain, to the chain's head; what leaves one, to itself and
//            the one before it; what moves one, to its head and all its items.
// Contexts:  files of transactions only.
#pragma once

#include "examples/itm/cache/store.h"

namespace cache {

inline constexpr std::size_t kLineBytes = 64;
// What a runtime compares that finds conflicts by the processor's pages.
inline constexpr std::size_t kConflictBytes = 4096;
inline constexpr std::size_t kPageBytes = kItemBytesMax;
// Header and 64 bytes of key and value: smaller items are rare.
inline constexpr std::size_t kSmallestChunkBytes = 128;
// Each class is a quarter larger than the one before: memcached's default.
inline constexpr std::size_t kFactorNumerator = 5, kFactorDenominator = 4;
// 128 bytes times 1.25 to the n, rounded up, reaches half a page below this.
inline constexpr unsigned kClassesMax = 48;

struct Item {
  // The next in the bucket; in a free chunk, the next free one.
  Item *next;
  // Neighbours in the list of the class.
  Item *newer, *older;
  std::uint64_t cas;
  std::uint32_t hash;
  Seconds until, bumped;
  std::uint32_t flags, value_bytes;
  // Of the flush that would take it, see Store.
  std::uint32_t generation;
  std::uint32_t key_bytes, size_class;

  // The key, in whole words; then the value.
  std::uint64_t *key() { return reinterpret_cast<std::uint64_t *>(this + 1); }
  char *value() { return reinterpret_cast<char *>(this + 1) + (key_bytes + 7) / 8 * 8; }
};
static_assert(sizeof(Item) == 64);

[[nodiscard]] constexpr std::size_t item_bytes(std::size_t key_bytes, std::size_t value_bytes) {
  return sizeof(Item) + (key_bytes + 7) / 8 * 8 + value_bytes;
}

struct alignas(kConflictBytes) SizeClass {
  Item *newest, *oldest;
  Item *free;
  // The rest of the class's last page.
  char *uncut;
  std::uint64_t uncut_chunks;
  std::uint64_t items, item_bytes, pages;
  std::uint64_t evictions, reclaimed, out_of_memory;
};

struct Table {
  Item **buckets;
  std::uint64_t mask;
  // While it grows: chains of the old table from `moved` on are not in the new one yet.
  Item **old_buckets;
  std::uint64_t old_mask, moved;
};

struct Store {
  // Constant.
  unsigned classes;
  std::uint64_t pages_max;
  std::uint64_t chunk_bytes[kClassesMax];
  char *pages;

  alignas(kConflictBytes) std::uint64_t pages_used;
  // Items of older generations are gone. A flush whose time has not come waits in flush_at.
  alignas(kConflictBytes) std::uint32_t generation;
  Seconds flush_at;
  alignas(kConflictBytes) Table table;
  SizeClass size_class[kClassesMax];
};

// What a thread dies of: fault.cpp, where no transaction is compiled.
#if defined(TMH_ITM)
[[gnu::transaction_pure]]
#endif
void die_of(Fault fault) noexcept;

}  // namespace cache
