// platform/prefetch.h -- fetching a cache line before it is needed.
// Why not __builtin_prefetch: without -mprfchw gcc makes of its "for writing" a prefetch for
// reading, which leaves half of the work.
// Contexts:  everywhere. A hint: any address will do, and processors that do not know it ignore it.
#pragma once

namespace tmh::platform {

inline void prefetch_to_write(const void *address) noexcept {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char *>(address)));
}

}  // namespace tmh::platform
