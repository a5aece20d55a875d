// examples/inverted_index/word_table.cpp -- looking for a word's entry.
#include "examples/inverted_index/word_table.h"

#include <cstring>

namespace inverted_index {

WordKey key_of(std::string_view word) noexcept {
  WordKey key{};
  std::memcpy(key.data(), word.data(), word.size());  // a word has at most kWordBytesMax bytes
  return key;
}

std::string_view word_of(const WordKey &key) noexcept {
  const auto *text = reinterpret_cast<const char *>(key.data());
  return {text, ::strnlen(text, kWordBytesMax)};
}

WordEntry &WordTable::entry(const WordKey &key) const {
  // FNV-1a by words, then a multiplication for the low bits
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const std::uint64_t part : key) hash = (hash ^ part) * 0x100'0000'01b3;
  hash ^= hash >> 32;
  hash *= 0x9e37'79b9'7f4a'7c15;
  std::uint64_t index = hash >> (64 - std::countr_zero(entry_count_));
  for (std::uint64_t probes = 0; probes < entry_count_;
       ++probes, index = (index + 1) & (entry_count_ - 1)) {
    WordEntry &found = entries_[index];
    const std::uint64_t first = found.word[0];
    if (first == 0) {
      for (std::size_t i = 0; i < key.size(); ++i) found.word[i] = key[i];
      return found;
    }
    bool is_same = first == key[0];
    for (std::size_t i = 1; is_same && i < key.size(); ++i) is_same = found.word[i] == key[i];
    if (is_same) return found;
  }
  throw std::length_error("the word table is full");
}

}  // namespace inverted_index
