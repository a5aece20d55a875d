// levels/line/choice.h -- which implementation of level 1 runs here.
#pragma once

#include <string>

#include <tmh/error.hpp>
#include <tmh/options.hpp>

namespace tmh::line {

// *chosen: kSoftware or kRtm; *reason: one sentence. kRtmUnavailable: RTM was demanded and does not
// work here; the detail is the detection's sentence. kBadLevels: no value of LineChoice. NOT
// async-signal-safe.
[[nodiscard]] Errc choose_line(LineChoice wanted, LineChoice *chosen, std::string *reason) noexcept;

}  // namespace tmh::line
