// bench/support/snapshots_reservations.h -- STAMP's Vacation with a scan beside it: cars, flights,
// rooms and customers, each a B+-tree, as plain serial code.
// Shape:     steps as in snapshots_arrays.h. Reserve: asks for the prices of some rows, books the
//            dearest of each table; drop: a customer leaves, with all bookings; manage: seats come
//            and go, with their row when none is left; scan: the income of rows that follow each
//            other.
//            Vacation's high contention: 4 questions, 60 % of the rows, 90 % reservations; the rest
//            is half drops and half management.
// Invariant: of every row used + free = total; bookings of all customers = used of all rows.
// Isolation: one writer, or serializable: rows are stored to through find().
// Contexts:  every call inside one instance. Included by code that is compiled with -fgnu-tm.
// Source:    EXCITE-VM, section 6.2.4; STAMP (its Vacation).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include <tmh/trees/bptree.hpp>

namespace tmh::bench {

enum class ReservationAct : std::uint8_t { kReserve, kDrop, kManage, kScan };
inline constexpr unsigned kReservationTables = 3, kReservationAsks = 4;
static_assert(kReservationTables == 3, "cars, flights, rooms");
struct ReservationStep {
  ReservationAct act;
  std::uint64_t customer;
  unsigned asks;
  struct Ask {
    unsigned table;
    std::uint64_t id;
    bool adds;
    std::int64_t price;
  } ask[kReservationAsks];
  // Scan: of ask[0].table, from ask[0].id on.
  std::uint64_t rows;
  [[nodiscard]] bool is_query() const noexcept { return act == ReservationAct::kScan; }
};

template <class Allocator>
class Reservations {
 public:
  using allocator_type = Allocator;
  using Step = ReservationStep;
  static constexpr bool kIsFlat = false;
  static constexpr std::uint64_t kTorn = ~std::uint64_t{0};  // a scan saw parts of two updates

  explicit Reservations(const Allocator &allocator = Allocator())
      : allocator_(allocator),
        tables_{Table(allocator), Table(allocator), Table(allocator)},
        customers_(allocator) {}

  // In order, a row of each.
  static constexpr std::uint64_t kPortion = 2'000;
  void fill(std::uint64_t rows, std::uint64_t portion) {
    for (std::uint64_t id = portion * kPortion + 1; id <= rows && id <= (portion + 1) * kPortion;
         ++id) {
      for (Table &table : tables_) {
        const auto seats = static_cast<std::int64_t>(id % 5 + 1) * kSeats;
        table.insert(id, Row{0, seats, seats, static_cast<std::int64_t>(id % 7) * 10 + 50});
      }
      customers_.insert(id, Bookings{nullptr});
    }
  }

  [[nodiscard]] std::uint64_t read(const Step &step) const {
    std::int64_t income = 0, torn = 0;
    std::uint64_t left = step.rows;
    const Table &table = tables_[step.ask[0].table];
    const auto end = table.end();
    for (auto at = table.lower_bound(step.ask[0].id); left > 0 && at != end; ++at, --left) {
      const Row &row = (*at).value;
      income += row.used * row.price;
      torn |= row.used + row.free - row.total;
    }
    return torn == 0 ? static_cast<std::uint64_t>(income) : kTorn;
  }
  std::uint64_t update(const Step &step) {
    if (step.act == ReservationAct::kReserve) return reserve(step);
    if (step.act == ReservationAct::kDrop) return drop(step.customer);
    return manage(step);
  }

  [[nodiscard]] std::uint64_t fingerprint() const {
    std::uint64_t mixed = 1;
    std::int64_t used = 0, bookings = 0;
    for (const Table &table : tables_) {
      for (auto at = table.begin(); at != table.end(); ++at) {
        const Row &row = (*at).value;
        if (row.used < 0 || row.free < 0 || row.used + row.free != row.total) return 0;
        used += row.used;
        mixed = mixed * 0x100000001b3ULL + (*at).key;
        mixed = mixed * 0x100000001b3ULL + static_cast<std::uint64_t>(row.used * row.price);
      }
    }
    for (auto at = customers_.begin(); at != customers_.end(); ++at) {
      for (const Booking *booking = (*at).value.first; booking != nullptr;
           booking = booking->next) {
        ++bookings;
        mixed = mixed * 0x100000001b3ULL + booking->id;
      }
    }
    return used == bookings ? mixed | 1 : 0;
  }

 private:
  static constexpr std::int64_t kSeats = 100;
  struct Row {
    std::int64_t used, free, total, price;
  };
  struct Booking {
    Booking *next;
    std::uint64_t table, id;
    std::int64_t price;
  };
  struct Bookings {
    Booking *first;
  };
  using Table = trees::BPlusTree<std::uint64_t, Row, 4096, Allocator>;
  using Customers = trees::BPlusTree<std::uint64_t, Bookings, 4096, Allocator>;
  using BookingAllocator =
      typename std::allocator_traits<Allocator>::template rebind_alloc<Booking>;

  std::uint64_t reserve(const Step &step) {
    std::uint64_t dearest[kReservationTables] = {};
    std::int64_t price[kReservationTables] = {-1, -1, -1};
    for (unsigned i = 0; i < step.asks; ++i) {
      const auto &ask = step.ask[i];
      const Row *const row = tables_[ask.table].find(ask.id);
      if (row == nullptr || row->free == 0 || row->price <= price[ask.table]) continue;
      dearest[ask.table] = ask.id;
      price[ask.table] = row->price;
    }
    std::uint64_t booked = 0;
    for (unsigned table = 0; table < kReservationTables; ++table) {
      if (dearest[table] == 0) continue;
      Bookings *bookings = customers_.find(step.customer);
      if (bookings == nullptr) {
        customers_.insert(step.customer, Bookings{nullptr});
        bookings = customers_.find(step.customer);
      }
      Row *const row = tables_[table].find(dearest[table]);
      ++row->used;
      --row->free;
      Booking *const booking = BookingAllocator(allocator_).allocate(1);
      booking->next = bookings->first;
      booking->table = table;
      booking->id = dearest[table];
      booking->price = price[table];
      bookings->first = booking;
      ++booked;
    }
    return booked;
  }
  std::uint64_t drop(std::uint64_t customer) {
    const Bookings *const bookings = customers_.find(customer);
    if (bookings == nullptr) return 0;
    std::uint64_t bill = 1;
    for (Booking *booking = bookings->first; booking != nullptr;) {
      Row *const row = tables_[booking->table].find(booking->id);
      --row->used;
      ++row->free;
      bill += static_cast<std::uint64_t>(booking->price);
      Booking *const next = booking->next;
      BookingAllocator(allocator_).deallocate(booking, 1);
      booking = next;
    }
    customers_.erase(customer);
    return bill;
  }
  std::uint64_t manage(const Step &step) {
    std::uint64_t changed = 0;
    for (unsigned i = 0; i < step.asks; ++i) {
      const auto &ask = step.ask[i];
      Table &table = tables_[ask.table];
      Row *const row = table.find(ask.id);
      if (ask.adds) {
        if (row == nullptr) {
          table.insert(ask.id, Row{0, kSeats, kSeats, ask.price});
        } else {
          row->free += kSeats;
          row->total += kSeats;
          row->price = ask.price;
        }
      } else {
        if (row == nullptr || row->free < kSeats) continue;
        row->free -= kSeats;
        row->total -= kSeats;
        if (row->total == 0) table.erase(ask.id);
      }
      ++changed;
    }
    return changed;
  }

  Allocator allocator_;
  Table tables_[kReservationTables];
  Customers customers_;
};

}  // namespace tmh::bench
