// bench/support/itm_results.cpp -- tables of bench/itm.
#include "bench/support/itm_results.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr unsigned kWantedMeanThreads = 2;
constexpr double kWantedMean = 1.8, kWantedSlowest = 1;
// Of method pages.
constexpr double kWantedReading = 1.5, kWantedLong = 1000, kWantedSlowdownMax = 1.5;
constexpr std::size_t kWantedReadingCases = 2;

using Counts = std::map<std::string, double>;

double count_of(const Counts &counts, const char *name) {
  const auto at = counts.find(name);
  return at == counts.end() ? 0 : at->second;
}

std::string key_of(const std::string &what, unsigned threads, const std::string &contestant) {
  return fmt::format("{}\n{}\n{}", what, threads, contestant);
}

std::optional<Summary> ratio_of(const std::vector<double> &these,
                                const std::vector<double> &others) {
  const bool is_comparable =
      !these.empty() && these.size() == others.size() &&
      std::all_of(others.begin(), others.end(), [](double x) { return x > 0; });
  if (!is_comparable) return std::nullopt;
  return summarize_ratio(these, others);
}

std::string cell(const std::optional<Summary> &ratio) {
  return ratio ? with_mad(*ratio) : std::string("-");
}

void put_ratio(Json &row, const std::string &name, const std::optional<Summary> &ratio) {
  if (!ratio) return;
  row[name] = ratio->median;
  row[name + "_mad"] = ratio->mad;
}

void print_below(const Table &table) {
  if (table.is_empty()) return;
  std::printf("\n");
  table.print();
}

double geometric_mean(const std::vector<double> &values) {
  TMH_ASSERT(!values.empty());
  double logarithms = 0;
  for (const double value : values) logarithms += std::log(value);
  return std::exp(logarithms / static_cast<double>(values.size()));
}

// "validation 3.1, alone 0.2": what was counted more than never, for each 1,000 transactions.
std::string causes(const Counts &counts, double transactions) {
  TMH_ASSERT(transactions > 0);
  constexpr std::string_view kAborts = "aborts_";
  std::string text;
  for (const auto &[name, count] : counts) {
    // Of methods pages: conflicts, too_old, plain.
    const bool is_cause = name.starts_with(kAborts) || name.starts_with("hardware_") ||
                          name == "alone" || name == "irrevocable" || name == "conflicts" ||
                          name == "too_old" || name == "plain";
    if (!is_cause || count == 0) continue;
    const std::string cause = name.starts_with(kAborts) ? name.substr(kAborts.size()) : name;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", cause,
                        number(1000 * count / transactions));
  }
  return text.empty() ? "none" : text;
}

}  // namespace

ItmStatistics read_statistics(const std::string &path) {
  ItmStatistics all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json object = Json::parse(line, Json::IfBroken::kDiscard);
    if (!object.is_object()) continue;
    for (const auto &[key, value] : object.items()) {
      if (value.is_number()) all.counts[key] += value.get<double>();
      if (key == "method" && value.is_string()) all.method = value.get<std::string>();
      if (!value.is_object()) continue;
      for (const auto &[name, count] : value.items())
        if (count.is_number()) all.counts[key + "_" + name] += count.get<double>();
    }
  }
  return all;
}

ItmResults::Attempts ItmResults::attempts_of(const Samples &samples) {
  const auto count = [&](const char *name) { return count_of(samples.counts, name); };
  // A program's own count lies in memory that a method may undo with the attempt.
  if (count("begins") == 0) return {samples.transactions, samples.attempts};
  const double alone = count("alone"), hardware = count("hardware_commits");
  return {count("commits") + alone + hardware,
          count("begins") + alone + hardware + count("hardware_conflicts") +
              count("hardware_capacity") + count("hardware_other")};
}

const ItmResults::Samples *ItmResults::find(const std::string &what, unsigned threads,
                                            const std::string &contestant) const {
  const auto at = samples_.find(key_of(what, threads, contestant));
  return at == samples_.end() || !at->second.failure.empty() ? nullptr : &at->second;
}

ItmResults::Samples &ItmResults::samples(const ItmCase &what, unsigned threads,
                                         const ItmContestant &contestant) {
  return samples_[key_of(what.name, threads, contestant.name)];
}

void ItmResults::add(const ItmCase &what, unsigned threads, const ItmContestant &contestant,
                     const ItmNumbers &numbers, const ItmStatistics &statistics) {
  TMH_ASSERT(threads > 0 && numbers.rate > 0);
  Samples &all = samples(what, threads, contestant);
  all.rates.push_back(numbers.rate);
  if (!what.reading.long_field.empty()) all.long_rates.push_back(numbers.long_rate);
  all.transactions += numbers.transactions;
  all.attempts += numbers.attempts;
  for (const auto &[name, count] : statistics.counts) all.counts[name] += count;
}

void ItmResults::fail(const ItmCase &what, unsigned threads, const ItmContestant &contestant,
                      const std::string &sentence) {
  TMH_ASSERT(!sentence.empty());  // an empty one says that it has not failed
  samples(what, threads, contestant).failure = sentence;
  ++failures_;
  std::fprintf(stderr, "itm: %s, %u threads, %s: %s\n", what.name.c_str(), threads,
               contestant.name.c_str(), sentence.c_str());
}

