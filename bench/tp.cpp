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
//            queried records  records, beside a process that sums all balances in queries
//            record locks, blink  records, by what is locked; --dense: where they meet in leaves
//          --parts also measures transactions of which parts are left out; --all, or --only with
//          their names, contestants of papers/libtp:
//            flock, fsync   private files, with flock(2) or a sync of all files each time
//            4.4BSD         private files of db 1.85 (bench/support/bsd_db.h)
//            SQLite         WAL, prepared statements
//            pages, ...     plain code in an instance, by detection; lines: fields
//          --details: 99 % of a process's latencies, and bytes of log. --memory: of all processes
//          that transact, caches of files included; the files are forgotten before.
// Checked: after the last transaction the sums of branches, tellers and accounts are that of what
//          was committed, and each process's last row of history is its last transfer's.
// Source:  LIBTP, 5; TPC Benchmark B.
#include <algorithm>
#include <array>
#include <atomic>
#include <compare>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <tmh/domain.hpp>

#include "bench/support/bsd_db.h"
#include "bench/support/clock.h"
#include "bench/support/memory_limit.h"
#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/server_process.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "bench/support/tp_db.h"
#include "bench/support/tp_pages.h"
#include "bench/support/tp_server.h"
#include "bench/support/tp_tmh.h"
#include "bench/support/tp_variants.h"
#include "bench/support/tp_work.h"
#include "platform/assert.h"
#ifdef TMH_BENCH_BERKELEY_DB
#include "bench/support/tp_berkeley_db.h"
#endif
#ifdef TMH_BENCH_SQLITE
#include "bench/support/tp_sqlite.h"
#endif

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  std::uint64_t branches = 10, accounts = 1'000;
  std::uint64_t transactions = 40'000, synced = 1'000;  // of each process
  std::vector<unsigned> processes = {1, 2, 4};
  bool with_parts = false, with_all = false;
  bool with_details = false, only_reads = false, is_dense = false;
  std::uint64_t record_bytes = 8, page_bytes = 512, cache_mib = 256;
  std::uint64_t memory_kib = 0;  // 0: no limit
  std::vector<std::string> durabilities;
  std::vector<std::string> only;
};

struct alignas(128) Member {
  std::int64_t sum;
  std::uint64_t retries, log_bytes;
  Transfer last;
};
// One more than transact: who only looks at the log.
using Members = std::array<Member, kTellingProcesses + 1>;

struct Details {
  std::vector<double> p99_us, log_bytes;  // of each round; of a transaction
};

