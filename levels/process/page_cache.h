// levels/process/page_cache.h -- with protection keys: how many copies stay for later transactions.
// Method:    a bound. Past it, copies go in the order of their pages, behind those that went last,
//            until a quarter below. Evicted pages that come back say that the bound is too small
//            for what the task works on: it doubles. A task that works for long without that gets
//            half of it: what it has read once does not stay for ever.
// Contexts:  the task's own; note_copied() runs in its fault handler.
// Source:    EXCITE-VM 4.2. Its replacement scans access bits, which user code cannot read.
#pragma once

#include <cstdint>

#include "levels/process/memory.h"

namespace tmh::itm::pages {

class PageCache {
 public:
  // Of a new task, instead of its creator's.
  static void start() noexcept;
  // Pages that were no copies are some from here on.
  static void note_copied(PageNumber first, std::uint32_t count) noexcept;
  // A transaction has ended.
  static void tidy() noexcept;

 private:
  static void evict(std::uint32_t pages) noexcept;
  [[nodiscard]] static std::uint32_t evict_from(PageNumber first, PageNumber end,
                                                std::uint32_t pages) noexcept;

  static inline std::uint32_t bound_ = 0;
  static inline std::uint32_t returned_ = 0, evicted_ = 0;  // since the bound's last change
  static inline std::uint64_t transactions_ = 0;            // since then
  static inline PageNumber hand_ = 0;                       // the next eviction begins here
};

}  // namespace tmh::itm::pages
