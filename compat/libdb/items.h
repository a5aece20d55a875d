// compat/libdb/items.h -- what lies in the slots of a tree's pages: records, children, high keys.
// Shape:     an item begins with u16: a key's bytes, kBigKey, kBigData. Then, of an inner page, the
//            child u32. Then the key; then, of a leaf, the data to the item's end. What is big is
//            {first page u32, bytes u32}: a chain of overflow pages, each {next u32 at 8, bytes u32
//            at 16}, with its bytes behind the head.
// Invariant: each big item has a chain of its own.
// Errors:    Failure(EINVAL): a chain that is none. Failure(EFBIG): more than 4 GiB.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compat/libdb/failure.h"
#include "compat/libdb/slots.h"
#include "platform/assert.h"

namespace tmh::db {

inline constexpr std::uint32_t kTreeLevelsMax = 32;

struct Item {
  std::uint16_t head = 0;
  PageId child = 0;
  Bytes key, data;  // as they lie in the page
};

struct Big {
  PageId first;
  std::uint32_t bytes;
};

template <class Store>
class Items {
 public:
  using S = Slots<typename Store::Page>;

  // keys_min: records that a page has room for, beside a high key.
  Items(Store *store, std::uint32_t keys_min) : store_(*store) {
    const std::uint32_t part = (store_.page_bytes() - S::kHeadBytes) / (keys_min + 2);
    inline_max_ = part > S::kSlotBytes + kItemHeadMax ? part - S::kSlotBytes - kItemHeadMax : 0;
    if (inline_max_ < 2 * kBigBytes) throw Failure{EINVAL};
  }

  // Of a page that comes from a file: its items are whole, and as its kind has them.
  [[nodiscard]] static bool is_sound(const typename Store::Page &page) noexcept;

  [[nodiscard]] Item parse(const S &slots, std::uint32_t index);
  [[nodiscard]] static Item parse_item(Bytes item, bool has_child);
  // Valid until the page or the copy changes.
  [[nodiscard]] Bytes key_of(const S &slots, std::uint32_t index, std::vector<std::byte> *copy);
  [[nodiscard]] std::vector<std::byte> copied_key(const S &slots, std::uint32_t index);
  void load_data(const S &slots, std::uint32_t index, std::vector<std::byte> *to);
  // Of a separator that tells the item from one before it.
  [[nodiscard]] std::size_t separator_bytes_max(const Item &item) const noexcept;

  // The chains of its key and its data go.
  void release_bigs(const S &slots, std::uint32_t index);

  void make_record(Bytes key, Bytes data, std::vector<std::byte> *item);
  void make_child(PageId child, Bytes key, std::vector<std::byte> *item);
  void make_high(Bytes key, std::vector<std::byte> *item);

 private:
  static constexpr std::uint16_t kBigKey = 0x8000, kBigData = 0x4000, kKeyBytes = 0x3fff;
  static constexpr std::uint32_t kBigBytes = sizeof(Big), kItemHeadMax = 6;
  static_assert(kPageBytesMax / 4 <= kKeyBytes + 1);

  void load_big(Bytes reference, std::vector<std::byte> *to);
  [[nodiscard]] Big store_big(Bytes bytes);
  void release_big(Bytes reference);
  void put_key(Bytes key, std::vector<std::byte> *item);

  Store &store_;
  std::uint32_t inline_max_ = 0;  // of a key and its data
  std::vector<std::byte> item_copy_, chain_copy_;
};

}  // namespace tmh::db
