// examples/workloads/ycsb.cpp -- the core workloads A to F of the Yahoo! Cloud Serving Benchmark.
// Shape:     a table of 2 * size records of 1 KiB, of which `size` are there at first. Record n
//            lies at n modulo the table's length; an insertion beyond it takes the place of the
//            oldest record. There is no index over it: what is measured is the transactions.
// As the YCSB: 10 fields; a read reads all, an update writes one; zipfian constant 0.99, scrambled
// over the records first loaded (A, B, C, E,
//            F) or counted from the latest (D); scans of 1 to 100 records, uniformly. Not as the
//            YCSB: fields of 96 bytes, not 100; records in the order of their numbers.
// Invariant: all words of a field are one stamp, in every read: of the record's insertion, or of an
//            update that its worker's tally has. As many records are there as were inserted and not
//            replaced; F: records have as many changes as tallies.
// Source:    B. Cooper et al., Benchmarking Cloud Serving Systems with YCSB, SoCC 2010,
//            and workloads/workload[a-f] of its program.
#include <algorithm>

#include "examples/workloads/workload.hpp"

namespace workloads {

namespace {

constexpr unsigned kFields = 10, kFieldWords = 12;
constexpr std::uint64_t kPortion = 1000;  // records: 250 pages
constexpr std::uint64_t kScanMax = 100;
// A stamp: kInserted + number, or (worker + 1) << 40 + the worker's update.
constexpr std::uint64_t kInserted = 1ull << 63;
constexpr unsigned kWorkerShift = 40;

using Word = tmh::field<std::uint64_t>;

struct Record {
  Word number_and_1;  // 0: there is none
  Word changes;       // read-modify-writes
  Word unused[6];
  Word fields[kFields][kFieldWords];
};
static_assert(sizeof(Record) == 1024);

bool is_one_stamp(const Word (&field)[kFieldWords]) {
  const std::uint64_t stamp = field[0];
  for (unsigned i = 1; i < kFieldWords; ++i)
    if (field[i] != stamp) return false;
  return true;
}

bool read_all(const Record &record) {
  for (const auto &field : record.fields)
    if (!is_one_stamp(field)) return false;
  return true;
}

void write(Word (&field)[kFieldWords], std::uint64_t stamp) {
  for (Word &word : field) word = stamp;
}

class Ycsb final : public Workload {
 public:
  Ycsb(const tmh::Domain &domain, const Plan &plan)
      : Workload(domain, plan, 2 * plan.size * sizeof(Record)),
        letter_(plan.workload->name[5]),
        choice_(plan.size, plan.skew),
        latest_(plan.size, plan.skew) {}
  [[nodiscard]] std::unique_ptr<Worker> make_worker(unsigned index) override {
    return std::make_unique<Client>(*this, index);
  }

 private:
  class Client final : public Worker {
   public:
    Client(Ycsb &table, unsigned index)
        : Worker(table.tally(index), table.seed_of(index)), table_(table), index_(index) {}
    void step() override {
      const bool reads = random_.below(100) < static_cast<std::uint64_t>(table_.plan_.read_percent);
      if (!reads && (table_.letter_ == 'd' || table_.letter_ == 'e')) return insert();
      const std::uint64_t number = table_.draw(random_);
      if (!reads) return change(table_.at(number), table_.letter_ == 'f');
      if (table_.letter_ == 'e') return scan(number);
      const bool is_whole =
          tmh::atomically(table_.site_, [&](tmh::Fields) { return read_all(table_.at(number)); });
      if (!is_whole) throw Broken("ycsb: a read saw parts of two updates");
    }

