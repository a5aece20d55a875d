// levels/process/faults.h -- the task's signals: accesses without the right mapping, faults of the
// program, requests for pages.
#pragma once

#include <signal.h>

namespace tmh::itm::pages {

// The handlers of the engine's signals. False: the kernel refuses one.
[[nodiscard]] bool start_faults() noexcept;
// Inside: the thread dies alone, of that signal, and its transaction leaves nothing behind.
[[noreturn]] void die_inside(int signal) noexcept;

// What the engine does not answer, the program's action does.
[[nodiscard]] struct sigaction previous_action(int signal) noexcept;
void set_previous_action(int signal, const struct sigaction &action) noexcept;
// A mask that the program gives to a call, without the engine's signals.
[[nodiscard]] sigset_t without_engines(const sigset_t *set) noexcept;

}  // namespace tmh::itm::pages
