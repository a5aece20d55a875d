// include/tmh/trees/bptree_nodes.hpp -- the nodes of a B+-tree: what lies in one block, and
// changes of one node.
// Shape:     kBlockBytes less 64: what tmh::allocator serves from whole pages of the caller's arena
//            behind a header of its own, so that a node has its page (or pages) to itself and
//            making one writes nothing that others write.
//              Leaf   next, count, changes, order, slots[]. order[0, count) are the slots in the
//                     order of their keys, the rest of order the free slots. An insert writes one
//                     free slot, a part of order and count: two to four lines of 64 bytes, wherever
//                     the key falls. A split leaves the lower half in place and changes the count.
//              Inner  count, changes, keys[count], children[count + 1]; keys[i] is not above any
//                     key below children[i + 1], and above all below children[i]. Written by splits
//                     and by removal of empty children only.
// Isolation: whoever changes a node, or frees it, changes `changes`. So of two instances under
//            snapshot isolation that overlap and change one node the second runs again, also where
//            their other lines differ, or one leaves the count as it was.
// Source:    the order of slots as a permutation: Mao, Kohler, Morris, "Cache craftiness for fast
//            multicore key-value storage", EuroSys 2012, section 4.6.2 (15 slots in a word there;
//            bytes here).
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tmh/trees/slot.hpp>

namespace tmh::trees {

template <std::size_t kBlockBytes>
struct alignas(kLineBytes) Block {
  static_assert(kBlockBytes % kLineBytes == 0 && kBlockBytes > 2 * kLineBytes);
  std::byte bytes[kBlockBytes - kLineBytes];
};

[[nodiscard]] constexpr std::size_t order_bits(std::size_t numbers) noexcept {
  return numbers <= 256 ? 8 : 16;
}
[[nodiscard]] constexpr std::size_t order_bytes(std::size_t numbers) noexcept {
  return (numbers * order_bits(numbers) + 63) / 64 * sizeof(std::uint64_t);
}

// A permutation of [0, kNumbers), several numbers to a word.
template <template <class> class Field, std::size_t kNumbers>
class Order {
 public:
  void fill() {
    for (std::size_t w = 0; w < kWords; ++w) {
      std::uint64_t word = 0;
      for (std::size_t i = kPerWord; i-- > 0;) word = word << kBits | (w * kPerWord + i);
      words_[w] = word;
    }
  }
  [[nodiscard]] std::size_t operator[](std::size_t at) const {
    return words_[at / kPerWord] >> shift_of(at) & kNumber;
  }
  // What was at `last` is at `first`, the others between them one further up.
  void rotate_up(std::size_t first, std::size_t last) {
    const std::size_t moved = (*this)[last];
    std::uint64_t carry = 0;
    for (std::size_t w = first / kPerWord; w <= last / kPerWord; ++w) {
      const std::uint64_t old = words_[w], changed = part_of(w, first, last);
      words_[w] = (old & ~changed) | ((old << kBits | carry) & changed);
      carry = old >> (kWordBits - kBits);
    }
    set(first, moved);
  }
  // What was at `first` is at `last`, the others between them one further down.
  void rotate_down(std::size_t first, std::size_t last) {
    const std::size_t moved = (*this)[first];
    std::uint64_t carry = 0;
    for (std::size_t w = last / kPerWord + 1; w-- > first / kPerWord;) {
      const std::uint64_t old = words_[w], changed = part_of(w, first, last);
      words_[w] = (old & ~changed) | ((old >> kBits | carry) & changed);
      carry = old << (kWordBits - kBits);
    }
    set(last, moved);
  }

 private:
  static constexpr std::size_t kWordBits = 64, kBits = order_bits(kNumbers),
                               kPerWord = kWordBits / kBits;
  static constexpr std::size_t kWords = order_bytes(kNumbers) / sizeof(std::uint64_t);
  static constexpr std::uint64_t kNumber = (std::uint64_t{1} << kBits) - 1;
  static_assert(kNumbers <= 65536, "another block size");

  [[nodiscard]] static constexpr std::size_t shift_of(std::size_t at) noexcept {
    return at % kPerWord * kBits;
  }
  // The bits of word w that belong to [first, last].
  [[nodiscard]] static constexpr std::uint64_t part_of(std::size_t w, std::size_t first,
                                                       std::size_t last) noexcept {
    std::uint64_t part = ~std::uint64_t{0};
    if (w == first / kPerWord) part &= ~std::uint64_t{0} << shift_of(first);
    if (w == last / kPerWord) part &= ~std::uint64_t{0} >> (kWordBits - kBits - shift_of(last));
    return part;
  }
  void set(std::size_t at, std::uint64_t number) {
    const std::uint64_t old = words_[at / kPerWord];
    words_[at / kPerWord] = (old & ~(kNumber << shift_of(at))) | number << shift_of(at);
  }

