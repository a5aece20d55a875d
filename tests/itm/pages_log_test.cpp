// tests/itm/pages_log_test.cpp -- chunks of the log of method pages: what is forgotten, or was only
// reserved by a task that died, is used again, and what a pin needs stays.
// Invariant: the log never needs a chunk more than it has; entries from the tail on keep their
//            stamps.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <deque>
#include <utility>

#include "compat/libitm/pages/log.h"

namespace tmh::itm::pages {

// The log's surroundings: no task is inside.
std::uint64_t least_pin() noexcept { return kOutside; }
void *Memory::map_shared(std::size_t bytes) noexcept {
  void *const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

namespace {

// Two of them are all that a chunk has room for, and do not fill it.
constexpr std::uint32_t kLarge = Log::kChunkBytes / 2 - 4096;
constexpr std::uint64_t kLogBytes = 1024 * Log::kChunkBytes;

class PagesLog : public testing::Test {
 protected:
  void SetUp() override {
    control = static_cast<Control *>(Memory::map_shared(sizeof(Control)));
    page_states = static_cast<PageState *>(Memory::map_shared(sizeof(PageState)));
    ASSERT_TRUE(control != nullptr && page_states != nullptr && Log::start());
    begin_ = reinterpret_cast<std::byte *>(Log::at(64)) - 64;
  }
  void TearDown() override {
    munmap(begin_, kLogBytes + Log::kChunkBytes);
    munmap(page_states, sizeof(PageState));
    munmap(control, sizeof(Control));
  }

  [[nodiscard]] static std::uint64_t next_stamp() { return control->clock.load() + 1; }

  // An entry of a page's image, which home takes no part in.
  void reserve() {
    Entry *const entry = Log::reserve(kLarge);
    ASSERT_LE(reinterpret_cast<std::byte *>(entry) - begin_,
              static_cast<std::ptrdiff_t>(kLogBytes - kLarge));
    *entry = {};
    entry->stamp = next_stamp();
    entry->size = kLarge;
    entry->kind = EntryKind::kImage;
  }
  void add() {
    reserve();
    if (HasFatalFailure()) return;
    const std::uint64_t stamp = next_stamp();
    Log::publish(stamp, false);
    entries_.emplace_back(page_states[0].newest.load() & ~kBits, stamp);
  }
  void look() {
    while (!entries_.empty() && entries_.front().first < control->tail.load()) entries_.pop_front();
    for (const auto &[position, stamp] : entries_)
      ASSERT_EQ(Log::at(position)->stamp, stamp) << "at " << position;
  }

  std::byte *begin_ = nullptr;
  std::deque<std::pair<Position, std::uint64_t>> entries_;
};

TEST_F(PagesLog, UsesForgottenChunksAgain) {
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 40; ++i) ASSERT_NO_FATAL_FAILURE(add());
    ASSERT_NO_FATAL_FAILURE(look());
    Log::forget_all(next_stamp());
  }
}

TEST_F(PagesLog, UsesAgainWhatADeadTaskHadReserved) {
  for (int round = 0; round < 600; ++round) {
    for (int i = 0; i < 6; ++i) ASSERT_NO_FATAL_FAILURE(reserve());
    Log::repair();
    ASSERT_NO_FATAL_FAILURE(add());
    ASSERT_NO_FATAL_FAILURE(look());
  }
}

// All but the last 16 chunks.
TEST_F(PagesLog, TrimsWhatNoPinNeeds) {
  for (int i = 0; i < 3000; ++i) ASSERT_NO_FATAL_FAILURE(add());
  ASSERT_NO_FATAL_FAILURE(look());
  EXPECT_LT(entries_.size(), 40u);
}

}  // namespace

}  // namespace tmh::itm::pages
