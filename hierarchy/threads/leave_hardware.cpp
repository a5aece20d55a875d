// hierarchy/threads/leave_hardware.cpp -- ending an attempt in RTM for what only level 2 can do.
#include "hierarchy/threads/leave_hardware.h"

#include "hierarchy/threads/current.h"
#include "levels/line/rtm.h"

namespace tmh::detail {

void leave_hardware(Need need) noexcept {
  if (current().hardware.depth != 0) line::rtm_abort(need);
}

bool runs_in_hardware(const LineDomain *domain) noexcept {
  const HardwareRun &run = current().hardware;
  return run.depth != 0 && run.domain == domain && run.on_lines == nullptr;
}

}  // namespace tmh::detail
