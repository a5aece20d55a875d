// compat/libtp/words.h -- bytes of a segment, loaded and stored through the running instance.
// Contexts:  in an instance, of any level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <tmh/field.hpp>

#include "platform/assert.h"

namespace tmh::tp {

// Calls word(at, offset) for each whole word of [at, at + bytes) that lies as a word does, and
// byte(at, offset) for the rest.
template <class Byte, class OnWord, class OnByte>
void for_each_word(Byte *at, std::size_t bytes, const OnWord &on_word, const OnByte &on_byte) {
  TMH_ASSERT(at != nullptr || bytes == 0);
  std::size_t i = 0;
  for (; i < bytes && reinterpret_cast<std::uintptr_t>(at + i) % 8 != 0; ++i) on_byte(at + i, i);
  for (; i + 8 <= bytes; i += 8) on_word(at + i, i);
  for (; i < bytes; ++i) on_byte(at + i, i);
}

inline void load_bytes(const std::byte *from, std::byte *to, std::size_t bytes) {
  for_each_word(
      from, bytes,
      [&](const std::byte *at, std::size_t i) {
        const std::uint64_t word = reinterpret_cast<const field<std::uint64_t> *>(at)->load();
        std::memcpy(to + i, &word, sizeof word);
      },
      [&](const std::byte *at, std::size_t i) {
        to[i] = reinterpret_cast<const field<std::byte> *>(at)->load();
      });
}

inline void store_bytes(std::byte *to, const std::byte *from, std::size_t bytes) {
  for_each_word(
      to, bytes,
      [&](std::byte *at, std::size_t i) {
        std::uint64_t word = 0;
        std::memcpy(&word, from + i, sizeof word);
        reinterpret_cast<field<std::uint64_t> *>(at)->store(word);
      },
      [&](std::byte *at, std::size_t i) {
        reinterpret_cast<field<std::byte> *>(at)->store(from[i]);
      });
}

}  // namespace tmh::tp
