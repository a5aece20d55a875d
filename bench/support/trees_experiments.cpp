// bench/support/trees_experiments.cpp -- static, dynamic and in-order experiments on search trees.
#include "bench/support/trees_experiments.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>
#include <tmh/trees/bptree.hpp>

#include "bench/support/clock.h"
#include "bench/support/durable_contestant.h"
#include "bench/support/keep.h"
#include "bench/support/memory_limit.h"
#include "bench/support/modes.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "bench/support/trees_serial.h"
#include "examples/trees/cobtree.hpp"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

// The array of a cache-oblivious tree is at worst 1 / 0.3 as large as its records, and its
// predecessors' space is not used again.
constexpr std::uint64_t kFileBytesPerRecord = 8 * sizeof(Record);
constexpr std::uint64_t kFileBytesMin = std::uint64_t{64} << 20;
// Berkeley DB's own loader puts many records into a transaction, too.
constexpr std::uint64_t kRecordsPerLoad = 100;

std::uint64_t file_bytes(std::uint64_t records) {
  return kFileBytesMin + records * kFileBytesPerRecord;
}

void must(bool condition, const std::string &what) {
  if (!condition) throw std::runtime_error(what);
}

// In the order of keys, for trees that are to be packed; values as make_record().
Record ordered_record(std::uint64_t index) {
  Record record = make_record(0, index);
  record.key = index;
  return record;
}

struct SearchCost {
  double us = 0, major_faults = 0, read_bytes = 0;  // per search
};

// Of this process so far: pages that had to be read, bytes that it made the kernel read.
std::uint64_t major_faults() {
  struct rusage usage {};
  (void)::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_majflt);
}
std::uint64_t read_bytes() {
  std::ifstream file("/proc/self/io");
  std::string key;
  for (std::uint64_t value = 0; file >> key >> value;) {
    if (key == "read_bytes:") return value;
  }
  return 0;
}

SearchCost search(const TreeExperiment &experiment,
                  const std::function<std::uint64_t(std::uint64_t)> &key_of,
                  const std::function<bool(std::uint64_t)> &find) {
  TMH_ASSERT(experiment.records > 0 && experiment.searches > 0);
  Random random(experiment.seed + 1);
  const std::uint64_t faults = major_faults(), bytes = read_bytes();
  const std::int64_t start = now_ns();
  for (std::uint64_t i = 0; i < experiment.searches; ++i) {
    must(find(key_of(random.below(experiment.records))), "a key was not found");
  }
  const auto searches = static_cast<double>(experiment.searches);
  return {static_cast<double>(now_ns() - start) / 1000 / searches,
          static_cast<double>(major_faults() - faults) / searches,
          static_cast<double>(read_bytes() - bytes) / searches};
}

// Ours: a volatile domain; blocks of 4 KiB; values beside, as by default.
template <class Tree>
struct Ours {
  explicit Ours(const std::string &folder) : domain(open_domain(Mode{"ours"}, folder)) {
    segment = domain.map("tree");
    tree = segment.template root<Tree>("tree");
  }
  Domain domain;
  Segment segment;
  Tree *tree = nullptr;
};
using OurBPlus = trees::BPlusTree<std::uint64_t, Value, kPageBytes, allocator<std::byte>>;
using OurCo = ::trees::CoBTree<std::uint64_t, Value, allocator<std::byte>>;
constexpr const char *kOurBPlus = "tmh, B+-tree, 4 KiB";
constexpr const char *kOurCo = "tmh, CO B-tree";

// A fault reads its page and no neighbours: what is read ahead (8 MiB on some virtual disks) would
// hide what a search needs.
void read_page_by_page(std::byte *data, std::uint64_t bytes) {
  TMH_ASSERT(data != nullptr && bytes > 0);
  must(::madvise(data, bytes, MADV_RANDOM) == 0, "madvise");
}

