// examples/workloads/mixed.hpp -- small and huge instances over the same words, whatever a word is:
// a plain number or a tmh::field.
// Shape:     small: two transfers between random words. Huge: adds 1 to one word of each of some
//            consecutive pages, or to one of each of several lines there; the lines differ from
//            page to page, so that a cache of any geometry is filled evenly.
// Invariant: all words add up to what the huge instances added.
// Contexts:  each function inside one transaction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace workloads {

inline constexpr std::uint64_t kWordsPerPage = 4096 / sizeof(std::uint64_t),
                               kWordsPerLine = 64 / sizeof(std::uint64_t);
inline constexpr unsigned kSmallWords = 4;

[[nodiscard]] constexpr std::uint64_t huge_word(std::uint64_t page,
                                                std::uint64_t line = 0) noexcept {
  return page * kWordsPerPage + (page + line) % (kWordsPerPage / kWordsPerLine) * kWordsPerLine;
}

// indices: kSmallWords of them.
template <class Word>
void transfer(Word *words, const std::uint64_t *indices) {
  for (unsigned i = 0; i < kSmallWords; i += 2) {
    --words[indices[i]];
    ++words[indices[i + 1]];
  }
}

template <class Word>
void add_one(Word *words, std::uint64_t first_page, std::uint64_t pages, std::uint64_t lines = 1) {
  for (std::uint64_t i = 0; i < pages; ++i)
    for (std::uint64_t line = 0; line < lines; ++line) ++words[huge_word(first_page + i, line)];
}

}  // namespace workloads
