// tests/transaction/attempt_states_test.cpp -- the state machine of a site's instance.
// Invariants: (1) the table: for each state and each failure, how the next attempt runs.
//             (2) an instance that has gone to level 2 stays there.
//             (3) a failure repeated for ever reaches a state that it does not leave.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "hierarchy/transaction/attempt_states.h"

namespace tmh::test {
namespace {

using hierarchy::AttemptLevel;
using hierarchy::AttemptState;
using hierarchy::Failed;
using hierarchy::kAttemptStateCount;
using hierarchy::kFailedCount;

constexpr AttemptState kLines = AttemptState::kTryLines;
constexpr AttemptState kFirst = AttemptState::kTryLinesFirst;
constexpr AttemptState kUnlimited = AttemptState::kTryLinesUnlimited;
constexpr AttemptState kAlone = AttemptState::kTryLinesAlone;
constexpr AttemptState kHardware = AttemptState::kTryHardware;
constexpr AttemptState kInRtm = AttemptState::kTryLinesInRtm;
constexpr AttemptState kFind = AttemptState::kFindPages;
constexpr AttemptState kPages = AttemptState::kTryPages;
constexpr AttemptState kGuest = AttemptState::kTryPagesAsGuest;
constexpr AttemptState kProcess = AttemptState::kTryProcessViews;
constexpr AttemptState kProcessGuest = AttemptState::kTryProcessViewsAsGuest;
constexpr AttemptState kSubsumed = AttemptState::kSubsumed;

struct Row {
  AttemptState state;
  AttemptLevel level;
  // By Failed, in its order: by others, by others too often, over the model, over the model among
  // others, at this level, refused, without reason, in a thread's view, in RTM.
  std::array<AttemptState, kFailedCount> next;
};
constexpr std::array<Row, kAttemptStateCount> kTable{{
    {kLines,
     AttemptLevel::kLines,
     {kLines, kFirst, kUnlimited, kAlone, kPages, kGuest, kLines, kLines, kLines}},
    {kFirst,
     AttemptLevel::kLines,
     {kFirst, kFirst, kAlone, kAlone, kPages, kGuest, kFirst, kFirst, kFirst}},
    {kUnlimited,
     AttemptLevel::kLines,
     {kAlone, kAlone, kUnlimited, kUnlimited, kPages, kGuest, kUnlimited, kUnlimited, kUnlimited}},
    {kAlone,
     AttemptLevel::kLines,
     {kAlone, kAlone, kAlone, kAlone, kPages, kGuest, kAlone, kAlone, kAlone}},
    {kHardware,
     AttemptLevel::kHardware,
     {kHardware, kHardware, kHardware, kHardware, kPages, kGuest, kFind, kHardware, kHardware}},
    {kInRtm,
     AttemptLevel::kLinesInRtm,
     {kInRtm, kInRtm, kInRtm, kInRtm, kPages, kGuest, kInRtm, kInRtm, kLines}},
    {kFind, AttemptLevel::kPages, {kFind, kFind, kFind, kFind, kFind, kFind, kFind, kFind, kFind}},
    {kPages,
     AttemptLevel::kPages,
     {kPages, kPages, kPages, kPages, kPages, kPages, kPages, kProcess, kPages}},
    {kGuest,
     AttemptLevel::kPages,
     {kGuest, kGuest, kGuest, kGuest, kGuest, kGuest, kGuest, kProcessGuest, kGuest}},
    {kProcess,
     AttemptLevel::kPages,
     {kProcess, kProcess, kProcess, kProcess, kProcess, kProcess, kProcess, kProcess, kProcess}},
    {kProcessGuest,
     AttemptLevel::kPages,
     {kProcessGuest, kProcessGuest, kProcessGuest, kProcessGuest, kProcessGuest, kProcessGuest,
      kProcessGuest, kProcessGuest, kProcessGuest}},
    {kSubsumed,
     AttemptLevel::kOuter,
     {kSubsumed, kSubsumed, kSubsumed, kSubsumed, kSubsumed, kSubsumed, kSubsumed, kSubsumed,
      kSubsumed}},
}};
static_assert(next(kUnlimited, Failed::kByOthers) == kAlone);

TEST(AttemptStates, NextIsAsTheTableSays) {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    const Row &row = kTable[i];
    ASSERT_EQ(static_cast<std::size_t>(row.state), i);
    EXPECT_EQ(level_of(row.state), row.level) << i;
    for (std::size_t failed = 0; failed < kFailedCount; ++failed)
      EXPECT_EQ(next(row.state, static_cast<Failed>(failed)), row.next[failed])
          << "state " << i << ", failure " << failed;
  }
}

TEST(AttemptStates, LevelTwoIsNeverLeft) {
  for (const Row &row : kTable) {
    if (row.level != AttemptLevel::kPages) continue;
    for (std::size_t failed = 0; failed < kFailedCount; ++failed) {
      const AttemptState after = next(row.state, static_cast<Failed>(failed));
      EXPECT_EQ(level_of(after), AttemptLevel::kPages);
      EXPECT_EQ(is_guest(after), is_guest(row.state));
    }
  }
}

TEST(AttemptStates, ARepeatedFailureComesToRest) {
  for (const Row &row : kTable) {
    for (std::size_t i = 0; i < kFailedCount; ++i) {
      const auto failed = static_cast<Failed>(i);
      const AttemptState twice = next(next(row.state, failed), failed);
      EXPECT_EQ(next(twice, failed), twice);
    }
  }
}

}  // namespace
}  // namespace tmh::test
