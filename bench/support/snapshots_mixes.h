// bench/support/snapshots_mixes.h -- what the workers of the snapshots bench do, step by step.
// Shape:     a mix draws the steps of one worker: next(), then done(step, result) once the step has
//            committed, which returns false when the result is wrong. The bank's reader has a
//            reference: a plain loop over as many numbers of its own, which nobody writes. In turns
//            with its queries, because a processor that shares its core with another one is half
//            as fast while that one is busy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/support/keep.h"
#include "bench/support/snapshots_arrays.h"
#include "bench/support/snapshots_reservations.h"
#include "bench/support/snapshots_ycsb.h"
#include "examples/workloads/random.hpp"

namespace tmh::bench {

struct WorkerPlace {
  unsigned index, workers;
  std::uint64_t size, seed;  // elements of the structure
};

struct BankMix {
  template <class Allocator>
  using Data = Bank;
  bool sums;  // else transfers
  static constexpr std::int64_t kAmountMax = 100;

  class Worker {
   public:
    Worker(const BankMix &mix, const WorkerPlace &place)
        : sums_(mix.sums),
          accounts_(place.size),
          own_(mix.sums ? place.size : 0, Bank::kBalance),
          random_(place.seed) {}
    [[nodiscard]] bool has_reference() const noexcept { return sums_; }
    void run_reference() const { keep(sum_of_balances(own_.data(), own_.size())); }
    [[nodiscard]] BankStep next() {
      BankStep step{sums_, 0, 0, 0};
      if (sums_) return step;
      step.from = random_.below(accounts_);
      step.to = random_.below(accounts_);
      step.amount = 1 + static_cast<std::int64_t>(random_.below(kAmountMax));
      return step;
    }
    [[nodiscard]] bool done(const BankStep &step, std::uint64_t result) const {
      return !step.sums || result == accounts_ * static_cast<std::uint64_t>(Bank::kBalance);
    }

   private:
    bool sums_;
    std::uint64_t accounts_;
    std::vector<std::int64_t> own_;
    workloads::Random random_;
  };
};

struct ListMix {
  template <class Allocator>
  using Data = List;
  unsigned update_percent;

  class Worker {
   public:
    Worker(const ListMix &mix, const WorkerPlace &place)
        : update_percent_(mix.update_percent),
          keys_(place.size * List::kKeysPerElement),
          random_(place.seed) {
      const std::uint64_t first = List::first_node(place.size, place.index),
                          end = List::first_node(place.size, place.index + 1);
      for (std::uint64_t node = end; node-- > first;) free_.push_back(node);
    }
    [[nodiscard]] static constexpr bool has_reference() noexcept { return false; }
    static void run_reference() noexcept {}
    [[nodiscard]] ListStep next() {
      ListStep step{ListAct::kContains, 1 + random_.below(keys_), 0};
      if (random_.below(100) >= update_percent_) return step;
      // A node goes to who removes it: one worker's may run out.
      const bool inserts = random_.below(2) == 0 && !free_.empty();
      step.act = inserts ? ListAct::kInsert : ListAct::kRemove;
      if (step.act == ListAct::kInsert) step.free_node = free_.back();
      return step;
    }
    [[nodiscard]] bool done(const ListStep &step, std::uint64_t result) {
      if (step.act == ListAct::kInsert && result != 0) free_.pop_back();
      if (step.act == ListAct::kRemove && result != 0) free_.push_back(result - 1);
      return true;  // the list is looked at when all have ended
    }

   private:
    std::uint64_t update_percent_, keys_;
    std::vector<std::uint64_t> free_;
    workloads::Random random_;
  };
};

struct ReservationMix {
  template <class Allocator>
  using Data = Reservations<Allocator>;
  std::uint64_t scan_rows;  // 0: the writer's
  // Not 0: before each scan a plain loop over so many numbers of the worker's own. So the other
  // processor is busy, which shares a core with the writer's perhaps, and the data are not.
  std::uint64_t own_numbers = 0;
  static constexpr std::uint64_t kRangePercent = 60, kReservePercent = 90, kDropPercent = 5;
  static_assert(kRangePercent <= 100 && kReservePercent + kDropPercent < 100);

