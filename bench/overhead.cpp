// bench/overhead.cpp -- what counters, histograms of latency, traces and protection keys cost the
// smallest transaction of each level.
// Shape:   a measurement is a process of its own (this program with --worker): it opens a fresh
//          domain, warms up, and times batches; the median batch counts. A round runs every way of
//          looking once, in rotating order; ratios are taken within a round. uncounted:
//          bench/overhead_uncounted, the same linked with a library that is compiled without
//          counting (TMH_NO_COUNTERS); it is not among the default targets: cmake --build ...
//          --target bench_overhead_uncounted. Where it is missing that is said.
// Checked: the word that is written holds the number of transactions; where the library counts, so
//          do its counters.
// Source:  docs/design.md 9 (free when nobody looks).
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tmh/tmh.hpp>

#include "bench/support/clock.h"
#include "bench/support/environment.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "observe/counting.h"
#include "platform/assert.h"
#include "platform/protection_keys.h"

namespace tmh::bench {
namespace {

struct Work {
  const char *name, *what;
};
constexpr std::array<Work, 4> kWorks = {
    {{"line", "level 1 in software: one word read, one written"},
     {"rtm", "level 1 in RTM, plain: one word read, one written"},
     {"page", "level 2: one hot page read and written"},
     {"query", "level 2: one hot page read"}}};

struct Way {
  const char *name;
  bool is_counted;
  const char *latency;  // TMH_LATENCY
  const char *trace;    // TMH_TRACE
  const char *stray;    // TMH_STRAY
};
constexpr std::array<Way, 6> kWays = {
    {{"nothing", false, "off", "off", "allow"},
     {"counters", true, "off", "off", "allow"},
     {"counters, histograms", true, "sampled", "off", "allow"},
     {"counters, every latency", true, "full", "off", "allow"},
     {"counters, histograms, trace", true, "sampled", "on", "allow"},
     {"counters, histograms, keys", true, "sampled", "off", "fault"}}};
constexpr std::size_t kNothing = 0, kCounters = 1, kDefault = 2, kKeys = 5;
static_assert(!kWays[kNothing].is_counted && kWays[kCounters].is_counted);
static_assert(std::string_view(kWays[kDefault].latency) == "sampled");
static_assert(std::string_view(kWays[kKeys].stray) == "fault");

struct Options {
  CommonOptions common;
  std::size_t rounds = 15;
  std::uint64_t transactions = 40'000;  // of a batch
  std::string worker, folder;           // this is a measurement
};

constexpr int kBatches = 9;
static_assert(kBatches % 2 == 1, "the median is a measured value");

// One measurement: prints nanoseconds per transaction, or why there is none.
class Worker {
 public:
  explicit Worker(const Options &options)
      : options_(options), is_page_(options.worker == "page" || options.worker == "query") {}

  int run() {
    DomainOptions how;
    how.levels = is_page_ ? Levels::kPage : Levels::kHybrid;
    if (options_.worker == "rtm") how.line = LineChoice::kRtm;
    try {
      domain_ = Domain::open(options_.folder, how);
    } catch (const Error &error) {
      if (error.errc() != Errc::kRtmUnavailable) throw;
      std::printf("SKIPPED %s\n", error.what());
      return 0;
    }
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = kPageBytes;
    segment_ = domain_.map("words", raw);
    words_ = reinterpret_cast<std::uint64_t *>(segment_.data());
    std::printf("%.4f\n", measure());
    return 0;
  }

 private:
  double measure() {
    TMH_ASSERT(words_ != nullptr && options_.transactions > 0);
    std::vector<double> batches;
    for (int batch = -1; batch < kBatches; ++batch) {  // the first one warms up
      const std::int64_t start = now_ns();
      transact(options_.transactions);
      if (batch < 0) continue;
      batches.push_back(static_cast<double>(now_ns() - start) /
                        static_cast<double>(options_.transactions));
    }
    check();
    return summarize(std::move(batches)).median;
  }

  void transact(std::uint64_t count) {
    if (options_.worker == "query") {
      for (std::uint64_t i = 0; i < count; ++i) sum_ += query(domain_, [&] { return words_[1]; });
    } else if (options_.worker == "page") {
      for (std::uint64_t i = 0; i < count; ++i)
        atomically(domain_, [&] { words_[0] += words_[8] + 1; });
    } else if (options_.worker == "rtm") {
      const Site site(domain_, "small");
      for (std::uint64_t i = 0; i < count; ++i)
        atomically(site, [&] { words_[0] += words_[8] + 1; });
    } else {
      const Site site(domain_, "small", "never");
      auto *fields = reinterpret_cast<field<std::uint64_t> *>(words_);
      for (std::uint64_t i = 0; i < count; ++i)
        atomically(site, [&](Fields) { fields[0] = fields[0].load() + fields[8].load() + 1; });
    }
  }

  void check() {
    const std::uint64_t expected = options_.transactions * (kBatches + 1);
    const std::uint64_t found = query(domain_, [&] { return words_[0]; });
    if (found != (options_.worker == "query" ? 0 : expected) || sum_ != 0)
      throw std::runtime_error("the word holds a wrong count");
    const Counters counters = domain_.counters();
    const std::uint64_t counted =
        options_.worker == "query"
            ? counters.queries - 1
            : counters.commits + counters.line_commits + counters.hardware_commits;
    if (observe::kCounts && counted != expected)
      throw std::runtime_error(fmt::format("{} transactions, {} counted", expected, counted));
  }

