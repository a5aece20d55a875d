// levels/page/shared/turn.cpp -- waiting for the domain's turn to commit alone, taking and leaving
// it.
#include "levels/page/shared/turn.h"

#include "platform/futex.h"

namespace tmh::page {

namespace {
// A turn holder commits within a few instances; 10 waits of 20 ms bound what a stopped one can cost
// others.
constexpr long kTurnWaitNs = 20'000'000;
constexpr int kTurnWaitsMax = 10;
}  // namespace

void Turn::take() noexcept {
  DomainState &state = memory_.state();
  for (int wait_count = 0; wait_count < kTurnWaitsMax; ++wait_count) {
    std::uint32_t turn = 0;
    if (state.turn.compare_exchange_strong(turn, slot_ + 1, std::memory_order_relaxed) ||
        turn == slot_ + 1) {
      memory_.participant(slot_).add(storage::Count::kTurns, 1);
      return;
    }
    wait(turn);
  }
}

bool Turn::is_asked_to_end() const noexcept {
  const storage::Participant &own = memory_.participant(slot_);
  const std::uint64_t instance = own.instance.load(std::memory_order_relaxed);
  // relaxed: what it means is looked at under the domain lock
  return instance != 0 && own.failed_instance.load(std::memory_order_relaxed) == instance;
}

bool Turn::take_for_good() noexcept {
  DomainState &state = memory_.state();
  for (int wait_count = 0;; ++wait_count) {
    std::uint32_t turn = state.turn.load(std::memory_order_relaxed);
    const bool is_free =
        turn == 0 || turn == slot_ + 1 || (!is_irrevocable(turn) && wait_count >= kTurnWaitsMax);
    if (is_asked_to_end()) return false;
    if (!is_free)
      wait(turn);
    else if (state.turn.compare_exchange_strong(turn, kIrrevocable | (slot_ + 1),
                                                std::memory_order_relaxed))
      return true;
  }
}

bool Turn::is_holder_alive(std::uint32_t turn) const noexcept {
  const std::uint32_t holder = holder_of(turn);
  return holder < storage::kParticipantsMax && memory_.participant(holder).is_alive();
}

// What a dead holder leaves is taken away under the lock, where its slot cannot pass to a
// participant that takes the turn, too: the word would be the same.
void Turn::wait(std::uint32_t turn) noexcept {
  TMH_ASSERT(turn != 0);
  DomainState &state = memory_.state();
  if (!platform::futex_wait(state.turn, turn, kTurnWaitNs) || is_holder_alive(turn)) return;
  const DomainLock::Held held = lock_.take();
  if (!is_holder_alive(turn))
    state.turn.compare_exchange_strong(turn, 0, std::memory_order_relaxed);
}

void Turn::free_of(DomainState &state, std::uint32_t slot) noexcept {
  std::uint32_t turn = state.turn.load(std::memory_order_relaxed);
  if (turn == 0 || holder_of(turn) != slot) return;
  if (state.turn.compare_exchange_strong(turn, 0, std::memory_order_relaxed))
    platform::futex_wake(state.turn);
}

DomainLock::Held Turn::take_lock_in_turn() noexcept {
  for (int wait_count = 0;; ++wait_count) {
    DomainLock::Held held = lock_.take();
    const std::uint32_t turn = memory_.state().turn.load(std::memory_order_relaxed);
    if (turn == 0 || holder_of(turn) == slot_ ||
        (!is_irrevocable(turn) && wait_count >= kTurnWaitsMax) || is_asked_to_end())
      return held;
    held.release();
    wait(turn);
  }
}

}  // namespace tmh::page
