// platform/cache_geometry.h -- this machine's first-level data cache, and the one behind it, as
// hwloc or the kernel tell.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <cstdint>

namespace tmh::platform {

struct CacheGeometry {
  std::uint64_t bytes = 0;  // 0: unknown
  std::uint32_t ways = 0;
  std::uint32_t line_bytes = 0;
};

// level: 1 (data) or 2, of processor 0. From /sys/devices/system/cpu, which is what hwloc reads on
// Linux: the library itself needs no hwloc.
[[nodiscard]] CacheGeometry data_cache(unsigned level) noexcept;

}  // namespace tmh::platform
