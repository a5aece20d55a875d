// levels/page/shared/domain_lock.cpp -- taking the domain's lock, also from a dead holder.
#include "levels/page/shared/domain_lock.h"

#include "levels/page/shared/shared_state.h"

namespace tmh::page {

using platform::Locked;

DomainLock::Held DomainLock::take(Context context) noexcept {
  DomainState &state = memory_.state();
  const Locked how = state.lock.lock(tag_, SharedState::holder_alive, &memory_);
  // A dead holder may have moved the clock and woken no sleeper.
  Held held(&state,
            how == Locked::kInherited ? Held::kMoved : state.clock.load(std::memory_order_relaxed));
  if (how == Locked::kInherited || state.repair_again != 0) [[unlikely]]
    heir_.mend(held, context, how);
  return held;
}

}  // namespace tmh::page
