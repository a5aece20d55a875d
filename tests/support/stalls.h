// tests/support/stalls.h -- random schedules: threads stand still at random steps of the library,
// for as long as others need to run past.
// Shape:     every thread picks one step at a time, of those that it passes, and stands still at
//            about half of its next passages there, for up to 2 ms; elsewhere it gives its
//            processor away now and then. After a few stalls it picks another one. So each window
//            between two steps is wide open for a while, and the others run through it at full
//            speed: what needs an interrupt at one place, on a quiet machine once in a million
//            passages, happens here in each run.
// Invariant: only time is added. Right code passes with it, as it does under any load.
// Contexts:  the hook is async-signal-safe: it runs in the fault handler and under locks.
// Source:    PCT: few places that change the order, chosen at random, find more than noise
//            everywhere. Here between processes, without their control.
#pragma once

#include <cstdint>

namespace tmh::test {

// From now on, in this process and in those that it forks. Takes the step hook (observe/steps.h).
void stall_at_steps(std::uint64_t seed) noexcept;
// The same if TMH_STALLS=<seed> is set. Programs with children (children.h) call it when they
// start, and each child does.
void stall_if_asked() noexcept;
// How often this process has stood still.
[[nodiscard]] std::uint64_t stalls() noexcept;

}  // namespace tmh::test
