// bench/support/sets_itm_transactions.cpp -- compiled with -fgnu-tm. Small on purpose: see
// line_itm_transactions.cpp.
#include "bench/support/sets_itm.h"

#include <stdlib.h>

#include "examples/structures/b_tree.hpp"
#include "examples/structures/bank.hpp"
#include "examples/structures/hash_set.hpp"
#include "examples/structures/red_black_tree.hpp"
#include "examples/structures/skip_list.hpp"
#include "examples/structures/sorted_list.hpp"

namespace tmh::bench {

namespace {

using structures::PlainField;
using Tree = structures::BTree<PlainField>;

// Other sets than the B-tree: they take their nodes.
template <class Set>
bool add_to(Set &set, std::uint64_t key) {
  auto *const node = static_cast<typename Set::Node *>(malloc(sizeof(typename Set::Node)));
  if (set.insert(node, key)) return true;
  free(node);
  return false;
}
bool add_to(Tree &set, std::uint64_t key) {
  return set.insert(key, [] { return static_cast<Tree::Node *>(malloc(sizeof(Tree::Node))); });
}
template <class Set>
bool take_from(Set &set, std::uint64_t key) {
  auto *const node = set.remove(key);
  if (node == nullptr) return false;
  free(node);
  return true;
}
bool take_from(Tree &set, std::uint64_t key) { return set.remove(key); }

}  // namespace

template <class Set>
bool ItmSets<Set>::add(Set &set, std::uint64_t key) {
  bool result = false;
  __transaction_atomic { result = add_to(set, key); }
  return result;
}
template <class Set>
bool ItmSets<Set>::take(Set &set, std::uint64_t key) {
  bool result = false;
  __transaction_atomic { result = take_from(set, key); }
  return result;
}
template <class Set>
std::uint64_t ItmSets<Set>::sum_from(const Set &set, std::uint64_t key, std::uint64_t count) {
  std::uint64_t result = 0;
  __transaction_atomic { result = set.sum_from(key, count); }
  return result;
}

template struct ItmSets<structures::SortedList<PlainField>>;
template struct ItmSets<structures::RedBlackTree<PlainField>>;
template struct ItmSets<structures::SkipList<PlainField>>;
template struct ItmSets<Tree>;
using Hash = structures::HashSet<PlainField>;  // in no order
template bool ItmSets<Hash>::add(Hash &, std::uint64_t);
template bool ItmSets<Hash>::take(Hash &, std::uint64_t);

}  // namespace tmh::bench
