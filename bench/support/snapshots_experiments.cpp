// bench/support/snapshots_experiments.cpp -- the experiments of the snapshots bench.
#include "bench/support/snapshots_experiments.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

using Contestant = SnapshotContestant;

constexpr std::uint64_t kNeighbourNumbers = 131'072;  // 1 MiB

template <class Mix>
struct Row {
  std::vector<Mix> workers;
  bool times_steps = false;
  bool has_plain = false;
};

// Median of the rounds' ratios; 0: one stood still.
double ratio_of(const std::vector<double> &mine, const std::vector<double> &others) {
  TMH_ASSERT(!others.empty() && mine.size() == others.size());
  if (*std::min_element(others.begin(), others.end()) <= 0) return 0;
  return summarize_ratio(mine, others).median;
}

// Measures rows by contestants, round by round.
template <class Mix>
class Rounds {
 public:
  Rounds(const SnapshotPlan &plan, std::uint64_t size) : plan_(plan), size_(size) {
    TMH_ASSERT(plan.scratch != nullptr && plan.report != nullptr && plan.hash != nullptr);
    TMH_ASSERT(plan.rounds > 0 && plan.steps > 0 && !plan.contestants.empty() && size > 0);
  }

  // What one worker of this mix finds in a fixed number of steps is the same for all.
  void compare(const Mix &mix) {
    Cell<Mix> cell = cell_of({{mix}});
    cell.steps = plan_.steps;
    std::uint64_t expected = 0;
    for (const Contestant contestant : plan_.contestants) {
      const std::uint64_t hash = run(cell, contestant).hash;
      if (contestant == plan_.contestants.front()) plan_.hash->add(expected = hash);
      if (hash != expected)
        throw std::runtime_error(std::string(to_string(contestant)) +
                                 " finds something else than " +
                                 to_string(plan_.contestants.front()));
    }
  }

  void measure(const std::vector<Row<Mix>> &rows) {
    rows_ = rows;
    for (std::size_t round = 0; round < plan_.rounds; ++round)
      for (std::size_t row = 0; row < rows.size(); ++row) {
        const std::vector<Contestant> contestants = contestants_of(row);
        for (std::size_t i = 0; i < contestants.size(); ++i) {
          const Contestant contestant = contestants[(i + round) % contestants.size()];
          outcomes_[{row, contestant}].push_back(run(cell_of(rows[row]), contestant).workers);
        }
      }
  }

  [[nodiscard]] std::vector<Contestant> contestants_of(std::size_t row) const {
    TMH_ASSERT(row < rows_.size());
    std::vector<Contestant> all = plan_.contestants;
    if (rows_[row].has_plain) all.insert(all.begin(), Contestant::kPlain);
    return all;
  }
  // By round.
  [[nodiscard]] std::vector<double> rates(std::size_t row, Contestant contestant,
                                          const std::vector<unsigned> &workers) const {
    std::vector<double> all;
    for (const auto &outcome : outcomes_.at({row, contestant})) {
      double sum = 0;
      for (const unsigned worker : workers) sum += outcome[worker].steps_per_s;
      all.push_back(sum);
    }
    return all;
  }
  [[nodiscard]] std::vector<double> rates(std::size_t row, Contestant contestant) const {
    std::vector<unsigned> all;
    for (unsigned worker = 0; worker < rows_[row].workers.size(); ++worker) all.push_back(worker);
    return rates(row, contestant, all);
  }
  // Of all rounds.
  struct Totals {
    std::uint64_t steps = 0, retries = 0, alone = 0;
  };
  [[nodiscard]] Totals totals(std::size_t row, Contestant contestant, unsigned worker) const {
    Totals sums;
    for (const auto &outcome : outcomes_.at({row, contestant})) {
      sums.steps += outcome[worker].steps;
      sums.retries += outcome[worker].retries;
      sums.alone += outcome[worker].alone;
    }
    return sums;
  }
  [[nodiscard]] double retries_per_step(std::size_t row, Contestant contestant) const {
    std::uint64_t steps = 0, retries = 0;
    for (unsigned worker = 0; worker < rows_[row].workers.size(); ++worker) {
      const Totals of_worker = totals(row, contestant, worker);
      steps += of_worker.steps;
      retries += of_worker.retries;
    }
    return static_cast<double>(retries) / static_cast<double>(std::max<std::uint64_t>(steps, 1));
  }
  // Median over the rounds of a time, or the speed, of a worker's.
  [[nodiscard]] double time(std::size_t row, Contestant contestant, unsigned worker,
                            double WorkerRates::*which) const {
    std::vector<double> all;
    for (const auto &outcome : outcomes_.at({row, contestant}))
      all.push_back(outcome[worker].*which);
    return summarize(all).median;
  }
  // Median of the rounds' ratios of all rates; 0: the other one was not measured, or stood still.
  [[nodiscard]] double times(std::size_t row, Contestant contestant, Contestant other) const {
    return has(row, other) ? ratio_of(rates(row, contestant), rates(row, other)) : 0;
  }
  [[nodiscard]] bool has(std::size_t row, Contestant contestant) const {
    return outcomes_.contains({row, contestant});
  }

