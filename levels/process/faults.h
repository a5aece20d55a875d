// levels/process/faults.h -- the task's signals: accesses without the right mapping, faults of
// the program, requests for pages.
#pragma once

#include <signal.h>

#include <cstdint>

namespace tmh::itm::pages {

[[nodiscard]] bool start_faults() noexcept;
// A signal has come that the program is not to notice: a call that it interrupts is made again.
void note_unseen_signal() noexcept;
// What the signal that asks for pages does, but now.
void answer_request() noexcept;
[[nodiscard]] int recall_signal() noexcept;
// Inside: the thread dies alone, of that signal, and its transaction leaves nothing behind.
[[noreturn]] void die_inside(int signal) noexcept;

// signal_calls.cpp: the program's handlers that have run, and those without SA_RESTART.
inline volatile std::uint32_t handlers_run = 0, ending_handlers_run = 0;

// What the engine does not answer, the program's action does.
[[nodiscard]] struct sigaction previous_action(int signal) noexcept;
void set_previous_action(int signal, const struct sigaction &action) noexcept;
// signal_calls.cpp: signals of the program that had to wait until nothing is in the way.
void send_waiting_signals() noexcept;

// This library changes mappings: a request for pages waits, and so do the program's handlers.
class Busy {
 public:
  Busy() noexcept;
  ~Busy();
  [[nodiscard]] static bool is_any() noexcept;
  Busy(const Busy &) = delete;
  Busy &operator=(const Busy &) = delete;
};

}  // namespace tmh::itm::pages
