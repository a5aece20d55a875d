// hierarchy/exchange/ask_to_abort.cpp -- failing the running instance of another participant, from
// outside.
#include "hierarchy/exchange/ask_to_abort.h"

namespace tmh::hierarchy {

Asked fail_running(const page::DomainLock::Held &held, page::SharedState &memory,
                   storage::Participant &other, std::uint64_t instance) noexcept {
  TMH_ASSERT(held.is_valid());
  if (instance == 0) return Asked::kEnded;
  if (other.is_query.load(std::memory_order_relaxed) != 0) return Asked::kQuery;
  const std::uint32_t turn = memory.state().turn.load(std::memory_order_relaxed);
  if (page::is_irrevocable(turn) && &other == &memory.participant(page::holder_of(turn)))
    return Asked::kIrrevocable;
  // release: pairs with the acquire in Snapshot::is_valid()
  other.failed_instance.store(instance, std::memory_order_release);
  return Asked::kFailed;
}

Asked ask_to_abort(page::Engine &engine, std::uint32_t slot, std::uint64_t incarnation,
                   std::uint64_t instance) noexcept {
  page::SharedState &memory = engine.ours().memory;
  storage::Participant &other = memory.participant(slot);
  const page::DomainLock::Held held = engine.lock_domain();
  // A slot changes hands under the domain lock only.
  const bool is_it = other.state.load(std::memory_order_relaxed) != 0 &&
                     other.incarnation.load(std::memory_order_relaxed) == incarnation &&
                     other.instance.load(std::memory_order_relaxed) == instance;
  if (!is_it) return Asked::kEnded;
  const Asked asked = fail_running(held, memory, other, instance);
  // relaxed: nothing is published with it
  if (asked == Asked::kQuery) other.asked_instance.store(instance, std::memory_order_relaxed);
  return asked;
}

Asked ask_to_abort(line::LineContextV1 &context, line::Owner owner, std::uint64_t status) noexcept {
  // acquire: pairs with the release that made it PENDING
  std::uint64_t seen = context.status.load(std::memory_order_acquire);
  if (context.owner.load(std::memory_order_relaxed) != owner ||
      line::number_of(seen) != line::number_of(status))
    return Asked::kEnded;
  // relaxed: nothing is published with it; the other's CAS at its commit point finds it
  if (line::state_of(seen) == line::State::kPending &&
      context.status.compare_exchange_strong(
          seen, line::status_word(line::number_of(seen), line::State::kFailed),
          std::memory_order_relaxed))
    return Asked::kFailed;
  switch (line::state_of(seen)) {
    case line::State::kFailed:
      return Asked::kFailed;
    case line::State::kCommitted:
      return Asked::kCommitted;
    default:
      return Asked::kEnded;
  }
}

}  // namespace tmh::hierarchy
