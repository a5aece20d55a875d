// compat/libitm/private_memory.h -- memory that only a thread's transaction knows: blocks that it
// has allocated, locals that the compiled code logs, and frames of what it has called; and what it
// has overwritten in place without a line's lock.
// Shape:     frames lie between the caller of the function that asks and the stack pointer of the
//            outermost begin. They are gone at the commit.
// Invariant: nothing is kept of a frame that is gone at each rollback: one behind the innermost
//            begin that can be undone alone.
// Contexts:  one thread's. NOT async-signal-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compat/libitm/private_ranges.h"
#include "compat/libitm/undo_log.h"
#include "platform/assert.h"

namespace tmh::itm {

class PrivateMemory {
 public:
  // What there was at a begin that can be undone alone.
  struct Mark {
    std::size_t undo = 0, ranges = 0;
  };

  // The outermost begin. stack, here and below: Registers::stack of the begin.
  void begin(std::uintptr_t stack) noexcept { stack_ = stack; }
  // The innermost begin that can be undone alone; 0: the outermost one.
  void set_inner(std::uintptr_t stack) noexcept { inner_stack_ = stack; }
  [[nodiscard]] bool is_nested() const noexcept { return inner_stack_ != 0; }
  [[nodiscard]] Mark mark() const noexcept { return {undo_.size(), ranges_.size()}; }
  // What came behind the mark is undone, and known to others again. stack: frames below are gone.
  void roll_back(const Mark &mark, std::uintptr_t stack) noexcept {
    TMH_ASSERT(mark.undo <= undo_.size() && mark.ranges <= ranges_.size());
    undo_.roll_back(mark.undo, stack);
    ranges_.keep(mark.ranges);
  }
  // Nothing that was saved is restored any more.
  void forget_saved() noexcept { undo_.clear(); }
  void forget() noexcept {
    inner_stack_ = 0;
    undo_.clear();
    ranges_.clear();
  }

  // As PrivateRanges, which has no frames. Throws std::bad_alloc.
  void add(std::uintptr_t begin, std::size_t bytes) { ranges_.add(begin, bytes); }
  [[gnu::always_inline]] [[nodiscard]] bool may_meet_line(
      std::uintptr_t line_begin) const noexcept {
    return ranges_.may_meet_line(line_begin) || meets_frames(line_begin);
  }
  [[gnu::always_inline]] [[nodiscard]] bool meets_line(std::uintptr_t line_begin) const noexcept {
    return ranges_.meets_line(line_begin) || meets_frames(line_begin);
  }
  [[gnu::always_inline]] [[nodiscard]] bool may_meet(std::uintptr_t at,
                                                     std::size_t bytes) const noexcept {
    return ranges_.may_meet(at, bytes) ||
           (at / kLineBytes * kLineBytes < stack_ && at + bytes > own_frame() - kLineBytes);
  }
  [[gnu::always_inline]] [[nodiscard]] bool has(std::uintptr_t at, std::size_t bytes) noexcept {
    return (at >= own_frame() && at + bytes <= stack_) || ranges_.has(at, bytes);
  }
  [[nodiscard]] bool has_range(std::uintptr_t at, std::size_t bytes) const noexcept {
    bool is_private = false;
    return ranges_.first_part(at, bytes, &is_private) == bytes && is_private;
  }
  // Below the frames nothing is stored to.
  [[gnu::always_inline]] [[nodiscard]] std::size_t first_part(std::uintptr_t at, std::size_t bytes,
                                                              bool *is_private) const noexcept {
    if (const std::size_t part = first_part_of_frames(at, bytes); part != 0) [[unlikely]] {
      *is_private = true;
      return part;
    }
    return ranges_.first_part(at, bytes, is_private);
  }
  // How many of the bytes from `at`, all in one line, lie in frames; 0: the first one does not.
  [[gnu::always_inline]] [[nodiscard]] std::size_t first_part_of_frames(
      std::uintptr_t at, std::size_t bytes) const noexcept {
    if (!meets_frames(at / kLineBytes * kLineBytes) || at >= stack_) return 0;
    return std::min(bytes, stack_ - at);
  }
  // Keeps what a rollback must restore of these bytes. Throws std::bad_alloc.
  void save(std::uintptr_t at, std::size_t bytes);

 private:
  [[gnu::always_inline]] [[nodiscard]] static std::uintptr_t own_frame() noexcept {
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  }
  [[gnu::always_inline]] [[nodiscard]] bool meets_frames(std::uintptr_t line_begin) const noexcept {
    return line_begin < stack_ && line_begin + kLineBytes > own_frame();
  }

  std::uintptr_t stack_ = 0, inner_stack_ = 0;
  PrivateRanges ranges_;
  UndoLog undo_;
};

}  // namespace tmh::itm
