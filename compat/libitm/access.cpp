// compat/libitm/access.cpp -- the long ways of barriers: by mode, private memory, any size.
#include <cstring>

#include "compat/libitm/thread.h"

namespace tmh::itm {

namespace {

// How many of the bytes from `at` lie in its line.
std::size_t in_line(std::uintptr_t at, std::size_t bytes) noexcept {
  return std::min(bytes, kLineBytes - at % kLineBytes);
}

}  // namespace

// Does it lie in a frame of what the transaction has called? Such a frame is gone at the commit,
// and no other thread knows it.
[[gnu::always_inline]] inline bool Thread::is_own_frame(std::uintptr_t at) const noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return at - here < outer_.registers.stack - here;
}

// As PrivateRanges::first_part(), with own frames.
[[gnu::always_inline]] inline std::size_t Thread::private_part(std::uintptr_t at, std::size_t bytes,
                                                               bool *is_private) const noexcept {
  if (is_own_frame(at)) [[unlikely]] {
    *is_private = true;
    return std::min(bytes, outer_.registers.stack - at);
  }
  return privates_.first_part(at, bytes, is_private);
}

std::uint64_t Thread::load_long(std::uintptr_t from, std::uint32_t bytes) {
  if (mode_ == Mode::kLines) [[likely]]
    return lines.load_long(from, bytes);
  std::uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void *>(from), bytes);
  return value;
}

void Thread::load_block(void *to, std::uintptr_t from, std::size_t bytes) {
  if (mode_ != Mode::kLines) {
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
    if (mode_ == Mode::kAloneUndo) undo_.save(reinterpret_cast<const void *>(to), bytes);
    std::memmove(reinterpret_cast<void *>(to), from, bytes);
    return;
  }
  const auto *in = static_cast<const std::byte *>(from);
  while (bytes != 0) {
    bool is_private = false;
    const std::uintptr_t line = to / kLineBytes * kLineBytes;
    std::size_t part = in_line(to, bytes);
    const bool may_be_private =
        privates_.meets_line(line) || is_own_frame(line) || is_own_frame(line + kLineBytes - 1);
    if (may_be_private) [[unlikely]]
      part = private_part(to, part, &is_private);
    if (is_private) {
      if (!nested_.empty()) undo_.save(reinterpret_cast<const void *>(to), part);
      std::memcpy(reinterpret_cast<void *>(to), in, part);
    } else {
      if (!lines.store_block(to, in, static_cast<std::uint32_t>(part)))
        std::memcpy(reinterpret_cast<void *>(to), in, part);
      if (may_be_private) lines.never_keep(line);
    }
    in += part;
    to += part;
    bytes -= part;
  }
}

void Thread::log_local(const void *at, std::size_t bytes) {
  if (mode_ == Mode::kAlone || bytes == 0) return;
  has_traces_ = true;
  undo_.save(at, bytes);
  if (mode_ != Mode::kLines) return;
  auto place = reinterpret_cast<std::uintptr_t>(at);
  bool is_private = false;
  if (privates_.first_part(place, bytes, &is_private) == bytes && is_private) return;
  make_private(place, bytes);
  while (lines.has_written() && bytes != 0) {
    const std::size_t part = in_line(place, bytes);
    lines.store_now(place, static_cast<std::uint32_t>(part));
    place += part;
    bytes -= part;
  }
}

}  // namespace tmh::itm
