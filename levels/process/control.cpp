// levels/process/control.cpp -- slots, the lock of commits, being alone.
#include "levels/process/control.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "levels/process/ground/kernel_call.h"
#include "levels/process/heap/allocator.h"
#include "levels/process/log.h"
#include "levels/process/memory.h"
#include "levels/process/own_pages.h"
#include "platform/futex.h"
#include "platform/patience.h"

namespace tmh::itm::pages {

namespace {

platform::LockTag own_tag() noexcept {
  // relaxed: this task's
  return platform::lock_tag(self_slot, self().incarnation.load(std::memory_order_relaxed));
}

bool is_holder_alive(void *, platform::LockTag holder) noexcept {
  const std::uint32_t slot = platform::slot_of(holder);
  if (slot >= kTasksMax) return false;
  const Slot &each = control->slots[slot];
  return platform::lock_tag(slot, each.incarnation.load(std::memory_order_acquire)) == holder &&
         is_alive(slot);
}

constexpr long kLookNs = 20'000'000;  // after which a waiter looks whether another task lives

}  // namespace

CommitLock::CommitLock() noexcept {
  if (control->lock.lock(own_tag(), is_holder_alive, nullptr) == platform::Locked::kInherited)
    Log::repair();
}
CommitLock::~CommitLock() { control->lock.unlock(); }

bool is_alive(std::uint32_t slot) noexcept {
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
  for (std::uint32_t i = 0; i < high; ++i)
    least = std::min(least, control->slots[i].pin.load(std::memory_order_seq_cst));
  return least;
}

namespace {

// A task that died inside, and that no thread waits for, is found here.
void wait_until_outside(std::uint32_t slot) noexcept {
  platform::Patience patience;
  const std::uint64_t start = platform::monotonic_ns();
  std::uint64_t looked = start;
  Slot &each = control->slots[slot];
  for (std::uint64_t pin; (pin = each.pin.load(std::memory_order_acquire)) != kOutside;) {
    const std::uint64_t now = platform::monotonic_ns();
    if (now - looked > static_cast<std::uint64_t>(kLookNs)) {
      looked = now;
      // Another task may have got the slot since.
      if (!is_alive(slot)) {
        OwnPages::forget_dead(slot);
        each.pin.compare_exchange_strong(pin, kOutside);
      }
    }
    OwnPages::answer();
    patience.pause(now - start);
  }
}

void wait_for_all() noexcept {
  const std::uint32_t high = control->high.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < high; ++i)
    if (i != self_slot) wait_until_outside(i);
}

}  // namespace

void be_alone() noexcept {
  for (;;) {
    std::uint32_t expected = 0;
    if (control->alone.compare_exchange_strong(expected, self_slot + 1)) break;
    wait_while_another_is_alone();
  }
  wait_for_all();
}

bool try_be_alone() noexcept {
  if (is_alone()) return true;
  std::uint32_t expected = 0;
  if (!control->alone.compare_exchange_strong(expected, self_slot + 1)) return false;
  wait_for_all();
  return true;
}

void end_alone() noexcept {
  std::uint32_t own = self_slot + 1;
  if (control->alone.compare_exchange_strong(own, 0)) platform::futex_wake(control->alone);
}

bool is_alone() noexcept {
  // relaxed: only this task stores its own
  return control->alone.load(std::memory_order_relaxed) == self_slot + 1;
}

void wait_while_another_is_alone() noexcept {
  for (;;) {
    const std::uint32_t seen = control->alone.load(std::memory_order_acquire);
    if (seen == 0 || seen == self_slot + 1) return;
    OwnPages::answer();
    // Of a dead one, forget_dead() ends it.
    static_cast<void>(platform::futex_wait(control->alone, seen, kLookNs));
  }
}

bool make_control() noexcept {
  void *const memory = Memory::map_shared(sizeof(Control));
  if (memory == nullptr) return false;
  control = static_cast<Control *>(memory);
  for (Slot &each : control->slots) each.pin.store(kOutside, std::memory_order_relaxed);
  return true;
}

void name_self(std::uint32_t slot) noexcept {
  self_slot = slot;
  Slot &own = control->slots[slot];
  platform::ProcessId id;
  static_cast<void>(platform::this_process(&id));
  own.start_time = id.start_time;
  own.stack_start = id.stack_start;
  own.pin.store(kOutside, std::memory_order_relaxed);
  own.pid.store(id.pid, std::memory_order_release);
}

int take_slot() noexcept {
  for (std::uint32_t i = 1; i < kTasksMax; ++i) {
    Slot &each = control->slots[i];
    std::uint32_t expected = 0;
    if (each.is_used.load(std::memory_order_relaxed) != 0 ||
        !each.is_used.compare_exchange_strong(expected, 1))
      continue;
    if (each.faults_file.load(std::memory_order_relaxed) == 0) {
      const int file = fcntl(Memory::home_file(), F_DUPFD_CLOEXEC, 0);
      if (file < 0) {
        each.is_used.store(0, std::memory_order_release);
        return -1;
      }
      each.faults_file.store(file + 1, std::memory_order_relaxed);
    }
    each.pid.store(0, std::memory_order_relaxed);
    each.incarnation.fetch_add(1, std::memory_order_release);
    each.last_commit.store(0, std::memory_order_relaxed);
    each.is_wanted.store(0, std::memory_order_relaxed);
    each.is_stack_shared.store(0, std::memory_order_relaxed);
    std::uint32_t high = control->high.load(std::memory_order_relaxed);
    while (high < i + 1 && !control->high.compare_exchange_weak(high, i + 1)) {
    }
    return static_cast<int>(i);
  }
  return -1;
}

namespace {

void forget(int slot) noexcept {
  Slot &each = control->slots[slot];
  std::uint32_t alone = static_cast<std::uint32_t>(slot) + 1;
  if (control->alone.compare_exchange_strong(alone, 0)) platform::futex_wake(control->alone);
  OwnPages::forget_dead(static_cast<std::uint32_t>(slot));
  Memory::forget_holder(static_cast<std::uint32_t>(slot));
  each.pin.store(kOutside, std::memory_order_release);
}

}  // namespace

void forget_dead(int slot) noexcept {
  // First: its lock is inherited by the next to want it.
  control->slots[slot].pid.store(-1, std::memory_order_release);
  // What it was publishing is complete before a task joins it: that one reads home, plainly.
  { const CommitLock lock; }
  forget(slot);
}

void free_slot(int slot) noexcept {
  Slot &each = control->slots[slot];
  each.pid.store(-1, std::memory_order_release);
  forget(slot);
  heap_slot_freed(slot);
  const std::int32_t file = each.faults_file.load(std::memory_order_relaxed);
  if (file != 0) kernel_call(SYS_dup3, Memory::home_file(), file - 1, O_CLOEXEC, 0, 0, 0);
  each.is_used.store(0, std::memory_order_release);
}

}  // namespace tmh::itm::pages
