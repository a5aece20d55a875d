// hierarchy/threads/leave_hardware.h -- what a call of the library does that RTM cannot: it ends
// the attempt in RTM, for level 2, or software lines, to go on.
// Contexts:  in a body, at whatever level, and outside of instances.
#pragma once

#include <tmh/instance.hpp>

namespace tmh::detail {

class LineDomain;

// In RTM: aborts, and says that `need` was why. Else nothing.
void leave_hardware(Need need) noexcept;
// Does this thread run an instance of that domain in RTM, by plain loads and stores?
[[nodiscard]] bool runs_in_hardware(const LineDomain *domain) noexcept;

}  // namespace tmh::detail
