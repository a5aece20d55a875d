// levels/process/ground/own_task.h -- what the heap and the tasks ask the engine: about the
// calling task, and for memory. The engine defines these (control.cpp, memory.cpp); tests of the
// heap and of the tasks define them as they like.
// Contexts:  own_slot() and is_inside() are async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/process/ground/sizes.h"

namespace tmh::itm::pages {

// The slot of the calling task.
[[nodiscard]] std::uint32_t own_slot() noexcept;
// It runs a transaction that can be undone.
[[nodiscard]] bool is_inside() noexcept;
// Zeroed memory for metadata, which all tasks have at this address; never versioned, never given
// back. Null: there is none left. REQUIRES: no task was created yet.
[[nodiscard]] void *reserve_shared(std::size_t bytes) noexcept;
// The addresses of the heap.
[[nodiscard]] Range heap_range() noexcept;
// Slot i of a task's stack is [begin + i * kStackSlot, + kStackSlot). Slot 0, the main thread's, is
// not used: its stack is the program's.
[[nodiscard]] Range stacks_range() noexcept;

}  // namespace tmh::itm::pages
