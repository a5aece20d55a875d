// levels/process/start.h -- the engine's start, before the program's constructors, and its end in a
// fork()ed child.
#pragma once

#include "levels/process/task_functions.h"

namespace tmh::itm::pages {

// Before all memory of the program moves: jump tables, home, the log, the task in slot 0, signals,
// the heap. The process ends, with a message, where that is not possible.
void prepare_engine(const TaskFunctions &tasks, bool is_serializable) noexcept;
// What prepare_engine() made serves the program from here on: is_started() says so.
void start_engine() noexcept;
// In a child that the program makes by fork(): it has the memory for itself, and no transactions.
void enter_forked() noexcept;

}  // namespace tmh::itm::pages
