// compat/libitm/tasks/std_streams.h -- stdin, stdout and stderr of tasks: each task has FILE
// objects of its own, with buffers of its own, on the same files.
// Limits:    stdout is written line by line once there are threads, so that lines stay whole. What
//            one task has read ahead of stdin, others do not see.
#pragma once

namespace tmh::itm::pages {

// In main, before anything was read or written: buffers that no other task sees.
void start_streams() noexcept;
// In main, before its first thread.
void write_streams_by_lines() noexcept;
// In a creator, before it clones: nothing is left in buffers that both would write.
void flush_streams() noexcept;
// In a new task: what its creator has read ahead, or the program's own buffers, are not its.
void enter_streams() noexcept;

}  // namespace tmh::itm::pages
