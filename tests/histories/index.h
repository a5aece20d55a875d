// tests/histories/index.h -- a history made searchable: who wrote a value, which version replaced
//                          which, and every fault that shows without a graph.
// Shape:     one Footprint per instance of the history, at the same index.
#pragma once

#include <cstddef>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/histories/checker.h"
#include "tests/histories/history.h"

namespace tmh::history {

struct ReadVersion {
  Cell cell = 0;
  Value value = 0;
};

struct WrittenVersion {
  Cell cell = 0;
  Value value = 0;     // the last one the instance wrote to the cell
  Value replaced = 0;  // the version that it had read there
};

// What an instance had to do with others: its first read of each cell, its last write of each cell.
struct Footprint {
  std::vector<ReadVersion> reads;  // without reads of its own writes
  std::vector<WrittenVersion> writes;
  bool committed = false;  // its writes are part of the serial order
};

class Index {
 public:
  explicit Index(const History &history) : history_(history) {}

  // Fills everything below; false when it found faults (then the version order is not known and
  // there is no graph).
  [[nodiscard]] bool build(std::vector<Violation> *violations);

  // "instance" that wrote the initial values
  static constexpr std::size_t kInitial = static_cast<std::size_t>(-1);

  [[nodiscard]] const History &history() const noexcept { return history_; }
  [[nodiscard]] const Footprint &footprint(std::size_t instance) const {
    return footprints_[instance];
  }
  [[nodiscard]] std::size_t writer(const ReadVersion &version) const;
  // The committed instance that replaced `version`, kInitial when it is still current.
  [[nodiscard]] std::size_t successor(const ReadVersion &version) const;

 private:
  struct Writer {
    std::size_t instance = 0;
    Cell cell = 0;
    bool last = false;  // no later write of the same instance to the cell
  };

  void scan(std::size_t instance);
  void scan_write(std::size_t instance, const Operation &operation, std::map<Cell, Value> *own);
  void decide_unknown();
  void check_reads(std::size_t instance);
  void link_versions(std::size_t instance);
  void report_fork(const WrittenVersion &version, std::size_t first, std::size_t second);
  void report(Fault fault, std::vector<std::size_t> instances, Cell cell, const std::string &text);
  [[nodiscard]] Value initial_value(Cell cell) const;

  const History &history_;
  std::vector<Footprint> footprints_;
  std::unordered_map<Value, Writer> writers_;
  std::unordered_map<Value, bool> seen_;  // values that another instance than the writer read
  std::map<std::pair<Cell, Value>, std::size_t> successors_;
  std::vector<Violation> *violations_ = nullptr;
};

}  // namespace tmh::history
