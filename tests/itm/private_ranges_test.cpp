// tests/itm/private_ranges_test.cpp -- ranges of private memory, and the undo log, against models.
// Invariants: (1) a byte is private when a range that was added, and not taken back, has it;
//             meets_line() says so for a line. (2) roll_back() restores all bytes but those gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "compat/libitm/private_ranges.h"
#include "compat/libitm/undo_log.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

using itm::PrivateRanges;
using itm::UndoLog;

constexpr std::uintptr_t kBase = 1u << 20;
constexpr std::size_t kBytes = 100 * kLineBytes;

void expect_as(const PrivateRanges &ranges, const std::vector<bool> &model) {
  for (std::size_t at = 0; at < kBytes;) {
    bool is_private = false;
    const std::size_t part = ranges.first_part(kBase + at, kBytes - at, &is_private);
    ASSERT_GT(part, 0U);
    ASSERT_LE(at + part, kBytes);
    for (std::size_t i = at; i < at + part; ++i) {
      ASSERT_EQ(model[i], is_private) << i;
    }
    if (at + part < kBytes) {
      ASSERT_NE(model[at + part], is_private) << "the part ends too early";
    }
    at += part;
  }
  for (std::size_t line = 0; line < kBytes; line += kLineBytes) {
    const auto begin = model.begin() + static_cast<std::ptrdiff_t>(line);
    ASSERT_EQ(ranges.meets_line(kBase + line),
              std::find(begin, begin + kLineBytes, true) != begin + kLineBytes)
        << line / kLineBytes;
  }
}

TEST(PrivateRanges, AreWhatAModelSays) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 200; ++round) {
    PrivateRanges ranges;
    std::vector<std::vector<bool>> models = {std::vector<bool>(kBytes)};
    for (int i = 0; i < 20; ++i) {
      const std::size_t begin = random() % kBytes;
      const std::size_t most = random() % 4 == 0 ? kBytes : 100;
      const std::size_t bytes = random() % (std::min(kBytes - begin, most) + 1);
      const std::size_t before = ranges.size();
      ranges.add(kBase + begin, bytes);
      if (ranges.size() == before) continue;  // no byte
      models.push_back(models.back());
      for (std::size_t each = begin; each < begin + bytes; ++each) models.back()[each] = true;
      expect_as(ranges, models.back());
      if (random() % 5 != 0) continue;
      const std::size_t kept = random() % models.size();
      ranges.keep(kept);
      models.resize(kept + 1);
      expect_as(ranges, models.back());
    }
    ranges.clear();
    expect_as(ranges, models.front());
  }
}

constexpr std::size_t kFrameBytes = 128;  // of the memory below, its first half

TEST(UndoLog, RestoresAllButWhatIsGone) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 200; ++round) {
    std::vector<unsigned char> memory(2 * kFrameBytes), first(memory.size()), middle;
    for (std::size_t i = 0; i < memory.size(); ++i)
      memory[i] = first[i] = static_cast<unsigned char>(i);
    UndoLog log;
    std::size_t at_middle = 0;
    for (int i = 0; i < 20; ++i) {
      if (i == 10) {
        middle = memory;
        at_middle = log.size();
      }
      const bool is_frame = random() % 2 == 0;
      const std::size_t first_at = is_frame ? 0 : kFrameBytes;
      const std::size_t begin = first_at + random() % kFrameBytes;
      const std::size_t bytes = random() % (first_at + kFrameBytes - begin + 1);
      log.save(memory.data() + begin, bytes, is_frame);
      for (std::size_t each = begin; each < begin + bytes; ++each)
        memory[each] = static_cast<unsigned char>(random());
    }
    const auto base = reinterpret_cast<std::uintptr_t>(memory.data());
    log.roll_back(at_middle, base);
    EXPECT_EQ(memory, middle);
    const std::size_t gone = random() % (kFrameBytes + 1);
    log.roll_back(0, base + gone);
    for (std::size_t i = 0; i < memory.size(); ++i)
      EXPECT_EQ(memory[i], i < gone ? middle[i] : first[i]) << i;
    EXPECT_EQ(log.size(), 0U);
  }
}

}  // namespace
}  // namespace tmh::test
