// tests/support/pool_blocks.h -- blocks of tmh::pools as a judge sees them: whose bytes are whose.
// Shape:     a pattern says of each word which block it belongs to. take_all_free(): what the lists
//            hold, allocated: a block that is in them twice, or is somebody's, is found by its
//            address, and by whoever misses its pattern once those are written to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <tmh/tmh.hpp>

namespace tmh::test {

struct PoolBlock {
  void *address = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t seed = 0;
};

[[nodiscard]] inline std::uint64_t pattern_of(const PoolBlock &block, std::uint64_t word) noexcept {
  return (block.seed + word) * 0x9e3779b97f4a7c15ULL;
}
inline void fill(const PoolBlock &block) {
  auto *const words = static_cast<field<std::uint64_t> *>(block.address);
  for (std::uint64_t i = 0; i < block.bytes / sizeof *words; ++i) words[i] = pattern_of(block, i);
}
[[nodiscard]] inline bool is_intact(const PoolBlock &block) {
  const auto *const words = static_cast<const field<std::uint64_t> *>(block.address);
  for (std::uint64_t i = 0; i < block.bytes / sizeof *words; ++i) {
    if (words[i] != pattern_of(block, i)) return false;
  }
  return true;
}

// The largest block of each size class.
[[nodiscard]] inline std::vector<std::uint64_t> pool_classes() {
  std::vector<std::uint64_t> classes;
  for (std::uint64_t bytes = 64; bytes <= 512; bytes += 64) classes.push_back(bytes);
  for (std::uint64_t power = 512; power < pools::kBlockBytesMax; power *= 2)
    for (std::uint64_t quarter = 1; quarter <= 4; ++quarter)
      classes.push_back(power + quarter * power / 4);
  return classes;
}

// REQUIRES: level 2, and nobody else in the domain.
[[nodiscard]] inline std::vector<PoolBlock> take_all_free(pools *all) {
  std::vector<PoolBlock> taken;
  const std::uint64_t chunks = all->chunks();
  for (const std::uint64_t bytes : pool_classes()) {
    // What is left of a chunk comes before other lanes' blocks.
    while (const std::uint64_t free = all->free_blocks(bytes))
      for (std::uint64_t i = 0; i < free; ++i)
        taken.push_back({all->allocate(bytes), bytes, taken.size()});
  }
  EXPECT_EQ(all->chunks(), chunks);
  return taken;
}

inline void expect_no_overlap(std::vector<PoolBlock> blocks) {
  std::sort(blocks.begin(), blocks.end(),
            [](const PoolBlock &a, const PoolBlock &b) { return a.address < b.address; });
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    EXPECT_LE(static_cast<std::byte *>(blocks[i - 1].address) + blocks[i - 1].bytes,
              blocks[i].address)
        << "blocks of " << blocks[i - 1].bytes << " and " << blocks[i].bytes << " bytes";
  }
}

}  // namespace tmh::test
