// examples/structures/bank.hpp -- what a bank does with accounts, whatever an account is: a plain
// number or a tmh::field.
// Contexts:  inside one transaction each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace structures {

template <class T>
using PlainField = T;

template <class Balance>
std::int64_t sum_of(const Balance *accounts, std::uint64_t count) {
  std::int64_t total = 0;
  for (std::uint64_t i = 0; i < count; ++i) total += accounts[i];
  return total;
}
template <class Balance>
bool move(Balance &from, Balance &to, std::int64_t amount) {
  from -= amount;
  to += amount;
  return true;
}

}  // namespace structures
