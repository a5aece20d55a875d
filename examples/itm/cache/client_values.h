// examples/itm/cache/client_values.h -- values that tell what they are.
// Shape:     key, sequence, bytes, checksum of everything else, 8 bytes each; then bytes that
//            follow from key and sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cache {

inline constexpr std::size_t kVerifiedBytesMin = 32;

[[nodiscard]] std::string key_text(std::uint64_t key);

// Appends a value. REQUIRES: bytes >= kVerifiedBytesMin.
void append_value(std::uint64_t key, std::uint64_t sequence, std::size_t bytes, std::string *to);

// The value's sequence; nothing: it is torn, or another key's.
[[nodiscard]] std::optional<std::uint64_t> sequence_of(std::string_view value, std::uint64_t key);

}  // namespace cache
