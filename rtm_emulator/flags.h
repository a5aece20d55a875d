// rtm_emulator/flags.h -- RFLAGS for the instructions that the emulator does itself.
// Source:    Intel SDM vol. 1, 3.4.3; vol. 2, appendix on condition codes.
#pragma once

#include <cstdint>

#include "rtm_emulator/assert.h"

namespace tmh::rtm {

inline constexpr std::uint64_t kCarryFlag = 1, kParityFlag = 4, kAuxiliaryFlag = 0x10,
                               kZeroFlag = 0x40, kSignFlag = 0x80, kTrapFlag = 0x100,
                               kDirectionFlag = 0x400, kOverflowFlag = 0x800,
                               kResumeFlag = 0x1'0000, kAlignmentFlag = 0x4'0000,
                               kIdFlag = 0x20'0000;
inline constexpr std::uint64_t kArithmeticFlags =
    kCarryFlag | kParityFlag | kAuxiliaryFlag | kZeroFlag | kSignFlag | kOverflowFlag;
// What POPF changes in a user's program.
inline constexpr std::uint64_t kUserFlags =
    kArithmeticFlags | kDirectionFlag | kAlignmentFlag | kIdFlag;
static_assert((kUserFlags & (kTrapFlag | kResumeFlag)) == 0,
              "a transaction's result carries neither over");

// The condition codes of Jcc, 0 (overflow) to 15 (greater).
[[nodiscard]] constexpr bool is_met(std::uint8_t condition, std::uint64_t flags) noexcept {
  TMH_ASSERT(condition < 16);
  const bool carry = (flags & kCarryFlag) != 0, zero = (flags & kZeroFlag) != 0;
  const bool less = ((flags & kSignFlag) != 0) != ((flags & kOverflowFlag) != 0);
  const bool met[] = {
      (flags & kOverflowFlag) != 0, carry, zero,        carry || zero, (flags & kSignFlag) != 0,
      (flags & kParityFlag) != 0,   less,  less || zero};
  return met[condition >> 1] != ((condition & 1) != 0);
}

// CMP of two values of 1, 2, 4 or 8 bytes, zero-extended.
[[nodiscard]] constexpr std::uint64_t flags_of_comparison(std::uint64_t left, std::uint64_t right,
                                                          std::uint32_t bytes) noexcept {
  TMH_ASSERT(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  const std::uint32_t top = bytes * 8 - 1;
  const std::uint64_t mask = bytes >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * bytes) - 1;
  const std::uint64_t difference = (left - right) & mask;
  std::uint64_t flags = left < right ? kCarryFlag : 0;
  if (difference == 0) flags |= kZeroFlag;
  if ((difference >> top & 1) != 0) flags |= kSignFlag;
  if ((((left ^ right) & (left ^ difference)) >> top & 1) != 0) flags |= kOverflowFlag;
  if (((left ^ right ^ difference) & 0x10) != 0) flags |= kAuxiliaryFlag;
  std::uint64_t parity = difference & 0xFF;
  parity ^= parity >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  if ((parity & 1) == 0) flags |= kParityFlag;
  return flags;
}
static_assert(flags_of_comparison(7, 7, 4) == (kZeroFlag | kParityFlag));
static_assert(is_met(2, flags_of_comparison(0, 1, 8)), "jb: 0 is below 1");
static_assert(is_met(15, flags_of_comparison(1, 0xFF, 1)), "jg: 1 is greater than -1");

}  // namespace tmh::rtm
