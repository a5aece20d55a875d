// examples/itm/reservations.cpp -- a travel agency's database: customers reserve cars, flights and
// rooms, customers cancel, rows change; one more thread, if wanted, scans rows meanwhile.
// Checks:    each scan finds each place of a row either free or used; a scan of everything also as
//            many used places as customers have reserved. So does one after the end; and all trees
//            are in balance.
// Source:    STAMP (vacation); EXCITE-VM, section 6.2 (scans).
#include "examples/itm/reservations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "examples/itm/support/counts.h"
#include "examples/itm/support/report.h"

namespace {

struct Mix {
  std::uint64_t rows = 16'384, queries = 4, query_range_percent = 60, reserve_percent = 90;
  bool olap = false;
  std::uint64_t scan_rows = 0, scans = 20;
};

// Of one thread.
struct alignas(2 * itm::kLineBytes) Tally {
  std::uint64_t reserves = 0, cancels = 0, updates = 0, places = 0, customers = 0, wrong_scans = 0;
  std::int64_t bills = 0;
  std::vector<double> scan_us;
  std::uint64_t rows_scanned = 0;
};

void fill(const Mix &mix, itm::Random &random) {
  std::vector<std::uint64_t> ids(mix.rows);
  for (std::uint64_t table = 0; table <= itm::kTables; ++table) {
    std::iota(ids.begin(), ids.end(), std::uint64_t{1});
    for (std::uint64_t i = mix.rows - 1; i > 0; --i) std::swap(ids[i], ids[random.below(i + 1)]);
    for (const std::uint64_t id : ids) {
      if (table == itm::kTables) {
        itm::add_customer(id);
      } else {
        itm::add_row(table, id, static_cast<std::int64_t>(100 + 100 * random.below(5)),
                     static_cast<std::int64_t>(50 + 10 * random.below(50)));
      }
    }
  }
}

void draw(itm::Random &random, const Mix &mix, std::uint64_t range, itm::Query *queries) {
  for (std::uint64_t i = 0; i < mix.queries; ++i) {
    queries[i].table = random.below(itm::kTables);
    queries[i].id = 1 + random.below(range);
    queries[i].price = static_cast<std::int64_t>(50 + 10 * random.below(50));
    queries[i].adds = random.below(2) == 0;
  }
}

void serve(itm::Worker &worker, const Mix &mix, Tally &tally) {
  itm::Random &random = worker.random();
  const std::uint64_t range = std::max<std::uint64_t>(1, mix.rows * mix.query_range_percent / 100);
  std::array<itm::Query, itm::kQueriesMax> queries;
  Tally mine;
  while (worker.goes_on()) {
    const std::uint64_t dice = random.below(200);
    const std::uint64_t customer = 1 + random.below(range);
    if (dice < 2 * mix.reserve_percent) {
      draw(random, mix, range, queries.data());
      mine.places += itm::reserve(customer, queries.data(), mix.queries);
      ++mine.reserves;
    } else if (dice % 2 == 0) {
      const std::int64_t bill = itm::cancel(customer);
      ++mine.cancels;
      if (bill < 0) continue;
      ++mine.customers;
      mine.bills += bill;
    } else {
      draw(random, mix, range, queries.data());
      itm::update_rows(queries.data(), mix.queries);
      ++mine.updates;
    }
  }
  tally = std::move(mine);
}

void analyse(itm::Worker &worker, const Mix &mix, bool by_the_clock, Tally &tally) {
  itm::Random &random = worker.random();
  Tally mine;
  while (by_the_clock ? worker.goes_on(1) : mine.scan_us.size() < mix.scans) {
    const std::uint64_t table = random.below(itm::kTables), first = 1 + random.below(mix.rows);
    const auto begin = itm::Worker::Clock::now();
    const itm::Scan scan =
        mix.scan_rows == 0 ? itm::scan_all() : itm::scan_rows(table, first, mix.scan_rows);
    const std::chrono::duration<double, std::micro> time = itm::Worker::Clock::now() - begin;
    mine.scan_us.push_back(time.count());
    mine.rows_scanned += scan.rows;
    if (scan.wrong != 0) ++mine.wrong_scans;
  }
  tally = std::move(mine);
}

void tell_scans(std::vector<double> us, std::uint64_t rows, itm::Report &report) {
  report.detail("scans", us.size());
  report.detail("rows_scanned", rows);
  if (us.empty()) return;
  std::sort(us.begin(), us.end());
  const auto count = static_cast<double>(us.size());
  const double mean = std::accumulate(us.begin(), us.end(), 0.0) / count;
  double squares = 0;
  for (const double each : us) squares += (each - mean) * (each - mean);
  report.detail("scan_us_mean", mean);
  report.detail("scan_us_deviation", std::sqrt(squares / count));
  report.detail("scan_us_99_percent", us[(us.size() * 99 - 1) / 100]);
  report.detail("scan_us_max", us.back());
}

}  // namespace

