// bench/itm.cpp -- programs of -fgnu-tm (examples/itm, and others by --programs) on GCC's libitm,
// on ours by method and on others (--libitm), beside builds with a mutex and without anything.
// Shape:   each measurement is a child process of its own. A round runs every contestant on every
//          case and number of threads once, those of a case next to each other and in rotating
//          order; ratios are taken within a round. Round 0 runs each once, and the loader tells
//          which libitm it has loaded.
// Checked: each program's own check and exit status; that it runs on the library that it is said to
//          run on. What fails is left out from then on, and makes the exit status 1.
// Source:  EXCITE-VM, section 6.2.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/support/child.h"
#include "bench/support/environment.h"
#include "bench/support/itm_cases.h"
#include "bench/support/itm_contestants.h"
#include "bench/support/itm_programs.h"
#include "bench/support/itm_results.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  double seconds = 0.5;     // of a measurement
  double seconds_max = 60;  // more of a child process, and it is killed
  std::vector<unsigned> threads = {1, 2};
  std::string only, on;             // regular expressions; empty: all
  std::vector<std::string> libitm;  // NAME=PATH[:METHOD]
  std::string programs;
  bool list = false, small = false;
};

// What of its text the expression finds stays. Throws BadInput.
template <class T>
void keep_only(const std::string &option, const std::string &expression, std::vector<T> *all) {
  TMH_ASSERT(all != nullptr && !option.empty());
  if (expression.empty()) return;
  try {
    const std::regex pattern(expression);
    std::erase_if(*all, [&](const T &each) { return !std::regex_search(each.name, pattern); });
  } catch (const std::regex_error &) {
    throw BadInput(fmt::format("{} {}: no regular expression (ECMAScript)", option, expression));
  }
  if (all->empty()) throw BadInput(fmt::format("{} {}: nothing matches", option, expression));
}

class ItmBench {
 public:
  explicit ItmBench(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (options_.common.tiny) options_.rounds = 0;
    const ItmInputs inputs = options_.common.tiny ? ItmInputs::kTiny
                             : options_.small     ? ItmInputs::kSmall
                                                  : ItmInputs::kWhole;
    const fs::path bench = fs::read_symlink("/proc/self/exe").parent_path();
    build_ = bench.parent_path().string();
    contestants_ = itm_contestants(build_, &why_not_);
    for (const std::string &each : options_.libitm)
      contestants_.push_back(outside_contestant(each, contestants_));
    std::string why_no_cases;
    cases_ = itm_cases(build_ + "/examples/itm", inputs, &why_no_cases);
    if (!why_no_cases.empty()) why_not_.push_back(why_no_cases);
    if (!options_.programs.empty()) {
      const std::vector<ItmCase> outside = outside_cases(options_.programs, cases_);
      cases_.insert(cases_.end(), outside.begin(), outside.end());
    }
    if (cases_.empty()) return;
    keep_only("--only", options_.only, &cases_);
    keep_only("--on", options_.on, &contestants_);
  }

  int run() {
    const bool has_library = std::any_of(contestants_.begin(), contestants_.end(),
                                         [](const auto &each) { return !each.library.empty(); });
    if (cases_.empty() || (!has_library && options_.on.empty()))
      return skipped(fmt::format("{}", fmt::join(why_not_, "; ")));
    if (options_.list) return list();
    Report report("itm", environment(scratch_.path()), parameters());
    report.print_head();
    for (const std::string &sentence : why_not_) std::printf("left out: %s\n", sentence.c_str());
    ItmResults results(cases_, contestants_, options_.threads);
    for (std::size_t round = 0; round <= options_.rounds; ++round) run_round(round, &results);
    if (options_.common.tiny) std::printf("tiny inputs: says nothing about speed\n");
    results.print(&report);
    report.write(options_.common.csv, options_.common.json);
    return results.failures() == 0 ? 0 : 1;
  }

