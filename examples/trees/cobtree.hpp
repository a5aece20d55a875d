// examples/trees/cobtree.hpp -- a dynamic cache-oblivious B-tree as plain serial code: no block
// size anywhere.
// Shape:     packed memory array: 2^levels segments of 31 slots, records in order, each segment
//            filled from its left, with gaps spread over all; above it a complete binary tree of
//            separators in van Emde Boas order (veb_layout.hpp), one leaf per segment. Values lie
//            in the slots when they are small, else beside them with a pointer in the slot: records
//            move.
//            window of level l: 2^l neighbouring segments, those below one node of the index.
// Insert:    into the segment that the index names. A full one looks for the smallest window around
//            it that is not too dense, and spreads that window's records evenly; when the whole
//            array is too dense it is copied into one twice as large. Erase is the same with
//            windows too sparse, and half the array.
//                      window of one segment  whole array
//            at most   31 of 31 slots         0.6
//            at least  1/8                    1/4  (2 * 1/4 < 0.6: no copy soon follows another)
//            Densities between them: in proportion to the level.
// Invariant: (1) keys ascend along the array. (2) with more than one segment none is empty, nor
//            below 1/8. (3) a separator is above all keys to its left and not above any to its
//            right. It is set when its window is spread, and holds until then whatever is inserted
//            or erased: an insert that finds room writes its segment and nothing else.
// Cost:      search O(log_B N) block transfers, insert and erase O(log_B N + (log N)^2 / B)
//            amortized, scan of R records O(R / B) besides, for every B at once.
// Errors:    what the allocator throws; the tree is then as before.
// Contexts:  as tmh/trees/bptree.hpp: one thread, and no transactions known.
// Source:    Bender, Demaine, Farach-Colton, "Cache-oblivious B-trees", SIAM J. Computing 35(2),
//            2005; the index over an array of segments: Bender, Duan, Iacono, Wu, "A
//            locality-preserving cache-oblivious dynamic dictionary", SODA 2002. Thesis, section
//            5.1. We differ: segments have 31 slots and not log N, which is the same up to 2^32
//            records.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <tmh/trees/slot.hpp>

#include "veb_layout.hpp"

namespace trees {

using tmh::trees::kLineBytes;
using tmh::trees::PlainField;
using tmh::trees::Records;
using tmh::trees::ValuePlace;

// Larger values lie beside, because records move: 2.6 for each insert of 250,000 in random order,
// 190 when they come in order.
inline constexpr std::size_t kMovedValueBytesMax = 64;

// Key: an arithmetic or other trivially copyable type with <.
template <class Key, class Value, class Allocator = std::allocator<std::byte>,
          ValuePlace kPlace =
              (sizeof(Value) <= kMovedValueBytesMax && std::is_trivially_copyable_v<Value>)
                  ? ValuePlace::kInSlot
                  : ValuePlace::kBeside,
          template <class> class Field = PlainField>
class CoBTree {
  static_assert(std::is_trivially_copyable_v<Key>, "separators are copies of keys");
  using Rows = Records<Field, Key, Value, Allocator, kPlace>;

 public:
  using SlotType = typename Rows::SlotType;
  using allocator_type = Allocator;
  static constexpr std::size_t kSlots = 31;  // with the count, 512 bytes for slots of 16
  struct alignas(kLineBytes) Segment {
    Field<std::uint64_t> count;
    SlotType slots[kSlots];
  };

  struct Record {
    Key key;
    typename Rows::InTree &value;
  };
  // Forward, in the order of keys. Valid until the tree changes.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Record;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Record;
    Iterator() = default;
    [[nodiscard]] Record operator*() const {
      const SlotType &slot = segment_->slots[position_];
      return {slot.key, Rows::value_of(slot)};
    }
    Iterator &operator++() {
      if (++position_ == segment_->count) {
        ++segment_;
        position_ = 0;
      }
      return *this;
    }
    Iterator operator++(int) { return std::exchange(*this, ++Iterator(*this)); }
    friend bool operator==(const Iterator &, const Iterator &) = default;

   private:
    friend class CoBTree;
    Iterator(const Segment *segment, std::uint64_t position)
        : segment_(segment), position_(position) {
      assert(position <= segment->count);
    }
    const Segment *segment_ = nullptr;
    std::uint64_t position_ = 0;
  };

