// hierarchy/transaction/page_attempts.h -- the attempts of a site's instance at level 2.
// Sharing:   the thread's own.
// Source:    thesis, sections 2.1 and 6.2; docs/design.md 4.
#pragma once

#include <cstdint>

#include "hierarchy/transaction/site_instance.h"

namespace tmh::detail {

class PageAttempts {
 public:
  void begin(SiteInstance &instance);
  // True: committed.
  [[nodiscard]] bool end(SiteInstance &instance);
  // The body has asked for what a thread's view does not have: once more, on the process's.
  void failed_in_thread_view(SiteInstance &instance);
  void retried(SiteInstance &instance, const RetryNow &why);
  // False: its reads were not consistent, so the exception is to be forgotten.
  [[nodiscard]] bool threw(SiteInstance &instance);
  void left_by_force(SiteInstance &instance);

 private:
  // REQUIRES: it runs at level 2 still, and is about to end.
  void count_recalls(SiteInstance &instance) const noexcept;
  void count_time(SiteInstance &instance) const noexcept;

  // This attempt's begin.
  std::uint64_t begin_ticks_ = 0;
  std::uint64_t recalls_before_ = 0;
};

// Must this thread's instance end, because it needs the process's view?
[[nodiscard]] bool is_doomed_in_view() noexcept;

}  // namespace tmh::detail
