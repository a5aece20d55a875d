// bench/support/durable_compare.cpp -- contestants measured beside each other.
#include "bench/support/durable_compare.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "bench/support/stats.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

// The tuned set-up: who beats only an untuned opponent has shown nothing.
constexpr const char *kReference = "bdb-tuned";
constexpr const char *kFloorPrefix = "floor-";
constexpr const char *kOneFile = "-one-file";

void add_ratios(const CommitSeries &series, const CommitSeries *yardstick, const std::string &name,
                std::vector<std::string> *cells, Json *row) {
  TMH_ASSERT(cells != nullptr && row != nullptr);
  Summary median, rate;
  if (yardstick != nullptr) {
    median = summarize_ratio(series.medians_us, yardstick->medians_us);
    rate = summarize_ratio(series.commits_per_s, yardstick->commits_per_s);
    put(*row, "median_to_" + name, median);
    put(*row, "commits_per_s_to_" + name, rate);
  }
  cells->push_back(with_mad(median));
  cells->push_back(with_mad(rate));
}

}  // namespace

DurableComparison::DurableComparison(Contestants contestants, ComparisonPlan plan,
                                     const ScratchFolder *scratch)
    : contestants_(std::move(contestants)), plan_(std::move(plan)), scratch_(scratch) {
  TMH_ASSERT(scratch != nullptr && plan_.rounds > 0 && !plan_.processes.empty());
  std::erase_if(contestants_, [this](const auto &contestant) {
    if (!is_wanted(contestant->name())) return true;
    const std::string reason = contestant->why_unavailable(scratch_->path());
    if (!reason.empty())
      std::printf("unavailable: %s (%s)\n", contestant->name().c_str(), reason.c_str());
    return !reason.empty();
  });
  if (contestants_.empty()) throw std::runtime_error("nobody to compare: see --only");
  for (const unsigned processes : plan_.processes) {
    expected_hash_[processes] = expected_hash(plan_.workload, processes);
    hash_.add(expected_hash_[processes]);
  }
}

void DurableComparison::print_notes() const {
  for (const auto &contestant : contestants_) {
    if (!contestant->note().empty())
      std::printf("%s: %s\n", contestant->name().c_str(), contestant->note().c_str());
  }
}

bool DurableComparison::is_wanted(const std::string &name) const {
  return plan_.only.empty() ||
         std::any_of(plan_.only.begin(), plan_.only.end(),
                     [&](const std::string &start) { return name.starts_with(start); });
}

void DurableComparison::run() {
  for (std::size_t round = 0; round < plan_.rounds; ++round) {
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
      // An odd step: neighbours are not the same ones in every round.
      Contestant *contestant = contestants_[(i + round * 5) % contestants_.size()].get();
      for (const unsigned processes : plan_.processes) {
        if (contestant->runs_with(processes)) run_once(contestant, processes);
      }
    }
  }
}

void DurableComparison::run_once(Contestant *contestant, unsigned processes) {
  TMH_ASSERT(contestant != nullptr && contestant->runs_with(processes));
  const std::string folder =
      scratch_->subfolder(contestant->name() + "-" + std::to_string(measured_++));
  const Measurement measurement = measure(contestant, plan_.workload, processes, folder);
  std::filesystem::remove_all(folder);
  if (contestant->keeps_records() && measurement.content_hash != expected_hash_[processes]) {
    throw std::runtime_error(contestant->name() + ": the store does not hold what was committed");
  }
  CommitSeries &series = series_[{contestant->name(), processes}];
  series.latencies_us.insert(series.latencies_us.end(), measurement.latencies_us.begin(),
                             measurement.latencies_us.end());
  series.medians_us.push_back(summarize(measurement.latencies_us).median);
  series.commits_per_s.push_back(measurement.commits_per_s());
  series.log_bytes.push_back(measurement.log_bytes_per_commit);
  series.device_bytes.push_back(measurement.device_bytes_per_commit);
  series.retries += measurement.retries;
}

const CommitSeries *DurableComparison::find(const std::string &name, unsigned processes) const {
  const auto found = series_.find({name, processes});
  return found == series_.end() ? nullptr : &found->second;
}

