// examples/inverted_index/words.h -- what a word is, and which words of a file belong to which part
// of it.
// Invariant: cutting a file into parts at any offsets gives, over all parts, exactly the words of
//            the whole file: a word belongs to the part in which it begins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace inverted_index {

// Longer runs of letters and digits are data (hashes, base64), not words. 48: the longest words of
// Debian's American word list have 23 letters, and compound names in Perl's modules stay below 48.
inline constexpr std::size_t kWordBytesMax = 48;

// Letters and digits of ASCII, and every byte of a UTF-8 sequence.
[[nodiscard]] constexpr bool is_word_byte(char byte) noexcept {
  const auto value = static_cast<unsigned char>(byte);
  return (value >= 'a' && value <= 'z') || (value >= 'A' && value <= 'Z') ||
         (value >= '0' && value <= '9') || value >= 0x80;
}

[[nodiscard]] constexpr char lower(char byte) noexcept {
  return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte;
}

// Calls sink(std::string_view) for every word of `text`, in lower case. The view is valid during
// the call only.
template <class Sink>
void each_word(std::string_view text, Sink &&sink) {
  std::array<char, kWordBytesMax> word;
  std::size_t position = 0;
  while (position < text.size()) {
    if (!is_word_byte(text[position])) {
      ++position;
      continue;
    }
    std::size_t bytes = 0;
    for (; position < text.size() && is_word_byte(text[position]); ++position, ++bytes) {
      if (bytes < kWordBytesMax) word[bytes] = lower(text[position]);
    }
    if (bytes <= kWordBytesMax) sink(std::string_view(word.data(), bytes));
  }
}

// The part [first, end) of a file, with as much around it as its words need.
struct Excerpt {
  std::string bytes;
  std::size_t lead_bytes = 0;  // bytes before `first`: 0 or 1
  std::size_t own_bytes = 0;   // end - first
};

// Reads it. `file_bytes`: where the document ends. Throws std::runtime_error with one sentence.
[[nodiscard]] Excerpt read_excerpt(const std::string &path, std::uint64_t first, std::uint64_t end,
                                   std::uint64_t file_bytes);

// What is left of an excerpt after dropping the end of a word that began before it, and the words
// that begin after it.
[[nodiscard]] std::string_view own_text(const Excerpt &excerpt) noexcept;

}  // namespace inverted_index
