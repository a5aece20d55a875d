// examples/itm/cache/store_transactions.cpp -- the store's transactions.
#include <cstdlib>
#include <cstring>

#include "examples/itm/cache/store_copies.hpp"
#include "examples/itm/cache/store_lists.hpp"

namespace cache {

namespace {

// More than a full table has items for each bucket.
constexpr std::uint64_t kLoadNumerator = 3, kLoadDenominator = 2;
constexpr std::uint64_t kBucketsMax = std::uint64_t{1} << 30;
// Chains that one transaction moves: few, so that others seldom meet it.
constexpr int kBucketsMovedAtOnce = 8;

// Digits of the largest number; as memcached, a value of more bytes than kNumberBytesMax is none.
constexpr int kDigitsMax = 20;
constexpr std::uint32_t kNumberBytesMax = 24;

TMH_TRANSACTION_SAFE inline bool is_space(char byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}
// Blanks may stand on both sides.
TMH_TRANSACTION_SAFE inline bool read_number(const char *text, std::uint32_t bytes,
                                             std::uint64_t *number) {
  if (bytes > kNumberBytesMax) return false;
  std::uint32_t at = 0;
  while (at < bytes && is_space(text[at])) ++at;
  const std::uint32_t first = at;
  std::uint64_t sum = 0;
  for (; at < bytes && text[at] >= '0' && text[at] <= '9'; ++at) {
    const auto digit = static_cast<std::uint64_t>(text[at] - '0');
    if (sum > (UINT64_MAX - digit) / 10) return false;
    sum = sum * 10 + digit;
  }
  *number = sum;
  return at != first && (at == bytes || is_space(text[at]));
}
// Returns how many digits; they end at text[kDigitsMax].
TMH_TRANSACTION_SAFE inline std::uint32_t write_number(std::uint64_t number, char *text) {
  std::uint32_t digits = 0;
  do {
    text[kDigitsMax - ++digits] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return digits;
}

// A chunk for the key, not linked yet. Null: there is no room.
TMH_TRANSACTION_SAFE inline Item *new_item(Store &store, const Key &key, std::size_t value_bytes,
                                           Seconds now) {
  const unsigned size_class = class_of(store, item_bytes(key.bytes, value_bytes));
  Item *item = take_chunk(store, size_class, now);
  if (item == nullptr) return nullptr;
  item->size_class = size_class;
  item->generation = store.generation;
  item->hash = key.hash;
  item->key_bytes = key.bytes;
  item->value_bytes = static_cast<std::uint32_t>(value_bytes);
  std::uint64_t *words = item->key();
  for (std::uint32_t i = 0; i < (key.bytes + 7) / 8; ++i) words[i] = key.words[i];
  return item;
}
TMH_TRANSACTION_SAFE inline void resize_in_place(Store &store, Item *item,
                                                 std::size_t value_bytes) {
  if (item->value_bytes == value_bytes) return;
  store.size_class[item->size_class].item_bytes += value_bytes - item->value_bytes;
  item->value_bytes = static_cast<std::uint32_t>(value_bytes);
}

TMH_TRANSACTION_SAFE inline Status refusal(const Item *item, const PutRequest &request) {
  if (item == nullptr) {
    if (request.is_compared) return Status::kNotFound;
    if (request.how == Put::kReplace) return Status::kNotFound;
    if (request.how == Put::kAppend || request.how == Put::kPrepend) return Status::kNotStored;
    return Status::kOk;
  }
  if (request.how == Put::kAdd) return Status::kExists;
  if (request.is_compared && item->cas != request.compared_cas) return Status::kExists;
  return Status::kOk;
}

// Sets, adds, replaces. `item` is the old one, or null.
TMH_TRANSACTION_SAFE inline Status put_value(Store &store, const Key &key, Seconds now,
                                             const PutRequest &request, Item *item, bool *is_new) {
  const std::size_t bytes = request.value.size();
  if (item != nullptr && class_of(store, item_bytes(key.bytes, bytes)) == item->size_class) {
    resize_in_place(store, item, bytes);
    bump(store, item, now);
  } else {
    // The old one goes in any case: without room for the new one, no reader may see an outdated
    // value.
    if (item != nullptr) discard(store, item);
    item = new_item(store, key, bytes, now);
    if (item == nullptr) return Status::kOutOfMemory;
    link(store, item, now);
    *is_new = true;
  }
  copy_in(item->value(), request.value.data(), bytes);
  item->cas = request.new_cas;
  item->flags = request.flags;
  item->until = request.until;
  return Status::kOk;
}

// Appends, prepends.
TMH_TRANSACTION_SAFE inline Status join_values(Store &store, const Key &key, Seconds now,
                                               const PutRequest &request, Item *item) {
  const std::size_t old_bytes = item->value_bytes, added = request.value.size();
  const std::size_t bytes = old_bytes + added;
  if (item_bytes(key.bytes, bytes) > kItemBytesMax) return Status::kTooLarge;
  const bool is_in_front = request.how == Put::kPrepend;
  if (class_of(store, item_bytes(key.bytes, bytes)) == item->size_class) {
    if (is_in_front) memmove(item->value() + added, item->value(), old_bytes);
    resize_in_place(store, item, bytes);
    bump(store, item, now);
  } else {
    // Of another class, so it is not the old one that goes for the new one.
    Item *joined = new_item(store, key, bytes, now);
    if (joined == nullptr) return Status::kOutOfMemory;
    joined->flags = item->flags;
    joined->until = item->until;
    memcpy(joined->value() + (is_in_front ? added : 0), item->value(), old_bytes);
    discard(store, item);
    link(store, joined, now);
    item = joined;
  }
  copy_in(item->value() + (is_in_front ? 0 : old_bytes), request.value.data(), added);
  item->cas = request.new_cas;
  return Status::kOk;
}

TMH_TRANSACTION_SAFE inline Counted create_number(Store &store, const Key &key, Seconds now,
                                                  const CountRequest &request) {
  char text[kDigitsMax];
  const std::uint32_t digits = write_number(request.initial, text);
  Item *item = new_item(store, key, digits, now);
  if (item == nullptr) return {Status::kOutOfMemory, false, 0, 0};
  for (std::uint32_t i = 0; i < digits; ++i) item->value()[i] = text[kDigitsMax - digits + i];
  item->flags = 0;
  item->until = request.until_if_created;
  item->cas = request.new_cas;
  link(store, item, now);
  return {Status::kOk, true, request.initial, request.new_cas};
}

TMH_TRANSACTION_SAFE inline Counted change_number(Store &store, const Key &key, Seconds now,
                                                  const CountRequest &request, Item *item) {
  if (request.compared_cas != 0 && item->cas != request.compared_cas)
    return {Status::kExists, false, 0, 0};
  std::uint64_t number = 0;
  if (!read_number(item->value(), item->value_bytes, &number))
    return {Status::kNoNumber, false, 0, 0};
  if (!request.is_down)
    number += request.delta;
  else
    number = number < request.delta ? 0 : number - request.delta;
  char text[kDigitsMax];
  const std::uint32_t digits = write_number(number, text);
  if (digits > item->value_bytes) {
    if (class_of(store, item_bytes(key.bytes, digits)) == item->size_class) {
      resize_in_place(store, item, digits);
    } else {
      Item *longer = new_item(store, key, digits, now);
      if (longer == nullptr) return {Status::kOutOfMemory, false, 0, 0};
      longer->flags = item->flags;
      longer->until = item->until;
      discard(store, item);
      link(store, longer, now);
      item = longer;
    }
  }
  // A shorter number keeps the value's length, as in memcached.
  char *value = item->value();
  for (std::uint32_t i = 0; i < item->value_bytes; ++i)
    value[i] = i < digits ? text[kDigitsMax - digits + i] : ' ';
  item->cas = request.new_cas;
  bump(store, item, now);
  return {Status::kOk, false, number, request.new_cas};
}

}  // namespace

Got get(Store &store, const Key &key, Seconds now, char *buffer, std::size_t buffer_bytes,
        const Seconds *touched_until) {
  const bool touches = touched_until != nullptr;
  const Seconds until = touches ? *touched_until : kNever;
  return itm::atomically([&]() -> Got {
    Item *item = find_present(store, key, now);
    if (item == nullptr) return {Status::kNotFound, 0, 0, 0};
    const std::uint32_t bytes = item->value_bytes;
    if (bytes > buffer_bytes) return {Status::kNoRoom, 0, bytes, 0};
    copy_out(buffer, item->value(), bytes);
    bump(store, item, now);
    if (touches) item->until = until;
    return {Status::kOk, item->flags, bytes, item->cas};
  });
}

Touched touch(Store &store, const Key &key, Seconds now, Seconds until) {
  return itm::atomically([&]() -> Touched {
    Item *item = find_present(store, key, now);
    if (item == nullptr) return {Status::kNotFound, 0, 0};
    item->until = until;
    bump(store, item, now);
    return {Status::kOk, item->flags, item->cas};
  });
}

PutResult put(Store &store, const Key &key, Seconds now, const PutRequest &request) {
  const bool is_too_large = !value_fits(key, request.value.size());
  return itm::atomically([&]() -> PutResult {
    bool is_new = false;
    Item *item = find_present(store, key, now);
    Status status = refusal(item, request);
    if (status == Status::kOk) {
      if (is_too_large)
        status = Status::kTooLarge;
      else if (request.how == Put::kAppend || request.how == Put::kPrepend)
        status = join_values(store, key, now, request, item);
      else
        status = put_value(store, key, now, request, item, &is_new);
    }
    return {status, store.table.old_buckets != nullptr, is_new};
  });
}

Status remove(Store &store, const Key &key, Seconds now, std::uint64_t compared_cas) {
  return itm::atomically([&]() -> Status {
    Item *item = find_present(store, key, now);
    if (item == nullptr) return Status::kNotFound;
    if (compared_cas != 0 && item->cas != compared_cas) return Status::kExists;
    discard(store, item);
    return Status::kOk;
  });
}

Counted count(Store &store, const Key &key, Seconds now, const CountRequest &request) {
  return itm::atomically([&]() -> Counted {
    Item *item = find_present(store, key, now);
    if (item != nullptr) return change_number(store, key, now, request, item);
    if (!request.may_create) return {Status::kNotFound, false, 0, 0};
    return create_number(store, key, now, request);
  });
}

void flush(Store &store, Seconds at, Seconds now) {
  itm::atomically([&] {
    store.flush_at = at <= now ? now : at;
    flush_when_due(store, now);
  });
}

void grow_table(Store &store) {
  // 0: it is large enough.
  const std::uint64_t buckets = itm::atomically([&]() -> std::uint64_t {
    if (store.table.old_buckets != nullptr) return 0;
    std::uint64_t items = 0;
    for (unsigned i = 0; i < store.classes; ++i) items += store.size_class[i].items;
    const std::uint64_t present = store.table.mask + 1;
    const bool is_full = items * kLoadDenominator > present * kLoadNumerator;
    return is_full && present < kBucketsMax ? present * 2 : 0;
  });
  if (buckets == 0) return;
  auto *fresh = static_cast<Item **>(std::calloc(buckets, sizeof(Item *)));
  if (fresh == nullptr) return;  // longer chains do as well
  const bool is_used = itm::atomically([&]() -> bool {
    Table &table = store.table;
    if (table.old_buckets != nullptr || table.mask + 1 != buckets / 2) return false;
    table.old_buckets = table.buckets;
    table.old_mask = table.mask;
    table.buckets = fresh;
    table.mask = buckets - 1;
    table.moved = 0;
    return true;
  });
  if (!is_used) std::free(fresh);
}

void move_buckets(Store &store) {
  itm::atomically([&] {
    Table &table = store.table;
    for (int i = 0; i < kBucketsMovedAtOnce && table.old_buckets != nullptr; ++i) {
      Item *item = table.old_buckets[table.moved];
      // Also for a runtime with snapshot isolation, where only stores to the same place are a
      // conflict: no other worker may put an item into this chain meanwhile. A value that was never
      // there: in method pages a store of an equal one is no conflict.
      table.old_buckets[table.moved] = reinterpret_cast<Item *>(table.old_buckets);
      while (item != nullptr) {
        Item *next = item->next;
        Item **bucket = &table.buckets[item->hash & table.mask];
        item->next = *bucket;
        *bucket = item;
        item = next;
      }
      if (++table.moved > table.old_mask) {
        free(table.old_buckets);
        table.old_buckets = nullptr;
      }
    }
  });
}

ClassFigures class_figures(Store &store, unsigned number) {
  return itm::atomically([&]() -> ClassFigures {
    const SizeClass &list = store.size_class[number];
    return {store.chunk_bytes[number],
            kPageBytes / store.chunk_bytes[number],
            list.pages,
            list.items,
            list.item_bytes,
            list.evictions,
            list.reclaimed,
            list.out_of_memory,
            list.oldest == nullptr ? kNever : list.oldest->bumped};
  });
}

TableFigures table_figures(Store &store) {
  return itm::atomically([&]() -> TableFigures {
    return {store.table.mask + 1, store.table.old_buckets != nullptr};
  });
}

void clear_class_counters(Store &store) {
  itm::atomically([&] {
    for (unsigned i = 0; i < store.classes; ++i) {
      store.size_class[i].evictions = 0;
      store.size_class[i].reclaimed = 0;
      store.size_class[i].out_of_memory = 0;
    }
  });
}

void fault_inside(Store &store, const Key &key, Fault fault) {
  itm::atomically([&] {
    Item *item = find(store, key);
    if (item != nullptr) {
      for (std::uint32_t i = 0; i < item->value_bytes; ++i) item->value()[i] = '!';
      item->cas = 0;
      unlist(store.size_class[item->size_class], item);
      *bucket_of(store, key.hash) = nullptr;
    }
    ++store.generation;
    die_of(fault);
  });
}

}  // namespace cache
