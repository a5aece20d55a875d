// levels/page/views/claim_kind.h -- the kinds of what an instance does before it touches a page,
// and what each kind means to the rest of an engine.
// Shape:     pure. A closed set: a kind more is one more enumerator, and the compiler names each
//            switch that has to say what it does.
// Contexts:  async-signal-safe.
// Source:    thesis, section 3.3 (lazy and eager detection).
#pragma once

#include <cstdint>

#include <tmh/options.hpp>

namespace tmh::page {

enum class ClaimKind : std::uint8_t {
  // Lazy detection: nothing. Validation finds conflicts.
  kNone,
  // Eager detection: each touch is entered in the access table; of two that conflict one instance
  // FAILS at once.
  kFailing,
  // Detection locking: each touch locks the page, and waits for those who have it.
  kWaiting,
};

[[nodiscard]] constexpr ClaimKind claim_kind(Detection detection) noexcept {
  switch (detection) {
    case Detection::kEager:
      return ClaimKind::kFailing;
    case Detection::kLocking:
      return ClaimKind::kWaiting;
    case Detection::kLazy:
      break;
  }
  return ClaimKind::kNone;
}

struct ClaimMeaning {
  // Are touches registered, where others look before theirs? Then each must be seen before it
  // happens, a page's first store behind loads included; and no other instance writes what this one
  // has read while it may still commit.
  bool registers_touches;
  // Does a claim move the instance's snapshot to the present? Then that may be ahead of the commits
  // that its views have followed, and its clock says nothing of what was read before it moved.
  bool moves_snapshot;
};

[[nodiscard]] constexpr ClaimMeaning meaning_of(ClaimKind kind) noexcept {
  switch (kind) {
    case ClaimKind::kNone:
      break;
    case ClaimKind::kFailing:
    case ClaimKind::kWaiting:
      return {.registers_touches = true, .moves_snapshot = true};
  }
  return {.registers_touches = false, .moves_snapshot = false};
}
[[nodiscard]] constexpr bool registers_touches(ClaimKind kind) noexcept {
  return meaning_of(kind).registers_touches;
}
[[nodiscard]] constexpr bool moves_snapshot(ClaimKind kind) noexcept {
  return meaning_of(kind).moves_snapshot;
}

}  // namespace tmh::page
