// platform/fault_handler.h -- the process's SIGSEGV and SIGBUS handler: finds whose range a fault
// lies in, else passes it on.
// Invariant: a fault outside every published range, a sent signal, and a fault while our own
//            handler runs reach the previous action with the signal's arguments unchanged; SIG_DFL
//            is restored, so the process dies at the right instruction.
// Contexts:  publish/withdraw: not in a handler. The handler calls only its range's function,
//            sigaction() and write().
// Source:    docs/style.md 6; thesis section 3.1 (fault handlers find first touches).
#pragma once

#include <cstdint>

#include <tmh/error.hpp>

namespace tmh::platform {

struct Fault {
  std::uintptr_t address = 0;
  // SIGBUS: mapped, but the file has nothing there and gets no disk block, or ends before
  bool has_no_block = false;
  bool has_no_right = false;  // the thread has the range's protection key shut
  // From the page-fault error code; the thesis needed two faults to tell (3.1, footnote 3).
  bool is_write = false;
};

enum class FaultAnswer : std::uint8_t {
  kRetry,    // resolved: run the instruction again
  kForeign,  // not ours after all: previous action
};

// Async-signal-safe by obligation.
using FaultFunction = FaultAnswer (*)(void *context, const Fault &fault);

// Installs the handler, once; publish_fault_range() does that, too. Without it SIGBUS says nothing.
void watch_faults() noexcept;
// At most kFaultRangesMax ranges at a time: kTooManySegments.
inline constexpr std::uint32_t kFaultRangesMax = 4096;
// name: what lies there, for messages; it outlives the range.
[[nodiscard]] Errc publish_fault_range(std::uintptr_t begin, std::uint64_t bytes,
                                       FaultFunction function, void *context,
                                       const char *name = "") noexcept;
// Later touches of it are reported by its name until something else lies there.
void withdraw_fault_range(std::uintptr_t begin) noexcept;

// Lets the calling thread take SIGSEGV and SIGBUS: with these blocked, as in a thread that blocks
// all signals, its first fault ends the process.
void unblock_faults() noexcept;

// One sentence to standard error. Async-signal-safe.
void write_sentence(const char *text, std::uintptr_t address) noexcept;

}  // namespace tmh::platform
