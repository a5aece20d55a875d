// bench/locks.cpp -- what a lock of the lock table costs, beside Berkeley DB's.
// Shape:   processes of one locker each, on objects of their own; and two that want one object. In
//          a round every case is measured once by either table, next to each other, in turn. Each
//          measurement has a fresh folder, and a warm-up of the same shape before the clock starts.
//          Numbers are nanoseconds of a process per pair; of the contended object, nanoseconds from
//          one pair's end to the next one's, whoever does it.
//          A ring: each of its processes has an object and asks for the next one's. Measured is how
//          long after the last of them has asked, which closes the cycle, the victim hears of it.
// Checked: the contended object guards a number, which must have counted every pair. A ring has one
//          victim, and everybody else gets what it has asked for.
// Source:  LIBTP 3.2.3.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include <tmh/tmh.hpp>

#include "bench/support/clock.h"
#include "bench/support/locks_work.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain.h"
#include "levels/lock/lock.h"
#include "platform/assert.h"
#ifdef TMH_BENCH_BERKELEY_DB
#include "bench/support/locks_berkeley_db.h"
#endif

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  std::uint64_t objects = 4'000, pairs = 400'000, contended = 20'000, rings = 200;
};

void check(Errc error, const char *what) {
  TMH_ASSERT(what != nullptr);
  if (error != Errc::kOk) throw Error(error, what);
}

class TableLocks {
 public:
  explicit TableLocks(const std::string &folder)
      : domain_(Domain::open(folder, DomainOptions{})), impl_(detail::impl_of(domain_)) {
    check(impl_->open_locks(lock::ModeSet::hierarchical(), &table_), "open_locks");
    check(table_->begin(name_, &locker_), "begin");
  }
  ~TableLocks() { table_->end(locker_); }
  TableLocks(const TableLocks &) = delete;
  TableLocks &operator=(const TableLocks &) = delete;

  lock::LockId lock(std::uint64_t object, bool is_exclusive) {
    lock::LockId taken{};
    check(table_->lock(locker_, {1, object},
                       is_exclusive ? lock::Mode::kExclusive : lock::Mode::kShared,
                       lock::Patience::endless(), &taken),
          "lock");
    return taken;
  }
  // Whether the locker is a deadlock's victim.
  [[nodiscard]] bool is_victim_at(std::uint64_t object) {
    lock::LockId taken{};
    const Errc error = table_->lock(locker_, {1, object}, lock::Mode::kExclusive,
                                    lock::Patience::endless(), &taken);
    if (error != Errc::kDeadlock) check(error, "lock");
    return error == Errc::kDeadlock;
  }
  void unlock_all() { check(table_->unlock_all(locker_), "unlock_all"); }
  void unlock(const lock::LockId *lock) { check(table_->unlock(locker_, *lock), "unlock"); }
  void upgraded(std::uint64_t object) {
    lock::LockId held = lock(object, false);
    check(table_->upgrade(locker_, held, lock::Mode::kExclusive, lock::Patience::endless(), &held),
          "upgrade");
    unlock(&held);
  }
  void locked_together(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) (void)lock(first + i, true);
    unlock_all();
  }
  void renew() {
    table_->end(locker_);
    check(table_->begin(++name_, &locker_), "begin");
  }

 private:
  Domain domain_;
  std::shared_ptr<detail::DomainImpl> impl_;
  lock::LockTable *table_ = nullptr;
  lock::LockerId locker_{};
  std::uint64_t name_ = 1;
};

struct Case {
  const char *name;
  LockWork work;
  unsigned processes;
  double wanted;  // times Berkeley DB; 0: nothing
};
constexpr std::array<Case, 7> kCases = {{{"exclusive, 1 process", LockWork::kExclusive, 1, 4},
                                         {"exclusive, 2 processes", LockWork::kExclusive, 2, 4},
                                         {"shared", LockWork::kShared, 1, 0},
                                         {"shared, upgraded", LockWork::kUpgraded, 1, 0},
                                         {"4 locks, all given back", LockWork::kTogether, 1, 0},
                                         {"a locker", LockWork::kLocker, 1, 0},
                                         {"one object, 2 processes", LockWork::kContended, 2, 0}}};

