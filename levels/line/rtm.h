// levels/line/rtm.h -- the RTM instructions, wrapped once, and level 1 on them for plain code.
// Shape:     XBEGIN, XEND, XABORT and XTEST in functions of their own with the target attribute; no
//            part of the library is compiled for RTM. RtmThread begins and ends one attempt;
//            retries, and what follows them, are the caller's: the fallback must be right alone.
// Invariant: the first act inside is to ask the gate, whose words thereby are in the read set:
//            a store that shuts it later aborts us.
// Abort:     memory and registers are as they were at XBEGIN, the stack too; so rtm_begin() may
//            return into its caller, as setjmp() may not: after an abort its frame is there again.
// Contexts:  REQUIRES detect_rtm().is_usable, else XBEGIN is an illegal instruction. Inside: no
//            calls out, no system calls, no first touch of a page (a fault aborts with status 0,
//            and no handler runs).
// Source:    Intel SDM vol. 1, chapter 16; docs/design.md 4 and 5.
#pragma once

#include <cstdint>

#include <tmh/instance.hpp>

#include "levels/line/abort_status.h"
#include "levels/line/software.h"

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
                                            : AbortCode::kUser;
}
// Begins and ends; true: committed. REQUIRES as rtm_begin().
[[nodiscard]] bool try_empty_rtm() noexcept;

// What must hold for a transaction to commit. hierarchy/ implements it.
class RtmGate {
 public:
  RtmGate() = default;
  RtmGate(const RtmGate &) = delete;
  RtmGate &operator=(const RtmGate &) = delete;
  virtual ~RtmGate() = default;
  // Inside a transaction: only loads. kNone: open; else why it may not run.
  [[nodiscard]] virtual AbortCode shut_by() const noexcept = 0;
};

// Gate: the RtmGate's type; where it is a final one, asking it is inline.
template <class Gate>
class RtmThreadBehind {
 public:
  explicit RtmThreadBehind(const Gate &gate) noexcept : gate_(gate) {}

  // True: the transaction runs. False, also a second time after an abort: it does not; status() and
  //       cause() say why.
  // vptr: the check of the gate's dynamic type reads /proc when it does not know the type yet,
  // which aborts, and what it learned with it.
  [[nodiscard]] __attribute__((no_sanitize("vptr"))) bool begin(const Begin &) noexcept {
    const std::uint32_t status = rtm_begin();
    if (status != kRtmStarted) [[unlikely]] {
      status_ = AbortStatus{status};
      return false;
    }
    if (const AbortCode code = gate_.shut_by(); code != AbortCode::kNone) [[unlikely]]
      rtm_abort(code);
    return true;
  }
  [[nodiscard]] Status commit() noexcept {
    rtm_end();  // an abort comes back in begin()
    return Status::kCommitted;
  }
  // Inside: control comes back in begin(), which returns false.
  void abandon(AbortCause cause = AbortCause::kUser) noexcept {
    rtm_abort(code_of_abandoned(cause));
  }

  [[nodiscard]] bool is_running() const noexcept { return rtm_is_inside(); }
  [[nodiscard]] AbortCause cause() const noexcept { return cause_of(status_); }
  [[nodiscard]] AbortStatus status() const noexcept { return status_; }

 private:
  const Gate &gate_;
  AbortStatus status_{};
};
using RtmThread = RtmThreadBehind<RtmGate>;

}  // namespace tmh::line
