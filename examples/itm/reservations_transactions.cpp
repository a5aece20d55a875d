// examples/itm/reservations_transactions.cpp -- four trees: rows of cars, flights and rooms, and
// customers, each with a list of what he has reserved.
#include "examples/itm/reservations.h"

#include <cstddef>
#include <cstdlib>

#include "examples/itm/support/section.h"
#include "examples/structures/bank.hpp"
#include "examples/structures/red_black_tree.hpp"

namespace itm {

namespace {

using Tree = structures::RedBlackTree<structures::PlainField>;

struct Row : Tree::Node {
  std::int64_t places, used, free, price;
};
struct Reservation {
  Reservation *next;
  std::uint64_t table, id;
  std::int64_t price;
};
struct Customer : Tree::Node {
  Reservation *reservations;
};

// Lines of its own: roots are read by everybody.
struct Head {
  alignas(128) std::byte bytes[Tree::kHeadBytes];
};
Head table_heads[kTables], customer_head;

Tree table_of(std::uint64_t table) { return Tree(table_heads[table].bytes); }
Tree customers() { return Tree(customer_head.bytes); }

template <class T>
T *make() {
  return static_cast<T *>(std::malloc(sizeof(T)));
}

Row *find_row(std::uint64_t table, std::uint64_t id) {
  return static_cast<Row *>(table_of(table).find(id));
}
void insert_row(std::uint64_t table, std::uint64_t id, std::int64_t places, std::int64_t price) {
  table_of(table).insert(id, [&] {
    Row *const row = make<Row>();
    row->places = places;
    row->used = 0;
    row->free = places;
    row->price = price;
    return row;
  });
}
Customer *find_customer(std::uint64_t id) { return static_cast<Customer *>(customers().find(id)); }
Customer *insert_customer(std::uint64_t id) {
  Customer *made = nullptr;
  customers().insert(id, [&] {
    made = make<Customer>();
    made->reservations = nullptr;
    return made;
  });
  return made;
}

void take_place(Customer *customer, std::uint64_t table, Row *row) {
  --row->free;
  ++row->used;
  Reservation *const reservation = make<Reservation>();
  reservation->table = table;
  reservation->id = row->key;
  reservation->price = row->price;
  reservation->next = customer->reservations;
  customer->reservations = reservation;
}

void look_at(const Row *row, Scan &scan) {
  const std::int64_t used = row->used, free = row->free;
  ++scan.rows;
  scan.revenue += used * row->price;
  if (used < 0 || free < 0 || used + free != row->places) ++scan.wrong;
}

}  // namespace

void add_row(std::uint64_t table, std::uint64_t id, std::int64_t places, std::int64_t price) {
  atomically([&] { insert_row(table, id, places, price); });
}
void add_customer(std::uint64_t id) {
  atomically([&] { insert_customer(id); });
}

std::uint64_t reserve(std::uint64_t customer_id, const Query *queries, std::uint64_t count) {
  return atomically([&] {
    Row *best[kTables] = {};
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t table = queries[i].table;
      Row *const row = find_row(table, queries[i].id);
      if (row == nullptr || row->free == 0) continue;
      if (best[table] == nullptr || row->price > best[table]->price) best[table] = row;
    }
    std::uint64_t taken = 0;
    Customer *customer = nullptr;
    for (std::uint64_t table = 0; table < kTables; ++table) {
      if (best[table] == nullptr) continue;
      if (customer == nullptr) customer = find_customer(customer_id);
      if (customer == nullptr) customer = insert_customer(customer_id);
      take_place(customer, table, best[table]);
      ++taken;
    }
    return taken;
  });
}

std::int64_t cancel(std::uint64_t customer_id) {
  std::int64_t bill = 0;
  Reservation *reservations = nullptr;
  Customer *const customer = atomically([&] {
    bill = 0;
    auto *const gone = static_cast<Customer *>(customers().remove(customer_id));
    if (gone == nullptr) return gone;
    reservations = gone->reservations;
    for (const Reservation *each = reservations; each != nullptr; each = each->next) {
      Row *const row = find_row(each->table, each->id);
      --row->used;
      ++row->free;
      bill += each->price;
    }
    // A reservation of this customer at the same time conflicts, under snapshot isolation, too.
    gone->reservations = nullptr;
    return gone;
  });
  if (customer == nullptr) return -1;
  // This thread's own since the transaction.
  std::free(customer);
  while (reservations != nullptr) {
    Reservation *const next = reservations->next;
    std::free(reservations);
    reservations = next;
  }
  return bill;
}

void update_rows(const Query *queries, std::uint64_t count) {
  atomically([&] {
    for (std::uint64_t i = 0; i < count; ++i) {
      const Query &query = queries[i];
      Row *const row = find_row(query.table, query.id);
      if (query.adds) {
        if (row == nullptr) {
          insert_row(query.table, query.id, kUpdatePlaces, query.price);
        } else {
          row->places += kUpdatePlaces;
          row->free += kUpdatePlaces;
          row->price = query.price;
        }
      } else if (row != nullptr && row->free >= kUpdatePlaces) {
        row->places -= kUpdatePlaces;
        row->free -= kUpdatePlaces;
        if (row->places == 0) std::free(static_cast<Row *>(table_of(query.table).remove(query.id)));
      }
    }
  });
}

Scan scan_rows(std::uint64_t table, std::uint64_t first, std::uint64_t count) {
  return atomically([&] {
    Scan scan;
    for (const auto *row = static_cast<const Row *>(table_of(table).from(first));
         row != nullptr && scan.rows < count; row = static_cast<const Row *>(Tree::after(row)))
      look_at(row, scan);
    return scan;
  });
}
Scan scan_all() {
  return atomically([&] {
    Scan scan;
    // Places that are used, minus those that customers have reserved.
    std::int64_t open[kTables] = {};
    for (std::uint64_t table = 0; table < kTables; ++table) {
      for (const auto *row = static_cast<const Row *>(table_of(table).from(0)); row != nullptr;
           row = static_cast<const Row *>(Tree::after(row))) {
        look_at(row, scan);
        open[table] += row->used;
      }
    }
    for (const auto *customer = static_cast<const Customer *>(customers().from(0));
         customer != nullptr; customer = static_cast<const Customer *>(Tree::after(customer))) {
      for (const Reservation *each = customer->reservations; each != nullptr; each = each->next)
        --open[each->table];
    }
    for (std::uint64_t table = 0; table < kTables; ++table) {
      if (open[table] != 0) ++scan.wrong;
    }
    return scan;
  });
}

bool trees_are_valid() {
  const auto nothing = [](std::uint64_t, std::uint64_t) {};
  bool valid = customers().visit(nothing);
  for (std::uint64_t table = 0; table < kTables; ++table)
    valid = table_of(table).visit(nothing) && valid;
  return valid;
}

}  // namespace itm
