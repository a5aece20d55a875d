// examples/trees/bptree_nodes.hpp -- the nodes of a B+-tree: what lies in one block, and changes of one node.
// Shape:     kBlockBytes less 64: what tmh::allocator serves from whole pages of the caller's arena behind a header of its own,
//            so that a node has its page (or pages) to itself and making one writes nothing that others write.
//              Leaf   next, count, order[], slots[]. order[0, count) are the slots in the order of their keys, the rest of
//                     order[] the free slots. An insert writes one free slot, a part of order[] and count: two to four lines
//                     of 64 bytes, wherever the key falls. A split leaves the lower half in place and changes count alone.
//              Inner  count, keys[count], children[count + 1]; keys[i] is not above any key below children[i + 1], and above
//                     all below children[i]. Written by splits and by removal of empty children only.
// Source:    the order of slots as a permutation: Mao, Kohler, Morris, "Cache craftiness for fast multicore key-value storage",
//            EuroSys 2012, section 4.6.2 (15 slots in a word there; bytes here).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>

#include "slot.hpp"

namespace trees {

template <std::size_t kBlockBytes>
struct alignas(kLineBytes) Block {
  static_assert(kBlockBytes % kLineBytes == 0 && kBlockBytes > 2 * kLineBytes);
  std::byte bytes[kBlockBytes - kLineBytes];
};

template <class SlotType, std::size_t kNodeBytes>
struct Leaf {
 private:
  static constexpr std::size_t kHeadBytes = sizeof(void *) + sizeof(std::uint16_t);
  // Slots that divide a line never straddle two.
  static constexpr std::size_t kSlotsAlignment = kLineBytes % sizeof(SlotType) == 0 ? kLineBytes : alignof(SlotType);
  [[nodiscard]] static constexpr std::size_t bytes_with(std::size_t slots, std::size_t index_bytes) noexcept {
    const std::size_t head = kHeadBytes + slots * index_bytes + index_bytes - 1;
    return (head + kSlotsAlignment - 1) / kSlotsAlignment * kSlotsAlignment + slots * sizeof(SlotType);
  }
  [[nodiscard]] static constexpr std::size_t slots_with(std::size_t index_bytes) noexcept {
    std::size_t slots = kNodeBytes / sizeof(SlotType);
    while (slots > 0 && bytes_with(slots, index_bytes) > kNodeBytes) --slots;
    return slots;
  }

 public:
  using Index =
      std::conditional_t<slots_with(1) <= std::numeric_limits<std::uint8_t>::max(), std::uint8_t, std::uint16_t>;
  static constexpr std::size_t kSlots = slots_with(sizeof(Index));
  static_assert(kSlots >= 2 && kSlots <= std::numeric_limits<std::uint16_t>::max(), "another block size");

  Leaf *next;           // in the order of keys; null: the last
  std::uint16_t count;  // slots in use; 0 in the root only
  Index order[kSlots];
  alignas(kSlotsAlignment) SlotType slots[kSlots];

  Leaf() noexcept : next(nullptr), count(0) { std::iota(std::begin(order), std::end(order), Index{0}); }
  [[nodiscard]] SlotType &at(std::size_t position) noexcept { return slots[order[position]]; }
  [[nodiscard]] const SlotType &at(std::size_t position) const noexcept { return slots[order[position]]; }

  // REQUIRES: count < kSlots.
  void insert(std::size_t position, const SlotType &slot) noexcept {
    const Index free = order[count];
    slots[free] = slot;
    std::copy_backward(order + position, order + count, order + count + 1);
    order[position] = free;
    ++count;
  }
  void erase(std::size_t position) noexcept {
    const Index freed = order[position];
    std::copy(order + position + 1, order + count, order + position);
    order[--count] = freed;
  }
  // Everything from `position` on goes to the empty leaf `right`, which becomes the next one.
  void split(std::size_t position, Leaf *right) noexcept {
    for (std::size_t i = position; i < count; ++i) right->slots[right->count++] = at(i);
    count = static_cast<std::uint16_t>(position);
    right->next = next;
    next = right;
  }
};

template <class Stored, std::size_t kNodeBytes>
struct Inner {
  static constexpr std::size_t kKeys =
      (kNodeBytes - sizeof(std::uint64_t) - sizeof(void *)) / (sizeof(Stored) + sizeof(void *));
  static_assert(kKeys >= 2, "another block size");

  void *children[kKeys + 1];
  std::uint16_t count;  // keys; children are one more
  Stored keys[kKeys];

  // A key and the child to its right. REQUIRES: count < kKeys.
  void insert(std::size_t position, const Stored &key, void *right) noexcept {
    std::copy_backward(keys + position, keys + count, keys + count + 1);
    std::copy_backward(children + position + 1, children + count + 1, children + count + 2);
    keys[position] = key;
    children[position + 1] = right;
    ++count;
  }
  // A child and the key between it and a neighbour, which is returned. REQUIRES: count > 0.
  Stored erase(std::size_t position) noexcept {
    const std::size_t at = position == 0 ? 0 : position - 1;
    const Stored key = keys[at];
    std::copy(keys + at + 1, keys + count, keys + at);
    std::copy(children + position + 1, children + count + 1, children + position);
    --count;
    return key;
  }
  // keys[position], which is returned, leaves the node; what is behind it goes to `right`.
  Stored split(std::size_t position, Inner *right) noexcept {
    right->count = static_cast<std::uint16_t>(count - position - 1);
    std::copy(keys + position + 1, keys + count, right->keys);
    std::copy(children + position + 1, children + count + 1, right->children);
    count = static_cast<std::uint16_t>(position);
    return keys[position];
  }
};

}  // namespace trees
