// bench/sets.cpp -- sets through the public interface (a site, tmh::field, tmh::pools) beside plain
// serial code, GCC's libitm and, where they were given to CMake, TinySTM and 2PLSF: hash set,
// sorted list, red-black tree, B+-tree, skip list; 100, 20 and 0 % updates; threads and processes.
// Shape:   sets_work.h says what an operation is. A round runs every contestant on every row once,
//          next to each other and in rotating order; ratios are taken within a round. Sections:
//          sets; own-nodes (each thread keeps the nodes that it has removed); aligned (nodes of 128
//          bytes' alignment); range (one thread updates, another one sums); processes (this library
//          alone).
// Checked: structure and content at the end of every run; with one thread all contestants find as
//          many keys.
// Limits:  the others run in threads of one process. TinySTM, libitm and 2PLSF take nodes from
//          their own malloc(), which aligns to 16 bytes.
// Source:  2PLSF (structures and mixes).
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/sets_work.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Structure {
  const char *name;
  SetKind kind;
  std::uint64_t elements, elements_tiny;
  std::uint64_t operations;  // of each thread: some 50 ms
};
constexpr Structure kStructures[] = {{"hash", SetKind::kHash, 10'000, 64, 400'000},
                                     {"list", SetKind::kList, 1'000, 32, 15'000},
                                     {"tree", SetKind::kTree, 100'000, 64, 80'000},
                                     {"btree", SetKind::kBTree, 100'000, 64, 80'000},
                                     {"skip", SetKind::kSkip, 100'000, 64, 60'000}};
static_assert(std::ranges::all_of(kStructures, [](const Structure &structure) {
  return structure.elements_tiny > 0 && structure.elements_tiny <= structure.elements;
}));
constexpr unsigned kUpdatePercents[] = {100, 20, 0};
static_assert(std::ranges::max(kUpdatePercents) <= 100);

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  double scale = 1;               // of the operations
  std::vector<std::string> only;  // structures; empty: all
  std::vector<std::string> sections = {"sets", "own-nodes", "aligned", "range", "processes"};
  std::vector<std::uint64_t> threads = {1, 2};
};

struct Row {
  std::string section;
  const Structure *structure;
  unsigned update_percent, threads;
  friend auto operator<=>(const Row &, const Row &) = default;
};
struct Samples {
  std::vector<double> rate, ranges;
  std::uint64_t page_commits = 0;
};

class SetsBench {
 public:
  explicit SetsBench(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (options_.common.tiny) options_.rounds = 1;
  }

  int run() {
    Report report("sets", environment(scratch_.path()), parameters());
    report.print_head();
    // Before this process has mapped a set.
    if (is_asked_for("processes"))
      for (std::size_t round = 0; round <= options_.rounds; ++round) measure_processes(round > 0);
    make_contestants();
    for (std::size_t round = 0; round <= options_.rounds; ++round)  // round 0 warms up
      for (const Row &row : rows())
        for (std::size_t i = 0; i < contestants_.size(); ++i)
          measure(row, *contestants_[(i + round) % contestants_.size()], round > 0);
    print(&report);
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  void make_contestants() {
    TMH_ASSERT(contestants_.empty());
    contestants_.push_back(make_sets_plain());
#ifdef TMH_BENCH_ITM
    contestants_.push_back(make_sets_itm());
#endif
#ifdef TMH_BENCH_TINYSTM
    contestants_.push_back(make_sets_tinystm());
#endif
#ifdef TMH_BENCH_2PLSF
    contestants_.push_back(make_sets_2plsf());
#endif
    contestants_.push_back(make_sets_tmh(scratch_.subfolder("sets")));
  }
  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["seed"] = options_.common.seed;
    all["rounds"] = options_.rounds;
    for (const Structure &s : kStructures) {
      all[std::string(s.name) + "_elements"] = elements(s);
      all[std::string(s.name) + "_operations"] = operations(s);
    }
    return all;
  }
  [[nodiscard]] std::uint64_t operations(const Structure &structure) const {
    if (options_.common.tiny) return 200;
    return static_cast<std::uint64_t>(static_cast<double>(structure.operations) * options_.scale);
  }
  [[nodiscard]] std::uint64_t elements(const Structure &structure) const {
    return options_.common.tiny ? structure.elements_tiny : structure.elements;
  }
  [[nodiscard]] bool is_asked_for(const std::string &section) const {
    return std::find(options_.sections.begin(), options_.sections.end(), section) !=
           options_.sections.end();
  }
  [[nodiscard]] bool is_wanted(const Structure &structure) const {
    return options_.only.empty() || std::find(options_.only.begin(), options_.only.end(),
                                              structure.name) != options_.only.end();
  }
  [[nodiscard]] static bool has(const std::string &section, SetKind kind) {
    if (section == "own-nodes") return kind != SetKind::kBTree;
    if (section == "aligned") return kind == SetKind::kHash || kind == SetKind::kList;
    return section != "range" || kind != SetKind::kHash;
  }
  [[nodiscard]] std::vector<Row> rows() const {
    std::vector<Row> all;
    for (const char *const section : {"sets", "own-nodes", "aligned", "range"}) {
      if (!is_asked_for(section)) continue;
      const bool is_main = std::string(section) == "sets",
                 has_ranges = std::string(section) == "range";
      for (const Structure &structure : kStructures) {
        if (!is_wanted(structure) || !has(section, structure.kind)) continue;
        for (const unsigned percent : kUpdatePercents) {
          if (!is_main && percent != (has_ranges ? 20 : 100)) continue;
          for (const std::uint64_t threads : options_.threads)
            if (!has_ranges || threads == 2)
              all.push_back({section, &structure, percent, static_cast<unsigned>(threads)});
        }
      }
    }
    return all;
  }
  [[nodiscard]] SetWork work_of(const Row &row) const {
    TMH_ASSERT(row.structure != nullptr && row.threads > 0);
    SetWork work;
    work.kind = row.structure->kind;
    work.threads = row.threads;
    work.operations = operations(*row.structure);
    work.elements = elements(*row.structure);
    work.update_percent = row.update_percent;
    work.allocates = row.section != "own-nodes";
    work.alignment = row.section == "aligned" ? 128 : 64;
    work.range = row.section == "range" ? (options_.common.tiny ? 10 : 100) : 0;
    work.seed = options_.common.seed;
    return work;
  }

