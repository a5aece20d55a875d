// tests/itm/pages_log_test.cpp -- chunks of the log of method pages, when holders of the commit
// lock die, and when the log forgets all.
// Invariants: (1) what a dead holder has reserved is free again, however often. (2) entries that
//             were published stay what they are. (3) a log that forgets all has all its chunks.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <memory>

#include "levels/process/log.h"

namespace tmh::itm::pages {

namespace {
std::uint64_t test_pin = kOutside;
constexpr std::size_t kGuardBytes = 1u << 20;
}  // namespace

// A chunk too many is a fault.
void *reserve_shared(std::size_t bytes) noexcept {
  void *const memory = mmap(nullptr, bytes + kGuardBytes, PROT_NONE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
  return memory;
}
std::uint64_t least_pin() noexcept { return test_pin; }

}  // namespace tmh::itm::pages

namespace tmh::test {
namespace {

using namespace itm::pages;

class PagesLog : public testing::Test {
 protected:
  static constexpr std::uint32_t kLarge = 400u << 10, kSmall = 4136;

  PagesLog() {
    control = control_.get();
    page_states = &page_;
    test_pin = kOutside;
    EXPECT_TRUE(Log::start());
  }
  static Entry *reserve(std::uint32_t bytes, std::uint64_t stamp) {
    Entry *const entry = Log::reserve(bytes);
    *entry = {};
    entry->stamp = stamp;
    entry->size = bytes;
    entry->kind = EntryKind::kImage;
    return entry;
  }
  void publish(std::uint32_t bytes) {
    reserve(bytes, ++stamp_);
    Log::publish(stamp_, true);
  }
  [[nodiscard]] static const Entry &newest() { return *Log::at(page_.newest.load() & ~kBits); }

  std::uint64_t stamp_ = 0;

  static inline PageState page_;

 private:
  std::unique_ptr<Control> control_ = std::make_unique<Control>();
};

TEST_F(PagesLog, WhatADeadHolderHadReservedIsFreeAgain) {
  for (int i = 0; i < 3000; ++i) {
    publish(kSmall);
    for (int each = 0; each < 3; ++each) reserve(kLarge, stamp_ + 1);  // the next chunk, too
    const std::uint64_t stamp = newest().stamp;
    Log::repair();
    ASSERT_EQ(newest().stamp, stamp);
    ASSERT_EQ(stamp, stamp_);
  }
}

TEST_F(PagesLog, EntriesThatAPinNeedsStayWhenHoldersDie) {
  test_pin = 0;
  publish(kSmall);
  const Position first = page_.newest.load() & ~kBits;
  for (int i = 0; i < 300; ++i) {
    publish(kLarge);
    for (int each = 0; each < 8; ++each) reserve(kLarge, stamp_ + 1);
    Log::repair();
    ASSERT_EQ(Log::at(first)->stamp, 1U);
    ASSERT_EQ(newest().stamp, stamp_);
  }
}

TEST_F(PagesLog, WhatIsForgottenIsFreeAgain) {
  test_pin = 0;  // the log keeps all
  for (int i = 0; i < 20; ++i) {
    for (int each = 0; each < 400; ++each) publish(kLarge);
    ASSERT_EQ(newest().stamp, stamp_);
    Log::forget_all(++stamp_);
  }
}

}  // namespace
}  // namespace tmh::test
