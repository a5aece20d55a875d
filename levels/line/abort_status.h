// levels/line/abort_status.h -- why an attempt at level 1 ended, in the bit layout of RTM, by
// hardware and software alike: a policy that reads it cannot tell the two apart.
// Shape:     a 32-bit word; 0 is legal and says nothing (a fault, an interrupt, a system call).
//            Bits: Intel SDM vol. 1, 16.3.5.
// Caveat:    never infer a cause from missing bits (docs/style.md 5).
#pragma once

#include <cstdint>

#include <tmh/instance.hpp>

namespace tmh::line {

enum class AbortStatus : std::uint32_t {};

inline constexpr std::uint32_t kStatusExplicit = 1u << 0;  // XABORT; its code is in bits 31:24
inline constexpr std::uint32_t kStatusRetry = 1u << 1;     // the same again may succeed
inline constexpr std::uint32_t kStatusConflict = 1u << 2;
inline constexpr std::uint32_t kStatusCapacity = 1u << 3;
inline constexpr std::uint32_t kStatusDebug = 1u << 4;
inline constexpr std::uint32_t kStatusNested = 1u << 5;
inline constexpr std::uint32_t kStatusCodeShift = 24;

// Codes of explicit aborts: XABORT's operand. Numbers are part of what traces store; never reused.
enum class AbortCode : std::uint8_t {
  kNone = 0,
  kUser = 1,           // the body asked for it
  kExclusiveHeld = 2,  // an instance runs alone; wait until that has ended, then retry
  kUpperHolds = 3,     // level 2 holds a block that it touched
  kQueryWrote = 4,     // a query stored
  kNeedsPages = 5,     // what it did next only level 2 can do
  // RTM: pages have come to the hardware level or left it, and this process has not followed
  kFollow = 6,
  kUpperRuns = 7,  // RTM: an instance of level 2 runs in the domain
  kPageMode = 8,   // RTM: this process's views are level 2's
  kRetry = 9,      // RTM: the body called retry(); only level 2 can sleep for a change
  // RTM on software lines, which goes on in software:
  kLineLocked = 10,  // a commit in software has locked a line that it touched
  kNoRoom = 11,      // the undo ring, the redo ring or the log has no room at once
};

// kNeedsPages with what needed them: its Need, from this number on.
inline constexpr std::uint32_t kNeedCodes = 16;
static_assert(kNeedCodes + kNeedCount <= 256);
[[nodiscard]] constexpr std::uint32_t code_of_need(Need need) noexcept {
  return kNeedCodes + static_cast<std::uint32_t>(need);
}

[[nodiscard]] constexpr AbortStatus explicit_abort(AbortCode code) noexcept {
  return AbortStatus{kStatusExplicit | static_cast<std::uint32_t>(code) << kStatusCodeShift};
}
[[nodiscard]] constexpr bool has(AbortStatus status, std::uint32_t bit) noexcept {
  return (static_cast<std::uint32_t>(status) & bit) != 0;
}
[[nodiscard]] constexpr bool names_need(AbortStatus status) noexcept {
  const std::uint32_t code = static_cast<std::uint32_t>(status) >> kStatusCodeShift;
  return has(status, kStatusExplicit) && code >= kNeedCodes && code < kNeedCodes + kNeedCount;
}
[[nodiscard]] constexpr Need need_of(AbortStatus status) noexcept {
  const std::uint32_t code = static_cast<std::uint32_t>(status) >> kStatusCodeShift;
  return names_need(status) ? static_cast<Need>(code - kNeedCodes) : Need::kUnknown;
}
// kNone when the abort was not explicit.
[[nodiscard]] constexpr AbortCode code_of(AbortStatus status) noexcept {
  if (names_need(status)) return AbortCode::kNeedsPages;
  return has(status, kStatusExplicit)
             ? static_cast<AbortCode>(static_cast<std::uint32_t>(status) >> kStatusCodeShift)
             : AbortCode::kNone;
}

// As the processor would have said it. kSpurious, kNoSpace, kDied: 0, as after an interrupt or a
// fault.
[[nodiscard]] constexpr AbortStatus status_of(AbortCause cause) noexcept {
  switch (cause) {
    case AbortCause::kValidation:
    case AbortCause::kConflictSelf:
    case AbortCause::kConflictOther:
      return AbortStatus{kStatusConflict | kStatusRetry};
    case AbortCause::kCapacity:
      return AbortStatus{kStatusCapacity};
    case AbortCause::kUser:
      return explicit_abort(AbortCode::kUser);
    case AbortCause::kQueryWrote:
      return explicit_abort(AbortCode::kQueryWrote);
    case AbortCause::kNeedsPages:
      return explicit_abort(AbortCode::kNeedsPages);
    case AbortCause::kCrossLevel:
      return explicit_abort(AbortCode::kUpperHolds);
    case AbortCause::kNone:
    case AbortCause::kDied:
    case AbortCause::kNoSpace:
    case AbortCause::kSpurious:
      break;
  }
  return AbortStatus{0};
}

// Why an attempt ended; kNone: it has not, or has committed.
struct Ending {
  AbortCause cause = AbortCause::kNone;
  AbortStatus status{};

  constexpr Ending() noexcept = default;
  // Implicit: a cause has a status of its own, unless another one is given.
  constexpr Ending(AbortCause why) noexcept : cause(why), status(status_of(why)) {}
  constexpr Ending(AbortCause why, AbortStatus told) noexcept : cause(why), status(told) {}
  [[nodiscard]] constexpr bool is_abort() const noexcept { return cause != AbortCause::kNone; }
};

// The counter for an abort of which only the status is known.
[[nodiscard]] constexpr AbortCause cause_of(AbortStatus status) noexcept {
  switch (code_of(status)) {
    case AbortCode::kUser:
      return AbortCause::kUser;
    case AbortCode::kUpperHolds:
    case AbortCode::kUpperRuns:
    case AbortCode::kFollow:
    case AbortCode::kPageMode:
      return AbortCause::kCrossLevel;
    case AbortCode::kQueryWrote:
      return AbortCause::kQueryWrote;
    case AbortCode::kNeedsPages:
    case AbortCode::kRetry:
      return AbortCause::kNeedsPages;
    case AbortCode::kExclusiveHeld:
    case AbortCode::kLineLocked:
      return AbortCause::kConflictOther;
    case AbortCode::kNoRoom:
      return AbortCause::kNoSpace;
    case AbortCode::kNone:
      break;
  }
  if (has(status, kStatusCapacity)) return AbortCause::kCapacity;
  if (has(status, kStatusConflict)) return AbortCause::kConflictOther;
  return AbortCause::kSpurious;
}

}  // namespace tmh::line
