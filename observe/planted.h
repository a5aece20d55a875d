// observe/planted.h -- defects that a test plants in the library, to see that it would find them.
// Shape:     a set of bits; the code that would have a defect asks is_planted(). Only builds with
//            tests ask (TMH_PLANTED_FAULTS, see cmake/toolchain.cmake). In all others the answer is
//            a constant, and the compiler leaves out what depends on it.
// Sharing:   one set per process. A child inherits it.
// Contexts:  everywhere, also in a fault handler and inside RTM.
#pragma once

#include <atomic>
#include <cstdint>

namespace tmh::observe {

enum class Planted : std::uint64_t {
  kNone = 0,
  // A flush says durable before it wrote.
  kAcknowledgeBeforeSync = 1ull << 0,
  // Versions go home before their record is durable.
  kApplyBeforeLog = 1ull << 1,
  // Recovery takes records of an earlier generation.
  kNoGeneration = 1ull << 2,
  // Recovery takes records whose CRC is wrong.
  kNoChecksum = 1ull << 3,
  // Level 1 commits whatever has changed since it read.
  kLineNoValidation = 1ull << 4,
  // Level 1 moves a snapshot on without looking at what it read.
  kLineNoExtensionCheck = 1ull << 5,
  // Level 1 unlocks before it writes back. Also 5 of the list below.
  kLineUnlockFirst = 1ull << 6,
  // Of a dead committer's lines only the first is written back.
  kLineHalfRecovery = 1ull << 7,
  // Level 2 commits whatever has changed since it read.
  kPageNoValidation = 1ull << 8,
  // A checkpoint of separate homes writes pages before the log.
  kPagesBeforeLog = 1ull << 9,

  // The faults of hierarchy/exchange/PROTOCOL.md, by their numbers there.
  // 1, 18: a release does not look at pins.
  kReleaseBlind = 1ull << 10,
  // 2: a recall does not wait for locked lines.
  kRecallNoWait = 1ull << 11,
  // 3: level 1 stamps after validation.
  kStampLate = 1ull << 12,
  // 4: level 1 leaves no undo words.
  kNoUndoWords = 1ull << 13,
  // 6: a release looks at pins before it tells.
  kReleaseLooksFirst = 1ull << 14,
  // 7: a recall leaves the line clock alone.
  kRecallClockStands = 1ull << 15,
  // 8: a release opens lines before the page word says L.
  kReleaseOpensFirst = 1ull << 16,
  // 9: a recall reads versions before it marks.
  kRecallReadsFirst = 1ull << 17,
  // 10: extending does not follow the commit log.
  kExtendNoFollow = 1ull << 18,
  // 11: recovery undoes a COMMITTED context.
  kRecoveryUndoes = 1ull << 19,
  // 12: nobody ends a dead mover's move.
  kMoveLeft = 1ull << 20,
  // 13: "no line pin yet" counts as "needs no undo words".
  kLinePinLate = 1ull << 21,
  // 14: RTM does not look at pins.
  kGateBlind = 1ull << 22,
  // 15, 16: a page leaves H without the epoch.
  kEpochStands = 1ull << 23,
  // 19: level 1 moves a snapshot on and compares what it read with the new one.
  kExtendComparesNew = 1ull << 24,
  // 20: giving way trusts a line that it has copied.
  kBesideTrusts = 1ull << 25,
  // 21: a query that has copied a page beside level 1 moves its snapshot on.
  kCopyMovesOn = 1ull << 63,
  // 22: what is undone in a copy beside level 1 is not what the copy has.
  kBesideUndoesMore = 1ull << 62,

  // Counters.
  // The reaper does not end what the dead had begun, or ends it twice.
  kDeathUncounted = 1ull << 26,
  kDeathCountedTwice = 1ull << 27,
  // An abort counts as kQueryWrote.
  kAbortMiscounted = 1ull << 28,
  // A query whose begin takes the domain lock is not counted.
  kQueryUncounted = 1ull << 29,
  // An escalation counts at the first attempt that fails, whatever comes of it.
  kEscalationEarly = 1ull << 30,
  // A commit that was counted and not published stays counted.
  kCountNotTakenBack = 1ull << 31,

  // Sleepers: no change wakes who sleeps for it.
  kNobodyWoken = 1ull << 32,
  // Windows that only a schedule opens: a begin without the lock does not look at the clock again
  // behind its pin.
  kBeginLooksOnce = 1ull << 33,

  // Snapshot isolation: an instance commits whatever has changed in the lines that it writes.
  kNoLineCheck = 1ull << 34,
  // What an instance has promoted concerns nobody else.
  kPromotionNotPublished = 1ull << 35,
  // A commit stands at its own stamp, past what others have committed to pages that it keeps.
  kStandsPastOthers = 1ull << 36,

  // The past: versions between which a held moment lies are folded.
  kPastFolded = 1ull << 37,
  // A version goes home, and what it replaces is not kept.
  kNoBeforeImage = 1ull << 38,

  // Locks: a waiter that is granted is not woken.
  kLockWakeLost = 1ull << 39,
  // A locker that holds the object gets another mode past other holders.
  kUpgradePasses = 1ull << 40,
  // A cycle loses two lockers.
  kTwoVictims = 1ull << 41,

  // tp: a record's undo is not done, and is done twice; a record is not stored with its update.
  kUndoLeftOut = 1ull << 42,
  kUndoneTwice = 1ull << 43,
  kNoUndoRecord = 1ull << 44,
  // Locks go before the commit point; a commit is acknowledged before it is in the log.
  kUnlockedTooSoon = 1ull << 45,
  kToldTooSoon = 1ull << 46,

  // Files of dbopen(): a file's head says that it is whole before its pages are durable.
  kHeadTooSoon = 1ull << 47,

  // Lines in RTM, by their numbers in PROTOCOL.md. 23: a store does not look at its line's word.
  kRtmWordsUnseen = 1ull << 48,
  // 25: the stamp was drawn before others'.
  kRtmStampOld = 1ull << 49,
};

#ifdef TMH_PLANTED_FAULTS

namespace detail {
extern std::atomic<Planted> planted;
}
// For this process, instead of what was planted before.
void plant(Planted defects) noexcept;
[[nodiscard]] inline bool is_planted(Planted defect) noexcept {
  // relaxed: tests plant before they start what they watch
  const auto all = static_cast<std::uint64_t>(detail::planted.load(std::memory_order_relaxed));
  return (all & static_cast<std::uint64_t>(defect)) != 0;
}

#else

[[nodiscard]] constexpr bool is_planted(Planted) noexcept { return false; }

#endif

}  // namespace tmh::observe
