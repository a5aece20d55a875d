// include/tmh/trees/bptree.hpp -- a B+-tree as plain serial code: a map in blocks of the size of a
// page.
// Shape:     BPlusTree (root, height: written when the height changes) -> Inner ... -> Leaf, all
//            leaves linked in order. Values lie in the leaves' slots, or, where fewer than 32 would
//            fit a leaf, in blocks of their own with a pointer in the slot: a split then moves
//            pointers, values never move, and the ancestors, which every search reads, are written
//            once in some 200 inserts instead of once in 5 (512-byte values in blocks of 4 KiB).
//            Keys and values of any length (BytesTree) lie in one block each, which a slot names.
// Invariant: (1) height 0: the root is a leaf, perhaps an empty one. Otherwise no leaf is empty and
//            no inner node childless.
//            (2) keys ascend, within leaves and along them; see Inner for the separators. (3) all
//                leaves have one depth.
//            There is no count of records and no link backwards: nothing is written by all inserts,
//            and a split writes two leaves and their parent. size() counts. A leaf's predecessor is
//            found from above.
// Isolation: serializable, or snapshot: see bptree_nodes.hpp. What is stored through find() under
//            snapshot isolation, and values beside slots that are fields, are conflicts by lines:
//            promote such a value where two instances may store to it, or one erases it. clear()
//            and the destructor are for who has the tree alone.
// Erasing:   a node is freed when it is empty, not merged when half empty: fewer nodes are written,
//            and space stays within a few per cent of merging wherever inserts are not outnumbered
//            (Johnson, Shasha, "B-trees with inserts and deletes: why free-at-empty is better than
//            merge-at-half", JCSS 47(1), 1993).
// Errors:    what the allocator throws; std::length_error: a key or value of 4 GiB or more. The
//            tree is then as before.
// Contexts:  one thread; it knows of no transactions. In a segment: every call in a running
//            instance, which isolates and rolls back. With tmh::field at level 1 any call but end()
//            may end the attempt by an exception that is no std::exception.
// Source:    Comer, "The ubiquitous B-tree", Computing Surveys 11(2), 1979; thesis, section 5.1
//            (its B+-tree, block by block).
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tmh/trees/bptree_nodes.hpp>
#include <tmh/trees/bytes.hpp>
#include <tmh/trees/keys.hpp>
#include <tmh/trees/slot.hpp>

namespace tmh::trees {

// Derived: a split logs half a leaf, once in about 0.35 of a leaf's inserts; 32 slots keep the
//          ancestors' writes below one in ten.
inline constexpr std::size_t kSlotsMin = 32;

template <class Key, class Value, std::size_t kBlockBytes>
[[nodiscard]] constexpr ValuePlace place_of_values() noexcept {
  if constexpr (std::is_same_v<Value, Bytes>)
    return ValuePlace::kWithKey;
  else
    return kBlockBytes / (sizeof(typename KeyForm<Key>::Stored) + sizeof(Value)) >= kSlotsMin &&
                   std::is_trivially_copyable_v<Value>
               ? ValuePlace::kInSlot
               : ValuePlace::kBeside;
}

// Key:   an arithmetic or other trivially copyable type with <, or std::string_view for keys of any
//        length (keys.hpp).
// Value: any; or Bytes: of any length, each with its key in one block (bytes.hpp). Then a record,
//        as find(), iterators and scan() give it, is that block: a const BytesRecord<Field>.
template <class Key, class Value, std::size_t kBlockBytes = 4096,
          class Allocator = std::allocator<std::byte>,
          ValuePlace kPlace = place_of_values<Key, Value, kBlockBytes>(),
          template <class> class Field = PlainField>
class BPlusTree {
  using Form = KeyForm<Key, Field>;
  using Stored = typename Form::Stored;
  using InNode = typename Form::InNode;
  using Rows = Records<Field, Key, Value, Allocator, kPlace>;
  using SlotType = typename Rows::SlotType;
  using Fresh = typename Rows::Fresh;
  using NodeBlock = Block<kBlockBytes>;

 public:
  using View = typename Form::View;
  using LeafNode = Leaf<Field, SlotType, sizeof(NodeBlock)>;
  using InnerNode = Inner<Field, Form, sizeof(NodeBlock)>;
  using allocator_type = Allocator;
  static_assert(sizeof(LeafNode) <= sizeof(NodeBlock) && sizeof(InnerNode) <= sizeof(NodeBlock));
  static_assert(alignof(LeafNode) <= alignof(NodeBlock) &&
                alignof(InnerNode) <= alignof(NodeBlock));

