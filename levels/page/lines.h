// levels/page/lines.h -- comparing and copying pages by 64-byte lines.
// Contexts:  everywhere (no calls, no allocation). Views are compared while only this thread stores to them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

#include "levels/storage/page_id.h"

namespace tmh::page {

using storage::LineMask;

// Lines in which two 4096-byte pages differ. Both 64-byte aligned.
[[nodiscard]] LineMask differing_lines(const std::byte *a, const std::byte *b) noexcept;

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
