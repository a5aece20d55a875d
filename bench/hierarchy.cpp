// bench/hierarchy.cpp -- small and huge instances over the same data: level 1 with a lock fallback,
// level 2 alone, both levels together; the cross-level policies beside each other; TPC-B by more
// processes than processors under the escalation policies; and what it costs when a page changes
// its level, and where RTM works, when a process changes its mode.
// Shape:   data, instances, contestants and why the lock fallback is a fair one:
//          bench/support/hierarchy_work.h. Three mixes: only small, only huge, 1 % huge; 1 and 2
//          processes. A round runs every contestant on every mix for the same time, next to each
//          other and in rotating order; ratios are taken within a round. Crossings: 2 and 4
//          processes on few pages, one instance in ten at level 2, under each cross-level policy.
//          Crowds: bench/support/crowded.h. Costs: bench/support/cross_level.h.
// Checked: the sum of all words after each run; the invariant of TPC-B; a recalled page shows its
//          holder's commit.
// Limits:  software lines have no mode to switch: instrumented code works on home, not on the view.
//          The two mode switches (to lines, to pages) are those of RTM, and are measured where it
//          works.
// Source:  thesis, section 6.2 (the hybrid, proposed and not built).
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/cross_level.h"
#include "bench/support/crowded.h"
#include "bench/support/hierarchy_work.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Mix {
  char letter;
  const char *what;
  unsigned huge_percent;
  double wanted;  // hybrid, times the better of level 1 with a lock and level 2 alone
};
constexpr Mix kMixes[] = {
    {'a', "only small", 0, 0.9}, {'b', "only huge", 100, 0.9}, {'c', "99 % small, 1 % huge", 1, 2}};
static_assert(std::ranges::all_of(kMixes, [](const Mix &mix) { return mix.huge_percent <= 100; }));

// Few pages, so that an instance of level 2 nearly always meets lines that level 1 uses.
constexpr std::uint64_t kCrossingPages = 64, kCrossingHugePages = 4;
static_assert(kCrossingHugePages <= kCrossingPages);
// With 4, waiters that do not sleep take the processor that others need.
constexpr unsigned kCrossingProcesses[] = {2, 4};
constexpr Mix kCrossings = {'x', "90 % small at level 1, 10 % larger at level 2", 10, 0};

constexpr Durability kDurabilities[] = {Durability::kNone, Durability::kBuffered,
                                        Durability::kStrict};
constexpr unsigned kCrowds[] = {1, 2, 3, 4, 8};
static_assert(std::ranges::max(kCrowds) <= kTeamMembersMax &&
              std::ranges::max(kCrossingProcesses) <= kTeamMembersMax);
constexpr const char *kFixedPolicies[] = {"on-capacity", "never", "after-n=64", "always"};
constexpr double kWantedOfFixed = 0.9;  // adaptive, times the best fixed one

constexpr double kWantedRunningUs = 20, kWantedSleepingUs = 80;
constexpr double kWantedFlat = 1.5;  // largest median over smallest: what is left of noise here

struct Options {
  CommonOptions common;
  std::size_t rounds = 7;
  double run_ms = 150;
  std::uint64_t pages = 2048, huge_pages = 2000, huge_lines = 1;
  std::string capacity = "32KiB/8/64";
  std::uint64_t portion = 256;  // half of the 512 lines
  std::vector<unsigned> processes = {1, 2};
  std::vector<std::uint64_t> segment_pages = {1 << 10, 1 << 16, 1 << 20};
  std::uint64_t recalls = kRecallsMax;
  std::string only, durability;
};

struct Samples {
  std::vector<double> rate;
  HierarchyOutcome last;
};

class HierarchyBench {
 public:
  explicit HierarchyBench(Options options)
      : options_(std::move(options)),
        scratch_(options_.common.folder),
        contestants_(hierarchy_contestants()),
        crossings_(crossing_contestants()) {
    if (!options_.common.tiny) return;
    options_.rounds = 1;
    options_.run_ms = 2;
    options_.pages = 64;
    options_.huge_pages = 40;
    options_.capacity = "1KiB/8/64";
    options_.portion = 8;
    options_.segment_pages = {1 << 10, 1 << 12};
    options_.recalls = 10;
  }

