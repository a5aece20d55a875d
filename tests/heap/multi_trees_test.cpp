// tests/heap/multi_trees_test.cpp -- search trees in a segment, changed by several processes, in
// every mode.
// Invariants: (1) inserts and erases of several processes in one tree, through splits, emptied
//                 leaves and copied arrays: every transaction happened once, the tree's own
//                 invariants hold in every snapshot, and so do the heap's.
//             (2) an aborted instance's splits and copies leave nothing behind.
//             (3) two inserts that overlap, into different leaves or into segments with room, do
//                 not fail each other, their records and nodes included.
//             (4) the B+-tree keeps all that under snapshot isolation, too.
//             (5) in a strict domain the tree is there after all processes were killed.
#include <csignal>
#include <map>
#include <string>
#include <string_view>

#include <tmh/trees/bptree.hpp>

#include "examples/trees/cobtree.hpp"
#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

using Key = std::uint64_t;
using Value = std::array<char, 120>;

// The trees that a run plays on: one with values beside its slots, and a small one. Small blocks
// share pages of the heap, and split often.
struct BPlusTrees {
  using Tree = trees::BPlusTree<Key, Value, 4096, allocator<std::byte>, trees::ValuePlace::kBeside>;
  using SmallTree = trees::BPlusTree<std::string_view, Key, 320, allocator<std::byte>>;
  [[nodiscard]] static std::string small_key(Key key) { return std::to_string(key * 7919); }
  // So many records that inserts far from one another meet nowhere.
  [[nodiscard]] static bool is_wide(const Tree &tree) {
    return tree.height() > 0 && tree.size() > 900;
  }
};
struct CoBTrees {
  using Tree = ::trees::CoBTree<Key, Value, allocator<std::byte>, trees::ValuePlace::kBeside>;
  using SmallTree = ::trees::CoBTree<Key, Key, allocator<std::byte>, trees::ValuePlace::kInSlot>;
  [[nodiscard]] static Key small_key(Key key) { return key * 7919; }
  // Just copied into an array twice as large: the next inserts find room.
  [[nodiscard]] static bool is_wide(const Tree &tree) { return tree.levels() == 7; }
};

Value value_of(Key key) {
  Value value{};
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(key * 31 + i);
  return value;
}

template <class Trees>
struct Worker {
  Worker(const std::string &folder, const DomainOptions &options)
      : domain(Domain::open(folder, options)) {
    segment = domain.map("trees");
    tree = segment.root<typename Trees::Tree>("tree");
    small = segment.root<typename Trees::SmallTree>("small");
  }
  void check() const {
    query(domain, [&] {
      EXPECT_EQ(tree->invariants(), "");
      EXPECT_EQ(small->invariants(), "");
      EXPECT_EQ(storage::heap_check(segment.data(), segment.size_bytes()), Errc::kOk);
    });
  }
  Domain domain;
  Segment segment;
  typename Trees::Tree *tree = nullptr;
  typename Trees::SmallTree *small = nullptr;
};

// A worker's own keys, number among `workers`, spread over all leaves; what it did is known without
// looking.
template <class Trees>
std::map<Key, bool> play(const Worker<Trees> &self, std::uint32_t number, std::uint32_t workers,
                         std::uint32_t steps) {
  std::map<Key, bool> there;
  std::uint64_t random = seed() * 7 + number;
  for (std::uint32_t step = 0; step < steps; ++step) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const Key key = (random >> 33) % 600 * workers + number;
    const auto small_key = Trees::small_key(key);
    // Grows, then shrinks.
    const bool inserts = step * 3 < steps * 2 ? (random >> 60) != 0 : (random >> 60) < 2;
    atomically(self.domain, [&] {
      if (inserts) {
        EXPECT_EQ(self.tree->insert(key, value_of(key)), !there[key]);
        EXPECT_EQ(self.small->insert(small_key, key), !there[key]);
      } else {
        EXPECT_EQ(self.tree->erase(key), there[key]);
        EXPECT_EQ(self.small->erase(small_key), there[key]);
      }
    });
    there[key] = inserts;
    if (step % 64 == 0) self.check();
  }
  return there;
}

