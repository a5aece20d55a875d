// bench/durable_commit.cpp -- what a durable commit costs: this library, Berkeley DB, LMDB, SQLite, and the kernel alone.
// Shape:   each transaction inserts one record (8-byte random key, 512-byte value) into one ordered map and is durable when
//          it returns; 1, 2 and 4 processes share the map. All write to the same file system. In a round every contestant
//          runs once with every number of processes, in a fresh folder; the order rotates. Set-ups: bench/support/durable_*.
//          Floor: kernel calls that make as many bytes durable as one of our transactions logs (--floor-bytes). The method
//          with the best median is "the floor" of the ratios; each number of processes has its own, a file per process.
// Checked: every store ends with exactly the records that were committed; all have the same hash.
// Source:  <papers/memory-mapped-transactions>, section 5.4 (its opponent and set-up: C.6).
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/support/durable_run.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/team.h"

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  std::uint64_t inserts = 2'000;  // of all processes together; times 5 rounds: ten of them lie above p99.9
  std::uint64_t loaded = 2'000;   // the tree has inner nodes, and SQLite's WAL has been around once
  std::uint64_t warm_up = 20;
  std::uint64_t floor_bytes = 800;  // a record, its tree node and its neighbours' links, with headers
  std::vector<unsigned> processes = {1, 2, 4};
  std::vector<std::string> only;  // beginnings of names
};

// The tuned set-up: who beats only an untuned opponent has shown nothing.
constexpr const char *kReference = "bdb-tuned";
constexpr const char *kFloorPrefix = "floor-";
constexpr const char *kOneFile = "-one-file";

// What all rounds of one contestant with one number of processes came to.
struct Series {
  std::vector<double> latencies_us;  // of all rounds
  std::vector<double> medians_us, commits_per_s, log_bytes, device_bytes;
  std::uint64_t retries = 0;
};

class DurableCommit {
 public:
  explicit DurableCommit(Options options) : options_(std::move(options)), scratch_(options_.common.folder) {
    if (options_.common.tiny) {
      options_.rounds = 1;
      options_.inserts = 24;
      options_.loaded = 20;
      options_.warm_up = 2;
      options_.processes = {1, 2};
    }
    workload_ = {options_.common.seed, options_.loaded, options_.warm_up, options_.inserts};
    contestants_ = make_contestants(options_.floor_bytes, &not_built_);
    std::erase_if(contestants_, [this](const auto &contestant) {
      if (!is_wanted(contestant->name())) return true;
      const std::string reason = contestant->why_unavailable(scratch_.path());
      if (!reason.empty()) std::printf("unavailable: %s (%s)\n", contestant->name().c_str(), reason.c_str());
      return !reason.empty();
    });
  }

  int run() {
    if (contestants_.empty()) throw std::runtime_error("nobody to compare: see --only");
    Report report("durable_commit", environment(scratch_.path()), parameters());
    report.print_head();
    for (const std::string &name : not_built_) std::printf("not built: %s\n", name.c_str());
    for (const auto &contestant : contestants_) {
      if (!contestant->note().empty()) std::printf("%s: %s\n", contestant->name().c_str(), contestant->note().c_str());
    }
    if (environment(scratch_.path())["file_system"] == "tmpfs") {
      std::printf("NOTE: the scratch folder lies on tmpfs, where nothing is durable; choose another by --dir\n");
    }
    std::fflush(stdout);
    for (const unsigned processes : options_.processes) {
      expected_hash_[processes] = expected_hash(workload_, processes);
      hash_.add(expected_hash_[processes]);
    }
    for (std::size_t round = 0; round < options_.rounds; ++round) run_round(round);
    for (const unsigned processes : options_.processes) print_table(processes, &report);
    std::printf("\nresult hash %s, every store holds exactly what was committed\n", hex(hash_.value()).c_str());
    report.note("result_hash", hex(hash_.value()));
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  [[nodiscard]] bool is_wanted(const std::string &name) const {
    return options_.only.empty() || std::any_of(options_.only.begin(), options_.only.end(),
                                                [&](const std::string &start) { return name.starts_with(start); });
  }

  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["seed"] = options_.common.seed;
    all["rounds"] = options_.rounds;
    all["inserts"] = options_.inserts;
    all["loaded"] = options_.loaded;
    all["warm_up"] = options_.warm_up;
    all["floor_bytes"] = options_.floor_bytes;
    all["value_bytes"] = kValueBytes;
    std::string names;
    for (const std::string &name : not_built_) names += (names.empty() ? "" : "; ") + name;
    all["not_built"] = names;
    return all;
  }

