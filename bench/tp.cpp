// bench/tp.cpp -- what transactions of tp.h cost, beside Berkeley DB's, on the bank of TPC-B.
// Shape:   in a round every case is measured once, in rotating order: a variant, a durability and a
//          number of processes, which share one bank in a fresh folder. A warm-up of the same shape
//          runs before the clock starts. Locks are taken one record each, in one order by all.
//            steps     four locks; four steps, each with a record of the bytes that it changes;
//                      tp_commit()
//            one step  four locks; everything in tp_commit_step(), without records
//            aborts    as steps, and then tp_abort()
//            none      the same loads and stores of private memory, one process
//            records   four B-trees of dbopen(), DB_SHARED | DB_TP, by get and put
//            private files  the same without transactions, one process
//            server    records, at a server on a Unix socket, to which each call is a request
//            server, one request  the same, a request for each transaction
//            tcl       records, in Tcl, one process
//          --parts also measures transactions of which parts are left out.
// Checked: after the last transaction the sums of branches, tellers and accounts are that of what
//          was committed, and each process's last row of history is its last transfer's.
// Source:  LIBTP, 5; TPC Benchmark B.
#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "bench/support/tp_db.h"
#include "bench/support/tp_server.h"
#include "bench/support/tp_tmh.h"
#include "bench/support/tp_work.h"
#include "platform/assert.h"
#ifdef TMH_BENCH_BERKELEY_DB
#include "bench/support/tp_berkeley_db.h"
#endif

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  std::uint64_t branches = 10, accounts = 1'000;
  std::uint64_t transactions = 40'000, synced = 1'000;  // of each process
  std::vector<unsigned> processes = {1, 2, 4};
  bool with_parts = false;
  std::vector<std::string> only;
};

enum class Store : std::uint8_t { kTp, kDb, kPrivate, kPlain, kBerkeley, kServer, kRequest, kTcl };
enum class Scope : std::uint8_t { kAlways, kParts };

constexpr int kVolatile = 0, kSynced = 1, kNotSynced = 2;
constexpr std::array<int, 3> kDurabilities = {kVolatile, kNotSynced, kSynced};
constexpr const char *name_of(int durability) noexcept {
  return durability == kVolatile ? "volatile" : durability == kSynced ? "synced" : "not synced";
}

struct Variant {
  const char *name;
  Store store;
  TransactionParts parts;
  bool is_for_one = false;  // process; not synced or volatile
  bool changes = true;      // the bank
  Scope scope = Scope::kAlways;
};
constexpr TransactionEnd kCommit = TransactionEnd::kCommit, kAbort = TransactionEnd::kAbort;
constexpr std::array<Variant, 16> kVariants = {
    {{"steps", Store::kTp, {}},
     {"one step", Store::kTp, {.end = TransactionEnd::kCommitStep}},
     {"Berkeley DB", Store::kBerkeley, {}},
     {"aborts", Store::kTp, {.end = kAbort}, true, false},
     {"Berkeley DB, aborts", Store::kBerkeley, {.end = kAbort}, true, false},
     {"none", Store::kPlain, {}, true},
     {"records", Store::kDb, {}},
     {"private files", Store::kPrivate, {}, true},
     {"server", Store::kServer, {}},
     {"server, one request", Store::kRequest, {}},
     {"tcl", Store::kTcl, {}, true},
     {"begin, commit", Store::kTp, {kCommit, false, false}, true, false, Scope::kParts},
     {"locks", Store::kTp, {kCommit, true, false}, true, false, Scope::kParts},
     {"locks, empty steps",
      Store::kTp,
      {kCommit, true, true, false, false},
      true,
      false,
      Scope::kParts},
     {"locks, stores", Store::kTp, {kCommit, true, true, false, true}, true, true, Scope::kParts},
     {"locks, records",
      Store::kTp,
      {kCommit, true, true, true, false},
      true,
      false,
      Scope::kParts}}};
constexpr std::size_t kSteps = 0, kOneStep = 1, kBerkeley = 2, kAborts = 3, kNone = 5;
constexpr std::size_t kRecords = 6, kPrivate = 7;

// Of dbopen()'s bank, which is made before.
constexpr bool is_of_db(Store store) noexcept {
  return store == Store::kDb || store == Store::kServer || store == Store::kRequest ||
         store == Store::kTcl;
}
constexpr bool is_served(Store store) noexcept {
  return store == Store::kServer || store == Store::kRequest;
}

