// levels/process/alone.h -- one task runs, all others are outside of transactions.
// Invariant: while a task is alone, no other is inside.
// Deaths:    of a dead one, forget_dead() ends it (for_tasks.h); a task that died inside counts as
//            outside once a waiter has looked.
#pragma once

namespace tmh::itm::pages {

// The process is this task's alone afterwards: all others are outside transactions. REQUIRES: it is
// outside.
void be_alone() noexcept;
// The same from inside. False: another one is, or comes first.
[[nodiscard]] bool try_be_alone() noexcept;
void end_alone() noexcept;  // if it is
[[nodiscard]] bool is_alone() noexcept;
void wait_while_another_is_alone() noexcept;

}  // namespace tmh::itm::pages
