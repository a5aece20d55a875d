// bench/support/line_itm.h -- operations as transactions of GCC's libitm: of the line bench, and
// those that the sets bench has in common with it. Defined in line_itm_transactions.cpp, which is
// compiled with -fgnu-tm.
#pragma once

#include "examples/structures/b_tree.hpp"
#include "examples/structures/bank.hpp"
#include "examples/structures/hash_set.hpp"
#include "examples/structures/red_black_tree.hpp"
#include "examples/structures/skip_list.hpp"
#include "examples/structures/sorted_list.hpp"

namespace tmh::bench {

template <class Set>
struct ItmSet {
  static bool contains(const Set &set, std::uint64_t key);
  static bool insert(Set &set, typename Set::Node *node, std::uint64_t key);
  static typename Set::Node *remove(Set &set, std::uint64_t key);
};
// Base of a thread's session.
class ItmSession {
 public:
  template <class Set>
  bool contains(const Set &set, std::uint64_t key) {
    return ItmSet<Set>::contains(set, key);
  }
  template <class Set>
  bool insert(Set &set, typename Set::Node *node, std::uint64_t key) {
    return ItmSet<Set>::insert(set, node, key);
  }
  template <class Set>
  typename Set::Node *remove(Set &set, std::uint64_t key) {
    return ItmSet<Set>::remove(set, key);
  }
};
std::int64_t itm_sum(const std::int64_t *accounts, std::uint64_t count);
void itm_transfer(std::int64_t &from, std::int64_t &to, std::int64_t amount);

}  // namespace tmh::bench
