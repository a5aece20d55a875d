// hierarchy/domain/history_rule.h -- what TMH_HISTORY asks for: 10s, 64MiB and both.
// Shape:     pure. A time with s, min or h, bytes with MiB or GiB; both with a comma between.
// Contexts:  not in handlers.
#pragma once

#include <string_view>

#include <tmh/error.hpp>
#include <tmh/past.hpp>

namespace tmh {

// *out is untouched after an error: kBadArgument. "off": none.
[[nodiscard]] Errc parse(std::string_view spec, History *out) noexcept;

namespace hierarchy {
[[nodiscard]] const char *history_values() noexcept;
}  // namespace hierarchy

}  // namespace tmh
