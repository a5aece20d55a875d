// hierarchy/transaction/open_instance.h -- a thread's instance that its body does not end: begun
// by hand and never ended, or in frames that pthread_exit() could not unwind. It aborts when its
// thread ends.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <tmh/error.hpp>

namespace tmh::detail {

// From now on, an instance that is open when the thread ends aborts then, behind the destructors of
// thread_local objects. Its actions do not run.
[[nodiscard]] Errc abort_at_end_of_thread() noexcept;

// Says how, for threads that run instances at level 1 alone: what those have among LineUsers ends
// them. Before the first one.
void abort_open_at_lines() noexcept;

}  // namespace tmh::detail
