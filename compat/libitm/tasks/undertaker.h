// compat/libitm/tasks/undertaker.h -- a thread of main's process that waits for the ends of tasks,
// which are main's children, and tells their joiners.
// Contexts:  it touches no memory of the program and calls nothing of the engine: only records.
#pragma once

namespace tmh::itm::pages {

// In main, before the first task. False: the C library could not make the thread.
[[nodiscard]] bool start_undertaker() noexcept;
// A task was created.
void tell_undertaker() noexcept;

}  // namespace tmh::itm::pages
