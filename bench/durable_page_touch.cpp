// bench/durable_page_touch.cpp -- the thesis's experiments on durable transactions, repeated.
// Shape:   1. n pages read or written per transaction, without and with advice, and the model
//             aR + bW + c of a transaction that reads R pages and writes W: thesis 4.3, table 4.7
//             (C.5)
//          2. one random page of a mapped file of 10,000 changed, msync, fsync: thesis 4.3, table
//             4.8 (C.6)
//          3. tests A, B and C (bench/support/independent.h), 1, 2 and 4 processes: thesis 4.4,
//             table 4.10 (C.10)
//          Each with durability none, buffered and strict, in one tracking mode. Floor: as many
//          whole pages as the transaction wrote (the thesis's log holds pages) made durable by the
//          kernel call that is fastest here, O_DIRECT and O_DSYNC over space that was written
//          before. A round runs everything once; the order rotates.
// Checked: what transactions read and wrote is the same whatever the durability; every page of
//          tests A to C holds its process's increments.
// Source:  thesis, sections 4.3 and 4.4.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "bench/support/clock.h"
#include "bench/support/durable_floor.h"
#include "bench/support/independent.h"
#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/team.h"
#include "bench/support/touch.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  // Of tests A, B and C, all processes together; the thesis: 10,000.
  std::uint64_t transactions = 2'000;
  std::uint64_t syncs = 1'000;  // of table 4.8
  std::vector<unsigned> processes = {1, 2, 4};
  std::vector<std::uint32_t> pages = {1, 4, 16, 64, 256, 1'024};  // 1,024: the thesis's only n
  // Empty: the best that is to be had here.
  std::string mode;
};

constexpr std::uint64_t kSyncFilePages = 10'000;  // thesis 4.3
constexpr const char *kFloor = "floor";

// Microseconds per page, means of table 4.7, without advice.
struct ThesisTouch {
  const char *machine;
  double read, read_advised, write, write_advised;
};
constexpr ThesisTouch kTable47[] = {
    {"LIBXAC 2005, machine 1", 39, 22, 1'569, 1'297},
    {"LIBXAC 2005, machine 3(a)", 15, 14, 235, 179},
    {"LIBXAC 2005, machine 3(b)", 16, 15, 227, 182},
};

// Milliseconds per transaction of table 4.10.
struct ThesisTest {
  IncrementTest test;
  double machine3a_one, machine3a_two, machine3b_one, machine3b_two;
};
constexpr ThesisTest kTable410[] = {
    {IncrementTest::kA, 6.12, 6.16, 6.21, 6.26},
    {IncrementTest::kB, 6.11, 6.20, 6.22, 6.21},
    {IncrementTest::kC, 6.32, 6.63, 6.39, 6.62},
};
static_assert(kTable410[0].test == IncrementTest::kA && kTable410[1].test == IncrementTest::kB &&
              kTable410[2].test == IncrementTest::kC);

struct TouchSamples {
  std::vector<double> us, log_bytes;
};
struct TestSamples {
  std::vector<double> us, log_bytes, log_flushes;
};

class DurablePageTouch {
 public:
  explicit DurablePageTouch(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (options_.common.tiny) {
      options_.rounds = 1;
      options_.transactions = 40;
      options_.syncs = 20;
      options_.processes = {1, 2};
      options_.pages = {1, 16};
    }
    if (options_.pages.empty()) throw std::invalid_argument("--pages names no number");
    std::sort(options_.pages.begin(), options_.pages.end());
  }

