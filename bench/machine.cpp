// bench/machine.cpp -- what this machine's clocks, writes and checksums cost, as the thesis says it
// of its machines.
// Shape:   1. time between two readings of a clock, rdtsc, gettimeofday, the benches' own: thesis
//             C.1, tables C.1 and C.2
//          2. lseek to the beginning of a file, then 10,000 pages written one by one: C.4, table
//             C.7
//          3. CRC32C of a page, as the redo log computes it: C.8 (SHA1 and MD5 there)
// Source:  thesis, appendix C.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include <tmh/options.hpp>

#include "bench/support/clock.h"
#include "bench/support/keep.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "platform/assert.h"
#include "storage/crc32c.h"

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::uint64_t repetitions = 10'000;  // of 1 and 3, as there
  std::uint64_t writes = 20;           // of 2; there 1,000
  std::uint64_t pages = 10'000;
};

class Machine {
 public:
  explicit Machine(Report *report) : report_(report) { TMH_ASSERT(report != nullptr); }

  void add(const std::string &table, const std::string &operation, const std::string &unit,
           const std::vector<double> &samples) {
    TMH_ASSERT(!samples.empty());
    const Summary summary = summarize(samples);
    const double p99 = quantile(samples, 0.99);
    report_->add("machine", Json{{"table", table},
                                 {"operation", operation},
                                 {"unit", unit},
                                 {"mean", mean(samples)},
                                 {"standard_deviation", standard_deviation(samples)},
                                 {"min", summary.min},
                                 {"median", summary.median},
                                 {"p99", p99},
                                 {"max", summary.max},
                                 {"repetitions", samples.size()}});
    table_.add({table + ": " + operation + ", " + unit, number(mean(samples)),
                number(standard_deviation(samples)), number(summary.min), number(summary.median),
                number(p99), number(summary.max)});
  }
  void print() const { table_.print(); }

 private:
  Report *report_;
  Table table_{{"operation", "mean", "st. dev.", "min", "median", "p99", "max"}};
};

std::vector<double> samples_of(std::uint64_t repetitions, const std::function<double()> &measure) {
  TMH_ASSERT(measure != nullptr);
  std::vector<double> samples;
  samples.reserve(repetitions);
  for (std::uint64_t i = 0; i < repetitions; ++i) samples.push_back(measure());
  return samples;
}

double microseconds_between_days() {
  struct timeval first {
  }, second{};
  (void)::gettimeofday(&first, nullptr);
  (void)::gettimeofday(&second, nullptr);
  return static_cast<double>(second.tv_sec - first.tv_sec) * 1e6 +
         static_cast<double>(second.tv_usec - first.tv_usec);
}

void clocks(const Options &options, Machine *machine) {
  TMH_ASSERT(machine != nullptr);
  machine->add("C.1", "rdtsc, twice", "cycles", samples_of(options.repetitions, [] {
                 const std::uint64_t first = __rdtsc();
                 return static_cast<double>(__rdtsc() - first);
               }));
  machine->add("C.2", "gettimeofday, twice", "us",
               samples_of(options.repetitions, microseconds_between_days));
  machine->add("C.2", "CLOCK_MONOTONIC, twice", "us", samples_of(options.repetitions, [] {
                 const std::int64_t first = now_ns();
                 return static_cast<double>(now_ns() - first) / 1000;
               }));
}

void writes(const Options &options, const ScratchFolder &scratch, Machine *machine) {
  TMH_ASSERT(machine != nullptr);
  const std::string path = scratch.path() + "/written";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  const std::vector<char> page(kPageBytes, 1);
  std::vector<double> seeks, totals;
  for (std::uint64_t i = 0; i < options.writes; ++i) {
    const std::int64_t start = now_ns();
    (void)::lseek(fd, 0, SEEK_SET);
    const std::int64_t sought = now_ns();
    for (std::uint64_t p = 0; p < options.pages; ++p) {
      if (::write(fd, page.data(), page.size()) != static_cast<ssize_t>(page.size())) {
        const int error = errno;
        (void)::close(fd);
        throw std::system_error(error, std::generic_category(), path);
      }
    }
    seeks.push_back(static_cast<double>(sought - start) / 1000);
    totals.push_back(static_cast<double>(now_ns() - sought) / 1000);
  }
  (void)::close(fd);
  machine->add("C.7", "lseek", "us", seeks);
  machine->add("C.7", "write of " + std::to_string(options.pages) + " pages", "us", totals);
}

void checksums(const Options &options, Machine *machine) {
  TMH_ASSERT(machine != nullptr);
  Random random(options.common.seed);
  std::vector<std::byte> page(kPageBytes);
  for (std::byte &byte : page) byte = static_cast<std::byte>(random.next());
  machine->add("C.8", "CRC32C of a page", "kilocycles", samples_of(options.repetitions, [&] {
                 const std::uint64_t first = __rdtsc();
                 keep(storage::crc32c(0, page.data(), page.size()));
                 return static_cast<double>(__rdtsc() - first) / 1000;
               }));
}

int run(Options options) {
  if (options.common.tiny) {
    options.repetitions = 100;
    options.writes = 2;
    options.pages = 100;
  }
  const ScratchFolder scratch(options.common.folder);
  Json parameters;
  parameters["tiny"] = options.common.tiny;
  parameters["repetitions"] = options.repetitions;
  parameters["writes"] = options.writes;
  parameters["pages"] = options.pages;
  Report report("machine", environment(scratch.path()), parameters);
  report.print_head();
  Machine machine(&report);
  clocks(options, &machine);
  writes(options, scratch, &machine);
  checksums(options, &machine);
  machine.print();
  report.write(options.common.csv, options.common.json);
  return 0;
}

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("Clocks, writes and checksums of this machine", "machine");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--repetitions", options.repetitions, "of clocks and checksums")
      .capture_default_str()
      .check_positive();
  app.add_option("--writes", options.writes, "how often the pages are written")
      .capture_default_str()
      .check_positive();
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::run(options); });
}
