// examples/itm/bank.h -- what bank.cpp drives; bank_transactions.cpp defines it.
#pragma once

#include <cstdint>

namespace itm {

// Before any thread works.
void bank_open(std::uint64_t accounts, std::int64_t balance);

// One transaction each.
void bank_transfer(std::uint64_t from, std::uint64_t to, std::int64_t amount);
[[nodiscard]] std::int64_t bank_read_all();
// Reads all and writes all: moves every balance to the account after it.
void bank_turn();

}  // namespace itm