template <class Trees>
void expect_content(const Worker<Trees> &self, const std::map<Key, bool> &there) {
  for (const auto &[key, is_there] : there) {
    const Value *value = self.tree->find(key);
    const Key *number = self.small->find(Trees::small_key(key));
    EXPECT_EQ(value != nullptr, is_there);
    EXPECT_EQ(number != nullptr, is_there);
    if (value != nullptr) {
      EXPECT_EQ(*value, value_of(key));
    }
    if (number != nullptr) {
      EXPECT_EQ(*number, key);
    }
  }
}

class MultiTreesTest : public ModeTest {
 protected:
  template <class Trees>
  [[nodiscard]] Worker<Trees> worker() const {
    return {folder_.path(), options()};
  }
  template <class Trees>
  void every_transaction_happened_once() const;
  template <class Trees>
  void aborted_splits_leave_nothing() const;
  template <class Trees>
  void far_inserts_do_not_conflict() const;
  template <class Trees>
  void is_there_after_a_kill() const;
};
INSTANTIATE_TEST_SUITE_P(Modes, MultiTreesTest, testing::ValuesIn(kModes), mode_name);

// The other tree has write skew there.
class MultiTreesSnapshotTest : public MultiTreesTest {};
INSTANTIATE_TEST_SUITE_P(SnapshotModes, MultiTreesSnapshotTest, testing::ValuesIn(kSnapshotModes),
                         mode_name);

template <class Trees>
void MultiTreesTest::every_transaction_happened_once() const {
  constexpr std::uint32_t kWorkers = 3, kSteps = 400;
  Children children;
  for (std::uint32_t number = 0; number < kWorkers; ++number) {
    children.spawn("worker " + std::to_string(number), [&, number] {
      Worker<Trees> self = worker<Trees>();
      const auto there = play(self, number, kWorkers, kSteps);
      query(self.domain, [&] { expect_content(self, there); });  // nobody else touches these keys
      self.domain.close();
    });
  }
  children.expect_success();
  Worker<Trees> self = worker<Trees>();
  self.check();
  query(self.domain, [&] { EXPECT_EQ(self.tree->size(), self.small->size()); });
}

template <class Trees>
void MultiTreesTest::aborted_splits_leave_nothing() const {
  Worker<Trees> self = worker<Trees>();
  atomically(self.domain, [&] {
    for (Key key = 0; key < 200; ++key) self.tree->insert(key * 2, value_of(key * 2));
  });
  for (int round = 0; round < 3; ++round) {
    self.domain.begin();
    for (Key key = 0; key < 2000; ++key) {
      self.tree->insert(key, value_of(key));
      self.small->insert(Trees::small_key(key), key);
    }
    self.domain.abort();
    self.check();
    query(self.domain, [&] {
      EXPECT_EQ(self.tree->size(), 200U);
      EXPECT_TRUE(self.small->empty());
    });
  }
}

// The other process's insert lies wholly within ours, in another leaf: both commit at the first
// attempt. Each has made an insert before: what is left out is the taking of the heap's chunks,
// which may conflict.
template <class Trees>
void MultiTreesTest::far_inserts_do_not_conflict() const {
  constexpr Key kFar = 1'000'000;
  {
    Worker<Trees> self = worker<Trees>();
    atomically(self.domain, [&] {
      for (Key key = 0; !Trees::is_wide(*self.tree); ++key) {
        const Key spread = key * 7919 % 1000'003 % kFar;
        self.tree->insert(spread, value_of(key));
      }
    });
  }
  const Shared<Turn> turn;
  Children children;
  children.spawn("outer", [&] {
    Worker<Trees> self = worker<Trees>();
    atomically(self.domain, [&] { self.tree->insert(2, value_of(2)); });
    turn->reach(1);
    turn->await(2);
    self.domain.begin();
    self.tree->insert(1, value_of(1));
    turn->reach(3);
    turn->await(4);
    EXPECT_EQ(self.domain.end(), Status::kCommitted);
    self.check();
  });
  children.spawn("inner", [&] {
    Worker<Trees> self = worker<Trees>();
    turn->await(1);
    atomically(self.domain, [&] { self.tree->insert(kFar - 2, value_of(2)); });
    turn->reach(2);
    turn->await(3);
    self.domain.begin();
    self.tree->insert(kFar - 1, value_of(2));
    EXPECT_EQ(self.domain.end(), Status::kCommitted);
    turn->reach(4);
  });
  children.expect_success();
}

