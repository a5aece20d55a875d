// tests/bptree_test.cpp -- examples/trees/bptree.hpp on the ordinary heap, against std::map.
// Invariants, for blocks of several sizes, values in leaves and beside them, keys of fixed and of any length:
//   (1) after every step of a random history insert, find, erase, lower_bound, scan and iteration answer as std::map does.
//   (2) invariants() holds after every step; it finds a planted fault (the checker can fail).
//   (3) when an allocation fails, the tree is as before, and nothing leaks: everything is given back in the end.
//   (4) records in order leave full leaves behind.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "examples/trees/bptree.hpp"
#include "tests/support/seed.h"

namespace trees {
namespace {

// Counts blocks, and fails when its budget is used up.
struct Budget {
  std::int64_t live = 0;
  std::int64_t left = -1;  // allocations that succeed; below 0: all
};
template <class T>
class Counting {
 public:
  using value_type = T;
  explicit Counting(Budget *budget) noexcept : budget_(budget) {}
  template <class U>
  Counting(const Counting<U> &other) noexcept : budget_(other.budget()) {}
  [[nodiscard]] T *allocate(std::size_t count) {
    if (budget_->left == 0) throw std::bad_alloc();
    if (budget_->left > 0) --budget_->left;
    ++budget_->live;
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T *pointer, std::size_t count) noexcept {
    --budget_->live;
    std::allocator<T>().deallocate(pointer, count);
  }
  [[nodiscard]] Budget *budget() const noexcept { return budget_; }

 private:
  Budget *budget_;
};
using Allocator = Counting<std::byte>;

// Keys of a history lie close together, so that many steps meet records. As text: with equal prefixes and zero bytes, and empty.
template <class Key>
Key key_of(std::uint64_t number) {
  if constexpr (std::is_same_v<Key, std::string>) {
    if (number == 0) return {};
    std::string key(number % 3 == 0 ? "a common beginning " : "");
    key += std::to_string(number / 2);
    if (number % 2 == 1) key += '\0';
    return key;
  } else {
    return number;
  }
}

enum class Action { kInsert, kErase, kFind, kScan, kFailingInsert };
struct Step {
  Action action;
  std::uint64_t number;
  std::uint64_t other;
};
void showValue(const Step &step, std::ostream &out) {
  static const char *const kNames[] = {"insert", "erase", "find", "scan", "failing insert"};
  out << kNames[static_cast<int>(step.action)] << "(" << step.number << ", " << step.other << ")";
}
// Histories that mostly grow, then mostly shrink: nodes of every fill are split, emptied and freed.
rc::Gen<Step> any_step(std::size_t insert_weight, std::size_t erase_weight) {
  return rc::gen::construct<Step>(rc::gen::weightedElement<Action>({{insert_weight, Action::kInsert},
                                                                    {erase_weight, Action::kErase},
                                                                    {2, Action::kFind},
                                                                    {1, Action::kScan},
                                                                    {2, Action::kFailingInsert}}),
                                  rc::gen::inRange<std::uint64_t>(0, 400), rc::gen::inRange<std::uint64_t>(0, 400));
}

template <class Tree, class Key>
class Player {
 public:
  explicit Player(Budget *budget) : budget_(budget), tree_(Allocator(budget)) {}

  void play(const Step &step) {
    const Key key = key_of<Key>(step.number);
    const auto known = model_.find(key);
    switch (step.action) {
      case Action::kInsert:
        RC_ASSERT(tree_.insert(key, step.other) == model_.emplace(key, step.other).second);
        break;
      case Action::kErase:
        RC_ASSERT(tree_.erase(key) == (model_.erase(key) == 1));
        break;
      case Action::kFind: {
        const std::uint64_t *found = tree_.find(key);
        RC_ASSERT((found != nullptr) == (known != model_.end()));
        if (found != nullptr) RC_ASSERT(*found == known->second);
        break;
      }
      case Action::kScan:
        scan(key, key_of<Key>(step.other));
        break;
      case Action::kFailingInsert:
        budget_->left = static_cast<std::int64_t>(step.other % 4);
        try {
          if (tree_.insert(key, step.other)) model_.emplace(key, step.other);
        } catch (const std::bad_alloc &) {
          RC_ASSERT(known == model_.end());
        }
        budget_->left = -1;
        break;
    }
    const std::string broken = tree_.invariants();
    if (!broken.empty()) RC_FAIL(broken);
  }

