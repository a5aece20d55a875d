// tools/print.cpp -- writing, and noticing when it fails.
#include "tools/print.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>

#include <fmt/format.h>

#include "platform/assert.h"
#include "platform/failure.h"
#include "tools/failure.h"

namespace tmh::tools {

namespace {
std::string text_of(const Json &document, int indent) { return document.dump(indent) + "\n"; }

// Of the character that the text begins with; 0: it begins with none. Shortest forms only, no
// surrogates (RFC 3629).
std::size_t utf8_bytes(std::string_view text, std::uint32_t *out) {
  TMH_ASSERT(!text.empty() && out != nullptr);
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80       ? 1
                            : first >> 5 == 6  ? 2
                            : first >> 4 == 14 ? 3
                            : first >> 3 == 30 ? 4
                                               : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  std::uint32_t code = bytes == 1 ? first : first & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if (next >> 6 != 2) return 0;
    code = code << 6 | (next & 0x3fu);
  }
  *out = code;
  return code < kSmallest[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0
                                                                                         : bytes;
}
}  // namespace

void print(const std::string &text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    check(platform::fail_errno(Errc::kIo, "standard output"));
}
std::string text_of_json(const Json &document) { return text_of(document, 2); }
void print(const Json &document) { print(text_of_json(document)); }
void print_line(const Json &document) { print(text_of(document, -1)); }

std::string printable(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    std::uint32_t code = 0;
    const std::size_t wide = utf8_bytes(bytes, &code);
    const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const std::size_t taken = std::max<std::size_t>(wide, 1);
    TMH_ASSERT(taken <= bytes.size());
    if (wide != 0 && !is_control)
      text += bytes.substr(0, taken);
    else
      for (const char byte : bytes.substr(0, taken))
        text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    bytes.remove_prefix(taken);
  }
  return text;
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0) check(platform::fail_errno(Errc::kIo, "standard output"));
}

void print_error(const std::string &text) noexcept {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

}  // namespace tmh::tools
