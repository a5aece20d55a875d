// levels/lock/modes.h -- lock modes, and which of them exclude each other.
// Shape:     a mode is a small number; a matrix has a row for each mode that is held, and in it a
//            bit for each mode that must wait for it. It may be asymmetric. Two matrices are given:
//            readers and one writer, and the five modes of hierarchical locks.
// Source:    LIBTP 3.2.3.
#pragma once

#include <cstdint>
#include <type_traits>

#include "platform/assert.h"

namespace tmh::lock {

inline constexpr std::uint32_t kModesMax = 32;

// The modes of ModeSet::hierarchical(). A matrix of the caller's has numbers of the caller's.
enum class Mode : std::uint32_t {
  kIntendShared,
  kIntendExclusive,
  kShared,
  kSharedIntendExclusive,
  kExclusive
};
// Of ModeSet::shared_exclusive().
inline constexpr Mode kRead{0}, kWrite{1};

// As it lies in the lock table's header: all participants have the same one.
struct ModeSet {
  std::uint32_t count;
  // A bit for each mode that stores: for the victim policies that count write locks.
  std::uint32_t writes;
  // [held], a bit for each mode that waits.
  std::uint32_t conflicts[kModesMax];

  // IS, IX, S, SIX, X.
  [[nodiscard]] static ModeSet hierarchical() noexcept;
  // kRead, kWrite.
  [[nodiscard]] static ModeSet shared_exclusive() noexcept;

  [[nodiscard]] bool is_valid() const noexcept;
  [[nodiscard]] bool has(Mode mode) const noexcept {
    return static_cast<std::uint32_t>(mode) < count;
  }
  // Modes, a bit each, that exclude `wanted` while another locker holds them.
  [[nodiscard]] std::uint32_t excluders(Mode wanted) const noexcept;
  [[nodiscard]] bool is_write(Mode mode) const noexcept { return (writes & bit(mode)) != 0; }
  [[nodiscard]] static constexpr std::uint32_t bit(Mode mode) noexcept {
    return 1u << static_cast<std::uint32_t>(mode) % kModesMax;
  }
  [[nodiscard]] bool operator==(const ModeSet &other) const noexcept;
};
static_assert(std::is_trivially_copyable_v<ModeSet> && sizeof(ModeSet) == 136);

}  // namespace tmh::lock
