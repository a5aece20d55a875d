// bench/concurrency.cpp -- independent transactions on 1, 2 and 4 processes (thesis 4.4, figures
// 4-5 and 4-6, table 4.9).
// Shape:   the transactions are those of bench/support/independent.h.
//          The thesis runs them with advice (4.4, note 9); both ways are measured here. A round
//          runs every configuration once, each in fresh processes; the order rotates. Baseline: the
//          same loops on plain shared memory without transactions; where they do not scale, the
//          machine has no second core to give.
// Checked: at the end every page holds the number of increments that its process made.
// Source:  thesis, section 4.4.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "bench/support/independent.h"
#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

using Test = IncrementTest;

// Table 4.9 (microseconds per transaction). Machine 2: 2 x 2.4 GHz Xeon; 3(a): 4 x 1.4 GHz Opteron,
// ReiserFS.
struct ThesisRow {
  Test test;
  double machine2_one, machine2_two, machine3a_one, machine3a_two;
};
constexpr std::array<ThesisRow, 3> kTable49 = {{
    {Test::kA, 26.2, 23.0, 22.9, 24.3},
    {Test::kB, 28.3, 24.2, 28.1, 27.5},
    {Test::kC, 1'786, 903, 2'259, 1'132},
}};
static_assert(kTable49[0].test == Test::kA && kTable49[1].test == Test::kB &&
              kTable49[2].test == Test::kC);

// The baseline; its other members are not looked at.
const Mode kPlain{"plain memory"};

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  // The thesis runs 10,000 of each. A and B last microseconds here: more of them, so that a run
  // outlasts a time slice.
  std::uint64_t transactions_a = 100'000, transactions_b = 50'000, transactions_c = 10'000;
  std::vector<unsigned> processes = {1, 2, 4};
};

struct Configuration {
  const Mode *mode;
  Test test;
  unsigned processes;
  bool advised;
  friend bool operator<(const Configuration &a, const Configuration &b) {
    return std::tie(a.mode, a.test, a.advised, a.processes) <
           std::tie(b.mode, b.test, b.advised, b.processes);
  }
};

class Concurrency {
 public:
  explicit Concurrency(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (options_.common.tiny) {
      options_.rounds = 1;
      options_.transactions_a = options_.transactions_b = 400;
      options_.transactions_c = 40;
      options_.processes = {1, 2};
    }
  }

  int run() {
    std::vector<Mode> modes = available_modes(scratch_.path());
    if (modes.empty()) return skipped("no tracking mode is available");
    modes.push_back(kPlain);
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["rounds"] = options_.rounds;
    parameters["transactions_a"] = options_.transactions_a;
    parameters["transactions_b"] = options_.transactions_b;
    parameters["transactions_c"] = options_.transactions_c;
    Report report("concurrency", environment(scratch_.path()), parameters);
    report.print_head();
    std::vector<Configuration> all;
    for (const Test test : {Test::kA, Test::kB, Test::kC}) {
      for (const Mode &mode : modes) {
        for (const bool advised : {true, false}) {
          if (options_.common.tiny && !advised) continue;
          if (advised && mode.name == kPlain.name && !options_.common.tiny) continue;
          for (const unsigned processes : options_.processes)
            all.push_back({&mode, test, processes, advised});
        }
      }
    }
    TMH_ASSERT(!all.empty());
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      // Rotating by whole rounds of processes would keep pairs in one order; an odd step does not.
      std::rotate(all.begin(),
                  all.begin() + static_cast<std::ptrdiff_t>(round == 0 ? 0 : 7 % all.size()),
                  all.end());
      for (const Configuration &configuration : all)
        samples_[configuration].push_back(measure(configuration));
    }
    for (const Test test : {Test::kA, Test::kB, Test::kC}) print_test(test, modes, &report);
    print_verdict(modes, &report);
    std::printf("\nresult hash %s, every page holds its process's increments\n",
                hex(hash_.value()).c_str());
    report.note("result_hash", hex(hash_.value()));
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  [[nodiscard]] std::uint64_t transactions(Test test) const {
    if (test == Test::kA) return options_.transactions_a;
    return test == Test::kB ? options_.transactions_b : options_.transactions_c;
  }

  // Microseconds per transaction of the whole team.
  double measure(const Configuration &configuration) {
    TMH_ASSERT(configuration.mode != nullptr && configuration.processes <= kTeamMembersMax);
    const IndependentRun run{*configuration.mode, configuration.test, configuration.processes,
                             configuration.advised, transactions(configuration.test)};
    if (configuration.mode->name == kPlain.name)
      return run_independent_plain(run).us_per_transaction;
    const IndependentResult result =
        run_independent(run, scratch_.subfolder("domain-" + std::to_string(measured_++)));
    hash_.add(result.increments);
    return result.us_per_transaction;
  }

  [[nodiscard]] const std::vector<double> &samples(const Mode &mode, Test test, bool advised,
                                                   unsigned processes) const {
    static const std::vector<double> kNone;
    const auto found = samples_.find({&mode, test, processes, advised});
    return found == samples_.end() ? kNone : found->second;
  }

