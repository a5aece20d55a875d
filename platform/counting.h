// platform/counting.h -- does this build count? Every library does but the one that bench/overhead measures counting against.
// Contexts:  everywhere.
#pragma once

namespace tmh::platform {

#ifdef TMH_NO_COUNTERS  // cmake/bench.cmake
inline constexpr bool kCounts = false;
#else
inline constexpr bool kCounts = true;
#endif

}  // namespace tmh::platform
