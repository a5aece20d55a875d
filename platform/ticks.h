// platform/ticks.h -- the time-stamp counter: half the price of the clock, a quarter of it on bare
// metal.
// Caveat:    the counters of all cores are taken for one that runs at one rate (constant_tsc,
//            nonstop_tsc); where they are not, a time is wrong, nothing else.
// Contexts:  async-signal-safe; ticks() also between XBEGIN and XEND.
#pragma once

#include <x86intrin.h>

#include <cstdint>

namespace tmh::platform {

[[nodiscard]] inline std::uint64_t ticks() noexcept { return __rdtsc(); }
// A difference of two in nanoseconds. The rate is measured against CLOCK_MONOTONIC over the
// process's first 10 ms, until then since it began.
[[nodiscard]] std::uint64_t ns_of_ticks(std::uint64_t difference) noexcept;

}  // namespace tmh::platform
