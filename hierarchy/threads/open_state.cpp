// hierarchy/threads/open_state.cpp -- why a domain may not be used.
#include "hierarchy/threads/open_state.h"

#include "platform/failure.h"

namespace tmh::detail {

using platform::fail;

Errc OpenState::why_unusable() const noexcept {
  if (!is_of_this_process())
    return fail(Errc::kDetached,
                "this process was forked from a participant; open the domain here");
  return fail(Errc::kNotInitialized, "the domain is closed");
}

}  // namespace tmh::detail
