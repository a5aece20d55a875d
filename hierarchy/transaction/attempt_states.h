// hierarchy/transaction/attempt_states.h -- how each attempt of a site's instance runs, and how the
// next one does after it has failed.
// Shape:     pure constexpr functions on small values. hierarchy/transaction/escalation.h decides
//            whether an instance goes one level up; this says what that makes of its next attempt.
// Invariant: (1) an instance that has gone to level 2 stays there. (2) A subsumed one, and one at
//            level 2 to find pages, stay what they are.
// Source:    thesis, section 6.2 (every instance runs at one level); docs/design.md 4.
#pragma once

#include <cstdint>

namespace tmh::hierarchy {

enum class AttemptState : std::uint8_t {
  // on software lines, within the capacity model
  kTryLines,
  // the same, and no other instance commits meanwhile: the instance has failed beside others
  kTryLinesFirst,
  // on software lines without the capacity model, which the instance exceeds
  kTryLinesUnlimited,
  // both: without the model, and no other instance commits meanwhile
  kTryLinesAlone,
  // plain code in RTM
  kTryHardware,
  // in RTM beside software lines
  kTryLinesInRtm,
  // at level 2, on the process's views, to find the pages that RTM needs
  kFindPages,
  // at level 2, on the thread's own views where the site wants them
  kTryPages,
  // the same, because level 2 has refused a page or shut the gate of RTM: such an instance is no
  // reason for others to stay there
  kTryPagesAsGuest,
  // at level 2, on the process's views: the thread's own have turned out not to do
  kTryProcessViews,
  kTryProcessViewsAsGuest,
  // in an outer instance, at whatever level that runs
  kSubsumed,
};
inline constexpr std::uint32_t kAttemptStateCount = 12;
static_assert(static_cast<std::uint32_t>(AttemptState::kSubsumed) + 1 == kAttemptStateCount);

// What has kept an attempt from committing, as far as the next one differs by it.
enum class Failed : std::uint8_t {
  // Other instances were in the way, and the policy stays at this level.
  kByOthers,
  // They were in the way too often, and the policy lets it go first at this level.
  kByOthersTooOften,
  // The instance exceeds the capacity model, and its site runs it without the model.
  kOverModel,
  // The same, where other instances have lately made that fail.
  kOverModelAmongOthers,
  // The policy goes one level up.
  kAtThisLevel,
  // Level 2 does not give a page back, or the gate of RTM stays shut.
  kRefused,
  // RTM names no reason, or retry() is to sleep: level 2 finds out.
  kWithoutReason,
  // The body does what only the process's views can.
  kInThreadView,
  // RTM cannot run it, or others were in its way too often: software lines go on.
  kInRtm,
};
inline constexpr std::uint32_t kFailedCount = 9;
static_assert(static_cast<std::uint32_t>(Failed::kInRtm) + 1 == kFailedCount);

enum class AttemptLevel : std::uint8_t { kLines, kHardware, kLinesInRtm, kPages, kOuter };

[[nodiscard]] constexpr AttemptLevel level_of(AttemptState state) noexcept {
  switch (state) {
    case AttemptState::kTryLines:
    case AttemptState::kTryLinesFirst:
    case AttemptState::kTryLinesUnlimited:
    case AttemptState::kTryLinesAlone:
      return AttemptLevel::kLines;
    case AttemptState::kTryHardware:
      return AttemptLevel::kHardware;
    case AttemptState::kTryLinesInRtm:
      return AttemptLevel::kLinesInRtm;
    case AttemptState::kFindPages:
    case AttemptState::kTryPages:
    case AttemptState::kTryPagesAsGuest:
    case AttemptState::kTryProcessViews:
    case AttemptState::kTryProcessViewsAsGuest:
      return AttemptLevel::kPages;
    case AttemptState::kSubsumed:
      break;
  }
  return AttemptLevel::kOuter;
}
[[nodiscard]] constexpr bool is_at_level_1(AttemptState state) noexcept {
  return level_of(state) < AttemptLevel::kPages;
}
[[nodiscard]] constexpr bool is_unlimited(AttemptState state) noexcept {
  return state == AttemptState::kTryLinesUnlimited || state == AttemptState::kTryLinesAlone;
}
[[nodiscard]] constexpr bool is_first(AttemptState state) noexcept {
  return state == AttemptState::kTryLinesFirst || state == AttemptState::kTryLinesAlone;
}
[[nodiscard]] constexpr bool is_guest(AttemptState state) noexcept {
  return state == AttemptState::kTryPagesAsGuest || state == AttemptState::kTryProcessViewsAsGuest;
}

// How the next attempt runs. Failures that an attempt in this state cannot have change nothing.
[[nodiscard]] constexpr AttemptState next(AttemptState state, Failed failed) noexcept {
  switch (failed) {
    case Failed::kByOthers:
      return state == AttemptState::kTryLinesUnlimited ? AttemptState::kTryLinesAlone : state;
    case Failed::kByOthersTooOften:
      if (state == AttemptState::kTryLines) return AttemptState::kTryLinesFirst;
      return state == AttemptState::kTryLinesUnlimited ? AttemptState::kTryLinesAlone : state;
    case Failed::kOverModel:
      if (state == AttemptState::kTryLinesFirst) return AttemptState::kTryLinesAlone;
      return state == AttemptState::kTryLines ? AttemptState::kTryLinesUnlimited : state;
    case Failed::kOverModelAmongOthers:
      return state == AttemptState::kTryLines || state == AttemptState::kTryLinesFirst
                 ? AttemptState::kTryLinesAlone
                 : state;
    case Failed::kAtThisLevel:
      return is_at_level_1(state) ? AttemptState::kTryPages : state;
    case Failed::kRefused:
      return is_at_level_1(state) ? AttemptState::kTryPagesAsGuest : state;
    case Failed::kWithoutReason:
      return state == AttemptState::kTryHardware ? AttemptState::kFindPages : state;
    case Failed::kInThreadView:
      if (state == AttemptState::kTryPages) return AttemptState::kTryProcessViews;
      if (state == AttemptState::kTryPagesAsGuest) return AttemptState::kTryProcessViewsAsGuest;
      return state;
    case Failed::kInRtm:
      return state == AttemptState::kTryLinesInRtm ? AttemptState::kTryLines : state;
  }
  return state;
}

}  // namespace tmh::hierarchy
