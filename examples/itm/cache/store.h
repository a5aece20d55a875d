// examples/itm/cache/store.h -- what the cache server does with its items: each function here is
// one small transaction (two that make room for the table are two).
// Shape:     items of up to 1 MiB, with their keys, in slabs; a hash table; one list by use for
//            each size of chunk. Where memory is short, the item that was used longest ago goes.
// Sharing:   by all threads, each function by any of them. What callers pass, keys, values and
//            buffers, is their own. No function keeps a pointer to it.
// Time:      seconds since 1970, by the caller's clock. 0 as the end of an item: it has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace cache {

struct Store;

using Seconds = std::uint32_t;
inline constexpr Seconds kNever = 0;

inline constexpr std::size_t kKeyBytesMax = 250;
inline constexpr std::size_t kKeyWordsMax = (kKeyBytesMax + 7) / 8;
// Of an item with its key and what the store itself writes beside it.
inline constexpr std::size_t kItemBytesMax = std::size_t{1} << 20;
// As memcached, which moves an item to the front of its list at most so often: a popular item
// would make all its readers writers.
inline constexpr Seconds kBumpSeconds = 60;

// Padded with zeros to whole words, so that a comparison takes words.
struct Key {
  std::uint64_t words[kKeyWordsMax];
  std::uint32_t bytes, hash;
};
// REQUIRES: 1 to kKeyBytesMax bytes.
[[nodiscard]] Key make_key(std::string_view text);

enum class Status : std::uint8_t {
  kOk,
  kNotFound,
  // For `add`: the item is there. For a comparison: it has changed.
  kExists,
  // For `append` and `prepend`: no item is there.
  kNotStored,
  kTooLarge,
  kOutOfMemory,
  // For get(): the buffer is smaller than the value; nothing has been done.
  kNoRoom,
  // For count(): the value is no number.
  kNoNumber,
};

struct StoreOptions {
  std::size_t memory_bytes = std::size_t{64} << 20;
  // Of the table at the start: a power of two.
  std::size_t buckets = std::size_t{1} << 16;
};
struct FreeStore {
  void operator()(Store *store) const;
};
using OwnedStore = std::unique_ptr<Store, FreeStore>;
// Null: there is not so much memory.
[[nodiscard]] OwnedStore make_store(const StoreOptions &options);
[[nodiscard]] bool value_fits(const Key &key, std::size_t value_bytes);

struct Got {
  Status status;
  std::uint32_t flags, value_bytes;
  std::uint64_t cas;
};
// Copies the value into the buffer. `touched_until` is null for a plain get, else the item's new
// end.
[[nodiscard]] Got get(Store &store, const Key &key, Seconds now, char *buffer,
                      std::size_t buffer_bytes, const Seconds *touched_until = nullptr);

struct Touched {
  Status status;
  std::uint32_t flags;
  std::uint64_t cas;
};
[[nodiscard]] Touched touch(Store &store, const Key &key, Seconds now, Seconds until);

enum class Put : std::uint8_t { kSet, kAdd, kReplace, kAppend, kPrepend };
struct PutRequest {
  Put how = Put::kSet;
  // The item must be there and have this mark.
  bool is_compared = false;
  std::uint64_t compared_cas = 0;
  // The item's new mark: never given twice. The caller makes it, so that no counter is shared.
  std::uint64_t new_cas = 0;
  std::uint32_t flags = 0;
  Seconds until = kNever;
  std::string_view value;
};
struct PutResult {
  Status status;
  // The table is growing: please call move_buckets() soon.
  bool grows;
  // A new item came: please call grow_table() once in a while.
  bool is_new;
};
[[nodiscard]] PutResult put(Store &store, const Key &key, Seconds now, const PutRequest &request);

// `compared_cas` 0: whatever it is.
[[nodiscard]] Status remove(Store &store, const Key &key, Seconds now, std::uint64_t compared_cas);

struct CountRequest {
  bool is_down = false, may_create = false;
  std::uint64_t delta = 0, initial = 0;
  Seconds until_if_created = kNever;
  std::uint64_t compared_cas = 0, new_cas = 0;
};
struct Counted {
  Status status;
  bool was_created;
  std::uint64_t value, cas;
};
// Adds to a decimal number, or takes from it, down to 0.
[[nodiscard]] Counted count(Store &store, const Key &key, Seconds now, const CountRequest &request);

// What lies in the store at the time `at` is gone from then on; `at` <= now: at once.
void flush(Store &store, Seconds at, Seconds now);

// Makes the table larger when it is small for its items. Each call of move_buckets() then moves
// some chains.
void grow_table(Store &store);
void move_buckets(Store &store);

struct ClassFigures {
  std::uint64_t chunk_bytes, chunks_per_page, pages, items, item_bytes, evictions, reclaimed,
      out_of_memory;
  Seconds oldest_used;
};
[[nodiscard]] unsigned class_count(const Store &store);
[[nodiscard]] ClassFigures class_figures(Store &store, unsigned number);
struct TableFigures {
  std::uint64_t buckets;
  bool grows;
};
[[nodiscard]] TableFigures table_figures(Store &store);
void clear_class_counters(Store &store);

// What a thread dies of.
enum class Fault : std::uint8_t { kSegv, kFpe, kAbort };
// Tears the item of the key in one transaction, if it is there, and the list it is in; then dies
// in it.
void fault_inside(Store &store, const Key &key, Fault fault);

}  // namespace cache
