// compat/libitm/tasks/task_records.h -- what tasks know of each other as threads: which one runs in
// a slot, and how it ended.
// Shape:     one record a slot, in memory that all tasks share. Slot 0 is the main thread's.
// Invariant: (1) life goes round: free, being created, running, ended, gone, free. Only the task
//            itself says that it runs or has ended; only the undertaker, that it is gone.
//            (2) pid is the kernel's store, before the task's first instruction: so a creator that
//            dies leaves either no task, or one that is known.
//            (3) a slot is used again when its task is gone and no joiner can want its result.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdint>

#include <tmh/itm.h>

#include "levels/process/ground/ground.h"

namespace tmh::itm::pages {

enum class Life : std::uint32_t { kFree, kCreating, kRunning, kEnded, kGone };
// Invariant (1). Main has not been created; a task may die, or not come into being, at any time.
[[nodiscard]] constexpr bool may_follow(Life life, Life before) noexcept {
  switch (life) {
    case Life::kCreating:
      return before == Life::kFree;
    case Life::kRunning:
      return before == Life::kCreating || before == Life::kFree;
    case Life::kEnded:
      return before == Life::kRunning;
    case Life::kGone:
      return before == Life::kCreating || before == Life::kRunning || before == Life::kEnded;
    case Life::kFree:
      return before == Life::kGone;
  }
  return false;
}
// Whose business the result is.
enum class Claim : std::uint32_t { kJoinable, kJoining, kDone };

struct alignas(64) TaskRecord {
  std::atomic<std::uint32_t> life_word;  // a Life; a futex
  std::atomic<Claim> claim;
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> creator;  // a pid
  std::atomic<std::uint32_t> joins;   // the slot + 1 of the task that this one waits for
  std::atomic<int> signal;            // 0: it ended by itself
  void *value;                        // stored before life says kEnded or kGone
  void *(*routine)(void *);
  void *argument;
  sigset_t mask;

  // acquire: what the task stored before it said so
  [[nodiscard]] Life life() const noexcept {
    return static_cast<Life>(life_word.load(std::memory_order_acquire));
  }
  // release: a reader of it sees what was stored before; wakes its waiters
  void set_life(Life life) noexcept;
};
static_assert(sizeof(TaskRecord) % 64 == 0 && std::atomic<Claim>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == 4);  // futexes

struct TaskShared {
  TaskRecord records[kTasksMax];
  alignas(64) std::atomic<std::uint32_t> created;  // counts; the undertaker sleeps on it
  std::atomic<std::uint32_t> gone;                 // counts; creators without a slot sleep on it
  std::atomic<std::int32_t> main_pid;
  pid_t main_parent;
  pthread_t main_thread;
  Range main_stack;
  std::atomic<tmh_itm_thread_death> on_death;
  std::atomic<void *> on_death_argument;
};

inline TaskShared *tasks = nullptr;

// This process's number; 0: not main, nor a task.
inline std::int32_t own_pid = 0;
[[nodiscard]] std::int32_t kernel_pid() noexcept;
// The process that runs the calling task; its own children by fork() are none.
[[nodiscard]] bool is_task() noexcept;

// The slot's thread as programs know it.
[[nodiscard]] pthread_t thread_of(std::uint32_t slot) noexcept;
// Null: no task's; main has one.
[[nodiscard]] TaskRecord *record_of(pthread_t thread) noexcept;
[[nodiscard]] inline std::uint32_t slot_of(const TaskRecord &record) noexcept {
  TMH_ASSERT(tasks->records <= &record && &record < tasks->records + kTasksMax);
  return static_cast<std::uint32_t>(&record - tasks->records);
}
// The slot is given back when its task is gone and no joiner wants its result.
void free_if_over(TaskRecord &record) noexcept;

}  // namespace tmh::itm::pages
