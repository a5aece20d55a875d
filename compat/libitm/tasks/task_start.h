// compat/libitm/tasks/task_start.h -- a process that begins on another stack.
#pragma once

// task_start_x86_64.S. clone(2): the child runs begin(argument) on that stack, which is its
// outermost frame. thread_pointer: with CLONE_SETTLS. The child's pid, or minus an error's number.
extern "C" long tmh_itm_clone(unsigned long flags, void *stack, void *pid, void *thread_pointer,
                              void (*begin)(long), long argument);