  explicit CoBTree(const Allocator &allocator = Allocator()) : allocator_(allocator) {
    array_ = make_array(0);
  }
  ~CoBTree() { drop_all(); }
  CoBTree(const CoBTree &) = delete;
  CoBTree &operator=(const CoBTree &) = delete;

  // False, and nothing changed: the key is there already. Moves records: pointers to values stay
  // good only where these lie beside.
  template <class From = Value>
  bool insert(const Key &key, const From &value) {
    Place place = find_place(key);
    if (place.found) return false;
    const typename Rows::Fresh fresh = Rows::make(key, value, allocator_);
    if (segment(place.segment).count == kSlots) {
      try {
        make_room(place.segment);
      } catch (const std::exception &) {
        Rows::drop(fresh, allocator_);
        throw;
      }
      place = find_place(key);
    }
    Segment &home = segment(place.segment);
    const std::uint64_t used = home.count;
    std::copy_backward(home.slots + place.position, home.slots + used, home.slots + used + 1);
    home.slots[place.position].set(fresh);
    home.count = used + 1;
    return true;
  }

  [[nodiscard]] typename Rows::InTree *find(const Key &key) const {
    const Place place = find_place(key);
    return place.found ? &Rows::value_of(segment(place.segment).slots[place.position]) : nullptr;
  }

  // False: no such key. Moves records, and allocates when the array is halved.
  bool erase(const Key &key) {
    Place place = find_place(key);
    if (!place.found) return false;
    Window window = window_after_erase(place.segment);
    if (window.level > array_.levels) {  // what can fail, first
      resize(array_.levels - 1);
      place = find_place(key);
      window = window_after_erase(place.segment);
    }
    Segment &home = segment(place.segment);
    Rows::drop(home.slots[place.position], allocator_);
    std::copy(home.slots + place.position + 1, home.slots + home.count,
              home.slots + place.position);
    --home.count;
    if (window.level > 0) spread(window);
    return true;
  }

  void clear() {
    const Array empty = make_array(0);
    drop_all();
    array_ = empty;
  }

  [[nodiscard]] bool empty() const { return array_.levels == 0 && segment(0).count == 0; }
  // Walks along the segments.
  [[nodiscard]] std::size_t size() const { return records_in(0, segment_count()); }
  // Of the index; the array has 2^levels segments.
  [[nodiscard]] std::size_t levels() const { return array_.levels; }
  // The array, for tools that look at it.
  [[nodiscard]] Segment *segments() const { return array_.segments; }
  [[nodiscard]] std::uint64_t segment_count() const { return std::uint64_t{1} << array_.levels; }

  [[nodiscard]] Iterator begin() const { return empty() ? end() : Iterator(array_.segments, 0); }
  [[nodiscard]] Iterator end() const {
    Iterator end;
    end.segment_ = array_.segments + segment_count();
    return end;
  }
  // The first record whose key is not before `key`.
  [[nodiscard]] Iterator lower_bound(const Key &key) const {
    const Place place = find_place(key);
    if (place.position < segment(place.segment).count)
      return Iterator(&segment(place.segment), place.position);
    if (place.segment + 1 == segment_count()) return end();
    return Iterator(&segment(place.segment + 1), 0);
  }
  // visit(key, value) for every record from `first` up to, not including, `last`.
  template <class Visit>
  void scan(const Key &first, const Key &last, Visit &&visit) const {
    for (std::uint64_t i = find_place(first).segment; i < segment_count(); ++i) {
      for (const SlotType *slot = segment(i).slots; slot != segment(i).slots + segment(i).count;
           ++slot) {
        if (slot->key < first) continue;
        if (!(slot->key < last)) return;
        visit(slot->key, Rows::value_of(*slot));
      }
    }
  }

  // Empty when the invariants hold, else the first that does not.
  [[nodiscard]] std::string invariants() const {
    const SlotType *before = nullptr;
    for (std::uint64_t i = 0; i < segment_count(); ++i) {
      const Segment &each = segment(i);
      if (each.count > kSlots) return "a segment counts more records than fit";
      if (array_.levels > 0 && each.count < least(0)) return "a segment is too sparse";
      for (std::uint64_t j = 0; j < each.count; ++j) {
        if (before != nullptr && !(before->key < each.slots[j].key)) return "keys do not ascend";
        before = &each.slots[j];
      }
    }
    VebLayout::Path path;
    return array_.levels == 0 ? "" : broken_separators(&path, 0, 1);
  }

