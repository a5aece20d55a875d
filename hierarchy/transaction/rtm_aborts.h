// hierarchy/transaction/rtm_aborts.h -- aborts in RTM: as what they are counted, and how many
// without a reason are one too many.
#pragma once

#include "hierarchy/exchange/exchange.h"
#include "hierarchy/transaction/site_impl.h"
#include "levels/line/abort_status.h"

namespace tmh::detail {

// An abort without a reason may be an interrupt; a second one in the same instance hardly is.
inline constexpr std::uint32_t kZeroAbortsMax = 2;

struct Counted {
  SiteCount of_site;
  hierarchy::HardwareCount of_domain;
};
[[nodiscard]] inline Counted counted_as(line::AbortStatus status) noexcept {
  using hierarchy::HardwareCount;
  using line::AbortCode;
  switch (line::code_of(status)) {
    case AbortCode::kFollow:
      return {SiteCount::kHardwareGate, HardwareCount::kAbortsFollow};
    case AbortCode::kUpperRuns:
      return {SiteCount::kHardwareGate, HardwareCount::kAbortsUpperRuns};
    case AbortCode::kPageMode:
      return {SiteCount::kHardwareGate, HardwareCount::kAbortsPageMode};
    case AbortCode::kExclusiveHeld:
    case AbortCode::kUpperHolds:
    case AbortCode::kLineLocked:
      return {SiteCount::kHardwareConflicts, HardwareCount::kAbortsConflict};
    case AbortCode::kNeedsPages:
    case AbortCode::kRetry:
    case AbortCode::kNoRoom:
    case AbortCode::kUser:
      return {SiteCount::kHardwareExplicit, HardwareCount::kAbortsExplicit};
    default:
      break;
  }
  if (line::has(status, line::kStatusCapacity))
    return {SiteCount::kHardwareCapacity, HardwareCount::kAbortsCapacity};
  if (line::has(status, line::kStatusConflict))
    return {SiteCount::kHardwareConflicts, HardwareCount::kAbortsConflict};
  if (status == line::AbortStatus{0}) return {SiteCount::kHardwareZero, HardwareCount::kAbortsZero};
  return {SiteCount::kHardwareOther, HardwareCount::kAbortsOther};
}

}  // namespace tmh::detail
