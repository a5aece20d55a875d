// examples/structures/b_tree.hpp -- a B+-tree of keys as plain serial code.
// Shape:     as sorted_list.hpp, but for its nodes: one holds many keys, and most insertions need
//            none. So insert() is given what makes one. Leaves are linked in order. A full node
//            is split on the way down. Removing leaves nodes as they are, however few keys are left
//            in them.
// Invariant: keys ascend; 0 is no key; all leaves are at one depth; a key of an inner node is not
//            above those to its right, and above those to its left.
// Contexts:  every call inside one transaction.
// Source:    The ubiquitous B-tree (B+-trees).
#pragma once

#include <cstddef>
#include <cstdint>

namespace structures {

template <template <class> class Field>
class BTree {
 public:
  static constexpr std::uint64_t kKeys = 14;  // 256 bytes
  struct Node {
    Field<std::uint64_t> count;  // of keys
    Field<std::uint64_t> is_leaf;
    Field<std::uint64_t> keys[kKeys];
    Field<Node *> children[kKeys + 1];  // of a leaf: the first one is the leaf after it
    std::uint64_t unused;
  };
  static_assert(sizeof(Node) == 256);
  static constexpr std::size_t kHeadBytes = sizeof(Field<Node *>);
  explicit BTree(std::byte *head) : root_(reinterpret_cast<Field<Node *> *>(head)) {}

  [[nodiscard]] bool contains(std::uint64_t key) const {
    const Node *const leaf = leaf_of(key);
    if (leaf == nullptr) return false;
    const std::uint64_t at = first_not_below(*leaf, key);
    return at < leaf->count && leaf->keys[at] == key;
  }
  // make(): a node, with any content.
  template <class Make>
  bool insert(std::uint64_t key, const Make &make) {
    Node *node = *root_;
    if (node == nullptr) {
      node = make();
      node->count = 0;
      node->is_leaf = 1;
      node->children[0] = nullptr;
      *root_ = node;
    }
    if (node->count == kKeys) {
      Node *const above = make();
      above->count = 0;
      above->is_leaf = 0;
      above->children[0] = node;
      split(*above, 0, make);
      *root_ = node = above;
    }
    while (node->is_leaf == 0) {
      std::uint64_t at = first_above(*node, key);
      const Node *const child = node->children[at];
      if (child->count == kKeys) {
        split(*node, at, make);
        if (key >= node->keys[at]) ++at;
      }
      node = node->children[at];
    }
    const std::uint64_t at = first_not_below(*node, key), count = node->count;
    if (at < count && node->keys[at] == key) return false;
    for (std::uint64_t i = count; i > at; --i)
      node->keys[i] = static_cast<std::uint64_t>(node->keys[i - 1]);
    node->keys[at] = key;
    node->count = count + 1;
    return true;
  }
  bool remove(std::uint64_t key) {
    Node *const leaf = leaf_of(key);
    if (leaf == nullptr) return false;
    const std::uint64_t at = first_not_below(*leaf, key), count = leaf->count;
    if (at == count || leaf->keys[at] != key) return false;
    for (std::uint64_t i = at + 1; i < count; ++i)
      leaf->keys[i - 1] = static_cast<std::uint64_t>(leaf->keys[i]);
    leaf->count = count - 1;
    return true;
  }
  // Of at most `count` keys, from this one on.
  [[nodiscard]] std::uint64_t sum_from(std::uint64_t key, std::uint64_t count) const {
    std::uint64_t sum = 0;
    for (const Node *leaf = leaf_of(key); leaf != nullptr && count > 0; leaf = leaf->children[0]) {
      const std::uint64_t keys = leaf->count;
      for (std::uint64_t at = first_not_below(*leaf, key); at < keys && count > 0; ++at, --count)
        sum += leaf->keys[at];
    }
    return sum;
  }
  template <class Visit>
  bool visit(const Visit &visit) const {  // as SortedList's; false also: a leaf is out of place
    std::uint64_t last = 0;
    for (const Node *leaf = leaf_of(0); leaf != nullptr; leaf = leaf->children[0]) {
      for (std::uint64_t i = 0; i < leaf->count; ++i) {
        const std::uint64_t here = leaf->keys[i];
        if (here <= last || leaf_of(here) != leaf) return false;
        visit(1, last = here);
      }
    }
    return true;
  }

 private:
  [[nodiscard]] static std::uint64_t first_not_below(const Node &node, std::uint64_t key) {
    const std::uint64_t count = node.count;
    std::uint64_t at = 0;
    while (at < count && node.keys[at] < key) ++at;
    return at;
  }
  [[nodiscard]] static std::uint64_t first_above(const Node &node, std::uint64_t key) {
    const std::uint64_t count = node.count;
    std::uint64_t at = 0;
    while (at < count && node.keys[at] <= key) ++at;
    return at;
  }
  // Null: the tree has no node.
  [[nodiscard]] Node *leaf_of(std::uint64_t key) const {
    Node *node = *root_;
    while (node != nullptr && node->is_leaf == 0) node = node->children[first_above(*node, key)];
    return node;
  }
  // A full child is halved. REQUIRES: its parent is not full.
  template <class Make>
  static void split(Node &parent, std::uint64_t place, const Make &make) {
    constexpr std::uint64_t kLeft = kKeys / 2;
    Node &left = *static_cast<Node *>(parent.children[place]);
    Node &right = *make();
    const std::uint64_t middle = left.keys[kLeft];
    const bool is_leaf = left.is_leaf != 0;
    // The key in the middle goes up; of leaves it stays as well.
    const std::uint64_t first = is_leaf ? kLeft : kLeft + 1;
    right.is_leaf = is_leaf ? 1 : 0;
    right.count = kKeys - first;
    for (std::uint64_t i = first; i < kKeys; ++i)
      right.keys[i - first] = static_cast<std::uint64_t>(left.keys[i]);
    if (is_leaf) {
      right.children[0] = static_cast<Node *>(left.children[0]);
      left.children[0] = &right;
    } else {
      for (std::uint64_t i = first; i <= kKeys; ++i)
        right.children[i - first] = static_cast<Node *>(left.children[i]);
    }
    left.count = kLeft;
    const std::uint64_t count = parent.count;
    for (std::uint64_t i = count; i > place; --i) {
      parent.keys[i] = static_cast<std::uint64_t>(parent.keys[i - 1]);
      parent.children[i + 1] = static_cast<Node *>(parent.children[i]);
    }
    parent.keys[place] = middle;
    parent.children[place + 1] = &right;
    parent.count = count + 1;
  }

  Field<Node *> *root_;
};

}  // namespace structures