 private:
  struct Array {
    Segment *segments;
    Field<Key> *separators;  // 2^levels - 1 of them; null when there is none
    std::size_t levels;
  };
  // The same in the tree.
  struct ArrayFields {
    Field<Segment *> segments;
    Field<Field<Key> *> separators;
    Field<std::size_t> levels;
    ArrayFields &operator=(const Array &array) {
      segments = array.segments;
      separators = array.separators;
      levels = array.levels;
      return *this;
    }
    // NOLINT(google-explicit-constructor): loads all
    operator Array() const { return {segments, separators, levels}; }
  };
  struct Place {
    std::uint64_t segment, position;  // of the key, or where it belongs
    bool found;
  };
  struct Window {
    std::uint64_t first;  // segment
    std::size_t level;
    std::uint64_t records;
  };

  template <class T>
  using Rebound = typename std::allocator_traits<Allocator>::template rebind_alloc<T>;

  [[nodiscard]] Array make_array(std::size_t levels) {
    assert(levels <= kVebLevelsMax);
    const std::uint64_t count = std::uint64_t{1} << levels;
    Array made{Rebound<Segment>(allocator_).allocate(count), nullptr, levels};
    try {
      if (count > 1) made.separators = Rebound<Field<Key>>(allocator_).allocate(count - 1);
    } catch (const std::exception &) {
      Rebound<Segment>(allocator_).deallocate(made.segments, count);
      throw;
    }
    // The slots are written when they are used.
    for (std::uint64_t i = 0; i < count; ++i) made.segments[i].count = 0;
    return made;
  }
  void drop_array(const Array &array) {
    const std::uint64_t count = std::uint64_t{1} << array.levels;
    Rebound<Segment>(allocator_).deallocate(array.segments, count);
    if (count > 1) Rebound<Field<Key>>(allocator_).deallocate(array.separators, count - 1);
  }
  void drop_all() {
    for (std::uint64_t i = 0; i < segment_count(); ++i) {
      for (std::uint64_t j = 0; j < segment(i).count; ++j)
        Rows::drop(segment(i).slots[j], allocator_);
    }
    drop_array(array_);
  }

  [[nodiscard]] Segment &segment(std::uint64_t index) const { return array_.segments[index]; }

  [[nodiscard]] Place find_place(const Key &key) const {
    const VebLayout &layout = VebLayout::of(array_.levels);
    VebLayout::Path path;
    std::uint64_t node = 1;
    for (std::size_t depth = 0; depth < array_.levels; ++depth)
      node = 2 * node + (key < array_.separators[layout.position(&path, depth, node)] ? 0 : 1);
    const std::uint64_t index = node - segment_count();
    const Segment &home = segment(index);
    const SlotType *at =
        std::lower_bound(home.slots, home.slots + home.count, key,
                         [](const SlotType &slot, const Key &wanted) { return slot.key < wanted; });
    const auto position = static_cast<std::uint64_t>(at - home.slots);
    return {index, position, position < home.count && !(key < at->key)};
  }

  // Records that a window of `level` may hold after an insert, and must hold after an erase.
  [[nodiscard]] std::uint64_t most(std::size_t level) const {
    const std::uint64_t segments = std::uint64_t{1} << level;
    // Evenly spread, each segment has a free slot.
    return std::min(segments * (kSlots - 1),
                    segments * kSlots * (10 * array_.levels - 4 * level) / (10 * array_.levels));
  }
  [[nodiscard]] std::uint64_t least(std::size_t level) const {
    return (std::uint64_t{kSlots} << level) * (array_.levels + level) / (8 * array_.levels);
  }
  [[nodiscard]] std::uint64_t records_in(std::uint64_t first, std::uint64_t segments) const {
    std::uint64_t records = 0;
    for (std::uint64_t i = 0; i < segments; ++i) records += segment(first + i).count;
    return records;
  }
  // Grown by one level: the neighbour below the same node comes in.
  void widen(Window *window) const {
    const std::uint64_t segments = std::uint64_t{1} << window->level;
    window->records += records_in(window->first ^ segments, segments);
    window->first &= ~segments;
    ++window->level;
  }