 private:
  [[nodiscard]] Cell<Mix> cell_of(const Row<Mix> &row) const {
    Cell<Mix> cell;
    cell.workers = row.workers;
    cell.size = size_;
    cell.seed = plan_.seed;
    cell.seconds = plan_.seconds;
    cell.warm_up_seconds = plan_.warm_up_seconds;
    cell.times_steps = row.times_steps;
    return cell;
  }
  [[nodiscard]] CellOutcome run(const Cell<Mix> &cell, Contestant contestant) {
    const std::string folder = plan_.scratch->subfolder("cell");
    CellOutcome outcome;
    try {
      outcome = run_cell(cell, contestant, folder);
    } catch (const std::runtime_error &error) {
      throw std::runtime_error(std::string(to_string(contestant)) + ": " + error.what());
    }
    std::filesystem::remove_all(folder);
    return outcome;
  }

  const SnapshotPlan &plan_;
  std::uint64_t size_;
  std::vector<Row<Mix>> rows_;
  std::map<std::pair<std::size_t, Contestant>, std::vector<std::vector<WorkerRates>>> outcomes_;
};

std::string text(const Json &row, const char *key) {
  TMH_ASSERT(key != nullptr);
  return row.contains(key) ? number(row[key].get<double>()) : "-";
}
void put_ratio(Json *row, const char *key, double ratio) {
  TMH_ASSERT(row != nullptr && key != nullptr);
  if (ratio > 0) (*row)[key] = ratio;
}

// Operations per second, and as multiples of others'. what: the case, in the table.
template <class Mix>
void add_rates(const std::string &what, const Rounds<Mix> &rounds, std::size_t at,
               Contestant contestant, Json *row, Table *table) {
  TMH_ASSERT(row != nullptr && table != nullptr);
  const Summary rate = summarize(rounds.rates(at, contestant));
  put(*row, "operations_per_s", rate);
  put_ratio(row, "times_libitm", rounds.times(at, contestant, Contestant::kItm));
  put_ratio(row, "times_lock", rounds.times(at, contestant, Contestant::kLock));
  (*row)["retries_per_operation"] = rounds.retries_per_step(at, contestant);
  table->add({what + " " + to_string(contestant), with_mad(rate), text(*row, "times_libitm"),
              text(*row, "times_lock"), text(*row, "retries_per_operation")});
}

}  // namespace

