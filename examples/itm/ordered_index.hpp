// examples/itm/ordered_index.hpp -- a B+-tree from numbers to pointers, as plain serial code.
// Shape:     inner nodes have one child more than keys; all keys of child i are below keys[i],
//            those of child i + 1 are not. Leaves are a list in order. Keys are never removed.
// Contexts:  every call inside one transaction; is_valid(): no transaction changes it.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace itm {

template <class Value>
class OrderedIndex {
 public:
  static constexpr std::uint64_t kKeysMax = 31;
  struct Node {
    std::uint64_t is_leaf, count;
    std::uint64_t keys[kKeysMax];
    // Of a leaf.
    Node *next;
    union {
      Node *children[kKeysMax + 1];
      Value *values[kKeysMax];
    };
  };

  // Before any thread works.
  void open() { root_ = make_node(true); }

  [[nodiscard]] Value *find(std::uint64_t key) const {
    const Node *const leaf = leaf_of(key);
    const std::uint64_t at = lower_bound(leaf, key);
    return at < leaf->count && leaf->keys[at] == key ? leaf->values[at] : nullptr;
  }
  // make() returns the value; called when the key is new.
  template <class Make>
  bool insert(std::uint64_t key, const Make &make) {
    if (root_->count == kKeysMax) {
      Node *const above = make_node(false);
      above->children[0] = root_;
      split_child(above, 0);
      root_ = above;
    }
    Node *node = root_;
    while (node->is_leaf == 0) {
      std::uint64_t at = upper_bound(node, key);
      if (node->children[at]->count == kKeysMax) {
        split_child(node, at);
        if (key >= node->keys[at]) ++at;
      }
      node = node->children[at];
    }
    const std::uint64_t at = lower_bound(node, key), count = node->count;
    if (at < count && node->keys[at] == key) return false;
    for (std::uint64_t i = count; i > at; --i) {
      node->keys[i] = node->keys[i - 1];
      node->values[i] = node->values[i - 1];
    }
    node->keys[at] = key;
    node->values[at] = make();
    node->count = count + 1;
    return true;
  }
  // visit(value) of at most `count` keys from this one on. Returns how many.
  template <class Visit>
  std::uint64_t scan(std::uint64_t key, std::uint64_t count, const Visit &visit) const {
    const Node *leaf = leaf_of(key);
    std::uint64_t at = lower_bound(leaf, key), done = 0;
    while (leaf != nullptr && done < count) {
      if (at == leaf->count) {
        leaf = leaf->next;
        at = 0;
        continue;
      }
      visit(leaf->values[at++]);
      ++done;
    }
    return done;
  }
  [[nodiscard]] bool is_valid() const {
    std::uint64_t leaf_depth = 0;
    return root_ != nullptr && is_valid(root_, 0, UINT64_MAX, 1, &leaf_depth);
  }

 private:
  static Node *make_node(bool is_leaf) {
    Node *const node = static_cast<Node *>(std::malloc(sizeof(Node)));
    node->is_leaf = is_leaf ? 1 : 0;
    node->count = 0;
    node->next = nullptr;
    return node;
  }
  // The first key that is not below `key`; of the second: that is above it.
  static std::uint64_t lower_bound(const Node *node, std::uint64_t key) {
    std::uint64_t low = 0, high = node->count;
    while (low < high) {
      const std::uint64_t middle = (low + high) / 2;
      if (node->keys[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  static std::uint64_t upper_bound(const Node *node, std::uint64_t key) {
    std::uint64_t low = 0, high = node->count;
    while (low < high) {
      const std::uint64_t middle = (low + high) / 2;
      if (node->keys[middle] <= key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  [[nodiscard]] const Node *leaf_of(std::uint64_t key) const {
    const Node *node = root_;
    while (node->is_leaf == 0) node = node->children[upper_bound(node, key)];
    return node;
  }
  // REQUIRES: the child is full, its parent is not.
  static void split_child(Node *parent, std::uint64_t at) {
    constexpr std::uint64_t kLeft = kKeysMax / 2;
    Node *const left = parent->children[at];
    Node *const right = make_node(left->is_leaf != 0);
    const std::uint64_t between = left->keys[kLeft];
    if (left->is_leaf != 0) {
      for (std::uint64_t i = kLeft; i < kKeysMax; ++i) {
        right->keys[i - kLeft] = left->keys[i];
        right->values[i - kLeft] = left->values[i];
      }
      right->count = kKeysMax - kLeft;
      right->next = left->next;
      left->next = right;
    } else {  // the key in the middle moves up
      for (std::uint64_t i = kLeft + 1; i < kKeysMax; ++i)
        right->keys[i - kLeft - 1] = left->keys[i];
      for (std::uint64_t i = kLeft + 1; i <= kKeysMax; ++i)
        right->children[i - kLeft - 1] = left->children[i];
      right->count = kKeysMax - kLeft - 1;
    }
    left->count = kLeft;
    for (std::uint64_t i = parent->count; i > at; --i) {
      parent->keys[i] = parent->keys[i - 1];
      parent->children[i + 1] = parent->children[i];
    }
    parent->keys[at] = between;
    parent->children[at + 1] = right;
    ++parent->count;
  }
  // Keys are in [low, high].
  static bool is_valid(const Node *node, std::uint64_t low, std::uint64_t high, std::uint64_t depth,
                       std::uint64_t *leaf_depth) {
    for (std::uint64_t i = 0; i < node->count; ++i) {
      if (node->keys[i] < low || node->keys[i] > high) return false;
      if (i > 0 && node->keys[i] <= node->keys[i - 1]) return false;
    }
    if (node->is_leaf != 0) {
      if (*leaf_depth == 0) *leaf_depth = depth;
      return *leaf_depth == depth;
    }
    for (std::uint64_t i = 0; i <= node->count; ++i) {
      const std::uint64_t from = i == 0 ? low : node->keys[i - 1];
      const std::uint64_t to = i == node->count ? high : node->keys[i] - 1;
      if (!is_valid(node->children[i], from, to, depth + 1, leaf_depth)) return false;
    }
    return true;
  }

  // Read by everybody; nothing that is written often may lie beside it.
  alignas(128) Node *root_ = nullptr;
};

}  // namespace itm
