// levels/process/for_calls.h -- what calls of the C library need of the engine.
// Contexts:  none of these is async-signal-safe unless it says so.
#pragma once

#include <cstddef>

#include "levels/process/ground/ground.h"
#include "levels/process/requests.h"

namespace tmh::itm::pages {

// The engine runs; before that, memory is the C library's. Async-signal-safe.
[[nodiscard]] bool is_started() noexcept;

// A system call is going to use this memory outside of transactions: without a mapping for plain
// code the kernel would answer EFAULT. Does nothing inside, and for memory that is not covered.
void make_plain(const void *at, std::size_t bytes, bool is_store) noexcept;

// Of the heap. allocated: a rollback releases the block. freed: heap_release() is called once no
// snapshot can need it, and the transaction, if there is one, has committed.
void note_allocated(void *block) noexcept;
void note_freed(void *block) noexcept;

// Inside: from here on nothing is undone, and no other transaction runs; may begin the transaction
// again instead of returning. Outside: nothing.
void go_irrevocable();

// A descriptor of the engine's, of any task.
[[nodiscard]] bool is_own_file(int file) noexcept;

// The loader has loaded libraries, or taken some away.
void cover_libraries() noexcept;

// Before a call that may block for long: others may have the pages that this task alone may write.
void give_up_holds() noexcept;
// The same for a call that is made again when a request for pages interrupts it: only pages that
// transactions have touched already.
void give_up_touched() noexcept;
}  // namespace tmh::itm::pages
