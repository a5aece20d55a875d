// bench/page_cache.cpp -- what the page cache of snapshot isolation costs and saves: execution time
// and memory by which own copies of pages stay.
// Shape:   each process has a hot window of pages, from which nine of ten accesses are drawn, the
//          first pages of it most often; the others go anywhere. The window moves on every so many
//          transactions, into pages that another process has had before. So a copy is of use while
//          the window is there, and is only brought to the present afterwards. A transaction reads
//          and increments words on pages of their own. A round runs every policy once, each in a
//          fresh domain; baseline: serializable, which has no page cache.
// Checked: the segment's content at the end, which is the same for every policy: increments
//          commute, and a lost one shows.
// Memory:  own copies and their twins at the ends of a tenth of the transactions each, while all
//          workers wait: the most, and the mean.
// Source:  EXCITE-VM, section 6.2.2, figures 4 and 5.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tmh/transaction.hpp>

#include "bench/support/clock.h"
#include "bench/support/keep.h"
#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "examples/workloads/random.hpp"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 3;
  // 16 MiB; a window of 1 MiB.
  std::uint64_t pages = 4'096, hot_pages = 256;
  // Of all processes together.
  std::uint64_t transactions = 200'000;
  // Each page of a window is written 35 times while it is there, and a process comes to the other
  // one's first pages after 20,000.
  std::uint64_t move_every = 2'500;
  unsigned reads = 8, writes = 4;
  double theta = 0.6;
  std::vector<unsigned> processes = {1, 2};
  std::vector<std::string> policies = {"serializable", "scan=100", "scan=1000", "scan=10000",
                                       "scan=100000",  "adaptive", "8MiB",      "all"};
};

constexpr const char *kSerializable = "serializable";
constexpr std::uint64_t kHotPercent = 90;
constexpr std::uint64_t kWordsPerPage = kPageBytes / sizeof(std::uint64_t);
constexpr unsigned kLooks = 10;
constexpr unsigned kAccessesMax = 64;
static_assert(kAccessesMax == 64, "check_options() says so");
constexpr double kMebibyte = 1 << 20;

// Written by the observer, read by the parent.
struct Outcome {
  Counters before, after;
  std::array<std::uint64_t, kLooks> pages_held;
};

struct Result {
  std::vector<double> us, held_most_mib, held_mean_mib, replays, evictions, faults, retries;
};

struct Configuration {
  std::string policy;
  unsigned processes = 1;
  friend auto operator<=>(const Configuration &, const Configuration &) = default;
};

// The accesses of one process.
class Walk {
 public:
  Walk(const Options &options, unsigned index)
      : options_(options),
        hot_(options.hot_pages, options.theta),
        random_(options.common.seed + 977 * index),
        window_(index * (options.pages / 2)) {
    TMH_ASSERT(options.reads + options.writes <= kAccessesMax && options.move_every > 0);
    // A transaction's pages are all different, and nine of ten of the window.
    TMH_ASSERT(options.reads + options.writes <= options.hot_pages);
    TMH_ASSERT(options.hot_pages <= options.pages);
  }

  // Pages of the next transaction, all different: those to read first.
  [[nodiscard]] const std::array<std::uint64_t, kAccessesMax> &next() {
    if (++transactions_ % options_.move_every == 0)
      window_ = (window_ + options_.hot_pages) % options_.pages;
    const unsigned count = options_.reads + options_.writes;
    for (unsigned i = 0; i < count;) {
      const bool is_hot = random_.below(100) < kHotPercent;
      const std::uint64_t page =
          is_hot ? (window_ + hot_.next(random_)) % options_.pages : random_.below(options_.pages);
      const auto end = pages_.begin() + i;
      if (std::find(pages_.begin(), end, page) == end) pages_[i++] = page;
    }
    return pages_;
  }
  [[nodiscard]] std::uint64_t word() { return random_.below(kWordsPerPage); }

 private:
  const Options &options_;
  workloads::Zipfian hot_;
  Random random_;
  std::uint64_t window_, transactions_ = 0;
  std::array<std::uint64_t, kAccessesMax> pages_{};
};

class PageCacheBench {
 public:
  explicit PageCacheBench(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (!options_.common.tiny) return;
    options_.rounds = 1;
    options_.pages = 128;
    options_.hot_pages = 16;
    options_.transactions = 400;
    options_.move_every = 40;
    options_.policies = {kSerializable, "scan=10", "scan=100", "adaptive", "1MiB", "all"};
  }

