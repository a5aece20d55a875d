// levels/process/modules.h -- which modules of a process are no part of the program.
#pragma once

namespace tmh::itm::pages {

// Of the C and C++ runtimes, or of ours: its data stay private to each task.
[[nodiscard]] bool is_runtime_module(const char *path) noexcept;
// Of these, one whose thread_local variables belong to the program's state: exceptions.
[[nodiscard]] bool is_cxx_runtime(const char *path) noexcept;

}  // namespace tmh::itm::pages
