// tests/heap/multi_field_trees_test.cpp -- search trees made of fields, in pools: level 1 and level
// 2 change them at once.
// Invariants: (1) inserts and erases by threads of several processes at level 1, by instrumented
//                 instances at level 2 and by plain ones: every transaction happened once, and the
//                 tree's own invariants hold in every snapshot.
//             (2) processes that insert die by SIGKILL, and others go on; in a strict domain, when
//                 all are dead, the tree holds what was acknowledged, and of each worker's next
//                 step all or nothing.
//             (3) then no block of the pools' lists is in them twice, or in a tree.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>
#include <tmh/trees/bptree.hpp>

#include "examples/trees/cobtree.hpp"
#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "tests/support/pool_blocks.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

using Key = std::uint64_t;
using Value = std::array<std::uint64_t, 12>;

struct FieldValue {
  field<std::uint64_t> words[std::tuple_size_v<Value>];
  FieldValue &operator=(const Value &value) {
    for (std::size_t i = 0; i < value.size(); ++i) words[i] = value[i];
    return *this;
  }
  friend bool operator==(const FieldValue &a, const Value &b) {
    for (std::size_t i = 0; i < b.size(); ++i) {
      if (a.words[i] != b[i]) return false;
    }
    return true;
  }
};
Value value_of(Key key) {
  Value value{};
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = key * 31 + i;
  return value;
}

using Bytes = pool_allocator<std::byte>;
constexpr auto kBeside = trees::ValuePlace::kBeside;

// A tree as programs use it, and one whose nodes are split and emptied often, or whose records
// move.
struct BPlusTrees {
  using Tree = trees::BPlusTree<Key, FieldValue, 4096, Bytes, kBeside, field>;
  using SmallTree = trees::BPlusTree<Key, field<Key>, 320, Bytes, kBeside, field>;
  [[nodiscard]] static Key small_value(Key key) { return ~key; }
  static void add_nodes(const Tree &tree, const SmallTree &small, std::vector<PoolBlock> *blocks) {
    for (auto *leaf = tree.first(); leaf != nullptr; leaf = leaf->next)
      blocks->push_back({leaf, 4032, 0});
    for (auto *leaf = small.first(); leaf != nullptr; leaf = leaf->next)
      blocks->push_back({leaf, 256, 0});
  }
};
struct CoBTrees {
  using Tree = ::trees::CoBTree<Key, FieldValue, Bytes, kBeside, field>;
  using SmallTree = ::trees::CoBTree<Key, Key, Bytes, trees::ValuePlace::kInSlot, field>;
  [[nodiscard]] static Key small_value(Key key) { return ~key; }
  static void add_nodes(const Tree &tree, const SmallTree &small, std::vector<PoolBlock> *blocks) {
    blocks->push_back({tree.segments(), tree.segment_count() * sizeof(Tree::Segment), 0});
    blocks->push_back({small.segments(), small.segment_count() * sizeof(SmallTree::Segment), 0});
  }
};

template <class Trees>
struct Grove {
  Grove(const std::string &folder, const DomainOptions &options)
      : domain(Domain::open(folder, options)) {
    segment = domain.map("trees");
    own = segment.root<pools>("tmh.pools");
    tree = segment.root<typename Trees::Tree>("tree");
    small = segment.root<typename Trees::SmallTree>("small");
  }
  [[nodiscard]] Site site(const char *escalation) const {
    return Site(domain, escalation, escalation);
  }
  // In an instance: the record comes to both trees, or leaves both. False: one of them did not
  // agree.
  [[nodiscard]] bool put(Key key) const {
    const bool is_new = tree->insert(key, value_of(key));
    return small->insert(key, Trees::small_value(key)) && is_new;
  }
  [[nodiscard]] bool drop(Key key) const {
    const bool was_there = tree->erase(key);
    return small->erase(key) && was_there;
  }
  void expect(Key key, bool is_there) const {
    const FieldValue *value = tree->find(key);
    const auto *other = small->find(key);
    EXPECT_EQ(value != nullptr, is_there) << key;
    EXPECT_EQ(other != nullptr, is_there) << key;
    if (value != nullptr) {
      EXPECT_TRUE(*value == value_of(key)) << key;
    }
    if (other != nullptr) {
      EXPECT_TRUE(*other == Trees::small_value(key)) << key;
    }
  }
  void expect_sound() const {
    EXPECT_EQ(tree->invariants(), "");
    EXPECT_EQ(small->invariants(), "");
  }
  Domain domain;
  Segment segment;
  pools *own = nullptr;
  typename Trees::Tree *tree = nullptr;
  typename Trees::SmallTree *small = nullptr;
};

