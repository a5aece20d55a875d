// observe/counting.h -- is anything counted? A build without counters (-DTMH_COUNTERS=OFF) exists
// to measure what they cost, and for nothing else: totals are 0 then, and tests that look at them
// fail.
#pragma once

namespace tmh::observe {

#ifdef TMH_NO_COUNTERS
inline constexpr bool kCounts = false;
#else
inline constexpr bool kCounts = true;
#endif

}  // namespace tmh::observe
