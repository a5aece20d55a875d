// tests/heap/multi_bytes_tree_test.cpp -- a tree of keys and values of any length, made of fields,
// in pools: level 1 and level 2 change it at once.
// Invariants: (1) inserts, assigns and erases by threads of several processes at level 1, by
//                 instrumented instances at level 2 and by plain ones: every transaction happened
//                 once. Records that all of them change say how many records and bytes there are:
//                 so it is in every snapshot, and the tree's own invariants hold there.
//             (2) processes that change the tree die by SIGKILL, and others go on; in a strict
//                 domain, when all are dead, the tree holds what was acknowledged, and of each
//                 worker's next step all or nothing.
//             (3) then no block of the pools' lists is in them twice, or in the tree.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <tmh/tmh.hpp>
#include <tmh/trees/bptree.hpp>

#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "tests/support/pool_blocks.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

// Small blocks: nodes are split and emptied often.
using BytesOfFields = trees::BytesTree<pool_allocator<std::byte>, field, 512>;
using BytesInModel = std::map<std::string, std::string>;

std::uint64_t scrambled(std::uint64_t number) { return number * 0x9e3779b97f4a7c15ULL; }

// Some are empty; some do not fit the largest block of the pools, and send an instance to level 2.
std::string bytes_of(std::uint64_t number) {
  const std::uint64_t random = scrambled(number + 1) >> 40;
  std::size_t bytes = random % 5 == 0 ? 0 : random % 250;
  if (random % 97 == 0) bytes = 5000;
  std::string value(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>(random + i);
  return value;
}
// Most begin with the same eight bytes, or end in zero bytes.
std::string key_named(std::uint64_t number) {
  std::string key = number % 4 == 0 ? "" : "a common beginning ";
  key += std::to_string(number / 2);
  if (number % 2 == 1) key += '\0';
  return key;
}

// What all workers change: records and bytes of values, in a record of the tree.
struct Totals {
  std::int64_t records = 0, bytes = 0;
};
constexpr std::uint64_t kTotals = 4;
std::string totals_key(std::uint64_t number) { return "totals " + std::to_string(number); }

class BytesGrove {
 public:
  BytesGrove(const std::string &folder, const DomainOptions &options)
      : domain(Domain::open(folder, options)) {
    segment = domain.map("trees");
    own = segment.root<pools>("tmh.pools");
    tree = segment.root<BytesOfFields>("tree");
  }
  [[nodiscard]] Site site(const char *escalation) const {
    return Site(domain, escalation, escalation);
  }
  // In an instance.
  void add(std::uint64_t which, const Totals &more) const {
    Totals totals;
    const std::string key = totals_key(which % kTotals);
    if (const auto *const record = tree->find(key); record != nullptr) {
      EXPECT_EQ(record->size(), sizeof totals);
      record->copy(reinterpret_cast<char *>(&totals));
    }
    totals.records += more.records;
    totals.bytes += more.bytes;
    tree->assign(key, std::string_view(reinterpret_cast<const char *>(&totals), sizeof totals));
  }
  void expect_sound(bool has_totals) const {
    EXPECT_EQ(tree->invariants(), "");
    if (!has_totals) return;
    Totals found, said;
    for (const auto &record : *tree) {
      if (record.key().starts_with("totals ")) {
        Totals part;
        record.copy(reinterpret_cast<char *>(&part));
        said.records += part.records;
        said.bytes += part.bytes;
      } else {
        ++found.records;
        found.bytes += static_cast<std::int64_t>(record.size());
      }
    }
    EXPECT_EQ(found.records, said.records);
    EXPECT_EQ(found.bytes, said.bytes);
  }
  // All of its records but the totals.
  void expect_all(const BytesInModel &model) const {
    auto expected = model.begin();
    for (const auto &record : *tree) {
      const std::string key = record.key();
      if (key.starts_with("totals ")) continue;
      ASSERT_NE(expected, model.end());
      ASSERT_TRUE(key == expected->first) << key << " and not " << expected->first;
      ASSERT_TRUE(record.value() == expected->second) << key;
      ++expected;
    }
    ASSERT_EQ(expected, model.end());
  }

  Domain domain;
  Segment segment;
  pools *own = nullptr;
  BytesOfFields *tree = nullptr;
};

// What a worker does is known beforehand. Its keys lie between everybody else's.
struct Change {
  enum class Kind : std::uint8_t { kInsert, kAssign, kErase };
  Kind kind;
  std::string key, value;
  bool answer;  // the tree's
  Totals more;  // records and bytes afterwards, minus those before
};
std::vector<Change> changes_of(std::uint32_t worker, std::uint32_t workers, std::uint32_t count,
                               BytesInModel *all) {
  std::vector<Change> changes;
  std::uint64_t random = seed() * 7 + worker;
  BytesInModel there;
  while (changes.size() < count) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::string key = key_named((random >> 33) % 150 * workers + worker);
    const auto known = there.find(key);
    const bool is_there = known != there.end();
    // Grows, then shrinks.
    const bool grows = changes.size() * 3 < count * 2 ? (random >> 60) > 2 : (random >> 60) < 4;
    Totals more;
    if (is_there) more = {-1, -static_cast<std::int64_t>(known->second.size())};
    if (!grows) {
      if (!is_there && random % 4 != 0) continue;
      there.erase(key);
      changes.push_back({Change::Kind::kErase, key, "", is_there, more});
      continue;
    }
    const std::string value = bytes_of(random);
    const bool inserts = random % 3 == 0;
    if (inserts && is_there) {
      more = {};
    } else {
      more = {more.records + 1, more.bytes + static_cast<std::int64_t>(value.size())};
      there[key] = value;
    }
    changes.push_back(
        {inserts ? Change::Kind::kInsert : Change::Kind::kAssign, key, value, !is_there, more});
  }
  if (all != nullptr) all->merge(there);
  return changes;
}
// In an instance. False: the tree did not agree.
bool apply(const BytesGrove &grove, const Change &change) {
  grove.add(scrambled(change.value.size()) >> 32, change.more);
  switch (change.kind) {
    case Change::Kind::kInsert:
      return grove.tree->insert(change.key, change.value) == change.answer;
    case Change::Kind::kAssign:
      return grove.tree->assign(change.key, change.value) == change.answer;
    case Change::Kind::kErase:
      break;
  }
  return grove.tree->erase(change.key) == change.answer;
}

