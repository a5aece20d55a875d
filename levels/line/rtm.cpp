// levels/line/rtm.cpp -- the only code that contains RTM instructions.
#include "levels/line/rtm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define TMH_RTM __attribute__((target("rtm"), noinline))
#endif

namespace tmh::line {

#if defined(__x86_64__)
static_assert(kRtmStarted == _XBEGIN_STARTED);
static_assert(kStatusExplicit == _XABORT_EXPLICIT && kStatusRetry == _XABORT_RETRY &&
              kStatusConflict == _XABORT_CONFLICT && kStatusCapacity == _XABORT_CAPACITY &&
              kStatusDebug == _XABORT_DEBUG && kStatusNested == _XABORT_NESTED);

TMH_RTM std::uint32_t rtm_begin() noexcept { return _xbegin(); }
TMH_RTM void rtm_end() noexcept { _xend(); }
TMH_RTM bool rtm_is_inside() noexcept { return _xtest() != 0; }
// XABORT's operand is part of the instruction.
TMH_RTM void rtm_abort(AbortCode code) noexcept {
  switch (code) {
    case AbortCode::kExclusiveHeld:
      return _xabort(static_cast<unsigned>(AbortCode::kExclusiveHeld));
    case AbortCode::kUpperHolds:
      return _xabort(static_cast<unsigned>(AbortCode::kUpperHolds));
    case AbortCode::kQueryWrote:
      return _xabort(static_cast<unsigned>(AbortCode::kQueryWrote));
    case AbortCode::kNeedsPages:
      return _xabort(static_cast<unsigned>(AbortCode::kNeedsPages));
    case AbortCode::kNone:
    case AbortCode::kUser:
      return _xabort(static_cast<unsigned>(AbortCode::kUser));
  }
}
TMH_RTM bool try_empty_rtm() noexcept {
  if (_xbegin() != _XBEGIN_STARTED) return false;
  _xend();
  return true;
}
#else
std::uint32_t rtm_begin() noexcept { return 0; }
void rtm_end() noexcept {}
bool rtm_is_inside() noexcept { return false; }
void rtm_abort(AbortCode) noexcept {}
bool try_empty_rtm() noexcept { return false; }
#endif

bool RtmThread::begin(const Begin &) noexcept {
  const std::uint32_t status = rtm_begin();
  if (status != kRtmStarted) {
    status_ = AbortStatus{status};
    return false;
  }
  // In the read set from here on: races with whoever takes the word after this look, and loses. relaxed: the transaction is the order.
  if (exclusive_.load(std::memory_order_relaxed) != 0) rtm_abort(AbortCode::kExclusiveHeld);
  return true;
}

Status RtmThread::commit() noexcept {
  rtm_end();  // an abort comes back in begin()
  return Status::kCommitted;
}

void RtmThread::abandon(AbortCause cause) noexcept {
  rtm_abort(cause == AbortCause::kQueryWrote   ? AbortCode::kQueryWrote
            : cause == AbortCause::kCrossLevel ? AbortCode::kUpperHolds
                                               : AbortCode::kUser);
}

}  // namespace tmh::line
