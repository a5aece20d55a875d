// hierarchy/end_of_thread.h -- instances that are still open when their thread ends: begun by hand
// and never ended, or in frames that pthread_exit() could not unwind.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <tmh/error.hpp>

namespace tmh::detail {

// From now on, an instance that is open when the thread ends aborts then, behind the destructors of
// thread_local objects. Its actions do not run.
[[nodiscard]] Errc abort_at_end_of_thread() noexcept;
// Aborts this thread's instance, at whatever level; else nothing. Also before views, contexts or
// the word among LineUsers of the ending thread go.
void abort_open_instance() noexcept;

}  // namespace tmh::detail