void run_bank(const SnapshotPlan &plan) {
  std::printf("\nBank of %llu accounts, read-all beside a writer (EXCITE-VM, figure 2)\n",
              static_cast<unsigned long long>(plan.accounts));
  const BankMix transfers{false}, sums{true};
  Rounds<BankMix> rounds(plan, plan.accounts);
  rounds.compare(transfers);
  struct Roles {
    unsigned writers, readers;
  };
  constexpr Roles kRoles[] = {{0, 1}, {1, 1}, {1, 0}, {2, 0}};
  std::vector<Row<BankMix>> rows;
  for (const Roles &roles : kRoles) {
    Row<BankMix> row;
    row.workers.assign(roles.writers, transfers);
    row.workers.insert(row.workers.end(), roles.readers, sums);
    row.has_plain = roles.writers == 0;
    rows.push_back(row);
  }
  rounds.measure(rows);
  const std::vector<double> plain = rounds.rates(0, Contestant::kPlain);
  Table table({"contestant, writers + readers", "queries/s", "x plain loop", "x plain alone",
               "x libitm", "retries/query", "alone", "transfers/s", "retries/transfer"});
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const Roles &roles = kRoles[at];
    for (const Contestant contestant : rounds.contestants_of(at)) {
      Json row;
      row["contestant"] = to_string(contestant);
      row["writers"] = roles.writers;
      row["readers"] = roles.readers;
      std::string queries_text = "-", transfers_text = "-";
      if (roles.readers > 0) {
        const std::vector<double> rates = rounds.rates(at, contestant, {roles.writers});
        const auto [queries, retries, alone] = rounds.totals(at, contestant, roles.writers);
        put(row, "queries_per_s", summarize(rates));
        queries_text = with_mad(summarize(rates));
        put_ratio(&row, "query_speed",
                  rounds.time(at, contestant, roles.writers, &WorkerRates::speed));
        put_ratio(&row, "query_rate_of_plain", ratio_of(rates, plain));
        // Of all rounds: libitm may complete no query in one.
        if (rounds.has(at, Contestant::kItm)) {
          const std::uint64_t others = rounds.totals(at, Contestant::kItm, roles.writers).steps;
          row["times_libitm_queries"] = static_cast<double>(queries) /
                                        static_cast<double>(std::max<std::uint64_t>(others, 1));
        }
        row["queries"] = queries;
        row["queries_retried"] = retries;
        row["queries_alone"] = alone;
      }
      if (roles.writers > 0) {
        std::vector<unsigned> writers = {0};
        if (roles.writers == 2) writers.push_back(1);
        const Summary rate = summarize(rounds.rates(at, contestant, writers));
        put(row, "transfers_per_s", rate);
        transfers_text = with_mad(rate);
        std::uint64_t done = 0, retried = 0;
        for (const unsigned writer : writers) {
          done += rounds.totals(at, contestant, writer).steps;
          retried += rounds.totals(at, contestant, writer).retries;
        }
        row["transfers_retried"] =
            static_cast<double>(retried) / static_cast<double>(std::max<std::uint64_t>(done, 1));
      }
      const std::string name = std::string(to_string(contestant)) + " " +
                               std::to_string(roles.writers) + "+" + std::to_string(roles.readers);
      const std::string retries_text = roles.readers > 0
                                           ? number(row["queries_retried"].get<double>() /
                                                    std::max(row["queries"].get<double>(), 1.0))
                                           : "-";
      const std::string alone_text = roles.readers > 0
                                         ? number(row["queries_alone"].get<double>() /
                                                  std::max(row["queries"].get<double>(), 1.0))
                                         : "-";
      table.add({name, queries_text, text(row, "query_speed"), text(row, "query_rate_of_plain"),
                 text(row, "times_libitm_queries"), retries_text, alone_text, transfers_text,
                 text(row, "transfers_retried")});
      plan.report->add("bank", std::move(row));
    }
  }
  table.print();
  std::printf(
      "wanted of tmh-snapshot 1+1: 0.6 of the plain loop, 1,000 times libitm's queries, no "
      "retries\n");
}

void run_list(const SnapshotPlan &plan) {
  std::printf("\nSorted list of %llu elements (EXCITE-VM, figure 2)\n",
              static_cast<unsigned long long>(plan.elements));
  Rounds<ListMix> rounds(plan, plan.elements);
  rounds.compare(ListMix{50});
  std::vector<Row<ListMix>> rows;
  std::vector<std::pair<unsigned, unsigned>> what;
  for (const unsigned percent : plan.update_percents) {
    for (const unsigned workers : {1u, 2u}) {
      Row<ListMix> row;
      row.workers.assign(workers, ListMix{percent});
      rows.push_back(row);
      what.emplace_back(percent, workers);
    }
  }
  rounds.measure(rows);
  Table table({"updates, workers, contestant", "operations/s", "x libitm", "x lock", "retries/op"});
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const auto [percent, workers] = what[at];
    for (const Contestant contestant : rounds.contestants_of(at)) {
      Json row;
      row["contestant"] = to_string(contestant);
      row["workers"] = workers;
      row["update_percent"] = percent;
      add_rates(std::to_string(percent) + " % " + std::to_string(workers), rounds, at, contestant,
                &row, &table);
      plan.report->add("list", std::move(row));
    }
  }
  table.print();
}