  // {key, value &}, or the block of both.
  using Record = typename Rows::Record;
  // Forward, in the order of keys. Valid until the tree changes.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::remove_reference_t<Record>;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Record;
    Iterator() = default;
    [[nodiscard]] Record operator*() const { return Rows::record_of(leaf_->at(position_)); }
    Iterator &operator++() {
      if (++position_ == leaf_->count) *this = Iterator(leaf_->next, 0);
      return *this;
    }
    Iterator operator++(int) { return std::exchange(*this, ++Iterator(*this)); }
    friend bool operator==(const Iterator &, const Iterator &) = default;

   private:
    friend class BPlusTree;
    Iterator(LeafNode *leaf, std::size_t position) noexcept : leaf_(leaf), position_(position) {}
    LeafNode *leaf_ = nullptr;
    std::size_t position_ = 0;
  };

  explicit BPlusTree(const Allocator &allocator = Allocator())
      : allocator_(allocator), root_(make_leaf()) {}
  ~BPlusTree() { drop_below(root_, height_); }
  BPlusTree(const BPlusTree &) = delete;
  BPlusTree &operator=(const BPlusTree &) = delete;

  // False, and nothing changed: the key is there already.
  template <class From = Value>
  bool insert(const View &key, const From &value) {
    Path path;
    const Place place = find_place(key, &path);
    if (place.found) return false;
    insert_at(place, path, key, value);
    return true;
  }
  // Afterwards the key has this value. True: it had none. Bytes are replaced where they lie when
  // their number of words stays; otherwise the record moves to another block. Errors of a Value's
  // own assignment leave that value as the assignment does.
  template <class From = Value>
  bool assign(const View &key, const From &value) {
    Path path;
    const Place place = find_place(key, &path);
    if (place.found)
      Rows::replace(place.leaf->at(place.position), key, value, allocator_);
    else
      insert_at(place, path, key, value);
    // A split may be moving the slot, or another instance erasing the record. Where assigned words
    // are fields, two of different keys need not wait for each other.
    if (place.found && (kPlace == ValuePlace::kInSlot || kIsPlain<Field>))
      place.leaf->note_change();
    return !place.found;
  }

  [[nodiscard]] typename Rows::InTree *find(const View &key) const {
    const Place place = find_place(key, nullptr);
    return place.found ? &Rows::value_of(place.leaf->at(place.position)) : nullptr;
  }

  // False: no such key.
  bool erase(const View &key) {
    Path path;
    const Place place = find_place(key, &path);
    if (!place.found) return false;
    Rows::drop(place.leaf->at(place.position), allocator_);
    place.leaf->erase(place.position);
    if (place.leaf->count == 0 && height_ > 0) unlink_leaf(path, place.leaf);
    return true;
  }

  void clear() {
    LeafNode *leaf = make_leaf();
    drop_below(root_, height_);
    root_ = leaf;
    height_ = 0;
  }

  [[nodiscard]] bool empty() const { return height_ == 0 && first()->count == 0; }
  // Walks along the leaves.
  [[nodiscard]] std::size_t size() const {
    std::size_t records = 0;
    for (const LeafNode *leaf = first(); leaf != nullptr; leaf = leaf->next) records += leaf->count;
    return records;
  }
  [[nodiscard]] std::uint32_t height() const { return height_; }
  // The leaves, from here along LeafNode::next: for tools that look at nodes.
  [[nodiscard]] LeafNode *first() const { return first_leaf(root_, height_); }

  [[nodiscard]] Iterator begin() const { return empty() ? end() : Iterator(first(), 0); }
  [[nodiscard]] Iterator end() const noexcept { return {}; }
  // The first record whose key is not before `key`.
  [[nodiscard]] Iterator lower_bound(const View &key) const {
    const Place place = find_place(key, nullptr);
    return place.position < place.leaf->count ? Iterator(place.leaf, place.position)
                                              : Iterator(place.leaf->next, 0);
  }
  // The record with the greatest key; with the greatest of those below `key`. end(): none.
  [[nodiscard]] Iterator last() const { return last_of(last_leaf(root_, height_)); }
  [[nodiscard]] Iterator before(const View &key) const {
    Path path;
    const Place place = find_place(key, &path);
    if (place.position > 0) return Iterator(place.leaf, place.position - 1);
    LeafNode *const leaf = leaf_before(path, height_);
    return leaf == nullptr ? end() : last_of(leaf);
  }
  // visit(key, value), or visit(record) of Bytes, for every record from `first` up to, not
  // including, `last`.
  template <class Visit>
  void scan(const View &first, const View &last, Visit &&visit) const {
    for (const LeafNode *leaf = find_place(first, nullptr).leaf; leaf != nullptr;
         leaf = leaf->next) {
      const bool is_inside =
          leaf->count > 0 && Form::compare(last, leaf->at(leaf->count - 1).key) > 0;
      for (std::size_t i = 0; i < leaf->count; ++i) {
        const SlotType &slot = leaf->at(i);
        if (Form::compare(first, slot.key) > 0) continue;
        if (!is_inside && Form::compare(last, slot.key) <= 0) return;
        Rows::visit(visit, slot);
      }
    }
  }

