// bench/trees.cpp -- search trees: ours as serial code, on the thesis's mechanism and on this
// library, beside Berkeley DB, LMDB and SQLite.
// Shape:   --experiment insert: 8-byte random keys with 512 bytes, each insert a transaction,
//          durable or not, several processes in one tree: latencies, commits/s, log bytes, aborts;
//          the k-th most expensive insert. durable_compare.h
//          static, dynamic, in-order, transfers: see trees_experiments.h: searches that miss
//          memory, block sizes, inserts in order, block transfers
// Checked: every tree and store ends with exactly what was inserted.
// Source:  thesis, sections 5.2, 5.4, C.6, 6.1; tables 5.1 to 5.3,
//          5.5, 5.6, C.11, C.12, figure 5-3.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/support/durable_compare.h"
#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/team.h"
#include "bench/support/trees_experiments.h"
#include "bench/support/trees_serial.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

const std::vector<std::string> kExperiments = {"insert", "static", "dynamic", "in-order",
                                               "transfers"};

struct Options {
  CommonOptions common;
  std::vector<std::string> experiments = kExperiments;
  std::vector<std::string> trees;      // of ours and the thesis's: bptree, cobtree; empty: both
  std::vector<std::string> opponents;  // beginnings of names; empty: all
  std::string durable = "both";
  std::vector<unsigned> processes = {1, 2};
  std::size_t rounds = 1;
  std::uint64_t inserts = 20'000, durable_inserts = 2'000;
  std::size_t block_bytes = kPageBytes;
  std::uint64_t floor_bytes = 800;
  std::uint64_t records = 50'000, searches = 1'000;
  std::uint64_t memory_mib = 32;
};