   private:
    void scan(std::uint64_t first) {
      const std::uint64_t count = 1 + random_.below(kScanMax);
      const bool is_whole = read_much(table_.site_, table_.plan_, [&] {
        bool all = true;
        for (std::uint64_t i = 0; i < count; ++i) all = read_all(table_.at(first + i)) && all;
        return all;
      });
      if (!is_whole) throw Broken("ycsb: a scan saw parts of two updates");
    }
    void change(Record &record, bool reads_first) {
      const std::uint64_t which = random_.below(kFields);
      update(table_.site_, [&] {
        if (reads_first) {
          (void)read_all(record);
          ++record.changes;
        }
        write(record.fields[which],
              (std::uint64_t{index_ + 1} << kWorkerShift) + tally_.updates + 1);
        return Change{0, reads_first ? 1 : 0};
      });
    }
    void insert() {
      const std::uint64_t number =
          table_.plan_.next_number->fetch_add(1, std::memory_order_relaxed);
      update(table_.site_, [&] {
        Record &record = table_.at(number);
        const std::uint64_t there = record.number_and_1;
        if (there > number) return Change{};  // so late that a later record has the place
        write_record(record, number);
        return Change{there == 0 ? 1 : 0, 0};
      });
    }

    Ycsb &table_;
    const unsigned index_;
  };

  static void write_record(Record &record, std::uint64_t number) {
    record.number_and_1 = number + 1;
    for (auto &field : record.fields) write(field, kInserted + number);
  }
  [[nodiscard]] std::uint64_t length() const { return 2 * plan_.size; }
  [[nodiscard]] Record &at(std::uint64_t number) const {
    return reinterpret_cast<Record *>(content())[number % length()];
  }
  [[nodiscard]] std::uint64_t draw(Random &random) const {
    return letter_ == 'd'
               ? plan_.next_number->load(std::memory_order_relaxed) - 1 - latest_.next(random)
               : choice_.next(random);
  }
  [[nodiscard]] std::uint64_t portions() const override {
    return (plan_.size + kPortion - 1) / kPortion;
  }
  void fill(std::uint64_t portion) override {
    const std::uint64_t end = std::min(plan_.size, (portion + 1) * kPortion);
    for (std::uint64_t number = portion * kPortion; number < end; ++number)
      write_record(at(number), number);
  }
  void prepare() override {
    std::uint64_t next = 0;
    for (std::uint64_t i = 0; i < length(); ++i)
      next = std::max<std::uint64_t>(next, at(i).number_and_1);
    plan_.next_number->store(next, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_known(std::uint64_t stamp, std::uint64_t number) const {
    if (stamp >= kInserted) return stamp - kInserted == number;
    const std::uint64_t worker = stamp >> kWorkerShift,
                        update = stamp & ((1ull << kWorkerShift) - 1);
    return worker >= 1 && worker <= kWorkersMax && update >= 1 &&
           update <= tally(static_cast<unsigned>(worker - 1)).updates;
  }
  void check(Verdict *verdict) override {
    std::uint64_t there = 0, torn = 0, unknown = 0, misplaced = 0;
    std::int64_t changes = 0;
    for (std::uint64_t i = 0; i < length(); ++i) {
      const Record &record = at(i);
      if (record.number_and_1 == 0) continue;
      const std::uint64_t number = record.number_and_1 - 1;
      ++there;
      changes += static_cast<std::int64_t>(record.changes);
      if (number % length() != i) ++misplaced;
      for (const auto &field : record.fields) {
        if (!is_one_stamp(field)) ++torn;
        if (!is_known(field[0], number)) ++unknown;
      }
    }
    const Sums changed = sums();
    const std::uint64_t due = plan_.size + static_cast<std::uint64_t>(changed.grown);
    verdict->text = std::to_string(there) +
                    " records are there, as were committed; each field is of one update";
    verdict->expect(there == due,
                    std::to_string(there) + " records are there instead of " + std::to_string(due));
    verdict->expect(torn == 0, std::to_string(torn) + " fields have parts of two updates");
    verdict->expect(unknown == 0,
                    std::to_string(unknown) + " fields are of updates that nobody committed");
    verdict->expect(misplaced == 0, std::to_string(misplaced) + " records lie where others belong");
    verdict->expect(changes == changed.sum, std::to_string(changes) +
                                                " read-modify-writes are in the records, " +
                                                std::to_string(changed.sum) + " were committed");
  }

  const char letter_;
  const ScrambledZipfian choice_;
  const Zipfian latest_;
};

}  // namespace

std::unique_ptr<Workload> make_ycsb(const tmh::Domain &domain, const Plan &plan) {
  return std::make_unique<Ycsb>(domain, plan);
}

}  // namespace workloads
