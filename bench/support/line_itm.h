// bench/support/line_itm.h -- the line bench's operations as transactions of GCC's libitm: defined
// in line_itm_transactions.cpp, which alone is compiled with -fgnu-tm.
#pragma once

#include "examples/structures/bank.hpp"
#include "examples/structures/hash_set.hpp"
#include "examples/structures/red_black_tree.hpp"
#include "examples/structures/sorted_list.hpp"

namespace tmh::bench {

template <class Set>
struct ItmSet {
  static bool contains(const Set &set, std::uint64_t key);
  static bool insert(Set &set, typename Set::Node *node, std::uint64_t key);
  static typename Set::Node *remove(Set &set, std::uint64_t key);
};
std::int64_t itm_sum(const std::int64_t *accounts, std::uint64_t count);
void itm_transfer(std::int64_t &from, std::int64_t &to, std::int64_t amount);

}  // namespace tmh::bench
