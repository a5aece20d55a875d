// examples/structures/skip_list.hpp -- a skip list of keys as plain serial code.
// Shape:     as sorted_list.hpp. A key's hash says in how many lists it is: one in four of those of
//            a list is in the next one.
// Invariant: in each list keys ascend; 0 is no key; a list holds the keys of the next one.
// Contexts:  every call inside one transaction.
// Source:    Skip lists.
#pragma once

#include <cstddef>
#include <cstdint>

namespace structures {

template <template <class> class Field>
class SkipList {
 public:
  static constexpr std::size_t kLists = 9;  // 4^9 keys
  struct Node {
    Field<std::uint64_t> key;
    Field<Node *> next[kLists];
  };
  static constexpr std::size_t kHeadBytes = sizeof(Node);
  explicit SkipList(std::byte *head) : head_(reinterpret_cast<Node *>(head)) {}

  [[nodiscard]] bool contains(std::uint64_t key) const {
    const Node *const node = at_or_after(key);
    return node != nullptr && node->key == key;
  }
  bool insert(Node *fresh, std::uint64_t key) {
    Node *before[kLists];
    if (const Node *const node = find(key, before); node != nullptr && node->key == key)
      return false;
    fresh->key = key;
    for (std::size_t list = 0; list < lists_of(key); ++list) {
      fresh->next[list] = static_cast<Node *>(before[list]->next[list]);
      before[list]->next[list] = fresh;
    }
    return true;
  }
  Node *remove(std::uint64_t key) {
    Node *before[kLists];
    Node *const node = find(key, before);
    if (node == nullptr || node->key != key) return nullptr;
    for (std::size_t list = 0; list < lists_of(key); ++list)
      before[list]->next[list] = static_cast<Node *>(node->next[list]);
    return node;
  }
  // Of at most `count` keys, from this one on.
  [[nodiscard]] std::uint64_t sum_from(std::uint64_t key, std::uint64_t count) const {
    std::uint64_t sum = 0;
    for (const Node *node = at_or_after(key); node != nullptr && count > 0; --count) {
      sum += node->key;
      node = node->next[0];
    }
    return sum;
  }
  template <class Visit>
  bool visit(const Visit &visit) const {  // as SortedList's; false also: a list misses a key
    for (std::size_t list = 1; list < kLists; ++list) {
      const Node *below = head_->next[list - 1];
      for (const Node *node = head_->next[list]; node != nullptr; node = node->next[list]) {
        while (below != nullptr && below != node) below = below->next[list - 1];
        if (below == nullptr) return false;
      }
    }
    std::uint64_t last = 0;
    for (const Node *node = head_->next[0]; node != nullptr; node = node->next[0]) {
      const std::uint64_t here = node->key;
      if (here <= last) return false;
      visit(1, last = here);
    }
    return true;
  }

 private:
  [[nodiscard]] static std::size_t lists_of(std::uint64_t key) {
    std::uint64_t hash = (key * 0x9e37'79b9'7f4a'7c15ull) >> 32;
    std::size_t lists = 1;
    for (; lists < kLists && hash % 4 == 0; hash /= 4) ++lists;
    return lists;
  }
  [[nodiscard]] const Node *at_or_after(std::uint64_t key) const {
    const Node *at = head_, *after = nullptr;
    for (std::size_t list = kLists; list-- > 0;)
      for (after = at->next[list]; after != nullptr && after->key < key; after = at->next[list])
        at = after;
    return after;
  }
  // The first node that is not before `key`, and in each list the one before that.
  [[nodiscard]] Node *find(std::uint64_t key, Node *(&before)[kLists]) const {
    Node *at = head_, *after = nullptr;
    for (std::size_t list = kLists; list-- > 0; before[list] = at)
      for (after = at->next[list]; after != nullptr && after->key < key; after = at->next[list])
        at = after;
    return after;
  }

  Node *head_;
};

}  // namespace structures
