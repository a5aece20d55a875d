// levels/line/process_lines.h -- level 1 over any memory of one process: where the word of a line
// is, when lines are not those of a segment.
// Shape:     a table of kProcessWords words for all addresses. Lines whose numbers have the same
//            hash share a word: a commit to one of them moves the version of all.
// Invariant: neighbours have words side by side, as a segment's do. Of two lines k lines apart, k a
//            multiple of 2^20 (the heaps that malloc() has for each thread lie 64 MiB apart), few
//            share a word.
// Source:    TL2 (a table of versioned locks, found by a hash of the address).
#pragma once

#include <atomic>
#include <cstdint>

#include <tmh/detail/line_access.hpp>

namespace tmh::line {

inline constexpr unsigned kProcessWordsLog2 = 20;  // 8 MiB, of which pages follow use
inline constexpr std::uint64_t kProcessWords = 1ull << kProcessWordsLog2;
// Of user space: 47 bits of address.
inline constexpr std::uint64_t kProcessBytes = 1ull << 47;

// line: an address divided by kLineBytes.
[[nodiscard]] constexpr std::uint64_t process_word_number(std::uint64_t line) noexcept {
  return (line + (line >> kProcessWordsLog2) * 0x9e37'79b9ull) & (kProcessWords - 1);
}

// LineAccess::bytes, to which another thread may store 0: the thread's next access that leaves the
// line read last, or opens one to store to, then moves its snapshot on, or fails. One that has just
// done so reads a quarter more first.
[[nodiscard]] inline std::uint64_t process_window_bytes(const detail::LineAccess &access) noexcept {
  auto &bytes = const_cast<std::uint64_t &>(access.bytes);
  return std::atomic_ref<std::uint64_t>(bytes).load(std::memory_order_relaxed);  // a hint
}
inline void ask_to_move_on(std::uint64_t *window_bytes) noexcept {
  std::atomic_ref<std::uint64_t>(*window_bytes).store(0, std::memory_order_relaxed);  // a hint
}

// Of detail::line_load_by().
struct ProcessLines {
  static constexpr bool kStoresInPlace = true;
  [[nodiscard]] static std::uintptr_t home(const detail::LineAccess &, std::uintptr_t at) noexcept {
    return at;
  }
  [[nodiscard]] static std::uintptr_t begin(const detail::LineAccess &) noexcept { return 0; }
  [[nodiscard]] static std::uint64_t bytes(const detail::LineAccess &access) noexcept {
    return process_window_bytes(access);
  }
  [[nodiscard]] static std::uint64_t word_number(std::uint64_t line) noexcept {
    return process_word_number(line);
  }
};

}  // namespace tmh::line