class TpBench {
 public:
  explicit TpBench(const Options &options) : options_(options), scratch_(options.common.folder) {
    if (options_.common.tiny) {
      options_.rounds = 1;
      options_.transactions = 60;
      options_.synced = 4;
      options_.processes = {1, 2};
      options_.accounts = std::min<std::uint64_t>(options_.accounts, 1'000);
      options_.with_parts = options_.with_all = options_.with_details = true;
    }
#ifdef TMH_BENCH_BERKELEY_DB
    static const std::string kMemoryFolder = "/dev/shm";
    if (::access(kMemoryFolder.c_str(), W_OK) == 0) memory_.emplace(kMemoryFolder);
#endif
    if (options_.accounts % options_.branches != 0)
      throw std::runtime_error("each branch has as many accounts");
    if (options_.record_bytes < 8 || options_.page_bytes < options_.record_bytes + 20)
      throw std::runtime_error("a record has 8 bytes or more, and fits into a page");
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
    parameters["record_bytes"] = options_.record_bytes;
    parameters["page_bytes"] = options_.page_bytes;
    parameters["cache_mib"] = options_.cache_mib;
    parameters["dense"] = options_.is_dense;
    parameters["memory_kib"] = options_.memory_kib;
    parameters["only_reads"] = options_.only_reads;
    Report report("tp", environment(scratch_.path()), parameters);
    report.print_head();
    if (!has_berkeley()) std::printf("not built: Berkeley DB\n");
    if (!has_sqlite()) std::printf("not built: SQLite\n");
    if (!why_no_bsd_db().empty()) std::printf("SKIPPED 4.4BSD: %s\n", why_no_bsd_db().c_str());
    if (options_.memory_kib != 0 && !MemoryLimit(options_.memory_kib << 10).is_available())
      return skipped("memory cannot be limited here: it takes root, and a control group");
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
             const bool is_whole = std::any_of(kVariants.begin(), kVariants.end(),
                                               [&](const Variant &v) { return v.name == part; });
             return is_whole ? name == part : name.substr(0, part.size()) == part;
           });
  }
  [[nodiscard]] std::vector<Case> all_cases() const {
    std::vector<Case> cases;
    for (const int durability : kDurabilities) {
      const auto &asked = options_.durabilities;
      if (!asked.empty() &&
          std::find(asked.begin(), asked.end(), name_of(durability)) == asked.end())
        continue;
      for (const unsigned processes : options_.processes)
        for (std::size_t i = 0; i < kVariants.size(); ++i) {
          const Variant &variant = kVariants[i];
          if (!is_wanted(variant.name)) continue;
          if (variant.store == Store::kBerkeley && !has_berkeley()) continue;
          if (variant.store == Store::kSqlite && !has_sqlite()) continue;
          if (variant.store == Store::kTcl && !has_tcl()) continue;
          if (variant.store == Store::kBsd && !why_no_bsd_db().empty()) continue;
          if (variant.scope == Scope::kParts && !options_.with_parts) continue;
          if (variant.scope == Scope::kPaper && !options_.with_all && options_.only.empty())
            continue;
          if (variant.is_for_one && (processes != 1 || durability == kSynced)) continue;
          if (!can_be(variant.store, durability, processes)) continue;
          cases.push_back({i, durability, processes});
        }
    }
    return cases;
  }

  [[nodiscard]] std::unique_ptr<BankSession> open(const Case &measured, const std::string &home,
                                                  const std::string &folder,
                                                  unsigned process) const {
    TMH_ASSERT(measured.variant < kVariants.size());
    const Variant &variant = kVariants[measured.variant];
    const BankScale scale = scale_of_all();
#ifdef TMH_BENCH_SQLITE
    if (variant.store == Store::kSqlite)
      return open_sqlite_bank(folder, scale, process, measured.durability);
#endif
#ifdef TMH_BENCH_BERKELEY_DB
    if (variant.store == Store::kBerkeley)
      return open_berkeley_bank(home, folder, scale, process, measured.durability,
                                variant.parts.end == kAbort);
#else
    (void)home;
#endif
    if (variant.store == Store::kPlain) return open_plain_bank(scale, process);
    if (variant.store == Store::kServer)
      return open_server_bank(folder, scale, process, measured.durability);
    if (variant.store == Store::kRequest)
      return open_request_bank(folder, scale, process, measured.durability);
    if (variant.store == Store::kTcl)
      return open_tcl_bank(folder, scale, process, measured.durability);
    if (variant.store == Store::kRecordLocks) (void)::setenv("TP_DBFLAGS", "DB_RECORD_LOCKS", 1);
    if (variant.store == Store::kBlink) (void)::setenv("TP_DBFLAGS", "DB_BLINK", 1);
    if (is_of_files(variant.store))
      return open_db_bank(folder, scale, process, files_of(variant.store), measured.durability);
    if (variant.store == Store::kTp)
      return open_tp_bank(folder, scale, process, measured.durability, variant.parts);
    return open_instances_bank(folder, scale, process, measured.durability,
                               instances_of(variant.store));
  }
  [[nodiscard]] BankScale scale_of_all() const noexcept {
    return {options_.branches,   options_.accounts,        options_.record_bytes,
            options_.page_bytes, options_.cache_mib << 20, options_.is_dense};
  }
  // What other processes find when they open the bank. Segments need nothing: zeros.
  void make(const Case &measured, const std::string &home, const std::string &folder) const {
    const Store store = kVariants[measured.variant].store;
#ifdef TMH_BENCH_BERKELEY_DB
    if (store == Store::kBerkeley)
      run_alone([&] { make_berkeley_bank(home, folder, scale_of_all(), measured.durability); });
#else
    (void)home;
#endif
#ifdef TMH_BENCH_SQLITE
    if (store == Store::kSqlite)
      run_alone([&] { make_sqlite_bank(folder, scale_of_all(), measured.durability); });
#endif
    if (is_of_files(store))
      run_alone(
          [&] { make_db_bank(folder, scale_of_all(), files_of(store), measured.durability); });
  }

  // The member of a team that counts bytes of log: tp.h does not tell them.
  static void count_log(const std::string &domain_folder, int durability, const TeamClock &clock,
                        Member *member) {
    TMH_ASSERT(member != nullptr);
    clock.meet();
    const Domain domain = Domain::open(domain_folder, DomainOptions{});
    const Durability kept = durability == kSynced ? Durability::kStrict : Durability::kBuffered;
    const std::uint64_t before = logged(domain, kept).bytes;
    clock.start();
    clock.finish();
    clock.meet();
    member->log_bytes = logged(domain, kept).bytes - before;
    clock.meet();
    clock.meet();
  }

  // The member of a team that reads all balances, until all others have ended.
  struct Queried {
    std::atomic<unsigned> ended{0};
    std::atomic<std::uint64_t> queries{0}, ns{0};
  };
  void keep_querying(BankSession &bank, const Case &measured, const TeamClock &clock,
                     Queried *told) const {
    TMH_ASSERT(told != nullptr);
    clock.meet();
    clock.start();
    clock.finish();
    const std::int64_t begin = now_ns();
    while (told->ended.load() != measured.processes) {
      const BankSums sums = bank.sums_in_query();
      if (sums.branches != sums.tellers || sums.branches != sums.accounts)
        throw std::runtime_error(
            "a query sees a part of a transfer: " + std::to_string(sums.branches) + ", " +
            std::to_string(sums.tellers) + ", " + std::to_string(sums.accounts));
      told->queries.fetch_add(1);
    }
    told->ns.store(static_cast<std::uint64_t>(now_ns() - begin));
    clock.meet();
    clock.meet();
    clock.meet();
  }

  // Microseconds that a process has for each of its transactions.
  double measure(const Case &measured) {
    const Variant &variant = kVariants[measured.variant];
    const std::string name = "bank-" + std::to_string(folders_++);
    const std::string folder = scratch_.subfolder(name);
    const std::string home =
        variant.store == Store::kBerkeley && memory_ ? memory_->subfolder(name) : folder;
    make(measured, home, folder);
    std::optional<ServerProcess> server;
    if (is_served(variant.store)) server.emplace(folder, measured.durability);
    std::optional<MemoryLimit> limit;
    if (options_.memory_kib != 0) {
      limit.emplace(options_.memory_kib << 10);
      drop_cache_of(folder);
    }
    const std::uint64_t count =
        measured.durability == kSynced ? options_.synced : options_.transactions;
    const Shared<Members> members;
    const SharedMemory took_ns(options_.with_details ? measured.processes * count * sizeof(float)
                                                     : sizeof(float));
    const bool has_counter = options_.with_details && measured.durability != kVolatile &&
                             (variant.store == Store::kTp || variant.store == Store::kDb);
    const bool is_queried = variant.store == Store::kQueried;
    const Shared<Queried> queried;
    const unsigned team = measured.processes + (has_counter || is_queried ? 1 : 0);
    const double ns = run_team_ns(team, [&](unsigned index, const TeamClock &clock) {
      if (index == measured.processes && is_queried)
        return keep_querying(*open(measured, home, folder, index), measured, clock, &*queried);
      if (index == measured.processes)
        return count_log(variant.store == Store::kDb ? folder + "/home" : folder,
                         measured.durability, clock, &(*members)[index]);
      if (limit) limit->enter();
      const std::unique_ptr<BankSession> bank = open(measured, home, folder, index);
      Transfers transfers(scale_of_all(), options_.common.seed + index);
      Member self{};
      const auto transact = [&](std::uint64_t transactions, float *took) {
        std::int64_t before = took != nullptr ? now_ns() : 0;
        for (std::uint64_t i = 0; i < transactions; ++i) {
          self.last = transfers.next();
          if (options_.only_reads) {
            self.sum += bank->look(self.last);
          } else {
            bank->transact(self.last);
            self.sum += self.last.amount;
          }
          if (took == nullptr) continue;
          const std::int64_t now = now_ns();
          took[i] = static_cast<float>(now - before);
          before = now;
        }
      };
      transact(std::max<std::uint64_t>(1, count / 10), nullptr);
      const std::uint64_t retries = bank->retries();
      clock.meet();
      const std::uint64_t logged_before = options_.with_details ? bank->log_bytes() : 0;
      clock.start();
      transact(count, options_.with_details ? static_cast<float *>(took_ns.data()) + index * count
                                            : nullptr);
      clock.finish();
      queried->ended.fetch_add(1);
      self.retries = bank->retries() - retries;
      if (limit) limit->leave();
      clock.meet();
      self.log_bytes = options_.with_details ? bank->log_bytes() - logged_before : 0;
      (*members)[index] = self;
      clock.meet();
      if (index == 0) check(*bank, *members, measured);
      clock.meet();
    });
    for (const Member &member : *members) retries_[measured] += member.retries;
    server.reset();
    if (is_queried && queried->queries.load() != 0)
      query_us_[measured].push_back(static_cast<double>(queried->ns.load()) / 1000 /
                                    static_cast<double>(queried->queries.load()));
    if (options_.with_details) {
      const auto *const took = static_cast<const float *>(took_ns.data());
      const double transactions = static_cast<double>(measured.processes * count);
      double log_bytes = 0;
      for (const Member &member : *members) log_bytes += static_cast<double>(member.log_bytes);
      details_[measured].p99_us.push_back(
          quantile({took, took + measured.processes * count}, 0.99) / 1000);
      details_[measured].log_bytes.push_back(log_bytes / transactions);
    }
    std::filesystem::remove_all(folder);
    std::filesystem::remove_all(home);
    return ns / 1000 / static_cast<double>(count);
  }

  void check(BankSession &bank, const Members &members, const Case &measured) const {
    const bool changes = kVariants[measured.variant].changes && !options_.only_reads;
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
                 "x Berkeley DB", "aborts per 500", "99 %, us", "log B"});
    for (const Case &of : cases) {
      const Summary us = summarize(*samples(of));
      const double per_second = us.median > 0 ? 1e6 * of.processes / us.median : 0;
      Json line;
      line["variant"] = kVariants[of.variant].name;
      line["durability"] = name_of(of.durability);
      line["processes"] = of.processes;
      put(line, "us", us);
      line["per_second"] = per_second;
      const std::uint64_t count =
          of.durability == kSynced ? options_.synced : options_.transactions;
      const double aborts = 500.0 * static_cast<double>(retries_.at(of)) /
                            static_cast<double>(of.processes * count * options_.rounds);
      line["retries"] = retries_.at(of);
      line["aborts_per_500"] = aborts;
      std::string p99 = "-", log_bytes = "-";
      if (const auto details = details_.find(of); details != details_.end()) {
        const Summary slow = summarize(details->second.p99_us);
        put(line, "p99_us", slow);
        p99 = number(slow.median);
        const Summary bytes = summarize(details->second.log_bytes);
        put(line, "log_bytes", bytes);
        if (bytes.median > 0) log_bytes = number(bytes.median);
      }
      if (const auto query = query_us_.find(of); query != query_us_.end()) {
        const Summary took = summarize(query->second);
        put(line, "query_us", took);
        std::printf("a query beside %u processes, %s: %.0f us\n", of.processes,
                    name_of(of.durability), took.median);
      }
      std::string ratio = "-";
      if (const auto *const slow = samples({kBerkeley, of.durability, of.processes})) {
        const Summary times = summarize_ratio(*slow, *samples(of));
        put(line, "times_berkeley_db", times);
        ratio = with_mad(times);
      }
      table.add({name_of(of.durability), std::to_string(of.processes), kVariants[of.variant].name,
                 with_mad(us), number(per_second), ratio, number(aborts), p99, log_bytes});
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
  std::map<Case, Details> details_;
  std::map<Case, std::vector<double>> query_us_;
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
  app.add_option("--durabilities", options.durabilities, "volatile, not synced, synced: only these")
      .delimiter(',');
  app.add_option("--record-bytes", options.record_bytes, "of a balance in a file")
      .capture_default_str();
  app.add_option("--page-bytes", options.page_bytes, "of a file").capture_default_str();
  app.add_option("--cache-mib", options.cache_mib, "of a process's pages of files")
      .capture_default_str()
      .check_range(1, 1024);
  app.add_flag("--dense", options.is_dense,
               "branches, and tellers, lie side by side: not each in a leaf of its own");
  app.add_option("--memory-kib", options.memory_kib, "all that transact have; 0: no limit")
      .capture_default_str();
  app.add_flag("--read-only", options.only_reads, "transactions that read three balances");
  app.add_flag("--details", options.with_details, "99 % of latencies, bytes of log");
  app.add_flag("--all", options.with_all, "also what papers/libtp compares with");
  app.add_flag("--parts", options.with_parts, "also transactions of which parts are left out");
  app.add_option("--only", options.only, "variants of these names, or whose names begin like this")
      .delimiter(',');
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::TpBench(options).run(); });
}
