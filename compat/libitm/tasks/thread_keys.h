// compat/libitm/tasks/thread_keys.h -- pthread_key_create() and its family, for tasks: keys are
// known to all, whichever task creates them, and a thread's values lie in its slot.
// Shape:     a key's sequence number is odd while the key is in use; a value counts while it was
//            stored under that number.
// Limits:    a value that a transaction stores is not undone.
#pragma once

#include <cstdint>

namespace tmh::itm::pages {

// In main, once: what was created and stored so far goes to shared memory. False: none.
[[nodiscard]] bool start_thread_keys() noexcept;
// The slot's next thread has no values.
void clear_thread_keys(std::uint32_t slot) noexcept;
// The calling thread ends: destructors of its values.
void end_thread_keys();

}  // namespace tmh::itm::pages
