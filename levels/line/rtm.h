// levels/line/rtm.h -- the RTM instructions, wrapped once.
// Shape:     XBEGIN, XEND, XABORT and XTEST in functions of their own with the target attribute; no
//            part of the library is compiled for RTM. Retries, and what follows them, are the
//            caller's: the fallback must be right alone.
// Abort:     memory and registers are as they were at XBEGIN, the stack too; so rtm_begin() may
//            return into its caller, as setjmp() may not: after an abort its frame is there again.
// Contexts:  REQUIRES detect_rtm().is_usable, else XBEGIN is an illegal instruction. Inside: no
//            calls that may wait, no system calls, no first touch of a page (a fault aborts with
//            status 0, and no handler runs).
// Source:    Intel SDM vol. 1, chapter 16; docs/design.md 4 and 5.
#pragma once

#include <atomic>
#include <cstdint>

#include <tmh/instance.hpp>

#include "levels/line/abort_status.h"
#include "levels/line/layout.h"

namespace tmh::line {

// What _xbegin() returns inside a transaction; else the abort status.
inline constexpr std::uint32_t kRtmStarted = ~0u;

// Returns twice: inside the transaction, and after its abort. REQUIRES a processor that lists RTM;
// elsewhere it says status 0 where it is not compiled in.
[[nodiscard]] std::uint32_t rtm_begin() noexcept;
void rtm_end() noexcept;
// Outside a transaction it does nothing.
void rtm_abort(AbortCode code) noexcept;
// With AbortCode::kNeedsPages, and why.
void rtm_abort(Need need) noexcept;
[[nodiscard]] bool rtm_is_inside() noexcept;
// The operand of the XABORT that abandons a transaction because of `cause`.
[[nodiscard]] constexpr AbortCode code_of_abandoned(AbortCause cause) noexcept {
  return cause == AbortCause::kQueryWrote   ? AbortCode::kQueryWrote
         : cause == AbortCause::kCrossLevel ? AbortCode::kUpperHolds
         : cause == AbortCause::kNeedsPages ? AbortCode::kNeedsPages
         : cause == AbortCause::kNoSpace    ? AbortCode::kNoRoom
                                            : AbortCode::kUser;
}

// The snapshot of an update in RTM beside software lines (rtm_update.h): it reads each line as it
// is now. What is locked, or level 2's, is above all versions.
inline constexpr std::uint64_t kNow = kVersionMask;
// Is it one? Then control goes back to where it began. Else nothing.
inline void leave_rtm(const detail::LineAccess &access, AbortCode why) noexcept {
  if (access.rv == kNow) [[unlikely]]
    rtm_abort(why);
}
// A store that changes nothing, before a transaction: a first one is a fault, which would abort it.
// Not fetch_or(0), of which a compiler may make a load.
inline void make_writable(std::atomic<std::uint64_t> &word) noexcept {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  static_cast<void>(word.compare_exchange_strong(seen, seen, std::memory_order_relaxed));
}
// Begins and ends; true: committed. REQUIRES as rtm_begin().
[[nodiscard]] bool try_empty_rtm() noexcept;

}  // namespace tmh::line
