// examples/itm/sets.cpp -- threads look up, insert and remove random keys of one set. Linked to one
// *_transactions.cpp: a list, a hash set or a tree.
// Checks:    the structure is valid; its keys, and their sum, are those filled in plus those
//            inserted minus those removed.
#include "examples/itm/sets.h"

#include <string>
#include <vector>

#include "examples/itm/support/report.h"

namespace {

// Of one thread.
struct alignas(2 * itm::kLineBytes) Tally {
  std::uint64_t lookups = 0, hits = 0, inserted = 0, removed = 0;
  std::uint64_t sum = 0;  // of keys inserted minus removed, modulo 2^64
};

void work(itm::Worker &worker, std::uint64_t range, std::uint64_t updates_percent, Tally &tally) {
  itm::Random &random = worker.random();
  Tally mine;
  while (worker.goes_on()) {
    const std::uint64_t key = 1 + random.below(range), dice = random.below(200);
    if (dice >= 2 * updates_percent) {
      ++mine.lookups;
      if (itm::set_contains(key)) ++mine.hits;
    } else if (dice % 2 == 0) {
      if (!itm::set_insert(key)) continue;
      ++mine.inserted;
      mine.sum += key;
    } else {
      if (!itm::set_remove(key)) continue;
      ++mine.removed;
      mine.sum -= key;
    }
  }
  tally = mine;
}

}  // namespace

int main(int argc, char **argv) {
  std::uint64_t size = itm::kSet.size, range = 0, updates_percent = itm::kSet.updates_percent;
  itm::Options options(itm::kSet.name, itm::kSet.description);
  constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 32;
  options.add("--size", size, "keys at the start", 0, kSizeMax);
  options.add("--range", range, "keys are drawn from 1 to this; 0: twice the size", 0,
              2 * kSizeMax);
  options.add("--updates", updates_percent, "percent: inserts and removes, as many of each", 0,
              100);
  if (!options.parse(argc, argv)) return options.status();
  if (range == 0) range = size == 0 ? 1 : 2 * size;
  if (range < size) return options.refuse("--range must be at least --size");

  // Before any thread works.
  itm::Random random(itm::seed_of(options.common().seed, 0));
  itm::SetContent expected;
  while (expected.keys < size) {
    const std::uint64_t key = 1 + random.below(range);
    if (!itm::set_insert(key)) continue;
    ++expected.keys;
    expected.sum += key;
  }

  std::vector<Tally> tallies(options.common().threads);
  const itm::Work done = itm::run_threads(options.common(), [&](itm::Worker &worker) {
    work(worker, range, updates_percent, tallies[worker.index()]);
  });

  Tally all;
  for (const Tally &each : tallies) {
    all.lookups += each.lookups;
    all.hits += each.hits;
    all.inserted += each.inserted;
    all.removed += each.removed;
    expected.sum += each.sum;
  }
  expected.keys += all.inserted - all.removed;
  const itm::SetContent found = itm::set_content();

  itm::Report report(options);
  report.detail("size", size);
  report.detail("range", range);
  report.detail("updates_percent", updates_percent);
  report.detail("lookups", all.lookups);
  report.detail("hits", all.hits);
  report.detail("inserted", all.inserted);
  report.detail("removed", all.removed);
  report.detail("final_size", found.keys);
  report.detail("final_sum", found.sum);
  report.require(found.is_valid, "the structure is broken");
  report.require(found.keys == expected.keys,
                 "a wrong number of keys: " + std::to_string(found.keys) + " instead of " +
                     std::to_string(expected.keys));
  report.require(found.sum == expected.sum, "other keys than were inserted");
  return report.print(done);
}
