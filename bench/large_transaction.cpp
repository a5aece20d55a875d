// bench/large_transaction.cpp -- one transaction that writes every second page of a large segment.
// Shape:   the pattern that defeats one memory area per page: the kernel allows vm.max_map_count of
//          them (65,530 by default), and areas of alternating protection cannot be merged. Every
//          mode runs it in a process of its own; areas are counted inside the instance, after the
//          last store. Baselines: the same stores on a plain shared mapping, and the thesis's
//          mechanism, which is expected to die of that limit.
// Checked: from a second process, all pages: the even ones written, the odd ones untouched.
// Source:  thesis, appendix A.1 item 4.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>

#include "bench/support/clock.h"
#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/process_memory.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "bench/support/thesis_mechanism.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::uint64_t pages = 200'000;
  std::size_t rounds = 3;
};

// One run, in memory shared with the process that did it.
struct Outcome {
  double touch_ms = 0, end_ms = 0;
  std::uint64_t pages_written = 0;  // so far: how far a process came that died
  std::uint64_t areas = 0;
  std::uint64_t resident_bytes = 0;
  bool committed = false;
  std::uint64_t hash = 0;
};

static_assert(std::is_trivially_copyable_v<Outcome>);

struct Samples {
  std::vector<double> touch_ms, end_ms, total_ms;
  Outcome last;
};

std::uint64_t &word(std::byte *data, std::uint64_t page) {
  TMH_ASSERT(data != nullptr);
  return *reinterpret_cast<std::uint64_t *>(data + page * kPageBytes);
}
// Differs from run to run: all runs write the same file, and a store of what is there already would
// prove nothing.
std::uint64_t value_of(std::uint64_t page, std::uint64_t run) {
  return page * 0x9e3779b97f4a7c15ULL + run;
}

class LargeTransaction {
 public:
  explicit LargeTransaction(Options options)
      : options_(std::move(options)),
        scratch_(options_.common.folder),
        file_(scratch_.path() + "/pages") {
    if (!options_.common.tiny) return;
    options_.pages = 2'000;
    options_.rounds = 1;
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["pages"] = options_.pages;
    parameters["pages_written"] = (options_.pages + 1) / 2;
    parameters["rounds"] = options_.rounds;
    parameters["max_map_count"] = area_count_max();
    Report report("large_transaction", environment(scratch_.path()), parameters);
    report.print_head();
    // One file for all runs, laid out densely: a hole in every second page would measure (and its
    // deletion would pay for) the file system's allocation of as many extents.
    write_page_file(file_, options_.pages);
    const std::vector<Mode> modes = available_modes(scratch_.path());
    std::vector<Samples> engine(modes.size());
    Samples plain, thesis;
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      measure(&plain, [this](Outcome *outcome) { run_plain(outcome); });
      for (std::size_t i = 0; i < modes.size(); ++i) {
        measure(&engine[i], [&](Outcome *outcome) { run_engine(modes[i], outcome); });
      }
    }
    measure(&thesis, [this](Outcome *outcome) { run_thesis(outcome); });