template <class Trees>
void MultiTreesTest::is_there_after_a_kill() const {
  DomainOptions strict = options();
  if (strict.line == LineChoice::kRtm)
    GTEST_SKIP() << "durable domains refuse level 1 by RTM: its commits leave no redo records";
  strict.durability = Durability::kStrict;
  const Shared<std::atomic<std::uint64_t>> acknowledged;
  Children children;
  children.spawn("inserter", [&] {
    Worker<Trees> self(folder_.path(), strict);
    for (Key key = 1;; ++key) {
      atomically(self.domain,
                 [&] { self.tree->insert(key * 0x9e3779b97f4a7c15ULL, value_of(key)); });
      acknowledged->store(key, std::memory_order_release);
    }
  });
  ASSERT_TRUE(poll_until([&] { return acknowledged->load(std::memory_order_acquire) >= 500; }));
  children.bury(0);
  Worker<Trees> self(folder_.path(), strict);
  self.check();
  query(self.domain, [&] {
    const Key last = acknowledged->load(std::memory_order_acquire);
    for (Key key = 1; key <= last; ++key) {
      const Value *value = self.tree->find(key * 0x9e3779b97f4a7c15ULL);
      ASSERT_NE(value, nullptr) << key;
      EXPECT_EQ(*value, value_of(key));
    }
    EXPECT_LE(self.tree->size(), last + 1) << "one may have been on its way";
  });
}

TEST_P(MultiTreesTest, EveryTransactionOfAllProcessesHappenedOnceInABPlusTree) {
  every_transaction_happened_once<BPlusTrees>();
}
TEST_P(MultiTreesTest, EveryTransactionOfAllProcessesHappenedOnceInACoBTree) {
  every_transaction_happened_once<CoBTrees>();
}
TEST_P(MultiTreesTest, AbortedSplitsOfABPlusTreeLeaveNothingBehind) {
  aborted_splits_leave_nothing<BPlusTrees>();
}
TEST_P(MultiTreesTest, AbortedCopiesOfACoBTreeLeaveNothingBehind) {
  aborted_splits_leave_nothing<CoBTrees>();
}
TEST_P(MultiTreesTest, InsertsIntoDifferentLeavesDoNotConflict) {
  far_inserts_do_not_conflict<BPlusTrees>();
}
TEST_P(MultiTreesTest, InsertsThatFindRoomInDifferentSegmentsDoNotConflict) {
  far_inserts_do_not_conflict<CoBTrees>();
}
TEST_P(MultiTreesTest, BPlusTreeIsThereAfterAllWereKilled) { is_there_after_a_kill<BPlusTrees>(); }
TEST_P(MultiTreesTest, CoBTreeIsThereAfterAllWereKilled) { is_there_after_a_kill<CoBTrees>(); }
TEST_P(MultiTreesSnapshotTest, EveryTransactionOfAllProcessesHappenedOnceInABPlusTree) {
  every_transaction_happened_once<BPlusTrees>();
}
TEST_P(MultiTreesSnapshotTest, AbortedSplitsOfABPlusTreeLeaveNothingBehind) {
  aborted_splits_leave_nothing<BPlusTrees>();
}
TEST_P(MultiTreesSnapshotTest, InsertsIntoDifferentLeavesDoNotConflict) {
  far_inserts_do_not_conflict<BPlusTrees>();
}

}  // namespace
}  // namespace tmh::test