  // Empty when the invariants hold, else the first that does not.
  [[nodiscard]] std::string invariants() const {
    Check check;
    check.below(root_, height_, nullptr, nullptr, height_ > 0);
    if (check.broken.empty() && check.last != nullptr && check.last->next != nullptr)
      return "the last leaf has a next one";
    return check.broken;
  }

 private:
  // Inner blocks of 128 bytes have 3 keys at least: 2^32 records and more before this is reached.
  static constexpr std::size_t kHeightMax = 32;
  struct Step {
    InnerNode *node;
    std::size_t child;
  };
  using Path = std::array<Step, kHeightMax>;  // [0, height_): from the root down
  struct Place {
    LeafNode *leaf;
    std::size_t position;  // of the key, or where it belongs
    bool found;
  };

  template <class T>
  using Rebound = typename std::allocator_traits<Allocator>::template rebind_alloc<T>;

  template <class Node>
  [[nodiscard]] Node *make_node() {
    return ::new (static_cast<void *>(Rebound<NodeBlock>(allocator_).allocate(1))) Node;
  }
  [[nodiscard]] LeafNode *make_leaf() {
    auto *leaf = make_node<LeafNode>();
    leaf->clear();
    return leaf;
  }
  void drop_node(void *node) {
    Rebound<NodeBlock>(allocator_).deallocate(static_cast<NodeBlock *>(node), 1);
  }

  void drop_below(void *node, std::uint32_t height) {
    if (height == 0) {
      const auto *leaf = static_cast<LeafNode *>(node);
      for (std::size_t i = 0; i < leaf->count; ++i) Rows::drop(leaf->at(i), allocator_);
    } else {
      const auto *inner = static_cast<InnerNode *>(node);
      for (std::size_t i = 0; i < inner->count; ++i) Form::drop(inner->keys[i], allocator_);
      for (std::size_t i = 0; i <= inner->count; ++i) drop_below(inner->children[i], height - 1);
    }
    drop_node(node);
  }

  [[nodiscard]] static LeafNode *first_leaf(void *node, std::uint32_t height) {
    for (; height > 0; --height) node = static_cast<InnerNode *>(node)->children[0];
    return static_cast<LeafNode *>(node);
  }
  [[nodiscard]] static LeafNode *last_leaf(void *node, std::uint32_t height) {
    for (; height > 0; --height)
      node = static_cast<InnerNode *>(node)->children[static_cast<InnerNode *>(node)->count];
    return static_cast<LeafNode *>(node);
  }

  [[nodiscard]] static Iterator last_of(LeafNode *leaf) {
    const std::size_t count = leaf->count;
    return count == 0 ? Iterator() : Iterator(leaf, count - 1);
  }
  // The leaf to the left of what the first `levels` steps of the path lead to; null: none.
  [[nodiscard]] LeafNode *leaf_before(const Path &path, std::size_t levels) const {
    std::size_t turn = levels;  // the lowest ancestor with something to the left of the path
    while (turn > 0 && path[turn - 1].child == 0) --turn;
    if (turn == 0) return nullptr;
    const Step &step = path[turn - 1];
    return last_leaf(step.node->children[step.child - 1],
                     height_ - static_cast<std::uint32_t>(turn));
  }

  // path: null when nobody needs it.
  [[nodiscard]] Place find_place(const View &key, Path *path) const {
    void *node = root_;
    for (std::uint32_t level = 0; level < height_; ++level) {
      auto *inner = static_cast<InnerNode *>(node);
      std::size_t low = 0;
      for (std::size_t high = inner->count; low < high;) {
        const std::size_t middle = (low + high) / 2;
        if (Form::compare(key, inner->keys[middle]) < 0)
          high = middle;
        else
          low = middle + 1;
      }
      if (path != nullptr) (*path)[level] = {inner, low};
      node = inner->children[low];
    }
    auto *leaf = static_cast<LeafNode *>(node);
    std::size_t low = 0;
    for (std::size_t high = leaf->count; low < high;) {
      const std::size_t middle = (low + high) / 2;
      const int order = Form::compare(key, leaf->at(middle).key);
      if (order == 0) return {leaf, middle, true};
      if (order < 0)
        high = middle;
      else
        low = middle + 1;
    }
    return {leaf, low, false};
  }

