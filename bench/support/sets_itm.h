// bench/support/sets_itm.h -- the operations of the sets bench as transactions of GCC libitm:
// defined in sets_itm_transactions.cpp, which is compiled with -fgnu-tm.
#pragma once

#include <cstdint>

namespace tmh::bench {

template <class Set>
struct ItmSets {
  static bool contains(const Set &set, std::uint64_t key);
  static std::uint64_t sum_from(const Set &set, std::uint64_t key, std::uint64_t count);
  // With malloc() and free().
  static bool add(Set &set, std::uint64_t key);
  static bool take(Set &set, std::uint64_t key);
  // Of sets that take their nodes from whoever calls.
  static bool insert(Set &set, typename Set::Node *node, std::uint64_t key);
  static typename Set::Node *remove(Set &set, std::uint64_t key);
};

}  // namespace tmh::bench
