// tools/exit_code.h -- what the tmh command's exit status means. Numbers are frozen: scripts test
// them.
#pragma once

#include <sysexits.h>

#include <tmh/error.hpp>

namespace tmh::tools {

enum class Exit : int {
  kOk = 0,  // done; of log commands: the log ends cleanly
  // Log commands and check: it ends in a torn tail, which recovery cuts off; nothing acknowledged
  // is lost.
  kTorn = 1,
  kDamage = 2,    // a file of the domain is damaged, cut short, or gone
  kRefused = 3,   // anything else went wrong; the message names it
  kTooEarly = 4,  // recover: the wanted time lies before what can be restored here
  kTimedOut = 5,  // checkpoint, archive, backup, copy: --timeout has passed
  kUsage = 64     // the command line is wrong (EX_USAGE of sysexits.h)
};
static_assert(static_cast<int>(Exit::kUsage) == EX_USAGE && Exit::kTimedOut < Exit::kUsage);

[[nodiscard]] constexpr Exit exit_of(Errc code) noexcept {
  switch (code) {
    case Errc::kOk:
      return Exit::kOk;
    case Errc::kShortFile:
    case Errc::kCorrupt:
    case Errc::kFileShrunk:
    case Errc::kLogDamaged:
    case Errc::kLogMissing:
    case Errc::kControlMissing:
      return Exit::kDamage;
    default:
      return Exit::kRefused;
  }
}

}  // namespace tmh::tools