bool ItmResults::has_failed(const ItmCase &what, unsigned threads,
                            const ItmContestant &contestant) const {
  const auto at = samples_.find(key_of(what.name, threads, contestant.name));
  return at != samples_.end() && !at->second.failure.empty();
}

std::vector<ItmResults::Ratio> ItmResults::ratios(const std::string &contestant, unsigned threads,
                                                  const std::string &other,
                                                  unsigned threads_of_other,
                                                  bool reads_mostly) const {
  std::vector<Ratio> all;
  for (const ItmCase &what : cases_) {
    if (reads_mostly && !what.reads_mostly) continue;
    const Samples *const these = find(what.name, threads, contestant);
    const Samples *const others = find(what.name, threads_of_other, other);
    if (these == nullptr || others == nullptr) continue;
    if (const auto ratio = ratio_of(these->rates, others->rates); ratio)
      all.push_back({&what, ratio->median});
  }
  std::sort(all.begin(), all.end(),
            [](const Ratio &left, const Ratio &right) { return left.times < right.times; });
  return all;
}

void ItmResults::print(Report *report) const {
  TMH_ASSERT(report != nullptr);
  print_rates(report);
  print_long(report);
  print_means(report);
  print_verdicts(report);
}

void ItmResults::print_rates(Report *report) const {
  Table table({"case, threads, on", "op/ms", "x ml_wt", "x plain", "attempts",
               "aborts by cause per 1,000"});
  for (const ItmCase &what : cases_) {
    for (const unsigned threads : threads_) {
      const Samples *const baseline = find(what.name, threads, kBaseline);
      const Samples *const plain = find(what.name, 1, kPlain);
      for (const ItmContestant &contestant : contestants_) {
        const auto at = samples_.find(key_of(what.name, threads, contestant.name));
        if (at == samples_.end()) continue;
        const Samples &these = at->second;
        const std::string head = fmt::format("{} {} {}", what.name, threads, contestant.name);
        Json row;
        row["case"] = what.name;
        row["reads_mostly"] = what.reads_mostly;
        row["threads"] = threads;
        row["contestant"] = contestant.name;
        row["method"] = contestant.method;
        if (!these.failure.empty()) {
          row["failure"] = these.failure;
          table.add({head, "FAILED", "-", "-", "-", these.failure});
          report->add("rates", std::move(row));
          continue;
        }
        const Summary rate = summarize(these.rates);
        put(row, "operations_per_s", rate);
        const auto times = baseline ? ratio_of(these.rates, baseline->rates) : std::nullopt;
        const auto of_plain = plain ? ratio_of(these.rates, plain->rates) : std::nullopt;
        put_ratio(row, "times_ml_wt", times);
        put_ratio(row, "times_plain", of_plain);
        const auto [transactions, attempts] = attempts_of(these);
        if (transactions > 0) {
          row["transactions"] = transactions;
          row["attempts_per_transaction"] = attempts / transactions;
        }
        for (const auto &[name, count] : these.counts) row["counted_" + name] = count;
        Summary per_ms = rate;
        per_ms.median /= 1000;
        per_ms.mad /= 1000;
        table.add(
            {head, with_mad(per_ms), cell(times), cell(of_plain),
             transactions > 0 ? number(attempts / transactions) : "-",
             these.counts.empty() || transactions == 0 ? "" : causes(these.counts, transactions)});
        report->add("rates", std::move(row));
      }
    }
  }
  table.print();
}

void ItmResults::print_long(Report *report) const {
  Table table(
      {"long transactions beside: case, threads, on", "long/s", "x ml_wt", "others slowed, times"});
  for (const ItmCase &what : cases_) {
    if (what.reading.long_field.empty()) continue;
    for (const unsigned threads : threads_) {
      const Samples *const baseline = find(what.name, threads, kBaseline);
      for (const ItmContestant &contestant : contestants_) {
        const Samples *const these = find(what.name, threads, contestant.name);
        if (these == nullptr) continue;
        const Samples *const alone = find(what.alone, threads, contestant.name);
        const auto times =
            baseline ? ratio_of(these->long_rates, baseline->long_rates) : std::nullopt;
        const auto slowed = alone ? ratio_of(alone->rates, these->rates) : std::nullopt;
        Json row;
        row["case"] = what.name;
        row["threads"] = threads;
        row["contestant"] = contestant.name;
        const Summary rate = summarize(these->long_rates);
        put(row, "long_per_s", rate);
        put_ratio(row, "times_ml_wt", times);
        put_ratio(row, "others_slowed", slowed);
        report->add("long", std::move(row));
        table.add({fmt::format("{} {} {}", what.name, threads, contestant.name), with_mad(rate),
                   cell(times), cell(slowed)});
      }
    }
  }
  print_below(table);
}

