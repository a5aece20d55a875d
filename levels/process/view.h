// levels/process/view.h -- what this task has mapped of the covered memory, from its beginning to
// its end: who opens pages are copies.h, inside, and plain_pages.h, outside.
// Contexts:  the task's own.
#pragma once

#include <cstdint>

#include "levels/process/memory.h"

namespace tmh::itm::pages {

class View {
 public:
  // A new task, or main from now on: all of the covered memory but its own stack traps. clock: what
  // its copies stand at.
  [[nodiscard]] static bool enter(std::uint64_t *clock) noexcept;
  // A library's data, loaded or taken away since.
  [[nodiscard]] static bool cover(const Region &region) noexcept;
  static void forget_region(const Region &region) noexcept;
  // The stack of a task that this one makes: mapped as the new task's own, and no more.
  static void open_stack(std::uint32_t slot) noexcept;
  static void close_stack(std::uint32_t slot) noexcept;
  // A process forked by the program, which is no task: it has the memory as it is, for itself.
  static void enter_forked() noexcept;
};

}  // namespace tmh::itm::pages
