// compat/libitm/thread_accesses.cpp -- the long ways of a transaction's accesses: by mode, private
// memory, any size; and what is kept of memory that only the transaction knows.
#include <algorithm>
#include <cstring>

#include "compat/libitm/thread.h"
#include "compat/libitm/thread_inline.h"
#include "levels/line/rtm.h"

namespace tmh::itm {

namespace {

// How many of the bytes from `at` lie in its line.
std::size_t in_line(std::uintptr_t at, std::size_t bytes) noexcept {
  return std::min(bytes, kLineBytes - at % kLineBytes);
}

}  // namespace

// As PrivateRanges::first_part(), with own frames. Below them nothing is stored to.
[[gnu::always_inline]] inline std::size_t Thread::private_part(std::uintptr_t at, std::size_t bytes,
                                                               bool *is_private) const noexcept {
  if (meets_own_frames(at / kLineBytes * kLineBytes) && at < outer_.registers.stack) [[unlikely]] {
    *is_private = true;
    return std::min(bytes, outer_.registers.stack - at);
  }
  return privates_.first_part(at, bytes, is_private);
}

std::uint64_t Thread::load_long(std::uintptr_t from, std::uint32_t bytes) {
  std::uint64_t value = 0;
  if (mode_ == Mode::kLines) [[likely]] {
    if (from % bytes == 0) [[likely]]
      return lines.load_word(from, bytes);
    load_block(&value, from, bytes);
    return value;
  }
  look_at_words(from, bytes, false);
  std::memcpy(&value, reinterpret_cast<const void *>(from), bytes);
  return value;
}

void Thread::load_block(void *to, std::uintptr_t from, std::size_t bytes) {
  if (mode_ != Mode::kLines) {
    look_at_words(from, bytes, false);
    std::memmove(to, reinterpret_cast<const void *>(from), bytes);
    return;
  }
  auto *out = static_cast<std::byte *>(to);
  for (std::size_t ahead = kLineBytes; ahead < bytes; ahead += kLineBytes)
    __builtin_prefetch(reinterpret_cast<const void *>(from + ahead));
  while (bytes != 0) {
    const std::size_t part = in_line(from, bytes);
    lines.load_block(out, from, static_cast<std::uint32_t>(part));
    out += part;
    from += part;
    bytes -= part;
  }
}

void Thread::store_long(std::uintptr_t to, const void *from, std::size_t bytes) {
  if (mode_ != Mode::kLines) {
    if (mode_ == Mode::kAloneUndo) save(to, bytes);
    look_at_words(to, bytes, true);
    std::memmove(reinterpret_cast<void *>(to), from, bytes);
    return;
  }
  const auto *in = static_cast<const std::byte *>(from);
  while (bytes != 0) {
    bool is_private = false;
    const std::uintptr_t line = to / kLineBytes * kLineBytes;
    std::size_t part = in_line(to, bytes);
    const bool may_be_private = privates_.meets_line(line) || meets_own_frames(line);
    if (may_be_private) [[unlikely]]
      part = private_part(to, part, &is_private);
    if (is_private) {
      if (!nested_.empty()) save(to, part);
      std::memcpy(reinterpret_cast<void *>(to), in, part);
    } else {
      if (!lines.store_block(to, in, static_cast<std::uint32_t>(part)))
        std::memcpy(reinterpret_cast<void *>(to), in, part);
      if (may_be_private) lines.leave_newest();
    }
    in += part;
    to += part;
    bytes -= part;
  }
}

bool Thread::copy_lines(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  const std::uintptr_t distance = to > from ? to - from : from - to;
  if (mode_ != Mode::kLines || distance < bytes + kLineBytes || bytes == 0 ||
      std::max(to, from) >= line::kProcessBytes ||
      bytes > line::kProcessBytes - std::max(to, from) || privates_.may_meet(to, bytes) ||
      (to / kLineBytes * kLineBytes < outer_.registers.stack &&
       to + bytes > reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) - kLineBytes))
    return false;
  lines.copy_lines(to, from, bytes);
  return true;
}

// What a rollback must restore. Frames of what the innermost begin's function has called are gone
// then: they lie between this frame and that begin's.
[[gnu::noinline]] void Thread::save(std::uintptr_t at, std::size_t bytes) {
  const std::uintptr_t end = at + bytes, stack = outer_.registers.stack;
  if (at >= stack || end <= reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)))
    return undo_.save(reinterpret_cast<const void *>(at), bytes, false);
  const std::uintptr_t begin =
      std::max(at, nested_.empty() ? stack : nested_.back().registers.stack);
  const std::uintptr_t frames_end = std::min(end, stack);
  if (begin < frames_end)
    undo_.save(reinterpret_cast<const void *>(begin), frames_end - begin, true);
  if (end > stack) undo_.save(reinterpret_cast<const void *>(stack), end - stack, false);
}

void Thread::log_local(const void *at, std::size_t bytes) {
  if (!keeps_stores()) return;
  has_traces_ = true;
  auto place = reinterpret_cast<std::uintptr_t>(at);
  if (mode_ != Mode::kLines) return save(place, bytes);
  while (bytes != 0) {
    std::size_t part = in_line(place, bytes);
    bool is_private = false;
    if (meets_own_frames(place / kLineBytes * kLineBytes) && place < outer_.registers.stack) {
      part = std::min(part, outer_.registers.stack - place);
      save(place, part);
    } else if (lines.has_locked(place)) {
      lines.open_process_line(place);
      lines.keep(place, static_cast<std::uint32_t>(part));
      const std::uintptr_t line = place / kLineBytes * kLineBytes;
      if (privates_.meets_line(line) || meets_own_frames(line)) lines.leave_newest();
    } else {
      save(place, part);
      if (privates_.first_part(place, part, &is_private) != part || !is_private)
        make_private(place, part);
    }
    place += part;
    bytes -= part;
  }
}

}  // namespace tmh::itm
