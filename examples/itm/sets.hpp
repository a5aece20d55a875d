// examples/itm/sets.hpp -- what the *_transactions.cpp of all sets have in common: a structure of
// examples/structures, nodes from malloc().
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "examples/itm/sets.h"
#include "examples/itm/support/section.h"

namespace itm {

// An own line for the head: nothing that is written often lies beside it.
template <class Set>
struct Head {
  alignas(128) std::byte bytes[Set::kHeadBytes];
};

template <class Set>
[[gnu::always_inline]] inline bool insert_into(Set set, std::uint64_t key) {
  return atomically([&] {
    return set.insert(key, [] {
      return static_cast<typename Set::Node *>(std::malloc(sizeof(typename Set::Node)));
    });
  });
}
// The node's link is written so that transactions which remove neighbours, or insert behind the
// node, write one word in common: without it, snapshot isolation would let both commit, and bring
// one of the nodes back. Its new value is one that it never had: to store an equal value is no
// conflict in method pages. The node is this thread's own after the transaction.
template <class Set>
[[gnu::always_inline]] inline bool remove_from(Set set, std::uint64_t key) {
  auto *const node = atomically([&] {
    auto *const gone = set.remove(key);
    if constexpr (requires { gone->next; }) {
      if (gone != nullptr) gone->next = gone;
    }
    return gone;
  });
  std::free(node);
  return node != nullptr;
}
template <class Set>
[[gnu::always_inline]] inline bool contained_in(Set set, std::uint64_t key) {
  return atomically([&] { return set.contains(key); });
}

// Outside transactions.
template <class Set>
SetContent content_of(Set set) {
  SetContent content;
  content.is_valid = set.visit([&](std::uint64_t keys, std::uint64_t sum) {
    content.keys += keys;
    content.sum += sum;
  });
  return content;
}

}  // namespace itm
