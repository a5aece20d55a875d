// examples/itm/cache/store_lists.hpp -- inside transactions: the table, the lists by use, chunks.
// Contexts:  store_transactions.cpp only, inside a transaction.
#pragma once

#include "examples/itm/cache/store_layout.h"
#include "examples/itm/support/section.h"

namespace cache {

// 1. The table.
TMH_TRANSACTION_SAFE inline Item **bucket_of(Store &store, std::uint32_t hash) {
  Table &table = store.table;
  if (table.old_buckets != nullptr && (hash & table.old_mask) >= table.moved)
    return &table.old_buckets[hash & table.old_mask];
  return &table.buckets[hash & table.mask];
}
TMH_TRANSACTION_SAFE inline bool has_key(Item *item, const Key &key) {
  if (item->hash != key.hash || item->key_bytes != key.bytes) return false;
  const std::uint64_t *words = item->key();
  for (std::uint32_t i = 0; i < (key.bytes + 7) / 8; ++i)
    if (words[i] != key.words[i]) return false;
  return true;
}
TMH_TRANSACTION_SAFE inline Item *find(Store &store, const Key &key) {
  Item *item = *bucket_of(store, key.hash);
  while (item != nullptr && !has_key(item, key)) item = item->next;
  return item;
}

// 2. The list of a class.
TMH_TRANSACTION_SAFE inline void unlist(SizeClass &list, Item *item) {
  if (item->newer != nullptr)
    item->newer->older = item->older;
  else
    list.newest = item->older;
  if (item->older != nullptr)
    item->older->newer = item->newer;
  else
    list.oldest = item->newer;
}
TMH_TRANSACTION_SAFE inline void list_as_newest(SizeClass &list, Item *item) {
  Item *second = list.newest;
  item->newer = nullptr;
  item->older = second;
  if (second != nullptr)
    second->newer = item;
  else
    list.oldest = item;
  list.newest = item;
}
TMH_TRANSACTION_SAFE inline void bump(Store &store, Item *item, Seconds now) {
  if (now - item->bumped < kBumpSeconds) return;
  item->bumped = now;
  SizeClass &list = store.size_class[item->size_class];
  if (list.newest == item) return;
  unlist(list, item);
  list_as_newest(list, item);
}

// 3. Table and list together.
TMH_TRANSACTION_SAFE inline void link(Store &store, Item *item, Seconds now) {
  Item **bucket = bucket_of(store, item->hash);
  item->next = *bucket;
  *bucket = item;
  item->bumped = now;
  SizeClass &list = store.size_class[item->size_class];
  list_as_newest(list, item);
  ++list.items;
  list.item_bytes += item_bytes(item->key_bytes, item->value_bytes);
}
// The chunk is in no list afterwards.
TMH_TRANSACTION_SAFE inline void unlink(Store &store, Item *item) {
  Item **link = bucket_of(store, item->hash);
  while (*link != item) link = &(*link)->next;
  *link = item->next;
  SizeClass &list = store.size_class[item->size_class];
  unlist(list, item);
  --list.items;
  list.item_bytes -= item_bytes(item->key_bytes, item->value_bytes);
}
TMH_TRANSACTION_SAFE inline void free_chunk(Store &store, unsigned size_class, Item *chunk) {
  SizeClass &list = store.size_class[size_class];
  chunk->next = list.free;
  list.free = chunk;
}
TMH_TRANSACTION_SAFE inline void discard(Store &store, Item *item) {
  unlink(store, item);
  free_chunk(store, item->size_class, item);
}

// 4. Items that are gone but still lie there.
TMH_TRANSACTION_SAFE inline void flush_when_due(Store &store, Seconds now) {
  if (store.flush_at == kNever || store.flush_at > now) return;
  store.flush_at = kNever;
  ++store.generation;
}
TMH_TRANSACTION_SAFE inline bool is_gone(Store &store, Item *item, Seconds now) {
  return item->generation != store.generation || (item->until != kNever && item->until <= now);
}
TMH_TRANSACTION_SAFE inline Item *find_present(Store &store, const Key &key, Seconds now) {
  flush_when_due(store, now);
  Item *item = find(store, key);
  if (item == nullptr || !is_gone(store, item, now)) return item;
  ++store.size_class[item->size_class].reclaimed;
  discard(store, item);
  return nullptr;
}

// 5. Chunks.
// The classes' number: no class is so large.
TMH_TRANSACTION_SAFE inline unsigned class_of(const Store &store, std::size_t bytes) {
  unsigned low = 0, high = store.classes;
  while (low < high) {
    const unsigned middle = (low + high) / 2;
    if (store.chunk_bytes[middle] < bytes)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
// A page when the class has none, even beyond the limit: otherwise the class could hold nothing
// for good. The block has room for that.
TMH_TRANSACTION_SAFE inline bool take_page(Store &store, unsigned size_class) {
  SizeClass &list = store.size_class[size_class];
  if (store.pages_used >= store.pages_max && list.pages != 0) return false;
  list.uncut = store.pages + store.pages_used * kPageBytes;
  list.uncut_chunks = kPageBytes / store.chunk_bytes[size_class];
  ++store.pages_used;
  ++list.pages;
  return true;
}
// How many of the oldest items are looked at for one that is gone, before one that is not goes.
inline constexpr int kOldestLookedAt = 5;
TMH_TRANSACTION_SAFE inline Item *evict(Store &store, unsigned size_class, Seconds now) {
  SizeClass &list = store.size_class[size_class];
  Item *victim = nullptr;
  Item *item = list.oldest;
  for (int i = 0; i < kOldestLookedAt && item != nullptr; ++i, item = item->newer) {
    if (is_gone(store, item, now)) {
      victim = item;
      ++list.reclaimed;
      break;
    }
    if (victim == nullptr) victim = item;
  }
  if (victim == nullptr) return nullptr;
  if (!is_gone(store, victim, now)) ++list.evictions;
  unlink(store, victim);
  return victim;
}
// Null: there is no room. An item of the class may go, none of any other.
TMH_TRANSACTION_SAFE inline Item *take_chunk(Store &store, unsigned size_class, Seconds now) {
  SizeClass &list = store.size_class[size_class];
  Item *chunk = list.free;
  if (chunk != nullptr) {
    list.free = chunk->next;
  } else if (list.uncut_chunks != 0 || take_page(store, size_class)) {
    chunk = reinterpret_cast<Item *>(list.uncut);
    list.uncut += store.chunk_bytes[size_class];
    --list.uncut_chunks;
  } else {
    chunk = evict(store, size_class, now);
    if (chunk == nullptr) ++list.out_of_memory;
  }
  return chunk;
}

}  // namespace cache
