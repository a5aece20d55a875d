// levels/page/lower_level.cpp -- the level below where there is none.
#include "levels/page/lower_level.h"

namespace tmh::page {

LowerLevel &NoLevelBelow::here() noexcept {
  static constinit NoLevelBelow nothing;
  return nothing;
}

}  // namespace tmh::page
