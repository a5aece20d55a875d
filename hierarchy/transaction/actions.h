// hierarchy/transaction/actions.h -- what on_commit() and on_abort() have put off until this
// thread's instance ends.
// Sharing:   the thread's own. A child that fork() makes has none: its parent's stay with the
//            parent's instance.
// Contexts:  NOT async-signal-safe. None of these is called in an RTM transaction.
#pragma once

#include <functional>

#include "hierarchy/threads/threads.h"

namespace tmh::detail {

// After the outermost instance of this thread has ended: runs its actions.
void run_kept_actions(bool committed);
inline void run_actions(bool committed) {
  if (current().has_actions) [[unlikely]]
    run_kept_actions(committed);
}
// The same, unless it still runs.
void run_actions_if_ended(bool committed);
// They do not run: their instance has ended, and no caller is left that could be told.
void drop_actions();
// What runs between this attempt, which is about to be undone, and the next one. See begin_again().
void set_before_next(std::function<void()> before);
[[nodiscard]] std::function<void()> take_before_next();
// Throws Error(kEndWithoutBegin): this thread runs no instance, at whatever level.
void require_instance(const char *call);

}  // namespace tmh::detail
