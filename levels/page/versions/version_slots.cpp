// levels/page/versions/version_slots.cpp -- reserving and freeing version slots.
#include "levels/page/versions/version_slots.h"

#include <algorithm>
#include <new>

#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::page {

VersionSlots::VersionSlots(SharedFiles &memory, std::uint32_t self, Role role)
    : memory_(memory), self_(self), role_(role) {
  TMH_ASSERT(self < storage::kParticipantsMax);
  if (role == Role::kKeepsSlots) reserved_.reserve(kReservedKept);
}

Errc VersionSlots::reserve(const DomainLock::Held &held, std::size_t count) noexcept {
  TMH_ASSERT(held.is_valid());
  // acquire: pairs with LogWriter::publish(). Who writes the log reads versions without the lock;
  // what was in free slots it had read before they were freed. That is known here by way of who
  // freed them and the lock, but ThreadSanitizer sees nothing of that where it was another process.
  (void)memory_.durable_clock();
  DomainState &state = memory_.state();
  try {
    if (count > reserved_.capacity()) reserved_.reserve(std::max(count, 2 * reserved_.capacity()));
  } catch (const std::bad_alloc &) {
    return Errc::kOutOfMemory;
  }
  while (reserved_.size() < count) {
    if (state.free_version == 0) TMH_TRY(grow(held, count - reserved_.size()));
    const Slot slot = state.free_version;
    VersionHead &head = memory_.version(slot);
    state.free_version = head.next_free;
    head.owner = self_;
    head.stamp.store(kReservedStamp, std::memory_order_relaxed);
    TMH_ASSERT(reserved_.size() < reserved_.capacity());
    reserved_.push_back(slot);
  }
  TMH_ASSERT(reserved_.size() >= count);
  return Errc::kOk;
}

// A quarter more each time (at least 1 MiB): growing stays amortised, and no large store doubles.
Errc VersionSlots::grow(const DomainLock::Held &held, std::size_t wanted) noexcept {
  DomainState &state = memory_.state();
  const std::uint32_t from = state.version_capacity.load(std::memory_order_relaxed);
  const auto more = static_cast<std::uint32_t>(std::max<std::size_t>({256, from / 4, wanted}));
  TMH_TRY(memory_.grow_versions(held, from + more));
  state.version_capacity.store(from + more, std::memory_order_relaxed);
  for (Slot slot = from + more - 1; slot >= from; --slot) free(slot);
  return Errc::kOk;
}

Slot VersionSlots::take_free(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  (void)memory_.durable_clock();  // as in reserve()
  DomainState &state = memory_.state();
  if (state.free_version == 0 && grow(held, 1) != Errc::kOk) return 0;
  const Slot slot = state.free_version;
  state.free_version = memory_.version(slot).next_free;
  return slot;
}

void VersionSlots::release(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  for (const Slot slot : reserved_) free(slot);
  reserved_.clear();
}

void VersionSlots::shrink(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = memory_.state();
  const Slot capacity = state.version_capacity.load(std::memory_order_relaxed);
  Slot end = capacity;
  while (end > kSlotsKept && memory_.version(end - 1).stamp.load(std::memory_order_relaxed) == 0)
    --end;
  if (capacity - end < kSlotsKept) return;
  // Capacity and free list first: death before the cut leaves a file that is longer than needed.
  state.version_capacity.store(end, std::memory_order_relaxed);
  state.free_version = 0;
  for (Slot slot = end - 1; slot > 0; --slot) {
    if (memory_.version(slot).stamp.load(std::memory_order_relaxed) == 0) free(slot);
  }
  memory_.shrink_versions(held, end);
}

void VersionSlots::release_of(const DomainLock::Held &held, std::uint32_t participant) noexcept {
  TMH_ASSERT(held.is_valid());
  for (Slot slot = 1; slot < memory_.state().version_capacity.load(std::memory_order_relaxed);
       ++slot) {
    VersionHead &head = memory_.version(slot);
    if (head.stamp.load(std::memory_order_relaxed) == kReservedStamp && head.owner == participant)
      free(slot);
  }
}

}  // namespace tmh::page
