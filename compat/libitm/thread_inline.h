// compat/libitm/thread_inline.h -- what a barrier's first store to a line needs, inline.
// Contexts:  as Thread.
#pragma once

#include "compat/libitm/thread.h"
#include "levels/line/process_inline.h"

namespace tmh::itm {

// Frames of what the transaction has called, down to the caller of this function: they are gone at
// the commit, and no other thread knows them.
[[gnu::always_inline]] inline bool Thread::meets_own_frames(
    std::uintptr_t line_begin) const noexcept {
  return line_begin < outer_.registers.stack &&
         line_begin + kLineBytes > reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

[[gnu::always_inline]] inline bool Thread::is_in_own_frames(std::uintptr_t at,
                                                            std::size_t bytes) const noexcept {
  return at >= reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) &&
         at + bytes <= outer_.registers.stack;
}

[[gnu::always_inline]] inline Thread::Place Thread::place_of_store(std::uintptr_t at,
                                                                   std::size_t bytes) {
  const std::uintptr_t line = at / kLineBytes * kLineBytes;
  if (mode_ != Mode::kLines || at >= line::kProcessBytes) [[unlikely]]
    return Place::kAnywhere;
  if (privates_.may_meet_line(line) || meets_own_frames(line)) [[unlikely]] {
    if (nested_.empty() && (is_in_own_frames(at, bytes) || privates_.has(at, bytes)))
      return Place::kOwn;
    if (privates_.meets_line(line) || meets_own_frames(line)) return Place::kAnywhere;
  }
  lines.open_process_line(at);
  return Place::kNewestLine;
}

}  // namespace tmh::itm