  int run() {
    if (!choose_modes()) return skipped("the tracking mode is not available");
    Report report("durable_page_touch", environment(scratch_.path()), parameters());
    report.print_head();
    for (const Mode &mode : modes_)
      workers_.push_back(start_engine(mode, scratch_.subfolder("touch-" + mode.name)));
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      touch_round(round);
      test_round(round);
    }
    for (const Mode &mode : modes_) print_touch(mode, &report);
    print_model(&report);
    print_syncs(&report);
    for (const ThesisTest &thesis : kTable410) print_test(thesis, &report);
    const bool right = wrong_ == 0;
    std::printf(
        "\nresult hash %s, %s\n", hex(hash_.value()).c_str(),
        right ? "the same for every durability" : "WRONG: results differ or a transaction aborted");
    report.note("result_hash", hex(hash_.value()));
    report.write(options_.common.csv, options_.common.json);
    return right ? 0 : 1;
  }

 private:
  // One mode for each durability, named after it.
  bool choose_modes() {
    TMH_ASSERT(modes_.empty());
    for (const Mode &mode : available_modes(scratch_.path())) {
      if (!options_.mode.empty() && mode.name != options_.mode) continue;
      tracking_ = mode.name;
      for (const Durability durability :
           {Durability::kNone, Durability::kBuffered, Durability::kStrict}) {
        modes_.push_back(mode);
        modes_.back().name = to_string(durability);
        modes_.back().durability = durability;
      }
      return true;
    }
    return false;
  }

  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["seed"] = options_.common.seed;
    all["rounds"] = options_.rounds;
    all["transactions"] = options_.transactions;
    all["syncs"] = options_.syncs;
    all["tracking"] = tracking_;
    return all;
  }

  // --- Table 4.7 ---

  // A batch of about 20 ms where a commit takes 0.1.
  [[nodiscard]] std::uint32_t batch(std::uint32_t pages) const {
    TMH_ASSERT(pages > 0);
    return options_.common.tiny ? 2 : std::clamp(2'048U / pages, 8U, 200U);
  }

  void touch_round(std::size_t round) {
    for (const std::uint32_t pages : options_.pages) {
      for (const Shape shape : {Shape{pages, 0}, Shape{0, pages}}) {
        for (const Advice advice : {Advice::kNone, Advice::kPerPage})
          touch_all(shape, advice, round);
      }
      floor_[pages].push_back(measure_floor(pages));
    }
  }

  void touch_all(Shape shape, Advice advice, std::size_t round) {
    TMH_ASSERT(!workers_.empty() && workers_.size() == modes_.size());
    TMH_ASSERT(shape.pages() <= options_.pages.back());
    TouchRequest request;
    request.segment_pages = options_.pages.back();
    request.seed = random_.next();
    request.transactions = batch(shape.pages());
    request.shape = shape;
    request.pattern = Pattern::kHot;
    request.advice = advice;
    std::uint64_t checksum = 0;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const std::size_t which = (i + round) % workers_.size();
      if (!workers_[which]->available()) throw std::runtime_error(workers_[which]->reason());
      const TouchReply reply = workers_[which]->call(request);
      TouchSamples &samples = touch_[{modes_[which].name, shape, advice}];
      samples.us.push_back(reply.us_per_transaction);
      samples.log_bytes.push_back(reply.log_bytes_per_transaction);
      if (reply.aborted != 0 || (i != 0 && reply.checksum != checksum)) ++wrong_;
      checksum = reply.checksum;
    }
    hash_.add(checksum);
  }

  // Microseconds to make so many pages durable by one call. 0 where there is no O_DIRECT.
  double measure_floor(std::uint32_t pages) {
    const std::uint64_t bytes = pages * kPageBytes;
    const std::string path = scratch_.path() + "/floor";
    try {
      make_floor_file(FloorMethod::kDirect, path, floor_file_bytes(bytes, batch(pages)));
      FloorWriter writer(FloorMethod::kDirect, path, nullptr);
      const std::int64_t start = now_ns();
      for (std::uint32_t i = 0; i < batch(pages); ++i) writer.commit(bytes);
      const double us = static_cast<double>(now_ns() - start) / 1000.0 / batch(pages);
      (void)::unlink(path.c_str());
      return us;
    } catch (const std::system_error &) {
      return 0;  // tmpfs before Linux 6.6
    }
  }

  [[nodiscard]] Summary touched(const std::string &durability, Shape shape, Advice advice) const {
    const auto found = touch_.find({durability, shape, advice});
    return found == touch_.end() ? Summary() : summarize(found->second.us);
  }

  void print_touch(const Mode &mode, Report *report) const {
    TMH_ASSERT(report != nullptr);
    Table table({"pages", "read us/page", "advised", "write us/page", "advised", "write us",
                 "advised", "log B", "floor us", "write/floor"});
    for (const std::uint32_t pages : options_.pages) {
      std::vector<std::string> row = {std::to_string(pages)};
      for (const Shape shape : {Shape{pages, 0}, Shape{0, pages}}) {
        for (const Advice advice : {Advice::kNone, Advice::kPerPage}) {
          const TouchSamples &samples = touch_.at({mode.name, shape, advice});
          const Summary us = summarize(samples.us);
          row.push_back(number(us.median / pages));
          Json line;
          line["durability"] = mode.name;
          line["durability_note"] = durability_note(mode.durability);
          line["read_pages"] = shape.read_pages;
          line["write_pages"] = shape.write_pages;
          line["advice"] = to_string(advice);
          put(line, "us_per_transaction", us);
          line["us_per_page_median"] = us.median / pages;
          line["log_bytes_per_transaction"] = summarize(samples.log_bytes).median;
          put(line, "floor_us", summarize(floor_.at(pages)));
          put(line, "to_floor", summarize_ratio(samples.us, floor_.at(pages)));
          report->add("table-4.7", std::move(line));
        }
      }
      const TouchSamples &written = touch_.at({mode.name, Shape{0, pages}, Advice::kNone});
      row.push_back(with_mad(summarize(written.us)));
      row.push_back(with_mad(touched(mode.name, {0, pages}, Advice::kPerPage)));
      row.push_back(number(summarize(written.log_bytes).median));
      row.push_back(with_mad(summarize(floor_.at(pages))));
      row.push_back(with_mad(summarize_ratio(written.us, floor_.at(pages))));
      table.add(std::move(row));
    }
    for (const ThesisTouch &thesis : kTable47) {
      table.add({thesis.machine + std::string(", 1024"), number(thesis.read),
                 number(thesis.read_advised), number(thesis.write), number(thesis.write_advised),
                 number(thesis.write * 1'024), number(thesis.write_advised * 1'024)});
    }
    const std::string note = durability_note(mode.durability);
    std::printf(
        "\nTable 4.7, durability %s%s, tracking %s: hot pages, median ±MAD %% of %zu rounds%s\n",
        mode.name.c_str(), note.empty() ? "" : (" (" + note + ")").c_str(), tracking_.c_str(),
        options_.rounds, options_.common.tiny ? " (tiny inputs: says nothing about speed)" : "");
    table.print();
  }

  // The slopes between the smallest and the largest transaction, and what a transaction that writes
  // nothing more costs.
  void print_model(Report *report) const {
    TMH_ASSERT(report != nullptr && !options_.pages.empty());
    const std::uint32_t least = options_.pages.front(), most = options_.pages.back();
    if (least == most) return;
    Table table({"aR + bW + c, us", "a", "b", "c"});
    for (const Mode &mode : modes_) {
      const auto slope = [&](Shape small, Shape large) {
        TMH_ASSERT(small.pages() < large.pages());
        return (touched(mode.name, large, Advice::kNone).median -
                touched(mode.name, small, Advice::kNone).median) /
               (large.pages() - small.pages());
      };
      const double a = slope({least, 0}, {most, 0}), b = slope({0, least}, {0, most});
      const double c = touched(mode.name, {0, least}, Advice::kNone).median - b * least;
      table.add({"durability " + mode.name, number(a), number(b), number(c)});
      Json row;
      row["durability"] = mode.name;
      row["a_us"] = a;
      row["b_us"] = b;
      row["c_us"] = c;
      report->add("model", std::move(row));
    }
    table.add({"LIBXAC 2005 (4.3)", "tens", "hundreds to thousands", "5,000 to 15,000"});
    std::printf("\nA transaction that reads R pages and writes W (n = %u and %u, no advice)\n",
                least, most);
    table.print();
  }

  // --- Table 4.8 ---

  void print_syncs(Report *report) {
    TMH_ASSERT(report != nullptr);
    const std::string path = scratch_.path() + "/sync";
    const std::uint64_t pages = options_.common.tiny ? 100 : kSyncFilePages;
    write_page_file(path, pages);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    void *map =
        fd < 0 ? MAP_FAILED
               : ::mmap(nullptr, pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || ::fsync(fd) != 0)
      throw std::system_error(errno, std::generic_category(), path);
    std::vector<double> msync_us, fsync_us;
    for (std::uint64_t i = 0; i < options_.syncs; ++i) {
      std::byte *page = static_cast<std::byte *>(map) + random_.below(pages) * kPageBytes;
      ++*reinterpret_cast<std::uint32_t *>(page);
      const std::int64_t start = now_ns();
      const bool told = ::msync(page, kPageBytes, MS_ASYNC) == 0;
      const std::int64_t middle = now_ns();
      if (!told || ::fsync(fd) != 0) throw std::system_error(errno, std::generic_category(), path);
      msync_us.push_back(static_cast<double>(middle - start) / 1000.0);
      fsync_us.push_back(static_cast<double>(now_ns() - middle) / 1000.0);
    }
    (void)::munmap(map, pages * kPageBytes);
    (void)::close(fd);
    Table table({"operation", "mean us", "st. dev.", "min", "median", "p99", "max"});
    for (const auto &[name, samples] :
         {std::pair{"msync(MS_ASYNC)", &msync_us}, std::pair{"fsync", &fsync_us}}) {
      const Summary us = summarize(*samples);
      table.add({name, number(mean(*samples)), number(standard_deviation(*samples)), number(us.min),
                 number(us.median), number(quantile(*samples, 0.99)), number(us.max)});
      Json row;
      row["operation"] = name;
      row["us_mean"] = mean(*samples);
      row["us_standard_deviation"] = standard_deviation(*samples);
      row["us_p99"] = quantile(*samples, 0.99);
      put(row, "us", us);
      report->add("table-4.8", std::move(row));
    }
    table.add({"fsync, 2005, machine 1", "13600", "184300", "2400", "8000", "12700", "5836500"});
    table.add({"fsync, 2005, machine 3(a)", "4800", "24000", "700", "4000", "7000", "761600"});
    std::printf("\nTable 4.8: a mapped file of %llu pages, one random page changed, %llu times\n",
                static_cast<unsigned long long>(pages),
                static_cast<unsigned long long>(options_.syncs));
    table.print();
  }

  // --- Table 4.10 ---

  void test_round(std::size_t round) {
    struct Job {
      const Mode *mode;  // null: the floor
      IncrementTest test;
      unsigned processes;
    };
    std::vector<Job> jobs;
    for (const unsigned processes : options_.processes) {
      for (const ThesisTest &thesis : kTable410) {
        for (const Mode &mode : modes_) jobs.push_back({&mode, thesis.test, processes});
      }
      jobs.push_back({nullptr, IncrementTest::kA, processes});
    }
    TMH_ASSERT(!jobs.empty());
    std::rotate(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(round * 5 % jobs.size()),
                jobs.end());
    for (const Job &job : jobs) {
      if (job.mode == nullptr) {
        const double us = measure_team_floor(job.processes);
        for (const ThesisTest &thesis : kTable410)
          tests_[{kFloor, thesis.test, job.processes}].us.push_back(us);
        continue;
      }
      const IndependentRun independent{*job.mode, job.test, job.processes, true,
                                       options_.transactions};
      const IndependentResult result =
          run_independent(independent, scratch_.subfolder("test-" + std::to_string(measured_++)));
      TestSamples &samples = tests_[{job.mode->name, job.test, job.processes}];
      samples.us.push_back(result.us_per_transaction);
      samples.log_bytes.push_back(result.log_bytes_per_transaction);
      samples.log_flushes.push_back(result.log_flushes_per_transaction);
      if (round == 0) increments_ += result.increments;
    }
    if (round == 0) hash_.add(increments_);  // a sum: the order of jobs is no result
  }

  // One page made durable per transaction, each process in a file of its own; microseconds per
  // transaction of the team.
  double measure_team_floor(unsigned processes) {
    TMH_ASSERT(processes > 0 && processes <= options_.transactions);
    const std::uint64_t each = options_.transactions / processes;
    const auto file = [&](unsigned index) {
      return scratch_.path() + "/floor-" + std::to_string(index);
    };
    try {
      for (unsigned index = 0; index < processes; ++index) {
        make_floor_file(FloorMethod::kDirect, file(index), floor_file_bytes(kPageBytes, each));
        const FloorWriter probe(FloorMethod::kDirect, file(index), nullptr);
      }
    } catch (const std::system_error &) {
      return 0;
    }
    const double ns = run_team_ns(processes, [&](unsigned index, const TeamClock &clock) {
      FloorWriter writer(FloorMethod::kDirect, file(index), nullptr);
      clock.start();
      for (std::uint64_t i = 0; i < each; ++i) writer.commit(kPageBytes);
      clock.finish();
    });
    return ns / 1000.0 / static_cast<double>(each * processes);
  }

  void print_test(const ThesisTest &thesis, Report *report) const {
    TMH_ASSERT(report != nullptr && !options_.processes.empty());
    std::vector<std::string> head = {"durability"};
    for (const unsigned processes : options_.processes) {
      head.push_back(std::to_string(processes) + (processes == 1 ? " process" : " processes"));
      if (processes != 1) head.push_back("speedup");
      head.push_back("log B");
    }
    Table table(std::move(head));
    std::vector<std::string> names;
    for (const Mode &mode : modes_) names.push_back(mode.name);
    names.emplace_back(kFloor);
    for (const std::string &name : names) {
      std::vector<std::string> row = {name};
      const TestSamples &one = tests_.at({name, thesis.test, options_.processes.front()});
      for (const unsigned processes : options_.processes) {
        const TestSamples &samples = tests_.at({name, thesis.test, processes});
        const Summary us = summarize(samples.us), speedup = summarize_ratio(one.us, samples.us);
        const double log_bytes = summarize(samples.log_bytes).median;
        row.push_back(with_mad(us));
        if (processes != 1) row.push_back(with_mad(speedup));
        row.push_back(name == kFloor ? "-" : number(log_bytes));
        Json line;
        line["test"] = std::string(1, static_cast<char>(thesis.test));
        line["durability"] = name;
        line["processes"] = processes;
        put(line, "us_per_transaction", us);
        put(line, "speedup", speedup);
        line["log_bytes_per_transaction"] = log_bytes;
        line["log_flushes_per_transaction"] = summarize(samples.log_flushes).median;
        report->add("table-4.10", std::move(line));
      }
      table.add(std::move(row));
    }
    if (options_.processes.size() >= 2 && options_.processes[0] == 1 &&
        options_.processes[1] == 2) {
      const auto row = [&](const char *machine, double one, double two) {
        table.add({machine, number(1'000 * one), "-", number(1'000 * two), number(one / two), "-"});
      };
      row("LIBXAC 2005, machine 3(a)", thesis.machine3a_one, thesis.machine3a_two);
      row("LIBXAC 2005, machine 3(b)", thesis.machine3b_one, thesis.machine3b_two);
    }
    std::printf(
        "\nTable 4.10, test %c: microseconds per transaction of all processes together; floor: one "
        "page\n",
        static_cast<char>(thesis.test));
    table.print();
  }

  Options options_;
  ScratchFolder scratch_;  // before workers_: their processes end before it is removed
  std::string tracking_;
  std::vector<Mode> modes_;
  std::vector<std::unique_ptr<TouchWorker>> workers_;
  std::map<std::tuple<std::string, Shape, Advice>, TouchSamples> touch_;
  std::map<std::uint32_t, std::vector<double>> floor_;
  std::map<std::tuple<std::string, IncrementTest, unsigned>, TestSamples> tests_;
  Random random_{options_.common.seed};
  ResultHash hash_;
  std::uint64_t measured_ = 0, increments_ = 0, wrong_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app(
      "Durable transactions of the LIBXAC thesis: pages touched, syncs, tests A, B and C",
      "durable_page_touch");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str()
      .check_positive();
  app.add_option("--transactions", options.transactions,
                 "transactions of each of the tests A, B, C")
      .capture_default_str()
      .check_range(tmh::bench::kTeamMembersMax, std::uint64_t{1} << 32);
  app.add_option("--syncs", options.syncs, "how often a page is synced (table 4.8)")
      .capture_default_str();
  app.add_option("--processes", options.processes,
                 "numbers of processes; speedups are against the first")
      .capture_default_str()
      .delimiter(',')
      .check_range(1, tmh::bench::kTeamMembersMax);
  app.add_option("--pages", options.pages, "pages per transaction")
      .capture_default_str()
      .delimiter(',')
      .check_positive();
  app.add_option("--mode", options.mode,
                 "tracking mode, as bench/page_touch names it; default: the best");
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::DurablePageTouch(options).run(); });
}
