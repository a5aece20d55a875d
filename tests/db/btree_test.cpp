// tests/db/btree_test.cpp -- the tree's pages: links, high keys, what fills them, and what becomes
// of empty ones.
#include "compat/libdb/btree.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "compat/libdb/calls.h"
#include "compat/libdb/failure.h"
#include "compat/libdb/found.h"
#include "compat/libdb/items.h"
#include "compat/libdb/page.h"
#include "compat/libdb/private_store.h"
#include "compat/libdb/slots.h"
#include "compat/libdb/tree_check.h"
#include "compat/libdb/user_order.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

using db::Bytes;
using db::Found;
using db::PrivateStore;
using db::Put;

Bytes bytes_of(const std::string &text) {
  return {reinterpret_cast<const std::byte *>(text.data()), text.size()};
}
// In the order of the numbers.
std::string key_of(std::uint32_t number) {
  std::string key = std::to_string(number);
  return std::string(10 - key.size(), '0') + key;
}

class TreeRig {
 public:
  TreeRig(bool has_duplicates, std::uint32_t page_bytes)
      : has_duplicates_(has_duplicates),
        store_([&] {
          db::StoreSettings settings;
          settings.flags = O_RDWR;
          settings.page_bytes = page_bytes;
          settings.is_sound = [](const db::Page &page) { return db::Items::is_sound(page); };
          return settings;
        }()),
        order_(nullptr, nullptr, &calls_),
        tree_(&store_, &order_, {has_duplicates, 2}) {
    db::make_root(&store_);
  }
  bool put(const std::string &key, const std::string &data) {
    begin_operation();
    return tree_.put(bytes_of(key), bytes_of(data), Put::kAny) == Found::kYes;
  }
  bool erase(const std::string &key) {
    begin_operation();
    return tree_.erase(bytes_of(key)) == Found::kYes;
  }
  void expect_sound() {
    begin_operation();
    const char *const wrong = db::TreeCheck(&store_, &order_, {has_duplicates_, 2}).run();
    ASSERT_EQ(wrong, nullptr) << wrong;
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return std::uint64_t{store_.page_end()} * store_.page_bytes();
  }
  PrivateStore &store() { return store_; }
  void begin_operation() {
    (void)store_.run(
        false, [] { return 0; }, [] {});
  }

 private:
  db::Calls calls_;
  const bool has_duplicates_;
  PrivateStore store_;
  db::UserOrder order_;
  db::Btree tree_;
};

TEST(BtreeTest, LinksHighKeysAndOrderHold) {
  std::mt19937_64 random(seed());
  for (const bool has_duplicates : {false, true}) {
    TreeRig tree(has_duplicates, 512);
    for (int i = 0; i < 4000; ++i) {
      const std::string key(1 + random() % 3 + (random() % 40 == 0 ? 300 : 0),
                            static_cast<char>('a' + random() % 26));
      const bool grows = i / 500 % 2 == 0;
      if (random() % 4 != (grows ? 0U : 1U)) {
        if (grows) {
          tree.put(key, std::string(random() % 200, 'd'));
        } else {
          (void)tree.erase(key);
        }
      }
      if (i % 100 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(tree.expect_sound());
    }
  }
}

TEST(BtreeTest, LoadsInOrderLeaveFullPages) {
  constexpr std::uint32_t kRecords = 20'000;
  for (const bool is_rising : {true, false}) {
    TreeRig tree(false, 4096);
    for (std::uint32_t i = 0; i < kRecords; ++i)
      tree.put(key_of(is_rising ? i : kRecords - i), std::string(30, 'd'));
    tree.expect_sound();
    // 10 of the key, 30 of the data, 6 of slot and item.
    EXPECT_LT(tree.bytes(), kRecords * 46 * 1.1) << is_rising;
  }
}

TEST(BtreeTest, PagesOfWhatIsErasedAreUsedAgain) {
  TreeRig tree(false, 512);
  std::uint64_t most = 0;
  for (std::uint32_t round = 0; round < 6; ++round) {
    for (std::uint32_t i = 0; i < 2'000; ++i) tree.put(key_of(i * 7 % 2'000), std::string(90, 'd'));
    tree.expect_sound();
    if (round == 0) most = tree.bytes();
    for (std::uint32_t i = 0; i < 2'000; ++i) EXPECT_TRUE(tree.erase(key_of(i * 3 % 2'000)));
    tree.expect_sound();
    EXPECT_LE(tree.bytes(), most);
  }
  // A queue: what comes at one end goes at the other.
  for (std::uint32_t i = 0; i < 30'000; ++i) {
    tree.put(key_of(i), std::string(90, 'd'));
    if (i < 500) continue;
    EXPECT_TRUE(tree.erase(key_of(i - 500)));
  }
  tree.expect_sound();
  EXPECT_LE(tree.bytes(), most);
}

// A page that leads nowhere good is named.
TEST(BtreeTest, WhatIsWrongIsFound) {
  TreeRig tree(false, 512);
  for (std::uint32_t i = 0; i < 500; ++i) tree.put(key_of(i), std::string(30, 'd'));
  tree.expect_sound();
  std::uint32_t found = 0, changed = 0;
  for (db::PageId id = 1; id < tree.store().page_end(); ++id) {
    tree.begin_operation();
    db::Slots slots(tree.store().write(id));
    const db::PageId before = slots.right();
    slots.set_right(before + 1);
    ++changed;
    try {
      db::Calls calls;
      db::UserOrder order(nullptr, nullptr, &calls);
      db::TreeCheck again(&tree.store(), &order, {false, 2});
      if (again.run() != nullptr) ++found;
    } catch (const db::Failure &) {
      ++found;
    }
    slots.set_right(before);
  }
  EXPECT_EQ(found, changed);
  tree.expect_sound();
}

}  // namespace
}  // namespace tmh::test
