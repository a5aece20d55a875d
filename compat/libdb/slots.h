// compat/libdb/slots.h -- a page of items: byte strings in an order, each found by a slot.
// Shape:     the page's head: 0 kind u8, 1 level u8, 2 items u16, 4 left u32, 8 right u32, 12 floor
//            u32, 16 bytes of items u32, 20 the page's own number u32, 24 unused. From 32 upwards
//            slots {offset u16, bytes u16}, from the page's end downwards items; the lowest begins
//            at `floor`, and there may be gaps above it. All little-endian.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compat/libdb/page.h"
#include "platform/assert.h"

namespace tmh::db {

enum class PageKind : std::uint8_t {
  kFree = 0,
  kLeaf = 1,
  kInner = 2,
  kOverflow = 3,
  kDirectory = 4
};

class Slots {
 public:
  static constexpr std::uint32_t kHeadBytes = 32, kSlotBytes = 4;

  explicit Slots(Page page) noexcept : page_(page) {}

  void make(PageKind kind, std::uint8_t level, PageId own) noexcept {
    page_.store(0, static_cast<std::uint8_t>(kind));
    page_.store(1, level);
    page_.store(2, std::uint16_t{0});
    page_.store(4, PageId{0});
    page_.store(8, PageId{0});
    page_.store(12, page_.bytes());
    page_.store(16, std::uint32_t{0});
    page_.store(20, own);
    page_.store(24, std::uint64_t{0});
  }
  [[nodiscard]] Page &page() noexcept { return page_; }
  [[nodiscard]] const Page &page() const noexcept { return page_; }
  [[nodiscard]] std::uint32_t page_bytes() const noexcept { return page_.bytes(); }
  [[nodiscard]] PageKind kind() const noexcept {
    return static_cast<PageKind>(page_.load<std::uint8_t>(0));
  }
  [[nodiscard]] std::uint8_t level() const noexcept { return page_.load<std::uint8_t>(1); }
  [[nodiscard]] std::uint32_t count() const noexcept { return page_.load<std::uint16_t>(2); }
  [[nodiscard]] PageId left() const noexcept { return page_.load<PageId>(4); }
  [[nodiscard]] PageId right() const noexcept { return page_.load<PageId>(8); }
  [[nodiscard]] PageId own() const noexcept { return page_.load<PageId>(20); }
  void set_left(PageId page) noexcept { page_.store(4, page); }
  void set_right(PageId page) noexcept { page_.store(8, page); }
  void set_own(PageId page) noexcept { page_.store(20, page); }

  [[nodiscard]] std::uint32_t offset(std::uint32_t index) const noexcept {
    TMH_ASSERT(index < count());
    return page_.load<std::uint16_t>(kHeadBytes + index * kSlotBytes);
  }
  [[nodiscard]] std::uint32_t item_bytes(std::uint32_t index) const noexcept {
    TMH_ASSERT(index < count());
    return page_.load<std::uint16_t>(kHeadBytes + index * kSlotBytes + 2);
  }
  // Valid until the page is stored to.
  [[nodiscard]] Bytes item(std::uint32_t index) const noexcept {
    return page_.view(offset(index), item_bytes(index));
  }
  // Bytes that one more item may have.
  [[nodiscard]] std::uint32_t room() const noexcept {
    const std::uint32_t used =
        kHeadBytes + (count() + 1) * kSlotBytes + page_.load<std::uint32_t>(16);
    return used < page_.bytes() ? page_.bytes() - used : 0;
  }
  // Of slots and items, without the head.
  [[nodiscard]] std::uint32_t used_bytes() const noexcept {
    return count() * kSlotBytes + page_.load<std::uint32_t>(16);
  }

