// rtm_emulator/control.h -- start, and the knobs of this process.
// Contexts:  start(): normal code. current_knobs(): everywhere.
#pragma once

#include "rtm_emulator/policy.h"

namespace tmh::rtm {

// A copy: a transaction keeps its knobs to its end.
[[nodiscard]] Knobs current_knobs() noexcept;
[[nodiscard]] bool is_running() noexcept;

}  // namespace tmh::rtm