  void keep(const Row &row, const std::string &name, const SetOutcome &outcome, bool counts) {
    TMH_ASSERT(!name.empty());
    if (!outcome.wrong.empty())
      throw std::runtime_error(fmt::format("{}, {}: {}", name, row.structure->name, outcome.wrong));
    if (!counts && !options_.common.tiny) return;
    Samples &samples = results_[row][name];
    samples.rate.push_back(outcome.transactions_per_us);
    if (row.section == "range") samples.ranges.push_back(outcome.ranges_per_us);
    samples.page_commits += outcome.page_commits;
  }
  void measure(const Row &row, SetContestant &contestant, bool counts) {
    if (row.threads > contestant.threads_max()) return;
    if (row.section == "aligned" && !contestant.aligns()) return;
    const SetOutcome outcome = contestant.run(work_of(row));
    if (row.threads == 1) {
      const auto [at, is_first] = found_.try_emplace(row, outcome.hash);
      if (at->second != outcome.hash)
        throw std::runtime_error(fmt::format("{}, {}: other keys were found than by plain code",
                                             contestant.name(), row.structure->name));
    }
    keep(row, contestant.name(), outcome, counts);
  }
  void measure_processes(bool counts) {
    for (const Structure &structure : kStructures) {
      if (!is_wanted(structure)) continue;
      for (const std::uint64_t processes : options_.threads) {
        const Row row{"processes", &structure, 20, static_cast<unsigned>(processes)};
        SetWork work = work_of(row);
        work.threads = 1;
        keep(row, "tmh",
             run_sets_in_processes(scratch_.subfolder(fmt::format("p{}", ++folders_)), work,
                                   row.threads),
             counts);
      }
    }
  }

  void print(Report *report) {
    TMH_ASSERT(report != nullptr);
    Table table({"section, structure, updates, threads, contestant", "tx/us", "x libitm",
                 "x tinystm", "x 2plsf", "ranges/us", "at pages"});
    for (const auto &[row, group] : results_) {
      for (const auto &[name, samples] : group) {
        Json json;
        json["structure"] = row.structure->name;
        json["update_percent"] = row.update_percent;
        json["threads"] = row.threads;
        json["contestant"] = name;
        const Summary rate = summarize(samples.rate);
        put(json, "transactions_per_us", rate);
        std::vector<std::string> cells = {
            fmt::format("{} {} {}% {} {}", row.section, row.structure->name, row.update_percent,
                        row.threads, name),
            with_mad(rate)};
        for (const char *const other : {"libitm", "tinystm", "2plsf"}) {
          const auto at = group.find(other);
          if (at == group.end() || at->second.rate.size() != samples.rate.size()) {
            cells.emplace_back("-");
            continue;
          }
          const double times = summarize_ratio(samples.rate, at->second.rate).median;
          json[fmt::format("times_{}", other)] = times;
          cells.push_back(number(times));
        }
        cells.emplace_back("-");
        if (!samples.ranges.empty()) {
          const Summary ranges = summarize(samples.ranges);
          put(json, "ranges_per_us", ranges);
          cells.back() = number(ranges.median);
        }
        const bool is_tmh = name == "tmh";
        if (is_tmh) json["page_commits"] = samples.page_commits;
        cells.push_back(is_tmh ? std::to_string(samples.page_commits) : "-");
        table.add(std::move(cells));
        report->add(row.section, std::move(json));
      }
    }
    table.print();
#ifndef TMH_BENCH_ITM
    std::printf("libitm: not built (needs g++ with -fgnu-tm, without sanitizers)\n");
#endif
#ifndef TMH_BENCH_TINYSTM
    std::printf("tinystm: not built (-DTMH_TINYSTM=FOLDER)\n");
#endif
#ifndef TMH_BENCH_2PLSF
    std::printf("2plsf: not built (-DTMH_2PLSF=FOLDER)\n");
#endif
  }

  Options options_;
  ScratchFolder scratch_;
  std::vector<std::unique_ptr<SetContestant>> contestants_;
  std::map<Row, std::map<std::string, Samples>> results_;
  std::map<Row, std::uint64_t> found_;
  int folders_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app{"Sets through sites, beside other software TMs"};
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "measurements of each variant").capture_default_str();
  app.add_option("--only", options.only, "structures: hash, list, tree, btree, skip")
      .delimiter(',');
  app.add_option("--sections", options.sections, "of sets, own-nodes, aligned, range, processes")
      .delimiter(',')
      .capture_default_str();
  app.add_option("--threads", options.threads, "of each row; processes, too")
      .delimiter(',')
      .capture_default_str()
      .check_range(1, tmh::bench::kTeamMembersMax);
  app.add_option("--scale", options.scale, "times as many operations").capture_default_str();
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::SetsBench(options).run(); });
}
