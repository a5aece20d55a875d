// tests/itm_cache/cache_store_test.cpp -- the cache server's store against a model, and where its
// memory is short.
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "examples/itm/cache/store.h"
#include "examples/workloads/random.hpp"
#include "tests/support/seed.h"

namespace cache {

namespace {

using workloads::Random;

constexpr Seconds kStart = 1'000'000;
constexpr std::size_t kValueBytesMax = 1000;

OwnedStore store_of(std::size_t memory_mb, std::size_t buckets = 4) {
  return make_store({memory_mb << 20, buckets});
}

// One for all: the largest value takes a megabyte.
std::string &buffer_of_all() {
  static std::string buffer(kItemBytesMax, '\0');
  return buffer;
}

struct Value {
  std::string text;
  std::uint32_t flags;
  Seconds until;
  std::uint64_t cas;
};

// What the store should hold.
class Model {
 public:
  std::optional<Value> find(const std::string &key, Seconds now) {
    if (flush_at_ != kNever && flush_at_ <= now) {
      values_.clear();
      flush_at_ = kNever;
    }
    const auto found = values_.find(key);
    if (found == values_.end()) return {};
    if (found->second.until == kNever || found->second.until > now) return found->second;
    values_.erase(found);
    return {};
  }
  void set(const std::string &key, const Value &value) { values_[key] = value; }
  void erase(const std::string &key) { values_.erase(key); }
  void flush(Seconds at) { flush_at_ = at; }

 private:
  std::map<std::string, Value> values_;
  Seconds flush_at_ = kNever;
};

Status expected_put(const std::optional<Value> &old, const PutRequest &request) {
  if (!old) {
    if (request.is_compared || request.how == Put::kReplace) return Status::kNotFound;
    const bool joins = request.how == Put::kAppend || request.how == Put::kPrepend;
    return joins ? Status::kNotStored : Status::kOk;
  }
  if (request.how == Put::kAdd) return Status::kExists;
  if (request.is_compared && request.compared_cas != old->cas) return Status::kExists;
  return Status::kOk;
}

class Play {
 public:
  explicit Play(std::uint64_t seed) : random_(seed), store_(store_of(64)) {}

