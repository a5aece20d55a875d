// bench/oo1.cpp -- OO1: lookups, traversals and inserts of parts and connections, by files of
// dbopen(), by pointers, and by others.
// Shape:   each contestant makes a database of --parts. Then, in each round, a process for each
//          operation opens it after its files are forgotten, and runs it --repeats times with parts
//          drawn anew: the first is the cold time, the median of the others the warm one.
//            lookup    1,000 parts
//            forward   a part, and those that its connections lead to in seven hops: 3,280
//            backward  the same against the connections
//            insert    100 parts and their connections
//          Each is one transaction, durable when it returns. Private B-trees have none; they are
//          synced. Nothing is remote: a server is no part of this library yet.
// Checked: all contestants see the same parts.
// Source:  LIBTP, 5.2, tables 2 and 3.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bench/support/clock.h"
#include "bench/support/memory_limit.h"
#include "bench/support/oo1_db.h"
#include "bench/support/oo1_pointers.h"
#include "bench/support/oo1_work.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "platform/assert.h"
#ifdef TMH_BENCH_BERKELEY_DB
#include "bench/support/oo1_berkeley_db.h"
#endif
#ifdef TMH_BENCH_SQLITE
#include "bench/support/oo1_sqlite.h"
#endif

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 3;
  std::vector<std::uint32_t> parts = {20'000};
  unsigned repeats = 10, lookups = 1'000, inserts = 100, hops = 7;
  std::vector<std::string> only;
};

constexpr unsigned kRepeatsMax = 100;

struct Contestant {
  const char *name;
  std::function<std::unique_ptr<Oo1Store>(const std::string &folder)> open;
};
std::vector<Contestant> contestants() {
  std::vector<Contestant> all = {
      {"B-trees", [](const std::string &folder) { return open_db_oo1(folder, Oo1Files::kTrees); }},
      {"hashes", [](const std::string &folder) { return open_db_oo1(folder, Oo1Files::kHashes); }},
      {"private B-trees",
       [](const std::string &folder) { return open_db_oo1(folder, Oo1Files::kPrivateTrees); }},
      {"pointers", open_pointers_oo1}};
#ifdef TMH_BENCH_BERKELEY_DB
  all.push_back({"Berkeley DB", open_berkeley_oo1});
#else
  std::printf("not built: Berkeley DB\n");
#endif
#ifdef TMH_BENCH_SQLITE
  all.push_back({"SQLite", open_sqlite_oo1});
#else
  std::printf("not built: SQLite\n");
#endif
  return all;
}

enum class Operation : std::uint8_t { kLookup, kForward, kBackward, kInsert };
constexpr std::array<const char *, 4> kOperations = {"lookup", "forward", "backward", "insert"};

struct Measured {
  std::array<double, kRepeatsMax> ms;
  Seen seen;
};

struct Times {
  std::vector<double> cold_ms, warm_ms;  // of each round
};

class Oo1Bench {
 public:
  explicit Oo1Bench(const Options &options) : options_(options), scratch_(options.common.folder) {
    if (!options_.common.tiny) return;
    options_.rounds = 1;
    options_.parts = {400};
    options_.repeats = 2;
    options_.lookups = options_.inserts = 20;
    options_.hops = 3;
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["seed"] = options_.common.seed;
    parameters["rounds"] = options_.rounds;
    parameters["repeats"] = options_.repeats;
    Report report("oo1", environment(scratch_.path()), parameters);
    report.print_head();
    contestants_ = contestants();
    std::erase_if(contestants_, [&](const Contestant &each) {
      const auto &only = options_.only;
      return !only.empty() && std::find(only.begin(), only.end(), each.name) == only.end();
    });
    if (contestants_.empty()) throw std::runtime_error("--only names no contestant");
    for (const std::uint32_t parts : options_.parts) {
      for (std::size_t i = 0; i < contestants_.size(); ++i) load(i, parts);
      for (std::size_t round = 0; round < options_.rounds; ++round)
        for (std::size_t operation = 0; operation < kOperations.size(); ++operation)
          measure(parts, round, static_cast<Operation>(operation));
      print(parts, &report);
      for (std::size_t i = 0; i < contestants_.size(); ++i)
        std::filesystem::remove_all(folder_of(i, parts));
    }
    std::printf("\nall contestants have seen the same parts\n");
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  [[nodiscard]] std::string folder_of(std::size_t contestant, std::uint32_t parts) const {
    return scratch_.path() + "/" + std::to_string(parts) + "-" + std::to_string(contestant);
  }

  void load(std::size_t contestant, std::uint32_t parts) {
    constexpr std::uint32_t kAtOnce = 100;
    const std::string folder = folder_of(contestant, parts);
    std::filesystem::create_directory(folder);
    run_alone([&] {
      const std::unique_ptr<Oo1Store> store = contestants_[contestant].open(folder);
      for (std::uint32_t first = 1; first <= parts; first += kAtOnce)
        store->transact(Access::kChanges, [&] {
          for (std::uint32_t id = first; id < first + kAtOnce && id <= parts; ++id)
            store->insert(make_part(id, parts));
        });
    });
  }

  void measure(std::uint32_t parts, std::size_t round, Operation operation) {
    Seen expected;
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
      const std::size_t which = (i + round) % contestants_.size();
      const Measured measured = measure(which, parts, round, operation);
      if (i == 0) expected = measured.seen;
      if (!(measured.seen == expected))
        throw std::runtime_error(std::string(contestants_[which].name) + ", " +
                                 kOperations[static_cast<std::size_t>(operation)] +
                                 ": sees other parts");
      Times &times = times_[{parts, operation, which}];
      times.cold_ms.push_back(measured.ms[0]);
      times.warm_ms.push_back(
          summarize({measured.ms.begin() + 1, measured.ms.begin() + options_.repeats}).median);
    }
  }

