// examples/inverted_index/words.cpp -- reads a part of a file and trims it to the words that begin
// there.
#include "examples/inverted_index/words.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "examples/inverted_index/file.h"

namespace inverted_index {

Excerpt read_excerpt(const std::string &path, std::uint64_t first, std::uint64_t end,
                     std::uint64_t file_bytes) {
  const File file(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (!file)
    throw std::runtime_error(fmt::format("cannot open {}: {}", path, std::strerror(file.error())));
  Excerpt excerpt;
  excerpt.lead_bytes = first == 0 ? 0 : 1;
  excerpt.own_bytes = static_cast<std::size_t>(end - first);
  // One byte more than the longest word: enough to see that a run which begins here is too long to
  // be one.
  const std::uint64_t to = std::min<std::uint64_t>(end + kWordBytesMax + 1, file_bytes);
  const std::uint64_t from = first - excerpt.lead_bytes;
  Read read = file.read_at(from, static_cast<std::size_t>(to - from));
  if (read.error != 0)
    throw std::runtime_error(fmt::format("cannot read {}: {}", path, std::strerror(read.error)));
  if (read.bytes.size() < to - from)
    throw std::runtime_error(fmt::format("{} became shorter during the run", path));
  excerpt.bytes = std::move(read.bytes);
  return excerpt;
}

std::string_view own_text(const Excerpt &excerpt) noexcept {
  const std::string_view text = excerpt.bytes;
  std::size_t first = excerpt.lead_bytes;
  std::size_t end = excerpt.lead_bytes + excerpt.own_bytes;
  if (first == 1 && is_word_byte(text[0])) {
    while (first < end && is_word_byte(text[first])) ++first;
  }
  if (first == end) return {};
  if (is_word_byte(text[end - 1])) {
    while (end < text.size() && is_word_byte(text[end])) ++end;
  }
  return text.substr(first, end - first);
}

}  // namespace inverted_index
