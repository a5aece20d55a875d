// hierarchy/transaction/back_off.h -- the wait after an attempt that failed, at either level.
// Shape:     random in [0, backoff_ns_max()). Short waits spin: the kernel makes a sleep of 2 us
//            one of 80, and a participant that holds up a group commit for so long holds up all in
//            it.
// Contexts:  outside of instances; not in handlers.
// Source:    thesis, section 3.3.
#pragma once

#include <cstdint>

#include <tmh/options.hpp>

namespace tmh::detail {

// `attempts` have failed in a row; `others_progressed`: another instance has committed since the
// last one.
void back_off(const Policy &policy, std::uint32_t attempts, bool others_progressed) noexcept;

}  // namespace tmh::detail
