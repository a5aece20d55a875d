// platform/probes.cpp -- probes that are no inline functions: so they are in the library, even while nobody calls them.
#include "platform/probes.h"

namespace tmh::platform::probe {

void mode_switch(std::uint64_t page, std::uint32_t from, std::uint32_t to) noexcept {
  TMH_PROBE3(mode_switch, page, from, to);
  record(TraceKind::kModeSwitch, kLines, page, to);
}

}  // namespace tmh::platform::probe
