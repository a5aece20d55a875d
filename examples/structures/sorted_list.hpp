// examples/structures/sorted_list.hpp -- a sorted singly linked list of keys as plain serial code.
// Shape:     a template over how a member is accessed: Field<T> is T itself, or tmh::field<T>.
//            Nodes come from outside: insert() takes one that is free, remove() returns the one
//            that became free. The head lies where the caller says; zeros are an empty list.
// Invariant: keys ascend; 0 is no key.
// Contexts:  every call inside one transaction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace structures {

template <template <class> class Field>
class SortedList {
 public:
  struct Node {
    Field<std::uint64_t> key;
    Field<Node *> next;
  };
  static constexpr std::size_t kHeadBytes = sizeof(Node);
  explicit SortedList(std::byte *head) : head_(reinterpret_cast<Node *>(head)) {}

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
    return insert(key, [fresh] { return fresh; });
  }
  // make() returns a free node; called when the key is new.
  template <class Make>
  bool insert(std::uint64_t key, const Make &make) {
    Node *before = head_, *node = head_->next;
    while (node != nullptr) {
      const std::uint64_t here = node->key;
      if (here == key) return false;
      if (here > key) break;
      before = node;
      node = node->next;
    }
    Node *const fresh = make();
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
  // Of at most `count` keys, from this one on.
  [[nodiscard]] std::uint64_t sum_from(std::uint64_t key, std::uint64_t count) const {
    std::uint64_t sum = 0;
    for (const Node *node = head_->next; node != nullptr && count > 0; node = node->next) {
      const std::uint64_t here = node->key;
      if (here < key) continue;
      sum += here;
      --count;
    }
    return sum;
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

}  // namespace structures
