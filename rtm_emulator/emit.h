// rtm_emulator/emit.h -- the few instructions that thunks are glued together with.
// Contexts:  everywhere; writes to memory of the emulator's own.
#pragma once

#include <cstdint>

#include "rtm_emulator/assert.h"

namespace tmh::rtm {

class Emitter {
 public:
  explicit Emitter(std::uint8_t *at) noexcept : at_(at) { TMH_ASSERT(at != nullptr); }

  [[nodiscard]] std::uint8_t *at() const noexcept { return at_; }
  [[nodiscard]] std::uint64_t address() const noexcept {
    return reinterpret_cast<std::uint64_t>(at_);
  }

  void bytes(const std::uint8_t *from, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) *at_++ = from[i];
  }
  void byte(unsigned value) noexcept { *at_++ = static_cast<std::uint8_t>(value); }
  void word32(std::uint32_t value) noexcept {
    for (int i = 0; i < 4; ++i) byte(value >> 8 * i & 0xFF);
  }
  // The last four bytes of an instruction that addresses memory relative to its end, which lies
  // `behind` bytes further.
  void relative(const void *memory, std::uint32_t behind = 0) noexcept {
    const std::uint64_t distance =
        reinterpret_cast<std::uint64_t>(memory) - (address() + 4 + behind);
    TMH_ASSERT(distance + 0x8000'0000 <= 0xFFFF'FFFF);  // within 2 GiB, in front or behind
    word32(static_cast<std::uint32_t>(distance));
  }
  void load(unsigned reg, const std::uint64_t *from) noexcept { move(0x8B, reg, from); }
  void store(const std::uint64_t *to, unsigned reg) noexcept { move(0x89, reg, to); }
  void jump(std::uint64_t target) noexcept {
    byte(0xE9);
    relative(reinterpret_cast<const void *>(target));
  }

 private:
  void move(unsigned opcode, unsigned reg, const std::uint64_t *memory) noexcept {
    TMH_ASSERT(reg < 16);
    byte(0x48 | (reg >= 8 ? 4u : 0u));
    byte(opcode);
    byte((reg & 7) << 3 | 5);
    relative(memory);
  }

  std::uint8_t *at_;
};

}  // namespace tmh::rtm
