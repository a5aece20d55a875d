// compat/libitm/pages/engine.h -- what the heap calls of the engine.
// A minimal copy: the engine's own header replaces this file. It has one call that the design does
// not list, own_slot().
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::itm::pages {

inline constexpr int kTasksMax = 64;

struct Range {
  std::uintptr_t begin;
  std::size_t bytes;
};

// The calling task runs a transaction that can be undone.
[[nodiscard]] bool is_inside() noexcept;
// The engine runs, and heap_start() has been called. False in a fork()ed child of the program.
[[nodiscard]] bool is_started() noexcept;
// The calling task's, below kTasksMax.
[[nodiscard]] int own_slot() noexcept;
// Zeroed memory that all tasks share at one address; null: none.
[[nodiscard]] void *reserve_shared(std::size_t bytes) noexcept;
[[nodiscard]] Range heap_range() noexcept;
// Inside: a rollback calls heap_release(block).
void note_allocated(void *block) noexcept;
// Calls heap_release(block) once no snapshot can need it.
void note_freed(void *block) noexcept;
// Inside: from here on nothing is undone.
void go_irrevocable() noexcept;

}  // namespace tmh::itm::pages