constexpr bool has_berkeley() noexcept {
#ifdef TMH_BENCH_BERKELEY_DB
  return true;
#else
  return false;
#endif
}

struct Case {
  std::size_t variant;
  int durability;
  unsigned processes;
  [[nodiscard]] auto operator<=>(const Case &) const = default;
};

struct Wish {
  const char *text;
  Case fast, slow;
  double wanted;
};
// Times as many transactions per second.
constexpr std::array<Wish, 15> kWishes = {
    {{"steps, not synced, 1 process, x Berkeley DB",
      {kSteps, kNotSynced, 1},
      {kBerkeley, kNotSynced, 1},
      1.5},
     {"steps, not synced, 2 processes, x Berkeley DB",
      {kSteps, kNotSynced, 2},
      {kBerkeley, kNotSynced, 2},
      2.5},
     {"one step, not synced, 1 process, x Berkeley DB",
      {kOneStep, kNotSynced, 1},
      {kBerkeley, kNotSynced, 1},
      1.5},
     {"one step, not synced, 2 processes, x Berkeley DB",
      {kOneStep, kNotSynced, 2},
      {kBerkeley, kNotSynced, 2},
      2.5},
     {"steps, synced, 1 process, x Berkeley DB", {kSteps, kSynced, 1}, {kBerkeley, kSynced, 1}, 1},
     {"steps, synced, 4 processes, x Berkeley DB",
      {kSteps, kSynced, 4},
      {kBerkeley, kSynced, 4},
      3},
     {"steps, volatile, x none", {kSteps, kVolatile, 1}, {kNone, kVolatile, 1}, 0.7},
     {"one step, volatile, x none", {kOneStep, kVolatile, 1}, {kNone, kVolatile, 1}, 0.7},
     {"aborts, volatile, x steps", {kAborts, kVolatile, 1}, {kSteps, kVolatile, 1}, 0.5},
     {"aborts, not synced, x steps", {kAborts, kNotSynced, 1}, {kSteps, kNotSynced, 1}, 0.5},
     {"records, not synced, 1 process, x Berkeley DB",
      {kRecords, kNotSynced, 1},
      {kBerkeley, kNotSynced, 1},
      1.5},
     {"records, not synced, 2 processes, x Berkeley DB",
      {kRecords, kNotSynced, 2},
      {kBerkeley, kNotSynced, 2},
      2},
     {"records, synced, 1 process, x Berkeley DB",
      {kRecords, kSynced, 1},
      {kBerkeley, kSynced, 1},
      1},
     {"records, synced, 4 processes, x Berkeley DB",
      {kRecords, kSynced, 4},
      {kBerkeley, kSynced, 4},
      3},
     {"records, volatile, x private files",
      {kRecords, kVolatile, 1},
      {kPrivate, kVolatile, 1},
      0.6}}};

struct alignas(128) Member {
  std::int64_t sum;
  std::uint64_t retries;
  Transfer last;
};

class TpBench {
 public:
  explicit TpBench(const Options &options) : options_(options), scratch_(options.common.folder) {
    if (options_.common.tiny) {
      options_.rounds = 1;
      options_.transactions = 60;
      options_.synced = 4;
      options_.processes = {1, 2};
      options_.with_parts = true;
    }
#ifdef TMH_BENCH_BERKELEY_DB
    static const std::string kMemoryFolder = "/dev/shm";
    if (::access(kMemoryFolder.c_str(), W_OK) == 0) memory_.emplace(kMemoryFolder);
#endif
    if (options_.accounts % options_.branches != 0)
      throw std::runtime_error("each branch has as many accounts");
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["seed"] = options_.common.seed;
    parameters["rounds"] = options_.rounds;
    parameters["branches"] = options_.branches;
    parameters["accounts"] = options_.accounts;
    parameters["transactions"] = options_.transactions;
    parameters["synced"] = options_.synced;
    Report report("tp", environment(scratch_.path()), parameters);
    report.print_head();
    if (!has_berkeley()) std::printf("not built: Berkeley DB\n");
    const std::vector<Case> cases = all_cases();
    for (std::size_t round = 0; round < options_.rounds; ++round)
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const Case &measured = cases[(i + round) % cases.size()];
        us_[measured].push_back(measure(measured));
      }
    print(cases, &report);
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  [[nodiscard]] bool is_wanted(std::string_view name) const {
    return options_.only.empty() ||
           std::any_of(options_.only.begin(), options_.only.end(), [&](const std::string &part) {
             return name.substr(0, part.size()) == part;
           });
  }
  [[nodiscard]] std::vector<Case> all_cases() const {
    std::vector<Case> cases;
    for (const int durability : kDurabilities)
      for (const unsigned processes : options_.processes)
        for (std::size_t i = 0; i < kVariants.size(); ++i) {
          const Variant &variant = kVariants[i];
          if (!is_wanted(variant.name)) continue;
          if (variant.store == Store::kBerkeley && !has_berkeley()) continue;
          if (variant.store == Store::kTcl && !has_tcl()) continue;
          if (variant.scope == Scope::kParts && !options_.with_parts) continue;
          if (variant.is_for_one && (processes != 1 || durability == kSynced)) continue;
          const bool is_kept_nowhere =
              variant.store == Store::kPlain || variant.store == Store::kPrivate;
          if (is_kept_nowhere && durability != kVolatile) continue;
          cases.push_back({i, durability, processes});
        }
    return cases;
  }