  void compare_all() {
    auto expected = model_.begin();
    for (const auto &[key, value] : tree_) {
      RC_ASSERT(expected != model_.end());
      RC_ASSERT(Key(key) == expected->first);
      RC_ASSERT(value == expected->second);
      ++expected;
    }
    RC_ASSERT(expected == model_.end());
    RC_ASSERT(tree_.size() == model_.size());
    RC_ASSERT(tree_.empty() == model_.empty());
  }

 private:
  void scan(const Key &first, const Key &last) {
    auto expected = model_.lower_bound(first);
    const auto at = tree_.lower_bound(first);
    RC_ASSERT((at == tree_.end()) == (expected == model_.end()));
    if (expected != model_.end()) RC_ASSERT(Key((*at).key) == expected->first);
    tree_.scan(first, last, [&](const auto &key, const std::uint64_t &value) {
      RC_ASSERT(expected != model_.end());
      RC_ASSERT(Key(key) == expected->first);
      RC_ASSERT(value == expected->second);
      ++expected;
    });
    const bool was_all = expected == model_.end() || !(expected->first < last);  // RC_ASSERT would evaluate both sides
    RC_ASSERT(was_all);
  }

  Budget *budget_;
  Tree tree_;
  std::map<Key, std::uint64_t> model_;
};

template <class Tree, class Key>
void history_is_as_of_std_map() {
  const auto growing = *rc::gen::container<std::vector<Step>>(300, any_step(12, 3));
  const auto shrinking = *rc::gen::container<std::vector<Step>>(300, any_step(3, 12));
  Budget budget;
  {
    Player<Tree, Key> player(&budget);
    for (const Step &step : growing) player.play(step);
    player.compare_all();
    for (const Step &step : shrinking) player.play(step);
    player.compare_all();
    for (std::uint64_t number = 0; number < 400; ++number) player.play({Action::kErase, number, 0});
    player.compare_all();
    for (const Step &step : growing) player.play(step);
  }
  RC_ASSERT(budget.live == 0);
}

template <std::size_t kBlockBytes, ValuePlace kPlace>
using Numbers = BPlusTree<std::uint64_t, std::uint64_t, kBlockBytes, Allocator, kPlace>;
template <std::size_t kBlockBytes>
using Texts = BPlusTree<std::string_view, std::uint64_t, kBlockBytes, Allocator>;

// Blocks of 192 bytes: 4 levels of nodes with a handful of slots; of 4 KiB: the case in use.
RC_GTEST_PROP(BPlusTreeTest, NumbersInLeavesOf192Bytes, ()) {
  history_is_as_of_std_map<Numbers<192, ValuePlace::kInLeaf>, std::uint64_t>();
}
RC_GTEST_PROP(BPlusTreeTest, NumbersBesideLeavesOf256Bytes, ()) {
  history_is_as_of_std_map<Numbers<256, ValuePlace::kBeside>, std::uint64_t>();
}
RC_GTEST_PROP(BPlusTreeTest, NumbersInLeavesOf4KiB, ()) {
  history_is_as_of_std_map<Numbers<4096, ValuePlace::kInLeaf>, std::uint64_t>();
}
RC_GTEST_PROP(BPlusTreeTest, NumbersInLeavesOf16KiB, ()) {
  history_is_as_of_std_map<Numbers<16384, ValuePlace::kInLeaf>, std::uint64_t>();
}
RC_GTEST_PROP(BPlusTreeTest, TextsInLeavesOf256Bytes, ()) { history_is_as_of_std_map<Texts<256>, std::string>(); }
RC_GTEST_PROP(BPlusTreeTest, TextsInLeavesOf4KiB, ()) { history_is_as_of_std_map<Texts<4096>, std::string>(); }

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
    for (std::uint64_t number = 0; number < 500; ++number) tree.insert(key_of<std::string>(number), number);
    tree.clear();
    EXPECT_TRUE(tree.empty());
    EXPECT_EQ(budget.live, 1);
    EXPECT_TRUE(tree.insert("again", 1));
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
  leaf->order[5] = leaf->order[6];
  EXPECT_NE(tree.invariants(), "");
}

}  // namespace
}  // namespace trees
