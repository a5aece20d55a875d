// bench/page_touch.cpp -- what touching a page in a transaction costs: the engine's tracking modes,
// and the thesis's mechanism in the same run.
// Shape:   1. primitive costs of this machine                    thesis 4.2.3, tables 4.3 to 4.5
//          2. n pages read or written, hot, cold and random,     thesis 4.2.1 and 4.2.2, figures
//             without and with advice                            4-1 to 4-4, tables 4.2, 4.6
//          3. the same transaction on segments of 1 Ki to 1 Mi pages
//          4. what was wanted beside what was measured
//          A round runs every batch of every variant once; the order of variants rotates and the
//          order of advice alternates from round to round. Ratios are taken within a round, then
//          their median is reported.
// Source:  thesis, section 4.2.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/primitives.h"
#include "bench/support/report.h"
#include "bench/support/touch.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 15;               // odd: the median is a measured value
  std::uint64_t segment_pages = 65'536;  // 256 MiB: 64 times the largest transaction
  std::uint32_t random_pages = 4'096;
  bool skip_primitives = false, skip_sweep = false;
};

struct Variant {
  std::string name;
  bool keeps_pages = false;
  std::unique_ptr<TouchWorker> worker;
};

// What a list of samples was measured of.
struct Key {
  std::string variant;
  Pattern pattern;
  Shape shape;
  Advice advice;
  std::uint64_t sparse_pages;  // of a sparse segment of the sweep; 0: the main segment
  friend auto operator<=>(const Key &, const Key &) = default;
};

constexpr Shape kMixed{16, 16};
static_assert(kMixed.read_pages + kMixed.write_pages <= kSweepBlockPages);
constexpr std::uint64_t kSweepPagesMin = 1'024;
static_assert(kSweepPagesMin >= kSweepBlocks * kSweepBlockPages, "the blocks do not overlap");

class PageTouch {
 public:
  explicit PageTouch(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (options_.common.tiny) {
      options_.rounds = 2;
      options_.segment_pages = 1'024;
      options_.random_pages = 256;
    }
    for (const Mode &mode : available_modes(scratch_.path())) {
      add(mode.name, mode.keeps_pages, start_engine(mode, scratch_.subfolder(mode.name)));
    }
    add("thesis", false, start_thesis(scratch_.subfolder("thesis")));
  }

  int run() {
    Report report("page_touch", environment(scratch_.path()), parameters());
    report.print_head();
    if (!options_.skip_primitives) primitives(&report);
    for (std::size_t round = 0; round < options_.rounds; ++round) touch_round(round);
    if (!options_.skip_sweep) {
      for (std::size_t round = 0; round < options_.rounds; ++round) sweep_round(round);
    }
    add_rows(&report);
    print_tables();
    print_verdict(&report);
    const bool right = wrong_batches_ == 0 && aborted_ == 0;
    std::printf("\nresult hash %s, %s\n", hex(hash_.value()).c_str(),
                right ? "the same in all variants" : "WRONG: variants disagree or aborted");
    report.note("result_hash", hex(hash_.value()));
    report.write(options_.common.csv, options_.common.json);
    return right ? 0 : 1;
  }