class MultiBytesTreeTest : public ModeTest {};
INSTANTIATE_TEST_SUITE_P(Modes, MultiBytesTreeTest, testing::ValuesIn(hybrid_modes()), mode_name);
INSTANTIATE_TEST_SUITE_P(SnapshotModes, MultiBytesTreeTest, testing::Values(kSnapshotModes[2]),
                         mode_name);

// Workers 0 to 3: threads of two processes at level 1. Worker 4: at level 2, instrumented and
// plain, with queries in between.
TEST_P(MultiBytesTreeTest, EveryTransactionHappenedOnce) {
  constexpr std::uint32_t kProcesses = 2, kThreads = 2, kWorkers = kProcesses * kThreads + 1,
                          kChanges = 1500;
  const MemoryFolder folder;
  struct Counts {
    std::atomic<std::uint64_t> line_commits, line_aborts, page_commits;
    std::atomic<std::uint32_t> ready;  // workers; they begin together
  };
  const Shared<Counts> counts;
  static_cast<void>(seed());  // chosen and printed here, inherited by the children
  const auto meet_others = [&] {
    counts->ready.fetch_add(1);
    EXPECT_TRUE(poll_until([&] { return counts->ready.load() == kWorkers; }));
  };
  Children children;
  for (std::uint32_t process = 0; process < kProcesses; ++process) {
    children.spawn("lines " + std::to_string(process), [&, process] {
      BytesGrove grove(folder.path(), options());
      {
        const Site site = grove.site("on-capacity");
        std::vector<std::unique_ptr<Thread>> threads;
        for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
          threads.push_back(std::make_unique<Thread>([&, thread] {
            meet_others();
            for (const Change &change :
                 changes_of(process * kThreads + thread, kWorkers, kChanges, nullptr))
              EXPECT_TRUE(atomically(site, [&](Fields) { return apply(grove, change); }))
                  << change.key;
          }));
        }
        threads.clear();
        counts->line_commits += site.report().line_commits;
        counts->line_aborts += site.report().line_aborts;
      }
      grove.domain.close();
    });
  }
  children.spawn("pages", [&] {
    BytesGrove grove(folder.path(), options());
    const Site site = grove.site("always");
    std::uint32_t number = 0;
    meet_others();
    for (const Change &change : changes_of(kWorkers - 1, kWorkers, kChanges, nullptr)) {
      if (++number % 2 == 0)
        EXPECT_TRUE(atomically(site, [&](Fields) { return apply(grove, change); })) << change.key;
      else
        EXPECT_TRUE(atomically(grove.domain, [&] { return apply(grove, change); })) << change.key;
      if (number % 8 == 0) query(grove.domain, [&] { grove.expect_sound(true); });
    }
    counts->page_commits += site.report().page_commits;
    grove.domain.close();
  });
  children.expect_success();
  EXPECT_GT(counts->line_commits.load(), 0U);
  std::printf("%llu commits at level 1, %llu attempts aborted there\n",
              static_cast<unsigned long long>(counts->line_commits.load()),
              static_cast<unsigned long long>(counts->line_aborts.load()));
  EXPECT_EQ(counts->page_commits.load(), kChanges / 2);

  BytesInModel all;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker)
    changes_of(worker, kWorkers, kChanges, &all);
  const BytesGrove grove(folder.path(), options());
  query(grove.domain, [&] {
    grove.expect_sound(true);
    grove.expect_all(all);
    EXPECT_EQ(storage::heap_check(grove.segment.data(), grove.segment.size_bytes()), Errc::kOk);
  });
}

