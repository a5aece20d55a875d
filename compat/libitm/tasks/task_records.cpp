#include "compat/libitm/tasks/task_records.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "compat/libitm/tasks/thread_images.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"
#include "platform/futex.h"

namespace tmh::itm::pages {

std::int32_t kernel_pid() noexcept { return static_cast<std::int32_t>(syscall(SYS_getpid)); }

bool is_task() noexcept { return is_started() && own_pid == kernel_pid(); }

pthread_t thread_of(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kTasksMax);
  return slot == 0 ? tasks->main_thread : reinterpret_cast<pthread_t>(thread_pointer_of(slot));
}

TaskRecord *record_of(pthread_t thread) noexcept {
  if (thread == tasks->main_thread) return &tasks->records[0];
  const Range stacks = stacks_range();
  const auto offset = static_cast<std::uintptr_t>(thread) - stacks.begin;
  const std::uintptr_t slot = offset / kStackSlot;
  return slot == 0 || slot >= kTasksMax ? nullptr : &tasks->records[slot];
}

void TaskRecord::set_life(Life next) noexcept {
  TMH_ASSERT(may_follow(next, life()));
  life_word.store(static_cast<std::uint32_t>(next), std::memory_order_release);
  platform::futex_wake(life_word);
}

void free_if_over(TaskRecord &record) noexcept {
  if (record.claim.load(std::memory_order_acquire) != Claim::kDone) return;
  auto gone = static_cast<std::uint32_t>(Life::kGone);
  // acquire: the slot's memory is as its task left it
  if (record.life_word.compare_exchange_strong(gone, static_cast<std::uint32_t>(Life::kFree),
                                               std::memory_order_acq_rel))
    free_slot(static_cast<int>(slot_of(record)));
}

}  // namespace tmh::itm::pages
