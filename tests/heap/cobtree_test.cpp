// tests/heap/cobtree_test.cpp -- examples/trees/cobtree.hpp on the ordinary heap, against std::map;
// its van Emde Boas layout. Invariants, for values in slots and beside them: (1) after every step
// of a random history insert, find, erase, lower_bound, scan and iteration answer as std::map does.
// (2) invariants() holds after every step, densities and separators included; it finds planted
// faults (the checker can fail). (3) when an allocation fails, the tree is as before, and nothing
// leaks. (4) the layout numbers the nodes of a tree from 0 on, without gaps, the upper half before
// the lower trees; paths are as short as they must be in blocks of every size. (5) the array stays
// within its densities: records in random order, in order, backwards; erased in any of these
// orders. (6) as (5) of bptree_test: with a Field nothing is accessed around it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "examples/trees/cobtree.hpp"
#include "tests/support/guarded_field.h"
#include "tests/support/tree_history.h"

namespace trees {
namespace {

using tmh::test::Allocator;
using tmh::test::Budget;
using tmh::test::ends_at_every_access;
using tmh::test::GuardedAllocator;
using tmh::test::GuardedField;
using tmh::test::GuardedValue;
using tmh::test::history_is_as_of_std_map;
using Key = std::uint64_t;

RC_GTEST_PROP(CoBTreeTest, ValuesInSlots, ()) {
  history_is_as_of_std_map<CoBTree<Key, std::uint64_t, Allocator, ValuePlace::kInSlot>, Key>();
}
RC_GTEST_PROP(CoBTreeTest, ValuesBeside, ()) {
  history_is_as_of_std_map<CoBTree<Key, std::uint64_t, Allocator, ValuePlace::kBeside>, Key>();
}

using FieldsBeside =
    CoBTree<Key, GuardedValue, GuardedAllocator<std::byte>, ValuePlace::kBeside, GuardedField>;
using FieldsInSlots =
    CoBTree<Key, std::uint64_t, GuardedAllocator<std::byte>, ValuePlace::kInSlot, GuardedField>;
RC_GTEST_PROP(CoBTreeTest, FieldsBesideSlots, ()) { history_is_as_of_std_map<FieldsBeside, Key>(); }
RC_GTEST_PROP(CoBTreeTest, FieldsInSlots, ()) { history_is_as_of_std_map<FieldsInSlots, Key>(); }

TEST(CoBTree, AnAttemptMayEndAtEveryAccess) {
  using Tree = FieldsBeside;
  Budget budget;
  GuardedAllocator<std::byte> allocator(&budget);
  Tree *const tree =
      ::new (static_cast<void *>(GuardedAllocator<Tree>(allocator).allocate(1))) Tree(allocator);
  Key number = 0;
  for (; tree->levels() < 2; ++number) tree->insert(number * 2, number);
  const Budget before = budget;
  const auto ends = [&](const auto &action) {
    ends_at_every_access(action, [&] { budget = before; });
  };
  ends([&] {  // windows are spread, and the array is copied into a larger one
    for (Key key = 1; tree->levels() == 2; key += 2) EXPECT_TRUE(tree->insert(key, key));
  });
  ends([&] {  // and into smaller ones
    for (Key key = 0; key < number; ++key) EXPECT_TRUE(tree->erase(key * 2));
  });
  tmh::test::read_and_clear_between(tree, number, ends);
  std::destroy_at(tree);
  GuardedAllocator<Tree>(allocator).deallocate(tree, 1);
  EXPECT_EQ(budget.live, 0);
}

// Visits every node with its position.
template <class Visit>
void walk(std::size_t levels, const Visit &visit) {
  VebLayout::Path path;
  const auto below = [&](const auto &self, std::size_t depth, std::uint64_t node) -> void {
    if (depth == levels) return;
    visit(path, depth, VebLayout::of(levels).position(&path, depth, node));
    self(self, depth + 1, 2 * node);
    self(self, depth + 1, 2 * node + 1);
  };
  below(below, 0, 1);
}

TEST(VebLayout, NodesHaveEachPositionOnce) {
  for (std::size_t levels = 0; levels <= 14; ++levels) {
    std::set<std::uint64_t> seen;
    walk(levels, [&](const VebLayout::Path &, std::size_t, std::uint64_t position) {
      seen.insert(position);
    });
    const std::uint64_t nodes = (std::uint64_t{1} << levels) - 1;
    ASSERT_EQ(seen.size(), nodes) << levels;
    if (nodes > 0) {
      ASSERT_EQ(*seen.rbegin(), nodes - 1) << levels;
    }
  }
}

TEST(VebLayout, TreeOfHeightFiveIsTheFigureOfTheThesis) {
  // Figure 5-2 cuts 5 levels into 2 and 3: the upper 3 nodes first, then 4 trees of 7.
  std::vector<std::uint64_t> positions;
  walk(5, [&](const VebLayout::Path &, std::size_t depth, std::uint64_t position) {
    if (depth == 2) positions.push_back(position);
  });
  EXPECT_EQ(positions, (std::vector<std::uint64_t>{3, 10, 17, 24}));
}

TEST(VebLayout, PathsMeetFewBlocksOfEverySize) {
  constexpr std::size_t kLevels = 16;
  for (const std::uint64_t nodes_per_block : {8U, 64U, 512U, 4096U}) {
    std::size_t most = 0;
    walk(kLevels, [&](const VebLayout::Path &path, std::size_t depth, std::uint64_t) {
      if (depth + 1 < kLevels) return;
      std::size_t met = 0;
      std::uint64_t last = ~std::uint64_t{0};
      for (std::size_t level = 0; level < kLevels; ++level) {
        const std::uint64_t block = path[level] / nodes_per_block;
        if (block != last) ++met;
        last = block;
      }
      most = std::max(most, met);
    });
    // Of 16 levels, trees of height h with 2^h <= B stay together: 4 log_B N at most (Prokop), a
    // block more for each that straddles.
    std::size_t height = 0;
    while ((std::uint64_t{2} << height) <= nodes_per_block) ++height;
    EXPECT_LE(most, 4 * (kLevels + height - 1) / height) << nodes_per_block << " nodes in a block";
  }
}

std::vector<Key> keys_in_order(const std::string &order, std::uint64_t count) {
  std::vector<Key> keys(count);
  std::iota(keys.begin(), keys.end(), Key{0});
  if (order == "backwards") std::reverse(keys.begin(), keys.end());
  if (order == "random") {
    for (Key &key : keys) key = key * 0x9e3779b97f4a7c15ULL;  // odd: a bijection
  }
  return keys;
}

TEST(CoBTree, DensitiesHoldInEveryOrder) {
  constexpr std::uint64_t kRecords = 30'000;
  for (const char *in : {"random", "ascending", "backwards"}) {
    for (const char *out : {"random", "ascending", "backwards"}) {
      CoBTree<Key, std::uint64_t> tree;
      std::vector<Key> keys = keys_in_order(in, kRecords);
      for (const Key key : keys) ASSERT_TRUE(tree.insert(key, key + 1));
      ASSERT_EQ(tree.invariants(), "") << in;
      ASSERT_EQ(tree.size(), kRecords);
      const double density =
          static_cast<double>(kRecords) / static_cast<double>(tree.segment_count() * tree.kSlots);
      EXPECT_GE(density, 0.25) << in;
      EXPECT_LE(density, 0.6) << in;
      std::sort(keys.begin(), keys.end());
      if (std::string(out) == "backwards") std::reverse(keys.begin(), keys.end());
      if (std::string(out) == "random") keys = keys_in_order(in, kRecords);
      for (std::uint64_t i = 0; i < kRecords; ++i) {
        const std::uint64_t *value = tree.find(keys[i]);
        ASSERT_NE(value, nullptr);
        ASSERT_EQ(*value, keys[i] + 1);
        ASSERT_TRUE(tree.erase(keys[i]));
        if (i % 1024 == 0) {
          ASSERT_EQ(tree.invariants(), "") << in << ", erased " << out;
        }
      }
      EXPECT_TRUE(tree.empty());
      EXPECT_EQ(tree.levels(), 0U);
    }
  }
}

TEST(CoBTree, LargeValuesStayWhereTheyAre) {
  using Value = std::array<char, 512>;
  Budget budget;
  {
    CoBTree<Key, Value, Allocator> tree{Allocator(&budget)};
    tree.insert(1, Value{'a'});
    const Value *first = tree.find(1);
    for (Key key = 2; key < 2000; ++key) tree.insert(key, Value{'b'});
    EXPECT_EQ(tree.find(1), first);
    EXPECT_EQ((*first)[0], 'a');
    tree.clear();
    EXPECT_TRUE(tree.empty());
    EXPECT_EQ(budget.live, 1) << "one segment";
  }
  EXPECT_EQ(budget.live, 0);
}

TEST(CoBTree, InvariantsFindPlantedFaults) {
  CoBTree<Key, std::uint64_t> tree;
  for (Key key = 0; key < 5000; ++key) tree.insert(key * 7, key);
  ASSERT_EQ(tree.invariants(), "");
  auto *segments = tree.segments();
  std::swap(segments[3].slots[1], segments[3].slots[2]);
  EXPECT_EQ(tree.invariants(), "keys do not ascend");
  std::swap(segments[3].slots[1], segments[3].slots[2]);
  const std::uint64_t count = std::exchange(segments[3].count, 1);
  EXPECT_EQ(tree.invariants(), "a segment is too sparse");
  segments[3].count = count;
  ASSERT_EQ(tree.invariants(), "");
  const Key first = std::exchange(segments[4].slots[0].key, segments[3].slots[count - 1].key + 1);
  EXPECT_EQ(tree.invariants(), "a separator is above what is right of it");
  segments[4].slots[0].key = first;
  EXPECT_EQ(tree.invariants(), "");
}

}  // namespace
}  // namespace trees
