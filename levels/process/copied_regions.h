// levels/process/copied_regions.h -- regions of which this task has copies: a turn changes each as
// a whole (turns.h).
// Contexts:  the task's own, and its fault handler.
#pragma once

#include <cstdint>
#include <span>

#include "levels/process/memory.h"

namespace tmh::itm::pages {

class CopiedRegions {
 public:
  struct Pages {
    PageNumber first, end;
  };
  // A copy was made of the page.
  static void note(PageNumber page) noexcept;
  // REQUIRES: no copy is left, and it is turned to copies, or no page has been mapped yet.
  static void forget_all() noexcept { count_ = 0; }
  // The region that begins with the page is gone, if it is noted.
  static void forget(PageNumber first) noexcept;
  [[nodiscard]] static std::span<const Pages> all() noexcept { return {regions_, count_}; }

 private:
  static constexpr std::uint32_t kRegions = 256;
  static inline Pages regions_[kRegions];
  static inline std::uint32_t count_ = 0;
};

}  // namespace tmh::itm::pages
