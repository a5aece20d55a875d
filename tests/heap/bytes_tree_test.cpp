// tests/heap/bytes_tree_test.cpp -- keys and values of any length in tmh/trees/bptree.hpp, on the
// ordinary heap, against std::map.
// Invariants, for plain words, for tmh::field outside of instances, and for words that nothing but
// their Field can access; for blocks of several sizes:
//   (1) after every step of a random history insert, assign, erase, find, lower_bound, last,
//       before and scan answer as std::map does; after each batch of steps iteration does, and
//       invariants() holds. Keys share prefixes, have zero bytes, are empty or of 10 kB; values
//       are empty, or up to 100 kB.
//   (2) when an allocation fails, the tree is as before, and nothing leaks.
//   (3) where an access throws what is no std::exception, every call lets it pass.
//   (4) no call reads or writes beyond a block, a key, a value, or where it copies to.
//   (5) keys that differ in their first sixteen bytes are compared without a look at their blocks.
//   (6) invariants() finds planted faults (the checker can fail).
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <tmh/field.hpp>
#include <tmh/trees/bptree.hpp>

#include "tests/support/guarded_field.h"
#include "tests/support/seed.h"
#include "tests/support/tree_history.h"

namespace tmh::test {
namespace {

using BytesModel = std::map<std::string, std::string>;
using Random = std::mt19937_64;

template <std::size_t kBlockBytes>
using PlainBytes = trees::BytesTree<Allocator, trees::PlainField, kBlockBytes>;
template <std::size_t kBlockBytes>
using FieldBytes = trees::BytesTree<Allocator, field, kBlockBytes>;
template <std::size_t kBlockBytes>
using GuardedBytes = trees::BytesTree<GuardedAllocator<std::byte>, GuardedField, kBlockBytes>;

// Close together, so that many steps meet records.
std::string any_key(Random &random) {
  const std::uint64_t number = random() % 120;
  switch (random() % 8) {
    case 0:
      return std::string(number % 20, '\0');
    case 1:  // ends around a word's end
      return std::string("abcdefghijklmnopqrstuvwxyz").substr(0, number % 3 * 8 + 6 + number % 5) +
             std::string(number / 40, '\0');
    case 2:  // as long as a prefix, or longer by little
      return "1234567890123" + std::to_string(number * number);
    case 3:
      return std::string(16, '3') + std::string(number % 4, '\0') + std::to_string(number / 30);
    case 4:
      return std::string(1, static_cast<char>(number * 2));
    case 5:
      if (number > 30) return std::to_string(number);
      return std::string(10'000 + number % 10, 'x') + static_cast<char>('a' + number % 3);
    default:
      return "key " + std::to_string(number);
  }
}
std::string any_value(Random &random) {
  const std::uint64_t kind = random() % 64;
  std::size_t bytes = random() % 40;
  if (kind == 0) bytes = 100'000 + bytes;
  if (kind < 8) bytes = 0;
  std::string value(bytes, '\0');
  for (char &each : value) each = static_cast<char>(random());
  return value;
}

// A tree in memory of its allocator, and what it must hold.
template <class Tree>
class BytesPlayer {
 public:
  explicit BytesPlayer(Budget *budget)
      : budget_(budget), memory_(TreeAllocator(budget)), tree_(memory_.allocate(1)) {
    ::new (static_cast<void *>(tree_)) Tree(TreeAllocator(budget));
  }
  ~BytesPlayer() {
    std::destroy_at(tree_);
    memory_.deallocate(tree_, 1);
  }
  BytesPlayer(const BytesPlayer &) = delete;
  BytesPlayer &operator=(const BytesPlayer &) = delete;

  // growth: of 16 changes, so many insert or assign.
  void step(Random &random, std::uint64_t growth) {
    const std::string key = any_key(random);
    const auto known = model_.find(key);
    if (random() % 16 >= growth) {
      ASSERT_EQ(tree_->erase(key), model_.erase(key) == 1);
      return;
    }
    std::string value = any_value(random);
    // What keeps the number of words, or all but the last byte, comes up too seldom by chance.
    if (known != model_.end() && random() % 2 == 0) {
      value = known->second;
      for (char &each : value) each = static_cast<char>(random());
      if (random() % 2 == 0 && value.size() % 8 > 1) value.pop_back();
    }
    if (random() % 3 == 0) return fail_then_assign(random, key, value);
    if (random() % 3 == 0) {
      ASSERT_EQ(tree_->insert(key, value), model_.emplace(key, value).second);
    } else {
      ASSERT_EQ(tree_->assign(key, value), known == model_.end());
      model_[key] = value;
    }
  }
  void ask(const std::string &key, const std::string &other) const {
    const auto known = model_.find(key);
    const auto *const record = tree_->find(key);
    ASSERT_EQ(record != nullptr, known != model_.end());
    if (record != nullptr) expect_record(*record, *known);
    const auto behind = model_.lower_bound(key);
    expect_at(tree_->lower_bound(key), behind);
    expect_at(tree_->before(key), behind == model_.begin() ? model_.end() : std::prev(behind));
    expect_at(tree_->last(), model_.empty() ? model_.end() : std::prev(model_.end()));
    auto expected = behind;
    tree_->scan(key, other, [&](const auto &each) {
      ASSERT_NE(expected, model_.end());
      ASSERT_LT(expected->first, other);
      expect_record(each, *expected++);
    });
    ASSERT_TRUE(expected == model_.end() || expected->first >= other);
  }
  void compare_all() const {
    ASSERT_EQ(tree_->invariants(), "");
    auto expected = model_.begin();
    for (const auto &record : *tree_) {
      ASSERT_NE(expected, model_.end());
      expect_record(record, *expected++);
    }
    ASSERT_EQ(expected, model_.end());
    ASSERT_EQ(tree_->size(), model_.size());
    ASSERT_EQ(tree_->empty(), model_.empty());
  }
  void erase_all() {
    for (const auto &[key, value] : model_) ASSERT_TRUE(tree_->erase(key));
    model_.clear();
  }
  [[nodiscard]] std::int64_t failures() const { return failures_; }

 private:
  using TreeAllocator = typename Tree::allocator_type;

  // The n-th allocation fails, for every n that there is.
  void fail_then_assign(Random &random, const std::string &key, const std::string &value) {
    const bool inserts = random() % 2 == 0;
    const bool is_there = model_.contains(key);
    for (std::int64_t allocations = 0;; ++allocations) {
      const std::int64_t live = budget_->live;
      budget_->left = allocations;
      try {
        ASSERT_EQ(inserts ? tree_->insert(key, value) : tree_->assign(key, value), !is_there);
        budget_->left = -1;
        break;
      } catch (const std::bad_alloc &) {
        budget_->left = -1;
        ++failures_;
        ASSERT_EQ(budget_->live, live);
        const auto *const record = tree_->find(key);
        ASSERT_EQ(record != nullptr, is_there);
        if (record != nullptr) expect_record(*record, *model_.find(key));
        if (failures_ % 8 == 0) compare_all();
      }
    }
    if (inserts)
      model_.emplace(key, value);
    else
      model_[key] = value;
  }
  template <class Record>
  static void expect_record(const Record &record, const BytesModel::value_type &expected) {
    ASSERT_EQ(record.key_size(), expected.first.size());
    ASSERT_EQ(record.size(), expected.second.size());
    // EXPECT_EQ would print them
    ASSERT_TRUE(record.key() == expected.first);
    ASSERT_TRUE(record.value() == expected.second);
  }
  template <class Iterator>
  void expect_at(Iterator found, BytesModel::const_iterator expected) const {
    ASSERT_EQ(found == tree_->end(), expected == model_.end());
    if (expected != model_.end()) expect_record(*found, *expected);
  }

  Budget *budget_;
  typename std::allocator_traits<TreeAllocator>::template rebind_alloc<Tree> memory_;
  Tree *tree_;
  BytesModel model_;
  std::int64_t failures_ = 0;
};

template <class Tree>
void bytes_history_is_as_of_std_map() {
  constexpr int kBatches = 120, kSteps = 60;
  Random random(seed());
  Budget budget;
  {
    BytesPlayer<Tree> player(&budget);
    for (int batch = 0; batch < kBatches; ++batch) {
      for (int step = 0; step < kSteps; ++step) {
        player.step(random, batch % 10 < 6 ? 13 : 4);
        player.ask(any_key(random), any_key(random));
        ASSERT_FALSE(testing::Test::HasFailure()) << "batch " << batch << ", step " << step;
      }
      player.compare_all();
      ASSERT_FALSE(testing::Test::HasFailure()) << "batch " << batch;
    }
    EXPECT_GT(player.failures(), 100);
    player.erase_all();
    player.compare_all();
    for (int step = 0; step < kSteps; ++step) player.step(random, 16);
  }
  EXPECT_EQ(budget.live, 0);
}

TEST(BytesTree, PlainInBlocksOf192Bytes) { bytes_history_is_as_of_std_map<PlainBytes<192>>(); }
TEST(BytesTree, PlainInBlocksOf4KiB) { bytes_history_is_as_of_std_map<PlainBytes<4096>>(); }
TEST(BytesTree, FieldsInBlocksOf192Bytes) { bytes_history_is_as_of_std_map<FieldBytes<192>>(); }
TEST(BytesTree, FieldsInBlocksOf4KiB) { bytes_history_is_as_of_std_map<FieldBytes<4096>>(); }
TEST(BytesTree, GuardedInBlocksOf192Bytes) { bytes_history_is_as_of_std_map<GuardedBytes<192>>(); }
TEST(BytesTree, GuardedInBlocksOf1KiB) { bytes_history_is_as_of_std_map<GuardedBytes<1024>>(); }

// Keys of any length beside values of other kinds.
TEST(BytesTree, KeysOfAnyLengthHaveValuesInSlotsAndBesideThem) {
  Budget budget;
  using InSlots =
      trees::BPlusTree<std::string_view, std::uint64_t, 192, GuardedAllocator<std::byte>,
                       trees::ValuePlace::kInSlot, GuardedField>;
  using Beside = trees::BPlusTree<std::string_view, GuardedValue, 256, GuardedAllocator<std::byte>,
                                  trees::ValuePlace::kBeside, GuardedField>;
  const auto play = [&]<class Tree>(Tree *) {
    const GuardedAllocator<std::byte> allocator(&budget);
    GuardedAllocator<Tree> memory(allocator);
    Tree *const tree = ::new (static_cast<void *>(memory.allocate(1))) Tree(allocator);
    std::map<std::string, std::uint64_t> model;
    Random random(seed());
    for (std::uint64_t number = 0; number < 1500; ++number) {
      const std::string key = any_key(random);
      if (random() % 3 == 0) {
        EXPECT_EQ(tree->erase(key), model.erase(key) == 1);
      } else {
        EXPECT_EQ(tree->assign(key, number), !model.contains(key));
        model[key] = number;
      }
    }
    EXPECT_EQ(tree->invariants(), "");
    auto expected = model.begin();
    for (const auto &[key, value] : *tree) {
      ASSERT_NE(expected, model.end());
      EXPECT_TRUE(key == expected->first);
      EXPECT_EQ(std::uint64_t{value}, expected->second);
      ++expected;
    }
    EXPECT_EQ(expected, model.end());
    tree->clear();
    std::destroy_at(tree);
    memory.deallocate(tree, 1);
    EXPECT_EQ(budget.live, 0);
  };
  play(static_cast<InSlots *>(nullptr));
  play(static_cast<Beside *>(nullptr));
}

TEST(BytesTree, AnAttemptMayEndAtEveryAccess) {
  using Tree = GuardedBytes<192>;
  Budget budget;
  GuardedAllocator<std::byte> allocator(&budget);
  Tree *const tree =
      ::new (static_cast<void *>(GuardedAllocator<Tree>(allocator).allocate(1))) Tree(allocator);
  const auto key_at = [](std::uint64_t number) {
    std::string digits = std::to_string(number);
    return "a shared beginning " + std::string(4 - digits.size(), '0') + digits;
  };
  std::uint64_t number = 0;
  for (; tree->height() < 2; ++number) tree->insert(key_at(number * 2), std::to_string(number));
  const Budget before = budget;
  const auto ends = [&](const auto &action) {
    ends_at_every_access(action, [&] { budget = before; });
  };
  for (std::uint64_t key = 1; key < number; key += 2)
    ends([&] { EXPECT_TRUE(tree->insert(key_at(key), "a value of several words")); });
  ends([&] { EXPECT_FALSE(tree->assign(key_at(2), "5")); });
  ends([&] { EXPECT_FALSE(tree->assign(key_at(2), "not where the other one was")); });
  ends([&] { EXPECT_EQ(tree->find(key_at(2))->value(), "1"); });
  ends([&] {
    EXPECT_EQ((*tree->last()).key(), key_at(number * 2 - 2));
    EXPECT_EQ((*tree->before(key_at(6))).key(), key_at(4));
    std::size_t bytes = 0;
    for (const auto &record : *tree) bytes += record.size();
    EXPECT_GT(bytes, number);
  });
  ends([&] { EXPECT_EQ(tree->invariants(), ""); });
  ends([&] {
    for (std::uint64_t key = 0; key < number; ++key) EXPECT_TRUE(tree->erase(key_at(key * 2)));
  });
  ends([&] { tree->clear(); });
  tree->clear();
  std::destroy_at(tree);
  GuardedAllocator<Tree>(allocator).deallocate(tree, 1);
  EXPECT_EQ(budget.live, 0);
}

TEST(BytesTree, ABlockIsKeptAsLongAsTheWordsStay) {
  trees::BytesTree<> tree;
  EXPECT_TRUE(tree.assign("key", "12345678"));
  const auto *const record = tree.find("key");
  for (const char *const value : {"8", "1234567", "abcdefgh"}) {
    EXPECT_FALSE(tree.assign("key", value));
    EXPECT_EQ(tree.find("key"), record);
    EXPECT_EQ(record->value(), value);
    EXPECT_EQ(tree.invariants(), "") << "zeros behind the value";
  }
  EXPECT_FALSE(tree.insert("key", "another"));
  EXPECT_EQ(record->value(), "abcdefgh");
  EXPECT_FALSE(tree.assign("key", "123456789"));
  EXPECT_EQ(tree.find("key")->value(), "123456789");
  EXPECT_FALSE(tree.assign("key", ""));
  EXPECT_EQ(tree.find("key")->size(), 0U);
}

TEST(BytesTree, WhatIsTooLongIsRefusedAndChangesNothing) {
  trees::BytesTree<> tree;
  const std::string_view too_long("sixteen bytes, ...",
                                  std::size_t{1} << 32);  // its prefix is read
  EXPECT_THROW(tree.insert(too_long, ""), std::length_error);
  EXPECT_THROW(tree.insert("key", too_long), std::length_error);
  EXPECT_TRUE(tree.empty());
  EXPECT_TRUE(tree.insert("key", "value"));
  EXPECT_THROW(tree.assign("key", too_long), std::length_error);
  EXPECT_THROW(tree.assign(too_long, "value"), std::length_error);
  EXPECT_EQ(tree.find(too_long), nullptr);
  EXPECT_FALSE(tree.erase(too_long));
  EXPECT_EQ(tree.find("key")->value(), "value");
  EXPECT_EQ(tree.size(), 1U);
}

// Memory whose first byte behind the end is a fault.
class Fenced {
 public:
  explicit Fenced(std::size_t bytes) : mapped_((bytes + kPage - 1) / kPage * kPage + kPage) {
    void *const memory =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<char *>(memory);
    if (mprotect(begin_ + mapped_ - kPage, kPage, PROT_NONE) != 0) throw std::bad_alloc();
    data_ = begin_ + mapped_ - kPage - bytes;
  }
  ~Fenced() { munmap(begin_, mapped_); }
  Fenced(const Fenced &) = delete;
  Fenced &operator=(const Fenced &) = delete;
  [[nodiscard]] char *data() const noexcept { return data_; }

 private:
  static constexpr std::size_t kPage = 4096;
  std::size_t mapped_;
  char *begin_ = nullptr, *data_ = nullptr;
};
class FencedText : public Fenced {
 public:
  explicit FencedText(std::string_view text) : Fenced(text.size()), size_(text.size()) {
    std::copy(text.begin(), text.end(), data());
  }
  [[nodiscard]] std::string_view view() const noexcept { return {data(), size_}; }

 private:
  std::size_t size_;
};
template <class T>
class FencedAllocator {
 public:
  using value_type = T;
  FencedAllocator() = default;
  template <class U>
  FencedAllocator(const FencedAllocator<U> &) noexcept {}
  [[nodiscard]] T *allocate(std::size_t count) {
    auto block = std::make_unique<Fenced>(count * sizeof(T));
    void *const memory = block->data();
    blocks()[memory] = std::move(block);
    return static_cast<T *>(memory);
  }
  void deallocate(T *pointer, std::size_t) { blocks().erase(pointer); }

 private:
  static std::map<void *, std::unique_ptr<Fenced>> &blocks() {
    static std::map<void *, std::unique_ptr<Fenced>> all;
    return all;
  }
};

TEST(BytesTree, NothingIsAccessedBeyondAnEnd) {
  trees::BytesTree<FencedAllocator<std::byte>, field, 192> tree;
  BytesModel model;
  Random random(seed());
  for (int step = 0; step < 600; ++step) {
    const std::string key = any_key(random), value = any_value(random);
    tree.assign(FencedText(key).view(), FencedText(value).view());
    model[key] = value;
    if (step % 4 != 0) continue;
    const std::string other = any_key(random);
    EXPECT_EQ(tree.erase(FencedText(other).view()), model.erase(other) == 1);
  }
  for (const auto &[key, value] : model) {
    const auto *const record = tree.find(FencedText(key).view());
    ASSERT_NE(record, nullptr);
    const Fenced key_copy(record->key_size()), copy(record->size());
    record->copy_key(key_copy.data());
    record->copy(copy.data());
    EXPECT_TRUE(std::string_view(key_copy.data(), record->key_size()) == key);
    EXPECT_TRUE(std::string_view(copy.data(), record->size()) == value);
  }
  EXPECT_EQ(tree.invariants(), "");
}

// The word of the order and a prefix of two words, for each of the keys compared; then the block of
// the key itself. More is a constant.
TEST(BytesTree, KeysThatDifferEarlyAreComparedByTheirPrefixes) {
  using Tree = GuardedBytes<4096>;
  Budget budget;
  GuardedAllocator<std::byte> allocator(&budget);
  GuardedAllocator<Tree> memory(allocator);
  Tree *const tree = ::new (static_cast<void *>(memory.allocate(1))) Tree(allocator);
  constexpr std::uint64_t kRecords = 128, kCompared = 8, kConstant = 12;
  for (std::uint64_t number = 0; number < kRecords; ++number)
    tree->insert("a common " + std::to_string(1000 + number) + " and more", "");
  ASSERT_EQ(tree->height(), 0U);
  for (std::uint64_t number = 0; number < kRecords; ++number) {
    const std::uint64_t before = GuardedMemory::here().accesses();
    EXPECT_NE(tree->find("a common " + std::to_string(1000 + number) + " and more"), nullptr);
    EXPECT_LE(GuardedMemory::here().accesses() - before, 3 * kCompared + kConstant);
  }
  std::destroy_at(tree);
  memory.deallocate(tree, 1);
}

TEST(BytesTree, InvariantsFindAForeignPrefixAndWhatLiesBehindAnEnd) {
  trees::BytesTree<> tree;
  for (int number = 0; number < 100; ++number)
    tree.insert("key " + std::to_string(100 + number), "value");
  ASSERT_EQ(tree.invariants(), "");
  auto &slot = tree.first()->at(3);
  ++slot.key.prefix[0];
  EXPECT_NE(tree.invariants(), "");
  --slot.key.prefix[0];
  ASSERT_EQ(tree.invariants(), "");
  auto *const words = reinterpret_cast<std::uint64_t *>(slot.key.block);
  words[2] ^= std::uint64_t{1} << 63;  // "value" ends before
  EXPECT_NE(tree.invariants(), "");
  words[2] ^= std::uint64_t{1} << 63;
  words[1] ^= std::uint64_t{1} << 63;  // "key 103" ends before
  EXPECT_NE(tree.invariants(), "");
  words[1] ^= std::uint64_t{1} << 63;
  EXPECT_EQ(tree.invariants(), "");
}

}  // namespace
}  // namespace tmh::test
