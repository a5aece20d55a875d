// bench/support/snapshots_ycsb.h -- workloads A and E of the Yahoo! Cloud Serving Benchmark on an
// ordered index, a B+-tree, as plain serial code.
// Shape:     steps as in snapshots_arrays.h. A record has 10 fields of 96 bytes (the YCSB: 100) and
//            lies beside the index. A read reads all fields, an update writes one; a scan reads 1
//            to 100 records in the order of keys, which are hashes of the records' numbers.
// Invariant: all words of a field are of one update.
// Isolation: serializable or snapshot: an update writes whole fields and reads none.
// Contexts:  every call inside one instance. Included by code that is compiled with -fgnu-tm.
// Source:    EXCITE-VM, section 6.2.6; YCSB, workloads A and E.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/trees/bptree.hpp>

namespace tmh::bench {

enum class YcsbAct : std::uint8_t { kRead, kUpdate, kScan, kInsert };
struct YcsbStep {
  YcsbAct act;
  std::uint64_t key;
  std::uint64_t stamp;    // of an update or insert
  std::uint64_t which;    // field of an update
  std::uint64_t records;  // of a scan
  [[nodiscard]] bool is_query() const noexcept {
    return act == YcsbAct::kRead || act == YcsbAct::kScan;
  }
};

// FNV-1a of the eight bytes.
[[nodiscard]] inline std::uint64_t ycsb_key(std::uint64_t number) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (int byte = 0; byte < 8; ++byte, number >>= 8)
    hash = (hash ^ (number & 0xff)) * 0x100000001b3ULL;
  return hash;
}

template <class Allocator>
class Ycsb {
 public:
  using allocator_type = Allocator;
  using Step = YcsbStep;
  static constexpr bool kIsFlat = false;
  static constexpr unsigned kFields = 10, kWords = 12;
  static constexpr std::uint64_t kTorn = ~std::uint64_t{0};  // a read saw parts of two updates

  explicit Ycsb(const Allocator &allocator = Allocator()) : index_(allocator) {}

  static constexpr std::uint64_t kPortion = 500;
  void fill(std::uint64_t records, std::uint64_t portion) {
    for (std::uint64_t i = portion * kPortion; i < records && i < (portion + 1) * kPortion; ++i)
      insert(ycsb_key(i), i);
  }
  [[nodiscard]] std::uint64_t read(const Step &step) const {
    if (step.act == YcsbAct::kRead) {
      const Record *const record = index_.find(step.key);
      return record == nullptr ? 0 : read_all(*record);
    }
    std::uint64_t left = step.records, sum = 0;
    const auto end = index_.end();
    for (auto at = index_.lower_bound(step.key); left > 0 && at != end; ++at, --left) {
      const std::uint64_t stamps = read_all((*at).value);
      if (stamps == kTorn) return kTorn;
      sum += stamps;
    }
    return sum >> 1;  // no sum is kTorn
  }
  std::uint64_t update(const Step &step) {
    if (step.act == YcsbAct::kInsert) return insert(step.key, step.stamp) ? 1 : 0;
    Record *const record = index_.find(step.key);
    if (record == nullptr) return 0;
    for (std::uint64_t &word : record->fields[step.which]) word = step.stamp;
    return 1;
  }
  [[nodiscard]] std::uint64_t fingerprint() const {
    std::uint64_t mixed = 1;
    for (auto at = index_.begin(); at != index_.end(); ++at) {
      const std::uint64_t stamps = read_all((*at).value);
      if (stamps == kTorn) return 0;
      mixed = (mixed * 0x100000001b3ULL + (*at).key) * 0x100000001b3ULL + stamps;
    }
    return mixed | 1;
  }

 private:
  struct Record {
    std::uint64_t fields[kFields][kWords];
  };
  static_assert(sizeof(Record) == 960, "fields of 96 bytes");
  bool insert(std::uint64_t key, std::uint64_t stamp) {
    Record record;
    for (auto &field : record.fields)
      for (std::uint64_t &word : field) word = stamp;
    return index_.insert(key, record);
  }
  [[nodiscard]] static std::uint64_t read_all(const Record &record) {
    std::uint64_t sum = 0, torn = 0;
    for (const auto &field : record.fields) {
      const std::uint64_t stamp = field[0];
      sum += stamp;
      for (const std::uint64_t word : field) torn |= word ^ stamp;
    }
    return torn == 0 ? sum >> 1 : kTorn;
  }
  trees::BPlusTree<std::uint64_t, Record, 4096, Allocator> index_;
};

}  // namespace tmh::bench
