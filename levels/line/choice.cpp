// levels/line/choice.cpp -- the choice.
#include "levels/line/choice.h"

#include "levels/line/rtm_detection.h"
#include "platform/failure.h"

namespace tmh::line {

Errc choose_line(LineChoice wanted, LineChoice *chosen, std::string *reason) noexcept {
  switch (wanted) {
    case LineChoice::kSoftware:
      *chosen = LineChoice::kSoftware;
      *reason = "software lines are used because they were demanded";
      return Errc::kOk;
    case LineChoice::kAuto:
    case LineChoice::kRtm: {
      const RtmReport &rtm = detect_rtm();
      if (wanted == LineChoice::kRtm && !rtm.is_usable)
        return platform::fail(Errc::kRtmUnavailable, rtm.reason);
      *chosen = rtm.is_usable ? LineChoice::kRtm : LineChoice::kSoftware;
      *reason = rtm.reason;
      return Errc::kOk;
    }
  }
  return platform::fail(Errc::kBadLevels, std::string("right values: ") + line_values());
}

}  // namespace tmh::line