    Table table({"variant", "touch ms", "end ms", "total ms", "us/page", "areas at peak",
                 "resident MiB", "result"});
    bool right = add(&table, &report, "plain stores, no transaction", plain, true);
    for (std::size_t i = 0; i < modes.size(); ++i)
      right = add(&table, &report, modes[i].name, engine[i], true) && right;
    (void)add(&table, &report, "thesis mechanism", thesis, false);
    std::printf(
        "\nOne transaction that writes every second page of %llu, median ±MAD %% of %zu rounds; at "
        "most %llu areas\n",
        static_cast<unsigned long long>(options_.pages), options_.rounds,
        static_cast<unsigned long long>(area_count_max()));
    table.print();
    std::printf("\nresult hash %s%s\n", hex(plain.last.hash).c_str(),
                right ? "" : ", WRONG in at least one variant");
    report.note("result_hash", hex(plain.last.hash));
    report.write(options_.common.csv, options_.common.json);
    return right ? 0 : 1;
  }

 private:
  // `body` writes and then checks; a process that dies leaves what it has reached.
  void measure(Samples *samples, const std::function<void(Outcome *)> &body) {
    TMH_ASSERT(samples != nullptr && body != nullptr);
    const Shared<Outcome> outcome;
    folder_ = scratch_.subfolder("run-" + std::to_string(++measured_));
    try {
      body(&*outcome);
    } catch (const std::runtime_error &) {  // said on standard error by the process concerned
      outcome->committed = false;
    }
    samples->last = *outcome;
    samples->touch_ms.push_back(outcome->touch_ms);
    samples->end_ms.push_back(outcome->end_ms);
    samples->total_ms.push_back(outcome->touch_ms + outcome->end_ms);
    std::filesystem::remove_all(folder_);
  }

  void write_pages(std::byte *data, Outcome *outcome) const {
    TMH_ASSERT(outcome != nullptr && measured_ > 0);
    const std::int64_t start = now_ns();
    for (std::uint64_t page = 0; page < options_.pages; page += 2) {
      word(data, page) = value_of(page, measured_);
      ++outcome->pages_written;
    }
    outcome->touch_ms = static_cast<double>(now_ns() - start) / 1e6;
    outcome->areas = own_area_count();
    outcome->resident_bytes = process_memory(::getpid()).resident_bytes;
  }

  [[nodiscard]] std::uint64_t checked_hash(std::byte *data) const {
    TMH_ASSERT(measured_ > 0);
    ResultHash hash;
    for (std::uint64_t page = 0; page < options_.pages; ++page) {
      // write_page_file wrote `page`
      const std::uint64_t expected = page % 2 == 0 ? value_of(page, measured_) : page;
      if (word(data, page) != expected)
        throw std::runtime_error("page " + std::to_string(page) + " is wrong");
      hash.add(expected - (page % 2 == 0 ? measured_ : 0));
    }
    return hash.value();
  }

  std::byte *map_file() const {
    const int fd = ::open(file_.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), file_);
    void *data =
        ::mmap(nullptr, options_.pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)::close(fd);
    if (data == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    return static_cast<std::byte *>(data);
  }

  void run_plain(Outcome *outcome) const {
    TMH_ASSERT(outcome != nullptr);
    run_alone([&] { write_pages(map_file(), outcome); });
    run_alone([&] { outcome->hash = checked_hash(map_file()); });
    outcome->committed = true;
  }

  void run_thesis(Outcome *outcome) const {
    run_alone([&] {
      ThesisMechanism mechanism(folder_, file_, options_.pages);
      mechanism.begin();
      write_pages(mechanism.data(), outcome);
      const std::int64_t start = now_ns();
      mechanism.end();
      outcome->end_ms = static_cast<double>(now_ns() - start) / 1e6;
    });
    run_alone([&] { outcome->hash = checked_hash(map_file()); });
    outcome->committed = true;
  }

  Segment map_segment(const Domain &domain) const {
    SegmentOptions options;
    options.size_bytes = options_.pages * kPageBytes;
    options.layout = Layout::kRaw;
    return domain.map(file_, options);
  }

  void run_engine(const Mode &mode, Outcome *outcome) const {
    TMH_ASSERT(outcome != nullptr);
    run_alone([&] {
      Domain domain = open_domain(mode, folder_);
      const Segment segment = map_segment(domain);
      domain.begin();
      write_pages(segment.data(), outcome);
      const std::int64_t start = now_ns();
      outcome->committed = domain.end() == Status::kCommitted;
      outcome->end_ms = static_cast<double>(now_ns() - start) / 1e6;
    });
    run_alone([&] {
      Domain domain = open_domain(mode, folder_);
      const Segment segment = map_segment(domain);
      domain.begin_query();
      outcome->hash = checked_hash(segment.data());
      domain.end_query();
    });
  }

  bool add(Table *table, Report *report, const std::string &name, const Samples &samples,
           bool must_commit) const {
    TMH_ASSERT(table != nullptr && report != nullptr && options_.pages > 0);
    const Outcome &last = samples.last;
    const bool done = last.committed && last.hash != 0;
    const Summary touch = summarize(samples.touch_ms), end = summarize(samples.end_ms),
                  total = summarize(samples.total_ms);
    const double written = static_cast<double>((options_.pages + 1) / 2);
    const double mib = static_cast<double>(last.resident_bytes) / (1 << 20);
    if (done) {
      table->add({name, with_mad(touch), with_mad(end), with_mad(total),
                  number(1000 * total.median / written), std::to_string(last.areas), number(mib),
                  "committed, right"});
    } else {
      table->add({name, "", "", "", "", "", "",
                  "died after " + std::to_string(last.pages_written) + " pages" +
                      (must_commit ? "  WRONG" : "")});
    }
    Json row;
    row["variant"] = name;
    row["committed"] = done;
    row["pages_written"] = last.pages_written;
    row["areas"] = last.areas;
    row["resident_bytes"] = last.resident_bytes;
    put(row, "touch_ms", touch);
    put(row, "end_ms", end);
    put(row, "total_ms", total);
    report->add("large", std::move(row));
    return done || !must_commit;
  }

  Options options_;
  ScratchFolder scratch_;
  std::string file_, folder_;
  std::uint64_t measured_ = 0;  // runs so far
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("One transaction that writes every second page of a large segment",
                              "large_transaction");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--pages", options.pages, "pages of the segment; half of them are written")
      .capture_default_str()
      .check_range(1, 1u << 30);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str();
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::LargeTransaction(options).run(); });
}
