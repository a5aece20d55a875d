// rtm_emulator/trap.h -- from the signal that XBEGIN raises into the emulator, and back.
// Shape:     the handler copies the kernel's signal frame to memory of the thread, goes on there on
//            a stack of the thread, and leaves by rt_sigreturn from the copy: the program's stack,
//            where the frame lay, is the transaction's to write.
// Invariant: outside of the handlers a registered thread's slot says native, inside safe.
// Contexts:  functions this file reaches from handlers: those of rtm_emulator, Zydis, raw
//            system calls; for threads that nobody registered also pthread_mutex_lock of a free
//            mutex (domain.h, join()).
// Source:    Linux arch/x86/kernel/signal_64.c, fpu/signal.c (the frame); signal-safety(7).
#pragma once

#include <signal.h>

#include <cstdint>

namespace tmh::rtm {

// Handlers for SIGILL, SIGSEGV, SIGBUS, SIGFPE and the stop signal. Normal code, once per process.
[[nodiscard]] bool install_handlers() noexcept;
void install_stop_handler() noexcept;  // again after glibc has set its own
// The calling thread gets its memory and slot. False: no memory or no slot; it then aborts every
// transaction.
bool register_thread() noexcept;
void forget_thread() noexcept;  // in a child of fork(): the parent's slot is not ours

// sigaction() of the program for a signal that is ours; false: it is not. The result is that of
// sigaction().
[[nodiscard]] bool chain_action(int signal, const struct sigaction *action, struct sigaction *old,
                                int *result) noexcept;

// Without the fault signals: blocked, they would kill the program at its next XBEGIN.
void keep_deliverable(sigset_t *mask) noexcept;

// Before exec, which keeps pending signals and not their handlers: when it returns, no stop signal
// is on its way to this thread, and none will be before step_back().
void step_aside() noexcept;
void step_back() noexcept;

// The calling thread's slot says safe from here on; false: it has none, or said so before.
// REQUIRES: its signals are blocked until enter_native_here().
[[nodiscard]] bool leave_native_here() noexcept;
void enter_native_here() noexcept;

// How often this thread was stopped: a call that this interrupted is made again.
[[nodiscard]] std::uint64_t stops_of_thread() noexcept;

}  // namespace tmh::rtm
