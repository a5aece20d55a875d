// examples/itm/bank_transactions.cpp -- accounts side by side in one array.
#include "examples/itm/bank.h"

#include <cstdlib>

#include "examples/itm/support/section.h"
#include "examples/structures/bank.hpp"

namespace itm {

namespace {

std::int64_t *balances;
std::uint64_t balance_count;

}  // namespace

void bank_open(std::uint64_t accounts, std::int64_t balance) {
  balances = static_cast<std::int64_t *>(std::malloc(accounts * sizeof(std::int64_t)));
  if (balances == nullptr) std::abort();
  balance_count = accounts;
  for (std::uint64_t i = 0; i < accounts; ++i) balances[i] = balance;
}

void bank_transfer(std::uint64_t from, std::uint64_t to, std::int64_t amount) {
  atomically([&] { structures::move(balances[from], balances[to], amount); });
}
std::int64_t bank_read_all() {
  return atomically([&] { return structures::sum_of(balances, balance_count); });
}
void bank_turn() {
  atomically([&] {
    std::int64_t before = balances[balance_count - 1];
    for (std::uint64_t i = 0; i < balance_count; ++i) {
      const std::int64_t here = balances[i];
      balances[i] = before;
      before = here;
    }
  });
}

}  // namespace itm
