// bench/history.cpp -- memory of a history, and what it costs, under a stream of commits that does
// not end.
// Shape:   processes in one domain, for --seconds: a writer commits without a pause, each time all
//          of --pages-per-commit random pages; a looker runs query_at() at random moments that are
//          held, and checks them; the parent samples what is held. Once without a history (and
//          without a looker), once with one of --bytes.
// Checked: a cell that every commit counts up tells each moment's number of commits, and the pages
//          of a moment hold what was last written up to it. Before-images take at most their bytes,
//          at every sample; the exit status is 1 otherwise.
// Source:  EXCITE-VM, section 3 (queries of the past); docs/history.md.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <tmh/transaction.hpp>

#include "bench/support/clock.h"
#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/process_memory.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  double seconds = 60;
  std::uint64_t mib = 64;
  std::uint32_t pages = 4'096;
  std::uint32_t pages_per_commit = 4;
};

// In memory that all processes share.
struct Progress {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                std::atomic<std::int32_t>::is_always_lock_free);
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> commits{0}, looks{0}, missed{0};
  std::atomic<std::int32_t> writer_pid{0};
  double commit_us_median = 0, look_us_median = 0;
};

struct Sample {
  std::uint64_t held_bytes = 0, version_bytes = 0, span = 0, disk_bytes = 0, writer_bytes = 0;
};

// So much work between two looks at the time.
constexpr std::uint64_t kTimedOne = 64;

class HistoryBench {
 public:
  explicit HistoryBench(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (!options_.common.tiny) return;
    options_.seconds = 0.5;
    options_.mib = 1;
    options_.pages = 256;
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["seed"] = options_.common.seed;
    parameters["seconds"] = options_.seconds;
    parameters["history_mib"] = options_.mib;
    parameters["pages"] = options_.pages;
    parameters["pages_per_commit"] = options_.pages_per_commit;
    Report report("history", environment(scratch_.path()), parameters);
    report.print_head();
    Table table({"history", "commits/s", "commit us", "held MiB at most", "versions MiB",
                 "commits held", "looks", "look us", "writer RSS MiB", "folder MiB"});
    bool is_right = true;
    for (const bool has_history : {false, true}) is_right &= play(has_history, &table, &report);
    table.print();
    report.write(options_.common.csv, options_.common.json);
    return is_right ? 0 : 1;
  }

 private:
  [[nodiscard]] Domain open(const std::string &folder, bool has_history) const {
    DomainOptions options;
    if (has_history) options.history.bytes = options_.mib << 20;
    return Domain::open(folder, options);
  }
  [[nodiscard]] Segment map(const Domain &domain) const {
    SegmentOptions options;
    options.size_bytes = std::uint64_t{options_.pages} * kPageBytes;
    options.layout = Layout::kRaw;
    return domain.map("pages", options);
  }
  static std::uint64_t *words_of(const Segment &segment, std::uint64_t page) {
    TMH_ASSERT(page < segment.size_bytes() / kPageBytes);
    return reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
  }

  // Commit i writes i to the first and the last word of its pages, and to page 0's first.
  void write(const Domain &domain, const Segment &segment, Progress *progress) const {
    TMH_ASSERT(progress != nullptr && options_.pages > 1);
    progress->writer_pid = ::getpid();
    Random random(options_.common.seed);
    std::vector<double> commit_us;
    // relaxed, both: numbers and a flag, which order nothing else
    for (std::uint64_t i = 1; !progress->is_over.load(std::memory_order_relaxed); ++i) {
      std::vector<std::uint64_t> pages(options_.pages_per_commit);
      for (std::uint64_t &page : pages) page = 1 + random.below(options_.pages - 1);
      const std::int64_t begun = i % kTimedOne == 0 ? now_ns() : 0;
      atomically(domain, [&] {
        words_of(segment, 0)[0] = i;
        for (const std::uint64_t page : pages)
          words_of(segment, page)[0] = words_of(segment, page)[kPageBytes / 8 - 1] = i;
      });
      if (begun != 0) commit_us.push_back(static_cast<double>(now_ns() - begun) / 1000);
      progress->commits.store(i, std::memory_order_relaxed);
    }
    if (!commit_us.empty()) progress->commit_us_median = summarize(std::move(commit_us)).median;
  }

  // Only the writer commits: its commit i has the clock `first` + i. A page is whole, and no later
  // than the moment.
  void look(const Domain &domain, const Segment &segment, std::uint64_t first,
            Progress *progress) const {
    TMH_ASSERT(progress != nullptr && options_.pages > 1);
    Random random(options_.common.seed + 1);
    std::vector<double> look_us;
    while (!progress->is_over.load(std::memory_order_relaxed)) {
      const PastInfo past = domain.past();
      const std::uint64_t clock = past.oldest + random.below(past.now - past.oldest + 1);
      const std::int64_t begun = now_ns();
      try {
        query_at(domain, Moment::clock(clock), [&] {
          const std::uint64_t count = words_of(segment, 0)[0];
          if (count != clock - first) throw std::runtime_error("a moment of another commit");
          for (int i = 0; i < 16; ++i) {
            const std::uint64_t *const words =
                words_of(segment, 1 + random.below(options_.pages - 1));
            if (words[0] != words[kPageBytes / 8 - 1] || words[0] > count)
              throw std::runtime_error("a page is not what it was");
          }
        });
        look_us.push_back(static_cast<double>(now_ns() - begun) / 1000);
        progress->looks.fetch_add(1, std::memory_order_relaxed);
      } catch (const Error &error) {
        // The stream went past it meanwhile.
        if (error.errc() != Errc::kNotHeld) throw;
        progress->missed.fetch_add(1, std::memory_order_relaxed);
      }
    }
    if (!look_us.empty()) progress->look_us_median = summarize(std::move(look_us)).median;
  }