// The floor method with the best median, a file per process; empty when none was run.
std::string DurableComparison::best_floor(unsigned processes) const {
  std::string best;
  double best_us = 0;
  for (const auto &[key, series] : series_) {
    if (key.second != processes || !key.first.starts_with(kFloorPrefix) ||
        key.first.ends_with(kOneFile))
      continue;
    // These two do more than the kernel's calls.
    if (key.first == "floor-checksum" || key.first == "floor-two-syncs") continue;
    const double us = summarize(series.medians_us).median;
    if (!best.empty() && us >= best_us) continue;
    best = key.first;
    best_us = us;
  }
  return best;
}

void DurableComparison::add_row(const Contestant &contestant, const CommitSeries &series,
                                const Yardsticks &yardsticks, unsigned processes, Table *table,
                                Report *report) const {
  TMH_ASSERT(table != nullptr && report != nullptr && !series.medians_us.empty());
  TMH_ASSERT(series.medians_us.size() == series.commits_per_s.size());
  const Summary median = summarize(series.medians_us), rate = summarize(series.commits_per_s);
  const double log_bytes = summarize(series.log_bytes).median,
               device_bytes = summarize(series.device_bytes).median;
  const double p99 = quantile(series.latencies_us, 0.99),
               p999 = quantile(series.latencies_us, 0.999);
  const double retries =
      static_cast<double>(series.retries) / static_cast<double>(series.latencies_us.size());
  const bool is_floor = &series == yardsticks.floor,
             has_log = contestant.counts_log() != CountsLog::kNo;
  Json row;
  row["contestant"] = contestant.name();
  row["processes"] = processes;
  row["durability_note"] = contestant.note();
  row["is_floor"] = is_floor;
  row["us_mean"] = mean(series.latencies_us);
  put(row, "us", median);
  row["us_p99"] = p99;
  row["us_p999"] = p999;
  row["us_longest"] = quantile(series.latencies_us, 1);
  put(row, "commits_per_s", rate);
  if (has_log) row["log_bytes_per_commit"] = log_bytes;
  row["device_bytes_per_commit"] = device_bytes;
  row["retries_per_commit"] = retries;
  const std::string mark = is_floor ? " (the floor)" : contestant.note().empty() ? "" : " (!)";
  std::vector<std::string> cells = {contestant.name() + mark,
                                    number(mean(series.latencies_us)),
                                    with_mad(median),
                                    number(p99),
                                    number(p999),
                                    with_mad(rate),
                                    has_log ? number(log_bytes) : "-",
                                    number(device_bytes),
                                    number(retries)};
  add_ratios(series, yardsticks.floor, "floor", &cells, &row);
  add_ratios(series, yardsticks.reference, "bdb", &cells, &row);
  table->add(std::move(cells));
  report->add("commit", std::move(row));
  add_kth_rows(contestant, series, processes, report);
}

void DurableComparison::add_kth_rows(const Contestant &contestant, const CommitSeries &series,
                                     unsigned processes, Report *report) const {
  if (plan_.kth_most.empty()) return;
  std::vector<double> descending = series.latencies_us;
  std::sort(descending.begin(), descending.end(), std::greater<>());
  for (const unsigned k : plan_.kth_most) {
    TMH_ASSERT(k > 0);
    if (k > descending.size()) return;
    report->add("kth", Json{{"contestant", contestant.name()},
                            {"processes", processes},
                            {"k", k},
                            {"us", descending[k - 1]}});
  }
}

void DurableComparison::print(Report *report) const {
  TMH_ASSERT(report != nullptr);
  for (const unsigned processes : plan_.processes) {
    const Yardsticks yardsticks{find(best_floor(processes), processes),
                                find(kReference, processes)};
    Table table({"contestant", "mean us", "median us", "p99", "p99.9", "commits/s", "log B",
                 "device B", "retries", "/floor: median", "commits/s", "/BDB: median",
                 "commits/s"});
    for (const auto &contestant : contestants_) {
      const CommitSeries *series = find(contestant->name(), processes);
      if (series != nullptr) add_row(*contestant, *series, yardsticks, processes, &table, report);
    }
    std::printf("\n%u %s: latency of a commit, us; median ±MAD %% of %zu rounds%s\n", processes,
                processes == 1 ? "process" : "processes", plan_.rounds,
                plan_.tiny ? " (tiny inputs: says nothing about speed)" : "");
    table.print();
  }
}

}  // namespace tmh::bench
