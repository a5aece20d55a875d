// bench/support/sets_itm.h -- what the sets bench does beside line_itm.h as transactions of GCC
// libitm: defined in sets_itm_transactions.cpp, which is compiled with -fgnu-tm.
#pragma once

#include <cstdint>

namespace tmh::bench {

template <class Set>
struct ItmSets {
  static std::uint64_t sum_from(const Set &set, std::uint64_t key, std::uint64_t count);
  // With malloc() and free().
  static bool add(Set &set, std::uint64_t key);
  static bool take(Set &set, std::uint64_t key);
};

}  // namespace tmh::bench
