// bench/long_query.cpp -- memory and correctness while one query stays open under a stream of
// commits.
// Shape:   processes in one domain.
//          reader   begins a query, reads the even pages, then waits; at the end it reads all
//                   pages, the odd ones for the first time, and must see every page as it was at
//                   its begin
//          writer   --commits transactions of --pages-per-commit random pages, spread evenly over
//                   --seconds (paced: that gives a series over time; --burst runs them as fast as
//                   possible, then idles until the time is over)
//          monitor  samples versions held, memory of both processes and disk blocks of the domain's
//                   folder
//          Before, the same writer runs a tenth of the commits with no query open: the baseline of
//          a commit's cost.
// Checked: the query neither aborts nor sees a change; afterwards a new query sees the writer's
//          last values; versions held fall back once the query has ended.
// Bound:   a snapshot needs at most one old version of every page, and one version can be in the
//          making per process. versions_per_page tells how near that is: 1 is what the one query
//          needs.
// Source:  thesis, section 3.3 (garbage collection); 2.3 (queries
//          never abort).
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <type_traits>
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
  std::uint64_t commits = 100'000;
  std::uint32_t pages = 4'096;
  std::uint32_t pages_per_commit = 4;
  unsigned writers = 1;
  double sample_seconds = 1;
  bool burst = false;
  std::string modes;  // names; empty: the first that is available
};

// In memory shared by all processes.
struct Progress {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                std::atomic<std::int32_t>::is_always_lock_free);
  std::atomic<bool> reader_ready{false}, reader_done{false};
  std::atomic<unsigned> writers_left{0};
  std::atomic<std::uint64_t> committed{0}, attempts{0};
  std::atomic<std::int32_t> reader_pid{0}, writer_pid{0};  // of the first writer
  double commit_us_median = 0, commit_us_max = 0;          // of the first writer
  std::uint64_t snapshot_hash = 0, final_hash = 0;
  std::uint64_t queries = 0;
  double query_s = 0;
};

struct Sample {
  double seconds = 0;
  std::uint64_t commits = 0, versions = 0, version_bytes = 0, disk_bytes = 0;
  ProcessMemory reader, writer;
};

static_assert(std::is_trivially_copyable_v<Sample>);  // processes share them, too

constexpr std::uint32_t kWordsPerPage = kPageBytes / sizeof(std::uint64_t);

std::uint64_t *page_words(std::byte *data, std::uint64_t page) {
  TMH_ASSERT(data != nullptr);
  return reinterpret_cast<std::uint64_t *>(data + page * kPageBytes);
}
std::uint64_t initial_value(std::uint64_t page) { return page * 0x9e3779b97f4a7c15ULL; }

// Waits for shared state to change. Not an event of the engine's: a pause of 1 ms keeps the core
// free for the others.
template <class T>
void wait_until(const std::atomic<T> &word, T wanted) {
  // Acquire: pairs with the setter's release.
  while (word.load(std::memory_order_acquire) != wanted) {
    const timespec pause{0, 1'000'000};
    (void)::nanosleep(&pause, nullptr);
  }
}