  template <class From>
  void insert_at(const Place &place, const Path &path, const View &key, const From &value) {
    // All that can fail, first: the record, then what a full leaf needs.
    const Fresh fresh = Rows::make(key, value, allocator_);
    if (place.leaf->count < LeafNode::kSlots) {
      place.leaf->insert(place.position, fresh);
      return;
    }
    Spares spares(this);
    try {
      const std::size_t cut = cut_of(*place.leaf, place.position);
      spares.provide(path, [&] {
        return cut == place.leaf->count ? Form::make(key, allocator_)
                                        : Form::copy(place.leaf->at(cut).key, allocator_);
      });
    } catch (const std::exception &) {
      spares.give_back();
      Rows::drop(fresh, allocator_);
      throw;
    }
    split_leaf(&spares, path, place, fresh);
    spares.give_back();
  }

  // Memory for the splits of one insert, all before the first change.
  class Spares {
   public:
    explicit Spares(BPlusTree *tree) noexcept : tree_(tree) {}
    // What is left. Not a destructor's: when the attempt has ended nothing may be touched, and
    // nothing is left.
    void give_back() {
      if (leaf_ != nullptr) tree_->drop_node(leaf_);
      while (inner_count_ > 0) tree_->drop_node(inners_[--inner_count_]);
    }
    // A leaf, an inner node for each full ancestor, one more when the root splits too, and the
    // separator.
    template <class MakeSeparator>
    void provide(const Path &path, const MakeSeparator &make_separator) {
      leaf_ = tree_->make_leaf();
      std::size_t level = tree_->height_;
      for (; level > 0 && path[level - 1].node->count == InnerNode::kKeys; --level) add_inner();
      if (level == 0) {
        assert(tree_->height_ < kHeightMax);
        add_inner();
      }
      separator_ = make_separator();
    }
    [[nodiscard]] LeafNode *take_leaf() noexcept { return std::exchange(leaf_, nullptr); }
    [[nodiscard]] InnerNode *take_inner() noexcept { return inners_[--inner_count_]; }
    // Used once provide() has returned.
    [[nodiscard]] const Stored &separator() const noexcept { return separator_; }

   private:
    void add_inner() {
      inners_[inner_count_] = tree_->template make_node<InnerNode>();
      ++inner_count_;
    }
    BPlusTree *tree_;
    LeafNode *leaf_ = nullptr;
    std::array<InnerNode *, kHeightMax + 1> inners_{};
    std::size_t inner_count_ = 0;
    Stored separator_{};
  };

  // Where a full leaf is cut when a record comes to `position`: in the middle; at its end when
  // records arrive in order, so that leaves stay full then.
  [[nodiscard]] static std::size_t cut_of(const LeafNode &leaf, std::size_t position) {
    return leaf.next == nullptr && position == leaf.count ? position : leaf.count / 2U;
  }

  void split_leaf(Spares *spares, const Path &path, const Place &place, const Fresh &fresh) {
    const std::size_t cut = cut_of(*place.leaf, place.position);
    LeafNode *right = spares->take_leaf();
    const bool goes_right = cut == place.leaf->count || place.position > cut;
    place.leaf->split(cut, right);
    if (goes_right)
      right->insert(place.position - cut, fresh);
    else
      place.leaf->insert(place.position, fresh);
    insert_child(spares, path, spares->separator(), right);
  }

  // `key` and the node to its right go to the parents, which split as far up as they are full.
  void insert_child(Spares *spares, const Path &path, Stored key, void *right) {
    for (std::size_t level = height_; level > 0; --level) {
      auto [node, position] = path[level - 1];
      if (node->count < InnerNode::kKeys) {
        node->insert(position, key, right);
        return;
      }
      // As cut_of().
      const std::size_t cut = position == node->count ? node->count - 1U : node->count / 2U;
      InnerNode *sibling = spares->take_inner();
      const Stored middle = node->split(cut, sibling);
      if (position > cut)
        sibling->insert(position - cut - 1, key, right);
      else
        node->insert(position, key, right);
      key = middle;
      right = sibling;
    }
    InnerNode *root = spares->take_inner();
    root->clear();
    root->children[0] = root_;
    root->insert(0, key, right);
    root_ = root;
    ++height_;
  }

