// bench/capacity.cpp -- how large an instance of level 1 may be: abort codes by working-set size,
// under the capacity model and under real RTM, with the theoretical limit beside them.
// Shape:   an attempt stores to n lines once each: consecutive ones, every s-th one (fewer sets of
//          the cache), or random ones. Attempts that abort are counted by the bits of their status,
//          which model and processor share.
// Theory:  a cache of `sets` x `ways` keeps an instance when no set gets more than `ways` lines.
//          Consecutive and strided lines fill sets evenly: a step at ways x sets / stride. Random
//          lines are balls in bins: of the C(sets x m, n) choices of n lines in a memory of m lines
//          per set so many keep every set at most at `ways`; see probability_of_fit().
// Checked: the model is the theory: never, always, or within five standard deviations of it. RTM
//          also aborts for other reasons (interrupts, other sets' policies of replacement) and is
//          only shown.
// Source:  docs/design.md 5; Intel optimization manual, section 16.2.4 (a written line
//          that leaves the first data cache aborts).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/support/lone_lines.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "levels/line/capacity.h"
#include "levels/line/rtm.h"
#include "levels/line/rtm_detection.h"
#include "levels/line/run.h"
#include "platform/assert.h"
#include "platform/cache_geometry.h"

namespace tmh::bench {
namespace {

constexpr std::uint64_t kMemoryBytes = 4u << 20;  // stride 64 reaches 1,024 lines
constexpr std::uint64_t kMemoryLines = kMemoryBytes / kLineBytes;

struct Geometry {
  std::uint32_t sets = 0, ways = 0;
};

struct Pattern {
  const char *name;
  std::uint64_t stride;  // 0: random
  std::uint64_t step, max;
};
constexpr Pattern kPatterns[] = {{"sequential", 1, 32, 1024},
                                 {"stride 8", 8, 4, 128},
                                 {"stride 64", 64, 1, 24},
                                 {"random", 0, 16, 560}};
static_assert(std::ranges::all_of(kPatterns, [](const Pattern &pattern) {
  return pattern.max % pattern.step == 0 && (pattern.max - 1) * pattern.stride < kMemoryLines;
}));

// The first n lines that an attempt stores to.
void choose_lines(const Pattern &pattern, std::uint64_t n, Random *random,
                  std::vector<std::uint32_t> *lines) {
  TMH_ASSERT(random != nullptr && lines != nullptr && n <= kMemoryLines);
  lines->clear();
  if (pattern.stride != 0) {
    for (std::uint64_t i = 0; i < n; ++i)
      lines->push_back(static_cast<std::uint32_t>(i * pattern.stride));
    return;
  }
  std::vector<bool> taken(kMemoryLines);
  while (lines->size() < n) {
    const std::uint64_t line = random->below(kMemoryLines);
    if (taken[line]) continue;
    taken[line] = true;
    lines->push_back(static_cast<std::uint32_t>(line));
  }
}

// Of random distinct lines: P(every set has at most `ways` of n). With each line chosen
// independently with p = n / lines, a set's number is binomial; the distribution of the total, cut
// at `ways` in every set, is the 'sets'-fold convolution; divided by P(total = n) it is the wanted
// conditional probability, exactly, whatever p is. That p keeps the numbers near 1.
double probability_of_fit(const Geometry &cache, std::uint64_t n) {
  TMH_ASSERT(cache.sets > 0 && n <= kMemoryLines);
  const std::uint64_t per_set = kMemoryLines / cache.sets;
  const double p = static_cast<double>(n) / static_cast<double>(kMemoryLines);
  if (n == 0) return 1;
  const auto log_binomial = [p](std::uint64_t trials, std::uint64_t hits) {
    const auto t = static_cast<double>(trials), h = static_cast<double>(hits);
    return std::lgamma(t + 1) - std::lgamma(h + 1) - std::lgamma(t - h + 1) + h * std::log(p) +
           (t - h) * std::log1p(-p);
  };
  std::vector<double> one(cache.ways + 1), all{1};
  for (std::uint32_t k = 0; k <= cache.ways; ++k) one[k] = std::exp(log_binomial(per_set, k));
  for (std::uint32_t set = 0; set < cache.sets; ++set) {
    std::vector<double> next(std::min<std::size_t>(all.size() + cache.ways, n + 1));
    for (std::size_t total = 0; total < all.size(); ++total) {
      for (std::size_t k = 0; k < one.size() && total + k < next.size(); ++k)
        next[total + k] += all[total] * one[k];
    }
    all = std::move(next);
  }
  return all.size() <= n ? 0 : std::min(1.0, all[n] / std::exp(log_binomial(kMemoryLines, n)));
}

double expected_aborts(const Pattern &pattern, const Geometry &cache, std::uint64_t n) {
  if (pattern.stride == 0) return 1 - probability_of_fit(cache, n);
  const std::uint64_t sets = std::max<std::uint64_t>(1, cache.sets / pattern.stride);
  return n > sets * cache.ways ? 1 : 0;
}

struct Outcome {
  std::uint64_t attempts = 0, aborts = 0;
  // aborts by status: both bits count as capacity; other: neither
  std::uint64_t capacity = 0, conflict = 0, other = 0;
  void add(line::AbortStatus status) {
    ++aborts;
    if (has(status, line::kStatusCapacity))
      ++capacity;
    else if (has(status, line::kStatusConflict))
      ++conflict;
    else
      ++other;
  }
  [[nodiscard]] double share() const {
    TMH_ASSERT(attempts > 0 && aborts <= attempts);
    return static_cast<double>(aborts) / static_cast<double>(attempts);
  }
  [[nodiscard]] std::string codes() const {
    if (aborts == 0) return "-";
    std::string text;
    const auto put = [&](std::uint64_t count, const char *name) {
      if (count == 0) return;
      if (!text.empty()) text += ' ';
      text += name + std::string("=") + std::to_string(count);
    };
    put(capacity, "capacity(8)");
    put(conflict, "conflict(4)");
    put(other, "none(0)");
    return text;
  }
};

// One attempt by the processor. Nothing inside but the stores: no call, no page that was not
// touched before.
Outcome by_rtm(std::byte *base, const std::vector<std::uint32_t> &lines, std::uint64_t attempts) {
  TMH_ASSERT(base != nullptr && attempts > 0);
  Outcome outcome;
  const std::uint32_t *const first = lines.data();
  const std::size_t count = lines.size();
  for (outcome.attempts = 0; outcome.attempts < attempts; ++outcome.attempts) {
    const std::uint32_t status = line::rtm_begin();
    if (status != line::kRtmStarted) {
      outcome.add(line::AbortStatus{status});
      continue;
    }
    for (std::size_t i = 0; i < count; ++i)
      reinterpret_cast<std::atomic<std::uint64_t> *>(base + std::size_t{first[i]} * kLineBytes)
          ->store(i, std::memory_order_relaxed);  // alone; atomic so that every store is made
    line::rtm_end();
  }
  return outcome;
}

struct Options {
  CommonOptions common;
  std::string model = "32KiB/8/64";
  std::uint64_t attempts = 400;  // of each size
};

class CapacityBench {
 public:
  explicit CapacityBench(Options options)
      : options_(std::move(options)),
        scratch_(options_.common.folder),
        lines_(scratch_.path(), kMemoryBytes) {
    if (line::parse(options_.model, &model_) != Errc::kOk || model_.write_sets == 0)
      throw std::runtime_error("'" + options_.model + "' is no model of a cache; right values: " +
                               line::capacity_values());
    if (options_.common.tiny) options_.attempts = 40;
    std::fill(lines_.base(), lines_.base() + kMemoryBytes, std::byte{0});  // every page is there
    const platform::CacheGeometry l1d = platform::data_cache(1);
    if (line::detect_rtm().is_usable && l1d.ways != 0 && l1d.line_bytes == kLineBytes)
      rtm_ = {static_cast<std::uint32_t>(l1d.bytes / l1d.ways / kLineBytes), l1d.ways};
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["seed"] = options_.common.seed;
    parameters["model"] = options_.model;
    parameters["attempts"] = options_.attempts;
    Report report("capacity", environment(scratch_.path()), parameters);
    report.print_head();
    std::printf("model %s: %u sets of %u lines\n", options_.model.c_str(), model_.write_sets,
                model_.write_ways);
    if (rtm_.sets != 0)
      std::printf("RTM, with this machine's first data cache: %u sets of %u lines\n", rtm_.sets,
                  rtm_.ways);
    else
      std::printf("RTM: SKIPPED: %s\n", line::detect_rtm().is_usable
                                            ? "the system does not tell the cache's geometry"
                                            : line::detect_rtm().reason.c_str());
    for (const Pattern &pattern : kPatterns) measure(pattern, &report);
    std::printf("\nresult hash %s: which attempts fit the model\n", hex(hash_.value()).c_str());
    report.note("result_hash", hex(hash_.value()));
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  struct Point {
    std::uint64_t lines;
    double model_expected, rtm_expected;
    Outcome model, rtm;
  };

  void measure(const Pattern &pattern, Report *report) {
    TMH_ASSERT(report != nullptr && options_.attempts > 0);
    const auto thread = lines_.thread();
    line::Begin begin;
    begin.capacity = &model_;
    std::vector<Point> points;
    std::vector<std::uint32_t> chosen;
    for (std::uint64_t n = pattern.step; n <= pattern.max; n += pattern.step) {
      Point point{n,
                  expected_aborts(pattern, {model_.write_sets, model_.write_ways}, n),
                  rtm_.sets == 0 ? 0 : expected_aborts(pattern, rtm_, n),
                  {},
                  {}};
      Random random(options_.common.seed + n);
      for (std::uint64_t attempt = 0; attempt < options_.attempts; ++attempt) {
        choose_lines(pattern, n, &random, &chosen);
        ++point.model.attempts;
        const Status status = line::attempt(*thread, begin, [&] {
          for (const std::uint32_t each : chosen)
            thread->store(
                reinterpret_cast<std::uint64_t *>(lines_.base() + std::size_t{each} * kLineBytes),
                n);
        });
        if (status != Status::kCommitted) point.model.add(thread->status());
        if (rtm_.sets == 0) continue;
        const Outcome one = by_rtm(lines_.base(), chosen, 1);
        ++point.rtm.attempts;
        point.rtm.aborts += one.aborts;
        point.rtm.capacity += one.capacity;
        point.rtm.conflict += one.conflict;
        point.rtm.other += one.other;
      }
      check(pattern, point);
      hash_.add(point.model.aborts);
      points.push_back(point);
    }
    print(pattern, points, report);
  }

  static void check(const Pattern &pattern, const Point &point) {
    TMH_ASSERT(point.model_expected >= 0 && point.model_expected <= 1);
    const auto n = static_cast<double>(point.model.attempts);
    const double p = point.model_expected, allowed = 5 * std::sqrt(p * (1 - p) / n) + 1e-9;
    if (std::abs(point.model.share() - p) > allowed || point.model.aborts != point.model.capacity)
      throw std::runtime_error(std::string(pattern.name) + ", " + std::to_string(point.lines) +
                               " lines: the model aborts " + number(point.model.share()) +
                               " of the attempts, theory " + number(p));
  }

  void print(const Pattern &pattern, const std::vector<Point> &points, Report *report) const {
    TMH_ASSERT(report != nullptr && !points.empty());
    std::printf(
        "\n%s: attempts that abort, by lines written ('.' theory for the model, '#' model%s)\n",
        pattern.name, rtm_.sets == 0 ? "" : "; ',' theory for RTM's cache, 'o' RTM");
    constexpr int kRows = 10;
    const auto row_of = [](double share) { return static_cast<int>(std::lround(share * kRows)); };
    for (int row = kRows; row >= 0; --row) {
      std::string line;
      for (const Point &point : points) {
        char shown = ' ';
        if (rtm_.sets != 0 && row_of(point.rtm_expected) == row) shown = ',';
        if (row_of(point.model_expected) == row) shown = '.';
        if (rtm_.sets != 0 && row_of(point.rtm.share()) == row) shown = 'o';
        if (row_of(point.model.share()) == row) shown = '#';
        line += std::string(2, shown == ' ' ? ' ' : shown);
      }
      std::printf("%4d%% |%s\n", row * 10, line.c_str());
    }
    std::printf("      +%s\n       %-8llu%*llu lines\n",
                std::string(2 * points.size(), '-').c_str(),
                static_cast<unsigned long long>(points.front().lines),
                static_cast<int>(2 * points.size()) - 8,
                static_cast<unsigned long long>(points.back().lines));
    Table table({"lines", "theory", "model", "codes", "theory for RTM", "RTM", "codes"});
    const std::size_t every = std::max<std::size_t>(1, points.size() / 16);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const Point &point = points[i];
      Json row;
      row["lines"] = point.lines;
      row["model_expected"] = point.model_expected;
      row["model_aborts"] = point.model.share();
      row["model_capacity"] = point.model.capacity;
      if (rtm_.sets != 0) {
        row["rtm_expected"] = point.rtm_expected;
        row["rtm_aborts"] = point.rtm.share();
        row["rtm_capacity"] = point.rtm.capacity;
        row["rtm_conflict"] = point.rtm.conflict;
        row["rtm_other"] = point.rtm.other;
      }
      report->add(pattern.name, std::move(row));
      if (i % every != every - 1) continue;
      const bool has_rtm = rtm_.sets != 0;
      table.add({std::to_string(point.lines), number(point.model_expected),
                 number(point.model.share()), point.model.codes(),
                 has_rtm ? number(point.rtm_expected) : "-",
                 has_rtm ? number(point.rtm.share()) : "-", has_rtm ? point.rtm.codes() : "-"});
    }
    table.print();
  }

  Options options_;
  ScratchFolder scratch_;
  LoneLines lines_;
  line::CapacityModel model_;
  Geometry rtm_;  // sets 0: none
  ResultHash hash_;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app{
      "Abort codes by working-set size: the capacity model, theory, and RTM where it works"};
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--model", options.model, "capacity model, e.g. 32KiB/8/64").capture_default_str();
  app.add_option("--attempts", options.attempts, "of each working-set size")
      .capture_default_str()
      .check_positive();
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::CapacityBench(options).run(); });
}