 private:
  [[nodiscard]] int list() const {
    TMH_ASSERT(!cases_.empty() && !contestants_.empty());
    for (const ItmCase &each : cases_) std::printf("case %s\n", each.name.c_str());
    for (const ItmContestant &each : contestants_) std::printf("on %s\n", each.name.c_str());
    return 0;
  }
  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["small"] = options_.small;
    all["seed"] = options_.common.seed;
    all["rounds"] = options_.rounds;
    all["seconds"] = options_.seconds;
    for (const ItmContestant &each : contestants_)
      if (!each.library.empty()) all["library_" + each.name] = each.library;
    return all;
  }
  void run_round(std::size_t round, ItmResults *results) {
    TMH_ASSERT(results != nullptr);
    for (const ItmCase &what : cases_)
      for (const unsigned threads : options_.threads)
        for (std::size_t i = 0; i < contestants_.size(); ++i)
          measure(what, threads, (i + round) % contestants_.size(), round, results);
  }
  void measure(const ItmCase &what, unsigned threads, std::size_t index, std::size_t round,
               ItmResults *results) {
    TMH_ASSERT(index < contestants_.size() && threads > 0 && results != nullptr);
    const ItmContestant &contestant = contestants_[index];
    const auto command = what.commands.find(contestant.build);
    if (command == what.commands.end() || results->has_failed(what, threads, contestant)) return;
    if (what.has_skew && !contestant.is_serializable) return;
    // The plain build has one thread, whatever the others can have.
    if (contestant.has_threads() ? !what.runs_with(threads) : threads != 1) return;
    const bool is_first = round == 0;
    const std::string folder = scratch_.subfolder(fmt::format("on-{}", index));
    const std::string told = scratch_.subfolder("told");
    const std::string statistics = scratch_.path() + "/statistics";
    ChildCommand child;
    // The first run only shows that it works.
    const double seconds = is_first ? std::min(options_.seconds, kFirstSeconds) : options_.seconds;
    const ItmPlaceholders values{threads, seconds, options_.common.seed, {}};
    child.words = filled_in(command->second, values);
    child.folder = what.folder;
    child.environment = environment_on(contestant, folder);
    child.environment["TMH_ITM_STATISTICS"] = statistics;
    if (is_first) child.environment.merge(environment_that_tells(told));
    child.time_max = std::chrono::duration<double>(options_.seconds_max);
    try {
      const ChildOutcome outcome = run_case(what, child, values);
      const ItmNumbers numbers = read_numbers(what.reading, outcome, child.time_max);
      if (is_first) check_library(contestant, told);
      const ItmStatistics counted = read_statistics(statistics);
      if (contestant.tells_method && counted.method != contestant.method)
        throw std::runtime_error(fmt::format("the library says that its method is \"{}\", not {}",
                                             counted.method, contestant.method));
      if (!is_first || options_.common.tiny)
        results->add(what, threads, contestant, numbers, counted);
    } catch (const std::exception &error) {
      results->fail(what, threads, contestant, error.what());
    }
    fs::remove(statistics);
    fs::remove_all(told);
  }

  static constexpr double kFirstSeconds = 0.02;

  Options options_;
  ScratchFolder scratch_;
  std::string build_;
  std::vector<std::string> why_not_;
  std::vector<ItmContestant> contestants_;
  std::vector<ItmCase> cases_;
};

int run(const Options &options) {
  try {
    return ItmBench(options).run();
  } catch (const BadInput &error) {
    std::fprintf(stderr, "itm: %s\n", error.what());
    return 2;
  }
}

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("Programs of -fgnu-tm on GCC's libitm, on ours and on others", "itm");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "measurements of each")
      .capture_default_str()
      .check_range(1, 1000);
  app.add_option("--seconds", options.seconds, "of each measurement")
      .capture_default_str()
      .check_positive();
  app.add_option("--seconds-max", options.seconds_max, "a program that takes longer is killed")
      .capture_default_str()
      .check_positive();
  app.add_option("--threads", options.threads, "of each case")
      .delimiter(',')
      .capture_default_str()
      .check_range(1, 256);
  app.add_option("--only", options.only, "cases: a regular expression");
  app.add_option("--on", options.on, "what they run on: a regular expression");
  app.add_option("--libitm", options.libitm,
                 "NAME=PATH or NAME=PATH:METHOD: one more libitm; may be repeated");
  app.add_option("--programs", options.programs, "a JSON file: programs of others");
  app.add_flag("--small", options.small,
               "small inputs, for slow libraries; rates differ from those of whole ones");
  app.add_flag("--list", options.list, "print cases and what they run on");
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::run(options); });
}