// Step n of a worker inserts its n-th key; every second one gives the (n/2)-th another value, every
// third one erases the (n/3)-th.
constexpr std::uint32_t kChangers = 3, kThreadsOfChanger = 2,
                        kChangeWorkers = kChangers * kThreadsOfChanger;
struct Steps {
  std::atomic<std::uint64_t> by[kChangeWorkers];  // acknowledged
};
std::string key_of_step(std::uint32_t worker, std::uint64_t n) {
  return key_named(scrambled(n * kChangeWorkers + worker) >> 8);
}
std::string value_of_step(std::uint32_t worker, std::uint64_t n, std::uint64_t step) {
  return bytes_of((n * 1000 + step) * kChangeWorkers + worker);
}
bool take_step(BytesOfFields *tree, std::uint32_t worker, std::uint64_t n) {
  bool agrees = tree->insert(key_of_step(worker, n), value_of_step(worker, n, 0));
  if (n % 2 == 0)
    agrees = !tree->assign(key_of_step(worker, n / 2), value_of_step(worker, n / 2, n)) && agrees;
  if (n % 3 == 0) agrees = tree->erase(key_of_step(worker, n / 3)) && agrees;
  return agrees;
}
void add_records_of(std::uint32_t worker, std::uint64_t done, BytesInModel *all) {
  for (std::uint64_t n = done / 3 + 1; n <= done; ++n)
    (*all)[key_of_step(worker, n)] = value_of_step(worker, n, 2 * n <= done ? 2 * n : 0);
}

void change_for_ever(const BytesGrove &grove, std::uint32_t worker,
                     std::atomic<std::uint64_t> *acknowledged) {
  const Site site = grove.site("on-capacity");
  std::uint64_t done = acknowledged->load();
  // Its predecessor may have died between a commit and its acknowledgement.
  if (query(grove.domain,
            [&] { return grove.tree->find(key_of_step(worker, done + 1)) != nullptr; }))
    // Or this one might die, too, and leave two steps that nobody knows of.
    acknowledged->store(++done, std::memory_order_release);
  for (;;) {
    const std::uint64_t step = done + 1;
    const auto body = [&] { return take_step(grove.tree, worker, step); };
    // Now and then at level 2, and plain.
    const bool agrees = step % 16 == 0 ? atomically(grove.domain, body)
                                       : atomically(site, [&](Fields) { return body(); });
    EXPECT_TRUE(agrees) << "step " << step << " of worker " << worker;
    acknowledged->store(done = step, std::memory_order_release);
  }
}