  // Afterwards every segment around `full` has a free slot.
  void make_room(std::uint64_t full) {
    Window window{full, 0, kSlots};
    while (window.level < array_.levels) {
      widen(&window);
      if (window.records < most(window.level)) return spread(window);
    }
    resize(array_.levels + 1);
  }
  // The smallest window around `index` that is dense enough without one of its records; level >
  // levels(): there is none.
  [[nodiscard]] Window window_after_erase(std::uint64_t index) const {
    Window window{index, 0, segment(index).count - 1};
    if (array_.levels == 0) return window;
    while (window.records < least(window.level)) {
      if (window.level == array_.levels) return {0, array_.levels + 1, window.records};
      widen(&window);
    }
    return window;
  }

  // Of n records in m segments, the i-th segment begins with this one.
  [[nodiscard]] static std::uint64_t share(std::uint64_t i, std::uint64_t n,
                                           std::uint64_t m) noexcept {
    return i * n / m;
  }

  // Evenly, in place: all to the left, then from the right to where they belong, which is never
  // further left.
  void spread(const Window &window) {
    const std::uint64_t segments = std::uint64_t{1} << window.level;
    const auto packed = [&](std::uint64_t i) -> SlotType & {
      return segment(window.first + i / kSlots).slots[i % kSlots];
    };
    std::uint64_t next = 0;
    for (std::uint64_t i = 0; i < segments; ++i) {
      const Segment &from = segment(window.first + i);
      for (std::uint64_t j = 0; j < from.count; ++j) packed(next++) = from.slots[j];
    }
    for (std::uint64_t i = segments; i-- > 0;) {
      Segment &to = segment(window.first + i);
      const std::uint64_t begin = share(i, next, segments);
      to.count = share(i + 1, next, segments) - begin;
      for (std::uint64_t j = to.count; j-- > 0;) to.slots[j] = packed(begin + j);
    }
    VebLayout::Path path;
    const std::size_t top = array_.levels - window.level;
    const std::uint64_t leaf = window.first + segment_count();
    for (std::size_t depth = 0; depth < top; ++depth)
      (void)VebLayout::of(array_.levels).position(&path, depth, leaf >> (array_.levels - depth));
    set_separators(&path, top, leaf >> window.level);
  }

  // Everything into an array of another size.
  void resize(std::size_t levels) {
    const Array old = array_;
    array_ = make_array(levels);
    const std::uint64_t old_segments = std::uint64_t{1} << old.levels;
    std::uint64_t records = 0;
    for (std::uint64_t i = 0; i < old_segments; ++i) records += old.segments[i].count;
    const Segment *from = old.segments;
    std::uint64_t taken = 0;  // of *from
    for (std::uint64_t i = 0; i < segment_count(); ++i) {
      Segment &to = segment(i);
      const std::uint64_t count =
          share(i + 1, records, segment_count()) - share(i, records, segment_count());
      for (; to.count < count; ++to.count) {
        for (; taken == from->count; ++from) taken = 0;
        to.slots[to.count] = from->slots[taken++];
      }
    }
    VebLayout::Path path;
    if (levels > 0) set_separators(&path, 0, 1);
    drop_array(old);
  }

  // The first segment to the right of the middle below a node.
  [[nodiscard]] std::uint64_t right_of(std::size_t depth, std::uint64_t node) const {
    return ((2 * node + 1) << (array_.levels - depth - 1)) - segment_count();
  }
  // Of a node and all below it. REQUIRES: the path holds its ancestors' positions.
  void set_separators(VebLayout::Path *path, std::size_t depth, std::uint64_t node) {
    if (depth == array_.levels) return;
    const std::uint64_t position = VebLayout::of(array_.levels).position(path, depth, node);
    array_.separators[position] = segment(right_of(depth, node)).slots[0].key;
    set_separators(path, depth + 1, 2 * node);
    set_separators(path, depth + 1, 2 * node + 1);
  }
  [[nodiscard]] std::string broken_separators(VebLayout::Path *path, std::size_t depth,
                                              std::uint64_t node) const {
    if (depth == array_.levels) return "";
    const Key separator =
        array_.separators[VebLayout::of(array_.levels).position(path, depth, node)];
    const Segment &right = segment(right_of(depth, node)), &left = *(&right - 1);
    if (!(left.slots[left.count - 1].key < separator))
      return "a separator is not above what is left of it";
    if (right.slots[0].key < separator) return "a separator is above what is right of it";
    const std::string broken = broken_separators(path, depth + 1, 2 * node);
    return broken.empty() ? broken_separators(path, depth + 1, 2 * node + 1) : broken;
  }

  Allocator allocator_;
  ArrayFields array_;
};

}  // namespace trees
