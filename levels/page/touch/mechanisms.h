// levels/page/touch/mechanisms.h -- what bench/ablation takes away from a commit, to see what it is
// worth; beside use_vectors() of lines.h.
// Sharing:   one per process. relaxed: the bench sets it between instances.
// Contexts:  everywhere.
// Source:    EXCITE-VM, section 6.2.3 and figure 6.
#pragma once

#include <atomic>

namespace tmh::page {

// Does a wide commit look for conflicts before it fills its slots and takes the lock?
inline constinit std::atomic<bool> validates_ahead{true};

}  // namespace tmh::page
