// bench/support/durable_compare.h -- contestants measured beside each other, round by round, and
// the table of what they cost.
// Shape:   in a round every contestant runs once with every number of processes, in a fresh folder;
//          the order rotates. The floor method with the best median is "the floor" of the ratios;
//          each number of processes has its own, a file per process.
// Checked: every store ends with exactly the records that were committed; all have the same hash.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/durable_run.h"
#include "bench/support/options.h"
#include "bench/support/report.h"

namespace tmh::bench {

// What all rounds of one contestant with one number of processes came to.
struct CommitSeries {
  std::vector<double> latencies_us;  // of all rounds
  std::vector<double> medians_us, commits_per_s, log_bytes, device_bytes;
  std::uint64_t retries = 0;
};

struct ComparisonPlan {
  Workload workload;
  std::size_t rounds = 1;
  std::vector<unsigned> processes;
  std::vector<std::string> only;  // beginnings of names; empty: everybody
  // Adds rows of section "kth": the k-th most expensive commit; thesis, figure 5-3.
  std::vector<unsigned> kth_most;
  bool tiny = false;
};

class DurableComparison {
 public:
  // Prints who cannot take part in `scratch`, and why. Throws std::runtime_error when nobody is
  // left.
  DurableComparison(Contestants contestants, ComparisonPlan plan, const ScratchFolder *scratch);
  // Where durability differs, a line each.
  void print_notes() const;
  // Throws std::runtime_error when a store does not hold what was committed.
  void run();
  // A table for each number of processes; rows of section "commit".
  void print(Report *report) const;
  [[nodiscard]] std::uint64_t result_hash() const noexcept { return hash_.value(); }

 private:
  struct Yardsticks {  // what the others are divided by; null where it was not measured
    const CommitSeries *floor = nullptr, *reference = nullptr;
  };
  [[nodiscard]] bool is_wanted(const std::string &name) const;
  void run_once(Contestant *contestant, unsigned processes);
  [[nodiscard]] const CommitSeries *find(const std::string &name, unsigned processes) const;
  [[nodiscard]] std::string best_floor(unsigned processes) const;
  void add_row(const Contestant &contestant, const CommitSeries &series,
               const Yardsticks &yardsticks, unsigned processes, Table *table,
               Report *report) const;
  void add_kth_rows(const Contestant &contestant, const CommitSeries &series, unsigned processes,
                    Report *report) const;

  Contestants contestants_;
  ComparisonPlan plan_;
  const ScratchFolder *scratch_;
  std::map<unsigned, std::uint64_t> expected_hash_;
  std::map<std::pair<std::string, unsigned>, CommitSeries> series_;
  ResultHash hash_;
  std::uint64_t measured_ = 0;
};

}  // namespace tmh::bench
