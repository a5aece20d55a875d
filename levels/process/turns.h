// levels/process/turns.h -- without protection keys: mprotect(2) makes copies or home
// accessible.
// Shape:     a turn changes each region that has copies as a whole (a part of it would be a mapping
//            that the kernel splits off and joins again), then each mapping of home.
// Invariant: turned to home, no page of such a region has rights but home's and the task's own;
//            turned to copies, no mapping of home has, but pages of the task's own.
// Contexts:  as mappings.h.
#pragma once

#include <cstdint>

#include "levels/process/memory.h"

namespace tmh::itm::pages {

class Turns {
 public:
  static void turn(bool is_to_copies) noexcept;
  [[nodiscard]] static bool is_to_copies() noexcept { return is_to_copies_; }

 private:
  static void put_rights(PageNumber first, PageNumber end, int rights) noexcept;

  static inline bool is_to_copies_ = false;
};

}  // namespace tmh::itm::pages
