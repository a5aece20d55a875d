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
    Field<Node *> child[2];  // smaller, larger
    Field<Node *> parent;
    Field<std::uint64_t> red;
  };
  static constexpr std::size_t kHeadBytes = sizeof(Node);
  explicit LineTree(std::byte *head) : head_(reinterpret_cast<Node *>(head)) {}  // the root is its first child

  [[nodiscard]] bool contains(std::uint64_t key) const { return find(key) != nullptr; }
  bool insert(Node *fresh, std::uint64_t key) {
    Node *parent = nullptr, *at = head_->child[0];
    int side = 0;
    while (at != nullptr) {
      const std::uint64_t here = at->key;
      if (here == key) return false;
      parent = at;
      side = key > here ? 1 : 0;
      at = at->child[side];
    }
    fresh->key = key;
    fresh->child[0] = nullptr;
    fresh->child[1] = nullptr;
    fresh->parent = parent;
    fresh->red = 1;
    if (parent == nullptr) {
      head_->child[0] = fresh;
    } else {
      parent->child[side] = fresh;
    }
    mend_insert(fresh);
    return true;
  }
  Node *remove(std::uint64_t key) {
    Node *const gone = find(key);
    if (gone == nullptr) return nullptr;
    bool was_red = gone->red != 0;
    Node *const left = gone->child[0], *const right = gone->child[1];
    Node *child = nullptr, *parent = nullptr;
    if (left == nullptr || right == nullptr) {
      child = left == nullptr ? right : left;
      parent = gone->parent;
      replace(gone, child);
    } else {
      Node *next = right;
      for (Node *left_of = next->child[0]; left_of != nullptr; left_of = next->child[0]) next = left_of;
      was_red = next->red != 0;
      child = next->child[1];
      parent = next;
      if (next != right) {
        parent = next->parent;
        replace(next, child);
        next->child[1] = right;
        right->parent = next;
      }
      replace(gone, next);
      next->child[0] = left;
      left->parent = next;
      const std::uint64_t red = gone->red;
      next->red = red;
    }
    if (!was_red) mend_remove(child, parent);
    return gone;
  }
  template <class Visit>
  bool visit(const Visit &visit) const {  // (keys, sum of keys), in order; false: not sorted, or not a red-black tree
    std::uint64_t last = 0;
    bool right = true;
    static_cast<void>(walk(head_->child[0], nullptr, visit, &last, &right));
    return right;
  }

 private:
  [[nodiscard]] static bool is_red(const Node *node) { return node != nullptr && node->red != 0; }
  [[nodiscard]] Node *find(std::uint64_t key) const {
    Node *at = head_->child[0];
    while (at != nullptr) {
      const std::uint64_t here = at->key;
      if (here == key) return at;
      at = at->child[key > here ? 1 : 0];
    }
    return nullptr;
  }
  [[nodiscard]] static int side_of(const Node *parent, const Node *node) { return parent->child[1] == node ? 1 : 0; }
  void replace(Node *old, Node *fresh) {
    Node *const parent = old->parent;
    if (parent == nullptr) {
      head_->child[0] = fresh;
    } else {
      parent->child[side_of(parent, old)] = fresh;
    }
    if (fresh != nullptr) fresh->parent = parent;
  }
  // The child on the other side comes up; node goes down to `side`.
  void rotate(Node *node, int side) {
    Node *const up = node->child[1 - side], *const inner = up->child[side];
    node->child[1 - side] = inner;
    if (inner != nullptr) inner->parent = node;
    replace(node, up);
    up->child[side] = node;
    node->parent = up;
  }
  void mend_insert(Node *node) {
    Node *parent = node->parent;
    while (is_red(parent)) {
      Node *const grand = parent->parent;
      const int side = side_of(grand, parent);
      Node *const uncle = grand->child[1 - side];
      if (!is_red(uncle)) {
        if (parent->child[1 - side] == node) {
          rotate(parent, side);
          parent = node;
        }
        parent->red = 0;
        grand->red = 1;
        rotate(grand, 1 - side);
        break;
      }
      parent->red = 0;
      uncle->red = 0;
      grand->red = 1;
      node = grand;
      parent = node->parent;
    }
    Node *const root = head_->child[0];
    if (root->red != 0) root->red = 0;
  }
  void mend_remove(Node *node, Node *parent) {
    while (parent != nullptr && !is_red(node)) {
      const int side = parent->child[0] == node ? 0 : 1;  // node may be null; its sibling is not
      Node *sibling = parent->child[1 - side];
      if (is_red(sibling)) {
        sibling->red = 0;
        parent->red = 1;
        rotate(parent, side);
        sibling = parent->child[1 - side];
      }
      Node *const near = sibling->child[side];
      Node *const far = sibling->child[1 - side];
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
        rotate(sibling, 1 - side);
        outer = sibling;
        sibling = near;
      }
      const std::uint64_t red = parent->red;
      sibling->red = red;
      parent->red = 0;
      outer->red = 0;
      rotate(parent, side);
      return;
    }
    if (is_red(node)) node->red = 0;
  }
  // Black height of the subtree.
  template <class Visit>
  static int walk(const Node *node, const Node *parent, const Visit &visit, std::uint64_t *last, bool *right) {
    if (node == nullptr) return 1;
    if (node->parent != parent || (is_red(node) && is_red(parent))) *right = false;
    const int left_height = walk(node->child[0], node, visit, last, right);
    const std::uint64_t here = node->key;
    if (here <= *last) *right = false;
    visit(1, *last = here);
    if (walk(node->child[1], node, visit, last, right) != left_height) *right = false;
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
