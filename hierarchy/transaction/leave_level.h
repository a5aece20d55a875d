// hierarchy/transaction/leave_level.h -- what a call of the library, in a body, asks of the level
// at which this thread's instance runs: to end the attempt there, because only another level can do
// it.
// Contexts:  in a body, at whatever level, and outside of instances.
#pragma once

#include <functional>

#include <tmh/instance.hpp>

namespace tmh::detail {

// In a body that runs at level 1 or in a thread's view: ends the attempt, because what it is about
// to do needs level 2 on the process's view. Throws LineAbort. Else nothing. need: what it is; the
// site counts it when the instance goes up.
void need_pages(Need need);
// The same in a thread's view; level 1 is not asked.
void need_process_view();
// In a body at level 1: undoes the attempt, runs its on_abort() actions and then `before`, outside
// of any instance, and begins another at once: it has not failed, and keeps its age. When `before`
// throws an Error the next one runs at level 2, where the body meets the reason, and may catch it;
// at a site that may not leave level 1 the Error leaves atomically(). Throws LineAbort. need: as
// need_pages(), for the one that runs at level 2.
[[noreturn]] void begin_again(Need need, std::function<void()> before);
// Of this thread's instance at level 1: kPending, or kFailed once its attempt has been aborted.
[[nodiscard]] Status status_at_lines() noexcept;

}  // namespace tmh::detail