  int run() {
    check_options();
    const std::vector<Mode> modes = available_modes(scratch_.path());
    if (modes.empty()) return skipped("no tracking mode is available");
    mode_ = modes.front();
    Report report("page_cache", environment(scratch_.path()), parameters());
    report.print_head();
    std::vector<Configuration> all;
    for (const unsigned processes : options_.processes)
      for (const std::string &policy : options_.policies) all.push_back({policy, processes});
    for (std::size_t round = 0; round < options_.rounds; ++round)
      for (std::size_t i = 0; i < all.size(); ++i) measure(all[(i + round * 5) % all.size()]);
    print(&report);
    ResultHash hash;
    for (const auto &entry : contents_) hash.add(entry.second);
    std::printf("\nresult hash %s, the same content under every policy\n",
                hex(hash.value()).c_str());
    report.note("result_hash", hex(hash.value()));
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  void check_options() const {
    const std::uint64_t accesses = std::uint64_t{options_.reads} + options_.writes;
    if (accesses > kAccessesMax || accesses > options_.hot_pages)
      throw std::runtime_error("--reads and --writes are at most 64 and at most --hot-pages");
    if (options_.hot_pages > options_.pages)
      throw std::runtime_error("--hot-pages is at most --pages");
    if (!(options_.theta >= 0 && options_.theta < 1))
      throw std::runtime_error("--theta is at least 0 and below 1");
  }

  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["seed"] = options_.common.seed;
    all["rounds"] = options_.rounds;
    all["tracking"] = mode_.name;
    all["pages"] = options_.pages;
    all["hot_pages"] = options_.hot_pages;
    all["transactions"] = options_.transactions;
    all["move_every"] = options_.move_every;
    all["reads"] = options_.reads;
    all["writes"] = options_.writes;
    all["theta"] = options_.theta;
    return all;
  }

  [[nodiscard]] Segment map(const Domain &domain) const {
    SegmentOptions options;
    options.size_bytes = options_.pages * kPageBytes;
    options.layout = Layout::kRaw;
    return domain.map("working-set", options);
  }
  [[nodiscard]] static std::uint64_t *page_of(const Segment &segment, std::uint64_t page) {
    TMH_ASSERT(page < segment.size_bytes() / kPageBytes);
    return reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
  }

  [[nodiscard]] Domain open(const Configuration &configuration, const std::string &folder) const {
    Mode mode = mode_;
    const bool is_serializable = configuration.policy == kSerializable;
    mode.isolation = is_serializable ? Isolation::kSerializable : Isolation::kSnapshot;
    return open_domain(mode, folder,
                       is_serializable ? "isolation=serializable"
                                       : "isolation=snapshot,page-cache=" + configuration.policy);
  }

  void measure(const Configuration &configuration) {
    TMH_ASSERT(configuration.processes >= 1 && configuration.processes < kTeamMembersMax);
    const std::string folder = scratch_.subfolder("domain-" + std::to_string(measured_++));
    const Shared<Outcome> outcome;
    const Shared<std::uint64_t> content;
    run_alone([&] {  // blocks and page table entries of home are not what is measured
      Domain domain = open(configuration, folder);
      const Segment segment = map(domain);
      for (std::uint64_t page = 0; page < options_.pages; page += options_.hot_pages) {
        atomically(domain, [&] {
          const std::uint64_t end = std::min(options_.pages, page + options_.hot_pages);
          for (std::uint64_t each = page; each < end; ++each) page_of(segment, each)[0] = 1;
        });
      }
    });
    const std::uint64_t own = options_.transactions / configuration.processes;
    const double ns =
        run_team_ns(configuration.processes + 1, [&](unsigned index, const TeamClock &clock) {
          Domain domain = open(configuration, folder);
          const Segment segment = map(domain);
          if (index == configuration.processes) {
            observe(domain, clock, &*outcome);
            query(domain, [&] { *content = hash_of(segment); });
          } else {
            work(domain, segment, index, own, clock);
          }
        });
    note(configuration, ns, own, *outcome);
    check(configuration, *content);
  }

  void work(Domain &domain, const Segment &segment, unsigned index, std::uint64_t count,
            const TeamClock &clock) const {
    Walk walk(options_, index);
    std::uint64_t seen = 0;
    clock.start();
    for (std::uint64_t i = 0, look = 1; look <= kLooks; ++look) {
      for (; i < count * look / kLooks; ++i) {
        const auto &pages = walk.next();
        const std::uint64_t word = walk.word();
        const std::uint64_t read = atomically(domain, [&] {
          std::uint64_t sum = 0;
          for (unsigned k = 0; k < options_.reads; ++k) sum += page_of(segment, pages[k])[word];
          for (unsigned k = 0; k < options_.writes; ++k)
            page_of(segment, pages[options_.reads + k])[word] += 1;
          return sum;
        });
        seen += read;
      }
      clock.meet();
      clock.meet();
    }
    clock.finish();
    keep(seen);
  }

  // It stays, because totals are kept as long as somebody is there.
  static void observe(const Domain &domain, const TeamClock &clock, Outcome *outcome) {
    TMH_ASSERT(outcome != nullptr);
    outcome->before = domain.counters();
    clock.start();
    for (unsigned look = 0; look < kLooks; ++look) {
      clock.meet();
      outcome->pages_held[look] = domain.counters().page_cache_pages;
      if (look + 1 == kLooks) outcome->after = domain.counters();
      clock.meet();
    }
    clock.finish();
  }

  [[nodiscard]] std::uint64_t hash_of(const Segment &segment) const {
    ResultHash hash;
    for (std::uint64_t page = 0; page < options_.pages; ++page) {
      std::uint64_t sum = 0;
      for (std::uint64_t word = 0; word < kWordsPerPage; ++word)
        sum += page_of(segment, page)[word] * (2 * word + 1);
      hash.add(sum);
    }
    return hash.value();
  }