  const Options &options_;
  const bool is_page_;
  Domain domain_;
  Segment segment_;
  std::uint64_t *words_ = nullptr;
  std::uint64_t sum_ = 0;
};

class Overhead {
 public:
  explicit Overhead(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (!options_.common.tiny) return;
    options_.rounds = 1;
    options_.transactions = 100;
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["rounds"] = options_.rounds;
    parameters["transactions"] = options_.transactions;
    Report report("overhead", environment(scratch_.path()), parameters);
    report.print_head();
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
    counted_ = self.string();
    uncounted_ = (self.parent_path() / "overhead_uncounted").string();
    has_uncounted_ = ::access(uncounted_.c_str(), X_OK) == 0;
    if (!has_uncounted_)
      std::printf("SKIPPED \"nothing\": %s is not built; ratios are to \"counters\"\n",
                  uncounted_.c_str());
    for (std::size_t round = 0; round < options_.rounds; ++round)
      for (std::size_t w = 0; w < kWorks.size(); ++w)
        for (std::size_t i = 0; i < kWays.size(); ++i) measure(w, (i + round) % kWays.size());
    print(&report);
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  void measure(std::size_t work, std::size_t way) {
    TMH_ASSERT(work < kWorks.size() && way < kWays.size());
    const Way &how = kWays[way];
    if ((!how.is_counted && !has_uncounted_) || !why_[work].empty()) return;
    if (way == kKeys && !platform::has_keys()) return;
    const std::string folder = scratch_.subfolder(fmt::format("domain-{}", measured_++));
    const std::string command = fmt::format(
        "TMH_LATENCY={} TMH_TRACE={} TMH_STRAY={} '{}' --worker {} --domain '{}' --transactions {}",
        how.latency, how.trace, how.stray, how.is_counted ? counted_ : uncounted_,
        kWorks[work].name, folder, options_.transactions);
    const std::unique_ptr<FILE, int (*)(FILE *)> pipe(::popen(command.c_str(), "r"), ::pclose);
    char line[512] = {};
    if (pipe == nullptr || std::fgets(line, sizeof line, pipe.get()) == nullptr)
      throw std::runtime_error("no measurement from: " + command);
    const std::string text(line);
    if (text.starts_with("SKIPPED"))
      why_[work] = text.substr(0, text.find('\n'));
    else
      samples_[work][way].push_back(std::strtod(line, nullptr));
    std::filesystem::remove_all(folder);
  }

  void print(Report *report) const {
    TMH_ASSERT(report != nullptr);
    const std::size_t base = has_uncounted_ ? kNothing : kCounters;
    Table table({"ns per transaction", "nothing", "counters", "and histograms", "every latency",
                 "and trace", "and keys"});
    Table ratios({fmt::format("ratio to \"{}\"", kWays[base].name), "nothing", "counters",
                  "and histograms", "every latency", "and trace", "and keys"});
    for (std::size_t w = 0; w < kWorks.size(); ++w) {
      if (!why_[w].empty()) {
        std::printf("%s: %s\n", kWorks[w].what, why_[w].c_str());
        continue;
      }
      std::vector<std::string> row = {kWorks[w].what}, ratio_row = row;
      for (std::size_t i = 0; i < kWays.size(); ++i) {
        if (samples_[w][i].empty()) {
          row.emplace_back("-");
          ratio_row.emplace_back("-");
          continue;
        }
        const Summary ns = summarize(samples_[w][i]);
        const Summary ratio = summarize_ratio(samples_[w][i], samples_[w][base]);
        row.push_back(with_mad(ns));
        ratio_row.push_back(fmt::format("{:.3f}", ratio.median));
        Json line;
        line["work"] = kWorks[w].name;
        line["way"] = kWays[i].name;
        put(line, "ns_per_transaction", ns);
        line["ratio_median"] = ratio.median;
        report->add("overhead", std::move(line));
      }
      table.add(std::move(row));
      ratios.add(std::move(ratio_row));
    }
    table.print();
    std::printf("\n");
    ratios.print();
    std::printf("wanted: \"%s\" at most 1.01 of \"nothing\"; keys at most 60 ns more\n",
                kWays[kDefault].name);
    if (!platform::has_keys())
      std::printf("SKIPPED \"and keys\": %s\n", platform::key_refusal().c_str());
  }

  Options options_;
  ScratchFolder scratch_;
  std::string counted_, uncounted_;
  bool has_uncounted_ = false;
  std::array<std::string, kWorks.size()> why_;  // not empty: it does not run here
  std::array<std::array<std::vector<double>, kWays.size()>, kWorks.size()> samples_;
  std::uint64_t measured_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("What counting, timing and tracing cost when nobody looks",
                              "overhead");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str();
  app.add_option("--transactions", options.transactions, "of a batch")
      .capture_default_str()
      .check_positive();
  app.add_option("--worker", options.worker,
                 "one measurement, of this work; used by the program itself");
  app.add_option("--domain", options.folder, "the domain of that");
  return tmh::bench::run_bench(app, argc, argv, [&] {
    return options.worker.empty() ? tmh::bench::Overhead(options).run()
                                  : tmh::bench::Worker(options).run();
  });
}
