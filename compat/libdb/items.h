// compat/libdb/items.h -- what lies in the slots of a tree's pages: records, children, high keys.
// Shape:     an item begins with u16: a key's bytes and flags. Then, of an inner page, the
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
#include "compat/libdb/store.h"
#include "compat/libdb/undo_record.h"
#include "platform/assert.h"

namespace tmh::db {

inline constexpr std::uint32_t kTreeLevelsMax = 32;

// A page that a link of another one leads to, of the same level. Throws Failure: it is none: the
// file is damaged, or the pages are of different times.
[[nodiscard]] inline Slots linked(const Slots &found, const Slots &from) {
  if (found.kind() != from.kind() || found.level() != from.level() || found.count() == 0)
    throw Failure{EINVAL};
  return found;
}

struct Item {
  std::uint16_t head = 0;
  PageId child = 0;
  Bytes key, data;  // as they lie in the page
};

struct Big {
  PageId first;
  std::uint32_t bytes;
};

class Items {
 public:
  // keys_min: records that a page has room for, beside a high key.
  Items(Store *store, std::uint32_t keys_min) : store_(*store) {
    const std::uint32_t part = (store_.page_bytes() - Slots::kHeadBytes) / (keys_min + 2);
    inline_max_ =
        part > Slots::kSlotBytes + kItemHeadMax ? part - Slots::kSlotBytes - kItemHeadMax : 0;
    if (inline_max_ < 2 * kBigBytes) throw Failure{EINVAL};
    if (inline_max_ > kKeyBytes) inline_max_ = kKeyBytes;
  }

  // Of a page that comes from a file: its items are whole, and as its kind has them.
  [[nodiscard]] static bool is_sound(const Page &page) noexcept;

  [[nodiscard]] Item parse(const Slots &slots, std::uint32_t index);
  [[nodiscard]] static Item parse_item(Bytes item, bool has_child);
  // Valid until the page or the copy changes.
  [[nodiscard]] Bytes key_of(const Slots &slots, std::uint32_t index, std::vector<std::byte> *copy);
  [[nodiscard]] std::vector<std::byte> copied_key(const Slots &slots, std::uint32_t index);
  void load_data(const Slots &slots, std::uint32_t index, std::vector<std::byte> *to);
  // Of a separator that tells the item from one before it.
  [[nodiscard]] std::size_t separator_bytes_max(const Item &item) const noexcept;

  // A record that its transaction has erased, and may still take back: it is not there.
  [[nodiscard]] static bool is_ghost(const Slots &slots, std::uint32_t index) noexcept {
    return (slots.page().load<std::uint16_t>(slots.offset(index)) & kGhost) != 0;
  }
  [[nodiscard]] static bool are_all_ghosts(const Slots &slots) noexcept;
  static void set_ghost(Slots *slots, std::uint32_t index, bool is_ghost) noexcept;
  // Of a record: all of it lies in the page.
  [[nodiscard]] static bool is_inline(Bytes item) noexcept;
  [[nodiscard]] Digest key_digest(const Slots &slots, std::uint32_t index);
  [[nodiscard]] Digest data_digest(const Slots &slots, std::uint32_t index);

  // The chains of its key and its data go.
  void release_bigs(const Slots &slots, std::uint32_t index);

  void make_record(Bytes key, Bytes data, std::vector<std::byte> *item);
  // The child stays.
  void clear_child_key(Slots *slots, std::uint32_t index);
  void make_child(PageId child, Bytes key, std::vector<std::byte> *item);
  void make_high(Bytes key, std::vector<std::byte> *item);

 private:
  static constexpr std::uint16_t kBigKey = 0x8000, kBigData = 0x4000, kGhost = 0x2000,
                                 kKeyBytes = 0x1fff;
  static constexpr std::uint32_t kBigBytes = sizeof(Big), kItemHeadMax = 6;

  void load_big(Bytes reference, std::vector<std::byte> *to);
  [[nodiscard]] Big store_big(Bytes bytes);
  void release_big(Bytes reference);
  void put_key(Bytes key, std::vector<std::byte> *item);

  Store &store_;
  std::uint32_t inline_max_ = 0;  // of a key and its data
};

}  // namespace tmh::db
