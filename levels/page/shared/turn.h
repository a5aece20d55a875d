// levels/page/shared/turn.h -- the domain's turn: its holder commits alone (starvation guard), or
// becomes irrevocable.
// Shape:     DomainState::turn: 0 free, else slot + 1 of the holder, with kIrrevocable when the
//            holder cannot abort.
// Sharing:   between processes. Others pass a holder that may abort after a bounded wait; an
//            irrevocable one only when it is dead.
// Contexts:  not in handlers.
// Source:    docs/design.md 4.
#pragma once

#include <cstdint>

#include "levels/page/shared/domain_lock.h"
#include "levels/page/shared/shared_state.h"
#include "platform/assert.h"

namespace tmh::page {

class Turn {
 public:
  // memory and lock outlive it.
  Turn(SharedState &memory, std::uint32_t slot, DomainLock &lock) noexcept
      : memory_(memory), slot_(slot), lock_(lock) {
    TMH_ASSERT(slot < storage::kParticipantsMax);
  }

  // Waits for the turn, and goes on without it when the wait has lasted long enough.
  void take() noexcept;
  // Of an instance that will be irrevocable: others do not pass it. The turn of a holder that may
  // abort is taken away when that does not end; the turn of an irrevocable one only when it is
  // dead. False: this instance has been failed by another one meanwhile.
  [[nodiscard]] bool take_for_good() noexcept;
  // Nothing, when another participant has it.
  void leave() noexcept { free_of(memory_.state(), slot_); }
  // The same of any participant: its own, or under the domain lock that of a dead one.
  static void free_of(DomainState &state, std::uint32_t slot) noexcept;
  // Takes the domain lock when no other participant has the turn, or its holder may be passed.
  DomainLock::Held take_lock() noexcept {
    DomainLock::Held held = lock_.take();
    if (memory_.state().turn.load(std::memory_order_relaxed) == 0) return held;
    held.release();
    return take_lock_in_turn();
  }

 private:
  DomainLock::Held take_lock_in_turn() noexcept;
  // Whoever has the turn may wait for what this instance has: it does not wait for the turn then.
  [[nodiscard]] bool is_asked_to_end() const noexcept;
  [[nodiscard]] bool is_holder_alive(std::uint32_t turn) const noexcept;
  void wait(std::uint32_t turn) noexcept;

  SharedState &memory_;
  const std::uint32_t slot_;
  DomainLock &lock_;
};

}  // namespace tmh::page
