// levels/page/recaller.cpp -- what answers where no level is below.
#include "levels/page/recaller.h"

namespace tmh::page {

Recaller &NothingToRecall::here() noexcept {
  static constinit NothingToRecall nothing;
  return nothing;
}

}  // namespace tmh::page
