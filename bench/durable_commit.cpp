// bench/durable_commit.cpp -- what a durable commit costs: this library, Berkeley DB, LMDB, SQLite,
// and the kernel alone.
// Shape:   each transaction inserts one record (8-byte random key, 512-byte value) into one ordered
//          map and is durable when it returns; 1, 2 and 4 processes share the map. All write to the
//          same file system. In a round every contestant runs once with every number of processes,
//          in a fresh folder; the order rotates. Set-ups: bench/support/durable_*.
//          Floor: kernel calls that make as many bytes durable as one of our transactions logs
//          (--floor-bytes). The method with the best median is "the floor" of the ratios; each
//          number of processes has its own, a file per process.
// Checked: every store ends with exactly the records that were committed; all have the same hash.
// Source:  thesis, section 5.4 (its opponent and set-up: C.6).
#include <cstdio>
#include <string>
#include <vector>

#include "bench/support/durable_compare.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

static_assert(kValueBytes == 512, "as in the thesis");

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  // Of all processes together; times 5 rounds: ten of them lie above p99.9.
  std::uint64_t inserts = 2'000;
  std::uint64_t loaded = 2'000;  // the tree has inner nodes, and SQLite's WAL has been around once
  std::uint64_t warm_up = 20;
  // A record, its tree node and its neighbours' links, with headers.
  std::uint64_t floor_bytes = 800;
  std::vector<unsigned> processes = {1, 2, 4};
  std::vector<std::string> only;  // beginnings of names
};

[[nodiscard]] Json parameters(const Options &options, const std::vector<std::string> &not_built) {
  Json all;
  all["tiny"] = options.common.tiny;
  all["seed"] = options.common.seed;
  all["rounds"] = options.rounds;
  all["inserts"] = options.inserts;
  all["loaded"] = options.loaded;
  all["warm_up"] = options.warm_up;
  all["floor_bytes"] = options.floor_bytes;
  all["value_bytes"] = kValueBytes;
  std::string names;
  for (const std::string &name : not_built) names += (names.empty() ? "" : "; ") + name;
  all["not_built"] = names;
  return all;
}

int run(Options options) {
  if (options.common.tiny) {
    options.rounds = 1;
    options.inserts = 24;
    options.loaded = 20;
    options.warm_up = 2;
    options.processes = {1, 2};
  }
  TMH_ASSERT(options.rounds > 0 && !options.processes.empty() && options.floor_bytes > 0);
  const ScratchFolder scratch(options.common.folder);
  ComparisonPlan plan;
  plan.workload = {options.common.seed, options.loaded, options.warm_up, options.inserts};
  plan.rounds = options.rounds;
  plan.processes = options.processes;
  plan.only = options.only;
  plan.tiny = options.common.tiny;
  std::vector<std::string> not_built;
  DurableComparison comparison(make_contestants(options.floor_bytes, &not_built), plan, &scratch);

  Json environment_of_run = environment(scratch.path());
  Report report("durable_commit", environment_of_run, parameters(options, not_built));
  report.print_head();
  for (const std::string &name : not_built) std::printf("not built: %s\n", name.c_str());
  comparison.print_notes();
  if (environment_of_run["file_system"] == "tmpfs") {
    std::printf(
        "NOTE: the scratch folder lies on tmpfs, where nothing is durable; choose another by "
        "--dir\n");
  }
  std::fflush(stdout);
  comparison.run();
  comparison.print(&report);
  std::printf("\nresult hash %s, every store holds exactly what was committed\n",
              hex(comparison.result_hash()).c_str());
  report.note("result_hash", hex(comparison.result_hash()));
  report.write(options.common.csv, options.common.json);
  return 0;
}

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app(
      "Durable commits: this library, Berkeley DB, LMDB, SQLite, and the kernel calls alone",
      "durable_commit");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str()
      .check_positive();
  app.add_option("--inserts", options.inserts, "timed commits of all processes together")
      .capture_default_str()
      .check_range(tmh::bench::kTeamMembersMax, std::uint64_t{1} << 24);
  app.add_option("--loaded", options.loaded, "records in the store before").capture_default_str();
  app.add_option("--warm-up", options.warm_up, "commits of each process before the clock starts")
      .capture_default_str();
  app.add_option("--floor-bytes", options.floor_bytes,
                 "bytes that the floor makes durable per commit")
      .capture_default_str()
      .check_positive();
  app.add_option("--processes", options.processes, "numbers of processes")
      .capture_default_str()
      .delimiter(',')
      .check_range(1, tmh::bench::kTeamMembersMax);
  app.add_option("--only", options.only,
                 "contestants whose names begin like this, e.g. floor,bdb-tuned,tmh")
      .delimiter(',');
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::run(options); });
}
