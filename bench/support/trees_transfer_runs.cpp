// bench/support/trees_transfer_runs.cpp -- is the cache-oblivious B-tree still cache-oblivious
// under our engine? Transfers counted.
// Shape:   searches: trees with traced keys and values of 8 bytes, built by random inserts; memory
//          for an eighth of the tree, blocks of 64 bytes to 256 KiB. Serially the place of a byte
//          is its offset. Under the engine two processes insert, each transaction one record; then
//          one of them, which has its private copies of pages still mapped, searches in a query: a
//          byte's place is its page's, and private pages are nobody's neighbours (PagePlaces).
//          inserts: pages touched and copied as the thesis's mechanism counts them, pages and lines
//          as the engine counts them in an exact mode; records of 8 + 512 bytes.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>
#include <tmh/trees/bptree.hpp>

#include "bench/support/durable_contestant.h"
#include "bench/support/modes.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "bench/support/thesis_mechanism.h"
#include "bench/support/trees_arena.h"
#include "bench/support/trees_experiments.h"
#include "bench/support/trees_serial.h"
#include "bench/support/trees_transfers.h"
#include "examples/trees/cobtree.hpp"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::uint64_t kBlockSizes[] = {64, 512, 4096, 16384, 65536, 262144};
constexpr std::size_t kBlockSizeCount = std::size(kBlockSizes);
static_assert(std::ranges::is_sorted(kBlockSizes) && kBlockSizes[0] == kLineBytes,
              "columns of the table, from a line on");
// An eighth of the records: upper levels stay, lower ones do not, whatever the block.
constexpr std::uint64_t kMemoryBytesPerRecord = 2;

template <class Allocator>
using TracedCo = ::trees::CoBTree<TracedKey, std::uint64_t, Allocator>;
template <std::size_t kBlockBytes, class Allocator>
using TracedBPlus = trees::BPlusTree<TracedKey, std::uint64_t, kBlockBytes, Allocator>;

struct SearchTransfers {
  double per_search[kBlockSizeCount] = {};
  double private_share = 0;
};

// The same searches through one cache for each block size; half of them warm it up.
template <class Tree, class PlaceOf>
SearchTransfers count_search(const TreeExperiment &experiment, const Tree &tree,
                             const PlaceOf &place_of) {
  TMH_ASSERT(experiment.records > 0 && experiment.searches > 0);
  TMH_ASSERT(TracedKey::tracer() == nullptr);
  std::vector<BlockCache> caches;
  for (const std::uint64_t block_bytes : kBlockSizes) {
    // At least four blocks, or the largest would not fit at all.
    caches.emplace_back(block_bytes,
                        std::max(experiment.records * kMemoryBytesPerRecord, 4 * block_bytes));
  }
  Random random(experiment.seed + 2);
  std::vector<const void *> trace;
  for (std::uint64_t i = 0; i < 2 * experiment.searches; ++i) {
    if (i == experiment.searches) {
      for (BlockCache &cache : caches) cache.forget_transfers();
    }
    const TracedKey key{make_record(experiment.seed, random.below(experiment.records)).key};
    trace.clear();
    TracedKey::tracer() = &trace;
    const bool is_found = tree.find(key) != nullptr;
    TracedKey::tracer() = nullptr;
    if (!is_found) throw std::runtime_error("a key was not found");
    for (const void *address : trace) place_of(address, &caches);
  }
  SearchTransfers counted;
  for (std::size_t i = 0; i < kBlockSizeCount; ++i) {
    counted.per_search[i] =
        static_cast<double>(caches[i].transfers()) / static_cast<double>(experiment.searches);
  }
  return counted;
}

template <class Tree>
SearchTransfers search_serially(const TreeExperiment &experiment) {
  const Shared<SearchTransfers> counted;
  run_alone([&] {
    const std::string folder = experiment.scratch->subfolder("transfers");
    MappedFile file(folder + "/tree", (std::uint64_t{64} << 20) + experiment.records * 256);
    Tree tree{ArenaAllocator<std::byte>(file.arena())};
    for (std::uint64_t i = 0; i < experiment.records; ++i)
      tree.insert({make_record(experiment.seed, i).key}, i);
    const std::byte *data = file.arena()->data();
    const std::uint64_t used = file.arena()->used_bytes();
    *counted =
        count_search(experiment, tree, [&](const void *address, std::vector<BlockCache> *caches) {
          const auto *byte = static_cast<const std::byte *>(address);
          if (byte < data || byte >= data + used) return;  // the caller's key
          for (BlockCache &cache : *caches) cache.touch(static_cast<std::uint64_t>(byte - data));
        });
  });
  return *counted;
}