template <class Tree>
void static_of_ours(const TreeExperiment &experiment, const std::string &folder,
                    const MemoryLimit &limit, SearchCost *cost) {
  TMH_ASSERT(cost != nullptr);
  run_alone([&] {
    Ours<Tree> self(folder);
    for (std::uint64_t i = 0; i < experiment.records;) {
      atomically(self.domain, [&] {
        for (std::uint64_t end = std::min(experiment.records, i + kRecordsPerLoad); i < end; ++i) {
          const Record record = make_record(experiment.seed, i);
          self.tree->insert(record.key, record.value);
        }
      });
    }
    self.domain.close();
  });
  drop_cache_of(folder);
  run_alone([&] {
    if (limit.is_available()) limit.enter();
    Ours<Tree> self(folder);
    read_page_by_page(self.segment.data(), self.segment.size_bytes());
    *cost = search(
        experiment, [&](std::uint64_t i) { return make_record(experiment.seed, i).key; },
        [&](std::uint64_t key) {
          return query(self.domain, [&] { return finds(*self.tree, key); });
        });
    self.domain.close();
  });
}

void add_static_row(const TreeExperiment &experiment, const std::string &tree,
                    const SearchCost &cost, bool is_limited, Table *table) {
  TMH_ASSERT(table != nullptr && experiment.report != nullptr);
  table->add({tree, number(cost.us), number(cost.major_faults), number(cost.read_bytes)});
  experiment.report->add("static",
                         Json{{"tree", tree},
                              {"us_per_search", cost.us},
                              {"major_faults_per_search", cost.major_faults},
                              {"read_bytes_per_search", cost.read_bytes},
                              {"records", experiment.records},
                              {"searches", experiment.searches},
                              {"memory_bytes", is_limited ? experiment.memory_bytes : 0}});
}

struct DynamicCost {
  double insert_us = 0, scan_us = 0, search_us = 0;  // per record, of everything, per search
};

void add_dynamic_row(const TreeExperiment &experiment, const char *section, const std::string &tree,
                     const DynamicCost &cost, Table *table) {
  TMH_ASSERT(section != nullptr && table != nullptr && experiment.report != nullptr);
  std::vector<std::string> cells = {tree, number(cost.insert_us)};
  Json row{{"tree", tree}, {"us_per_insert", cost.insert_us}, {"records", experiment.records}};
  if (cost.scan_us > 0) {
    cells.push_back(number(cost.scan_us / static_cast<double>(experiment.records)));
    row["us_of_scan"] = cost.scan_us;
    row["us_per_scanned"] = cost.scan_us / static_cast<double>(experiment.records);
  }
  if (cost.search_us > 0) {
    cells.push_back(number(cost.search_us));
    row["us_per_search"] = cost.search_us;
  }
  table->add(std::move(cells));
  experiment.report->add(section, std::move(row));
}

using RecordOf = std::function<Record(std::uint64_t)>;

// Inserts everything, one by one.
double insert_us(const TreeExperiment &experiment, const RecordOf &record_of,
                 const std::function<void(const Record &)> &insert) {
  TMH_ASSERT(experiment.records > 0);
  std::int64_t ns = 0;
  for (std::uint64_t i = 0; i < experiment.records; ++i) {
    const Record record = record_of(i);
    const std::int64_t start = now_ns();
    insert(record);
    ns += now_ns() - start;
  }
  return static_cast<double>(ns) / 1000 / static_cast<double>(experiment.records);
}

DynamicCost dynamic_of_serial(const TreeExperiment &experiment, std::size_t block_bytes,
                              const std::string &folder, const RecordOf &record_of) {
  const Shared<DynamicCost> cost;
  run_alone([&] {
    MappedFile file(folder + "/tree", file_bytes(experiment.records));
    const auto tree = make_serial_tree(block_bytes, file.arena());
    cost->insert_us =
        insert_us(experiment, record_of, [&](const Record &record) { tree->insert(record); });
    const std::int64_t start = now_ns();
    must(tree->count_by_scan() == experiment.records, "a scan found another number of records");
    cost->scan_us = static_cast<double>(now_ns() - start) / 1000;
    cost->search_us = search(
                          experiment, [&](std::uint64_t i) { return record_of(i).key; },
                          [&](std::uint64_t key) { return tree->find(key); })
                          .us;
  });
  return *cost;
}

