// examples/itm/ycsb.cpp -- workloads A to F of the Yahoo! Cloud Serving Benchmark over an ordered
// index in memory.
// Shape:     a field is an 8-byte stamp, repeated. Workload D: a thread's latest records are those
//            that it has inserted itself, then those from the start, so that each read must find.
// Checks:    each read finds its record, and no field that is half another one; scans ascend. At
//            the end as many records as were inserted, versions that add up to all updates, a valid
//            tree.
// Source:    YCSB.
#include "examples/itm/ycsb.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "examples/itm/support/report.h"

namespace {

struct Sizes {
  std::string workload = "A";
  std::uint64_t records = 20'000, fields = 10, field_bytes = 100, scan_max = 100;
  double theta = workloads::Zipfian::kYcsbTheta;
  [[nodiscard]] std::uint64_t record_bytes() const {
    return sizeof(itm::RecordHead) + fields * field_bytes;
  }
};

// Percent; what is left are reads.
struct Mix {
  std::uint64_t updates, inserts, scans, read_modify_writes;
};
Mix mix_of(char workload) {
  switch (workload) {
    case 'A':
      return {50, 0, 0, 0};
    case 'B':
      return {5, 0, 0, 0};
    case 'C':
      return {0, 0, 0, 0};
    case 'D':
      return {0, 5, 0, 0};
    case 'E':
      return {0, 5, 95, 0};
    default:
      return {0, 0, 0, 50};
  }
}

// The YCSB calls it hashed insert order.
std::uint64_t key_of(std::uint64_t number) { return workloads::fnv_hash(number); }

// Of one thread.
struct alignas(2 * itm::kLineBytes) Tally {
  std::uint64_t reads = 0, updates = 0, inserts = 0, scans = 0, read_modify_writes = 0;
  std::uint64_t rows_scanned = 0, missing = 0, torn = 0, there_already = 0, disordered = 0;
};

class Client {
 public:
  Client(itm::Worker &worker, const Sizes &sizes)
      : worker_(&worker),
        sizes_(&sizes),
        mix_(mix_of(sizes.workload[0])),
        draws_latest_(sizes.workload == "D"),
        popular_(sizes.records, sizes.theta),
        // Adds up as many terms as it has ranks.
        latest_(draws_latest_ ? sizes.records : 2, sizes.theta),
        bytes_(sizes.fields * sizes.field_bytes),
        copies_(sizes.record_bytes() * sizes.scan_max) {}
  void run() {
    while (worker_->goes_on()) step();
  }
  [[nodiscard]] const Tally &tally() const { return tally_; }

  // Fills `bytes` with a new field's, once or several times.
  static void stamp(itm::Random &random, std::byte *bytes, std::uint64_t fields,
                    std::uint64_t field_bytes) {
    for (; fields > 0; --fields, bytes += field_bytes) {
      const std::uint64_t stamp = random.next();
      for (std::uint64_t at = 0; at < field_bytes; at += sizeof stamp)
        std::memcpy(bytes + at, &stamp, std::min(sizeof stamp, field_bytes - at));
    }
  }
  static bool is_whole(const Sizes &sizes, const std::byte *copy) {
    const std::byte *field = copy + sizeof(itm::RecordHead);
    for (std::uint64_t i = 0; i < sizes.fields; ++i, field += sizes.field_bytes) {
      if (std::memcmp(field, field + 8, sizes.field_bytes - 8) != 0) return false;
    }
    return true;
  }

 private:
  void step() {
    itm::Random &random = worker_->random();
    std::uint64_t dice = random.below(100);
    const auto falls_to = [&dice](std::uint64_t percent) {
      const bool chosen = dice < percent;
      dice -= chosen ? 0 : percent;
      return chosen;
    };
    if (falls_to(mix_.inserts)) {
      stamp(random, bytes_.data(), sizes_->fields, sizes_->field_bytes);
      if (!itm::index_insert(key_of(number_of(tally_.inserts)), bytes_.data()))
        ++tally_.there_already;
      ++tally_.inserts;
    } else if (falls_to(mix_.updates)) {
      stamp(random, bytes_.data(), 1, sizes_->field_bytes);
      const std::uint64_t key = key_of(draw()), field = random.below(sizes_->fields);
      if (!itm::index_update(key, field, bytes_.data())) ++tally_.missing;
      ++tally_.updates;
    } else if (falls_to(mix_.scans)) {
      scan(key_of(draw()), 1 + random.below(sizes_->scan_max));
    } else if (falls_to(mix_.read_modify_writes)) {
      stamp(random, bytes_.data(), 1, sizes_->field_bytes);
      const std::uint64_t key = key_of(draw()), field = random.below(sizes_->fields);
      look_at(itm::index_read_modify_write(key, field, bytes_.data(), copies_.data()));
      ++tally_.read_modify_writes;
    } else {
      look_at(itm::index_read(key_of(draw()), copies_.data()));
      ++tally_.reads;
    }
  }
  void look_at(bool found) {
    if (!found) {
      ++tally_.missing;
    } else if (!is_whole(*sizes_, copies_.data())) {
      ++tally_.torn;
    }
  }
  void scan(std::uint64_t key, std::uint64_t count) {
    const std::uint64_t rows = itm::index_scan(key, count, copies_.data());
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < rows; ++i) {
      const std::byte *const copy = copies_.data() + i * sizes_->record_bytes();
      itm::RecordHead head;
      std::memcpy(&head, copy, sizeof head);
      if (!is_whole(*sizes_, copy)) ++tally_.torn;
      if (i == 0 ? head.key != key : head.key <= last) ++tally_.disordered;
      last = head.key;
    }
    if (rows == 0) ++tally_.missing;
    ++tally_.scans;
    tally_.rows_scanned += rows;
  }
  // Of the records that this thread inserts.
  [[nodiscard]] std::uint64_t number_of(std::uint64_t insert) const {
    return sizes_->records + insert * worker_->threads() + worker_->index();
  }
  // A record's number.
  std::uint64_t draw() {
    if (!draws_latest_) return popular_.next(worker_->random());
    const std::uint64_t rank = latest_.next(worker_->random());
    if (rank < tally_.inserts) return number_of(tally_.inserts - 1 - rank);
    return sizes_->records - 1 - (rank - tally_.inserts) % sizes_->records;
  }

