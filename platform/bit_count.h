// platform/bit_count.h -- how many bits are set: std::popcount() is a call where the compiler may
// not use the processor's instruction, as on any x86-64 processor.
// Contexts:  everywhere.
#pragma once

#include <cstdint>

namespace tmh::platform {

// By pairs, nibbles and bytes; the product adds the bytes up in the uppermost one.
[[nodiscard]] constexpr unsigned bit_count(std::uint64_t bits) noexcept {
  bits -= bits >> 1 & 0x5555'5555'5555'5555;
  bits = (bits & 0x3333'3333'3333'3333) + (bits >> 2 & 0x3333'3333'3333'3333);
  return static_cast<unsigned>(
      ((bits + (bits >> 4)) & 0x0f0f'0f0f'0f0f'0f0f) * 0x0101'0101'0101'0101 >> 56);
}
static_assert(bit_count(0) == 0 && bit_count(~std::uint64_t{0}) == 64 && bit_count(0xf1) == 5);

}  // namespace tmh::platform