  void step() {
    if (random_.below(50) == 0) now_ += static_cast<Seconds>(random_.below(5));
    const std::string key =
        "key" + std::to_string(random_.below(3000)) + std::string(random_.below(2) * 30, '-');
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:
        put(key);
        break;
      case 3:
        count_one(key);
        break;
      case 4:
        remove_one(key);
        break;
      case 5:
        touch_one(key);
        break;
      default:
        get_one(key);
        break;
    }
    if (random_.below(20'000) == 0) flush_all();
  }

 private:
  Seconds some_end() {
    return random_.below(4) == 0 ? now_ + static_cast<Seconds>(random_.below(6)) : kNever;
  }

  void put(const std::string &key) {
    const std::string text = random_.below(3) == 0
                                 ? std::to_string(random_.next() >> random_.below(64))
                                 : std::string(random_.below(kValueBytesMax), 'a');
    const auto old = model_.find(key, now_);
    PutRequest request;
    request.how = static_cast<Put>(random_.below(5));
    request.is_compared = random_.below(4) == 0;
    request.compared_cas = old && random_.below(2) == 0 ? old->cas : 1;
    request.new_cas = ++last_cas_;
    request.flags = static_cast<std::uint32_t>(random_.next());
    request.until = some_end();
    request.value = text;
    const PutResult result = cache::put(*store_, make_key(key), now_, request);
    ASSERT_EQ(result.status, expected_put(old, request));
    if (random_.below(50) == 0) grow_table(*store_);
    if (result.grows && random_.below(2) == 0) move_buckets(*store_);
    if (result.status != Status::kOk) return;
    Value value{text, request.flags, request.until, request.new_cas};
    if (request.how == Put::kAppend) value = {old->text + text, old->flags, old->until, last_cas_};
    if (request.how == Put::kPrepend) value = {text + old->text, old->flags, old->until, last_cas_};
    model_.set(key, value);
  }

  void get_one(const std::string &key) {
    const auto expected = model_.find(key, now_);
    std::string &buffer = buffer_of_all();
    const Seconds until = some_end();
    const bool touches = random_.below(4) == 0;
    const Got got =
        get(*store_, make_key(key), now_, buffer.data(), buffer.size(), touches ? &until : nullptr);
    ASSERT_EQ(got.status, expected ? Status::kOk : Status::kNotFound);
    if (!expected) return;
    ASSERT_EQ(buffer.substr(0, got.value_bytes), expected->text);
    ASSERT_EQ(got.flags, expected->flags);
    ASSERT_EQ(got.cas, expected->cas);
    if (touches) model_.set(key, {expected->text, expected->flags, until, expected->cas});
  }

  void touch_one(const std::string &key) {
    const auto expected = model_.find(key, now_);
    const Seconds until = some_end();
    const Touched touched = touch(*store_, make_key(key), now_, until);
    ASSERT_EQ(touched.status, expected ? Status::kOk : Status::kNotFound);
    if (expected) model_.set(key, {expected->text, expected->flags, until, expected->cas});
  }

  void remove_one(const std::string &key) {
    const auto expected = model_.find(key, now_);
    const std::uint64_t cas = random_.below(2) == 0 ? 0 : 1;
    const Status status = remove(*store_, make_key(key), now_, cas);
    if (!expected) {
      ASSERT_EQ(status, Status::kNotFound);
      return;
    }
    ASSERT_EQ(status, cas == 0 || cas == expected->cas ? Status::kOk : Status::kExists);
    if (status == Status::kOk) model_.erase(key);
  }

  void count_one(const std::string &key) {
    const auto old = model_.find(key, now_);
    CountRequest request;
    request.is_down = random_.below(2) == 0;
    request.may_create = random_.below(2) == 0;
    request.delta = random_.next() >> random_.below(64);
    request.initial = random_.below(1000);
    request.until_if_created = some_end();
    request.new_cas = ++last_cas_;
    const Counted counted = count(*store_, make_key(key), now_, request);
    if (!old) {
      ASSERT_EQ(counted.status, request.may_create ? Status::kOk : Status::kNotFound);
      if (!request.may_create) return;
      ASSERT_TRUE(counted.was_created);
      const std::string text = std::to_string(request.initial);
      return model_.set(key, {text, 0, request.until_if_created, last_cas_});
    }
    const std::string digits = old->text.substr(0, old->text.find(' '));
    const bool is_number = !digits.empty() && old->text.size() <= 24 && digits.size() <= 20 &&
                           digits.find_first_not_of("0123456789") == std::string::npos &&
                           (digits.size() < 20 || digits <= "18446744073709551615");
    ASSERT_EQ(counted.status, is_number ? Status::kOk : Status::kNoNumber) << old->text;
    if (!is_number) return;
    std::uint64_t number = std::stoull(digits);
    if (!request.is_down)
      number += request.delta;
    else
      number = number < request.delta ? 0 : number - request.delta;
    ASSERT_EQ(counted.value, number);
    std::string text = std::to_string(number);
    if (text.size() < old->text.size()) text.resize(old->text.size(), ' ');
    model_.set(key, {text, old->flags, old->until, last_cas_});
  }

  void flush_all() {
    const Seconds at = now_ + static_cast<Seconds>(random_.below(4));
    flush(*store_, at, now_);
    model_.flush(at);
  }

  Random random_;
  OwnedStore store_;
  Model model_;
  Seconds now_ = kStart;
  std::uint64_t last_cas_ = 1;
};

Status set(Store &store, const std::string &key, std::size_t bytes, Seconds now,
           Seconds until = kNever) {
  const std::string value(bytes, 'v');
  PutRequest request;
  request.value = value;
  request.until = until;
  return put(store, make_key(key), now, request).status;
}
bool has(Store &store, const std::string &key, Seconds now) {
  std::string &buffer = buffer_of_all();
  return get(store, make_key(key), now, buffer.data(), buffer.size()).status == Status::kOk;
}
ClassFigures totals(Store &store) {
  ClassFigures sum{};
  for (unsigned i = 0; i < class_count(store); ++i) {
    const ClassFigures figures = class_figures(store, i);
    sum.pages += figures.pages;
    sum.items += figures.items;
    sum.evictions += figures.evictions;
    sum.reclaimed += figures.reclaimed;
    sum.out_of_memory += figures.out_of_memory;
    EXPECT_LE(figures.items, figures.pages * figures.chunks_per_page);
  }
  return sum;
}

}  // namespace

TEST(CacheStore, RandomOperationsDoWhatTheModelDoes) {
  Play play(tmh::test::seed());
  for (int i = 0; i < 100'000 && !testing::Test::HasFatalFailure(); ++i) play.step();
}

TEST(CacheStore, TheTableGrowsWhileItemsAreFound) {
  const OwnedStore store = store_of(16);
  constexpr int kItems = 20'000;
  for (int i = 0; i < kItems; ++i) {
    ASSERT_EQ(set(*store, std::to_string(i), 10, kStart), Status::kOk);
    if (i % 16 == 0) grow_table(*store);
    if (table_figures(*store).grows) move_buckets(*store);
    ASSERT_TRUE(has(*store, std::to_string(i / 2), kStart)) << i;
  }
  while (table_figures(*store).grows) move_buckets(*store);
  EXPECT_GE(table_figures(*store).buckets * 2, std::uint64_t{kItems});
  for (int i = 0; i < kItems; ++i) ASSERT_TRUE(has(*store, std::to_string(i), kStart)) << i;
}

TEST(CacheStore, TheItemUsedLongestAgoIsEvicted) {
  const OwnedStore store = store_of(1);
  constexpr std::size_t kBytes = 10'000;
  int items = 0;
  // Until the first eviction.
  for (; totals(*store).evictions == 0; ++items) {
    ASSERT_EQ(set(*store, std::to_string(items), kBytes, kStart), Status::kOk);
    // Used again when that counts: later than a minute.
    if (items == 50) {
      ASSERT_TRUE(has(*store, "0", kStart + kBumpSeconds));
    }
    ASSERT_LT(items, 1000);
  }
  EXPECT_TRUE(has(*store, "0", kStart));
  EXPECT_FALSE(has(*store, "1", kStart));
  for (int i = 2; i < items; ++i) EXPECT_TRUE(has(*store, std::to_string(i), kStart)) << i;
  EXPECT_EQ(totals(*store).pages, 1U);
}

TEST(CacheStore, MemoryStaysWithinItsLimitButForAClassWithoutAny) {
  const OwnedStore store = store_of(4);
  Random random(tmh::test::seed());
  for (int i = 0; i < 20'000; ++i)
    ASSERT_EQ(set(*store, std::to_string(i), random.below(100'000), kStart), Status::kOk);
  const ClassFigures sum = totals(*store);
  EXPECT_LE(sum.pages, 4U + class_count(*store));
  EXPECT_GT(sum.evictions, 0U);
  EXPECT_EQ(sum.out_of_memory, 0U);
}

TEST(CacheStore, AnItemThatIsGoneMakesRoomBeforeOneThatIsNot) {
  const OwnedStore store = store_of(1);
  constexpr std::size_t kBytes = 10'000;
  int items = 0;
  for (; totals(*store).items == static_cast<std::uint64_t>(items); ++items)
    ASSERT_EQ(set(*store, std::to_string(items), kBytes, kStart, items == 3 ? kStart + 1 : kNever),
              Status::kOk);
  // The last one evicted "0", the oldest; now "3" has expired.
  ASSERT_EQ(set(*store, "new", kBytes, kStart + 1), Status::kOk);
  EXPECT_EQ(totals(*store).reclaimed, 1U);
  EXPECT_TRUE(has(*store, "1", kStart + 1));
  EXPECT_FALSE(has(*store, "3", kStart + 1));
}

TEST(CacheStore, AValueThatGrowsIntoAFullClassEvictsThere) {
  const OwnedStore store = store_of(1);
  // Both values would end in one class, which has one chunk.
  ASSERT_EQ(set(*store, "large", 700'000, kStart), Status::kOk);
  ASSERT_EQ(set(*store, "small", 300'000, kStart), Status::kOk);
  const std::string more(400'000, 'm');
  PutRequest request;
  request.how = Put::kAppend;
  request.value = more;
  EXPECT_EQ(put(*store, make_key("small"), kStart, request).status, Status::kOk);
  EXPECT_FALSE(has(*store, "large", kStart));
  EXPECT_TRUE(has(*store, "small", kStart));
}

TEST(CacheStore, ASmallBufferIsRefusedBeforeAnythingIsDone) {
  const OwnedStore store = store_of(1);
  ASSERT_EQ(set(*store, "key", 100, kStart), Status::kOk);
  char buffer[99];
  const Seconds until = kStart - 1;
  const Got got = get(*store, make_key("key"), kStart, buffer, sizeof buffer, &until);
  EXPECT_EQ(got.status, Status::kNoRoom);
  EXPECT_EQ(got.value_bytes, 100U);
  EXPECT_TRUE(has(*store, "key", kStart));
}

}  // namespace cache