  int run() {
    Report report("hierarchy", environment(scratch_.path()), parameters());
    report.print_head();
    if (options_.only.empty() || options_.only == "mixes") {
      for (std::size_t round = 0; round < options_.rounds; ++round) measure_round(round);
      for (const unsigned processes : options_.processes)
        for (const Mix &mix : kMixes) print_mix(mix, processes, &report);
      print_verdict(&report);
      std::printf("\nThe sum of all words was right after each of %zu runs.\n", runs_);
    }
    if (options_.only.empty() || options_.only == "crossings")
      for (const unsigned processes : kCrossingProcesses) crossings(processes, &report);
    if (options_.only.empty() || options_.only == "crowds")
      for (const Durability durability : kDurabilities)
        if (options_.durability.empty() || options_.durability == to_string(durability))
          for (const unsigned processes : kCrowds) crowds(durability, processes, &report);
    if (options_.only.empty() || options_.only == "costs") cross_level(&report);
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["seed"] = options_.common.seed;
    all["rounds"] = options_.rounds;
    all["run_ms"] = options_.run_ms;
    all["pages"] = options_.pages;
    all["huge_pages"] = options_.huge_pages;
    all["huge_lines"] = options_.huge_lines;
    all["capacity"] = options_.capacity;
    all["portion"] = options_.portion;
    all["recalls"] = options_.recalls;
    return all;
  }

  using Key = std::tuple<char, unsigned, std::string>;
  [[nodiscard]] const Samples &samples(const Mix &mix, unsigned processes,
                                       const std::string &name) const {
    return samples_.at({mix.letter, processes, name});
  }

  void measure_round(std::size_t round) {
    for (const unsigned processes : options_.processes)
      for (const Mix &mix : kMixes) {
        HierarchyRun run;
        run.pages = options_.pages;
        run.huge_pages = options_.huge_pages;
        run.processes = processes;
        measure(round, contestants_, mix, run);
      }
  }

