#include "examples/itm/cache/client_values.h"

#include <array>
#include <cstring>

#include "examples/workloads/random.hpp"

namespace cache {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

std::uint64_t word_at(std::string_view value, std::size_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, value.data() + at, kWord);
  return word;
}
std::uint64_t checksum_of(std::string_view value) {
  constexpr std::size_t kChecksumAt = 3 * kWord;
  std::uint64_t sum = 0;
  const auto add = [&sum](std::uint64_t word) {
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
    sum ^= sum >> 29;
  };
  std::size_t at = 0;
  for (; at + kWord <= value.size(); at += kWord)
    if (at != kChecksumAt) add(word_at(value, at));
  for (; at < value.size(); ++at) add(static_cast<unsigned char>(value[at]));
  return sum;
}

}  // namespace

std::string key_text(std::uint64_t key) { return "key-" + std::to_string(key); }

void append_value(std::uint64_t key, std::uint64_t sequence, std::size_t bytes, std::string *to) {
  const std::size_t first = to->size();
  to->resize(first + bytes);
  char *value = to->data() + first;
  workloads::Random random(workloads::fnv_hash(key) ^ sequence);
  for (std::size_t at = kVerifiedBytesMin; at < bytes; at += kWord) {
    const std::uint64_t word = random.next();
    std::memcpy(value + at, &word, bytes - at < kWord ? bytes - at : kWord);
  }
  std::array<std::uint64_t, 4> head = {key, sequence, bytes, 0};
  std::memcpy(value, head.data(), sizeof head);
  head[3] = checksum_of({value, bytes});
  std::memcpy(value, head.data(), sizeof head);
}

std::optional<std::uint64_t> sequence_of(std::string_view value, std::uint64_t key) {
  if (value.size() < kVerifiedBytesMin || word_at(value, 0) != key ||
      word_at(value, 2 * kWord) != value.size() || word_at(value, 3 * kWord) != checksum_of(value))
    return {};
  return word_at(value, kWord);
}

}  // namespace cache
