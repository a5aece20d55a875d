// examples/itm/cache/big_endian.h -- numbers in network order, as the binary protocol has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cache {

[[nodiscard]] inline std::uint64_t read_big_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}
inline void write_big_endian(std::uint64_t number, std::size_t bytes, char *at) {
  for (std::size_t i = bytes; i-- > 0; number >>= 8) at[i] = static_cast<char>(number & 0xff);
}

}  // namespace cache
