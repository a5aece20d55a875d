// platform/rtm_emulation/publish.h -- a publication that SIGKILL of its process does not cut in two.
// Shape:     alone in the domain: the thread publishes itself. With other processes: a helper process that shares the address space (clone
//            with CLONE_VM, without CLONE_THREAD) does, so that killing the program does not kill it.
// Invariant: the helper takes over the commit lock before its first store; if somebody has recovered the lock meanwhile, it stores nothing.
// Limits:    a signal to the whole process group reaches the helper, too.
#pragma once

#include <cstdint>

namespace tmh::rtm {

// REQUIRES the commit lock; releases it. False: nothing was published, because the lock was lost.
[[nodiscard]] bool publish_and_unlock(std::uint32_t slot, void (*publish)(void *), void *argument) noexcept;

}  // namespace tmh::rtm