  [[nodiscard]] std::unique_ptr<BankSession> open(const Case &measured, const std::string &home,
                                                  const std::string &folder,
                                                  unsigned process) const {
    TMH_ASSERT(measured.variant < kVariants.size());
    const Variant &variant = kVariants[measured.variant];
    const BankScale scale{options_.branches, options_.accounts};
#ifdef TMH_BENCH_BERKELEY_DB
    if (variant.store == Store::kBerkeley)
      return open_berkeley_bank(home, folder, scale, process, measured.durability,
                                variant.parts.end == kAbort);
#else
    (void)home;
#endif
    if (variant.store == Store::kPlain) return open_plain_bank(scale, process);
    if (variant.store == Store::kPrivate)
      return open_db_bank(folder, scale, process, kPrivateFiles);
    if (variant.store == Store::kDb)
      return open_db_bank(folder, scale, process, measured.durability);
    if (variant.store == Store::kServer)
      return open_server_bank(folder, scale, process, measured.durability);
    if (variant.store == Store::kRequest)
      return open_request_bank(folder, scale, process, measured.durability);
    if (variant.store == Store::kTcl) return open_tcl_bank(folder, process, measured.durability);
    return open_tp_bank(folder, scale, process, measured.durability, variant.parts);
  }

  // Microseconds that a process has for each of its transactions.
  double measure(const Case &measured) {
    const Variant &variant = kVariants[measured.variant];
    const std::string name = "bank-" + std::to_string(folders_++);
    const std::string folder = scratch_.subfolder(name);
    const std::string home =
        variant.store == Store::kBerkeley && memory_ ? memory_->subfolder(name) : folder;
#ifdef TMH_BENCH_BERKELEY_DB
    if (variant.store == Store::kBerkeley)
      run_alone([&] {
        make_berkeley_bank(home, folder, {options_.branches, options_.accounts},
                           measured.durability);
      });
#endif
    if (is_of_db(variant.store) || variant.store == Store::kPrivate)
      run_alone([&] {
        make_db_bank(folder, {options_.branches, options_.accounts},
                     is_of_db(variant.store) ? measured.durability : kPrivateFiles);
      });
    std::optional<BankServer> server;
    if (is_served(variant.store)) server.emplace(folder, measured.durability);
    const std::uint64_t count =
        measured.durability == kSynced ? options_.synced : options_.transactions;
    const Shared<std::array<Member, kTellingProcesses>> members;
    const double ns = run_team_ns(measured.processes, [&](unsigned index, const TeamClock &clock) {
      const std::unique_ptr<BankSession> bank = open(measured, home, folder, index);
      Transfers transfers({options_.branches, options_.accounts}, options_.common.seed + index);
      Member self{};
      const auto transact = [&](std::uint64_t transactions) {
        for (std::uint64_t i = 0; i < transactions; ++i) {
          self.last = transfers.next();
          bank->transact(self.last);
          self.sum += self.last.amount;
        }
      };
      transact(std::max<std::uint64_t>(1, count / 10));
      clock.start();
      transact(count);
      clock.finish();
      self.retries = bank->retries();
      (*members)[index] = self;
      clock.meet();
      if (index == 0) check(*bank, *members, measured);
      clock.meet();
    });
    for (const Member &member : *members) retries_[measured] += member.retries;
    server.reset();
    std::filesystem::remove_all(folder);
    std::filesystem::remove_all(home);
    return ns / 1000 / static_cast<double>(count);
  }

