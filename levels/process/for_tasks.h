// levels/process/for_tasks.h -- what tasks need of the engine: slots, and a view of the memory.
// Contexts:  the creator, the new task and the undertaker, as each says. NOT async-signal-safe.
#pragma once

namespace tmh::itm::pages {

// The program's own task starts: called before its first transaction or thread.
void start_view() noexcept;

// The creator takes a slot; -1: all are taken.
[[nodiscard]] int take_slot() noexcept;
// No task uses the slot: its task was not created, has left, or died. Gives back what a dead one
// held.
void free_slot(int slot) noexcept;
// The slot's task is dead; free_slot() comes later. Others do not wait for it any more, and its
// last commit is whole. REQUIRES: signals are blocked.
void forget_dead(int slot) noexcept;
// In the creator, before and after it clones: it has the slot's stack mapped shared, and no copies
// that the new task would inherit.
void before_clone(int slot) noexcept;
void after_clone(int slot) noexcept;
// In the new task, first thing: maps its own view of the covered memory.
void enter_task(int slot) noexcept;
// In the task, last thing. It touches covered memory no more, but its stack.
void leave_task() noexcept;

}  // namespace tmh::itm::pages
