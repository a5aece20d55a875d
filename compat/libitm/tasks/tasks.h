// compat/libitm/tasks/tasks.h -- the door of compat/libitm/tasks: threads of the program as tasks
// of the engine, with the C library's calls on threads and processes. The library's start begins
// them (task_life.h); the C library's calls on streams use what the tasks know of FILE objects
// (program_streams.h).
#pragma once

#include "compat/libitm/tasks/program_streams.h"
#include "compat/libitm/tasks/task_life.h"
