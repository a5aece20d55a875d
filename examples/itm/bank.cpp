// examples/itm/bank.cpp -- transfers between accounts, and transactions that read all of them; one
// more thread, if wanted, does nothing but that.
// Checks:    each sum that a transaction reads, and the last one, is what the bank began with.
#include "examples/itm/bank.h"

#include <vector>

#include "examples/itm/support/counts.h"
#include "examples/itm/support/report.h"

namespace {

constexpr std::int64_t kBalance = 1000;

struct Mix {
  std::uint64_t accounts = 1024, read_all_percent = 10, turn_percent = 0, readers = 0;
  bool has_auditor = false;
  std::uint64_t audits = 20;
};

// Of one thread.
struct alignas(2 * itm::kLineBytes) Tally {
  std::uint64_t transfers = 0, read_alls = 0, turns = 0, audits = 0, wrong_sums = 0;
};

void work(itm::Worker &worker, const Mix &mix, Tally &tally) {
  itm::Random &random = worker.random();
  const std::int64_t total = kBalance * static_cast<std::int64_t>(mix.accounts);
  const std::uint64_t read_all_percent = worker.index() < mix.readers ? 100 : mix.read_all_percent;
  // Long transactions: the clock is read before each.
  const std::uint64_t stride = read_all_percent + mix.turn_percent == 0 ? 16 : 1;
  Tally mine;
  while (worker.goes_on(stride)) {
    const std::uint64_t dice = random.below(100);
    if (dice < read_all_percent) {
      ++mine.read_alls;
      if (itm::bank_read_all() != total) ++mine.wrong_sums;
    } else if (dice < read_all_percent + mix.turn_percent) {
      ++mine.turns;
      itm::bank_turn();
    } else {
      ++mine.transfers;
      const std::uint64_t from = random.below(mix.accounts), to = random.below(mix.accounts);
      itm::bank_transfer(from, to, static_cast<std::int64_t>(random.below(100)));
    }
  }
  tally = mine;
}

void audit(itm::Worker &worker, const Mix &mix, bool by_the_clock, Tally &tally) {
  const std::int64_t total = kBalance * static_cast<std::int64_t>(mix.accounts);
  Tally mine;
  while (by_the_clock ? worker.goes_on(1) : mine.audits < mix.audits) {
    ++mine.audits;
    if (itm::bank_read_all() != total) ++mine.wrong_sums;
  }
  tally = mine;
}

}  // namespace

int main(int argc, char **argv) {
  Mix mix;
  itm::Options options("bank", "Transfers between accounts beside transactions that read all");
  options.add("--accounts", mix.accounts, "accounts", 2, 1u << 30);
  options.add("--read-all", mix.read_all_percent, "percent: transactions that read all", 0, 100);
  options.add("--turn", mix.turn_percent, "percent: transactions that read and write all", 0, 100);
  options.add("--readers", mix.readers, "threads of --threads that read all, and nothing else", 0,
              itm::kThreadsMax);
  options.add_flag("--audit", mix.has_auditor,
                   "one thread more reads all meanwhile; `operations` are of the others");
  options.add("--audits", mix.audits, "of --audit when --operations says how much", 1, 1u << 20);
  if (!options.parse(argc, argv)) return options.status();
  if (mix.read_all_percent + mix.turn_percent > 100)
    return options.refuse("--read-all and --turn together are at most 100");
  if (mix.readers > options.common().threads)
    return options.refuse("--readers must be at most --threads");
  if (mix.has_auditor && itm::is_plain()) return options.refuse("--audit needs a second thread");
  itm::Common common = options.common();
  // The auditor is the last one.
  const std::uint64_t workers = common.threads;
  if (mix.has_auditor) ++common.threads;

  itm::bank_open(mix.accounts, kBalance);
  std::vector<Tally> tallies(common.threads);
  itm::Work done = itm::run_threads(common, [&](itm::Worker &worker) {
    Tally &tally = tallies[worker.index()];
    if (worker.index() == workers) {
      audit(worker, mix, common.operations == 0, tally);
    } else {
      work(worker, mix, tally);
    }
  });

  Tally all;
  for (const Tally &each : tallies) {
    all.transfers += each.transfers;
    all.read_alls += each.read_alls;
    all.turns += each.turns;
    all.audits += each.audits;
    all.wrong_sums += each.wrong_sums;
  }
  done.operations = all.transfers + all.read_alls + all.turns;
  itm::Report report(options);
  report.detail("accounts", mix.accounts);
  report.detail("read_all_percent", mix.read_all_percent);
  report.detail("turn_percent", mix.turn_percent);
  report.detail("readers", mix.readers);
  report.detail("transfers", all.transfers);
  report.detail("read_alls", all.read_alls);
  report.detail("turns", all.turns);
  if (mix.has_auditor) report.detail("audits", all.audits);
  report.require(all.wrong_sums == 0,
                 std::to_string(all.wrong_sums) + " transactions read a wrong sum");
  report.require(itm::bank_read_all() == kBalance * static_cast<std::int64_t>(mix.accounts),
                 "money was made or lost");
  return report.print(done);
}
