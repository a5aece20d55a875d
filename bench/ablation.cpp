// bench/ablation.cpp -- what each mechanism of level 2's commit is worth: instances that write 1 to
// 4,096 pages, with the mechanism and without it.
// Shape:   a case is a team of processes on a fresh domain; each writes pages of its own. The ways
//          (everything; without one mechanism) take turns within the process, a batch each, so that
//          noise hits all alike. A round is one batch of each way, in an order that changes; ratios
//          are taken within it. apart: 1 or 2 processes commit as fast as they can. meanwhile:
//          inside each instance, behind its stores, a rival commits as many pages of its own.
//          conflict: the rival also writes a line of every second instance, which so fails. Timed
//          are begin, stores, reads and end, without the rival's turn. Vectors are compared with
//          word by word. A signature of pages is not built: its rows tell what it could gain at
//          best, if it cost nothing and were always right, by leaving out validation.
// Checked: each page holds the number of instances of its owner that have committed.
// Source:  EXCITE-VM, sections 4.5 and 6.2.3, figure 6.
#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tmh/tmh.hpp>

#include "bench/support/clock.h"
#include "bench/support/environment.h"
#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "levels/page/shared/shared.h"
#include "levels/page/touch/touch.h"
#include "observe/planted.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

#ifdef TMH_PLANTED_FAULTS
constexpr bool kHasOracle = true;
using observe::plant;
#else
constexpr bool kHasOracle = false;
void plant(observe::Planted) noexcept {}
#endif

struct Way {
  const char *mechanism, *column;
  void (*set)(bool is_on);
};
constexpr std::array<Way, 3> kWays = {{
    {"validation ahead", "by validation ahead", [](bool is_on) { page::validates_ahead = is_on; }},
    {"vectors", "by vectors", page::use_vectors},
    // On: nothing is validated.
    {"signature", "by a signature, at best",
     [](bool is_on) {
       constexpr auto kNone = static_cast<std::uint64_t>(observe::Planted::kPageNoValidation) |
                              static_cast<std::uint64_t>(observe::Planted::kNoLineCheck);
       plant(is_on ? static_cast<observe::Planted>(kNone) : observe::Planted::kNone);
     }},
}};
constexpr std::size_t kSignature = 2;
static_assert(std::string_view(kWays[kSignature].mechanism) == "signature");
// Everything that the library has; then without each of these, but with the signature.
constexpr std::size_t kEverything = 0, kWayCount = kWays.size() + 1;

enum class Rival : std::uint8_t { kApart, kMeanwhile, kConflict };
constexpr std::array<const char *, 3> kRivalNames = {"apart", "meanwhile", "conflict"};
static_assert(kRivalNames.size() == static_cast<std::size_t>(Rival::kConflict) + 1);

struct Case {
  std::uint64_t pages, lines;  // that an instance writes; lines: of each page
  std::uint64_t reads;         // further pages, which it reads
  unsigned processes;
  Rival rival;
  Isolation isolation;
};

struct Options {
  CommonOptions common;
  std::size_t rounds = 40;
  std::vector<std::uint64_t> pages = {1, 16, 256, 4096};
  std::vector<std::uint64_t> lines = {1, 64};
  std::uint64_t reads = 0;
  std::string durability = "none";
};

constexpr std::uint64_t kWordsPerPage = kPageBytes / 8, kWordsPerLine = 8;
constexpr std::uint64_t kLinesPerPage = kWordsPerPage / kWordsPerLine;
static_assert(kLinesPerPage == kPageBytes / kLineBytes);
constexpr unsigned kMembersMax = 2;
constexpr std::size_t kRoundsMax = 1000;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a board is shared by processes");
struct Board {
  // Batches begun by the first member; way = batch % kWayCount.
  std::atomic<std::uint64_t> batch{0};
  std::atomic<bool> is_over{false};
  // The rival commits once for each that is asked for.
  std::atomic<std::uint64_t> asked{0}, answered{0};
  std::array<std::uint64_t, kMembersMax> committed{};
  // Per instance of the first member.
  std::array<std::array<double, kRoundsMax>, kWayCount> ns{};
};

