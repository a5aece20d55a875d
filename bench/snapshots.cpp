// bench/snapshots.cpp -- snapshot isolation beside serializable updates, GCC's libitm and one lock:
// what writers and long readers do to each other.
// Shape:   --experiment bank: transfers beside sums of 1,000,000 accounts; list: lookups, inserts
//          and removals in a list of 250; reservations: small transactions beside scans of 1 to
//          100,000 rows; ycsb: workloads A and E on a B+-tree. snapshots_experiments.h
//          Each measurement runs for a fixed time, in processes of its own (snapshots_cell.h).
// Checked: every sum of the bank and every row and record that is read, while it is read; the
//          structures at the end; in a fixed number of steps all contestants find the same, which
//          the result hash is of.
// Limits:  libitm and the lock run in threads of one process, this library in processes. The
//          workers are two at most: the machines that this was written for have two processors.
// Source:  EXCITE-VM, section 6; figures 2, 7, 8, 9, 11 and 12.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/snapshots_experiments.h"
#include "bench/support/stats.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

const std::vector<std::string> kExperiments = {"bank", "list", "reservations", "ycsb"};
constexpr SnapshotContestant kContestants[] = {SnapshotContestant::kLock, SnapshotContestant::kItm,
                                               SnapshotContestant::kSerializable,
                                               SnapshotContestant::kSnapshot};
static_assert(std::size(kContestants) == static_cast<std::size_t>(SnapshotContestant::kSnapshot),
              "all but plain code, which takes part where one worker runs");

struct Options {
  CommonOptions common;
  std::vector<std::string> experiments = kExperiments;
  std::vector<std::string> contestants;  // empty: all
  std::size_t rounds = 3;
  double seconds = 1, warm_up_seconds = 0.2;
  std::uint64_t accounts = 1'000'000, elements = 250, rows = 131'072, records = 50'000;
  std::vector<unsigned> update_percents = {0, 20, 100};
  std::vector<std::uint64_t> scans = {1, 10, 100, 1'000, 10'000, 100'000};
};

bool wants(const std::vector<std::string> &names, const std::string &name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

Json parameters(const Options &options) {
  Json all;
  all["tiny"] = options.common.tiny;
  all["seed"] = options.common.seed;
  all["rounds"] = options.rounds;
  all["seconds"] = options.seconds;
  all["warm_up_seconds"] = options.warm_up_seconds;
  all["accounts"] = options.accounts;
  all["elements"] = options.elements;
  all["rows"] = options.rows;
  all["records"] = options.records;
  return all;
}

int run(Options options) {
  if (options.common.tiny) {
    options.rounds = 1;
    options.seconds = 0.005;
    options.warm_up_seconds = 0;
    options.accounts = 5'000;
    options.elements = 30;
    options.rows = 500;
    options.records = 300;
    options.update_percents = {20};
    options.scans = {1, 400};
  }
  TMH_ASSERT(options.rounds > 0 && options.seconds > 0);
  const ScratchFolder scratch(options.common.folder);
  Report report("snapshots", environment(scratch.path()), parameters(options));
  report.print_head();
  SnapshotPlan plan;
  for (const SnapshotContestant contestant : kContestants) {
    if (!wants(options.contestants, to_string(contestant))) continue;
    if (is_built(contestant))
      plan.contestants.push_back(contestant);
    else
      std::printf("%s: not built (needs g++ with -fgnu-tm, without sanitizers)\n",
                  to_string(contestant));
  }
  if (plan.contestants.empty()) return skipped("none of the contestants is built");
  ResultHash hash;
  plan.seed = options.common.seed;
  plan.rounds = options.rounds;
  plan.seconds = options.seconds;
  plan.warm_up_seconds = options.warm_up_seconds;
  plan.steps = options.common.tiny ? 300 : 5'000;
  plan.accounts = options.accounts;
  plan.elements = options.elements;
  plan.rows = options.rows;
  plan.records = options.records;
  plan.update_percents = options.update_percents;
  plan.scans = options.scans;
  plan.scratch = &scratch;
  plan.report = &report;
  plan.hash = &hash;
  if (wants(options.experiments, "bank")) run_bank(plan);
  if (wants(options.experiments, "list")) run_list(plan);
  if (wants(options.experiments, "reservations")) run_reservations(plan);
  if (wants(options.experiments, "ycsb")) run_ycsb(plan);
  std::printf("\nresult hash %s: in a fixed number of steps all contestants found the same\n",
              hex(hash.value()).c_str());
  report.note("result_hash", hex(hash.value()));
  report.write(options.common.csv, options.common.json);
  return 0;
}

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app(
      "Snapshot isolation beside serializable updates, GCC's libitm and one lock", "snapshots");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--experiment", options.experiments, "which of them")
      .delimiter(',')
      .check_one_of(tmh::bench::kExperiments);
  std::vector<std::string> contestants;
  for (const tmh::bench::SnapshotContestant contestant : tmh::bench::kContestants)
    contestants.emplace_back(to_string(contestant));
  app.add_option("--contestants", options.contestants, "who takes part; default all")
      .delimiter(',')
      .check_one_of(contestants);
  app.add_option("--rounds", options.rounds, "measurements of each row")
      .capture_default_str()
      .check_positive();
  app.add_option("--seconds", options.seconds, "of each measurement")
      .capture_default_str()
      .check_positive();
  app.add_option("--warm-up-seconds", options.warm_up_seconds, "before each measurement")
      .capture_default_str()
      .check_range<double>(0, 3600);
  app.add_option("--accounts", options.accounts, "bank: accounts of 8 bytes")
      .capture_default_str()
      .check_range(2, 1 << 28);
  app.add_option("--elements", options.elements, "list: keys in it at first")
      .capture_default_str()
      .check_range(1, 1 << 20);
  app.add_option("--update-percents", options.update_percents, "list: shares of updates")
      .capture_default_str()
      .delimiter(',')
      .check_range(0, 100);
  app.add_option("--rows", options.rows, "reservations: rows of each table")
      .capture_default_str()
      .check_range(10, 1 << 24);
  app.add_option("--scans", options.scans, "reservations: rows of a scan")
      .capture_default_str()
      .delimiter(',')
      .check_positive();
  app.add_option("--records", options.records, "ycsb: records at first")
      .capture_default_str()
      .check_range(10, 1 << 24);
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::run(options); });
}
