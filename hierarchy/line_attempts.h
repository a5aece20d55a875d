// hierarchy/line_attempts.h -- the attempts of a site's instance on software lines.
// Shape:     no state of its own: Current::lines is the attempt.
// Source:    thesis, sections 2.1 and 6.2; docs/design.md 4.
#pragma once

#include "hierarchy/site_instance.h"

namespace tmh::detail {

class LineAttempts {
 public:
  // False: this thread gets no context at level 1, and the attempt is one of level 2.
  [[nodiscard]] static bool begin(SiteInstance &instance);
  // True: committed.
  [[nodiscard]] static bool end(SiteInstance &instance);
  // A LineAbort left the body.
  static void unwound(SiteInstance &instance);
  // False: the exception is one that the body has made of a LineAbort.
  [[nodiscard]] static bool threw(SiteInstance &instance);
  static void left_by_force(SiteInstance &instance);

 private:
  static void await_snapshot(SiteInstance &instance);
  static void count_undone(SiteInstance &instance, AbortCause cause) noexcept;
  static void failed(SiteInstance &instance);
  static void begin_again(SiteInstance &instance);
  static void sleep(SiteInstance &instance);
};

}  // namespace tmh::detail