 private:
  void add(const std::string &name, bool keeps_pages, std::unique_ptr<TouchWorker> worker) {
    TMH_ASSERT(worker != nullptr);
    if (worker->available()) {
      variants_.push_back({name, keeps_pages, std::move(worker)});
    } else {
      std::printf("unavailable: %s (%s)\n", name.c_str(), worker->reason().c_str());
    }
  }

  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["seed"] = options_.common.seed;
    all["rounds"] = options_.rounds;
    all["random_pages"] = options_.random_pages;
    std::string names;
    for (const Variant &variant : variants_) names += (names.empty() ? "" : " ") + variant.name;
    all["variants"] = names;
    return all;
  }

  // n = 1 .. 1024 in powers of two, read or written, and the two mixes that our goals name (256 r
  // is among the powers).
  [[nodiscard]] std::vector<Shape> shapes(Pattern pattern) const {
    std::vector<Shape> all;
    for (std::uint32_t n = 1; n <= (options_.common.tiny ? 64U : 1024U);
         n *= options_.common.tiny ? 8 : 2) {
      // random: every second power tells the same at half the time (its warm-up touches all random
      // pages)
      if (pattern == Pattern::kRandom && n != 1 && n != 16 && n != 64 && n != 256 && n != 1024)
        continue;
      all.push_back({n, 0});
      all.push_back({0, n});
    }
    all.push_back(kMixed);
    // Ascending: what a large transaction leaves mapped must not burden the small ones after it.
    std::stable_sort(all.begin(), all.end(),
                     [](Shape a, Shape b) { return a.pages() < b.pages(); });
    return all;
  }

  // Batches of about 0.1 to 2 ms where a transaction is not longer itself: long against the clock,
  // and mostly shorter than a time slice, so that other load preempts few of them.
  [[nodiscard]] std::uint32_t transactions(const Variant &variant, Pattern pattern,
                                           Shape shape) const {
    TMH_ASSERT(shape.pages() > 0);
    const std::uint32_t tiny = options_.common.tiny ? 16 : 1;
    if (pattern == Pattern::kHot && variant.keeps_pages)
      return std::clamp(8'192U / shape.pages(), 4U, 2'000U) / tiny + 1;
    return std::clamp(256U / shape.pages(), 1U, 32U) / tiny + 1;
  }

  void measure(Variant &variant, const TouchRequest &request, std::uint64_t *checksum_of_first) {
    TMH_ASSERT(checksum_of_first != nullptr && variant.worker != nullptr);
    const TouchReply reply = variant.worker->call(request);
    samples_[{variant.name, request.pattern, request.shape, request.advice,
              request.sparse ? request.segment_pages : 0}]
        .push_back(reply.us_per_transaction);
    aborted_ += reply.aborted;
    if (*checksum_of_first == 0) {
      *checksum_of_first = reply.checksum;
      hash_.add(reply.checksum);
    } else if (*checksum_of_first != reply.checksum) {
      ++wrong_batches_;
    }
  }

  // All variants run `request` without, with per-page and with range advice. Their segments hold
  // the same bytes at all times, so the checksums of one advice are equal.
  void measure_all(TouchRequest request, std::size_t round) {
    std::vector<Advice> advices = {Advice::kNone, Advice::kPerPage};
    if (request.pattern != Pattern::kRandom) advices.push_back(Advice::kRange);
    if (request.sparse) advices = {Advice::kNone};
    if (round % 2 == 1) std::reverse(advices.begin(), advices.end());
    std::map<Advice, std::uint64_t> checksums;
    for (const Advice advice : advices) checksums[advice] = 0;
    const std::uint64_t seed = random_.next();
    for (std::size_t i = 0; i < variants_.size(); ++i) {
      Variant &variant = variants_[(i + round) % variants_.size()];
      for (const Advice advice : advices) {
        request.advice = advice;
        request.seed = seed + static_cast<std::uint64_t>(advice) * 0x10000;
        request.transactions = request.sparse && request.pattern == Pattern::kCold
                                   ? kSweepBlocks - 1
                                   : transactions(variant, request.pattern, request.shape);
        measure(variant, request, &checksums[advice]);
      }
    }
  }

  void touch_round(std::size_t round) {
    for (const Pattern pattern : {Pattern::kHot, Pattern::kCold, Pattern::kRandom}) {
      for (const Shape shape : shapes(pattern)) {
        TouchRequest request;
        request.segment_pages = options_.segment_pages;
        request.random_pages = options_.random_pages;
        request.pattern = pattern;
        request.shape = shape;
        measure_all(request, round);
      }
    }
  }

  // Section 3 of the file's head: 16 pages read and 16 written, whatever the segment's size.
  void sweep_round(std::size_t round) {
    for (std::uint64_t pages = kSweepPagesMin; pages <= sweep_pages_max(); pages *= 4) {
      for (const Pattern pattern : {Pattern::kHot, Pattern::kCold}) {
        TouchRequest request;
        request.segment_pages = pages;
        request.sparse = true;
        request.pattern = pattern;
        request.shape = kMixed;
        measure_all(request, round);
      }
    }
  }
  [[nodiscard]] std::uint64_t sweep_pages_max() const {
    return options_.common.tiny ? 4'096 : 1'048'576;
  }

  void primitives(Report *report) {
    TMH_ASSERT(report != nullptr);
    std::printf("\nPrimitive costs of this machine (thesis 4.2.3), microseconds\n");
    Table table({"operation", "thesis table", "median", "MAD", "min", "max"});
    const std::size_t runs = options_.common.tiny ? 2 : options_.rounds;
    primitives_ = measure_primitives(scratch_.path(), runs, options_.common.tiny ? 64 : 2'048);
    for (const Primitive &primitive : primitives_) {
      Json row;
      row["operation"] = primitive.name;
      row["thesis_table"] = primitive.thesis;
      if (primitive.unavailable.empty()) {
        put(row, "us", primitive.us);
        table.add({primitive.name, primitive.thesis, number(primitive.us.median),
                   number(primitive.us.mad), number(primitive.us.min), number(primitive.us.max)});
      } else {
        row["unavailable"] = primitive.unavailable;
        table.add({primitive.name, primitive.thesis, "unavailable: " + primitive.unavailable});
      }
      report->add("primitive", std::move(row));
    }
    table.print();
  }

  void add_rows(Report *report) const {
    TMH_ASSERT(report != nullptr);
    for (const auto &[key, samples] : samples_) {
      Json row;
      row["variant"] = key.variant;
      row["pattern"] = to_string(key.pattern);
      row["read_pages"] = key.shape.read_pages;
      row["write_pages"] = key.shape.write_pages;
      row["advice"] = to_string(key.advice);
      row["segment_pages"] = key.sparse_pages == 0 ? options_.segment_pages : key.sparse_pages;
      const Summary us = summarize(samples);
      put(row, "us_per_transaction", us);
      row["us_per_page_median"] = us.median / key.shape.pages();
      report->add(key.sparse_pages == 0 ? "touch" : "sweep", std::move(row));
    }
  }

  [[nodiscard]] const std::vector<double> &samples(const std::string &variant, Pattern pattern,
                                                   Shape shape, Advice advice = Advice::kNone,
                                                   std::uint64_t sparse_pages = 0) const {
    static const std::vector<double> kNone;
    const auto found = samples_.find({variant, pattern, shape, advice, sparse_pages});
    return found == samples_.end() ? kNone : found->second;
  }

  // Microseconds per transaction: a row per shape, a column per variant.
  void print_pattern(Pattern pattern, Advice advice) const {
    std::vector<std::string> head = {"pages"};
    for (const Variant &variant : variants_) head.push_back(variant.name);
    Table table(std::move(head));
    for (const Shape shape : shapes(pattern)) {
      std::vector<std::string> row = {to_string(shape)};
      for (const Variant &variant : variants_) {
        const Summary us = summarize(samples(variant.name, pattern, shape, advice));
        row.push_back(with_mad(us));
      }
      table.add(std::move(row));
    }
    std::printf(
        "\n%s pages, advice %s: microseconds per transaction, median ±MAD %% of %zu rounds\n",
        to_string(pattern), to_string(advice), options_.rounds);
    table.print();
  }

  // Table 4.2 of the thesis, for the largest transaction, in microseconds per page.
  void print_advice_table(Pattern pattern) const {
    const std::uint32_t n = options_.common.tiny ? 64 : 1'024;
    Table table({"variant", "read", "advised", "speedup", "write", "advised", "speedup"});
    const auto row = [&table](const std::string &name, double read, double read_advised,
                              double write, double write_advised) {
      const auto percent = [](double plain, double advised) {
        return number(100 * (plain - advised) / plain) + " %";
      };
      table.add({name, number(read), number(read_advised), percent(read, read_advised),
                 number(write), number(write_advised), percent(write, write_advised)});
    };
    for (const Variant &variant : variants_) {
      const auto per_page = [&](Shape shape, Advice advice) {
        return summarize(samples(variant.name, pattern, shape, advice)).median / n;
      };
      row(variant.name, per_page({n, 0}, Advice::kNone), per_page({n, 0}, Advice::kPerPage),
          per_page({0, n}, Advice::kNone), per_page({0, n}, Advice::kPerPage));
    }
    // Thousands of cycles of table 4.2 times the cycle times of table 4.1.
    row("LIBXAC 2005, machine 1", 110.0 / 3.0, 58.5 / 3.0, 195.5 / 3.0, 88.2 / 3.0);
    row("LIBXAC 2005, machine 2", 44.4 / 2.4, 31.1 / 2.4, 91.6 / 2.4, 63.4 / 2.4);
    row("LIBXAC 2005, machine 3", 21.7 / 1.4, 16.0 / 1.4, 43.5 / 1.4, 34.8 / 1.4);
    row("LIBXAC 2005, machine 4", 16.1 / 0.3, 10.1 / 0.3, 149.4 / 0.3, 143.8 / 0.3);
    std::printf("\nTable 4.2, %s pages, n = %u: microseconds per page\n", to_string(pattern), n);
    table.print();
  }

  // Table 4.6: how far equations 4.1 and 4.2, fed with this machine's primitives, explain the
  // thesis's mechanism here.
  void print_prediction() const {
    if (options_.skip_primitives) return;
    const auto us = [this](const std::string &name) {
      const auto found = std::find_if(primitives_.begin(), primitives_.end(),
                                      [&](const auto &p) { return p.name == name; });
      return found == primitives_.end() ? 0 : found->us.median;
    };
    const double map = us(kMmapInHandler), store_fault = us(kFirstStore),
                 load_fault = us(kMinorFault);
    // The exit was measured with its fault.
    const double signal = us(kHandlerEnter) + us(kHandlerExit) - store_fault;
    const double copy = us(kCopyCached);
    const std::uint32_t n = options_.common.tiny ? 64 : 1'024;
    Table table({"thesis mechanism, n = " + std::to_string(n), "estimate", "actual", "explained"});
    const auto row = [&](const char *what, double estimate, Shape shape, Advice advice) {
      const double actual = summarize(samples("thesis", Pattern::kCold, shape, advice)).median / n;
      table.add({what, number(estimate), number(actual), number(100 * estimate / actual) + " %"});
    };
    row("read (4.1)", signal + 2 * map + load_fault, {n, 0}, Advice::kNone);
    row("read, advised (4.1)", 2 * map + load_fault, {n, 0}, Advice::kPerPage);
    row("write (4.2)", 2 * signal + 3 * map + store_fault + copy, {0, n}, Advice::kNone);
    row("write, advised (4.2)", 2 * map + store_fault + copy, {0, n}, Advice::kPerPage);
    std::printf("\nTable 4.6, cold pages: microseconds per page\n");
    table.print();
  }

  void print_sweep() const {
    if (options_.skip_sweep) return;
    for (const Pattern pattern : {Pattern::kHot, Pattern::kCold}) {
      std::vector<std::string> head = {"segment pages"};
      for (const Variant &variant : variants_) head.push_back(variant.name);
      Table table(std::move(head));
      for (std::uint64_t pages = kSweepPagesMin; pages <= sweep_pages_max(); pages *= 4) {
        std::vector<std::string> row = {std::to_string(pages)};
        for (const Variant &variant : variants_) {
          const Summary us =
              summarize(samples(variant.name, pattern, kMixed, Advice::kNone, pages));
          row.push_back(with_mad(us));
        }
        table.add(std::move(row));
      }
      std::printf(
          "\n%s, %s, sparse segments; 32 blocks of 32 pages are used in each: microseconds per "
          "transaction\n",
          to_string(kMixed).c_str(), to_string(pattern));
      table.print();
    }
  }

  void print_tables() const {
    for (const Pattern pattern : {Pattern::kHot, Pattern::kCold, Pattern::kRandom}) {
      for (const Advice advice : {Advice::kNone, Advice::kPerPage, Advice::kRange}) {
        if (pattern == Pattern::kRandom && advice == Advice::kRange) continue;
        print_pattern(pattern, advice);
      }
    }
    print_advice_table(Pattern::kCold);
    print_advice_table(Pattern::kHot);
    print_prediction();
    print_sweep();
  }

  // --- Wanted / measured
  // -----------------------------------------------------------------------------------------------

  struct Verdicts {
    Table table{{"what", "wanted", "measured (median ±MAD %)", "variant", ""}};
    Report *report = nullptr;
    void add(const std::string &what, const std::string &wanted, const Summary &ratio,
             const std::string &variant, bool reached) {
      TMH_ASSERT(report != nullptr);
      table.add({what, wanted, with_mad(ratio), variant, reached ? "reached" : "MISSED"});
      Json row;
      row["what"] = what;
      row["wanted"] = wanted;
      row["variant"] = variant;
      row["reached"] = reached;
      put(row, "ratio", ratio);
      report->add("verdict", std::move(row));
    }
  };

  // How many times cheaper than the thesis's mechanism (at_least), or which part of its cost
  // (at_most).
  void verdict_against_thesis(Verdicts *verdicts, Pattern pattern, Shape shape,
                              const std::vector<std::string> &names, double bound,
                              bool at_least) const {
    TMH_ASSERT(verdicts != nullptr && bound > 0);
    for (const std::string &name : names) {
      const auto &ours = samples(name, pattern, shape);
      const auto &thesis = samples("thesis", pattern, shape);
      if (ours.empty() || ours.size() != thesis.size()) continue;
      const Summary ratio =
          at_least ? summarize_ratio(thesis, ours) : summarize_ratio(ours, thesis);
      verdicts->add(std::string(to_string(pattern)) + " " + to_string(shape) +
                        (at_least ? ", thesis/ours" : ", ours/thesis"),
                    (at_least ? ">= " : "<= ") + number(bound), ratio, name,
                    at_least ? ratio.median >= bound : ratio.median <= bound);
    }
  }

  // "Never slower than none": the worst cell of a variant, what it costs there, and how many cells
  // are slower beyond three MADs.
  void verdict_advice(Verdicts *verdicts, const Variant &variant, Advice advice) const {
    TMH_ASSERT(verdicts != nullptr && advice != Advice::kNone);
    Summary worst;
    std::string where;
    std::size_t cells = 0, slower = 0;
    for (const auto &[key, advised] : samples_) {
      if (key.variant != variant.name || key.advice != advice || key.sparse_pages != 0) continue;
      const auto &plain = samples(key.variant, key.pattern, key.shape);
      const Summary ratio = summarize_ratio(advised, plain);
      ++cells;
      if (ratio.median - 3 * ratio.mad > 1) ++slower;
      if (ratio.median <= worst.median) continue;
      worst = ratio;
      const double us_more = summarize(advised).median - summarize(plain).median;
      where = std::string(to_string(key.pattern)) + " " + to_string(key.shape) + ": " +
              number(1000 * us_more / key.shape.pages()) + " ns/page more";
    }
    verdicts->add(std::string("advised ") + to_string(advice) + " / plain, worst of " +
                      std::to_string(cells) + " cells (" + where +
                      "); slower beyond 3 MAD: " + std::to_string(slower),
                  "<= 1", worst, variant.name, slower == 0);
  }

  void verdict_size(Verdicts *verdicts, const Variant &variant, Pattern pattern) const {
    TMH_ASSERT(verdicts != nullptr);
    // Of medians over the sizes; "independent" allows for the noise between two medians of the same
    // thing.
    constexpr double kIndependent = 1.25;
    std::vector<double> medians;
    for (std::uint64_t pages = kSweepPagesMin; pages <= sweep_pages_max(); pages *= 4) {
      medians.push_back(
          summarize(samples(variant.name, pattern, kMixed, Advice::kNone, pages)).median);
    }
    const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
    const Summary ratio = summarize({*most / *least});
    verdicts->add(std::string(to_string(pattern)) + " " + to_string(kMixed) +
                      ", segments of 1 Ki to " + std::to_string(sweep_pages_max() / 1024) +
                      " Ki pages, slowest/fastest",
                  "<= " + number(kIndependent), ratio, variant.name, ratio.median <= kIndependent);
  }

  void print_verdict(Report *report) const {
    Verdicts verdicts;
    verdicts.report = report;
    const Shape many_read{options_.common.tiny ? 64U : 256U, 0},
        many_written{0, many_read.read_pages};
    verdict_against_thesis(&verdicts, Pattern::kHot, kMixed, {"kernel-hot", "signal-hot"}, 40,
                           true);
    verdict_against_thesis(&verdicts, Pattern::kHot, many_read, {"kernel-hot", "signal-hot"}, 300,
                           true);
    for (const Shape shape : {kMixed, many_read, many_written}) {
      verdict_against_thesis(&verdicts, Pattern::kCold, shape, {"kernel-hot", "kernel"}, 0.4,
                             false);
      verdict_against_thesis(&verdicts, Pattern::kCold, shape,
                             {"signal-hot", "signal", "signal-eager"}, 0.8, false);
    }
    for (const Variant &variant : variants_) {
      verdict_advice(&verdicts, variant, Advice::kPerPage);
      verdict_advice(&verdicts, variant, Advice::kRange);
    }
    for (const Variant &variant : variants_) {
      if (options_.skip_sweep) break;
      verdict_size(&verdicts, variant, Pattern::kHot);
      verdict_size(&verdicts, variant, Pattern::kCold);
    }
    std::printf("\nWanted and measured%s\n",
                options_.common.tiny ? " (tiny inputs: says nothing about speed)" : "");
    verdicts.table.print();
  }

  Options options_;
  ScratchFolder scratch_;  // before variants_: their processes end before it is removed
  std::vector<Variant> variants_;
  std::map<Key, std::vector<double>> samples_;
  std::vector<Primitive> primitives_;
  ResultHash hash_;
  Random random_{options_.common.seed};
  std::uint64_t wrong_batches_ = 0, aborted_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app(
      "Cost of touching pages in transactions, beside the mechanism of the LIBXAC thesis",
      "page_touch");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str();
  app.add_option("--segment-pages", options.segment_pages, "pages of the segment (cold walk)")
      .capture_default_str();
  app.add_option("--random-pages", options.random_pages, "pages the random pattern draws from")
      .capture_default_str();
  app.add_flag("--skip-primitives", options.skip_primitives, "leave out the primitive costs");
  app.add_flag("--skip-sweep", options.skip_sweep, "leave out the sweep over segment sizes");
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::PageTouch(options).run(); });
}