// What a worker does is known beforehand. Its keys lie between everybody else's.
struct Step {
  Key key;
  bool puts;
};
std::vector<Step> steps_of(std::uint32_t worker, std::uint32_t workers, std::uint32_t count) {
  std::vector<Step> steps;
  std::map<Key, bool> there;
  std::uint64_t random = seed() * 7 + worker;
  while (steps.size() < count) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const Key key = (random >> 33) % 300 * workers + worker;
    // Grows, then shrinks.
    const bool puts = steps.size() * 3 < count * 2 ? (random >> 60) != 0 : (random >> 60) < 3;
    if (there[key] == puts) continue;
    there[key] = puts;
    steps.push_back({key, puts});
  }
  return steps;
}

class MultiFieldTreesTest : public ModeTest {
 protected:
  template <class Trees>
  void every_transaction_happened_once() const;
};
INSTANTIATE_TEST_SUITE_P(Modes, MultiFieldTreesTest, testing::ValuesIn(hybrid_modes()), mode_name);

// Workers 0 to 3: threads of two processes at level 1. Worker 4: at level 2, instrumented and
// plain, with queries in between.
template <class Trees>
void MultiFieldTreesTest::every_transaction_happened_once() const {
  constexpr std::uint32_t kProcesses = 2, kThreads = 2, kWorkers = kProcesses * kThreads + 1,
                          kSteps = 600;
  const MemoryFolder folder;
  struct Totals {
    std::atomic<std::uint64_t> line_commits, line_aborts, page_commits;
    std::atomic<std::uint32_t> ready;  // workers; they begin together
  };
  const Shared<Totals> totals;
  static_cast<void>(seed());  // chosen and printed here, inherited by the children
  const auto apply = [](const Grove<Trees> &grove, const Step &step) {
    return step.puts ? grove.put(step.key) : grove.drop(step.key);
  };
  const auto meet_others = [&] {
    totals->ready.fetch_add(1);
    EXPECT_TRUE(poll_until([&] { return totals->ready.load() == kWorkers; }));
  };
  Children children;
  for (std::uint32_t process = 0; process < kProcesses; ++process) {
    children.spawn("lines " + std::to_string(process), [&, process] {
      Grove<Trees> grove(folder.path(), options());
      {
        const Site site = grove.site("on-capacity");
        std::vector<std::unique_ptr<Thread>> threads;
        for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
          threads.push_back(std::make_unique<Thread>([&, thread] {
            meet_others();
            for (const Step &step : steps_of(process * kThreads + thread, kWorkers, kSteps))
              EXPECT_TRUE(atomically(site, [&](Fields) { return apply(grove, step); })) << step.key;
          }));
        }
        threads.clear();
        totals->line_commits += site.report().line_commits;
        totals->line_aborts += site.report().line_aborts;
      }
      grove.domain.close();
    });
  }
  children.spawn("pages", [&] {
    Grove<Trees> grove(folder.path(), options());
    const Site site = grove.site("always");
    std::uint32_t number = 0;
    meet_others();
    for (const Step &step : steps_of(kWorkers - 1, kWorkers, kSteps)) {
      if (++number % 2 == 0)
        EXPECT_TRUE(atomically(site, [&](Fields) { return apply(grove, step); })) << step.key;
      else
        EXPECT_TRUE(atomically(grove.domain, [&] { return apply(grove, step); })) << step.key;
      query(grove.domain, [&] { grove.expect(step.key, step.puts); });
      if (number % 16 == 0) query(grove.domain, [&] { grove.expect_sound(); });
    }
    totals->page_commits += site.report().page_commits;
    grove.domain.close();
  });
  children.expect_success();
  EXPECT_GT(totals->line_commits.load(), 0U);
  std::printf("%llu commits at level 1, %llu attempts aborted there\n",
              static_cast<unsigned long long>(totals->line_commits.load()),
              static_cast<unsigned long long>(totals->line_aborts.load()));
  EXPECT_EQ(totals->page_commits.load(), kSteps / 2);

  const Grove<Trees> grove(folder.path(), options());
  query(grove.domain, [&] {
    grove.expect_sound();
    EXPECT_EQ(storage::heap_check(grove.segment.data(), grove.segment.size_bytes()), Errc::kOk);
    std::size_t records = 0;
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      std::map<Key, bool> there;
      for (const Step &step : steps_of(worker, kWorkers, kSteps)) there[step.key] = step.puts;
      for (const auto &[key, is_there] : there) {
        grove.expect(key, is_there);
        records += is_there;
      }
    }
    EXPECT_EQ(grove.tree->size(), records);
    EXPECT_EQ(grove.small->size(), records);
  });
}

TEST_P(MultiFieldTreesTest, EveryTransactionHappenedOnceInABPlusTree) {
  every_transaction_happened_once<BPlusTrees>();
}
TEST_P(MultiFieldTreesTest, EveryTransactionHappenedOnceInACoBTree) {
  every_transaction_happened_once<CoBTrees>();
}

// Step n of a worker puts its n-th key; every third step drops the (n/3)-th.
constexpr std::uint32_t kInserters = 3, kThreadsEach = 2,
                        kInsertWorkers = kInserters * kThreadsEach;
struct Acknowledged {
  std::atomic<std::uint64_t> by[kInsertWorkers];  // steps
};
Key nth_key(std::uint32_t worker, std::uint64_t n) {
  return (n * kInsertWorkers + worker) * 0x9e3779b97f4a7c15ULL;
}