  [[nodiscard]] Measured measure(std::size_t contestant, std::uint32_t parts, std::size_t round,
                                 Operation operation) const {
    const std::string folder = folder_of(contestant, parts);
    drop_cache_of(folder);
    const Shared<Measured> measured;
    run_alone([&] {
      const std::unique_ptr<Oo1Store> store = contestants_[contestant].open(folder);
      Random random(options_.common.seed + round);
      // Each round and each repeat has inserted as many.
      std::uint32_t next =
          parts + 1 + static_cast<std::uint32_t>(round) * options_.repeats * options_.inserts;
      const Access access = operation == Operation::kInsert ? Access::kChanges : Access::kReads;
      Seen seen;
      for (unsigned repeat = 0; repeat < options_.repeats; ++repeat) {
        std::vector<std::uint32_t> ids;
        for (unsigned i = 0; i < std::max(options_.lookups, 1U); ++i)
          ids.push_back(static_cast<std::uint32_t>(1 + random.below(parts)));
        Seen of_this;
        const std::int64_t before = now_ns();
        store->transact(access, [&] {
          of_this = Seen{};
          run(store.get(), operation, parts, ids, next, &of_this);
        });
        measured->ms[repeat] = static_cast<double>(now_ns() - before) / 1e6;
        if (operation == Operation::kInsert) next += options_.inserts;
        seen.parts += of_this.parts;
        seen.sum += of_this.sum;
      }
      measured->seen = seen;
    });
    return *measured;
  }

  void run(Oo1Store *store, Operation operation, std::uint32_t parts,
           const std::vector<std::uint32_t> &ids, std::uint32_t next, Seen *seen) const {
    TMH_ASSERT(store != nullptr && !ids.empty());
    switch (operation) {
      case Operation::kLookup:
        for (const std::uint32_t id : ids) store->look_up(id, seen);
        return;
      case Operation::kForward:
      case Operation::kBackward:
        return store->traverse(ids[0], options_.hops, operation == Operation::kForward, seen);
      case Operation::kInsert:
        for (unsigned i = 0; i < options_.inserts; ++i) store->insert(make_part(next + i, parts));
        return store->look_up(next, seen);
    }
  }

  void print(std::uint32_t parts, Report *report) const {
    TMH_ASSERT(report != nullptr);
    Table table({"operation", "contestant", "cold ms", "warm ms", "warm, x Berkeley DB"});
    for (std::size_t at = 0; at < kOperations.size(); ++at)
      for (std::size_t i = 0; i < contestants_.size(); ++i) {
        const auto operation = static_cast<Operation>(at);
        const Times &times = times_.at({parts, operation, i});
        const Summary cold = summarize(times.cold_ms), warm = summarize(times.warm_ms);
        Json line;
        line["parts"] = parts;
        line["operation"] = kOperations[at];
        line["contestant"] = contestants_[i].name;
        put(line, "cold_ms", cold);
        put(line, "warm_ms", warm);
        std::string ratio = "-";
        for (std::size_t j = 0; j < contestants_.size(); ++j) {
          if (contestants_[j].name != std::string("Berkeley DB")) continue;
          const Summary faster =
              summarize_ratio(times_.at({parts, operation, j}).warm_ms, times.warm_ms);
          put(line, "times_berkeley_db", faster);
          ratio = with_mad(faster);
        }
        table.add({kOperations[at], contestants_[i].name, with_mad(cold), with_mad(warm), ratio});
        report->add("oo1", std::move(line));
      }
    std::printf("\nOO1, %u parts, median ±MAD %% of %zu rounds\n", parts, options_.rounds);
    table.print();
  }

  Options options_;
  ScratchFolder scratch_;
  std::vector<Contestant> contestants_;
  std::map<std::tuple<std::uint32_t, Operation, std::size_t>, Times> times_;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("OO1 by files of dbopen(), by pointers, and by others", "oo1");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str()
      .check_positive();
  app.add_option("--parts", options.parts, "sizes of the database")
      .capture_default_str()
      .delimiter(',')
      .check_range(100, 10'000'000);
  app.add_option("--repeats", options.repeats, "of an operation in a process; the first is cold")
      .capture_default_str()
      .check_range(2, tmh::bench::kRepeatsMax);
  app.add_option("--only", options.only, "these contestants").delimiter(',');
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::Oo1Bench(options).run(); });
}
