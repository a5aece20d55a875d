// levels/page/shared/reaper.cpp -- cleaning up after the dead.
#include "levels/page/shared/reaper.h"

#include "levels/page/shared/turn.h"
#include "observe/planted.h"
#include "observe/steps.h"
#include "platform/assert.h"

namespace tmh::page {

using observe::Step;
using observe::step;
using storage::Count;
using storage::kNoPin;

namespace {
// Looking after the dead costs 20 us per suspect: often enough for the second of docs/design.md 8,
// seldom enough to be free.
constexpr std::uint64_t kReapPeriodNs = 100'000'000;
constexpr std::uint64_t kSuspectAfterNs = 50'000'000;
}  // namespace

void Reaper::repair(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  for (Estate *const estate : estates_) estate->repair(held);
}

// Nothing vouches for the links, pins and entries that are there.
void Reaper::start_over(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  for (std::uint32_t i = 0; i < memory_.participants_high(); ++i) {
    storage::Participant &other = memory_.participant(i);
    if (i == slot_) continue;
    other.pin.store(kNoPin, std::memory_order_relaxed);
    other.past.store(0, std::memory_order_relaxed);
    if (other.state.load(std::memory_order_relaxed) > 1)
      other.state.store(0, std::memory_order_relaxed);
  }
  repair(held);
}

void Reaper::mend(const DomainLock::Held &held, DomainLock::Context context,
                  platform::Locked how) noexcept {
  TMH_ASSERT(held.is_valid());
  // In a handler no file can be opened: what is unknown here stays unlinked, and repair_again stays
  // set for the next holder.
  if (context == DomainLock::Context::kNormal) (void)memory_.open_segments();
  repair(held);
  memory_.participant(slot_).add(Count::kLockRecoveries,
                                 how == platform::Locked::kInherited ? 1 : 0);
  next_look_ns_.store(0, std::memory_order_relaxed);
}

void Reaper::reap(const DomainLock::Held &held, std::uint32_t slot) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(slot != slot_ && slot < storage::kParticipantsMax);
  step(Step::kReapStart);
  finish_reaping(held, slot);
  storage::Participant &dead = memory_.participant(slot);
  DomainState &state = memory_.state();
  if (dead.is_counted_running() && !observe::is_planted(observe::Planted::kDeathUncounted))
    dead.add(storage::abort_count(AbortCause::kDied),
             observe::is_planted(observe::Planted::kDeathCountedTwice) ? 2 : 1);
  // Its turn and its record go last: estates may read them.
  for (Estate *const estate : estates_) estate->settle(held, slot);
  Turn::free_of(state, slot);
  dead.instance.store(0, std::memory_order_relaxed);
  dead.pin.store(kNoPin, std::memory_order_release);
  count_reaped(held, slot);
  step(Step::kReapCounted);
  dead.state.store(0, std::memory_order_release);
  std::atomic_signal_fence(
      std::memory_order_seq_cst);  // death in between: counted, and the slot free
  state.reaping = 0;
  step(Step::kReapDone);
}

// A participant that died while reaping has perhaps counted that death, and not freed the slot: it
// comes first.
void Reaper::finish_reaping(const DomainLock::Held &held, std::uint32_t wanted) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(wanted < storage::kParticipantsMax);
  DomainState &state = memory_.state();
  const auto slot = static_cast<std::uint32_t>(state.reaping_slot);
  if (state.reaping == 0 || slot == wanted || slot >= memory_.participants_high()) return;
  const storage::Participant &dead = memory_.participant(slot);
  // Its slot may be free by now, or another's.
  if (dead.incarnation.load(std::memory_order_relaxed) == state.reaping && dead.is_gone())
    reap(held, slot);
  state.reaping = 0;
}

// Each death once: the new total is there before the intent, and storing it twice is once.
void Reaper::count_reaped(const DomainLock::Held &held, std::uint32_t slot) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = memory_.state();
  const std::uint64_t incarnation =
      memory_.participant(slot).incarnation.load(std::memory_order_relaxed);
  if (state.reaping != incarnation) {
    state.reaped_next = state.reaped + 1;
    state.reaping_slot = slot;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // death in between: not begun
    state.reaping = incarnation;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // death in between: begun, and done again
  }
  state.reaped = state.reaped_next;
}

void Reaper::reap_dead(const DomainLock::Held &held) noexcept {
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t i = 0; i < high; ++i) {
    storage::Participant &other = memory_.participant(i);
    if (i == slot_ || !other.is_gone()) continue;
    reap(held, i);
  }
}

void Reaper::look_at_suspects(const DomainLock::Held &held, std::uint64_t now) noexcept {
  TMH_ASSERT(held.is_valid());
  next_look_ns_.store(now + kReapPeriodNs, std::memory_order_relaxed);
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t i = 0; i < high; ++i) {
    storage::Participant &other = memory_.participant(i);
    // A query of the past holds its moment before it has an instance.
    const bool runs = other.instance.load(std::memory_order_relaxed) != 0 ||
                      other.pin.load(std::memory_order_relaxed) != kNoPin ||
                      other.past.load(std::memory_order_relaxed) != 0;
    if (i == slot_ || !runs) continue;
    if (now < other.begin_ns.load(std::memory_order_relaxed) + kSuspectAfterNs || !other.is_gone())
      continue;
    reap(held, i);
  }
}

}  // namespace tmh::page
