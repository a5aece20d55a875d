// levels/page/shared/access_table.cpp -- registering accesses and failing instances.
#include "levels/page/shared/access_table.h"

#include <algorithm>

#include "platform/assert.h"
#include "platform/process.h"

namespace tmh::page {

namespace {
// An opponent older than this is looked up in /proc before an instance fails because of it: the
// thesis's self-abort and oldest-wins wait for ever for a crashed process (3.3). Younger ones are
// not, because a look-up costs 20 us.
constexpr std::uint64_t kAskAfterNs = 10'000'000;
}  // namespace

bool AccessTable::is_pending(const AccessEntry &entry) const noexcept {
  const storage::Participant &owner = memory_.participant(entry.owner);
  return owner.instance.load(std::memory_order_relaxed) == entry.instance && entry.instance != 0 &&
         owner.failed_instance.load(std::memory_order_relaxed) != entry.instance;
}

bool AccessTable::may_be_dead(std::uint32_t participant) const noexcept {
  const storage::Participant &owner = memory_.participant(participant);
  const std::uint64_t age_ns =
      platform::coarse_ns() - owner.begin_ns.load(std::memory_order_relaxed);
  return age_ns > kAskAfterNs && owner.is_gone();
}

Slot AccessTable::allocate(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = memory_.state();
  if (state.free_access == 0) {
    const std::uint32_t from = state.access_capacity;
    const std::uint32_t more = std::max<std::uint32_t>(4096, from / 4);
    if (error_ = memory_.grow_accesses(held, from + more); error_ != Errc::kOk) return 0;
    state.access_capacity = from + more;
    for (Slot slot = from + more - 1; slot >= from; --slot) {
      memory_.access(slot).next_of_owner = state.free_access;
      state.free_access = slot;
    }
  }
  const Slot slot = state.free_access;
  state.free_access = memory_.access(slot).next_of_owner;
  return slot;
}

Touch AccessTable::add(const DomainLock::Held &held, PageId page, bool is_write,
                       ConflictPolicy policy) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = memory_.state();
  storage::Participant &self = memory_.participant(self_);
  if (error_ = memory_.reserve_meta(page); error_ != Errc::kOk) return Touch::kNoSpace;
  PageMeta &meta = memory_.meta(page);
  const std::uint64_t instance = self.instance.load(std::memory_order_relaxed);
  const std::uint32_t turn = state.turn.load(std::memory_order_relaxed) & ~kIrrevocable;

  std::uint64_t age_min = ~0ull, age_max = 0;
  bool conflict = false, against_turn = false;
  Slot own = 0;
  for (Slot slot = meta.accesses; slot != 0; slot = memory_.access(slot).next_on_page) {
    AccessEntry &entry = memory_.access(slot);
    if (entry.owner == self_ && entry.instance == instance) own = slot;
    if (entry.owner == self_ || !is_pending(entry) || (!is_write && entry.is_write == 0)) continue;
    storage::Participant &other = memory_.participant(entry.owner);
    if (may_be_dead(entry.owner)) {
      // Its reaper removes the rest.
      other.failed_instance.store(entry.instance, std::memory_order_relaxed);
      continue;
    }
    const std::uint64_t age = other.age.load(std::memory_order_relaxed);
    age_min = std::min(age_min, age);
    age_max = std::max(age_max, age);
    conflict = true;
    against_turn = against_turn || turn == entry.owner + 1;
  }
  if (conflict) {
    // An instance that has been aborted too often, or is irrevocable, holds the turn and wins under
    // every policy.
    Verdict verdict = resolve(policy, self.age.load(std::memory_order_relaxed), age_min, age_max);
    if (turn == self_ + 1) verdict = Verdict::kFailOthers;
    if (against_turn) verdict = Verdict::kFailSelf;
    if (verdict == Verdict::kFailSelf) return Touch::kSelfFailed;
    for (Slot slot = meta.accesses; slot != 0; slot = memory_.access(slot).next_on_page) {
      const AccessEntry &entry = memory_.access(slot);
      if (entry.owner == self_ || !is_pending(entry) || (!is_write && entry.is_write == 0))
        continue;
      // release: pairs with the acquire in the owner's validate(), which may run without the lock
      memory_.participant(entry.owner)
          .failed_instance.store(entry.instance, std::memory_order_release);
    }
  }
  if (own != 0) {
    memory_.access(own).is_write |= is_write ? 1u : 0u;
    return Touch::kGranted;
  }
  const Slot slot = allocate(held);
  if (slot == 0) return Touch::kNoSpace;
  memory_.access(slot) = AccessEntry{static_cast<std::uint64_t>(page),
                                     instance,
                                     self_,
                                     is_write ? 1u : 0u,
                                     meta.accesses,
                                     self.accesses.load(std::memory_order_relaxed)};
  self.accesses.store(slot, std::memory_order_relaxed);
  meta.accesses = slot;
  return Touch::kGranted;
}

void AccessTable::remove_all(const DomainLock::Held &held, std::uint32_t participant) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = memory_.state();
  storage::Participant &owner = memory_.participant(participant);
  for (Slot slot = owner.accesses.load(std::memory_order_relaxed); slot != 0;) {
    AccessEntry &entry = memory_.access(slot);
    const Slot next = entry.next_of_owner;
    owner.accesses.store(next, std::memory_order_relaxed);
    entry.instance = 0;
    if (!memory_.knows(PageId{entry.page})) {
      // Still linked from its page, which is out of reach here: a repair frees it.
      state.repair_again |= kRepairRest;
      slot = next;
      continue;
    }
    {
      Slot *link = &memory_.meta(PageId{entry.page}).accesses;
      while (*link != 0 && *link != slot) link = &memory_.access(*link).next_on_page;
      if (*link == slot) *link = entry.next_on_page;
    }
    entry.next_of_owner = state.free_access;
    state.free_access = slot;
    slot = next;
  }
}

void AccessTable::repair(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = memory_.state();
  const std::uint32_t high = memory_.participants_high();
  state.free_access = 0;
  for (std::uint32_t i = 0; i < high; ++i)
    memory_.participant(i).accesses.store(0, std::memory_order_relaxed);
  for (Slot slot = 1; slot < state.access_capacity; ++slot) {
    const PageId page{memory_.access(slot).page};
    // No store where nothing has been stored: entries that were never used name page 0, which may
    // have no block.
    if (memory_.knows(page) && memory_.meta_to_read(page).accesses != 0)
      memory_.meta(page).accesses = 0;
  }
  for (Slot slot = 1; slot < state.access_capacity; ++slot) {
    AccessEntry &entry = memory_.access(slot);
    storage::Participant &owner = memory_.participant(entry.owner);
    const bool living = entry.instance != 0 && entry.owner < high &&
                        owner.instance.load(std::memory_order_relaxed) == entry.instance &&
                        memory_.exists(PageId{entry.page});
    if (!living) {
      entry.instance = 0;
      entry.next_of_owner = state.free_access;
      state.free_access = slot;
      continue;
    }
    if (memory_.knows(PageId{entry.page})) {
      PageMeta &meta = memory_.meta(PageId{entry.page});
      entry.next_on_page = meta.accesses;
      meta.accesses = slot;
    } else {
      state.repair_again |= kRepairRest;  // its page comes later, with a participant that knows it
    }
    entry.next_of_owner = owner.accesses.load(std::memory_order_relaxed);
    owner.accesses.store(slot, std::memory_order_relaxed);
  }
}

}  // namespace tmh::page