// For another process. Looks often at first: a turn takes microseconds where both have a core.
class Patience {
 public:
  void wait() noexcept {
    if (++looks_ < kLooks)
      _mm_pause();
    else
      ::sched_yield();
  }

 private:
  static constexpr int kLooks = 10'000;
  int looks_ = 0;
};

class Ablation {
 public:
  explicit Ablation(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (!options_.common.tiny) return;
    options_.rounds = 2;
    options_.pages = {1, 16};
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["rounds"] = options_.rounds;
    parameters["durability"] = options_.durability;
    Report report("ablation", environment(scratch_.path()), parameters);
    report.print_head();
    for (const std::uint64_t pages : options_.pages) {
      for (const std::uint64_t lines : options_.lines) {
        std::printf("\n%llu pages, %llu lines of each\n", static_cast<unsigned long long>(pages),
                    static_cast<unsigned long long>(lines));
        std::vector<std::string> head = {"gain in %", "us per instance"};
        for (const Way &way : kWays) head.emplace_back(way.column);
        Table table(std::move(head));
        for (const Isolation isolation : {Isolation::kSerializable, Isolation::kSnapshot}) {
          run_case({pages, lines, options_.reads, 1, Rival::kApart, isolation}, &table, &report);
          run_case({pages, lines, options_.reads, 2, Rival::kApart, isolation}, &table, &report);
          run_case({pages, lines, options_.reads, 1, Rival::kMeanwhile, isolation}, &table,
                   &report);
          run_case({pages, lines, options_.reads, 1, Rival::kConflict, isolation}, &table, &report);
        }
        table.print();
      }
    }
    if (!kHasOracle)
      std::printf("SKIPPED \"signature\": a build with TMH_PLANTED_FAULTS leaves validation out\n");
    std::printf("result hash %s\n", hex(hash_.value()).c_str());
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  static void set_way(std::size_t way) {
    TMH_ASSERT(way < kWayCount);
    for (std::size_t i = 0; i < kWays.size(); ++i)
      kWays[i].set(i == kSignature ? way == i + 1 : way != i + 1);
  }
  // Without validation a conflict would not end the instance.
  static bool is_measured(const Case &what, std::size_t way) {
    TMH_ASSERT(way < kWayCount);
    return way != kSignature + 1 || (kHasOracle && what.rival != Rival::kConflict);
  }

  // A rival writes so many pages; each member's place in the segment.
  static std::uint64_t width(const Case &what) { return std::max(what.pages, what.reads); }
  static std::uint64_t segment_pages(const Case &what) {
    return kMembersMax * width(what) + what.reads;
  }

  // One member on its domain.
  struct Member {
    Domain domain;
    Segment segment;
    const Case &what;
    std::uint64_t first_page, pages;
    std::uint64_t committed = 0;

    std::uint64_t *words(std::uint64_t page) const {
      TMH_ASSERT(page < segment_pages(what));
      return reinterpret_cast<std::uint64_t *>(segment.data()) + page * kWordsPerPage;
    }
    void store(std::uint64_t value) const {
      TMH_ASSERT(what.lines <= kLinesPerPage);
      for (std::uint64_t page = first_page; page < first_page + pages; ++page)
        for (std::uint64_t line = 0; line < what.lines; ++line)
          words(page)[line * kWordsPerLine] = value;
    }
    // Behind what any member writes.
    void read() const {
      for (std::uint64_t page = kMembersMax * width(what); page < segment_pages(what); ++page)
        if (std::atomic_ref(*words(page)).load(std::memory_order_relaxed) != 0)
          throw std::runtime_error("a page holds what was not written");
    }
  };

  Member join(const Case &what, const std::string &folder, unsigned index) const {
    TMH_ASSERT(index < kMembersMax);
    Mode mode{"default"};
    if (options_.durability == "buffered") mode.durability = Durability::kBuffered;
    Domain domain = open_domain(mode, folder);
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = segment_pages(what) * kPageBytes;
    Segment segment = domain.map("pages", raw);
    const bool is_rival = what.rival != Rival::kApart && index == 1;
    return {std::move(domain), std::move(segment), what, index * width(what),
            is_rival ? width(what) : what.pages};
  }

  // Every second one: after several failures in a row an instance commits alone.
  static bool is_conflict(std::uint64_t turn) { return turn % 2 == 1; }

  // Returns the nanoseconds that count.
  static std::int64_t instance(Member *self, Board *shared) {
    TMH_ASSERT(self != nullptr && shared != nullptr);
    const std::int64_t began = now_ns();
    self->domain.begin(self->what.isolation);
    self->store(self->committed + 1);
    self->read();
    std::int64_t pause = 0;
    bool must_fail = false;
    if (self->what.rival != Rival::kApart) {
      const std::int64_t asked = now_ns();
      const std::uint64_t turn = shared->asked.fetch_add(1, std::memory_order_release) + 1;
      must_fail = self->what.rival == Rival::kConflict && is_conflict(turn);
      Patience patience;
      while (shared->answered.load(std::memory_order_acquire) != turn) patience.wait();
      pause = now_ns() - asked;
    }
    const Status status = self->domain.end();
    const std::int64_t ended = now_ns();
    if ((status == Status::kCommitted) == must_fail)
      throw std::runtime_error(must_fail ? "an instance committed over a conflict"
                                         : "an instance failed without a conflict");
    if (status == Status::kCommitted) ++self->committed;
    return ended - began - pause;
  }

  // Answers each turn by one commit.
  static void be_rival(Member *self, Board *shared) {
    TMH_ASSERT(self->what.rival != Rival::kApart);
    for (std::uint64_t turn = 1;; ++turn) {
      Patience patience;
      while (shared->asked.load(std::memory_order_acquire) != turn) {
        if (shared->is_over.load(std::memory_order_acquire)) return;
        patience.wait();
      }
      self->domain.begin(self->what.isolation);
      self->store(self->committed + 1);
      // A line of the instance.
      if (self->what.rival == Rival::kConflict && is_conflict(turn)) self->words(0)[0] = turn;
      if (self->domain.end() != Status::kCommitted)
        throw std::runtime_error("the rival failed, which commits first");
      ++self->committed;
      shared->answered.store(turn, std::memory_order_release);
    }
  }

  void be_member(Member *self, unsigned index, Board *shared) const {
    TMH_ASSERT(index < kMembersMax && options_.rounds <= kRoundsMax);
    const std::uint64_t batch_pages = options_.common.tiny ? 2 : kBatchPages;
    const std::uint64_t batch_size = std::max<std::uint64_t>(2, batch_pages / width(self->what));
    const std::uint64_t batches = (options_.rounds + kWarmUpRounds) * kWayCount;
    if (index == 0) {
      for (std::uint64_t batch = 0; batch < batches; ++batch) {
        shared->batch.store(batch, std::memory_order_relaxed);
        run_batch(self, index, batch, batch_size, shared);
      }
      shared->is_over.store(true, std::memory_order_release);
      return;
    }
    // The other one follows the first member's ways; its own times are not looked at.
    while (!shared->is_over.load(std::memory_order_acquire))
      run_batch(self, index, shared->batch.load(std::memory_order_relaxed), 1, shared);
  }

  void run_batch(Member *self, unsigned index, std::uint64_t batch, std::uint64_t size,
                 Board *shared) const {
    // Rotating order.
    const std::uint64_t round = batch / kWayCount;
    const std::uint64_t at = batch % kWayCount;
    const std::size_t way = (round % 2 == 0 ? at + round : kWayCount - at + round) % kWayCount;
    if (!is_measured(self->what, way)) return;
    set_way(way);
    std::int64_t ns = 0;
    for (std::uint64_t i = 0; i < size; ++i) ns += instance(self, shared);
    if (index == 0 && round >= kWarmUpRounds)
      shared->ns[way][round - kWarmUpRounds] = static_cast<double>(ns) / static_cast<double>(size);
  }

  void run_case(const Case &what, Table *table, Report *report) {
    TMH_ASSERT(table != nullptr && report != nullptr);
    TMH_ASSERT(what.processes >= 1 && what.processes <= kMembersMax && what.pages > 0);
    const std::string folder = scratch_.subfolder(fmt::format("domain-{}", cases_++));
    const Shared<Board> shared;
    const bool has_rival = what.rival != Rival::kApart;
    const unsigned members = has_rival ? 2 : what.processes;
    (void)run_team_ns(members, [&](unsigned index, const TeamClock &clock) {
      Member self = join(what, folder, index);
      clock.start();
      if (has_rival && index == 1)
        be_rival(&self, &*shared);
      else
        be_member(&self, index, &*shared);
      shared->committed[index] = self.committed;
    });
    check(what, folder, *shared, members);
    const auto samples = [&](std::size_t way) {
      const auto &all = shared->ns[way];
      return std::vector<double>(all.begin(),
                                 all.begin() + static_cast<std::ptrdiff_t>(options_.rounds));
    };
    const std::vector<double> all = samples(kEverything);
    const char *const rival = kRivalNames[static_cast<std::size_t>(what.rival)];
    const char *const isolation =
        what.isolation == Isolation::kSnapshot ? "snapshot" : "serializable";
    std::vector<std::string> line = {fmt::format("{} process{}, {}, {}", what.processes,
                                                 what.processes == 1 ? "" : "es", rival, isolation),
                                     with_mad(in_us(all))};
    for (std::size_t i = 0; i < kWays.size(); ++i) {
      if (!is_measured(what, i + 1)) {
        line.emplace_back("-");
        continue;
      }
      const std::vector<double> other = samples(i + 1);
      const std::vector<double> &with = i == kSignature ? other : all;
      const std::vector<double> &without = i == kSignature ? all : other;
      const Summary ratio = summarize_ratio(without, with);
      Json row;
      row["mechanism"] = kWays[i].mechanism;
      row["pages"] = what.pages;
      row["lines"] = what.lines;
      row["reads"] = what.reads;
      row["processes"] = what.processes;
      row["rival"] = rival;
      row["isolation"] = isolation;
      put(row, "us_with", in_us(with));
      put(row, "us_without", in_us(without));
      row["gain_percent_median"] = 100 * (ratio.median - 1);
      row["gain_percent_mad"] = 100 * ratio.mad;
      report->add("ablation", std::move(row));
      line.push_back(fmt::format("{:+.1f} ±{:.1f}", 100 * (ratio.median - 1), 100 * ratio.mad));
    }
    table->add(std::move(line));
  }

  static Summary in_us(std::vector<double> ns) {
    for (double &value : ns) value /= 1000;
    return summarize(std::move(ns));
  }

  void check(const Case &what, const std::string &folder, const Board &shared, unsigned members) {
    TMH_ASSERT(members <= kMembersMax);
    run_alone([&] {
      Member self = join(what, folder, 0);
      query(self.domain, [&] {
        for (unsigned index = 0; index < members; ++index) {
          const std::uint64_t pages =
              index == 1 && what.rival != Rival::kApart ? width(what) : what.pages;
          for (std::uint64_t i = 0; i < pages; ++i) {
            const std::uint64_t page = index * width(what) + i;
            for (std::uint64_t line = 0; line < what.lines; ++line) {
              if (self.words(page)[line * kWordsPerLine] != shared.committed[index])
                throw std::runtime_error(fmt::format("page {} holds a wrong count", page));
            }
          }
        }
      });
    });
    // What the second of two free processes commits depends on its speed.
    hash_.add(shared.committed[0]);
  }

  static constexpr std::uint64_t kBatchPages = 64;
  static constexpr std::uint64_t kWarmUpRounds = 2;

  Options options_;
  ScratchFolder scratch_;
  ResultHash hash_;
  std::uint64_t cases_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("What each mechanism of level 2's commit is worth", "ablation");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "batches of each way")
      .capture_default_str()
      .check_range(1, tmh::bench::kRoundsMax);
  app.add_option("--pages", options.pages, "pages that an instance writes")
      .delimiter(',')
      .check_positive();
  app.add_option("--lines", options.lines, "lines of each that it writes")
      .delimiter(',')
      .check_range(1, tmh::bench::kLinesPerPage);
  app.add_option("--reads", options.reads, "further pages that it reads; its rival writes as many")
      .capture_default_str();
  app.add_option("--durability", options.durability, "of its domain")
      .capture_default_str()
      .check_one_of({"none", "buffered"});
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::Ablation(options).run(); });
}
