// levels/process/for_tasks.cpp -- the beginning and the end of tasks.
#include "levels/process/for_tasks.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include "levels/process/commit_lock.h"
#include "levels/process/control.h"
#include "levels/process/copies.h"
#include "levels/process/ground/ground.h"
#include "levels/process/heap/heap.h"
#include "levels/process/holds.h"
#include "levels/process/memory.h"
#include "levels/process/own_pages.h"
#include "levels/process/requests.h"
#include "levels/process/rights.h"
#include "levels/process/task_functions.h"
#include "levels/process/transaction.h"
#include "levels/process/view.h"
#include "platform/futex.h"

extern "C" void *__libc_stack_end;  // of the loader: where the main thread's frames begin

namespace tmh::itm::pages {

void start_view() noexcept {
  if (has_view) [[likely]]
    return;
  if (!task_functions.prepare()) refuse("no memory for threads");
  start_rights();
  std::uint64_t clock = 0;
  if (!View::enter(&clock)) refuse("userfaultfd(2) or memory is missing");
  TMH_ASSERT(has_started && self_slot == 0);
  has_view = true;
  own_thread = __builtin_thread_pointer();
  guard_effects();
  Transaction::enter(clock, reinterpret_cast<std::uintptr_t>(__libc_stack_end));
  set_rights(Rights::kPlain);
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
    TMH_ASSERT(each.pin.load(std::memory_order_relaxed) == kOutside);
    std::uint32_t high = control->high.load(std::memory_order_relaxed);
    while (high < i + 1 && !control->high.compare_exchange_weak(high, i + 1)) {
    }
    return static_cast<int>(i);
  }
  return -1;
}

namespace {

void forget(int slot) noexcept {
  TMH_ASSERT(0 < slot && static_cast<std::uint32_t>(slot) < kTasksMax);
  TMH_ASSERT(static_cast<std::uint32_t>(slot) != self_slot);
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
  TMH_ASSERT(each.is_used.load(std::memory_order_relaxed) != 0);
  each.pid.store(-1, std::memory_order_release);
  forget(slot);
  heap_slot_freed(slot);
  const std::int32_t file = each.faults_file.load(std::memory_order_relaxed);
  if (file != 0) kernel_call(SYS_dup3, Memory::home_file(), file - 1, O_CLOEXEC, 0, 0, 0);
  each.is_used.store(0, std::memory_order_release);
}

void before_clone(int slot) noexcept {
  TMH_ASSERT(!is_running_inside);
  start_view();
  const Busy busy;
  Copies::drop_all();
  View::open_stack(static_cast<std::uint32_t>(slot));
}
void after_clone(int slot) noexcept {
  const Busy busy;
  View::close_stack(static_cast<std::uint32_t>(slot));
}

void enter_task(int slot) noexcept {
  TMH_ASSERT(has_view && 0 < slot && static_cast<std::uint32_t>(slot) < kTasksMax);
  control->slots[slot].pid.store(0, std::memory_order_relaxed);
  name_self(static_cast<std::uint32_t>(slot));
  std::uint64_t clock = 0;
  if (!View::enter(&clock)) refuse("a thread cannot have page tables of its own");
  own_thread = __builtin_thread_pointer();
  guard_effects();
  set_rights(Rights::kPlain);
  Transaction::enter(clock, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) + 16);
}

void leave_task() noexcept {
  TMH_ASSERT(self_slot != 0);
  Transaction::leave();
  const Busy busy;
  Holds::give_up(false);
}

}  // namespace tmh::itm::pages