void ItmResults::print_means(Report *report) const {
  Table table({"all cases: on, threads", "cases", "x ml_wt, geometric mean", "slowest", "x ml_wt"});
  for (const ItmContestant &contestant : contestants_) {
    if (contestant.name == kBaseline) continue;
    for (const unsigned threads : threads_) {
      const std::vector<Ratio> all = ratios(contestant.name, threads, kBaseline, threads);
      if (all.empty()) continue;
      std::vector<double> times;
      for (const Ratio &each : all) times.push_back(each.times);
      Json row;
      row["contestant"] = contestant.name;
      row["threads"] = threads;
      row["cases"] = all.size();
      row["geometric_mean_times_ml_wt"] = geometric_mean(times);
      row["slowest_case"] = all.front().what->name;
      row["slowest_times_ml_wt"] = all.front().times;
      report->add("means", std::move(row));
      table.add({fmt::format("{}, {}", contestant.name, threads), std::to_string(all.size()),
                 number(geometric_mean(times)), all.front().what->name, number(all.front().times)});
    }
  }
  print_below(table);
}

namespace {

void judge(const std::string &what, const std::string &bound, double measured, bool is_met,
           const std::string &where, Table *table, Report *report) {
  TMH_ASSERT(table != nullptr && report != nullptr);
  Json row;
  row["what"] = what;
  row["wanted"] = bound;
  row["measured"] = measured;
  row["where"] = where;
  row["met"] = is_met;
  report->add("verdict", std::move(row));
  table->add({what, bound, number(measured), where, is_met ? "met" : "MISSED"});
}

}  // namespace

void ItmResults::print_verdicts(Report *report) const {
  Table table({"what", "wanted", "measured", "where", ""});
  for (const unsigned threads : threads_) {
    if (threads > kWantedMeanThreads) continue;
    const std::vector<Ratio> all = ratios(kOursByDefault, threads, kBaseline, threads);
    if (all.empty()) continue;
    judge(fmt::format("{}, times ml_wt, slowest case, threads: {}", kOursByDefault, threads),
          ">= " + number(kWantedSlowest), all.front().times, all.front().times >= kWantedSlowest,
          all.front().what->name, &table, report);
    if (threads != kWantedMeanThreads) continue;
    std::vector<double> times;
    for (const Ratio &each : all) times.push_back(each.times);
    const double mean = geometric_mean(times);
    judge(fmt::format("{}, times ml_wt, geometric mean, threads: {}", kOursByDefault, threads),
          ">= " + number(kWantedMean), mean, mean >= kWantedMean,
          fmt::format("{} cases", all.size()), &table, report);
  }
  for (const ItmContestant &contestant : contestants_)
    if (contestant.name.starts_with("pages")) judge_pages(contestant.name, &table, report);
  print_below(table);

  const std::vector<Ratio> plain = ratios(kPlain, 1, kOursByDefault, 1);
  if (plain.empty()) return;
  std::vector<double> times;
  for (const Ratio &each : plain) times.push_back(each.times);
  std::printf("plain, times %s, 1 thread: geometric mean %s, least %s (%s), most %s (%s)\n",
              kOursByDefault, number(geometric_mean(times)).c_str(),
              number(plain.front().times).c_str(), plain.front().what->name.c_str(),
              number(plain.back().times).c_str(), plain.back().what->name.c_str());
  Json row;
  row["geometric_mean_plain_times_lines"] = geometric_mean(times);
  row["least"] = plain.front().times;
  row["least_case"] = plain.front().what->name;
  row["most"] = plain.back().times;
  row["most_case"] = plain.back().what->name;
  report->add("plain", std::move(row));
}

void ItmResults::judge_pages(const std::string &name, Table *table, Report *report) const {
  for (const unsigned threads : threads_) {
    const std::vector<Ratio> all = ratios(name, threads, kBaseline, threads, true);
    if (all.size() >= kWantedReadingCases) {
      const Ratio &judged = all[all.size() - kWantedReadingCases];
      judge(fmt::format("{}, times ml_wt, second best case that reads mostly, threads: {}", name,
                        threads),
            ">= " + number(kWantedReading), judged.times, judged.times >= kWantedReading,
            judged.what->name, table, report);
    }
    for (const ItmCase &what : cases_) {
      const Samples *const these = find(what.name, threads, name);
      if (what.reading.long_field.empty() || these == nullptr) continue;
      if (const Samples *const baseline = find(what.name, threads, kBaseline); baseline != nullptr)
        if (const auto times = ratio_of(these->long_rates, baseline->long_rates); times)
          judge(fmt::format("{}, long transactions, times ml_wt, threads: {}", name, threads),
                ">= " + number(kWantedLong), times->median, times->median >= kWantedLong, what.name,
                table, report);
      if (const Samples *const alone = find(what.alone, threads, name); alone != nullptr)
        if (const auto slowed = ratio_of(alone->rates, these->rates); slowed)
          judge(fmt::format("{}, others beside long transactions, slowed, threads: {}", name,
                            threads),
                "<= " + number(kWantedSlowdownMax), slowed->median,
                slowed->median <= kWantedSlowdownMax, what.name, table, report);
    }
  }
}

}  // namespace tmh::bench