BytesInModel all_steps(const BytesGrove &grove, const Steps &steps) {
  BytesInModel all;
  for (std::uint32_t worker = 0; worker < kChangeWorkers; ++worker) {
    std::uint64_t done = steps.by[worker].load(std::memory_order_acquire);
    // One may have been on its way.
    if (grove.tree->find(key_of_step(worker, done + 1)) != nullptr) ++done;
    add_records_of(worker, done, &all);
  }
  return all;
}

TEST(MultiBytesTreeKillTest, ChangersDie) {
  constexpr int kKills = 12;
  const DomainOptions strict = options_for(kDurableHybridModes[0]);
  const MemoryFolder folder;
  const Shared<Steps> steps;
  const auto total = [&] {
    std::uint64_t sum = 0;
    for (const auto &each : steps->by) sum += each.load();
    return sum;
  };
  const auto changer = [&](std::uint32_t number) {
    return [&, number] {
      const BytesGrove grove(folder.path(), strict);
      std::vector<std::unique_ptr<Thread>> threads;
      for (std::uint32_t thread = 0; thread < kThreadsOfChanger; ++thread) {
        const std::uint32_t worker = number * kThreadsOfChanger + thread;
        threads.push_back(std::make_unique<Thread>(
            [&, worker] { change_for_ever(grove, worker, &steps->by[worker]); }));
      }
    };
  };
  Children children;
  std::array<std::size_t, kChangers> running{};
  for (std::uint32_t number = 0; number < kChangers; ++number)
    running[number] = children.spawn("changer " + std::to_string(number), changer(number));
  std::uint64_t random = seed();
  for (int kill = 0; kill < kKills; ++kill) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto victim = static_cast<std::uint32_t>((random >> 33) % kChangers);
    const std::uint64_t before = total();
    ASSERT_TRUE(poll_until([&] { return total() > before + 100 + (random >> 40) % 300; }))
        << "hangs after " << kill << " kills";
    ASSERT_TRUE(children.running(running[victim]));
    children.bury(running[victim]);
    expect_child("auditor", [&] {
      BytesGrove grove(folder.path(), strict);
      query(grove.domain, [&] { grove.expect_sound(false); });
      grove.domain.close();
    });
    running[victim] = children.spawn("heir of " + std::to_string(victim), changer(victim));
  }
  for (const std::size_t child : running) {
    EXPECT_TRUE(children.running(child));
    children.kill(child, SIGKILL);
  }
  for (const std::size_t child : running) children.bury(child);

  const BytesGrove grove(folder.path(), strict);
  atomically(grove.domain, [&] {
    grove.expect_sound(false);
    grove.expect_all(all_steps(grove, *steps));
    EXPECT_EQ(storage::heap_check(grove.segment.data(), grove.segment.size_bytes()), Errc::kOk);
    std::vector<PoolBlock> blocks = take_all_free(grove.own);
    for (const PoolBlock &block : blocks) fill(block);
    for (const auto &record : *grove.tree) {
      const auto words = [](std::size_t bytes) { return (bytes + 7) / 8; };
      blocks.push_back({const_cast<void *>(static_cast<const void *>(&record)),
                        8 * (1 + words(record.key_size()) + words(record.size())), 0});
    }
    for (auto *leaf = grove.tree->first(); leaf != nullptr; leaf = leaf->next)
      blocks.push_back({leaf, sizeof *leaf, 0});
    expect_no_overlap(blocks);
    grove.expect_sound(false);  // whatever has been written to what the lists held
    grove.expect_all(all_steps(grove, *steps));
  });
}

}  // namespace
}  // namespace tmh::test