  void run_round(std::size_t round) {
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
      // An odd step: neighbours are not the same ones in every round.
      Contestant *contestant = contestants_[(i + round * 5) % contestants_.size()].get();
      for (const unsigned processes : options_.processes) {
        if (!contestant->runs_with(processes)) continue;
        run_once(contestant, processes);
      }
    }
  }

  void run_once(Contestant *contestant, unsigned processes) {
    const std::string folder = scratch_.subfolder(contestant->name() + "-" + std::to_string(measured_++));
    const Measurement measurement = measure(contestant, workload_, processes, folder);
    std::filesystem::remove_all(folder);
    if (contestant->keeps_records() && measurement.content_hash != expected_hash_[processes]) {
      throw std::runtime_error(contestant->name() + ": the store does not hold what was committed");
    }
    Series &series = series_[{contestant->name(), processes}];
    series.latencies_us.insert(series.latencies_us.end(), measurement.latencies_us.begin(),
                               measurement.latencies_us.end());
    series.medians_us.push_back(summarize(measurement.latencies_us).median);
    series.commits_per_s.push_back(measurement.commits_per_s());
    series.log_bytes.push_back(measurement.log_bytes_per_commit);
    series.device_bytes.push_back(measurement.device_bytes_per_commit);
    series.retries += measurement.retries;
  }

  [[nodiscard]] const Series *find(const std::string &name, unsigned processes) const {
    const auto found = series_.find({name, processes});
    return found == series_.end() ? nullptr : &found->second;
  }

  // The floor method with the best median, a file per process; empty when none was run.
  [[nodiscard]] std::string best_floor(unsigned processes) const {
    std::string best;
    double best_us = 0;
    for (const auto &[key, series] : series_) {
      if (key.second != processes || !key.first.starts_with(kFloorPrefix) || key.first.ends_with(kOneFile)) continue;
      const double us = summarize(series.medians_us).median;
      if (!best.empty() && us >= best_us) continue;
      best = key.first;
      best_us = us;
    }
    return best;
  }

  // What the others are divided by; null where it was not measured.
  struct Yardsticks {
    const Series *floor = nullptr, *reference = nullptr;
  };

  static void add_ratios(const Series &series, const Series *yardstick, const std::string &name,
                         std::vector<std::string> *cells, Json *row) {
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

  static void add_row(const Contestant &contestant, const Series &series, const Yardsticks &yardsticks,
                      unsigned processes, Table *table, Report *report) {
    const Summary median = summarize(series.medians_us), rate = summarize(series.commits_per_s);
    const double log_bytes = summarize(series.log_bytes).median, device_bytes = summarize(series.device_bytes).median;
    const double p99 = quantile(series.latencies_us, 0.99), p999 = quantile(series.latencies_us, 0.999);
    const double retries = static_cast<double>(series.retries) / static_cast<double>(series.latencies_us.size());
    const bool is_floor = &series == yardsticks.floor, has_log = contestant.counts_log() != CountsLog::kNo;
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
    std::vector<std::string> cells = {
        contestant.name() + mark, number(mean(series.latencies_us)), with_mad(median),     number(p99),    number(p999),
        with_mad(rate),           has_log ? number(log_bytes) : "-", number(device_bytes), number(retries)};
    add_ratios(series, yardsticks.floor, "floor", &cells, &row);
    add_ratios(series, yardsticks.reference, "bdb", &cells, &row);
    table->add(std::move(cells));
    report->add("commit", std::move(row));
  }

  void print_table(unsigned processes, Report *report) const {
    const Yardsticks yardsticks{find(best_floor(processes), processes), find(kReference, processes)};
    Table table({"contestant", "mean us", "median us", "p99", "p99.9", "commits/s", "log B", "device B", "retries",
                 "/floor: median", "commits/s", "/BDB: median", "commits/s"});
    for (const auto &contestant : contestants_) {
      const Series *series = find(contestant->name(), processes);
      if (series != nullptr) add_row(*contestant, *series, yardsticks, processes, &table, report);
    }
    std::printf("\n%u %s: latency of a commit, us; median ±MAD %% of %zu rounds%s\n", processes,
                processes == 1 ? "process" : "processes", options_.rounds,
                options_.common.tiny ? " (tiny inputs: says nothing about speed)" : "");
    table.print();
  }

  Options options_;
  ScratchFolder scratch_;
  Workload workload_;
  Contestants contestants_;
  std::vector<std::string> not_built_;
  std::map<unsigned, std::uint64_t> expected_hash_;
  std::map<std::pair<std::string, unsigned>, Series> series_;
  ResultHash hash_;
  std::uint64_t measured_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  CLI::App app("Durable commits: this library, Berkeley DB, LMDB, SQLite, and the kernel calls alone",
               "durable_commit");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--inserts", options.inserts, "timed commits of all processes together")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{tmh::bench::kTeamMembersMax}, std::uint64_t{1} << 24));
  app.add_option("--loaded", options.loaded, "records in the store before")->capture_default_str();
  app.add_option("--warm-up", options.warm_up, "commits of each process before the clock starts")
      ->capture_default_str();
  app.add_option("--floor-bytes", options.floor_bytes, "bytes that the floor makes durable per commit")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--processes", options.processes, "numbers of processes")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::Range(1U, tmh::bench::kTeamMembersMax));
  app.add_option("--only", options.only, "contestants whose names begin like this, e.g. floor,bdb-tuned,tmh")
      ->delimiter(',');
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::DurableCommit(options).run(); });
}