template <class Tree>
SearchTransfers search_in_a_domain(const TreeExperiment &experiment, const std::string &folder) {
  const Shared<SearchTransfers> counted;
  constexpr unsigned kProcesses = 2;
  (void)run_team_ns(kProcesses, [&](unsigned index, const TeamClock &clock) {
    Domain domain = open_domain(Mode{"ours"}, folder);
    const Segment segment = domain.map("tree");
    Tree *tree = segment.root<Tree>("tree");
    clock.start();
    for (std::uint64_t i = index; i < experiment.records; i += kProcesses) {
      atomically(domain, [&] { tree->insert({make_record(experiment.seed, i).key}, i); });
    }
    clock.finish();
    clock.meet();
    if (index == 0) {
      query(domain, [&] {
        // So that every page of the tree is in memory and pagemap says what it is.
        std::uint64_t records = 0;
        for (auto at = tree->begin(); at != tree->end(); ++at) ++records;
        if (records != experiment.records)
          throw std::runtime_error("a tree holds another number of records");
        const PagePlaces places(segment.data(), segment.size_bytes());
        *counted = count_search(experiment, *tree,
                                [&](const void *address, std::vector<BlockCache> *caches) {
                                  if (!places.contains(address)) return;
                                  for (BlockCache &cache : *caches)
                                    cache.touch(places.place(address));
                                });
        counted->private_share = places.private_share();
      });
    }
    clock.meet();
    domain.close();
  });
  return *counted;
}

void add_search_row(const TreeExperiment &experiment, const std::string &tree,
                    const SearchTransfers &counted, Table *table) {
  TMH_ASSERT(table != nullptr && experiment.report != nullptr);
  std::vector<std::string> cells = {tree};
  for (std::size_t i = 0; i < kBlockSizeCount; ++i) {
    cells.push_back(number(counted.per_search[i]));
    experiment.report->add("search-transfers", Json{{"tree", tree},
                                                    {"block_bytes", kBlockSizes[i]},
                                                    {"transfers_per_search", counted.per_search[i]},
                                                    {"private_pages_share", counted.private_share},
                                                    {"records", experiment.records}});
  }
  cells.push_back(number(counted.private_share));
  table->add(std::move(cells));
}

struct InsertTransfers {
  // Per insert; lines_written 0: not counted.
  double pages_touched = 0, pages_written = 0, lines_written = 0;
};

void add_insert_row(const TreeExperiment &experiment, const std::string &tree,
                    const InsertTransfers &counted, Table *table) {
  TMH_ASSERT(table != nullptr && experiment.report != nullptr);
  table->add({tree, number(counted.pages_touched), number(counted.pages_written),
              counted.lines_written > 0 ? number(counted.lines_written) : "-"});
  experiment.report->add("insert-transfers", Json{{"tree", tree},
                                                  {"pages_touched", counted.pages_touched},
                                                  {"pages_written", counted.pages_written},
                                                  {"lines_written", counted.lines_written},
                                                  {"records", experiment.records}});
}

template <class Tree>
InsertTransfers insert_on_thesis(const TreeExperiment &experiment, const std::string &folder) {
  TMH_ASSERT(experiment.records > 0);
  const Shared<InsertTransfers> counted;
  run_alone([&] {
    const std::uint64_t pages = 2048 + experiment.records / 2;  // 2 KiB for a record of 520 bytes
    { const MappedFile sparse(folder + "/home", pages * kPageBytes); }
    ThesisMechanism mechanism(folder, folder + "/home", pages);
    Arena arena(mechanism.data(), pages * kPageBytes);
    mechanism.begin();
    auto *tree =
        ::new (arena.allocate(sizeof(Tree), alignof(Tree))) Tree(ArenaAllocator<std::byte>(&arena));
    mechanism.end();
    const ThesisMechanism::Counters before = mechanism.counters();
    for (std::uint64_t i = 0; i < experiment.records; ++i) {
      const Record record = make_record(experiment.seed, i);
      mechanism.begin();
      tree->insert(record.key, record.value);
      mechanism.end();
    }
    const ThesisMechanism::Counters &after = mechanism.counters();
    const auto inserts = static_cast<double>(experiment.records);
    const auto copied = static_cast<double>(after.pages_copied - before.pages_copied);
    // A page that is written costs a signal for its read as well.
    counted->pages_touched =
        (static_cast<double>(after.signals - before.signals) - copied) / inserts;
    counted->pages_written = copied / inserts;
  });
  return *counted;
}

