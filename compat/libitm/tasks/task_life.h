// compat/libitm/tasks/task_life.h -- threads of the program as tasks: processes that share its
// memory by mappings, yet sound threads for the C library.
// Shape:     each slot has a thread's descriptor and TLS block, which the C library has made
//            (thread_images.h). A creator puts the image into the slot and clones onto it. All
//            tasks are children of main's process and die with it.
// Sharing:   a thread of main's process, the undertaker, waits for tasks' ends: a task killed by
//            SIGKILL, alone, counts as dead; one that ends of any other signal, or by exit(), ends
//            the whole program the same way.
// Contexts:  NOT async-signal-safe, but for tasks_die() on a task's alternate stack.
#pragma once

#include <pthread.h>

#include "levels/process/ground/ground.h"

namespace tmh::itm::pages {

// In main, once: when is_started() is about to be true. False: no memory.
[[nodiscard]] bool tasks_start() noexcept;

// In main, before its covered memory is shared no more: makes what tasks_start() has put off.
// False: no memory, or no threads.
[[nodiscard]] bool tasks_prepare() noexcept;

// pthread_create().
[[nodiscard]] int create_task(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*routine)(void *), void *argument) noexcept;
// The calling thread ends: its destructors run, then those of pthread keys. Main waits for all
// others, and exits with status 0.
[[noreturn]] void end_task(void *value);
// The calling thread dies alone, of a signal inside of a transaction that was rolled back: joiners
// get TMH_ITM_THREAD_DIED, the program's callback runs here. In main: the program dies of it.
[[noreturn]] void tasks_die(int signal) noexcept;

// Without the guard page; for main, all that it may grow to.
[[nodiscard]] Range stack_of(std::uint32_t slot) noexcept;
[[nodiscard]] pid_t parent_of_main() noexcept;

}  // namespace tmh::itm::pages
