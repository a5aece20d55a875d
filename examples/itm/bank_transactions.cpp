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
  std::int64_t *const all = balances;
  atomically([&] { structures::move(all[from], all[to], amount); });
}
std::int64_t bank_read_all() {
  const std::int64_t *const all = balances;
  const std::uint64_t count = balance_count;
  return atomically([&] { return structures::sum_of(all, count); });
}
void bank_turn() {
  std::int64_t *const all = balances;
  const std::uint64_t count = balance_count;
  atomically([&] {
    std::int64_t before = all[count - 1];
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::int64_t here = all[i];
      all[i] = before;
      before = here;
    }
  });
}

}  // namespace itm