template <class Tree>
InsertTransfers insert_in_a_domain(const TreeExperiment &experiment, const Mode &mode,
                                   const std::string &folder) {
  const Shared<InsertTransfers> counted;
  run_alone([&] {
    Domain domain = open_domain(mode, folder);
    const Segment segment = domain.map("tree");
    Tree *tree = segment.root<Tree>("tree");
    const Counters before = domain.counters();
    for (std::uint64_t i = 0; i < experiment.records; ++i) {
      const Record record = make_record(experiment.seed, i);
      atomically(domain, [&] { tree->insert(record.key, record.value); });
    }
    const Counters after = domain.counters();
    const auto inserts = static_cast<double>(experiment.records);
    counted->pages_written =
        static_cast<double>(after.pages_written - before.pages_written) / inserts;
    // In an exact mode the read set is every page that was touched, those written among them.
    counted->pages_touched = static_cast<double>(after.pages_read - before.pages_read) / inserts;
    counted->lines_written =
        static_cast<double>(after.lines_written - before.lines_written) / inserts;
    domain.close();
  });
  return *counted;
}

void run_search_transfers(const TreeExperiment &experiment) {
  using Serially = ArenaAllocator<std::byte>;
  using InADomain = allocator<std::byte>;
  std::printf(
      "\nBlock transfers of a search, %llu records of 16 bytes, memory for an eighth (thesis, "
      "section 6.1 item 6)\n",
      static_cast<unsigned long long>(experiment.records));
  std::vector<std::string> head = {"tree"};
  for (const std::uint64_t block_bytes : kBlockSizes)
    head.push_back(std::to_string(block_bytes) + " B");
  head.emplace_back("private pages");
  Table table(head);
  add_search_row(experiment, "CO B-tree", search_serially<TracedCo<Serially>>(experiment), &table);
  add_search_row(experiment, "tmh, CO B-tree",
                 search_in_a_domain<TracedCo<InADomain>>(
                     experiment, experiment.scratch->subfolder("transfers-co")),
                 &table);
  add_search_row(experiment, "B+-tree, 0.5 KiB",
                 search_serially<TracedBPlus<512, Serially>>(experiment), &table);
  add_search_row(experiment, "B+-tree, 4 KiB",
                 search_serially<TracedBPlus<4096, Serially>>(experiment), &table);
  add_search_row(experiment, "B+-tree, 64 KiB",
                 search_serially<TracedBPlus<65536, Serially>>(experiment), &table);
  add_search_row(experiment, "tmh, B+-tree, 4 KiB",
                 search_in_a_domain<TracedBPlus<4096, InADomain>>(
                     experiment, experiment.scratch->subfolder("transfers-bplus")),
                 &table);
  table.print();
}

void run_insert_transfers(const TreeExperiment &experiment) {
  using Serially = ArenaAllocator<std::byte>;
  using InADomain = allocator<std::byte>;
  std::printf("\nPages and lines of an insert, records of %zu bytes\n", sizeof(Record));
  Table table({"tree", "pages touched", "pages written", "lines written"});
  const auto folder = [&](const std::string &name) {
    return experiment.scratch->subfolder("inserts-" + name);
  };
  add_insert_row(experiment, "thesis's mechanism, CO B-tree",
                 insert_on_thesis<::trees::CoBTree<std::uint64_t, Value, Serially>>(
                     experiment, folder("thesis-co")),
                 &table);
  add_insert_row(experiment, "thesis's mechanism, B+-tree, 4 KiB",
                 insert_on_thesis<trees::BPlusTree<std::uint64_t, Value, kPageBytes, Serially>>(
                     experiment, folder("thesis-bplus")),
                 &table);
  for (const Mode &mode : available_modes(experiment.scratch->path())) {
    if (mode.keeps_pages || mode.detection != Detection::kLazy)
      continue;  // hot pages are counted as read without a touch
    add_insert_row(experiment, "tmh " + mode.name + ", CO B-tree",
                   insert_in_a_domain<::trees::CoBTree<std::uint64_t, Value, InADomain>>(
                       experiment, mode, folder(mode.name + "-co")),
                   &table);
    add_insert_row(
        experiment, "tmh " + mode.name + ", B+-tree, 4 KiB",
        insert_in_a_domain<trees::BPlusTree<std::uint64_t, Value, kPageBytes, InADomain>>(
            experiment, mode, folder(mode.name + "-bplus")),
        &table);
    break;  // the first exact one says it
  }
  table.print();
}

}  // namespace

void run_transfers(const TreeExperiment &experiment) {
  TMH_ASSERT(experiment.scratch != nullptr && experiment.report != nullptr);
  run_search_transfers(experiment);
  run_insert_transfers(experiment);
}

}  // namespace tmh::bench
