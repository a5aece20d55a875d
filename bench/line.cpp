// bench/line.cpp -- level 1 beside plain code, one mutex, GCC's libitm and, where it was given to
// CMake, TinySTM: list, red-black tree, hash set, bank; 1 and 2 threads. Software lines alone, the
// same through sites of a hybrid domain, and sites in RTM where the machine has it.
// Shape:   a round runs every contestant on every structure once, next to each other and in
//          rotating order; ratios are taken within a round.
// Checked: structure, size, the bank's sum in every query and at the end; with one thread all
//          contestants end with the same content.
// Limits:  threads of one process. Level 1 also runs between processes at the same cost; the others
//          here do not.
// Source:  TL2; TinySTM (the structures, and the mix of 20 % updates).
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/support/line_work.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Structure {
  const char *name;
  LineKind kind;
  std::uint64_t elements, elements_tiny;
  std::uint64_t operations, operations_tiny;  // of each thread: 20 to 60 ms, several time slices
  double wanted_itm;                          // times libitm ml_wt
  // Times plain code, one thread; 0: nothing was asked for.
  double wanted_plain;
};
constexpr Structure kStructures[] = {
    {"list", LineKind::kList, 256, 32, 60'000, 200, 3.5, 0.35},
    {"tree", LineKind::kTree, 16'384, 64, 150'000, 200, 2.5, 0},
    {"hash", LineKind::kHash, 16'384, 64, 400'000, 200, 2, 0},
    {"bank", LineKind::kBank, 1'024, 64, 40'000, 100, 5, 0},
};
static_assert(std::ranges::all_of(kStructures, [](const Structure &structure) {
  return structure.elements_tiny > 0 && structure.elements_tiny <= structure.elements;
}));

struct Options {
  CommonOptions common;
  std::size_t rounds = 11;
  unsigned update_percent = 20;
  double scale = 1;               // of the operations
  std::vector<std::string> only;  // structures; empty: all
};

using Key = std::pair<const Structure *, unsigned>;
struct Samples {
  std::vector<double> rate;  // operations per microsecond
  std::uint64_t aborts = 0, operations = 0;
};

class LineBench {
 public:
  explicit LineBench(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (options_.common.tiny) options_.rounds = 1;
    contestants_.push_back(make_line_plain());
    contestants_.push_back(make_line_mutex());
#ifdef TMH_BENCH_ITM
    contestants_.push_back(make_line_itm());
#endif
#ifdef TMH_BENCH_TINYSTM
    contestants_.push_back(make_line_tinystm());
#endif
    contestants_.push_back(make_line_software(scratch_.subfolder("software"), true));
    contestants_.push_back(make_line_software(scratch_.subfolder("updates"), false));
    contestants_.push_back(make_line_sites(scratch_.subfolder("sites")));
    for (const bool is_plain : {true, false})
      if (auto rtm = make_line_rtm(scratch_.subfolder(is_plain ? "rtm" : "rtm-fields"), is_plain);
          rtm != nullptr)
        contestants_.push_back(std::move(rtm));
  }

  int run() {
    Report report("line", environment(scratch_.path()), parameters());
    report.print_head();
    TMH_ASSERT(!contestants_.empty());
    for (std::size_t round = 0; round <= options_.rounds; ++round) {  // round 0 warms up
      for (const Structure &structure : kStructures) {
        if (!is_wanted(structure)) continue;
        for (const unsigned threads : {1u, 2u}) {
          for (std::size_t i = 0; i < contestants_.size(); ++i)
            measure(structure, threads, *contestants_[(i + round) % contestants_.size()],
                    round > 0);
        }
      }
    }
    print(&report);
    std::printf("\nresult hash %s: with one thread all contestants ended with the same content\n",
                hex(hash_.value()).c_str());
    report.note("result_hash", hex(hash_.value()));
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["seed"] = options_.common.seed;
    all["rounds"] = options_.rounds;
    all["update_percent"] = options_.update_percent;
    for (const Structure &s : kStructures) {
      all[std::string(s.name) + "_elements"] = options_.common.tiny ? s.elements_tiny : s.elements;
      all[std::string(s.name) + "_operations"] = operations(s);
    }
    return all;
  }
  [[nodiscard]] std::uint64_t operations(const Structure &structure) const {
    const std::uint64_t unscaled =
        options_.common.tiny ? structure.operations_tiny : structure.operations;
    return static_cast<std::uint64_t>(static_cast<double>(unscaled) * options_.scale);
  }

  [[nodiscard]] bool is_wanted(const Structure &structure) const {
    return options_.only.empty() || std::find(options_.only.begin(), options_.only.end(),
                                              structure.name) != options_.only.end();
  }

  void measure(const Structure &structure, unsigned threads, LineContestant &contestant,
               bool counts) {
    if (threads > contestant.threads_max()) return;
    TMH_ASSERT(threads > 0);
    LineWork work;
    work.kind = structure.kind;
    work.threads = threads;
    work.operations = operations(structure);
    work.elements = options_.common.tiny ? structure.elements_tiny : structure.elements;
    work.update_percent = options_.update_percent;
    work.seed = options_.common.seed;
    const LineOutcome outcome = contestant.run(work);
    if (!outcome.wrong.empty())
      throw std::runtime_error(std::string(contestant.name()) + ", " + structure.name + ": " +
                               outcome.wrong);
    if (threads == 1) {
      const auto [at, is_first] = contents_.try_emplace(&structure, outcome.hash);
      if (is_first) hash_.add(outcome.hash);
      if (at->second != outcome.hash)
        throw std::runtime_error(std::string(contestant.name()) + ", " + structure.name +
                                 ": another content than plain code's");
    }
    if (!counts && !options_.common.tiny) return;
    Samples &samples = results_[{&structure, threads}][contestant.name()];
    samples.rate.push_back(outcome.operations_per_us);
    samples.aborts += outcome.attempts;
    samples.operations += work.operations * threads;
  }

  [[nodiscard]] static std::string ratio_text(const Json &row, const char *key) {
    TMH_ASSERT(key != nullptr);
    return row.contains(key) ? number(row[key].get<double>()) : "-";
  }

  void print(Report *report) {
    TMH_ASSERT(report != nullptr);
    Table table({"structure, threads, contestant", "op/us", "x plain", "x mutex", "x libitm",
                 "x tinystm", "wanted", "aborts/op"});
    for (const Structure &structure : kStructures) {
      if (!is_wanted(structure)) continue;
      for (const unsigned threads : {1u, 2u}) {
        for (const auto &contestant : contestants_) {
          if (threads <= contestant->threads_max())
            add_row(structure, threads, contestant->name(), &table, report);
        }
      }
    }
    table.print();
#ifndef TMH_BENCH_ITM
    std::printf("libitm: not built (needs g++ with -fgnu-tm, without sanitizers)\n");
#endif
#ifndef TMH_BENCH_TINYSTM
    std::printf(
        "tinystm: not built (needs TinySTM, which Debian has no package of: "
        "-DTMH_TINYSTM=FOLDER)\n");
#endif
    for (const auto &contestant : contestants_) {
      const std::string setup = contestant->setup();
      if (setup.empty()) continue;
      std::printf("%s: %s\n", contestant->name(), setup.c_str());
      report->note(std::string(contestant->name()) + "_setup", setup);
    }
  }

  void add_row(const Structure &structure, unsigned threads, const std::string &name, Table *table,
               Report *report) {
    auto &group = results_[{&structure, threads}];
    const Samples &samples = group[name];
    TMH_ASSERT(table != nullptr && report != nullptr && samples.operations > 0);
    Json row;
    row["threads"] = threads;
    row["contestant"] = name;
    const Summary rate = summarize(samples.rate);
    put(row, "operations_per_us", rate);
    // Plain code runs on one thread only; two threads are compared with it, too.
    const auto compare = [&](const char *key, const std::map<std::string, Samples> &others,
                             const char *other) {
      const auto at = others.find(other);
      if (at == others.end() || at->second.rate.size() != samples.rate.size()) return;
      row[key] = summarize_ratio(samples.rate, at->second.rate).median;
    };
    compare("times_plain", results_[{&structure, 1}], "plain");
    compare("times_mutex", group, "mutex");
    compare("times_libitm", group, "libitm");
    compare("times_tinystm", group, "tinystm");
    row["aborts_per_operation"] =
        static_cast<double>(samples.aborts) / static_cast<double>(samples.operations);
    std::string wanted;
    if (name == "software") {
      row["wanted_times_libitm"] = structure.wanted_itm;
      wanted = "libitm " + number(structure.wanted_itm);
      if (threads == 1 && structure.wanted_plain > 0) {
        row["wanted_times_plain"] = structure.wanted_plain;
        wanted += ", plain " + number(structure.wanted_plain);
      }
    }
    table->add({std::string(structure.name) + " " + std::to_string(threads) + " " + name,
                with_mad(rate), ratio_text(row, "times_plain"), ratio_text(row, "times_mutex"),
                ratio_text(row, "times_libitm"), ratio_text(row, "times_tinystm"), wanted,
                number(row["aborts_per_operation"].get<double>())});
    report->add(structure.name, std::move(row));
  }

  Options options_;
  ScratchFolder scratch_;
  std::vector<std::unique_ptr<LineContestant>> contestants_;
  std::map<Key, std::map<std::string, Samples>> results_;
  std::map<const Structure *, std::uint64_t> contents_;
  ResultHash hash_;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app{
      "Level 1 in software beside plain code, a mutex, GCC's libitm and TinySTM"};
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "measurements of each variant")
      .capture_default_str()
      .check_positive();
  app.add_option("--update-percent", options.update_percent, "share of updates")
      .capture_default_str();
  app.add_option("--only", options.only, "structures: list, tree, hash, bank").delimiter(',');
  app.add_option("--scale", options.scale, "times as many operations")
      .capture_default_str()
      .check_range<double>(0.001, 1000);
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::LineBench(options).run(); });
}
