// levels/line/rtm_thread.h -- level 1 in RTM for plain code.
// Shape:     RtmThread begins and ends one attempt, as LineLevel says.
// Invariant: the first act inside is to ask the gate, whose words thereby are in the read set:
//            a store that shuts it later aborts us.
// Contexts:  as rtm.h.
#pragma once

#include <cstdint>

#include "levels/line/rtm.h"
#include "levels/line/software.h"

namespace tmh::line {

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
