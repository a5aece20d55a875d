// tests/support/tree_history.h -- random histories of a search tree, played beside std::map.
// Shape:     Player: a tree on a counting allocator, in memory from there, and the map that says
//            what each step must answer. After every step the tree's own invariants() must hold;
//            when an allocation fails, the tree is as before; in the end everything is given back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include <rapidcheck/gtest.h>

#include "tests/support/seed.h"

namespace tmh::test {

// Counts blocks, and fails when its budget is used up.
struct Budget {
  std::int64_t live = 0;
  std::int64_t left = -1;  // allocations that succeed; below 0: all
  void take() {
    if (left == 0) throw std::bad_alloc();
    if (left > 0) --left;
    ++live;
  }
  void give_back() noexcept { --live; }
};
template <class T>
class Counting {
 public:
  using value_type = T;
  explicit Counting(Budget *budget) noexcept : budget_(budget) {}
  template <class U>
  Counting(const Counting<U> &other) noexcept : budget_(other.budget()) {}
  [[nodiscard]] T *allocate(std::size_t count) {
    budget_->take();
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T *pointer, std::size_t count) noexcept {
    budget_->give_back();
    std::allocator<T>().deallocate(pointer, count);
  }
  [[nodiscard]] Budget *budget() const noexcept { return budget_; }

 private:
  Budget *budget_;
};
using Allocator = Counting<std::byte>;

// Keys of a history lie close together, so that many steps meet records. As text: with equal
// prefixes and zero bytes, and empty.
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

enum class Action { kInsert, kErase, kFind, kScan, kFailingInsert, kFailingErase };
struct Step {
  Action action;
  std::uint64_t number;
  std::uint64_t other;
};
inline void showValue(const Step &step, std::ostream &out) {
  static const char *const kNames[] = {"insert", "erase",          "find",
                                       "scan",   "failing insert", "failing erase"};
  out << kNames[static_cast<int>(step.action)] << "(" << step.number << ", " << step.other << ")";
}
// Histories that mostly grow, then mostly shrink: nodes of every fill are split, emptied and freed.
inline rc::Gen<Step> any_step(std::size_t insert_weight, std::size_t erase_weight) {
  return rc::gen::construct<Step>(
      rc::gen::weightedElement<Action>({{insert_weight, Action::kInsert},
                                        {erase_weight, Action::kErase},
                                        {2, Action::kFind},
                                        {1, Action::kScan},
                                        {2, Action::kFailingInsert},
                                        {1, Action::kFailingErase}}),
      rc::gen::inRange<std::uint64_t>(0, 400), rc::gen::inRange<std::uint64_t>(0, 400));
}

template <class Tree, class Key>
class Player {
 public:
  explicit Player(Budget *budget)
      : budget_(budget), memory_(TreeAllocator(budget)), tree_(*memory_.allocate(1)) {
    ::new (static_cast<void *>(&tree_)) Tree(TreeAllocator(budget));
  }
  ~Player() {
    std::destroy_at(&tree_);
    memory_.deallocate(&tree_, 1);
  }
  Player(const Player &) = delete;
  Player &operator=(const Player &) = delete;

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
        const auto *found = tree_.find(key);
        RC_ASSERT((found != nullptr) == (known != model_.end()));
        if (found != nullptr) RC_ASSERT(*found == known->second);
        break;
      }
      case Action::kScan:
        scan(key, key_of<Key>(step.other));
        break;
      case Action::kFailingInsert:
        with_failures(
            step, [&] { return tree_.insert(key, step.other); }, known == model_.end());
        break;
      case Action::kFailingErase:
        with_failures(
            step, [&] { return tree_.erase(key); }, known != model_.end());
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
  using TreeAllocator = typename Tree::allocator_type;

  // The change happens, or its allocation fails and nothing does; `is_due`: std::map would do it.
  template <class Change>
  void with_failures(const Step &step, const Change &change, bool is_due) {
    const Key key = key_of<Key>(step.number);
    budget_->left = static_cast<std::int64_t>(step.other % 4);
    bool is_done = false;
    try {
      is_done = change();
      RC_ASSERT(is_done == is_due);
    } catch (const std::bad_alloc &) {
      RC_ASSERT(is_due);
    }
    budget_->left = -1;
    if (!is_done) return;
    if (step.action == Action::kFailingInsert)
      model_.emplace(key, step.other);
    else
      model_.erase(key);
  }
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
    // RC_ASSERT would evaluate both sides
    const bool was_all = expected == model_.end() || !(expected->first < last);
    RC_ASSERT(was_all);
  }

  Budget *budget_;
  typename std::allocator_traits<TreeAllocator>::template rebind_alloc<Tree> memory_;
  Tree &tree_;
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

// Reads a tree of `number` records in every way, and clears it: each call in `ends`, which has it
// end in the middle first.
template <class Tree, class Ends>
void read_and_clear_between(Tree *tree, std::uint64_t number, const Ends &ends) {
  ends([&] { EXPECT_NE(tree->find(number / 2 * 2), nullptr); });
  ends([&] {
    std::uint64_t sum = 0;
    for (const auto &[key, value] : *tree) sum += key + value;
    tree->scan(3, number, [&](std::uint64_t key, std::uint64_t) { sum += key; });
    EXPECT_NE(tree->lower_bound(1), tree->end());
    EXPECT_GT(sum, tree->size());
  });
  ends([&] { EXPECT_EQ(tree->invariants(), ""); });
  ends([&] { tree->clear(); });
  EXPECT_EQ(tree->size(), number);
}

}  // namespace tmh::test
