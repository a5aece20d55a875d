// levels/process/heap/size_classes.h -- sizes of small blocks, and numbers that follow from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tmh::itm::pages {

struct SizeClass {
  std::uint32_t bytes;
  // Chunks of a span: 1, or 4 where 1 would have fewer than 8 blocks.
  std::uint32_t chunks;
  std::uint32_t blocks;
  std::uint32_t words;
  // index = offset * inverse >> kInverseShift, right for every offset in a span.
  std::uint64_t inverse;
};

inline constexpr std::size_t kSmallMax = 32 * 1024;
inline constexpr std::size_t kInverseShift = 40;

namespace detail {
// At most a quarter of a block of 257 bytes or more is wasted. From 128 bytes on, multiples of a
// line; 96, because many nodes of trees are 72 to 96.
inline constexpr std::array<std::uint32_t, 34> kSizes = {
    16,   32,   48,   64,   96,    128,   192,   256,   320,   384,  448,  512,
    640,  768,  896,  1024, 1280,  1536,  1792,  2048,  2560,  3072, 3584, 4096,
    5120, 6144, 7168, 8192, 12288, 16384, 20480, 24576, 28672, 32768};

consteval auto size_classes() {
  std::array<SizeClass, kSizes.size()> classes{};
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const std::uint32_t bytes = kSizes[i], chunks = bytes > 8192 ? 4 : 1;
    const std::uint32_t blocks = chunks * 65536 / bytes;
    classes[i] = {bytes, chunks, blocks, (blocks + 63) / 64,
                  ((std::uint64_t{1} << kInverseShift) + bytes - 1) / bytes};
  }
  return classes;
}

// By (bytes + 15) / 16 up to 1024, by (bytes + 255) / 256 above.
template <std::size_t count>
consteval auto classes_by(std::size_t grain) {
  std::array<std::uint8_t, count> by{};
  for (std::size_t i = 0; i < count; ++i)
    while (kSizes[by[i]] < i * grain) ++by[i];
  return by;
}
inline constexpr auto kByLine = classes_by<65>(16);
inline constexpr auto kByPart = classes_by<129>(256);
}  // namespace detail

inline constexpr auto kSizeClasses = detail::size_classes();
inline constexpr std::size_t kClassCount = kSizeClasses.size();

// REQUIRES: bytes <= kSmallMax.
[[nodiscard]] constexpr std::size_t class_of(std::size_t bytes) noexcept {
  return bytes <= 1024 ? detail::kByLine[(bytes + 15) / 16] : detail::kByPart[(bytes + 255) / 256];
}

// Each block's first and last byte have its index.
consteval bool are_inverses_right() {
  for (const SizeClass &each : kSizeClasses)
    for (std::uint64_t i = 0; i < each.blocks; ++i)
      if (i * each.bytes * each.inverse >> kInverseShift != i ||
          ((i + 1) * each.bytes - 1) * each.inverse >> kInverseShift != i)
        return false;
  return true;
}
static_assert(are_inverses_right());
static_assert(class_of(0) == 0 && class_of(16) == 0 && class_of(17) == 1 && class_of(1025) == 16 &&
              class_of(kSmallMax) == kClassCount - 1);

}  // namespace tmh::itm::pages
