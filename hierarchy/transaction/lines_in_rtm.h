// hierarchy/transaction/lines_in_rtm.h -- the attempts of a site's instrumented update in RTM,
// beside software lines.
// Shape:     no state of its own: Current::hardware is the attempt. What RTM does not run goes on
//            on software lines, which know what to wait for; the site learns how often to try.
// Control:   as hardware_attempts.h.
// Source:    hierarchy/exchange/PROTOCOL.md, "Lines in RTM"; Intel SDM vol. 1, chapter 16.
#pragma once

#include "hierarchy/transaction/site_instance.h"
#include "levels/line/abort_status.h"

namespace tmh::detail {

class LinesInRtm {
 public:
  // True: inside the transaction. False: the attempt is one on software lines.
  [[nodiscard]] static bool begin(SiteInstance &instance);
  // Commits.
  static void end(SiteInstance &instance);

 private:
  enum class Then : std::uint8_t { kAgain, kInSoftware, kInSoftwareFromNowOn };
  [[nodiscard]] static Then after(line::AbortStatus status, std::uint32_t *tries,
                                  std::uint32_t *zeros) noexcept;
  static void count(SiteInstance &instance, line::AbortStatus status) noexcept;
};

}  // namespace tmh::detail