  void measure(std::size_t round, const std::vector<HierarchyContestant> &contestants,
               const Mix &mix, HierarchyRun run) {
    TMH_ASSERT(!contestants.empty() && run.huge_pages <= run.pages);
    run.huge_percent = mix.huge_percent;
    run.huge_lines = options_.huge_lines;
    run.capacity = options_.capacity;
    run.portion = options_.portion;
    run.warm_up_ms = options_.run_ms / 5;
    run.run_ms = options_.run_ms;
    run.seed = options_.common.seed + round;
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const HierarchyContestant &contestant = contestants[(i + round) % contestants.size()];
      const HierarchyOutcome outcome =
          run_hierarchy(contestant, run, scratch_.subfolder("run-" + std::to_string(runs_++)));
      Samples &all = samples_[{mix.letter, run.processes, contestant.name}];
      all.rate.push_back(outcome.commits_per_s);
      all.last = outcome;
    }
  }

  // What each cross-level policy makes of processes that want the same pages at both levels.
  void crossings(unsigned processes, Report *report) {
    TMH_ASSERT(report != nullptr && processes > 0);
    HierarchyRun run;
    run.pages = kCrossingPages;
    run.huge_pages = kCrossingHugePages;
    run.processes = processes;
    for (std::size_t round = 0; round < options_.rounds; ++round)
      measure(round, crossings_, kCrossings, run);
    std::printf(
        "\n(%c) %s, %u processes, %llu pages: commits/s, median ±MAD %% of %zu rounds; the rest: "
        "totals of the last round\n",
        kCrossings.letter, kCrossings.what, processes,
        static_cast<unsigned long long>(kCrossingPages), options_.rounds);
    Table table({"cross-level policy", "commits/s", "small", "larger", "cross-level aborts: lines",
                 "pages", "to pages", "recalls", "releases"});
    for (const HierarchyContestant &contestant : crossings_) {
      const Samples &of = samples(kCrossings, run.processes, contestant.name);
      const HierarchyOutcome &last = of.last;
      const Summary rate = summarize(of.rate);
      Json row;
      row["policy"] = contestant.name;
      row["processes"] = run.processes;
      put(row, "commits_per_s", rate);
      std::vector<std::string> cells = {contestant.name, with_mad(rate)};
      for (const auto &[key, value] :
           {std::pair{"small", last.small}, std::pair{"larger", last.huge},
            std::pair{"cross_line_aborts", last.cross_line_aborts},
            std::pair{"cross_page_aborts", last.cross_page_aborts},
            std::pair{"escalations_attempts", last.for_attempts},
            std::pair{"recalls", last.recalls}, std::pair{"releases", last.releases}}) {
        row[key] = value;
        cells.push_back(std::to_string(value));
      }
      report->add("crossing", std::move(row));
      table.add(std::move(cells));
    }
    table.print();
  }

  // All policies in each round; the ratio is taken within a round. In random order, and nothing
  // stays of a run: what the one before has left to write would be its successor's to wait for.
  void crowds(Durability durability, unsigned processes, Report *report) {
    TMH_ASSERT(report != nullptr && processes > 0);
    std::vector<std::string> policies = {"adaptive"};
    policies.insert(policies.end(), std::begin(kFixedPolicies), std::end(kFixedPolicies));
    std::map<std::string, std::vector<double>> rates;
    std::map<std::string, CrowdedOutcome> totals;
    Random random(options_.common.seed);
    std::vector<std::string> order = policies;
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[random.below(i)]);
      for (const std::string &policy : order) {
        CrowdedRun run;
        run.durability = durability;
        run.escalation = policy;
        run.processes = processes;
        run.warm_up_ms = options_.run_ms / 5;
        run.run_ms = options_.run_ms;
        run.seed = options_.common.seed + round;
        const std::string folder = scratch_.subfolder("crowd-" + std::to_string(runs_++));
        const CrowdedOutcome one = run_crowded(run, folder);
        std::filesystem::remove_all(folder);
        rates[run.escalation].push_back(one.commits_per_s);
        CrowdedOutcome &all = totals[run.escalation];
        all.line_commits += one.line_commits;
        all.page_commits += one.page_commits;
        all.for_attempts += one.for_attempts;
        all.recalls += one.recalls;
        all.releases += one.releases;
      }
    }
    const char *best = kFixedPolicies[0];
    for (const char *policy : kFixedPolicies)
      if (summarize(rates[policy]).median > summarize(rates[best]).median) best = policy;
    std::printf(
        "\nTPC-B, %s, %u process%s: commits/s, median ±MAD %% of %zu rounds; the rest: totals of "
        "them\n",
        to_string(durability), processes, processes == 1 ? "" : "es", options_.rounds);
    Table table({"policy", "commits/s", "at lines", "at pages", "escalations: attempts", "recalls",
                 "releases", "of the best fixed", ""});
    for (const std::string &policy : policies) {
      const CrowdedOutcome &all = totals[policy];
      const Summary rate = summarize(rates[policy]),
                    ratio = summarize_ratio(rates[policy], rates[best]);
      Json row;
      row["durability"] = to_string(durability);
      row["processes"] = processes;
      row["policy"] = policy;
      put(row, "commits_per_s", rate);
      put(row, "of_best_fixed", ratio);
      std::vector<std::string> cells = {policy, with_mad(rate)};
      for (const auto &[key, value] :
           {std::pair{"line_commits", all.line_commits},
            std::pair{"page_commits", all.page_commits},
            std::pair{"escalations_attempts", all.for_attempts}, std::pair{"recalls", all.recalls},
            std::pair{"releases", all.releases}}) {
        row[key] = value;
        cells.push_back(std::to_string(value));
      }
      cells.push_back(with_mad(ratio));
      const bool is_met = ratio.median >= kWantedOfFixed;
      cells.emplace_back(policy != "adaptive" ? "" : is_met ? "met" : "MISSED");
      report->add("crowd", std::move(row));
      table.add(std::move(cells));
    }
    table.print();
  }

  void print_mix(const Mix &mix, unsigned processes, Report *report) const {
    TMH_ASSERT(report != nullptr);
    std::printf(
        "\n(%c) %s, %u process%s: commits/s, median ±MAD %% of %zu rounds; the rest: totals of the "
        "last round\n",
        mix.letter, mix.what, processes, processes == 1 ? "" : "es", options_.rounds);
    Table table({"contestant", "commits/s", "at lines", "unlimited", "at pages", "line aborts",
                 "page aborts", "escalations: capacity", "attempts", "de-escal.", "recalls",
                 "releases", "under lock"});
    for (const HierarchyContestant &contestant : contestants_) {
      const Samples &of = samples(mix, processes, contestant.name);
      const HierarchyOutcome &last = of.last;
      const Summary rate = summarize(of.rate);
      Json row;
      row["mix"] = std::string(1, mix.letter);
      row["huge_percent"] = mix.huge_percent;
      row["processes"] = processes;
      row["contestant"] = contestant.name;
      put(row, "commits_per_s", rate);
      std::vector<std::string> cells = {contestant.name, with_mad(rate)};
      const auto total = [&](const char *key, std::uint64_t value) {
        row[key] = value;
        cells.push_back(std::to_string(value));
      };
      total("line_commits", last.line_commits);
      total("unlimited_commits", last.unlimited_commits);
      total("page_commits", last.page_commits);
      total("line_aborts", last.line_aborts);
      total("page_aborts", last.page_aborts);
      total("escalations_capacity", last.for_capacity);
      total("escalations_attempts", last.for_attempts);
      total("de_escalations", last.de_escalations);
      total("recalls", last.recalls);
      total("releases", last.releases);
      total("under_lock", last.locked);
      row["small"] = last.small;
      row["huge"] = last.huge;
      row["escalations_needs_pages"] = last.for_pages;
      report->add("mix", std::move(row));
      table.add(std::move(cells));
    }
    table.print();
  }

  // The better of level 1 with a lock and level 2 alone, by median.
  [[nodiscard]] const char *better(const Mix &mix, unsigned processes) const {
    const char *const line = "level 1, lock fallback", *const page = "level 2 only";
    return summarize(samples(mix, processes, line).rate).median >=
                   summarize(samples(mix, processes, page).rate).median
               ? line
               : page;
  }

  void print_verdict(Report *report) const {
    TMH_ASSERT(report != nullptr);
    std::printf(
        "\nThe hybrid beside the better of level 1 with a lock and level 2 alone (ratio of "
        "commits/s)\n");
    Table table({"mix, processes, policy", "better one", "wanted", "measured", ""});
    for (const Mix &mix : kMixes) {
      for (const unsigned processes : options_.processes) {
        const char *other = better(mix, processes);
        for (const HierarchyContestant &contestant : contestants_) {
          if (contestant.kind != HierarchyKind::kHybrid) continue;
          const Summary ratio = summarize_ratio(samples(mix, processes, contestant.name).rate,
                                                samples(mix, processes, other).rate);
          const bool met = ratio.median >= mix.wanted;
          table.add({std::string("(") + mix.letter + ") " + std::to_string(processes) + " " +
                         contestant.escalation,
                     other, ">= " + number(mix.wanted), with_mad(ratio), met ? "met" : "MISSED"});
          Json row;
          row["mix"] = std::string(1, mix.letter);
          row["processes"] = processes;
          row["contestant"] = contestant.name;
          row["better"] = other;
          row["wanted"] = mix.wanted;
          put(row, "ratio", ratio);
          report->add("verdict", std::move(row));
        }
      }
    }
    table.print();
  }

  // One line of the second table: its medians over the sizes of the segment.
  struct CostRow {
    std::string what;
    double wanted_us;  // 0: only flat; negative: nothing was asked for
    std::vector<std::string> cells;
    double smallest = 0, largest = 0;
  };
  void add_cost(const std::vector<double> &us, std::uint64_t pages, CostRow *row,
                Report *report) const {
    TMH_ASSERT(row != nullptr && report != nullptr);
    const double median = summarize(us).median, p99 = quantile(us, 0.99);
    row->cells.push_back(number(median) + " / " + number(p99));
    row->smallest = row->smallest == 0 ? median : std::min(row->smallest, median);
    row->largest = std::max(row->largest, median);
    Json line;
    line["what"] = row->what;
    line["segment_pages"] = pages;
    line["p99_us"] = p99;
    put(line, "us", summarize(us));
    report->add("cross-level", std::move(line));
  }

  // Rows: recalls by the holder's state, then the two mode switches.
  void hardware_costs(std::uint64_t pages, CostRow *rows, Report *report) {
    static_assert(std::size(kHolderStates) == 4, "as many rows, then two");
    TMH_ASSERT(rows != nullptr && report != nullptr);
    std::vector<double> recall[4], to_lines, to_pages;
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      const std::string name = std::to_string(pages) + "-" + std::to_string(round);
      const CrossLevelCosts costs = measure_cross_level(
          pages, options_.recalls, scratch_.subfolder("hardware-" + name), true);
      for (std::size_t i = 0; i < 4; ++i)
        recall[i].insert(recall[i].end(), costs.recall[i].begin(), costs.recall[i].end());
      const ModeSwitchCosts modes =
          measure_mode_switch(pages, options_.recalls, scratch_.subfolder("modes-" + name));
      to_lines.insert(to_lines.end(), modes.to_lines.begin(), modes.to_lines.end());
      to_pages.insert(to_pages.end(), modes.to_pages.begin(), modes.to_pages.end());
    }
    for (std::size_t i = 0; i < 4; ++i) add_cost(recall[i], pages, &rows[i], report);
    add_cost(to_lines, pages, &rows[4], report);
    add_cost(to_pages, pages, &rows[5], report);
  }

  void cross_level(Report *report) {
    TMH_ASSERT(report != nullptr);
    std::vector<CostRow> rows;
    for (const HolderState state : kHolderStates) {
      const double wanted = state == HolderState::kRunning    ? kWantedRunningUs
                            : state == HolderState::kSleeping ? kWantedSleepingUs
                                                              : 0;
      rows.push_back({std::string("recall, holder ") + to_string(state), wanted, {}});
    }
    rows.push_back({"release", 0, {}});
    rows.push_back({"first touch beside it", -1, {}});
    const bool with_rtm = why_no_rtm().empty();
    if (with_rtm) {
      for (const HolderState state : kHolderStates)
        rows.push_back({std::string("recall from RTM, holder ") + to_string(state), 0, {}});
      rows.push_back({"mode switch to lines", 0, {}});
      rows.push_back({"mode switch to pages", 0, {}});
    }
    TMH_ASSERT(rows.size() == (with_rtm ? 12 : 6));  // their places are numbers below
    std::vector<std::string> head = {"microseconds, median / p99"};
    for (const std::uint64_t pages : options_.segment_pages) {
      head.push_back(std::to_string(pages) + " pages in L");
      CrossLevelCosts all;  // of all rounds
      for (std::size_t round = 0; round < options_.rounds; ++round) {
        const CrossLevelCosts costs = measure_cross_level(
            pages, options_.recalls,
            scratch_.subfolder("costs-" + std::to_string(pages) + "-" + std::to_string(round)),
            false);
        for (std::size_t i = 0; i < 4; ++i)
          all.recall[i].insert(all.recall[i].end(), costs.recall[i].begin(), costs.recall[i].end());
        all.release.insert(all.release.end(), costs.release.begin(), costs.release.end());
        all.neighbours.insert(all.neighbours.end(), costs.neighbours.begin(),
                              costs.neighbours.end());
      }
      for (std::size_t i = 0; i < 4; ++i) add_cost(all.recall[i], pages, &rows[i], report);
      add_cost(all.release, pages, &rows[4], report);
      add_cost(all.neighbours, pages, &rows[5], report);
      if (with_rtm) hardware_costs(pages, &rows[6], report);
    }
    for (const char *name : {"wanted", "largest / smallest", ""}) head.emplace_back(name);
    Table table(std::move(head));
    for (const CostRow &row : rows) {
      TMH_ASSERT(row.smallest > 0 && row.smallest <= row.largest);
      const double growth = row.largest / row.smallest;
      const bool met =
          growth <= kWantedFlat && (row.wanted_us == 0 || row.largest <= row.wanted_us);
      std::vector<std::string> cells = {row.what};
      cells.insert(cells.end(), row.cells.begin(), row.cells.end());
      cells.push_back(row.wanted_us < 0    ? ""
                      : row.wanted_us == 0 ? "flat"
                                           : "flat, <= " + number(row.wanted_us));
      cells.push_back(number(growth));
      cells.emplace_back(row.wanted_us < 0 ? "" : met ? "met" : "MISSED");
      table.add(std::move(cells));
    }
    std::printf(
        "\nA page changes its level; flat: the largest median is at most %s times the smallest\n",
        number(kWantedFlat).c_str());
    table.print();
    std::printf(
        "mode switch: none exists for software lines; instrumented code works on home, not on the "
        "view%s%s\n",
        with_rtm ? "" : ". ", with_rtm ? "" : why_no_rtm().c_str());
  }

  Options options_;
  ScratchFolder scratch_;
  const std::vector<HierarchyContestant> contestants_, crossings_;
  std::map<Key, Samples> samples_;
  std::size_t runs_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app{
      "Small and huge instances over the same data: each level alone, and both together"};
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "measurements of each variant").capture_default_str();
  app.add_option("--ms", options.run_ms, "length of a measurement")
      .capture_default_str()
      .check_positive();
  app.add_option("--only", options.only, "mixes, crossings, crowds or costs")
      .check_one_of({"mixes", "crossings", "crowds", "costs"});
  app.add_option("--durability", options.durability, "of crowds: none, buffered or strict alone")
      .check_one_of({"none", "buffered", "strict"});
  app.add_option("--huge-pages", options.huge_pages, "pages of a huge instance, at most 2048")
      .check_range(1, 2048)
      .capture_default_str();
  app.add_option("--huge-lines", options.huge_lines,
                 "lines that it writes on each of them, at most 64")
      .check_range(1, 64)
      .capture_default_str();
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::HierarchyBench(options).run(); });
}
