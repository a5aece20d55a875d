// examples/itm/cache/store.cpp -- of the store, what runs beside no other thread.
#include "examples/itm/cache/store.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "examples/itm/cache/store_layout.h"

namespace cache {

Key make_key(std::string_view text) {
  Key key;
  key.bytes = static_cast<std::uint32_t>(text.size());
  const std::size_t words = (text.size() + 7) / 8;
  key.words[words - 1] = 0;
  std::memcpy(key.words, text.data(), text.size());
  // FNV-1a's multiplier, words at a time; the shift brings high bits down to the table's mask.
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ text.size();
  for (std::size_t i = 0; i < words; ++i) {
    hash = (hash ^ key.words[i]) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
  }
  key.hash = static_cast<std::uint32_t>(hash);
  return key;
}

bool value_fits(const Key &key, std::size_t value_bytes) {
  return value_bytes <= kItemBytesMax && item_bytes(key.bytes, value_bytes) <= kItemBytesMax;
}

OwnedStore make_store(const StoreOptions &options) {
  OwnedStore store(new (std::nothrow) Store{});
  if (store == nullptr) return nullptr;
  std::size_t bytes = kSmallestChunkBytes;
  while (bytes <= kPageBytes / 2) {
    store->chunk_bytes[store->classes++] = bytes;
    bytes = bytes * kFactorNumerator / kFactorDenominator;
    bytes = (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  store->chunk_bytes[store->classes++] = kPageBytes;
  store->pages_max = options.memory_bytes / kPageBytes;
  // take_page() gives each class one page beyond the limit.
  const std::size_t pages = store->pages_max + store->classes;
  store->pages = static_cast<char *>(std::aligned_alloc(kPageBytes, pages * kPageBytes));
  store->table.mask = options.buckets - 1;
  store->table.buckets = static_cast<Item **>(std::calloc(options.buckets, sizeof(Item *)));
  if (store->pages == nullptr || store->table.buckets == nullptr) return nullptr;
  return store;
}

void FreeStore::operator()(Store *store) const {
  std::free(store->pages);
  std::free(store->table.buckets);
  std::free(store->table.old_buckets);
  delete store;
}

unsigned class_count(const Store &store) { return store.classes; }

}  // namespace cache
