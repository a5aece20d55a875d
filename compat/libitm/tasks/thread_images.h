// compat/libitm/tasks/thread_images.h -- for each stack slot, a thread's descriptor and TLS block
// as the C library makes them for a new thread.
// Shape:     the C library makes one real thread on each slot, which notes what it has and leaves
//            by the system call, so that the C library never sees its end. What lies at the top of
//            its stack is the slot's image.
// Sharing:   made in main before the first task, read by all tasks later.
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/process/ground/ground.h"

namespace tmh::itm::pages {

inline constexpr std::size_t kGuardBytes = 4096;  // at the lower end of a slot
static_assert(kGuardBytes % kPageBytes == 0 && kGuardBytes < kStackSlot);

// In main, once: how this C library lays descriptors out. False: otherwise than is known here.
[[nodiscard]] bool find_thread_number() noexcept;
// False: no memory, or the C library could not make the threads.
[[nodiscard]] bool make_thread_images() noexcept;
// The slot gets the image of a new thread. REQUIRES: nothing runs on it.
void restore_thread_image(std::uint32_t slot) noexcept;
[[nodiscard]] void *thread_pointer_of(std::uint32_t slot) noexcept;
[[nodiscard]] void *stack_top_of(std::uint32_t slot) noexcept;

// In the new task, on its slot: the C library and the kernel know the thread by its new number.
void adopt_thread_image(std::uint32_t slot) noexcept;
// In a fork()ed child, on the thread that it has of its parent: the same.
void adopt_forked_thread() noexcept;

// The kernel's restartable sequences of the calling thread; a clone would inherit its parent's.
// Around a clone in the creator, which is out of them meanwhile.
void leave_restartable_sequences() noexcept;
void enter_restartable_sequences() noexcept;

}  // namespace tmh::itm::pages