  // REQUIRES: there is room.
  void insert(std::uint32_t index, Bytes item) noexcept {
    TMH_ASSERT(index <= count() && item.size() <= room());
    const auto bytes = static_cast<std::uint32_t>(item.size());
    const std::uint32_t at = take(bytes);
    const std::uint32_t slot = kHeadBytes + index * kSlotBytes;
    page_.move(slot + kSlotBytes, slot, (count() - index) * kSlotBytes);
    page_.store(2, static_cast<std::uint16_t>(count() + 1));
    put_slot(index, at, bytes);
    page_.store_bytes(at, item);
  }
  // REQUIRES: there is room for what it is larger.
  void replace(std::uint32_t index, Bytes item) noexcept {
    const auto bytes = static_cast<std::uint32_t>(item.size());
    const std::uint32_t before = item_bytes(index);
    if (bytes > before) {
      add_item_bytes(0 - before);
      put_slot(index, 0, 0);
      const std::uint32_t at = take_for(bytes, 0);
      put_slot(index, at, bytes);
    } else {
      add_item_bytes(bytes - before);
      put_slot(index, offset(index), bytes);
    }
    page_.store_bytes(offset(index), item);
  }
  void erase(std::uint32_t index) noexcept {
    add_item_bytes(0 - item_bytes(index));
    const std::uint32_t slot = kHeadBytes + index * kSlotBytes;
    page_.move(slot, slot + kSlotBytes, (count() - index - 1) * kSlotBytes);
    page_.store(2, static_cast<std::uint16_t>(count() - 1));
    if (count() == 0) page_.store(12, page_.bytes());
  }
  // The items from `index` on are gone.
  void truncate(std::uint32_t index) noexcept {
    TMH_ASSERT(index <= count());
    std::uint32_t bytes = 0;
    for (std::uint32_t i = index; i < count(); ++i) bytes += item_bytes(i);
    add_item_bytes(0 - bytes);
    page_.store(2, static_cast<std::uint16_t>(index));
    if (index == 0) page_.store(12, page_.bytes());
  }

  // Of a page that comes from a file: nothing of it leads outside of the page.
  [[nodiscard]] bool check() const noexcept {
    const std::uint32_t floor = page_.load<std::uint32_t>(12);
    const std::uint64_t slots_end = kHeadBytes + std::uint64_t{count()} * kSlotBytes;
    if (floor > page_.bytes() || slots_end > floor) return false;
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < count(); ++i) {
      if (item_bytes(i) != 0 && (offset(i) < floor || offset(i) + item_bytes(i) > page_.bytes()))
        return false;
      bytes += item_bytes(i);
    }
    return bytes == page_.load<std::uint32_t>(16) && bytes <= page_.bytes() - floor;
  }

 private:
  void put_slot(std::uint32_t index, std::uint32_t offset, std::uint32_t bytes) noexcept {
    TMH_ASSERT(offset <= 0xffff && bytes <= 0xffff);
    page_.store(kHeadBytes + index * kSlotBytes, static_cast<std::uint16_t>(offset));
    page_.store(kHeadBytes + index * kSlotBytes + 2, static_cast<std::uint16_t>(bytes));
  }
  void add_item_bytes(std::uint32_t bytes) noexcept {
    page_.store(16, page_.load<std::uint32_t>(16) + bytes);
  }
  // For an item that has no slot yet.
  std::uint32_t take(std::uint32_t bytes) noexcept { return take_for(bytes, 1); }
  std::uint32_t take_for(std::uint32_t bytes, std::uint32_t new_slots) noexcept {
    // An empty item lies nowhere: the page's end is no offset where a page has 64 KiB.
    if (bytes == 0) return 0;
    std::uint32_t floor = page_.load<std::uint32_t>(12);
    if (floor < kHeadBytes + (count() + new_slots) * kSlotBytes + bytes) {
      close_gaps();
      floor = page_.load<std::uint32_t>(12);
    }
    TMH_ASSERT(floor >= kHeadBytes + (count() + new_slots) * kSlotBytes + bytes);
    floor -= bytes;
    page_.store(12, floor);
    add_item_bytes(bytes);
    return floor;
  }
  void close_gaps() noexcept {
    std::byte old[kPageBytesMax];
    const std::uint32_t begin = page_.load<std::uint32_t>(12);
    page_.load_bytes(begin, {old, page_.bytes() - begin});
    std::uint32_t floor = page_.bytes();
    for (std::uint32_t i = 0; i < count(); ++i) {
      const std::uint32_t bytes = item_bytes(i);
      if (bytes == 0) continue;
      floor -= bytes;
      page_.store_bytes(floor, {old + (offset(i) - begin), bytes});
      put_slot(i, floor, bytes);
    }
    page_.store(12, floor);
  }

  Page page_;
};

}  // namespace tmh::db
