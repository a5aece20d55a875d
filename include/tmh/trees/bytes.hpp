// include/tmh/trees/bytes.hpp -- keys and values of any length: how their bytes lie in fields.
// Shape:     BytesView   a key of the caller's, in plain memory: a std::string_view with its
//                        prefix, the first sixteen bytes as two big-endian numbers, so that numbers
//                        compare as bytes do; zeros behind a shorter key.
//            BytesRecord the block of a key and its value, made of words of eight bytes:
//                          word 0          the key's length in the lower half, the value's in the
//                                          upper one
//                          then the key    ceil(length / 8) words, as memcpy puts bytes there
//                          then the value  the same
//                        What the bytes leave free of a last word is zero. A separator of an inner
//                        node is such a block with an empty value.
// Invariant: a block's size follows from word 0, and no access goes beyond it.
// Errors:    std::length_error: a key or value of 4 GiB or more; what the allocator throws.
//            Nothing is left then.
// Contexts:  as the tree's (bptree.hpp). Each word is accessed through its Field, which may end the
//            attempt by an exception: so nothing here that touches a block is noexcept.
// Source:    Bohannon, McIlroy, Rastogi, "Main-memory index structures with fixed-size partial
//            keys", SIGMOD 2001 (the first bytes as a number).
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace tmh::trees {

// As the Value of a tree: bytes of any length (ValuePlace::kWithKey).
struct Bytes {};

// Of a prefix. Measured, 100,000 keys at level 1: where a first word decides, a second one costs a
// tenth; where keys share eight bytes ("customer/..."), searches take 0.4 of the time of one word.
inline constexpr std::size_t kPrefixWords = 2;
using Prefix = std::array<std::uint64_t, kPrefixWords>;

// 0 to 8 bytes as a word, zeros behind them.
[[nodiscard]] inline std::uint64_t word_of_bytes(const char *from, std::size_t bytes) noexcept {
  std::uint64_t word = 0;
  if (bytes != 0) std::memcpy(&word, from, bytes);
  return word;
}
// Numbers that compare as the bytes in memory do.
[[nodiscard]] inline std::uint64_t as_number(std::uint64_t word) noexcept {
  static_assert(std::endian::native == std::endian::little);
  return __builtin_bswap64(word);
}

class BytesView : public std::string_view {
 public:
  template <class Text,
            class = std::enable_if_t<std::is_convertible_v<const Text &, std::string_view>>>
  BytesView(const Text &key) noexcept  // NOLINT(google-explicit-constructor): it is that text
      : std::string_view(key) {
    for (std::size_t i = 0; i < kPrefixWords; ++i) prefix_[i] = as_number(word(i));
  }
  [[nodiscard]] const Prefix &prefix() const noexcept { return prefix_; }
  // Bytes [8i, 8i + 8), zeros behind the end.
  [[nodiscard]] std::uint64_t word(std::size_t i) const noexcept {
    const std::size_t first = i * sizeof(std::uint64_t);
    if (first + sizeof(std::uint64_t) <= size())
      return word_of_bytes(data() + first, sizeof(std::uint64_t));
    return first < size() ? word_of_bytes(data() + first, size() - first) : 0;
  }

 private:
  Prefix prefix_;  // computed once, compared at every step of a search
};

template <template <class> class Field>
class BytesRecord {
 public:
  using Word = Field<std::uint64_t>;
  static constexpr std::size_t kLengthMax = UINT32_MAX;  // of a key, and of a value

  // In bytes: the key, and the value.
  [[nodiscard]] std::size_t key_size() const { return key_bytes(lengths_); }
  [[nodiscard]] std::size_t size() const { return value_bytes(lengths_); }
  // All bytes of the key, or of the value, to plain memory. REQUIRES: room for key_size(), size().
  void copy_key(char *to) const {
    const std::uint64_t lengths = lengths_;
    load(words(), key_bytes(lengths), to);
  }
  void copy(char *to) const {
    const std::uint64_t lengths = lengths_;
    load(words() + words_for(key_bytes(lengths)), value_bytes(lengths), to);
  }
  [[nodiscard]] std::string key() const {
    std::string key(key_size(), '\0');
    load(words(), key.size(), key.data());
    return key;
  }
  [[nodiscard]] std::string value() const {
    const std::uint64_t lengths = lengths_;
    std::string value(value_bytes(lengths), '\0');
    load(words() + words_for(key_bytes(lengths)), value.size(), value.data());
    return value;
  }

 private:
  template <class Key, template <class> class AnyField>
  friend struct KeyForm;

  BytesRecord() = default;  // trivial: a block is stored to where it lies

  static constexpr std::size_t kWordBytes = sizeof(std::uint64_t), kHalfBits = 32;

  [[nodiscard]] static constexpr std::size_t words_for(std::size_t bytes) noexcept {
    return bytes / kWordBytes + (bytes % kWordBytes != 0 ? 1 : 0);
  }
  [[nodiscard]] static constexpr std::size_t key_bytes(std::uint64_t lengths) noexcept {
    return lengths & kLengthMax;
  }
  [[nodiscard]] static constexpr std::size_t value_bytes(std::uint64_t lengths) noexcept {
    return lengths >> kHalfBits;
  }
  [[nodiscard]] static constexpr std::size_t words_of_block(std::uint64_t lengths) noexcept {
    return 1 + words_for(key_bytes(lengths)) + words_for(value_bytes(lengths));
  }
  [[nodiscard]] static std::uint64_t lengths_of(std::string_view key, std::string_view value) {
    if (key.size() > kLengthMax || value.size() > kLengthMax)
      throw std::length_error("tmh::trees: a key or value of 4 GiB or more");
    return std::uint64_t{value.size()} << kHalfBits | key.size();
  }

  // The words behind the lengths: they lie there, in the same block.
  [[nodiscard]] Word *words() { return reinterpret_cast<Word *>(this) + 1; }
  [[nodiscard]] const Word *words() const { return reinterpret_cast<const Word *>(this) + 1; }

  static void store(Word *to, std::string_view bytes) {
    const char *from = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= kWordBytes; left -= kWordBytes, from += kWordBytes)
      *to++ = word_of_bytes(from, kWordBytes);
    if (left != 0) *to = word_of_bytes(from, left);
  }
  static void load(const Word *from, std::size_t bytes, char *to) {
    for (; bytes >= kWordBytes; bytes -= kWordBytes, to += kWordBytes) {
      const std::uint64_t word = *from++;
      std::memcpy(to, &word, kWordBytes);
    }
    if (bytes != 0) {
      const std::uint64_t word = *from;
      std::memcpy(to, &word, bytes);
    }
  }

  template <class Allocator>
  [[nodiscard]] static BytesRecord *allocate(std::uint64_t lengths, const Allocator &allocator) {
    Rebound<Allocator> words(allocator);
    return reinterpret_cast<BytesRecord *>(words.allocate(words_of_block(lengths)));
  }
  template <class Allocator>
  [[nodiscard]] static BytesRecord *make(std::string_view key, std::string_view value,
                                         const Allocator &allocator) {
    const std::uint64_t lengths = lengths_of(key, value);
    auto *const made = allocate(lengths, allocator);
    made->lengths_ = lengths;
    store(made->words(), key);
    store(made->words() + words_for(key.size()), value);
    return made;
  }
  // The key alone.
  template <class Allocator>
  [[nodiscard]] BytesRecord *copy_of_key(const Allocator &allocator) const {
    const std::uint64_t lengths = key_size();
    auto *const made = allocate(lengths, allocator);
    made->lengths_ = lengths;
    std::copy_n(words(), words_for(lengths), made->words());
    return made;
  }
  template <class Allocator>
  void drop(const Allocator &allocator) {
    const std::size_t count = words_of_block(lengths_);
    Rebound<Allocator> words(allocator);
    words.deallocate(reinterpret_cast<Word *>(this), count);
  }
  // False: the value has another number of words, and nothing is changed.
  [[nodiscard]] bool replace(std::string_view value) {
    const std::uint64_t lengths = lengths_;
    if (value.size() > kLengthMax || words_for(value.size()) != words_for(value_bytes(lengths)))
      return false;
    if (value.size() != value_bytes(lengths))
      lengths_ = std::uint64_t{value.size()} << kHalfBits | key_bytes(lengths);
    store(words() + words_for(key_bytes(lengths)), value);
    return true;
  }

  // Below 0, 0, above 0: `key`, whose prefix is this one's, comes before, at, behind it. Where
  // words differ, zeros behind a key's end come first; where all are equal, the shorter key does.
  [[nodiscard]] int compare_behind_prefix(const BytesView &key) const {
    const std::size_t own = key_size();
    const std::size_t shared = words_for(std::min(own, key.size()));
    for (std::size_t i = kPrefixWords; i < shared; ++i) {
      const std::uint64_t word = key.word(i), here = words()[i];
      if (word != here) return as_number(word) < as_number(here) ? -1 : 1;
    }
    return key.size() < own ? -1 : key.size() > own ? 1 : 0;
  }
  [[nodiscard]] Prefix prefix() const {
    Prefix prefix{};
    const std::size_t count = std::min(words_for(key_size()), kPrefixWords);
    for (std::size_t i = 0; i < count; ++i) prefix[i] = as_number(words()[i]);
    return prefix;
  }
  // For judges: nothing but zeros behind the ends of key and value.
  [[nodiscard]] bool is_padded() const {
    const auto is_zero_behind = [](const Word *words, std::size_t bytes) {
      return bytes % kWordBytes == 0 ||
             std::uint64_t{words[bytes / kWordBytes]} >> bytes % kWordBytes * 8 == 0;
    };
    const std::uint64_t lengths = lengths_;
    return is_zero_behind(words(), key_bytes(lengths)) &&
           is_zero_behind(words() + words_for(key_bytes(lengths)), value_bytes(lengths));
  }

  template <class Allocator>
  using Rebound = typename std::allocator_traits<Allocator>::template rebind_alloc<Word>;

  Word lengths_;
};

}  // namespace tmh::trees
