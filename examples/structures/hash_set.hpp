// examples/structures/hash_set.hpp -- a hash set of keys, with chains, as plain serial code.
// Shape:     as sorted_list.hpp; the head is the table of buckets, of which there are always as
//            many.
// Invariant: a key is in the chain of its bucket, once.
// Contexts:  every call inside one transaction.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace structures {

template <template <class> class Field, std::uint64_t kBucketCount = 1u << 14>
class HashSet {
 public:
  struct Node {
    Field<std::uint64_t> key;
    Field<Node *> next;
  };
  static constexpr std::uint64_t kBuckets = kBucketCount;
  static_assert(std::has_single_bit(kBuckets) && kBuckets > 1);
  static constexpr std::size_t kHeadBytes = kBuckets * sizeof(Field<Node *>);
  explicit HashSet(std::byte *head) : buckets_(reinterpret_cast<Field<Node *> *>(head)) {}

  [[nodiscard]] bool contains(std::uint64_t key) const {
    const Node *node = bucket(key);
    while (node != nullptr && node->key != key) node = node->next;
    return node != nullptr;
  }
  bool insert(Node *fresh, std::uint64_t key) {
    return insert(key, [fresh] { return fresh; });
  }
  // make() returns a free node; called when the key is new.
  template <class Make>
  bool insert(std::uint64_t key, const Make &make) {
    Node *const first = bucket(key);
    for (Node *node = first; node != nullptr; node = node->next) {
      if (node->key == key) return false;
    }
    Node *const fresh = make();
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
      // The order within a bucket depends on the order of insertions.
      std::uint64_t keys = 0, sum = 0;
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
  [[nodiscard]] static std::uint64_t hash(std::uint64_t key) {
    return (key * 0x9e37'79b9'7f4a'7c15ull) >> (64 - std::countr_zero(kBuckets));
  }
  [[nodiscard]] Field<Node *> &bucket(std::uint64_t key) const { return buckets_[hash(key)]; }

  Field<Node *> *buckets_;
};

}  // namespace structures
