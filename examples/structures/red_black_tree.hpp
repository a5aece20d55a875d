// examples/structures/red_black_tree.hpp -- a red-black tree of keys as plain serial code.
// Shape:     as sorted_list.hpp. The root is the left child of the head. A node may be the base of
//            something larger: remove() moves no key from node to node.
// Invariant: keys ascend from left to right; 0 is no key; no red node has a red child; every path
//            has as many black nodes; each child names its parent.
// Contexts:  every call inside one transaction.
// Source:    Cormen, Leiserson, Rivest, Stein, Introduction to Algorithms, chapter 13, without a
//            sentinel (it would be written by everybody).
#pragma once

#include <cstddef>
#include <cstdint>

namespace structures {

template <template <class> class Field>
class RedBlackTree {
 public:
  struct Node {
    Field<std::uint64_t> key;
    Field<Node *> left, right, parent;
    Field<std::uint64_t> red;
  };
  static constexpr std::size_t kHeadBytes = sizeof(Node);
  // The root is its left child.
  explicit RedBlackTree(std::byte *head) : head_(reinterpret_cast<Node *>(head)) {}

  [[nodiscard]] bool contains(std::uint64_t key) const { return find(key) != nullptr; }
  bool insert(Node *fresh, std::uint64_t key) {
    return insert(key, [fresh] { return fresh; });
  }
  // make() returns a free node; called when the key is new.
  template <class Make>
  bool insert(std::uint64_t key, const Make &make) {
    Node *parent = nullptr, *at = head_->left;
    bool left = false;
    while (at != nullptr) {
      const std::uint64_t here = at->key;
      if (here == key) return false;
      parent = at;
      left = key < here;
      at = left ? at->left : at->right;
    }
    Node *const fresh = make();
    fresh->key = key;
    fresh->left = nullptr;
    fresh->right = nullptr;
    fresh->parent = parent;
    fresh->red = 1;
    if (parent == nullptr) {
      head_->left = fresh;
    } else if (left) {
      parent->left = fresh;
    } else {
      parent->right = fresh;
    }
    mend_insert(fresh);
    return true;
  }
  Node *remove(std::uint64_t key) {
    Node *const gone = find(key);
    if (gone == nullptr) return nullptr;
    bool was_red = gone->red != 0;
    Node *child = nullptr, *parent = nullptr;
    if (gone->left == nullptr) {
      child = gone->right;
      parent = gone->parent;
      replace(gone, child);
    } else if (gone->right == nullptr) {
      child = gone->left;
      parent = gone->parent;
      replace(gone, child);
    } else {
      Node *next = gone->right;
      while (next->left != nullptr) next = next->left;
      was_red = next->red != 0;
      child = next->right;
      if (next->parent == gone) {
        parent = next;
      } else {
        parent = next->parent;
        replace(next, child);
        Node *const right = gone->right;
        next->right = right;
        right->parent = next;
      }
      replace(gone, next);
      Node *const left = gone->left;
      next->left = left;
      left->parent = next;
      const std::uint64_t red = gone->red;
      next->red = red;
    }
    if (!was_red) mend_remove(child, parent);
    return gone;
  }
  [[nodiscard]] Node *find(std::uint64_t key) const {
    Node *at = head_->left;
    while (at != nullptr) {
      const std::uint64_t here = at->key;
      if (here == key) return at;
      at = key < here ? at->left : at->right;
    }
    return nullptr;
  }
  // The node with the smallest key that is not below this one; null: there is none.
  [[nodiscard]] Node *from(std::uint64_t key) const {
    Node *found = nullptr;
    for (Node *at = head_->left; at != nullptr;) {
      const bool is_before = at->key < key;
      if (!is_before) found = at;
      at = is_before ? at->right : at->left;
    }
    return found;
  }
  // In order; null: there is none.
  [[nodiscard]] static const Node *after(const Node *node) {
    const Node *at = node->right;
    if (at != nullptr) {
      while (at->left != nullptr) at = at->left;
      return at;
    }
    for (at = node->parent; at != nullptr && at->right == node; at = at->parent) node = at;
    return at;
  }
  // Of at most `count` keys, from this one on.
  [[nodiscard]] std::uint64_t sum_from(std::uint64_t key, std::uint64_t count) const {
    std::uint64_t sum = 0;
    for (const Node *next = from(key); next != nullptr && count > 0; --count) {
      sum += next->key;
      next = after(next);
    }
    return sum;
  }
  template <class Visit>
  bool visit(const Visit &visit) const {  // in order; false: not sorted, or not a red-black tree
    std::uint64_t last = 0;
    bool right = true;
    static_cast<void>(walk(head_->left, nullptr, visit, &last, &right));
    return right;
  }

