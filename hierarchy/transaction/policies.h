// hierarchy/transaction/policies.h -- decisions between the attempts of one instance: how long to
// wait, when to ask for a turn.
// Shape:     pure constexpr functions on small values; clocks, counters and random numbers stay
//            with the caller. Who fails in a conflict is the page level's decision:
//            levels/page/shared/conflict.h.
// Source:    thesis, section 3.3 (starvation stays possible there, since a retry gets a new age);
//            docs/design.md 4.
#pragma once

#include <cstdint>

#include <tmh/lab.hpp>
#include <tmh/options.hpp>

namespace tmh::hierarchy {

// Aborted attempts after which a keep-age instance asks for the domain's turn (the others wait at
// begin until it ends). Why 8. From above: the turn must be rare, because it stops all others.
// In a fair duel, one loss in two, eight losses in a row are one instance in 256. From below:
// exponential backoff must have had its chance, and its bound reaches 2^8 us = 256 us with the
// eighth abort, beyond the longest instance that Policy::backoff_us_max reckons with (100 us).
// Eight losses are therefore no accident: the instance is longer than the gaps which the others
// leave.
inline constexpr std::uint32_t kTurnAttempts = 8;

// attempt: how many attempts of the instance have aborted so far.
[[nodiscard]] constexpr bool take_turn(bool keep_age, std::uint32_t attempt) noexcept {
  return keep_age && attempt >= kTurnAttempts;
}

// The caller waits a random time in [0, result) ns before its next attempt; 0: it does not wait.
// attempt: how many attempts have aborted so far. others_progressed: some other instance of the
// domain committed since this one's last attempt began.
//   kNone         for instances that rarely meet, and as the baseline.
//   kExponential  when several processes fight for few pages on as many cores: it spreads them.
//   kAdaptive     a commit by another shows that the winner is through, and waiting would only idle
//                 this core; no commit shows that the winner still runs or that all abort each
//                 other, and then only waiting helps.
[[nodiscard]] constexpr std::uint64_t backoff_ns_max(Backoff backoff, std::uint32_t attempt,
                                                     std::uint32_t backoff_us_max,
                                                     bool others_progressed) noexcept {
  if (backoff == Backoff::kNone) return 0;
  if (backoff == Backoff::kAdaptive && others_progressed) return 0;
  if (attempt == 0) return 0;  // nothing has aborted
  // 2^32 us exceeds every bound that fits backoff_us_max, so that larger shifts need not be made.
  const std::uint64_t exponential_us = std::uint64_t{1} << (attempt < 32 ? attempt : 32);
  const std::uint64_t wait_us = exponential_us < backoff_us_max ? exponential_us : backoff_us_max;
  return wait_us * 1000;
}

// upper-yields: so many attempts of an update of level 2 in a row give way to level 1; the next one
// takes the pages that it touches, as under every other policy. Without a limit it would never
// commit: a page that level 1 has used stays there until level 2 takes it. Why 4: half of the
// attempts after which it gets the turn, so that what it then loses, it loses to level 2.
inline constexpr std::uint32_t kYieldsMax = kTurnAttempts / 2;
static_assert(kYieldsMax > 0 && kYieldsMax < kTurnAttempts);

// attempt: how many attempts of the update have aborted so far.
[[nodiscard]] constexpr bool yields_to_lower(CrossPolicy cross, std::uint32_t attempt) noexcept {
  return cross == lab::kUpperYields && attempt < kYieldsMax;
}

}  // namespace tmh::hierarchy
