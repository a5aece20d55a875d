// levels/page/views/areas.h -- how many areas of the address space (vm.max_map_count) one engine's
// protections may have made, and so in how large blocks of pages it opens its views.
// Shape:     a count that only a reset of the views takes back. It is an estimate. The limit is
//            65,530 areas; an isolated page costs two. 12,288 single pages and 2 x 6,144 blocks use
//            49,152 of them; blocks of 16 MiB then merge.
// Sharing:   one per engine; engines of other threads have their share of the areas.
// Contexts:  async-signal-safe.
// Source:    thesis, appendix A.1 item 4 (escalation to larger ranges).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tmh::page {

class Areas {
 public:
  Areas() noexcept { engines_here_.fetch_add(1, std::memory_order_relaxed); }
  Areas(const Areas &) = delete;
  Areas &operator=(const Areas &) = delete;
  ~Areas() { engines_here_.fetch_sub(1, std::memory_order_relaxed); }

  // A call that splits areas.
  void note_protection() noexcept { ++protections_; }
  // The views are as if never used.
  void reset() noexcept { protections_ = 0; }
  // Signal tracking: in blocks of so many pages are views opened.
  [[nodiscard]] std::uint64_t block_pages() const noexcept {
    const std::uint64_t protections = protections_ * engines_here_.load(std::memory_order_relaxed);
    if (protections < kBlocksAfter) return 1;
    if (protections < kMediumBlocksAfter) return 16;
    if (protections < kLargeBlocksAfter) return 256;
    return 4096;
  }
  // From here on the largest of them: an area was refused.
  void use_large_blocks() noexcept { protections_ = std::max(protections_, kLargeBlocksAfter); }
  [[nodiscard]] bool are_many() const noexcept { return protections_ > kBlocksAfter / 2; }

 private:
  // protections_ after which blocks have 16, 256, 4096 pages.
  static constexpr std::uint64_t kBlocksAfter = 12288, kMediumBlocksAfter = 18432,
                                 kLargeBlocksAfter = 24576;
  // relaxed: divides the number of areas roughly
  static inline std::atomic<std::uint32_t> engines_here_{0};

  std::uint64_t protections_ = 0;
};

}  // namespace tmh::page