  Field<std::uint64_t> words_[kWords];
};

template <template <class> class Field, class SlotType, std::size_t kNodeBytes>
struct Leaf {
 private:
  // Slots that divide a line never straddle two.
  static constexpr std::size_t kSlotsAlignment =
      kLineBytes % sizeof(SlotType) == 0 ? kLineBytes : alignof(SlotType);
  [[nodiscard]] static constexpr std::size_t slots_that_fit() noexcept {
    std::size_t slots = kNodeBytes / sizeof(SlotType);
    for (;; --slots) {
      const std::size_t head = 2 * sizeof(std::uint64_t) + order_bytes(slots);
      if ((head + kSlotsAlignment - 1) / kSlotsAlignment * kSlotsAlignment +
              slots * sizeof(SlotType) <=
          kNodeBytes)
        return slots;
    }
  }

 public:
  static constexpr std::size_t kSlots = slots_that_fit();
  static_assert(kSlots >= 2, "another block size");

  Field<Leaf *> next;            // in the order of keys; null: the last
  Field<std::uint16_t> count;    // slots in use; 0 in the root only
  Field<std::uint16_t> changes;  // modulo 2^16
  Order<Field, kSlots> order;
  alignas(kSlotsAlignment) SlotType slots[kSlots];

  // A node is made in an instance: it is stored to like any other.
  void clear() {
    next = nullptr;
    count = 0;
    changes = 0;
    order.fill();
  }
  void note_change() { changes = static_cast<std::uint16_t>(changes + 1); }
  [[nodiscard]] SlotType &at(std::size_t position) { return slots[order[position]]; }
  [[nodiscard]] const SlotType &at(std::size_t position) const { return slots[order[position]]; }

  // REQUIRES: count < kSlots.
  template <class Fresh>
  void insert(std::size_t position, const Fresh &fresh) {
    const std::uint16_t used = count;
    slots[order[used]].set(fresh);
    order.rotate_up(position, used);
    count = static_cast<std::uint16_t>(used + 1);
    note_change();
  }
  void erase(std::size_t position) {
    const auto last = static_cast<std::uint16_t>(count - 1);
    order.rotate_down(position, last);
    count = last;
    note_change();
  }
  // Everything from `position` on goes to the empty leaf `right`, which becomes the next one.
  void split(std::size_t position, Leaf *right) {
    const std::uint16_t used = count;
    for (std::size_t i = position; i < used; ++i) right->slots[i - position] = at(i);
    right->count = static_cast<std::uint16_t>(used - position);
    count = static_cast<std::uint16_t>(position);
    right->next = next;
    next = right;
    note_change();
  }
};

template <template <class> class Field, class Form, std::size_t kNodeBytes>
struct Inner {
  using Stored = typename Form::Stored;
  static constexpr std::size_t kKeys =
      (kNodeBytes - sizeof(std::uint64_t) - sizeof(void *)) / (sizeof(Stored) + sizeof(void *));
  static_assert(kKeys >= 2, "another block size");

  Field<void *> children[kKeys + 1];
  Field<std::uint16_t> count;    // keys; children are one more
  Field<std::uint16_t> changes;  // modulo 2^16
  typename Form::InNode keys[kKeys];

  void clear() {
    count = 0;
    changes = 0;
  }
  void note_change() { changes = static_cast<std::uint16_t>(changes + 1); }

  // A key and the child to its right. REQUIRES: count < kKeys.
  void insert(std::size_t position, const Stored &key, void *right) {
    const std::uint16_t used = count;
    std::copy_backward(keys + position, keys + used, keys + used + 1);
    std::copy_backward(children + position + 1, children + used + 1, children + used + 2);
    keys[position] = key;
    children[position + 1] = right;
    count = static_cast<std::uint16_t>(used + 1);
    note_change();
  }
  // A child and the key between it and a neighbour, which is returned. REQUIRES: count > 0.
  Stored erase(std::size_t position) {
    const std::size_t at = position == 0 ? 0 : position - 1;
    const Stored key = keys[at];
    const std::uint16_t used = count;
    std::copy(keys + at + 1, keys + used, keys + at);
    std::copy(children + position + 1, children + used + 1, children + position);
    count = static_cast<std::uint16_t>(used - 1);
    note_change();
    return key;
  }
  // keys[position], which is returned, leaves the node; what is behind it goes to `right`.
  Stored split(std::size_t position, Inner *right) {
    const std::uint16_t used = count;
    right->clear();
    right->count = static_cast<std::uint16_t>(used - position - 1);
    std::copy(keys + position + 1, keys + used, right->keys);
    std::copy(children + position + 1, children + used + 1, right->children);
    count = static_cast<std::uint16_t>(position);
    note_change();
    return keys[position];
  }
};

}  // namespace tmh::trees