  // The empty leaf leaves the chain, and with it the ancestors that have no other child. Of the
  // whole tree one leaf stays.
  void unlink_leaf(const Path &path, LeafNode *leaf) {
    std::size_t level = height_;
    while (level > 0 && path[level - 1].node->count == 0) --level;
    if (level > 0) {
      if (LeafNode *const previous = leaf_before(path, level); previous != nullptr)
        previous->next = leaf->next;
      Form::drop(path[level - 1].node->erase(path[level - 1].child), allocator_);
      drop_node(leaf);
    }
    for (std::size_t below = level; below < height_; ++below) {
      path[below].node->note_change();
      drop_node(path[below].node);
    }
    if (level == 0) {
      root_ = leaf;
      height_ = 0;
    }
    for (void *root = root_; height_ > 0 && static_cast<InnerNode *>(root)->count == 0; --height_) {
      void *only = static_cast<InnerNode *>(root)->children[0];
      static_cast<InnerNode *>(root)->note_change();
      drop_node(root);
      root_ = root = only;
    }
  }

  // One walk through everything, in order.
  struct Check {
    std::string broken;
    const LeafNode *last = nullptr;

    // Keys below `node` are not before *low and before *high, where these are given.
    void below(const void *node, std::uint32_t height, const InNode *low, const InNode *high,
               bool must_hold) {
      if (height == 0) return leaf(*static_cast<const LeafNode *>(node), low, high, must_hold);
      const auto &inner = *static_cast<const InnerNode *>(node);
      if (inner.count > InnerNode::kKeys) return fail("an inner node counts more keys than fit");
      for (std::size_t i = 0; i < inner.count; ++i)
        in_range(inner.keys[i], low, high, "a separator");
      for (std::size_t i = 0; i + 1 < inner.count; ++i)
        ascend(inner.keys[i], inner.keys[i + 1], "separators");
      for (std::size_t i = 0; i <= inner.count && broken.empty(); ++i)
        below(inner.children[i], height - 1, i == 0 ? low : &inner.keys[i - 1],
              i == inner.count ? high : &inner.keys[i], must_hold);
    }
    void leaf(const LeafNode &node, const InNode *low, const InNode *high, bool must_hold) {
      if (must_hold && node.count == 0) return fail("an empty leaf");
      if (node.count > LeafNode::kSlots) return fail("a leaf counts more records than fit");
      std::array<bool, LeafNode::kSlots> seen{};
      for (std::size_t i = 0; i < LeafNode::kSlots; ++i) {
        const std::size_t slot = node.order[i];
        if (slot >= LeafNode::kSlots || std::exchange(seen[slot], true))
          return fail("a leaf's order is no permutation");
      }
      for (std::size_t i = 0; i < node.count; ++i) in_range(node.at(i).key, low, high, "a key");
      for (std::size_t i = 0; i + 1 < node.count; ++i)
        ascend(node.at(i).key, node.at(i + 1).key, "keys");
      if (last != nullptr && last->next != &node)
        fail("a leaf is not the next one of the leaf before it");
      last = &node;
    }
    void in_range(const InNode &key, const InNode *low, const InNode *high, const char *what) {
      if (!Form::is_sound(key)) return fail(std::string(what) + " is not what its block says");
      const typename Form::Seen seen = Form::view(key);
      const bool too_low = low != nullptr && Form::compare(seen, *low) < 0;
      const bool too_high = high != nullptr && Form::compare(seen, *high) >= 0;
      if (too_low || too_high) fail(std::string(what) + " lies beyond its ancestors' separators");
    }
    void ascend(const InNode &a, const InNode &b, const char *what) {
      if (Form::compare(Form::view(a), b) >= 0) fail(std::string(what) + " do not ascend");
    }
    void fail(std::string why) {
      if (broken.empty()) broken = std::move(why);
    }
  };

  Allocator allocator_;
  Field<void *> root_;
  Field<std::uint32_t> height_ = 0;
};

// Keys and values of any length.
template <class Allocator = std::allocator<std::byte>, template <class> class Field = PlainField,
          std::size_t kBlockBytes = 4096>
using BytesTree =
    BPlusTree<std::string_view, Bytes, kBlockBytes, Allocator, ValuePlace::kWithKey, Field>;

}  // namespace tmh::trees