int main(int argc, char **argv) {
  Mix mix;
  itm::Options options("reservations", "A travel agency: reservations, cancellations, updates");
  options.add("--rows", mix.rows, "rows of each table, and customers, at the start", 1, 1u << 26);
  options.add("--queries", mix.queries, "rows that a reservation or update looks at", 1,
              itm::kQueriesMax);
  options.add("--query-range", mix.query_range_percent, "percent of the rows that are asked for", 1,
              100);
  options.add("--reserve", mix.reserve_percent,
              "percent: reservations; cancellations and updates share the rest", 0, 100);
  options.add_flag("--olap", mix.olap,
                   "one thread more scans meanwhile; `operations` are of the others");
  options.add("--scan", mix.scan_rows,
              "rows of one table that a scan reads; 0: all rows and all reservations", 0, 1u << 26);
  options.add("--scans", mix.scans, "scans of --olap when --operations says how much", 1, 1u << 20);
  if (!options.parse(argc, argv)) return options.status();
  itm::Common common = options.common();
  // The scanning thread is the last one.
  const std::uint64_t servers = common.threads;
  if (mix.olap && itm::is_plain()) return options.refuse("--olap needs a second thread");
  if (mix.olap) ++common.threads;

  itm::Random random(itm::seed_of(common.seed, 0));
  fill(mix, random);
  std::vector<Tally> tallies(common.threads);
  itm::Work done = itm::run_threads(common, [&](itm::Worker &worker) {
    Tally &tally = tallies[worker.index()];
    if (worker.index() == servers) {
      analyse(worker, mix, common.operations == 0, tally);
    } else {
      serve(worker, mix, tally);
    }
  });

  Tally all;
  for (const Tally &each : tallies) {
    all.reserves += each.reserves;
    all.cancels += each.cancels;
    all.updates += each.updates;
    all.places += each.places;
    all.customers += each.customers;
    all.bills += each.bills;
  }
  done.operations = all.reserves + all.cancels + all.updates;
  itm::Report report(options);
  report.detail("rows", mix.rows);
  report.detail("queries", mix.queries);
  report.detail("query_range_percent", mix.query_range_percent);
  report.detail("reserve_percent", mix.reserve_percent);
  report.detail("reserves", all.reserves);
  report.detail("cancels", all.cancels);
  report.detail("updates", all.updates);
  report.detail("places_reserved", all.places);
  report.detail("customers_removed", all.customers);
  report.detail("bills", all.bills);
  if (mix.olap) {
    report.detail("scan_rows", mix.scan_rows);
    tell_scans(tallies[servers].scan_us, tallies[servers].rows_scanned, report);
    report.require(tallies[servers].wrong_scans == 0,
                   std::to_string(tallies[servers].wrong_scans) + " scans found what cannot be");
  }
  const itm::Scan last = itm::scan_all();
  report.detail("final_rows", last.rows);
  report.require(last.wrong == 0, "places and reservations do not match");
  report.require(itm::trees_are_valid(), "a tree is broken");
  return report.print(done);
}
