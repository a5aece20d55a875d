// hierarchy/transaction/hardware_attempts.h -- the attempts of a site's instance in RTM.
// Control:   an abort, wherever in the body, comes back in begin(), with memory (locals and the
//            stack too) and registers as they were there; so every line there below
//            `thread.begin()` that is not reached by a commit is outside a transaction.
// Source:    docs/design.md 4 and 5; hierarchy/exchange/PROTOCOL.md, "Hardware lines"; Intel SDM
//            vol. 1, chapter 16.
#pragma once

#include <cstdint>

#include "hierarchy/transaction/site_instance.h"

namespace tmh::detail {

class HardwareAttempts {
 public:
  // True: inside the transaction. False: the attempt is one of level 2.
  [[nodiscard]] bool begin(SiteInstance &instance);
  // Commits.
  static void end(SiteInstance &instance);
  // An update has committed at level 2. When the next one is to run in RTM, its pages must not have
  // to be found: they are known.
  static void give_pages_back(const SiteInstance &instance);

 private:
  // After an abort. True: in RTM again.
  [[nodiscard]] bool tries_again(SiteInstance &instance, line::AbortStatus status);
  // The gate has not let the attempt begin: waits until it may, or says why it will not.
  [[nodiscard]] Refusal await_gate(SiteInstance &instance, line::AbortStatus status);

  // Attempts that RTM aborted without a reason.
  std::uint32_t zeros_ = 0;
  // Attempts that the gate did not let begin, in a row.
  std::uint32_t gate_tries_ = 0;
};

}  // namespace tmh::detail
