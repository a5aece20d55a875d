// levels/line/rtm.h -- the RTM instructions, wrapped once, and level 1 on them for plain code.
// Shape:     XBEGIN, XEND, XABORT and XTEST in functions of their own with the target attribute; no part of the library is compiled for RTM.
//            RtmThread begins and ends one attempt; retries, and what follows them, are the caller's: the fallback must be right alone.
// Invariant: the first act inside is to ask the gate, whose words thereby are in the read set: whoever shuts it later aborts us.
// Abort:     memory and registers are as they were at XBEGIN, the stack too; so rtm_begin() may return into its caller, as setjmp() may not:
//            after an abort its frame is there again.
// Contexts:  REQUIRES detect_rtm().is_usable, else XBEGIN is an illegal instruction. Inside: no calls out, no system calls, no first touch
//            of a page (a fault aborts with status 0, and no handler runs).
// Source:    Intel SDM vol. 1, chapter 16; DESIGN 4 and 5.
#pragma once

#include <cstdint>

#include <tmh/instance.hpp>

#include "levels/line/abort_status.h"
#include "levels/line/software.h"

namespace tmh::line {

// What _xbegin() returns inside a transaction; else the abort status.
inline constexpr std::uint32_t kRtmStarted = ~0u;

// Returns twice: inside the transaction, and after its abort. REQUIRES a processor that lists RTM; elsewhere it says status 0 where it is
// not compiled in.
[[nodiscard]] std::uint32_t rtm_begin() noexcept;
void rtm_end() noexcept;
// Outside a transaction it does nothing.
void rtm_abort(AbortCode code) noexcept;
[[nodiscard]] bool rtm_is_inside() noexcept;
// Begins and ends; true: committed. REQUIRES as rtm_begin().
[[nodiscard]] bool try_empty_rtm() noexcept;

// What must hold for a transaction to commit. hierarchy/ implements it; OpenGate serves where there is nothing.
class RtmGate {
 public:
  RtmGate() = default;
  RtmGate(const RtmGate &) = delete;
  RtmGate &operator=(const RtmGate &) = delete;
  virtual ~RtmGate() = default;
  // Inside a transaction: only loads. kNone: open; else why it may not run.
  [[nodiscard]] virtual AbortCode shut_by() const noexcept = 0;
};

class OpenGate : public RtmGate {
 public:
  [[nodiscard]] AbortCode shut_by() const noexcept override { return AbortCode::kNone; }
};

class RtmThread {
 public:
  explicit RtmThread(const RtmGate &gate) noexcept : gate_(gate) {}

  // True: the transaction runs. False, also a second time after an abort: it does not; status() and cause() say why.
  [[nodiscard]] bool begin(const Begin &begin) noexcept;
  [[nodiscard]] Status commit() noexcept;
  // Inside: control comes back in begin(), which returns false.
  void abandon(AbortCause cause = AbortCause::kUser) noexcept;

  [[nodiscard]] bool is_running() const noexcept { return rtm_is_inside(); }
  [[nodiscard]] AbortCause cause() const noexcept { return cause_of(status_); }
  [[nodiscard]] AbortStatus status() const noexcept { return status_; }

 private:
  const RtmGate &gate_;
  AbortStatus status_{};
};

}  // namespace tmh::line