  itm::Worker *worker_;
  const Sizes *sizes_;
  Mix mix_;
  bool draws_latest_;
  workloads::ScrambledZipfian popular_;
  workloads::Zipfian latest_;
  std::vector<std::byte> bytes_, copies_;
  Tally tally_;
};

void load(const Sizes &sizes, itm::Random &random) {
  itm::index_open(sizes.fields, sizes.field_bytes);
  std::vector<std::byte> bytes(sizes.fields * sizes.field_bytes);
  for (std::uint64_t number = 0; number < sizes.records; ++number) {
    Client::stamp(random, bytes.data(), sizes.fields, sizes.field_bytes);
    static_cast<void>(itm::index_insert(key_of(number), bytes.data()));
  }
}

// All records, outside the measured time.
void check_all(const Sizes &sizes, const Tally &all, itm::Report &report) {
  constexpr std::uint64_t kRows = 64;
  std::vector<std::byte> copies(kRows * sizes.record_bytes());
  std::uint64_t from = 0, rows = kRows, records = 0, versions = 0, torn = 0;
  while (rows == kRows) {
    rows = itm::index_scan(from, kRows, copies.data());
    records += rows;
    for (std::uint64_t i = 0; i < rows; ++i) {
      const std::byte *const copy = copies.data() + i * sizes.record_bytes();
      itm::RecordHead head;
      std::memcpy(&head, copy, sizeof head);
      versions += head.version;
      if (!Client::is_whole(sizes, copy)) ++torn;
      from = head.key + 1;
    }
  }
  report.detail("final_records", records);
  report.require(torn == 0, std::to_string(torn) + " records of the index are torn");
  report.require(records == sizes.records + all.inserts, "records were lost or made");
  report.require(versions == all.updates + all.read_modify_writes, "updates were lost");
  report.require(itm::index_is_valid(), "the tree is broken");
}

}  // namespace

int main(int argc, char **argv) {
  Sizes sizes;
  itm::Options options("ycsb", "YCSB A to F over an ordered index in memory");
  options.add("--workload", sizes.workload,
              "A: half updates, B: 5 % updates, C: reads, D: reads of the latest and 5 % inserts, "
              "E: scans and 5 % inserts, F: half read-modify-writes",
              {"A", "B", "C", "D", "E", "F"});
  options.add("--records", sizes.records, "at the start", 2, 1u << 28);
  options.add("--fields", sizes.fields, "of a record", 1, 1000);
  options.add("--field-bytes", sizes.field_bytes, "of a field", 8, 100'000);
  options.add("--scan-max", sizes.scan_max, "records; a scan reads 1 to this many", 1, 10'000);
  options.add("--theta", sizes.theta, "how unequal: 0 uniform, 0.99 as the YCSB", 0, 0.999);
  if (!options.parse(argc, argv)) return options.status();

  itm::Random random(itm::seed_of(options.common().seed, 0));
  load(sizes, random);
  std::vector<Tally> tallies(options.common().threads);
  const itm::Work done = itm::run_threads(options.common(), [&](itm::Worker &worker) {
    Client client(worker, sizes);
    client.run();
    tallies[worker.index()] = client.tally();
  });

  Tally all;
  for (const Tally &each : tallies) {
    all.reads += each.reads;
    all.updates += each.updates;
    all.inserts += each.inserts;
    all.scans += each.scans;
    all.read_modify_writes += each.read_modify_writes;
    all.rows_scanned += each.rows_scanned;
    all.missing += each.missing;
    all.torn += each.torn;
    all.there_already += each.there_already;
    all.disordered += each.disordered;
  }
  itm::Report report(options);
  report.detail("workload", sizes.workload);
  report.detail("records", sizes.records);
  report.detail("fields", sizes.fields);
  report.detail("field_bytes", sizes.field_bytes);
  report.detail("theta", sizes.theta);
  report.detail("reads", all.reads);
  report.detail("updates", all.updates);
  report.detail("inserts", all.inserts);
  report.detail("scans", all.scans);
  report.detail("rows_scanned", all.rows_scanned);
  report.detail("read_modify_writes", all.read_modify_writes);
  report.require(all.torn == 0, std::to_string(all.torn) + " records were read torn");
  report.require(all.missing == 0, std::to_string(all.missing) + " records were not found");
  report.require(all.there_already == 0, "a new key was there already");
  report.require(all.disordered == 0, "a scan was not in order");
  check_all(sizes, all, report);
  return report.print(done);
}
