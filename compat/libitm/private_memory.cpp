// compat/libitm/private_memory.cpp -- what is kept of bytes that a rollback must restore.
#include "compat/libitm/private_memory.h"

#include <algorithm>

namespace tmh::itm {

// Frames of what the innermost begin's function has called are gone at its rollback: they lie
// between this frame and that begin's.
[[gnu::noinline]] void PrivateMemory::save(std::uintptr_t at, std::size_t bytes) {
  const std::uintptr_t end = at + bytes, stack = stack_;
  if (at >= stack || end <= own_frame())
    return undo_.save(reinterpret_cast<const void *>(at), bytes, false);
  const std::uintptr_t begin = std::max(at, is_nested() ? inner_stack_ : stack);
  const std::uintptr_t frames_end = std::min(end, stack);
  if (begin < frames_end)
    undo_.save(reinterpret_cast<const void *>(begin), frames_end - begin, true);
  if (end > stack) undo_.save(reinterpret_cast<const void *>(stack), end - stack, false);
}

}  // namespace tmh::itm