// Ranks of figure 5-3, on a logarithmic axis.
const std::vector<unsigned> kRanks = {
    1,     2,     3,     5,     10,     20,     30,     50,     100,     200,     300,    500,
    1'000, 2'000, 3'000, 5'000, 10'000, 20'000, 30'000, 50'000, 100'000, 200'000, 250'000};

Json parameters(const Options &options, const std::vector<std::string> &not_built) {
  const auto joined = [](const std::vector<std::string> &names) {
    std::string all;
    for (const std::string &name : names) all += (all.empty() ? "" : ";") + name;
    return all;
  };
  Json all;
  all["tiny"] = options.common.tiny;
  all["seed"] = options.common.seed;
  all["experiments"] = joined(options.experiments);
  all["rounds"] = options.rounds;
  all["inserts"] = options.inserts;
  all["durable_inserts"] = options.durable_inserts;
  all["block_bytes"] = options.block_bytes;
  all["floor_bytes"] = options.floor_bytes;
  all["records_of_experiments"] = options.records;
  all["searches"] = options.searches;
  all["memory_mib"] = options.memory_mib;
  all["value_bytes"] = kValueBytes;
  all["not_built"] = joined(not_built);
  return all;
}

bool wants(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Who takes part, in the order of the tables.
Contestants contestants_of(const Options &options, Durability durability,
                           std::vector<std::string> *not_built) {
  TMH_ASSERT(not_built != nullptr);
  Contestants all;
  if (durability != Durability::kNone) add_floor(&all, options.floor_bytes);
  add_opponents(&all, durability, not_built);
  std::erase_if(all, [&](const auto &opponent) {
    return !options.opponents.empty() &&
           std::none_of(
               options.opponents.begin(), options.opponents.end(),
               [&](const std::string &start) { return opponent->name().starts_with(start); });
  });
  Contestants trees;
  add_thesis_trees(&trees, durability);
  add_tmh_trees(&trees, durability, options.block_bytes);
  for (auto &tree : trees) {
    const bool is_wanted =
        options.trees.empty() ||
        std::any_of(options.trees.begin(), options.trees.end(),
                    [&](const std::string &end) { return tree->name().ends_with("-" + end); });
    if (is_wanted) all.push_back(std::move(tree));
  }
  return all;
}

void run_inserts(const Options &options, Durability durability, const ScratchFolder &scratch,
                 Report *report, ResultHash *hash) {
  TMH_ASSERT(report != nullptr && hash != nullptr);
  TMH_ASSERT(std::ranges::is_sorted(kRanks) && kRanks.front() > 0);
  const bool is_durable = durability != Durability::kNone;
  ComparisonPlan plan;
  plan.workload = {options.common.seed, 0, 0,
                   is_durable ? options.durable_inserts : options.inserts};
  plan.rounds = options.rounds;
  plan.processes = options.processes;
  plan.kth_most = kRanks;
  plan.tiny = options.common.tiny;
  std::printf("\n%s inserts into an empty tree, %llu (thesis, %s)\n",
              is_durable ? "Durable" : "Nondurable",
              static_cast<unsigned long long>(plan.workload.inserts),
              is_durable ? "tables 5.5 and 5.6, figure 5-3" : "table C.11");
  std::vector<std::string> not_built;
  DurableComparison comparison(contestants_of(options, durability, &not_built), plan, &scratch);
  comparison.run();
  comparison.print(report);
  hash->add(comparison.result_hash());
}

int run(Options options) {
  if (options.common.tiny) {
    options.inserts = 200;
    options.durable_inserts = 24;
    options.records = 1'000;
    options.searches = 50;
    options.memory_mib = 16;
  }
  const ScratchFolder scratch(options.common.folder);
  std::vector<std::string> not_built;
  Contestants unused;
  add_opponents(&unused, Durability::kNone, &not_built);
  Report report("trees", environment(scratch.path()), parameters(options, not_built));
  report.print_head();
  for (const std::string &name : not_built) std::printf("not built: %s\n", name.c_str());
  if (environment(scratch.path())["file_system"] == "tmpfs") {
    std::printf(
        "NOTE: the scratch folder lies on tmpfs, where nothing is durable; choose another by "
        "--dir\n");
  }

  ResultHash hash;
  if (wants(options.experiments, "insert")) {
    if (options.durable != "no") run_inserts(options, Durability::kStrict, scratch, &report, &hash);
    if (options.durable != "yes") run_inserts(options, Durability::kNone, scratch, &report, &hash);
  }
  const TreeExperiment experiment{options.common.seed,      options.records, options.searches,
                                  options.memory_mib << 20, &scratch,        &report};
  if (wants(options.experiments, "static")) run_static(experiment);
  if (wants(options.experiments, "dynamic")) run_dynamic(experiment);
  if (wants(options.experiments, "in-order")) run_in_order(experiment);
  if (wants(options.experiments, "transfers")) run_transfers(experiment);
  std::printf("\nresult hash %s, every tree and store holds exactly what was inserted\n",
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
      "Search trees: serial, on the thesis's mechanism, on this library; Berkeley DB, LMDB, SQLite",
      "trees");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--experiment", options.experiments, "which of them")
      .delimiter(',')
      .check_one_of(tmh::bench::kExperiments);
  app.add_option("--tree", options.trees,
                 "of ours and on the thesis's mechanism: bptree, cobtree; default both")
      .delimiter(',')
      .check_one_of({"bptree", "cobtree"});
  app.add_option("--opponents", options.opponents,
                 "those whose names begin like this, e.g. floor,bdb-tuned; default all")
      .delimiter(',');
  app.add_option("--durable", options.durable, "inserts that are durable: yes, no, both")
      .capture_default_str()
      .check_one_of({"yes", "no", "both"});
  app.add_option("--processes", options.processes, "numbers of processes")
      .capture_default_str()
      .delimiter(',')
      .check_range(1, tmh::bench::kTeamMembersMax);
  app.add_option("--rounds", options.rounds, "how often the inserts are measured")
      .capture_default_str()
      .check_positive();
  constexpr std::uint64_t inserts_min = tmh::bench::kTeamMembersMax,
                          inserts_max = std::uint64_t{1} << 24;
  app.add_option("--inserts", options.inserts, "nondurable inserts of all processes together")
      .capture_default_str()
      .check_range(inserts_min, inserts_max);
  app.add_option("--durable-inserts", options.durable_inserts,
                 "durable inserts of all processes together")
      .capture_default_str()
      .check_range(inserts_min, inserts_max);
  std::vector<std::string> block_sizes;
  for (const std::size_t bytes : tmh::bench::tree_block_sizes())
    block_sizes.push_back(std::to_string(bytes));
  app.add_option("--block", options.block_bytes, "bytes of a block of our B+-tree")
      .capture_default_str()
      .check_one_of(block_sizes);
  app.add_option("--floor-bytes", options.floor_bytes,
                 "bytes that the floor makes durable per insert")
      .capture_default_str()
      .check_positive();
  app.add_option("--records", options.records, "records in the trees of the other experiments")
      .capture_default_str()
      .check_positive();
  app.add_option("--searches", options.searches, "searches of the other experiments")
      .capture_default_str()
      .check_positive();
  app.add_option("--memory-mib", options.memory_mib,
                 "static: memory that the searching process may use")
      .capture_default_str()
      .check_range(8, 1 << 20);
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::run(options); });
}
