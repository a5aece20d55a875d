// tests/rtm/without_rtm.h -- a processor without RTM, made of one that may have it: XBEGIN at one
// place raises SIGILL, as #UD does.
// Shape:     the program runs in a child that this process traces. An execution breakpoint of the
//            processor stops each of its threads at that place; it goes on with SIGILL and the
//            siginfo of an illegal instruction, in whose frame the XBEGIN is the next instruction.
//            A thread that finds another instruction there is let go, untraced.
// Limits:    one place. Needs ptrace and debug registers.
// Source:    ptrace(2), PTRACE_SETSIGINFO; Intel SDM vol. 3B, 18.2 (debug registers).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tmh::test {

struct WithoutRtm {
  int exit_status = -1;     // of body; -1: it did not end by itself
  std::uint64_t traps = 0;  // SIGILL raised
  std::string unavailable;  // not empty: nothing was run, and why
};

// body answers its exit status.
[[nodiscard]] WithoutRtm run_without_rtm(std::uintptr_t xbegin, const std::function<int()> &body);

}  // namespace tmh::test