  static void check(BankSession &bank, const std::array<Member, kTellingProcesses> &members,
                    const Case &measured) {
    const bool changes = kVariants[measured.variant].changes;
    std::int64_t expected = 0;
    for (unsigned i = 0; changes && i < measured.processes; ++i) expected += members[i].sum;
    const BankSums sums = bank.sums();
    for (const std::int64_t sum : {sums.branches, sums.tellers, sums.accounts})
      if (sum != expected)
        throw std::runtime_error("balances sum up to " + std::to_string(sum) + " instead of " +
                                 std::to_string(expected));
    for (unsigned i = 0; i < measured.processes; ++i) {
      const Transfer &last = members[i].last;
      const HistoryRow row = bank.row(i, last.number);
      const bool is_told = row.number == last.number && row.amount == last.amount;
      if (is_told != changes)
        throw std::runtime_error("history " + std::to_string(i) + (changes ? " lacks" : " has") +
                                 " the last transfer");
    }
  }

  [[nodiscard]] const std::vector<double> *samples(const Case &of) const {
    const auto found = us_.find(of);
    return found == us_.end() ? nullptr : &found->second;
  }

  void print(const std::vector<Case> &cases, Report *report) const {
    TMH_ASSERT(report != nullptr);
    Table table({"durability", "processes", "variant", "us a transaction", "transactions/s",
                 "x Berkeley DB"});
    for (const Case &of : cases) {
      const Summary us = summarize(*samples(of));
      const double per_second = us.median > 0 ? 1e6 * of.processes / us.median : 0;
      Json line;
      line["variant"] = kVariants[of.variant].name;
      line["durability"] = name_of(of.durability);
      line["processes"] = of.processes;
      put(line, "us", us);
      line["per_second"] = per_second;
      line["retries"] = retries_.at(of);
      std::string ratio = "-";
      if (const auto *const slow = samples({kBerkeley, of.durability, of.processes})) {
        const Summary times = summarize_ratio(*slow, *samples(of));
        put(line, "times_berkeley_db", times);
        ratio = with_mad(times);
      }
      table.add({name_of(of.durability), std::to_string(of.processes), kVariants[of.variant].name,
                 with_mad(us), number(per_second), ratio});
      report->add("tp", std::move(line));
    }
    std::printf("\nTransactions of TPC-B, median ±MAD %% of %zu rounds\n", options_.rounds);
    table.print();
    print_wishes(report);
    std::printf("\nbalances and histories are what was committed\n");
  }

  void print_wishes(Report *report) const {
    TMH_ASSERT(report != nullptr);
    Table table({"transactions per second", "times", "wanted", "verdict"});
    for (const Wish &wish : kWishes) {
      const auto *const fast = samples(wish.fast), *const slow = samples(wish.slow);
      if (fast == nullptr || slow == nullptr) continue;
      const Summary times = summarize_ratio(*slow, *fast);
      Json line;
      line["wish"] = wish.text;
      line["wanted"] = wish.wanted;
      put(line, "times", times);
      report->add("wishes", std::move(line));
      table.add({wish.text, with_mad(times), ">= " + number(wish.wanted),
                 times.median >= wish.wanted ? "met" : "MISSED"});
    }
    if (table.is_empty()) return;
    std::printf("\n");
    table.print();
  }

  Options options_;
  ScratchFolder scratch_;
  std::optional<ScratchFolder> memory_;
  std::map<Case, std::vector<double>> us_;
  std::map<Case, std::uint64_t> retries_;  // of all rounds
  std::uint64_t folders_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("Transactions of tp.h beside Berkeley DB's, on TPC-B's bank", "tp");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str()
      .check_positive();
  app.add_option("--branches", options.branches, "of 10 tellers each")
      .capture_default_str()
      .check_positive();
  app.add_option("--accounts", options.accounts, "of all branches")
      .capture_default_str()
      .check_positive();
  app.add_option("--transactions", options.transactions, "of each process, timed")
      .capture_default_str()
      .check_positive();
  app.add_option("--synced", options.synced, "the same, where each is synced")
      .capture_default_str()
      .check_positive();
  app.add_option("--processes", options.processes, "numbers of processes")
      .capture_default_str()
      .delimiter(',')
      .check_range(1, tmh::bench::kTellingProcesses);
  app.add_flag("--parts", options.with_parts, "also transactions of which parts are left out");
  app.add_option("--only", options.only, "variants whose names begin like this").delimiter(',');
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::TpBench(options).run(); });
}
