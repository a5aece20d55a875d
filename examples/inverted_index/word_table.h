// examples/inverted_index/word_table.h -- how often each word occurs, and in how many files, in a
// hash table of tmh::field: for the second part of the demo, which runs at cache lines while it
// can.
// Shape:     three raw segments. Words: open addressing, an entry is exactly one line. Files: a
//            line each, how far a file is counted. Claims: plain memory, for transactions at pages
//            only.
// Invariant: file f's first words_done words, in their order, are in the table's occurrences, and
//            all of them in its files when is_merged: each changes in the transaction that changes
//            the table. So a worker that was killed is continued, not repeated.
// Contexts:  every access REQUIRES a running instance; zeros are empty tables.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include <tmh/tmh.hpp>

#include "examples/inverted_index/words.h"

namespace inverted_index {

// A word as numbers; the rest of the array is zero. All zero: no word.
using WordKey = std::array<std::uint64_t, kWordBytesMax / sizeof(std::uint64_t)>;
[[nodiscard]] WordKey key_of(std::string_view word) noexcept;
[[nodiscard]] std::string_view word_of(const WordKey &key) noexcept;

struct alignas(tmh::kLineBytes) WordEntry {
  tmh::field<std::uint64_t> word[kWordBytesMax / sizeof(std::uint64_t)];
  tmh::field<std::uint64_t> occurrences;
  tmh::field<std::uint64_t> files;
};
static_assert(sizeof(WordEntry) == tmh::kLineBytes);

struct alignas(tmh::kLineBytes) FileProgress {
  tmh::field<std::uint64_t> words_done;
  tmh::field<std::uint64_t> is_merged;
};

inline constexpr std::size_t kClaimantsMax = 256;
struct Claims {
  std::uint64_t next_file;
  std::uint64_t held[kClaimantsMax];  // by worker slot: file + 1, 0: none
};
static_assert(sizeof(Claims) <= tmh::kPageBytes);

class WordTable {
 public:
  // entry_count: a power of two, more than there will be words.
  WordTable(std::byte *base, std::uint64_t entry_count) noexcept
      : entries_(reinterpret_cast<WordEntry *>(base)), entry_count_(entry_count) {}
  // The word's entry; takes an empty one when there is none. Throws std::length_error when all are
  // taken.
  [[nodiscard]] WordEntry &entry(const WordKey &key) const;
  [[nodiscard]] const WordEntry &at(std::uint64_t index) const noexcept { return entries_[index]; }
  [[nodiscard]] std::uint64_t entry_count() const noexcept { return entry_count_; }

 private:
  WordEntry *entries_;
  std::uint64_t entry_count_;
};

}  // namespace inverted_index
