// examples/itm/reservations.h -- what reservations.cpp drives; reservations_transactions.cpp
// defines it.
#pragma once

#include <cstdint>

namespace itm {

inline constexpr std::uint64_t kTables = 3;  // cars, flights, rooms
inline constexpr std::uint64_t kQueriesMax = 64;
// What an update adds to a row, or takes away.
inline constexpr std::int64_t kUpdatePlaces = 100;

struct Query {
  std::uint64_t table, id;
  std::int64_t price;  // of an update that adds
  bool adds;
};

// Before any thread works: each id once per table.
void add_row(std::uint64_t table, std::uint64_t id, std::int64_t places, std::int64_t price);
void add_customer(std::uint64_t id);

// One transaction each.
// Of each table that is asked for, the dearest row with a free place. Returns how many places.
std::uint64_t reserve(std::uint64_t customer, const Query *queries, std::uint64_t count);
// Removes the customer, frees his places; returns his bill, -1 when he does not exist.
std::int64_t cancel(std::uint64_t customer);
// Rows come, grow, shrink and go.
void update_rows(const Query *queries, std::uint64_t count);

// One transaction each: reads only.
struct Scan {
  std::uint64_t rows = 0, wrong = 0;
  std::int64_t revenue = 0;
};
// At most `count` rows of one table; wrong: places that are neither free nor used, or both.
[[nodiscard]] Scan scan_rows(std::uint64_t table, std::uint64_t first, std::uint64_t count);
// All tables and all customers; wrong, too: a table with more or fewer used places than its
// customers have reserved.
[[nodiscard]] Scan scan_all();

// Outside transactions: all trees are search trees in balance.
[[nodiscard]] bool trees_are_valid();

}  // namespace itm
