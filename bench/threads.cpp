// bench/threads.cpp -- instances of level 2 in the threads of one process: on views of their own,
// one after the other, and beside processes.
// Shape:   workers increment integers on pages of their own, through tmh::field, in sites of a page
//          domain: no conflicts. A round runs every configuration once, each in a fresh domain; the
//          order rotates. small: one integer of one page; wide: one of each of 16 pages; long: all
//          512 of one page, 20 times.
// Checked: at the end every integer holds the number of increments that its worker made.
// Source:  thesis, appendix A.1, first restriction (one thread of a process runs transactions) and
//          section 4.4 (independent transactions).
#include <algorithm>
#include <array>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

constexpr std::uint64_t kPagesEach = 16, kWordsPerPage = kPageBytes / sizeof(std::uint64_t);
constexpr std::uint32_t kPassesOfLong = 20;
constexpr int kWarmUps = 64;

struct Work {
  const char *name;
  std::uint64_t transactions, transactions_tiny;  // of each worker
};
constexpr std::array<Work, 3> kWorks = {
    {{"small", 100'000, 100}, {"wide", 20'000, 100}, {"long", 20'000, 20}}};

struct Way {
  const char *name;
  unsigned processes, threads;  // threads of each process
  ThreadViewUse views;
};
constexpr std::array<Way, 6> kWays = {{
    {"1 thread, process's view", 1, 1, ThreadViewUse::kNever},
    {"1 thread, own view", 1, 1, lab::kOwnViewAlways},
    {"2 threads, one after the other", 1, 2, ThreadViewUse::kNever},
    {"2 threads, own views", 1, 2, lab::kOwnViewAlways},
    {"2 threads, auto", 1, 2, ThreadViewUse::kAuto},
    {"2 processes", 2, 1, ThreadViewUse::kNever},
}};
constexpr std::size_t kAlone = 0, kOwnViews = 3, kProcesses = 5;  // what speedups are taken of
static_assert(kWays[kAlone].processes == 1 && kWays[kAlone].threads == 1);
static_assert(kWays[kOwnViews].threads == 2 && kWays[kOwnViews].views == lab::kOwnViewAlways);
static_assert(kWays[kProcesses].processes == 2 && kWays[kProcesses].threads == 1);
constexpr unsigned kWorkersMax = 2;
static_assert(std::ranges::all_of(kWays, [](const Way &way) {
  return way.processes * way.threads <= kWorkersMax;  // each has pages of its own
}));

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  double scale = 1;
};

using Key = std::tuple<std::string, const Work *, const Way *>;

class ThreadsBench {
 public:
  explicit ThreadsBench(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (options_.common.tiny) options_.rounds = 1;
  }

  int run() {
    std::vector<Mode> modes = available_modes(scratch_.path());
    // Threads have no views of their own where instances lock their pages.
    std::erase_if(modes, [](const Mode &mode) { return mode.detection == Detection::kLocking; });
    if (modes.empty()) return skipped("no tracking mode is available");
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["rounds"] = options_.rounds;
    parameters["scale"] = options_.scale;
    Report report("threads", environment(scratch_.path()), parameters);
    report.print_head();
    struct Case {
      const Mode *mode;
      const Work *work;
      const Way *way;
    };
    std::vector<Case> all;
    for (const Work &work : kWorks)
      for (const Mode &mode : modes)
        for (const Way &way : kWays) all.push_back({&mode, &work, &way});
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      for (const Case &each : all)
        samples_[{each.mode->name, each.work, each.way}].push_back(
            measure(*each.mode, *each.work, *each.way));
      std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(7 % all.size()),
                  all.end());
    }
    for (const Work &work : kWorks) print(work, modes, &report);
    std::printf("\nevery integer holds its worker's increments\n");
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  // Where every instance touches its pages for the first time it takes a hundred times as long.
  [[nodiscard]] std::uint64_t transactions(const Mode &mode, const Work &work) const {
    if (options_.common.tiny) return work.transactions_tiny;
    const double scale = mode.keeps_pages ? options_.scale : options_.scale / 20;
    return std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(static_cast<double>(work.transactions) * scale));
  }

  static void transact(const Site &site, field<std::uint64_t> *own, const Work &work) {
    TMH_ASSERT(own != nullptr);
    atomically(site, [&](Fields) {
      switch (work.name[0]) {
        case 's':
          ++own[0];
          break;
        case 'w':
          for (std::uint64_t page = 0; page < kPagesEach; ++page) ++own[page * kWordsPerPage];
          break;
        default:
          for (std::uint32_t pass = 0; pass < kPassesOfLong; ++pass)
            for (std::uint64_t i = 0; i < kWordsPerPage; ++i) ++own[i];
      }
    });
  }

  // Of one worker's first integer.
  [[nodiscard]] std::uint64_t expected(const Mode &mode, const Work &work) const {
    return (transactions(mode, work) + kWarmUps) * (work.name[0] == 'l' ? kPassesOfLong : 1);
  }

  void run_process(const Mode &mode, const Work &work, const Way &way, const std::string &folder,
                   unsigned index, const TeamClock &clock) const {
    TMH_ASSERT(index < way.processes);
    DomainOptions options;
    options.tracking = mode.tracking;
    options.policies.detection = mode.detection;
    options.policies.thread_views = way.views;
    const Domain domain = Domain::open(folder, options);
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = kWorkersMax * kPagesEach * kPageBytes;
    const Segment segment = domain.map("input.db", raw);
    const Site site(domain, work.name);
    auto *words = reinterpret_cast<field<std::uint64_t> *>(segment.data());
    std::barrier ready(static_cast<std::ptrdiff_t>(way.threads)),
        done(static_cast<std::ptrdiff_t>(way.threads));
    const auto worker = [&](unsigned thread) {
      field<std::uint64_t> *own =
          words + (index * way.threads + thread) * kPagesEach * kWordsPerPage;
      for (int i = 0; i < kWarmUps; ++i) transact(site, own, work);
      ready.arrive_and_wait();
      // The others of this process begin at the end of the next line.
      if (thread == 0) clock.start();
      ready.arrive_and_wait();
      for (std::uint64_t i = 0; i < transactions(mode, work); ++i) transact(site, own, work);
      done.arrive_and_wait();
      if (thread == 0) clock.finish();
    };
    std::vector<std::thread> others;
    for (unsigned t = 1; t < way.threads; ++t) others.emplace_back(worker, t);
    worker(0);
    for (std::thread &other : others) other.join();
    for (unsigned t = 0; t < way.threads; ++t) {
      const std::uint64_t count = query(domain, [&] {
        return words[(index * way.threads + t) * kPagesEach * kWordsPerPage].load();
      });
      if (count != expected(mode, work)) throw std::runtime_error("an integer holds a wrong count");
    }
    const std::uint64_t in_views = domain.counters().thread_view_instances;
    if ((way.views == lab::kOwnViewAlways) != (in_views != 0) && way.views != ThreadViewUse::kAuto)
      throw std::runtime_error("the instances did not run where they should");
    clock.meet();
  }

  // Microseconds per transaction of all workers together.
  double measure(const Mode &mode, const Work &work, const Way &way) {
    const std::string folder = scratch_.subfolder("domain-" + std::to_string(measured_++));
    const double ns = run_team_ns(way.processes, [&](unsigned index, const TeamClock &clock) {
      run_process(mode, work, way, folder, index, clock);
    });
    return ns / 1000.0 /
           static_cast<double>(transactions(mode, work) * way.processes * way.threads);
  }

  void print(const Work &work, const std::vector<Mode> &modes, Report *report) const {
    TMH_ASSERT(report != nullptr && !modes.empty());
    std::vector<std::string> head = {"mode"};
    for (const Way &way : kWays) head.emplace_back(way.name);
    head.emplace_back("own views: speedup");
    head.emplace_back("processes: speedup");
    Table table(std::move(head));
    for (const Mode &mode : modes) {
      std::vector<std::string> row = {mode.name};
      const auto of = [&](std::size_t way) -> const std::vector<double> & {
        return samples_.at({mode.name, &work, &kWays[way]});
      };
      for (std::size_t way = 0; way < kWays.size(); ++way) {
        const Summary us = summarize(of(way));
        row.push_back(with_mad(us));
        Json line;
        line["work"] = work.name;
        line["mode"] = mode.name;
        line["way"] = kWays[way].name;
        put(line, "us_per_transaction", us);
        report->add("threads", std::move(line));
      }
      row.push_back(with_mad(summarize_ratio(of(kAlone), of(kOwnViews))));
      row.push_back(with_mad(summarize_ratio(of(kAlone), of(kProcesses))));
      table.add(std::move(row));
    }
    std::printf(
        "\n%s: microseconds per transaction of all workers, median ±MAD %% of %zu rounds; speedup "
        "against one thread\n",
        work.name, options_.rounds);
    table.print();
  }

  Options options_;
  ScratchFolder scratch_;
  std::map<Key, std::vector<double>> samples_;
  std::uint64_t measured_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("Instances of level 2 in the threads of one process", "threads");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str();
  app.add_option("--scale", options.scale, "times the number of transactions")
      .capture_default_str();
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::ThreadsBench(options).run(); });
}