  bool play(bool has_history, Table *table, Report *report) {
    TMH_ASSERT(table != nullptr && report != nullptr && options_.seconds > 0);
    const std::string folder = scratch_.subfolder(has_history ? "with" : "without");
    const Shared<Progress> progress;
    const Shared<Sample> peak;
    const unsigned members = has_history ? 3 : 2;
    const Shared<std::uint64_t> first;
    (void)run_team_ns(members, [&](unsigned index, const TeamClock &clock) {
      const Domain domain = open(folder, has_history);
      const Segment segment = map(domain);
      if (index == 0) *first = domain.past().now;
      clock.start();
      if (index == 1) return write(domain, segment, &*progress);
      if (index == 2) return look(domain, segment, *first, &*progress);
      watch(domain, folder, &*progress, &*peak);
    });
    const double per_s = static_cast<double>(progress->commits) / options_.seconds;
    const auto mib = [](std::uint64_t bytes) {
      return number(static_cast<double>(bytes) / (1 << 20));
    };
    const std::string name = has_history ? std::to_string(options_.mib) + " MiB" : "none";
    table->add({name, number(per_s), number(progress->commit_us_median), mib(peak->held_bytes),
                mib(peak->version_bytes), std::to_string(peak->span),
                std::to_string(progress->looks), number(progress->look_us_median),
                mib(peak->writer_bytes), mib(peak->disk_bytes)});
    Json row;
    row["history"] = name;
    row["commits_per_s"] = per_s;
    row["commit_us_median"] = progress->commit_us_median;
    row["held_bytes_peak"] = peak->held_bytes;
    row["versions_bytes_peak"] = peak->version_bytes;
    row["commits_held_peak"] = peak->span;
    row["looks"] = progress->looks.load();
    row["missed"] = progress->missed.load();
    row["look_us_median"] = progress->look_us_median;
    row["writer_resident_bytes_peak"] = peak->writer_bytes;
    row["folder_bytes_peak"] = peak->disk_bytes;
    report->add("history", std::move(row));
    return is_bounded(has_history, *peak);
  }

  // Every 10 ms.
  void watch(const Domain &domain, const std::string &folder, Progress *progress,
             Sample *peak) const {
    TMH_ASSERT(progress != nullptr && peak != nullptr);
    const std::int64_t end = now_ns() + static_cast<std::int64_t>(options_.seconds * 1e9);
    const auto raise = [](std::uint64_t *most, std::uint64_t one) { *most = std::max(*most, one); };
    for (std::uint64_t i = 0; now_ns() < end; ++i) {
      const PastInfo past = domain.past();
      raise(&peak->held_bytes, past.bytes);
      raise(&peak->span, past.now - past.oldest);
      raise(&peak->version_bytes, domain.counters().versions_bytes);
      if (i % 16 == 0) {
        raise(&peak->disk_bytes, folder_bytes(folder));
        raise(&peak->writer_bytes, process_memory(progress->writer_pid).resident_bytes);
      }
      const timespec pause{0, 10'000'000};
      (void)::nanosleep(&pause, nullptr);
    }
    progress->is_over = true;
  }

  // A query of the past may need one before-image of each page, beside the bytes. There is one
  // looker; what its last query needed goes at the next commit.
  [[nodiscard]] bool is_bounded(bool has_history, const Sample &peak) const {
    const std::uint64_t queries = 2 * std::uint64_t{options_.pages} * (kPageBytes + kHeadBytes);
    const std::uint64_t bound = has_history ? (options_.mib << 20) + queries : 0;
    if (peak.held_bytes <= bound) return true;
    std::printf("held: %llu bytes, more than %llu\n",
                static_cast<unsigned long long>(peak.held_bytes),
                static_cast<unsigned long long>(bound));
    return false;
  }

  static constexpr std::uint64_t kHeadBytes = 128;
  Options options_;
  ScratchFolder scratch_;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("Memory and cost of a history under a stream of commits", "history");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--seconds", options.seconds, "how long the stream lasts, twice")
      .capture_default_str()
      .check_positive();
  app.add_option("--mib", options.mib, "bytes of the history, in MiB")
      .capture_default_str()
      .check_range(1, 1u << 17);
  app.add_option("--pages", options.pages, "pages of the segment")
      .capture_default_str()
      .check_range(2, 1u << 24);
  app.add_option("--pages-per-commit", options.pages_per_commit, "pages that a commit writes")
      .capture_default_str()
      .check_range(1, 1u << 12);
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::HistoryBench(options).run(); });
}
