// bench/support/line_itm_transactions.cpp -- compiled with -fgnu-tm. Small on purpose: g++ 12
// cannot compile the standard library's threads and containers with it.
#include "bench/support/line_itm.h"

namespace tmh::bench {

template <class Set>
bool ItmSet<Set>::contains(const Set &set, std::uint64_t key) {
  bool result = false;
  __transaction_atomic { result = set.contains(key); }
  return result;
}

template <class Set>
bool ItmSet<Set>::insert(Set &set, typename Set::Node *node, std::uint64_t key) {
  bool result = false;
  __transaction_atomic { result = set.insert(node, key); }
  return result;
}

template <class Set>
typename Set::Node *ItmSet<Set>::remove(Set &set, std::uint64_t key) {
  typename Set::Node *result = nullptr;
  __transaction_atomic { result = set.remove(key); }
  return result;
}

template struct ItmSet<structures::SortedList<structures::PlainField>>;
template struct ItmSet<structures::RedBlackTree<structures::PlainField>>;
template struct ItmSet<structures::HashSet<structures::PlainField>>;
template struct ItmSet<structures::SkipList<structures::PlainField>>;
using PlainBTree = structures::BTree<structures::PlainField>;  // it makes its nodes by itself
template bool ItmSet<PlainBTree>::contains(const PlainBTree &, std::uint64_t);

std::int64_t itm_sum(const std::int64_t *accounts, std::uint64_t count) {
  std::int64_t total = 0;
  __transaction_atomic { total = structures::sum_of(accounts, count); }
  return total;
}

void itm_transfer(std::int64_t &from, std::int64_t &to, std::int64_t amount) {
  __transaction_atomic { structures::move(from, to, amount); }
}

}  // namespace tmh::bench
