// compat/libitm/pages/faults.h -- the task's signals: accesses without the right mapping, faults of
// the program, requests for pages; and the rights of protection keys.
#pragma once

#include <signal.h>

#include <cstdint>

namespace tmh::itm::pages {

// kTransaction: a system call, or a store to the C library's data, has the transaction go
// irrevocable first (nothing undoes these).
enum class Rights : std::uint8_t { kPlain, kTransaction, kBoth };

// Of what runs next: plain code, a transaction, or this library's own code.
void set_rights(Rights rights) noexcept;
[[nodiscard]] Rights current_rights() noexcept;

// This library's code for a while, wherever it is called from.
class OwnRights {
 public:
  OwnRights() noexcept;
  ~OwnRights();
  OwnRights(const OwnRights &) = delete;
  OwnRights &operator=(const OwnRights &) = delete;

 private:
  Rights before_;
};

[[nodiscard]] bool start_faults() noexcept;
// Of a task, once its view is there: transactions find out what cannot be undone. False: the kernel
// cannot do that; then only instrumented code says it.
bool guard_effects() noexcept;
// Of the running transaction.
// Was it on?
[[nodiscard]] bool guard_transaction(bool is_on) noexcept;
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
