// levels/page/shared/lines.h -- comparing and copying pages by 64-byte lines.
// Ordering:  level 1 loads from home, and stores there, without a lock. What may happen at the same
//            time goes word by word: copy_lines_home() and copy_lines_of_home().
// Contexts:  everywhere (no calls, no allocation). Views are compared while only this thread stores
//            to them.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "storage/page_id.h"

namespace tmh::page {

using storage::LineMask;

// Lines in which two 4096-byte pages differ.
[[nodiscard]] LineMask differing_lines(const std::byte *a, const std::byte *b) noexcept;

// A word of a page. Atomic, because level 1 may be storing to home (copy_lines_of_home()), or seem
// to (lines.cpp). relaxed: orders nothing.
[[nodiscard]] inline std::uint64_t load_word(const std::byte *at) noexcept {
  auto *word = reinterpret_cast<std::uint64_t *>(const_cast<std::byte *>(at));
  return std::atomic_ref(*word).load(std::memory_order_relaxed);
}

// Of one line, the 8-byte words that differ; bit 0 is the first.
[[nodiscard]] inline std::uint8_t differing_words(const std::byte *a, const std::byte *b) noexcept {
  unsigned mask = 0;
  for (unsigned word = 0; word < kLineBytes / 8; ++word) {
    mask |= static_cast<unsigned>(load_word(a + 8 * word) != load_word(b + 8 * word)) << word;
  }
  return static_cast<std::uint8_t>(mask);
}

// The same of each of these lines of two pages: words[line].
void differing_words(const std::byte *a, const std::byte *b, LineMask lines,
                     std::uint8_t *words) noexcept;

// For bench/ablation: false makes this process compare word by word.
void use_vectors(bool use) noexcept;

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

namespace detail {
template <class CopyWord>
inline void for_words(LineMask lines, CopyWord copy) noexcept {
  for (; lines != 0; lines &= lines - 1) {
    const auto line = static_cast<std::size_t>(std::countr_zero(lines)) * kLineBytes;
    for (std::size_t at = line; at < line + kLineBytes; at += 8) copy(at);
  }
}
}  // namespace detail

// To home, with a level below: a reader there that was on its way when the page was taken from it
// loads 1 to 8 aligned bytes, and then looks at its line's word once more. Stores of 8 bytes, so it
// loads what was there or what comes.
// release: pairs with the acquire of that load (detail::line_load()). Who loads what is stored here
// sees all that came before, thus the page's recall: at its second look the line word is in U, or
// newer, and it drops what it has loaded.
// 1 ns more per line than copy_lines() and 0.15 us per whole page while they are in the cache,
// nothing otherwise (2-core VM).
inline void copy_lines_home(std::byte *home, const std::byte *from, LineMask lines) noexcept {
  detail::for_words(lines, [&](std::size_t at) {
    std::uint64_t word;
    std::memcpy(&word, from + at, 8);
    std::atomic_ref(*reinterpret_cast<std::uint64_t *>(home + at))
        .store(word, std::memory_order_release);
  });
}

// From home, with a level below, to which the page may belong by now. relaxed: what level 1 has
// stored there is used by nobody; the caller says how it knows.
inline void copy_lines_of_home(std::byte *to, const std::byte *home, LineMask lines) noexcept {
  detail::for_words(lines, [&](std::size_t at) {
    const std::uint64_t word = load_word(home + at);
    std::memcpy(to + at, &word, 8);
  });
}

}  // namespace tmh::page
