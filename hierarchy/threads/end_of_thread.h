// hierarchy/threads/end_of_thread.h -- instances that are still open when their thread ends, or
// when the last handle of their domain goes.
// Shape:     the code that runs instances lies above, and says here how an open one is aborted,
//            before it begins the first.
// Invariant: no participant waits for an instance of a thread that has ended: its runner's mutex,
//            its pin and its word among LineUsers are given back.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <cstdint>

namespace tmh::detail {

// What has left the instance open. A thread that ends drops its actions; a thread that goes on runs
// those of on_abort().
enum class LeftBy : std::uint8_t { kEndOfThread, kLastHandle };

using AbortOpenInstance = void (*)(LeftBy left_by) noexcept;
void abort_open_instances_by(AbortOpenInstance how) noexcept;

// Aborts this thread's instance, at whatever level; else nothing. Before views, contexts or the
// word among LineUsers of the ending thread go.
void abort_open_instance(LeftBy left_by) noexcept;

}  // namespace tmh::detail