constexpr std::array<unsigned, 4> kRings = {2, 3, 5, 10};  // processes
struct Ring {
  std::atomic<std::int64_t> closed, told;  // ns of the clock
  std::atomic<std::uint32_t> victims;
};

enum Contestant : std::size_t { kOurs, kBerkeley, kTables };

class LocksBench {
 public:
  explicit LocksBench(const Options &options) : options_(options), scratch_(options.common.folder) {
    if (options_.common.tiny) options_ = {options_.common, 1, 100, 300, 100, 2};
#ifdef TMH_BENCH_BERKELEY_DB
    static const std::string kMemoryFolder = "/dev/shm";
    if (::access(kMemoryFolder.c_str(), W_OK) == 0) memory_.emplace(kMemoryFolder);
#endif
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["rounds"] = options_.rounds;
    parameters["objects"] = options_.objects;
    parameters["pairs"] = options_.pairs;
    parameters["contended"] = options_.contended;
    parameters["rings"] = options_.rings;
    Report report("locks", environment(scratch_.path()), parameters);
    report.print_head();
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t i = 0; i < kCases.size(); ++i) {
        const std::size_t at = (i + round) % kCases.size();
        for (std::size_t j = 0; j < kTables; ++j) {
          const std::size_t table = (j + round) % kTables;
          if (table == kOurs || has_berkeley()) ns_[table][at].push_back(measure(at, table));
        }
      }
    }
    print(&report);
    print_rings(&report);
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  [[nodiscard]] static constexpr bool has_berkeley() noexcept {
#ifdef TMH_BENCH_BERKELEY_DB
    return true;
#else
    return false;
#endif
  }

  [[nodiscard]] static std::unique_ptr<LockSession> open(std::size_t table,
                                                         const std::string &folder) {
#ifdef TMH_BENCH_BERKELEY_DB
    if (table == kBerkeley) return open_berkeley_locks(folder);
#endif
    TMH_ASSERT(table == kOurs);
    return std::make_unique<LockSessionOf<TableLocks>>(folder);
  }

  // Nanoseconds.
  double measure(std::size_t index, std::size_t table) {
    TMH_ASSERT(index < kCases.size() && table < kTables);
    const Case &measured = kCases[index];
    const ScratchFolder &parent = table == kBerkeley && memory_ ? *memory_ : scratch_;
    const std::string folder = parent.subfolder("locks-" + std::to_string(folders_++));
#ifdef TMH_BENCH_BERKELEY_DB
    if (table == kBerkeley) run_alone([&] { make_berkeley_locks(folder); });
#endif
    const bool is_contended = measured.work == LockWork::kContended;
    const std::uint64_t pairs = is_contended ? options_.contended : options_.pairs,
                        warm_up = pairs / 10;
    const Shared<std::uint64_t> guarded;
    const double ns = run_team_ns(measured.processes, [&](unsigned member, const TeamClock &clock) {
      const std::unique_ptr<LockSession> session = open(table, folder);
      const LockedObjects own{1 + member * options_.objects, options_.objects};
      session->run(measured.work, own, warm_up, &*guarded);
      clock.start();
      session->run(measured.work, own, pairs, &*guarded);
      clock.finish();
      clock.meet();
    });
    const std::uint64_t expected = is_contended ? measured.processes * (warm_up + pairs) : 0;
    if (*guarded != expected)
      throw std::runtime_error("the lock has not excluded: " + std::to_string(*guarded) +
                               " instead of " + std::to_string(expected));
    std::filesystem::remove_all(folder);
    return ns / static_cast<double>(is_contended ? measured.processes * pairs : pairs);
  }

  // Of each ring, us from the moment when it is closed until its victim knows.
  std::vector<double> measure_rings(unsigned processes) {
    const std::string folder = scratch_.subfolder("rings-" + std::to_string(folders_++));
    const std::size_t rings = options_.rings;
    const SharedMemory memory(rings * sizeof(Ring));
    auto *const all = static_cast<Ring *>(memory.data());
    (void)run_team_ns(processes, [&](unsigned member, const TeamClock &clock) {
      TableLocks locks(folder);
      clock.start();
      for (std::size_t i = 0; i < rings; ++i) {
        (void)locks.lock(1 + member, true);
        clock.meet();
        const std::int64_t asked = now_ns();
        for (std::int64_t last = all[i].closed; last < asked;)
          if (all[i].closed.compare_exchange_weak(last, asked)) break;
        if (locks.is_victim_at(1 + (member + 1) % processes)) {
          all[i].told = now_ns();
          ++all[i].victims;
        }
        locks.unlock_all();
        clock.meet();
      }
    });
    std::vector<double> us;
    for (std::size_t i = 0; i < rings; ++i) {
      if (all[i].victims != 1)
        throw std::runtime_error("a ring has had " + std::to_string(all[i].victims) + " victims");
      us.push_back(static_cast<double>(all[i].told - all[i].closed) / 1e3);
    }
    std::filesystem::remove_all(folder);
    return us;
  }

  void print_rings(Report *report) {
    TMH_ASSERT(report != nullptr);
    constexpr double kWantedUs =
        2.0 * static_cast<double>(lock::LookPolicy{}.first_look_ns) / 1e3 + 10'000;
    Table table({"us until a ring's victim knows", "median", "99 %", "most", "wanted of each"});
    for (const unsigned processes : kRings) {
      const std::vector<double> us = measure_rings(processes);
      const double most = quantile(us, 1);
      Json line;
      line["processes"] = processes;
      line["median_us"] = quantile(us, 0.5);
      line["p99_us"] = quantile(us, 0.99);
      line["most_us"] = most;
      table.add({std::to_string(processes) + " processes", number(quantile(us, 0.5)),
                 number(quantile(us, 0.99)), number(most),
                 "<= " + number(kWantedUs) + (most <= kWantedUs ? ": met" : ": MISSED")});
      report->add("rings", std::move(line));
    }
    std::printf("\nRings of processes that wait for each other, %lu of each size\n",
                options_.rings);
    table.print();
    std::printf("\neach ring has had one victim\n");
  }

  void print(Report *report) const {
    TMH_ASSERT(report != nullptr);
    Table table({"ns a pair", "tmh", "Berkeley DB", "times as fast", "wanted"});
    for (std::size_t i = 0; i < kCases.size(); ++i) {
      Json line;
      line["case"] = kCases[i].name;
      line["processes"] = kCases[i].processes;
      put(line, "tmh_ns", summarize(ns_[kOurs][i]));
      std::string berkeley = "not built", ratio = "-", wanted = "-";
      if (kCases[i].wanted > 0) wanted = ">= " + number(kCases[i].wanted);
      if (has_berkeley()) {
        put(line, "berkeley_db_ns", summarize(ns_[kBerkeley][i]));
        const Summary times = summarize_ratio(ns_[kBerkeley][i], ns_[kOurs][i]);
        put(line, "times", times);
        berkeley = with_mad(summarize(ns_[kBerkeley][i]));
        ratio = with_mad(times);
        if (kCases[i].wanted > 0) wanted += times.median >= kCases[i].wanted ? ": met" : ": MISSED";
      }
      table.add({kCases[i].name, with_mad(summarize(ns_[kOurs][i])), berkeley, ratio, wanted});
      report->add("locks", std::move(line));
    }
    std::printf("\nA lock taken and given back, median ±MAD %% of %zu rounds\n", options_.rounds);
    table.print();
    std::printf("\nthe contended object's locks have excluded each other\n");
  }

  Options options_;
  ScratchFolder scratch_;
  std::optional<ScratchFolder> memory_;
  std::array<std::array<std::vector<double>, kCases.size()>, kTables> ns_;
  std::uint64_t folders_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("What a lock costs: the lock table beside Berkeley DB's", "locks");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str()
      .check_positive();
  app.add_option("--objects", options.objects, "of each process")
      .capture_default_str()
      .check_range(4, 8'000);
  app.add_option("--pairs", options.pairs, "of one measurement")
      .capture_default_str()
      .check_positive();
  app.add_option("--contended", options.contended, "pairs of each process for one object")
      .capture_default_str()
      .check_positive();
  app.add_option("--rings", options.rings, "rings of each size")
      .capture_default_str()
      .check_positive();
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::LocksBench(options).run(); });
}
