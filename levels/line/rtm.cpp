// levels/line/rtm.cpp -- the only code that contains RTM instructions.
#include "levels/line/rtm.h"

#include <cstddef>
#include <utility>

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
#define TMH_XABORT(name) \
  case AbortCode::name:  \
    return _xabort(static_cast<unsigned>(AbortCode::name))
    TMH_XABORT(kExclusiveHeld);
    TMH_XABORT(kUpperHolds);
    TMH_XABORT(kQueryWrote);
    TMH_XABORT(kNeedsPages);
    TMH_XABORT(kFollow);
    TMH_XABORT(kUpperRuns);
    TMH_XABORT(kPageMode);
    TMH_XABORT(kRetry);
    TMH_XABORT(kLineLocked);
    TMH_XABORT(kNoRoom);
    case AbortCode::kNone:
      TMH_XABORT(kUser);
#undef TMH_XABORT
  }
}
namespace {
// As above.
template <unsigned kCode>
TMH_RTM void abort_with() noexcept {
  _xabort(kCode);
}
template <std::size_t... kNeeds>
void abort_for(Need need, std::index_sequence<kNeeds...>) noexcept {
  const auto is = [need](std::size_t number) { return need == static_cast<Need>(number); };
  (static_cast<void>(is(kNeeds) && (abort_with<code_of_need(static_cast<Need>(kNeeds))>(), true)),
   ...);
}
}  // namespace
void rtm_abort(Need need) noexcept {
  abort_for(need, std::make_index_sequence<kNeedCount>());
  rtm_abort(AbortCode::kNeedsPages);  // of no number that is a Need
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
void rtm_abort(Need) noexcept {}
bool try_empty_rtm() noexcept { return false; }
#endif

}  // namespace tmh::line
