// bench/sites.cpp -- what a site's smallest instances cost beside level 1's own begin and commit.
// Shape:   bare: one line::SoftwareThread, with nothing above. update, query: atomically() and
//          query() at a site of a hybrid domain on software lines. A round times every body under
//          each, in rotating order; what a site adds is taken within a round.
// Checked: what the bodies read, and the sum that the writing ones leave.
// Limits:  one thread.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "bench/support/clock.h"
#include "bench/support/lone_lines.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "levels/line/run.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct alignas(64) Line {
  field<std::uint64_t> word;
};
static_assert(sizeof(Line) == kLineBytes);
constexpr std::size_t kLines = 8;
static_assert((kLines + 1) * sizeof(Line) <= kPageBytes, "and the one that is written alone");

struct Body {
  const char *name;
  std::size_t lines;
  bool writes;
};
constexpr std::array<Body, 5> kBodies = {{{"empty", 0, false},
                                          {"one read", 1, false},
                                          {"eight reads", kLines, false},
                                          {"one write", 1, true},
                                          {"eight writes", kLines, true}}};
static_assert(std::ranges::all_of(kBodies, [](const Body &body) {
  return body.lines == 0 || body.lines == 1 || body.lines == kLines;  // what ns_of() has
}));

struct Options {
  CommonOptions common;
  std::size_t rounds = 15;
  std::uint64_t instances = 400'000;  // of a batch
};

// Each line's word is read; kWrites: and one more is stored.
template <std::size_t kCount, bool kWrites>
[[gnu::always_inline]] inline std::uint64_t touch(Line *lines) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t word = lines[i].word;
    sum += word;
    if constexpr (kWrites) lines[i].word = word + 1;
  }
  return sum;
}

// run(body): as one instance.
template <std::size_t kCount, bool kWrites, class Run>
double ns_each(std::uint64_t instances, Line *lines, const Run &run) {
  TMH_ASSERT(instances > 0 && lines != nullptr);
  std::uint64_t word = run([&] { return touch<1, false>(lines); });
  std::uint64_t sum = 0, expected = 0;
  const std::int64_t start = now_ns();
  for (std::uint64_t i = 0; i < instances; ++i)
    sum += run([&] { return touch<kCount, kWrites>(lines); });
  const auto took = static_cast<double>(now_ns() - start);
  for (std::uint64_t i = 0; i < instances; ++i) expected += kCount * (kWrites ? word++ : word);
  if (sum != expected) throw std::runtime_error("a body has read what nobody wrote");
  return took / static_cast<double>(instances);
}

template <class Run>
double ns_of(const Body &body, std::uint64_t instances, Line *lines, const Run &run) {
  if (body.lines == 0) return ns_each<0, false>(instances, lines, run);
  if (body.lines == 1) {
    Line *const line = lines + kLines;  // what all eight hold stays the same
    return body.writes ? ns_each<1, true>(instances, line, run)
                       : ns_each<1, false>(instances, line, run);
  }
  return body.writes ? ns_each<kLines, true>(instances, lines, run)
                     : ns_each<kLines, false>(instances, lines, run);
}

class SitesBench {
 public:
  explicit SitesBench(const Options &options)
      : options_(options),
        scratch_(options.common.folder),
        bare_(scratch_.subfolder("bare"), kPageBytes),
        thread_(bare_.thread()),
        domain_(Domain::open(scratch_.subfolder("sites"), on_lines())),
        segment_(domain_.map("lines", raw())),
        site_(domain_, "bench") {
    if (options_.common.tiny) options_.rounds = 1, options_.instances = 1000;
  }

  int run() {
    Report report("sites", environment(scratch_.path()), parameters());
    report.print_head();
    for (std::size_t round = 0; round <= options_.rounds; ++round)  // round 0 warms up
      for (const Body &body : kBodies)
        for (std::size_t i = 0; i < kWays; ++i) measure(body, (i + round) % kWays, round > 0);
    print(&report);
    const SiteReport sent = site_.report();
    if (sent.page_commits != 0) throw std::runtime_error("an instance went to level 2");
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  enum Way : std::size_t { kBare, kUpdate, kQuery, kWays };
  static constexpr std::array<const char *, kWays> kNames = {"bare", "update", "query"};

  static DomainOptions on_lines() {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.line = LineChoice::kSoftware;
    return options;
  }
  static SegmentOptions raw() {
    SegmentOptions options;
    options.layout = Layout::kRaw;
    options.size_bytes = kPageBytes;
    return options;
  }
  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["rounds"] = options_.rounds;
    all["instances"] = options_.instances;
    return all;
  }

  void measure(const Body &body, std::size_t way, bool counts) {
    TMH_ASSERT(way < kWays);
    if (way == kQuery && body.writes) return;
    const double ns = ns_of_way(body, way);
    if (counts || options_.common.tiny) results_[&body][way].push_back(ns);
  }
  [[nodiscard]] double ns_of_way(const Body &body, std::size_t way) {
    auto *const lines = reinterpret_cast<Line *>(segment_.data());
    if (way == kUpdate)
      return ns_of(body, options_.instances, lines, [&](const auto &touched) {
        return atomically(site_, [&](Fields) { return touched(); });
      });
    if (way == kQuery)
      return ns_of(body, options_.instances, lines, [&](const auto &touched) {
        return query(site_, [&](Fields) { return touched(); });
      });
    return ns_of(body, options_.instances, reinterpret_cast<Line *>(bare_.base()),
                 [&](const auto &touched) {
                   std::uint64_t result = 0;
                   line::run(*thread_, {}, [&] { result = touched(); });
                   return result;
                 });
  }

  void print(Report *report) {
    TMH_ASSERT(report != nullptr);
    Table table({"body", "as", "ns", "beside bare"});
    for (const Body &body : kBodies) {
      auto &ways = results_[&body];
      for (std::size_t way = 0; way < kWays; ++way) {
        if (ways[way].empty()) continue;
        TMH_ASSERT(ways[way].size() == ways[kBare].size());
        std::vector<double> added;
        for (std::size_t i = 0; i < ways[way].size(); ++i)
          added.push_back(ways[way][i] - ways[kBare][i]);
        Json row;
        row["as"] = kNames[way];
        const Summary ns = summarize(ways[way]);
        put(row, "ns", ns);
        row["ns_beside_bare"] = summarize(added).median;
        table.add({body.name, kNames[way], with_mad(ns),
                   way == kBare ? "-" : number(row["ns_beside_bare"].get<double>())});
        report->add(body.name, std::move(row));
      }
    }
    table.print();
  }

  Options options_;
  ScratchFolder scratch_;
  LoneLines bare_;
  std::unique_ptr<line::SoftwareThread> thread_;
  Domain domain_;
  Segment segment_;
  Site site_;
  std::map<const Body *, std::array<std::vector<double>, kWays>> results_;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app{"What an instance of a site costs beside level 1's begin and commit"};
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "measurements of each variant").capture_default_str();
  app.add_option("--instances", options.instances, "instances of a batch")
      .capture_default_str()
      .check_positive();
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::SitesBench(options).run(); });
}
