// platform/asymmetric_fence.h -- a fence in two halves, of which the one that is passed often costs
// nothing.
// Ordering:  one thread stores, passes light_fence() and loads; another one stores, passes
//            heavy_fence() and loads. At least one of them loads what the other has stored. Nothing
//            is said of two light ones.
// Contexts:  light_fence() is async-signal-safe. Threads of one process only.
// Source:    membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED.
#pragma once

#include <atomic>

#include "platform/fence.h"

namespace tmh::platform {

namespace detail {
// Set before main(); until then, and without it, both halves are full fences.
extern bool has_membarrier;
}  // namespace detail

inline void light_fence() noexcept {
  if (detail::has_membarrier) [[likely]]
    // The other half makes it one of the processor's.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    fence(std::memory_order_seq_cst);
}

// A system call, which interrupts the cores that run this process.
void heavy_fence() noexcept;

}  // namespace tmh::platform