void run_reservations(const SnapshotPlan &plan) {
  std::printf(
      "\nReservations: a writer beside a reader's scans, three tables of %llu rows (EXCITE-VM, "
      "figures 7 to 9)\n",
      static_cast<unsigned long long>(plan.rows));
  const ReservationMix writer{0};
  Rounds<ReservationMix> rounds(plan, plan.rows);
  rounds.compare(writer);
  // Row 0: alone; row 1: beside a neighbour that is busy elsewhere.
  constexpr std::size_t kScansFrom = 2;
  std::vector<Row<ReservationMix>> rows = {
      {{writer}, true, false}, {{writer, ReservationMix{1, kNeighbourNumbers}}, true, false}};
  for (const std::uint64_t scan : plan.scans)
    rows.push_back({{writer, ReservationMix{scan}}, true, false});
  TMH_ASSERT(rows.size() == kScansFrom + plan.scans.size());
  rounds.measure(rows);
  Table table({"rows of a scan, contestant", "OLTP/s", "slowed", "of neighbour's", "us", "sd",
               "99 %", "OLAP/s", "us", "sd", "99 %", "retries/OLTP", "/OLAP"});
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const std::uint64_t scan = at < kScansFrom ? 0 : plan.scans[at - kScansFrom];
    for (const Contestant contestant : rounds.contestants_of(at)) {
      Json row;
      row["contestant"] = to_string(contestant);
      row["scan_rows"] = scan;
      const std::vector<double> oltp = rounds.rates(at, contestant, {0});
      put(row, "oltp_per_s", summarize(oltp));
      put_ratio(&row, "oltp_slowdown", ratio_of(rounds.rates(0, contestant, {0}), oltp));
      put_ratio(&row, "oltp_slowdown_of_neighbour",
                ratio_of(rounds.rates(1, contestant, {0}), oltp));
      row["oltp_us_mean"] = rounds.time(at, contestant, 0, &WorkerRates::us_mean);
      row["oltp_us_sd"] = rounds.time(at, contestant, 0, &WorkerRates::us_sd);
      row["oltp_us_p99"] = rounds.time(at, contestant, 0, &WorkerRates::us_p99);
      const auto put_retries = [&](const char *key, unsigned worker) {
        const auto [done, retried, alone] = rounds.totals(at, contestant, worker);
        (void)alone;
        row[key] =
            static_cast<double>(retried) / static_cast<double>(std::max<std::uint64_t>(done, 1));
      };
      put_retries("oltp_retries", 0);
      std::string olap_text = "-";
      if (scan > 0) {
        const Summary olap = summarize(rounds.rates(at, contestant, {1}));
        olap_text = with_mad(olap);
        put(row, "olap_per_s", olap);
        row["olap_us_mean"] = rounds.time(at, contestant, 1, &WorkerRates::us_mean);
        row["olap_us_sd"] = rounds.time(at, contestant, 1, &WorkerRates::us_sd);
        row["olap_us_p99"] = rounds.time(at, contestant, 1, &WorkerRates::us_p99);
        put_retries("olap_retries", 1);
      }
      const std::string name = at == 1 ? "neighbour" : std::to_string(scan);
      table.add({name + " " + to_string(contestant), with_mad(summarize(oltp)),
                 text(row, "oltp_slowdown"), text(row, "oltp_slowdown_of_neighbour"),
                 text(row, "oltp_us_mean"), text(row, "oltp_us_sd"), text(row, "oltp_us_p99"),
                 olap_text, text(row, "olap_us_mean"), text(row, "olap_us_sd"),
                 text(row, "olap_us_p99"), text(row, "oltp_retries"), text(row, "olap_retries")});
      plan.report->add(at == 1 ? "reservations-neighbour" : "reservations", std::move(row));
    }
  }
  table.print();
  std::printf("wanted of tmh-snapshot beside scans of 100,000 rows: slowed by at most 1.3\n");
}

void run_ycsb(const SnapshotPlan &plan) {
  std::printf("\nYCSB on a B+-tree of %llu records of 960 bytes (EXCITE-VM, figures 11 and 12)\n",
              static_cast<unsigned long long>(plan.records));
  Rounds<YcsbMix> rounds(plan, plan.records);
  std::vector<Row<YcsbMix>> rows;
  std::vector<std::pair<char, unsigned>> what;
  for (const char letter : {'a', 'e'}) {
    rounds.compare(YcsbMix{letter});
    for (const unsigned workers : {1u, 2u}) {
      Row<YcsbMix> row;
      row.workers.assign(workers, YcsbMix{letter});
      rows.push_back(row);
      what.emplace_back(letter, workers);
    }
  }
  rounds.measure(rows);
  Table table(
      {"workload, workers, contestant", "operations/s", "x libitm", "x lock", "retries/op"});
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const auto [letter, workers] = what[at];
    for (const Contestant contestant : rounds.contestants_of(at)) {
      Json row;
      row["contestant"] = to_string(contestant);
      row["workload"] = std::string(1, letter);
      row["workers"] = workers;
      add_rates(std::string(1, letter) + " " + std::to_string(workers), rounds, at, contestant,
                &row, &table);
      plan.report->add("ycsb", std::move(row));
    }
  }
  table.print();
}

}  // namespace tmh::bench
