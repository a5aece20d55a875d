// levels/page/lines.h -- comparing and copying pages by 64-byte lines.
// Contexts:  everywhere (no calls, no allocation). Views are compared while only this thread stores to them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "levels/storage/page_id.h"

namespace tmh::page {

using storage::LineMask;

// Lines in which two 4096-byte pages differ. Both 64-byte aligned.
[[nodiscard]] LineMask differing_lines(const std::byte *a, const std::byte *b) noexcept;

// Of one line, the 8-byte words that differ; bit 0 is the first.
[[nodiscard]] inline std::uint8_t differing_words(const std::byte *a, const std::byte *b) noexcept {
  unsigned mask = 0;
  for (unsigned word = 0; word < kLineBytes / 8; ++word) {
    std::uint64_t x, y;
    std::memcpy(&x, a + 8 * word, 8);
    std::memcpy(&y, b + 8 * word, 8);
    mask |= static_cast<unsigned>(x != y) << word;
  }
  return static_cast<std::uint8_t>(mask);
}

inline void copy_lines(std::byte *to, const std::byte *from, LineMask lines) noexcept {
  if (lines == ~LineMask{0}) {
    std::memcpy(to, from, kPageBytes);
    return;
  }
  while (lines != 0) {
    const auto offset = static_cast<std::size_t>(std::countr_zero(lines)) * kLineBytes;
    std::memcpy(to + offset, from + offset, kLineBytes);
    lines &= lines - 1;
  }
}

}  // namespace tmh::page