  void print_test(Test test, const std::vector<Mode> &modes, Report *report) const {
    TMH_ASSERT(report != nullptr && !modes.empty());
    std::vector<std::string> head = {"mode", "advice"};
    for (const unsigned processes : options_.processes) {
      head.push_back(std::to_string(processes) + (processes == 1 ? " process" : " processes"));
      if (processes != 1) head.push_back("speedup");
    }
    Table table(std::move(head));
    for (const Mode &mode : modes) {
      for (const bool advised : {true, false}) {
        if (samples(mode, test, advised, 1).empty()) continue;
        std::vector<std::string> row = {mode.name, advised ? "yes" : "no"};
        for (const unsigned processes : options_.processes) {
          const Summary us = summarize(samples(mode, test, advised, processes));
          const Summary speedup = summarize_ratio(samples(mode, test, advised, 1),
                                                  samples(mode, test, advised, processes));
          row.push_back(with_mad(us));
          if (processes != 1) row.push_back(with_mad(speedup));
          Json line;
          line["test"] = std::string(1, static_cast<char>(test));
          line["mode"] = mode.name;
          line["advised"] = advised;
          line["processes"] = processes;
          line["transactions"] = transactions(test);
          put(line, "us_per_transaction", us);
          put(line, "speedup", speedup);
          report->add("table-4.9", std::move(line));
        }
        table.add(std::move(row));
      }
    }
    const ThesisRow &thesis = *std::find_if(kTable49.begin(), kTable49.end(),
                                            [&](const auto &r) { return r.test == test; });
    if (options_.processes.size() >= 2 && options_.processes[0] == 1 &&
        options_.processes[1] == 2) {
      const auto row = [&](const char *machine, double one, double two) {
        table.add({machine, "yes", number(one), number(two), number(one / two)});
      };
      row("LIBXAC 2005, machine 2", thesis.machine2_one, thesis.machine2_two);
      row("LIBXAC 2005, machine 3(a)", thesis.machine3a_one, thesis.machine3a_two);
    }
    std::printf(
        "\nTest %c: microseconds per transaction, median ±MAD %% of %zu rounds; speedup against 1 "
        "process\n",
        static_cast<char>(test), options_.rounds);
    table.print();
  }

  void print_verdict(const std::vector<Mode> &modes, Report *report) const {
    TMH_ASSERT(report != nullptr);
    if (std::find(options_.processes.begin(), options_.processes.end(), 2U) ==
        options_.processes.end())
      return;
    Table table({"speedup of 2 processes", "wanted", "measured", "mode", "advice", ""});
    for (const auto &[test, bound] : {std::pair{Test::kC, 1.9}, std::pair{Test::kA, 1.5}}) {
      for (const Mode &mode : modes) {
        for (const bool advised : {true, false}) {
          if (samples(mode, test, advised, 1).empty()) continue;
          const Summary speedup =
              summarize_ratio(samples(mode, test, advised, 1), samples(mode, test, advised, 2));
          const bool reached = speedup.median >= bound;
          table.add({std::string("test ") + static_cast<char>(test), ">= " + number(bound),
                     with_mad(speedup), mode.name, advised ? "yes" : "no",
                     mode.name == kPlain.name ? "(the machine)"
                     : reached                ? "reached"
                                              : "MISSED"});
          Json row;
          row["test"] = std::string(1, static_cast<char>(test));
          row["mode"] = mode.name;
          row["advised"] = advised;
          row["wanted"] = bound;
          row["reached"] = reached;
          put(row, "speedup", speedup);
          report->add("verdict", std::move(row));
        }
      }
    }
    std::printf("\nWanted and measured%s\n",
                options_.common.tiny ? " (tiny inputs: says nothing about speed)" : "");
    table.print();
  }

  Options options_;
  ScratchFolder scratch_;
  std::map<Configuration, std::vector<double>> samples_;
  ResultHash hash_;
  std::uint64_t measured_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app(
      "Independent transactions on several processes: tests A, B and C of the LIBXAC thesis",
      "concurrency");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str();
  app.add_option("--transactions-a", options.transactions_a, "transactions of test A")
      .capture_default_str()
      .check_range(tmh::bench::kTeamMembersMax, std::uint64_t{1} << 32);
  app.add_option("--transactions-b", options.transactions_b, "transactions of test B")
      .capture_default_str()
      .check_range(tmh::bench::kTeamMembersMax, std::uint64_t{1} << 32);
  app.add_option("--transactions-c", options.transactions_c, "transactions of test C")
      .capture_default_str()
      .check_range(tmh::bench::kTeamMembersMax, std::uint64_t{1} << 32);
  app.add_option("--processes", options.processes, "numbers of processes; 1 must be among them")
      .capture_default_str()
      .delimiter(',')
      .check_range(1, tmh::bench::kTeamMembersMax);
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::Concurrency(options).run(); });
}