  class Worker {
   public:
    Worker(const ReservationMix &mix, const WorkerPlace &place)
        : scan_rows_(mix.scan_rows),
          rows_(place.size),
          own_(mix.own_numbers, 1),
          random_(place.seed) {}
    [[nodiscard]] static constexpr bool has_reference() noexcept { return false; }
    static void run_reference() noexcept {}
    [[nodiscard]] ReservationStep next() {
      ReservationStep step{};
      if (scan_rows_ > 0) {
        keep(sum_of_balances(own_.data(), own_.size()));
        step.act = ReservationAct::kScan;
        step.rows = scan_rows_;
        step.ask[0].table = table();
        step.ask[0].id = 1 + random_.below(rows_ - std::min(scan_rows_, rows_) + 1);
        return step;
      }
      const std::uint64_t percent = random_.below(100);
      step.act = percent < kReservePercent                  ? ReservationAct::kReserve
                 : percent < kReservePercent + kDropPercent ? ReservationAct::kDrop
                                                            : ReservationAct::kManage;
      step.customer = any_id();
      step.asks = 1 + static_cast<unsigned>(random_.below(kReservationAsks));
      for (auto &ask : step.ask) {
        ask.table = table();
        ask.id = any_id();
        ask.adds = random_.below(2) == 0;
        ask.price = static_cast<std::int64_t>(random_.below(5)) * 10 + 50;
      }
      return step;
    }
    [[nodiscard]] bool done(const ReservationStep &, std::uint64_t result) const {
      return result != ~std::uint64_t{0};
    }

   private:
    [[nodiscard]] unsigned table() {
      return static_cast<unsigned>(random_.below(kReservationTables));
    }
    [[nodiscard]] std::uint64_t any_id() {
      return 1 + random_.below(std::max<std::uint64_t>(rows_ * kRangePercent / 100, 1));
    }
    std::uint64_t scan_rows_, rows_;
    std::vector<std::int64_t> own_;
    workloads::Random random_;
  };
};

struct YcsbMix {
  template <class Allocator>
  using Data = Ycsb<Allocator>;
  char letter;  // a: 50 % reads, 50 % updates; e: 95 % scans, 5 % inserts
  static constexpr std::uint64_t kScanMax = 100;

  class Worker {
   public:
    Worker(const YcsbMix &mix, const WorkerPlace &place)
        : letter_(mix.letter),
          choice_(place.size, workloads::Zipfian::kYcsbTheta),
          next_number_(place.size + place.index),
          workers_(place.workers),
          stamp_((std::uint64_t{place.index} + 1) << 40),
          random_(place.seed) {}
    [[nodiscard]] static constexpr bool has_reference() noexcept { return false; }
    static void run_reference() noexcept {}
    [[nodiscard]] YcsbStep next() {
      YcsbStep step{};
      const std::uint64_t percent = random_.below(100);
      step.stamp = ++stamp_;
      if (letter_ == 'a') {
        step.act = percent < 50 ? YcsbAct::kRead : YcsbAct::kUpdate;
        step.which = random_.below(kFields);
      } else {
        step.act = percent < 95 ? YcsbAct::kScan : YcsbAct::kInsert;
        step.records = 1 + random_.below(kScanMax);
      }
      if (step.act == YcsbAct::kInsert) {
        step.key = ycsb_key(next_number_);
        next_number_ += workers_;
      } else {
        step.key = ycsb_key(choice_.next(random_));
      }
      return step;
    }
    [[nodiscard]] bool done(const YcsbStep &step, std::uint64_t result) const {
      return result != ~std::uint64_t{0} && (step.act != YcsbAct::kUpdate || result == 1);
    }

   private:
    static constexpr std::uint64_t kFields = 10;
    char letter_;
    workloads::ScrambledZipfian choice_;
    std::uint64_t next_number_, workers_, stamp_;
    workloads::Random random_;
  };
};

}  // namespace tmh::bench