template <class Tree>
DynamicCost dynamic_of_ours(const TreeExperiment &experiment, const std::string &folder,
                            const RecordOf &record_of) {
  const Shared<DynamicCost> cost;
  run_alone([&] {
    Ours<Tree> self(folder);
    cost->insert_us = insert_us(experiment, record_of, [&](const Record &record) {
      atomically(self.domain, [&] { self.tree->insert(record.key, record.value); });
    });
    const std::int64_t start = now_ns();
    std::uint64_t found = 0, sum = 0;
    query(self.domain, [&] {
      for (const auto &[key, value] : *self.tree) {
        sum += static_cast<std::uint64_t>(value[0]);
        ++found;
      }
    });
    keep(sum);
    cost->scan_us = static_cast<double>(now_ns() - start) / 1000;
    must(found == experiment.records, "a scan found another number of records");
    cost->search_us = search(
                          experiment, [&](std::uint64_t i) { return record_of(i).key; },
                          [&](std::uint64_t key) {
                            return query(self.domain, [&] { return finds(*self.tree, key); });
                          })
                          .us;
    self.domain.close();
  });
  return *cost;
}

// An opponent without durability: inserts, a hundred in a transaction, and a scan.
DynamicCost dynamic_of_opponent(const TreeExperiment &experiment, Contestant *opponent,
                                const std::string &folder, const RecordOf &record_of) {
  TMH_ASSERT(opponent != nullptr);
  const Plan plan{1, experiment.records};
  opponent->prepare(plan);
  const Shared<DynamicCost> cost;
  run_alone([&] {
    opponent->create(folder, plan);
    const auto session = opponent->open(folder, 0);
    std::vector<Record> records;
    std::int64_t ns = 0;
    for (std::uint64_t i = 0; i < experiment.records; ++i) {
      records.push_back(record_of(i));
      if (records.size() < kRecordsPerLoad && i + 1 < experiment.records) continue;
      const std::int64_t start = now_ns();
      session->commit(records);
      ns += now_ns() - start;
      records.clear();
    }
    cost->insert_us = static_cast<double>(ns) / 1000 / static_cast<double>(experiment.records);
    std::uint64_t found = 0;
    const std::int64_t start = now_ns();
    session->scan([&](std::uint64_t, const char *) { ++found; });
    cost->scan_us = static_cast<double>(now_ns() - start) / 1000;
    must(found == experiment.records, "a scan found another number of records");
  });
  return *cost;
}

void run_dynamic_with(const TreeExperiment &experiment, const char *section,
                      const RecordOf &record_of, std::span<const std::size_t> block_sizes) {
  TMH_ASSERT(section != nullptr && experiment.scratch != nullptr);
  Table table({"tree", "us/insert", "us/record scanned", "us/search"});
  std::uint64_t number_of_run = 0;
  const auto folder = [&] {
    return experiment.scratch->subfolder(std::string(section) + "-" +
                                         std::to_string(number_of_run++));
  };
  std::vector<std::size_t> blocks = {0};
  blocks.insert(blocks.end(), block_sizes.begin(), block_sizes.end());
  for (const std::size_t block_bytes : blocks) {
    add_dynamic_row(experiment, section, serial_tree_name(block_bytes),
                    dynamic_of_serial(experiment, block_bytes, folder(), record_of), &table);
  }
  add_dynamic_row(experiment, section, kOurCo,
                  dynamic_of_ours<OurCo>(experiment, folder(), record_of), &table);
  add_dynamic_row(experiment, section, kOurBPlus,
                  dynamic_of_ours<OurBPlus>(experiment, folder(), record_of), &table);
  Contestants opponents;
  std::vector<std::string> not_built;
  add_opponents(&opponents, Durability::kNone, &not_built);
  for (const auto &opponent : opponents) {
    add_dynamic_row(experiment, section, opponent->name(),
                    dynamic_of_opponent(experiment, opponent.get(), folder(), record_of), &table);
  }
  table.print();
}

}  // namespace