template <class Trees>
void insert_for_ever(const Grove<Trees> &grove, std::uint32_t worker,
                     std::atomic<std::uint64_t> *acknowledged) {
  const Site site = grove.site("on-capacity");
  std::uint64_t done = acknowledged->load();
  // Its predecessor may have died between a commit and its acknowledgement.
  if (query(grove.domain, [&] { return grove.tree->find(nth_key(worker, done + 1)) != nullptr; }))
    // Or this one might die, too, and leave two steps that nobody knows of.
    acknowledged->store(++done, std::memory_order_release);
  for (;;) {
    const std::uint64_t step = done + 1;
    EXPECT_TRUE(atomically(site,
                           [&](Fields) {
                             const bool is_new = grove.put(nth_key(worker, step));
                             return (step % 3 != 0 || grove.drop(nth_key(worker, step / 3))) &&
                                    is_new;
                           }))
        << "step " << step << " of worker " << worker;
    acknowledged->store(done = step, std::memory_order_release);
  }
}

template <class Trees>
void expect_all_steps(const Grove<Trees> &grove, const Acknowledged &acknowledged) {
  std::size_t records = 0;
  for (std::uint32_t worker = 0; worker < kInsertWorkers; ++worker) {
    std::uint64_t done = acknowledged.by[worker].load(std::memory_order_acquire);
    // One may have been on its way.
    if (grove.tree->find(nth_key(worker, done + 1)) != nullptr) ++done;
    for (std::uint64_t n = 1; n <= done + 1; ++n)
      grove.expect(nth_key(worker, n), n <= done && 3 * n > done);
    records += done - done / 3;
  }
  EXPECT_EQ(grove.tree->size(), records);
  EXPECT_EQ(grove.small->size(), records);
}

template <class Trees>
void inserters_die() {
  constexpr int kKills = 12;
  const DomainOptions strict = options_for(kDurableHybridModes[0]);
  const MemoryFolder folder;
  const Shared<Acknowledged> acknowledged;
  const auto total = [&] {
    std::uint64_t steps = 0;
    for (const auto &each : acknowledged->by) steps += each.load();
    return steps;
  };
  const auto inserter = [&](std::uint32_t number) {
    return [&, number] {
      const Grove<Trees> grove(folder.path(), strict);
      std::vector<std::unique_ptr<Thread>> threads;
      for (std::uint32_t thread = 0; thread < kThreadsEach; ++thread) {
        const std::uint32_t worker = number * kThreadsEach + thread;
        threads.push_back(std::make_unique<Thread>(
            [&, worker] { insert_for_ever(grove, worker, &acknowledged->by[worker]); }));
      }
    };
  };
  Children children;
  std::array<std::size_t, kInserters> running{};
  for (std::uint32_t number = 0; number < kInserters; ++number)
    running[number] = children.spawn("inserter " + std::to_string(number), inserter(number));
  std::uint64_t random = seed();
  for (int kill = 0; kill < kKills; ++kill) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto victim = static_cast<std::uint32_t>((random >> 33) % kInserters);
    const std::uint64_t before = total();
    ASSERT_TRUE(poll_until([&] { return total() > before + 100 + (random >> 40) % 300; }))
        << "hangs after " << kill << " kills";
    ASSERT_TRUE(children.running(running[victim]));
    children.bury(running[victim]);
    expect_child("auditor", [&] {
      Grove<Trees> grove(folder.path(), strict);
      query(grove.domain, [&] { grove.expect_sound(); });
      grove.domain.close();
    });
    running[victim] = children.spawn("heir of " + std::to_string(victim), inserter(victim));
  }
  for (const std::size_t child : running) {
    EXPECT_TRUE(children.running(child));
    children.kill(child, SIGKILL);
  }
  for (const std::size_t child : running) children.bury(child);

  const Grove<Trees> grove(folder.path(), strict);
  atomically(grove.domain, [&] {
    grove.expect_sound();
    expect_all_steps(grove, *acknowledged);
    EXPECT_EQ(storage::heap_check(grove.segment.data(), grove.segment.size_bytes()), Errc::kOk);
    std::vector<PoolBlock> blocks = take_all_free(grove.own);
    for (const PoolBlock &block : blocks) fill(block);
    for (const auto &record : *grove.tree)
      blocks.push_back({&record.value, sizeof record.value, 0});
    Trees::add_nodes(*grove.tree, *grove.small, &blocks);
    expect_no_overlap(blocks);
    grove.expect_sound();  // whatever has been written to what the lists held
    expect_all_steps(grove, *acknowledged);
  });
}

TEST(MultiFieldTreesKillTest, InsertersOfABPlusTreeDie) { inserters_die<BPlusTrees>(); }
TEST(MultiFieldTreesKillTest, InsertersOfACoBTreeDie) { inserters_die<CoBTrees>(); }

}  // namespace
}  // namespace tmh::test
