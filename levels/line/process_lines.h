// levels/line/process_lines.h -- level 1 over any memory of one process: where the word of a line
// is, when lines are not those of a segment.
// Shape:     a table of kProcessWords words for all addresses. Lines whose numbers have the same
//            hash share a word: a commit to one of them moves the version of all.
// Invariant: neighbours have words side by side, as a segment's do. Of two lines k lines apart, k a
//            multiple of 2^20 (the heaps that malloc() has for each thread lie 64 MiB apart), few
//            share a word.
// Source:    TL2 (a table of versioned locks, found by a hash of the address).
#pragma once

#include <cstdint>

namespace tmh::line {

inline constexpr unsigned kProcessWordsLog2 = 20;  // 8 MiB, of which pages follow use
inline constexpr std::uint64_t kProcessWords = 1ull << kProcessWordsLog2;
// Of user space: 47 bits of address.
inline constexpr std::uint64_t kProcessBytes = 1ull << 47;

// line: an address divided by kLineBytes.
[[nodiscard]] constexpr std::uint64_t process_word_number(std::uint64_t line) noexcept {
  return (line + (line >> kProcessWordsLog2) * 0x9e37'79b9ull) & (kProcessWords - 1);
}

}  // namespace tmh::line
