// bench/support/line_structures.h -- list, red-black tree, hash set and bank, once for all contestants of the line bench.
// Shape:     templates over how a member is accessed: Field<T> is T itself (plain, mutex, libitm) or tmh::field<T>. Nodes come from outside;
//            insert() takes one that is free, remove() returns the one that became free.
// Source:    tree: Cormen, Leiserson, Rivest, Stein, Introduction to Algorithms, chapter 13, without a sentinel (it would be written by
//            everybody).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::bench {

template <class T>
using PlainField = T;

template <class Balance>
std::int64_t sum_of(const Balance *accounts, std::uint64_t count) {
  std::int64_t total = 0;
  for (std::uint64_t i = 0; i < count; ++i) total += accounts[i];
  return total;
}
template <class Balance>
bool move(Balance &from, Balance &to, std::int64_t amount) {
  from -= amount;
  to += amount;
  return true;
}

template <template <class> class Field>
class LineList {
 public:
  struct Node {
    Field<std::uint64_t> key;
    Field<Node *> next;
  };
  static constexpr std::size_t kHeadBytes = sizeof(Node);
  explicit LineList(std::byte *head) : head_(reinterpret_cast<Node *>(head)) {}

  [[nodiscard]] bool contains(std::uint64_t key) const {
    const Node *node = head_->next;
    while (node != nullptr) {
      const std::uint64_t here = node->key;
      if (here >= key) return here == key;
      node = node->next;
    }
    return false;
  }
  bool insert(Node *fresh, std::uint64_t key) {
    Node *before = head_, *node = head_->next;
    while (node != nullptr) {
      const std::uint64_t here = node->key;
      if (here == key) return false;
      if (here > key) break;
      before = node;
      node = node->next;
    }
    fresh->key = key;
    fresh->next = node;
    before->next = fresh;
    return true;
  }
  Node *remove(std::uint64_t key) {
    Node *before = head_, *node = head_->next;
    while (node != nullptr) {
      const std::uint64_t here = node->key;
      if (here > key) return nullptr;
      if (here == key) {
        Node *const after = node->next;
        before->next = after;
        return node;
      }
      before = node;
      node = node->next;
    }
    return nullptr;
  }
  template <class Visit>
  bool visit(const Visit &visit) const {  // (keys, sum of keys), in order; false: not sorted
    std::uint64_t last = 0;
    for (const Node *node = head_->next; node != nullptr; node = node->next) {
      const std::uint64_t here = node->key;
      if (here <= last) return false;
      visit(1, last = here);
    }
    return true;
  }

 private:
  Node *head_;
};

template <template <class> class Field>
class LineTree {
 public:
  struct Node {
    Field<std::uint64_t> key;
    Field<Node *> left, right, parent;
    Field<std::uint64_t> red;
  };
  static constexpr std::size_t kHeadBytes = sizeof(Node);
  explicit LineTree(std::byte *head) : head_(reinterpret_cast<Node *>(head)) {}  // the root is its left child

  [[nodiscard]] bool contains(std::uint64_t key) const { return find(key) != nullptr; }
  bool insert(Node *fresh, std::uint64_t key) {
    Node *parent = nullptr, *at = head_->left;
    bool left = false;
    while (at != nullptr) {
      const std::uint64_t here = at->key;
      if (here == key) return false;
      parent = at;
      left = key < here;
      at = left ? at->left : at->right;
    }
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
  template <class Visit>
  bool visit(const Visit &visit) const {  // in order; false: not sorted, or not a red-black tree
    std::uint64_t last = 0;
    bool right = true;
    static_cast<void>(walk(head_->left, nullptr, visit, &last, &right));
    return right;
  }

 private:
  [[nodiscard]] static bool is_red(const Node *node) { return node != nullptr && node->red != 0; }
  [[nodiscard]] Node *find(std::uint64_t key) const {
    Node *at = head_->left;
    while (at != nullptr) {
      const std::uint64_t here = at->key;
      if (here == key) return at;
      at = key < here ? at->left : at->right;
    }
    return nullptr;
  }
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
  static int walk(const Node *node, const Node *parent, const Visit &visit, std::uint64_t *last, bool *right) {
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

template <template <class> class Field>
class LineHash {
 public:
  struct Node {
    Field<std::uint64_t> key;
    Field<Node *> next;
  };
  static constexpr std::uint64_t kBuckets = 1u << 14;
  static constexpr std::size_t kHeadBytes = kBuckets * sizeof(Field<Node *>);
  explicit LineHash(std::byte *head) : buckets_(reinterpret_cast<Field<Node *> *>(head)) {}

  [[nodiscard]] bool contains(std::uint64_t key) const {
    const Node *node = bucket(key);
    while (node != nullptr && node->key != key) node = node->next;
    return node != nullptr;
  }
  bool insert(Node *fresh, std::uint64_t key) {
    Node *const first = bucket(key);
    for (Node *node = first; node != nullptr; node = node->next) {
      if (node->key == key) return false;
    }
    fresh->key = key;
    fresh->next = first;
    bucket(key) = fresh;
    return true;
  }
  Node *remove(std::uint64_t key) {
    Node *before = nullptr;
    for (Node *node = bucket(key); node != nullptr; node = node->next) {
      if (node->key == key) {
        Node *const after = node->next;
        if (before == nullptr) {
          bucket(key) = after;
        } else {
          before->next = after;
        }
        return node;
      }
      before = node;
    }
    return nullptr;
  }
  template <class Visit>
  bool visit(const Visit &visit) const {  // false: a key lies in a wrong bucket
    for (std::uint64_t i = 0; i < kBuckets; ++i) {
      std::uint64_t keys = 0, sum = 0;  // the order within a bucket depends on the order of insertions
      for (const Node *node = buckets_[i]; node != nullptr; node = node->next) {
        const std::uint64_t here = node->key;
        if (hash(here) != i) return false;
        sum += here;
        ++keys;
      }
      visit(keys, sum);
    }
    return true;
  }

 private:
  [[nodiscard]] static std::uint64_t hash(std::uint64_t key) { return (key * 0x9e37'79b9'7f4a'7c15ull) >> 50; }
  [[nodiscard]] Field<Node *> &bucket(std::uint64_t key) const { return buckets_[hash(key)]; }

  Field<Node *> *buckets_;
};

}  // namespace tmh::bench
