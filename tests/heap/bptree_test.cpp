// tests/heap/bptree_test.cpp -- tmh/trees/bptree.hpp on the ordinary heap, against std::map.
// Invariants, for blocks of several sizes, values in leaves and beside them, keys of fixed and of
// any length:
//   (1) after every step of a random history insert, find, erase, lower_bound, scan and iteration
//       answer as std::map does.
//   (2) invariants() holds after every step; it finds a planted fault (the checker can fail).
//   (3) when an allocation fails, the tree is as before, and nothing leaks: everything is given
//       back in the end.
//   (4) records in order leave full leaves behind.
//   (5) with a Field every word of tree, nodes and values is accessed through it alone; where that
//       throws what is no std::exception, every call lets it pass.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <tmh/trees/bptree.hpp>

#include "tests/support/guarded_field.h"
#include "tests/support/tree_history.h"

namespace tmh::trees {
namespace {

using tmh::test::Allocator;
using tmh::test::Budget;
using tmh::test::ends_at_every_access;
using tmh::test::GuardedAllocator;
using tmh::test::GuardedField;
using tmh::test::GuardedMemory;
using tmh::test::GuardedValue;
using tmh::test::history_is_as_of_std_map;
using tmh::test::key_of;

template <std::size_t kBlockBytes, ValuePlace kPlace>
using Numbers = BPlusTree<std::uint64_t, std::uint64_t, kBlockBytes, Allocator, kPlace>;
template <std::size_t kBlockBytes>
using Texts = BPlusTree<std::string_view, std::uint64_t, kBlockBytes, Allocator>;
template <std::size_t kBlockBytes>
using FieldsBeside = BPlusTree<std::uint64_t, GuardedValue, kBlockBytes,
                               GuardedAllocator<std::byte>, ValuePlace::kBeside, GuardedField>;
template <std::size_t kBlockBytes>
using FieldsInSlots = BPlusTree<std::uint64_t, std::uint64_t, kBlockBytes,
                                GuardedAllocator<std::byte>, ValuePlace::kInSlot, GuardedField>;

// Blocks of 192 bytes: 4 levels of nodes with a handful of slots; of 4 KiB: the case in use.
RC_GTEST_PROP(BPlusTreeTest, NumbersInLeavesOf192Bytes, ()) {
  history_is_as_of_std_map<Numbers<192, ValuePlace::kInSlot>, std::uint64_t>();
}
RC_GTEST_PROP(BPlusTreeTest, NumbersBesideLeavesOf256Bytes, ()) {
  history_is_as_of_std_map<Numbers<256, ValuePlace::kBeside>, std::uint64_t>();
}
RC_GTEST_PROP(BPlusTreeTest, NumbersInLeavesOf4KiB, ()) {
  history_is_as_of_std_map<Numbers<4096, ValuePlace::kInSlot>, std::uint64_t>();
}
RC_GTEST_PROP(BPlusTreeTest, NumbersInLeavesOf16KiB, ()) {
  history_is_as_of_std_map<Numbers<16384, ValuePlace::kInSlot>, std::uint64_t>();
}
RC_GTEST_PROP(BPlusTreeTest, TextsInLeavesOf256Bytes, ()) {
  history_is_as_of_std_map<Texts<256>, std::string>();
}
RC_GTEST_PROP(BPlusTreeTest, TextsInLeavesOf4KiB, ()) {
  history_is_as_of_std_map<Texts<4096>, std::string>();
}

RC_GTEST_PROP(BPlusTreeTest, FieldsBesideLeavesOf192Bytes, ()) {
  history_is_as_of_std_map<FieldsBeside<192>, std::uint64_t>();
}
RC_GTEST_PROP(BPlusTreeTest, FieldsBesideLeavesOf4KiB, ()) {
  history_is_as_of_std_map<FieldsBeside<4096>, std::uint64_t>();
}
RC_GTEST_PROP(BPlusTreeTest, FieldsInLeavesOf256Bytes, ()) {
  history_is_as_of_std_map<FieldsInSlots<256>, std::uint64_t>();
}

TEST(BPlusTree, AnAttemptMayEndAtEveryAccess) {
  using Tree = FieldsBeside<192>;
  Budget budget;
  GuardedAllocator<std::byte> allocator(&budget);
  Tree *const tree =
      ::new (static_cast<void *>(GuardedAllocator<Tree>(allocator).allocate(1))) Tree(allocator);
  const std::size_t in_root = Tree::InnerNode::kKeys * Tree::LeafNode::kSlots;
  std::uint64_t number = 0;
  for (; tree->height() < 2; ++number) tree->insert(number * 2, number);
  ASSERT_GT(number, in_root / 2);
  const Budget before = budget;
  const auto ends = [&](const auto &action) {
    ends_at_every_access(action, [&] { budget = before; });
  };
  for (std::uint64_t key = 1; key < number; key += 2)
    ends([&] { EXPECT_TRUE(tree->insert(key, key)); });
  ends([&] {  // leaves and inner nodes empty, and the root goes
    for (std::uint64_t key = 0; key < number; ++key) EXPECT_TRUE(tree->erase(key * 2));
  });
  tmh::test::read_and_clear_between(tree, number, ends);
  tree->clear();
  std::destroy_at(tree);
  GuardedAllocator<Tree>(allocator).deallocate(tree, 1);
  EXPECT_EQ(budget.live, 0);
}

TEST(BPlusTree, GuardedMemoryIsClosedToPlainAccesses) {
  auto *const field =
      static_cast<GuardedField<int> *>(GuardedMemory::here().allocate(sizeof(GuardedField<int>)));
  *field = 5;
  EXPECT_EQ(*field, 5);
  EXPECT_DEATH(EXPECT_EQ(*reinterpret_cast<volatile int *>(field), 5), "");
}

TEST(BPlusTree, AscendingKeysLeaveFullLeaves) {
  using Tree = BPlusTree<std::uint64_t, std::uint64_t, 1024>;
  Tree tree;
  constexpr std::uint64_t kRecords = 20'000;
  for (std::uint64_t key = 0; key < kRecords; ++key) ASSERT_TRUE(tree.insert(key, key));
  EXPECT_EQ(tree.invariants(), "");
  EXPECT_EQ(tree.size(), kRecords);
  Budget budget;
  BPlusTree<std::uint64_t, std::uint64_t, 1024, Allocator> counted{Allocator(&budget)};
  for (std::uint64_t key = 0; key < kRecords; ++key) ASSERT_TRUE(counted.insert(key, key));
  const auto leaves = static_cast<std::int64_t>(kRecords / Tree::LeafNode::kSlots + 1);
  EXPECT_LE(budget.live, leaves + leaves / 16) << "nodes, for " << leaves << " full leaves";
}

TEST(BPlusTree, ANodeIsAPageLessTheAllocatorsHeader) {
  using Tree = BPlusTree<std::uint64_t, std::array<char, 512>, 4096>;
  EXPECT_LE(sizeof(Tree::LeafNode), 4096U - 64);
  EXPECT_GT(Tree::LeafNode::kSlots, 200U) << "large values have blocks of their own";
}

TEST(BPlusTree, ClearGivesEverythingBack) {
  Budget budget;
  {
    Texts<256> tree{Allocator(&budget)};
    for (std::uint64_t number = 0; number < 500; ++number)
      tree.insert(key_of<std::string>(number), number);
    tree.clear();
    EXPECT_TRUE(tree.empty());
    EXPECT_EQ(budget.live, 1);
    EXPECT_TRUE(tree.insert("again", 1));
  }
  EXPECT_EQ(budget.live, 0);
}

// Each of the insert's allocations fails in turn: the value's block, what the value owns, the key's
// block, the nodes of a split.
TEST(BPlusTree, AValueThatOwnsMemoryIsDestroyedWhenItsInsertFails) {
  using Owning = std::vector<std::byte, Allocator>;
  Budget budget;
  {
    const Allocator allocator(&budget);
    BPlusTree<std::string_view, Owning, 256, Allocator> tree(allocator);
    const Owning value(100, std::byte{1}, allocator);
    std::int64_t failures = 0;
    for (int i = 0; i < 50; ++i) {
      const std::string key = "key " + std::to_string(i);
      bool is_done = false;
      for (std::int64_t allocations = 0; !is_done; ++allocations) {
        const std::int64_t before = budget.live;
        budget.left = allocations;
        try {
          is_done = tree.insert(key, value);
        } catch (const std::bad_alloc &) {
          ++failures;
          EXPECT_EQ(budget.live, before)
              << "insert " << i << " with " << allocations << " allocations";
        }
      }
      budget.left = -1;
      EXPECT_EQ(tree.invariants(), "");
    }
    EXPECT_GT(failures, 100);
    EXPECT_EQ(tree.find("key 7")->size(), 100u);
  }
  EXPECT_EQ(budget.live, 0);
}

TEST(BPlusTree, InvariantsFindSwappedKeys) {
  BPlusTree<std::uint64_t, std::uint64_t> tree;
  for (std::uint64_t key = 0; key < 1000; ++key) tree.insert(key, key);
  ASSERT_EQ(tree.invariants(), "");
  auto *leaf = tree.first();
  std::swap(leaf->slots[3], leaf->slots[4]);
  EXPECT_NE(tree.invariants(), "");
  std::swap(leaf->slots[3], leaf->slots[4]);
  leaf->order.rotate_up(5, 6);
  EXPECT_NE(tree.invariants(), "");
}

}  // namespace
}  // namespace tmh::trees