 private:
  [[nodiscard]] static bool is_red(const Node *node) { return node != nullptr && node->red != 0; }
  void replace(Node *old, Node *fresh) {
    Node *const parent = old->parent;
    if (parent == nullptr) {
      head_->left = fresh;
    } else if (parent->left == old) {
      parent->left = fresh;
    } else {
      parent->right = fresh;
    }
    if (fresh != nullptr) fresh->parent = parent;
  }
  void rotate_left(Node *node) {
    Node *const up = node->right, *const inner = up->left;
    node->right = inner;
    if (inner != nullptr) inner->parent = node;
    replace(node, up);
    up->left = node;
    node->parent = up;
  }
  void rotate_right(Node *node) {
    Node *const up = node->left, *const inner = up->right;
    node->left = inner;
    if (inner != nullptr) inner->parent = node;
    replace(node, up);
    up->right = node;
    node->parent = up;
  }
  void rotate(Node *node, bool left) {
    if (left) {
      rotate_left(node);
    } else {
      rotate_right(node);
    }
  }
  void mend_insert(Node *node) {
    Node *parent = node->parent;
    while (is_red(parent)) {
      Node *const grand = parent->parent;
      const bool left = grand->left == parent;
      Node *const uncle = left ? grand->right : grand->left;
      if (is_red(uncle)) {
        parent->red = 0;
        uncle->red = 0;
        grand->red = 1;
        node = grand;
        parent = node->parent;
        continue;
      }
      if (left) {
        if (parent->right == node) {
          rotate_left(parent);
          parent = node;
        }
        parent->red = 0;
        grand->red = 1;
        rotate_right(grand);
      } else {
        if (parent->left == node) {
          rotate_right(parent);
          parent = node;
        }
        parent->red = 0;
        grand->red = 1;
        rotate_left(grand);
      }
      break;
    }
    Node *const root = head_->left;
    if (root->red != 0) root->red = 0;
  }
  void mend_remove(Node *node, Node *parent) {
    while (parent != nullptr && !is_red(node)) {
      const bool left = parent->left == node;
      Node *sibling = left ? parent->right : parent->left;
      if (is_red(sibling)) {
        sibling->red = 0;
        parent->red = 1;
        rotate(parent, left);
        sibling = left ? parent->right : parent->left;
      }
      Node *const near = left ? sibling->left : sibling->right;
      Node *const far = left ? sibling->right : sibling->left;
      if (!is_red(near) && !is_red(far)) {
        sibling->red = 1;
        node = parent;
        parent = node->parent;
        continue;
      }
      Node *outer = far;
      if (!is_red(far)) {
        near->red = 0;
        sibling->red = 1;
        rotate(sibling, !left);
        outer = sibling;
        sibling = near;
      }
      const std::uint64_t red = parent->red;
      sibling->red = red;
      parent->red = 0;
      outer->red = 0;
      rotate(parent, left);
      return;
    }
    if (is_red(node)) node->red = 0;
  }
  // Black height of the subtree.
  template <class Visit>
  static int walk(const Node *node, const Node *parent, const Visit &visit, std::uint64_t *last,
                  bool *right) {
    if (node == nullptr) return 1;
    if (node->parent != parent || (is_red(node) && is_red(parent))) *right = false;
    const int left_height = walk(node->left, node, visit, last, right);
    const std::uint64_t here = node->key;
    if (here <= *last) *right = false;
    visit(1, *last = here);
    if (walk(node->right, node, visit, last, right) != left_height) *right = false;
    return left_height + (is_red(node) ? 0 : 1);
  }

  Node *head_;
};

}  // namespace structures