  void check(const Configuration &configuration, std::uint64_t content) {
    const auto [entry, is_first] = contents_.emplace(configuration.processes, content);
    if (!is_first && entry->second != content)
      throw std::runtime_error(configuration.policy + ", " +
                               std::to_string(configuration.processes) +
                               " processes: another content than before");
  }

  void note(const Configuration &configuration, double ns, std::uint64_t own,
            const Outcome &outcome) {
    TMH_ASSERT(own > 0 && ns > 0);
    const auto transactions = static_cast<double>(own * configuration.processes);
    const auto each = [&](std::uint64_t Counters::*count) {
      return static_cast<double>(outcome.after.*count - outcome.before.*count) / transactions;
    };
    std::uint64_t most = 0, sum = 0;
    for (const std::uint64_t pages : outcome.pages_held) {
      most = std::max(most, pages);
      sum += pages;
    }
    Result &result = results_[configuration];
    result.us.push_back(ns / 1000 / transactions);
    result.held_most_mib.push_back(static_cast<double>(most * kPageBytes) / kMebibyte);
    result.held_mean_mib.push_back(static_cast<double>(sum * kPageBytes) / kLooks / kMebibyte);
    result.replays.push_back(each(&Counters::page_cache_replays));
    result.evictions.push_back(each(&Counters::page_cache_evictions));
    result.faults.push_back(each(&Counters::faults_kernel) + each(&Counters::faults_signal));
    result.retries.push_back(
        static_cast<double>(outcome.after.aborts_total() - outcome.before.aborts_total()) /
        transactions);
  }

  void print(Report *report) const {
    TMH_ASSERT(report != nullptr);
    for (const unsigned processes : options_.processes) {
      Table table({"page cache", "us each", "of all's", "MiB held, most", "mean", "copies replayed",
                   "evicted", "first touches", "retries"});
      const auto all = results_.find({"all", processes});
      for (const std::string &policy : options_.policies) {
        const Result &result = results_.at({policy, processes});
        const Summary us = summarize(result.us);
        const Summary ratio =
            all == results_.end() ? Summary{} : summarize_ratio(result.us, all->second.us);
        const auto median = [](const std::vector<double> &samples) {
          return summarize(samples).median;
        };
        table.add({policy, with_mad(us), number(ratio.median), number(median(result.held_most_mib)),
                   number(median(result.held_mean_mib)), number(median(result.replays)),
                   number(median(result.evictions)), number(median(result.faults)),
                   number(median(result.retries))});
        Json row;
        row["policy"] = policy;
        row["processes"] = processes;
        put(row, "us_per_transaction", us);
        put(row, "mib_held_most", summarize(result.held_most_mib));
        put(row, "mib_held_mean", summarize(result.held_mean_mib));
        row["replays_per_transaction"] = median(result.replays);
        row["evictions_per_transaction"] = median(result.evictions);
        row["faults_per_transaction"] = median(result.faults);
        row["retries_per_transaction"] = median(result.retries);
        report->add("page-cache", std::move(row));
      }
      std::printf(
          "\n%u process%s, %s, a working set of %s MiB, a hot window of %s MiB each; per "
          "transaction\n",
          processes, processes == 1 ? "" : "es", mode_.name.c_str(),
          number(mib(options_.pages)).c_str(), number(mib(options_.hot_pages)).c_str());
      table.print();
    }
  }
  [[nodiscard]] static double mib(std::uint64_t pages) {
    return static_cast<double>(pages * kPageBytes) / kMebibyte;
  }

  Options options_;
  ScratchFolder scratch_;
  Mode mode_;
  std::map<Configuration, Result> results_;
  std::map<unsigned, std::uint64_t> contents_;
  std::uint64_t measured_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("The page cache of snapshot isolation: time and memory by policy",
                              "page_cache");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str()
      .check_positive();
  app.add_option("--pages", options.pages, "pages of the working set")
      .capture_default_str()
      .check_positive();
  app.add_option("--hot-pages", options.hot_pages, "pages of each process's hot window")
      .capture_default_str()
      .check_positive();
  app.add_option("--transactions", options.transactions, "of all processes together")
      .capture_default_str()
      .check_range(tmh::bench::kTeamMembersMax, std::uint64_t{1} << 32);
  app.add_option("--move-every", options.move_every,
                 "transactions of a process after which its window moves on")
      .capture_default_str()
      .check_positive();
  app.add_option("--reads", options.reads, "pages that a transaction reads").capture_default_str();
  app.add_option("--writes", options.writes, "pages that it increments a word of")
      .capture_default_str()
      .check_positive();
  app.add_option("--theta", options.theta, "skew within the window (0: none)")
      .capture_default_str();
  app.add_option("--processes", options.processes, "numbers of processes")
      .delimiter(',')
      .check_range(1, tmh::bench::kTeamMembersMax - 1);
  app.add_option("--policies", options.policies,
                 "serializable, all, adaptive, scan=N or NMiB, comma-separated")
      .delimiter(',');
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::PageCacheBench(options).run(); });
}