void run_static(const TreeExperiment &experiment) {
  TMH_ASSERT(experiment.scratch != nullptr && experiment.memory_bytes > 0);
  const MemoryLimit limit(experiment.memory_bytes);
  std::printf(
      "\nRandom searches, page cache forgotten, %llu records of %zu bytes, %llu searches (thesis, "
      "table 5.1)\n",
      static_cast<unsigned long long>(experiment.records), sizeof(Record),
      static_cast<unsigned long long>(experiment.searches));
  if (limit.is_available()) {
    std::printf("The searching process may use %s MiB of memory.\n",
                number(static_cast<double>(experiment.memory_bytes) / (1 << 20)).c_str());
  } else {
    std::printf("No memory control group can be made here (needs root): memory is not limited.\n");
  }
  Table table({"tree", "us/search", "major faults", "bytes read"});
  std::vector<std::size_t> blocks = {0};
  blocks.insert(blocks.end(), serial_block_sizes().begin() + 1, serial_block_sizes().end());
  for (const std::size_t block_bytes : blocks) {
    const Shared<SearchCost> cost;
    const std::string folder =
        experiment.scratch->subfolder("static-" + std::to_string(block_bytes));
    run_alone([&] {
      MappedFile file(folder + "/tree", file_bytes(experiment.records));
      const auto tree = make_serial_tree(block_bytes, file.arena());
      // In order the B+-tree is packed, in blocks that follow one another; the cache-oblivious one
      // would move records 190 times.
      const RecordOf random_order = [&](std::uint64_t i) {
        return make_record(experiment.seed, i);
      };
      const RecordOf record_of = block_bytes == 0 ? random_order : RecordOf(ordered_record);
      for (std::uint64_t i = 0; i < experiment.records; ++i) tree->insert(record_of(i));
      file.drop_cache();
      read_page_by_page(file.arena()->data(), file_bytes(experiment.records));
      if (limit.is_available()) limit.enter();
      *cost = search(
          experiment, [&](std::uint64_t i) { return record_of(i).key; },
          [&](std::uint64_t key) { return tree->find(key); });
    });
    add_static_row(experiment, serial_tree_name(block_bytes), *cost, limit.is_available(), &table);
  }
  const Shared<SearchCost> co, bplus;
  static_of_ours<OurCo>(experiment, experiment.scratch->subfolder("static-ours-co"), limit, &*co);
  add_static_row(experiment, kOurCo, *co, limit.is_available(), &table);
  static_of_ours<OurBPlus>(experiment, experiment.scratch->subfolder("static-ours-bplus"), limit,
                           &*bplus);
  add_static_row(experiment, kOurBPlus, *bplus, limit.is_available(), &table);
  table.print();
}

void run_dynamic(const TreeExperiment &experiment) {
  std::printf(
      "\nRandom inserts, a scan of all, searches: %llu records of %zu bytes (thesis, table 5.2)\n",
      static_cast<unsigned long long>(experiment.records), sizeof(Record));
  const auto sizes = serial_block_sizes();
  run_dynamic_with(
      experiment, "dynamic", [&](std::uint64_t i) { return make_record(experiment.seed, i); },
      sizes.first(sizes.size() - 1));  // up to 256 KiB, as there
}

void run_in_order(const TreeExperiment &experiment) {
  std::printf("\nInserts in the order of keys: %llu records of %zu bytes (thesis, table 5.3)\n",
              static_cast<unsigned long long>(experiment.records), sizeof(Record));
  // 4 KiB, as there
  run_dynamic_with(experiment, "in-order", ordered_record, serial_block_sizes().subspan(1, 1));
}

}  // namespace tmh::bench