void sleep_until_ns(std::int64_t time_ns) {
  TMH_ASSERT(time_ns >= 0);
  const timespec time{time_ns / 1'000'000'000, time_ns % 1'000'000'000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {
  }
}

class LongQuery {
 public:
  explicit LongQuery(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (!options_.common.tiny) return;
    options_.seconds = 0.5;
    options_.commits = 500;
    options_.pages = 256;
    options_.sample_seconds = 0.1;
  }

  int run() {
    std::vector<Mode> modes;
    for (const Mode &mode : available_modes(scratch_.path())) {
      const bool named =
          ("," + options_.modes + ",").find("," + mode.name + ",") != std::string::npos;
      if (options_.modes.empty() ? modes.empty() : named || options_.modes == "all")
        modes.push_back(mode);
    }
    if (modes.empty()) return skipped("no tracking mode, or none of those named, is available");
    Report report("long_query", environment(scratch_.path()), parameters());
    report.print_head();
    bool right = true;
    for (const Mode &mode : modes) right = run_mode(mode, &report) && right;
    std::printf("\nresult hash %s\n", hex(hash_.value()).c_str());
    report.note("result_hash", hex(hash_.value()));
    report.write(options_.common.csv, options_.common.json);
    return right ? 0 : 1;
  }

 private:
  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["seed"] = options_.common.seed;
    all["seconds"] = options_.seconds;
    all["commits"] = options_.commits;
    all["pages"] = options_.pages;
    all["pages_per_commit"] = options_.pages_per_commit;
    all["writers"] = options_.writers;
    all["pace"] = options_.burst ? "burst" : "even";
    return all;
  }

  Segment map(const Domain &domain) const {
    SegmentOptions options;
    options.size_bytes = std::uint64_t{options_.pages} * kPageBytes;
    options.layout = Layout::kRaw;
    return domain.map("pages", options);
  }

  // A page is right when all its words hold `value`; the hash depends on the values only.
  static void check_page(std::byte *data, std::uint64_t page, std::uint64_t value) {
    const std::uint64_t *words = page_words(data, page);
    for (std::uint32_t i = 0; i < kWordsPerPage; ++i) {
      if (words[i] != value) {
        throw std::runtime_error("page " + std::to_string(page) + ", word " + std::to_string(i) +
                                 " holds another version");
      }
    }
  }

  void fill(const Mode &mode, const std::string &folder) const {
    run_alone([&] {
      Domain domain = open_domain(mode, folder);
      const Segment segment = map(domain);
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < options_.pages; ++page) {
          std::fill_n(page_words(segment.data(), page), kWordsPerPage, initial_value(page));
        }
      });
    });
  }

  // --- The processes
  // -----------------------------------------------------------------------------------------------

  void read_slowly(const Mode &mode, const std::string &folder, Progress *progress) const {
    TMH_ASSERT(progress != nullptr);
    Domain domain = open_domain(mode, folder);
    const Segment segment = map(domain);
    progress->reader_pid = ::getpid();
    const std::int64_t start = now_ns();
    domain.begin_query();
    for (std::uint64_t page = 0; page < options_.pages; page += 2)
      check_page(segment.data(), page, initial_value(page));
    // Pairs with wait_until in the writer.
    progress->reader_ready.store(true, std::memory_order_release);
    wait_until(progress->writers_left, 0U);
    ResultHash hash;
    for (std::uint64_t page = 0; page < options_.pages; ++page) {
      check_page(segment.data(), page, initial_value(page));
      hash.add(page_words(segment.data(), page)[0]);
    }
    domain.end_query();  // throws if the query was ended for it
    progress->query_s = static_cast<double>(now_ns() - start) / 1e9;
    progress->snapshot_hash = hash.value();
    progress->reader_done.store(true, std::memory_order_release);  // pairs with the monitor's load
  }

  // Each writer has its own pages by chance, out of all.
  [[nodiscard]] Random choices_of(unsigned writer) const {
    TMH_ASSERT(writer < options_.writers);
    return Random(options_.common.seed + writer);
  }

  // A commit adds 1 to the value of each page that it writes: what is there at the end does not
  // depend on the order.
  void write_paced(const Mode &mode, const std::string &folder, unsigned writer, Progress *progress,
                   std::uint64_t commits, double seconds) const {
    TMH_ASSERT(progress != nullptr && seconds >= 0);
    Domain domain = open_domain(mode, folder);
    const Segment segment = map(domain);
    if (writer == 0) progress->writer_pid = ::getpid();
    Random random = choices_of(writer);
    std::uint64_t attempts = 0;
    std::vector<double> commit_us;
    commit_us.reserve(commits);
    const std::int64_t start = now_ns();
    for (std::uint64_t i = 1; i <= commits; ++i) {
      if (seconds > 0) {
        sleep_until_ns(start + static_cast<std::int64_t>(seconds * 1e9 * static_cast<double>(i) /
                                                         static_cast<double>(commits)));
      }
      std::vector<std::uint64_t> pages(options_.pages_per_commit);
      for (std::uint64_t &page : pages) page = random.below(options_.pages);
      const std::int64_t begun = now_ns();
      atomically(domain, [&] {
        ++attempts;
        for (const std::uint64_t page : pages) {
          std::uint64_t *words = page_words(segment.data(), page);
          // Load and store in one instruction: the page's first touch is the store.
          const std::uint64_t value =
              std::atomic_ref(words[0]).fetch_add(1, std::memory_order_relaxed) + 1;
          std::fill_n(words + 1, kWordsPerPage - 1, value);
        }
      });
      commit_us.push_back(static_cast<double>(now_ns() - begun) / 1000);
      progress->committed.fetch_add(1, std::memory_order_relaxed);  // relaxed: a number to show
    }
    progress->attempts.fetch_add(attempts, std::memory_order_relaxed);  // as above
    if (writer != 0) return;
    const Summary us = summarize(std::move(commit_us));
    progress->commit_us_median = us.median;
    progress->commit_us_max = us.max;
  }

  // Of all commits, the first writers have one more each where they cannot be shared evenly.
  [[nodiscard]] std::uint64_t commits_of(unsigned writer) const {
    TMH_ASSERT(writer < options_.writers);
    return options_.commits / options_.writers +
           (writer < options_.commits % options_.writers ? 1 : 0);
  }

  // What the writers leave.
  [[nodiscard]] std::vector<std::uint64_t> final_values() const {
    std::vector<std::uint64_t> values(options_.pages);
    for (std::uint64_t page = 0; page < options_.pages; ++page) values[page] = initial_value(page);
    for (unsigned writer = 0; writer < options_.writers; ++writer) {
      Random random = choices_of(writer);
      for (std::uint64_t i = 0; i < commits_of(writer) * options_.pages_per_commit; ++i)
        ++values[random.below(options_.pages)];
    }
    return values;
  }

  Sample sample(const Domain &domain, const Progress &progress, std::int64_t start,
                const std::string &folder) const {
    Sample one;
    const Counters counters = domain.counters();
    one.seconds = static_cast<double>(now_ns() - start) / 1e9;
    one.commits = progress.committed.load(std::memory_order_relaxed);  // relaxed: a number to show
    one.versions = counters.versions_live;
    one.version_bytes = counters.versions_bytes;
    one.disk_bytes = folder_bytes(folder);
    one.reader = process_memory(progress.reader_pid);
    one.writer = process_memory(progress.writer_pid);
    return one;
  }

  void monitor(const Mode &mode, const std::string &folder, Progress *progress, Sample *samples,
               std::uint64_t *sample_count, std::uint64_t sample_count_max) const {
    TMH_ASSERT(progress != nullptr && samples != nullptr && sample_count != nullptr);
    Domain domain = open_domain(mode, folder);
    const Segment segment = map(domain);
    wait_until(progress->reader_ready, true);
    const std::int64_t start = now_ns();
    const auto interval = static_cast<std::int64_t>(options_.sample_seconds * 1e9);
    for (std::int64_t next = start; !progress->reader_done.load(std::memory_order_acquire);
         next += interval) {
      if (*sample_count + 1 < sample_count_max)
        samples[(*sample_count)++] = sample(domain, *progress, start, folder);
      while (now_ns() < next + interval && !progress->reader_done.load(std::memory_order_acquire)) {
        const timespec pause{0, 10'000'000};
        (void)::nanosleep(&pause, nullptr);
      }
    }
    // Once the query is over, its versions may go.
    (void)domain.collect();
    TMH_ASSERT(*sample_count < sample_count_max);
    samples[(*sample_count)++] = sample(domain, *progress, start, folder);
    const std::vector<std::uint64_t> expected = final_values();
    ResultHash hash;
    query(domain, [&] {
      for (std::uint64_t page = 0; page < options_.pages; ++page) {
        check_page(segment.data(), page, expected[page]);
        hash.add(expected[page]);
      }
    });
    progress->final_hash = hash.value();
    progress->queries = domain.counters().queries;
  }

  // --- A mode
  // -----------------------------------------------------------------------------------------------

  bool run_mode(const Mode &mode, Report *report) {
    TMH_ASSERT(report != nullptr && options_.seconds > 0 && options_.sample_seconds > 0);
    const Shared<Progress> baseline, progress;
    const std::string quiet = scratch_.subfolder("quiet-" + mode.name),
                      folder = scratch_.subfolder(mode.name);
    fill(mode, quiet);
    // At the same pace: a writer that sleeps between commits finds colder caches than one that does
    // not.
    const double quiet_seconds = options_.burst ? 0 : options_.seconds / 10;
    run_alone([&] { write_paced(mode, quiet, 0, &*baseline, commits_of(0) / 10, quiet_seconds); });
    fill(mode, folder);

    const auto sample_count_max =
        static_cast<std::uint64_t>(100 * options_.seconds / options_.sample_seconds) + 100;
    const SharedMemory memory(sample_count_max * sizeof(Sample));
    auto *samples = static_cast<Sample *>(memory.data());
    const Shared<std::uint64_t> sample_count;
    progress->writers_left = options_.writers;
    (void)run_team_ns(2 + options_.writers, [&](unsigned index, const TeamClock &clock) {
      clock.start();
      if (index == 0) read_slowly(mode, folder, &*progress);
      if (index == 1) monitor(mode, folder, &*progress, samples, &*sample_count, sample_count_max);
      if (index < 2) return;
      wait_until(progress->reader_ready, true);
      const std::int64_t start = now_ns();
      const unsigned writer = index - 2;
      write_paced(mode, folder, writer, &*progress, commits_of(writer),
                  options_.burst ? 0 : options_.seconds);
      sleep_until_ns(start + static_cast<std::int64_t>(options_.seconds * 1e9));
      // Pairs with wait_until in the reader.
      progress->writers_left.fetch_sub(1, std::memory_order_release);
    });
    const std::vector<Sample> series(samples, samples + *sample_count);
    print(mode, series, *baseline, *progress, report);
    hash_.add(progress->snapshot_hash);
    hash_.add(progress->final_hash);
    return progress->snapshot_hash != 0 && progress->final_hash != 0;
  }

  void print(const Mode &mode, const std::vector<Sample> &series, const Progress &baseline,
             const Progress &progress, Report *report) const {
    TMH_ASSERT(report != nullptr && !series.empty());
    const auto mib = [](std::uint64_t bytes) {
      return number(static_cast<double>(bytes) / (1 << 20));
    };
    Table table({"seconds", "commits", "versions", "versions MiB", "reader RSS MiB", "anon",
                 "writer RSS MiB", "anon", "folder MiB"});
    Sample peak;
    const std::size_t step = std::max<std::size_t>(1, series.size() / 16);  // the CSV has them all
    for (std::size_t i = 0; i < series.size(); ++i) {
      const Sample &one = series[i];
      peak.versions = std::max(peak.versions, one.versions);
      peak.version_bytes = std::max(peak.version_bytes, one.version_bytes);
      peak.disk_bytes = std::max(peak.disk_bytes, one.disk_bytes);
      peak.reader.resident_bytes = std::max(peak.reader.resident_bytes, one.reader.resident_bytes);
      peak.writer.resident_bytes = std::max(peak.writer.resident_bytes, one.writer.resident_bytes);
      Json row;
      row["mode"] = mode.name;
      row["seconds"] = one.seconds;
      row["committed"] = one.commits;
      row["versions_live"] = one.versions;
      row["versions_bytes"] = one.version_bytes;
      row["reader_resident_bytes"] = one.reader.resident_bytes;
      row["reader_anon_bytes"] = one.reader.anon_bytes;
      row["writer_resident_bytes"] = one.writer.resident_bytes;
      row["writer_anon_bytes"] = one.writer.anon_bytes;
      row["folder_bytes"] = one.disk_bytes;
      report->add("series", std::move(row));
      if (i % step != 0 && i + 1 < series.size()) continue;
      table.add({number(one.seconds), std::to_string(one.commits), std::to_string(one.versions),
                 mib(one.version_bytes), mib(one.reader.resident_bytes), mib(one.reader.anon_bytes),
                 mib(one.writer.resident_bytes), mib(one.writer.anon_bytes), mib(one.disk_bytes)});
    }
    std::printf("\n%s: one query under %llu commits of %u pages by %u writer%s\n",
                mode.name.c_str(), static_cast<unsigned long long>(options_.commits),
                options_.pages_per_commit, options_.writers, options_.writers == 1 ? "" : "s");
    table.print();
    const std::uint64_t bound =
        (std::uint64_t{options_.pages} + (2ULL + options_.writers) * options_.pages_per_commit) *
        kPageBytes;
    std::printf(
        "query open for %.1f s, did not abort, saw its snapshot; %llu commits in %llu attempts\n",
        progress.query_s, static_cast<unsigned long long>(options_.commits),
        static_cast<unsigned long long>(progress.attempts.load(std::memory_order_relaxed)));
    const double per_page = static_cast<double>(peak.versions) / options_.pages;
    std::printf("versions per page with %u writer%s: at most %s\n", options_.writers,
                options_.writers == 1 ? "" : "s", number(per_page).c_str());
    std::printf(
        "peak: %llu versions, %s MiB (one old version of every page: %s MiB); reader RSS %s MiB, "
        "writer RSS %s MiB, "
        "folder %s MiB\n",
        static_cast<unsigned long long>(peak.versions), mib(peak.version_bytes).c_str(),
        mib(bound).c_str(), mib(peak.reader.resident_bytes).c_str(),
        mib(peak.writer.resident_bytes).c_str(), mib(peak.disk_bytes).c_str());
    std::printf("after the query: %llu versions\n",
                static_cast<unsigned long long>(series.back().versions));
    std::printf("commit: median %s us, max %s us; with no query open: median %s us, max %s us\n",
                number(progress.commit_us_median).c_str(), number(progress.commit_us_max).c_str(),
                number(baseline.commit_us_median).c_str(), number(baseline.commit_us_max).c_str());
    Json row;
    row["mode"] = mode.name;
    row["query_seconds"] = progress.query_s;
    row["versions_peak"] = peak.versions;
    row["versions_bytes_peak"] = peak.version_bytes;
    row["versions_per_page_peak"] = per_page;
    row["versions_bytes_bound"] = bound;
    row["versions_after"] = series.back().versions;
    row["reader_resident_bytes_peak"] = peak.reader.resident_bytes;
    row["writer_resident_bytes_peak"] = peak.writer.resident_bytes;
    row["folder_bytes_peak"] = peak.disk_bytes;
    row["commit_us_median"] = progress.commit_us_median;
    row["commit_us_max"] = progress.commit_us_max;
    row["baseline_commit_us_median"] = baseline.commit_us_median;
    row["baseline_commit_us_max"] = baseline.commit_us_max;
    report->add("summary", std::move(row));
  }

  Options options_;
  ScratchFolder scratch_;
  ResultHash hash_;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app(
      "Memory and snapshot of a query that stays open under a stream of commits", "long_query");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--seconds", options.seconds, "how long the query stays open")
      .capture_default_str()
      .check_positive();
  app.add_option("--commits", options.commits, "commits meanwhile").capture_default_str();
  app.add_option("--pages", options.pages, "pages of the segment").capture_default_str();
  app.add_option("--pages-per-commit", options.pages_per_commit, "pages that a commit writes")
      .capture_default_str();
  app.add_option("--writers", options.writers,
                 "processes that share the commits, on the same pages")
      .capture_default_str()
      .check_range(1, tmh::bench::kTeamMembersMax - 2);
  app.add_option("--sample-seconds", options.sample_seconds, "between two samples")
      .capture_default_str()
      .check_positive();
  app.add_flag("--burst", options.burst, "commit as fast as possible, then idle");
  app.add_option("--modes", options.modes,
                 "comma-separated tracking modes, or all (default: the best one)");
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::LongQuery(options).run(); });
}
