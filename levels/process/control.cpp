// levels/process/control.cpp -- shared memory, and what all tasks read of each other's slots.
#include "levels/process/control.h"

#include <sys/mman.h>

#include <algorithm>

#include "platform/process.h"

namespace tmh::itm::pages {

std::uint32_t own_slot() noexcept { return self_slot; }

void *reserve_shared(std::size_t bytes) noexcept {
  TMH_ASSERT(bytes != 0);
  void *const memory = raw_mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

bool is_alive(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kTasksMax);
  const Slot &each = control->slots[slot];
  // acquire: the other fields were stored before
  const std::int32_t pid = each.pid.load(std::memory_order_acquire);
  if (pid < 0) return false;
  if (pid == 0) return each.is_used.load(std::memory_order_relaxed) != 0;
  return platform::alive({pid, each.start_time, each.stack_start});
}

std::uint64_t least_pin() noexcept {
  std::uint64_t least = kOutside;
  const std::uint32_t high = control->high.load(std::memory_order_acquire);
  TMH_ASSERT(high <= kTasksMax);
  for (std::uint32_t i = 0; i < high; ++i)
    least = std::min(least, control->slots[i].pin.load(std::memory_order_seq_cst));
  return least;
}

bool make_control() noexcept {
  void *const memory = reserve_shared(sizeof(Control));
  if (memory == nullptr) return false;
  TMH_ASSERT(control == nullptr &&
             reinterpret_cast<std::uintptr_t>(memory) % alignof(Control) == 0);
  control = static_cast<Control *>(memory);
  for (Slot &each : control->slots) each.pin.store(kOutside, std::memory_order_relaxed);
  return true;
}

void name_self(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kTasksMax && !is_running_inside);
  self_slot = slot;
  Slot &own = control->slots[slot];
  TMH_ASSERT(own.is_used.load(std::memory_order_relaxed) != 0);
  platform::ProcessId id;
  static_cast<void>(platform::this_process(&id));
  own.start_time = id.start_time;
  own.stack_start = id.stack_start;
  own.pin.store(kOutside, std::memory_order_relaxed);
  own.pid.store(id.pid, std::memory_order_release);
}

}  // namespace tmh::itm::pages
